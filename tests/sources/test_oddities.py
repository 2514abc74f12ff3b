"""Every source with the oddities of real files: each cell of the table is read right, or refused by name.

A cell is a function that writes files into a folder and returns how to open them, and what must come of it:
the items, or `Refused` with the words that the error must have. An error may come when the view is built,
when its length is needed, or when an item is read.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pickle
import re
import sqlite3
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

from .test_table import same


@dataclass(frozen=True)
class Refused:
    """The error must contain each of these patterns."""

    patterns: tuple[str, ...]


def refused(*patterns: str) -> Refused:
    return Refused(patterns)


Cell = Callable[[Path], tuple[Callable[[], Any], Any]]
CELLS: dict[tuple[str, str], tuple[Cell, tuple[str, ...]]] = {}


def cell(source: str, oddity: str, *needs: str) -> Callable[[Cell], Cell]:
    def register(make: Cell) -> Cell:
        assert (source, oddity) not in CELLS
        CELLS[source, oddity] = make, needs
        return make

    return register


def text_of(error: BaseException) -> str:
    """Return what a person reads: the error, its notes and its causes."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    cause = "" if error.__cause__ is None else text_of(error.__cause__)
    return f"{type(error).__name__}: {error}\n{notes}\n{cause}"


@pytest.mark.parametrize(("source", "oddity"), CELLS)
def test_cell_is_read_right_or_refused_by_name(source: str, oddity: str, tmp_path: Path) -> None:
    make, needs = CELLS[source, oddity]
    for library in needs:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    open_view, expected = make(tmp_path)
    if isinstance(expected, Refused):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is checked below
            list(open_view())
        for pattern in expected.patterns:
            assert re.search(pattern, text_of(caught.value)), text_of(caught.value)
        return
    view = open_view()
    assert same(list(view), expected)
    again = pickle.loads(pickle.dumps(view))
    indices = list(range(len(expected)))[::-1]
    for read in (view, again):
        assert same([read[i] for i in indices], expected[::-1])
        assert same(list(read.__getitems__(indices)), expected[::-1])


# -------------------------------------------------------------------- files


@cell("files", "pipe")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    os.mkfifo(folder / "b.txt")
    return lambda: sources.files(folder), [str(folder / "a.txt")]


@cell("files", "pipe, pattern")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    os.mkfifo(folder / "b.txt")
    return lambda: sources.files(folder / "*.txt"), [str(folder / "a.txt")]


@cell("files", "link to a file")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    (folder / "b.txt").symlink_to("a.txt")
    return lambda: sources.files(folder), [str(folder / "a.txt"), str(folder / "b.txt")]


@cell("files", "link to a folder")
def _(folder: Path) -> Any:
    (folder / "deep").mkdir()
    (folder / "deep" / "a.txt").touch()
    (folder / "shown").mkdir()
    (folder / "shown" / "link").symlink_to("../deep")
    return lambda: sources.files(folder / "shown"), [str(folder / "shown" / "link" / "a.txt")]


@cell("files", "links in a circle")
def _(folder: Path) -> Any:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    (folder / "a" / "1.txt").touch()
    (folder / "a" / "up").symlink_to("..")
    (folder / "a" / "other").symlink_to("../b")
    (folder / "b" / "back").symlink_to("../a")
    return lambda: sources.files(folder), [str(folder / "a" / "1.txt")]


@cell("files", "dead link")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    (folder / "b.txt").symlink_to("gone.txt")
    return lambda: sources.files(folder), refused(r"b\.txt' is a link to 'gone\.txt'", "remove it")


@cell("files", "dead link, pattern")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    (folder / "b.txt").symlink_to("gone.txt")
    return lambda: sources.files(folder / "*.txt"), refused(r"b\.txt' is a link to 'gone\.txt'")


@cell("files", "dead link of another suffix")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    (folder / "b.log").symlink_to("gone.txt")
    return lambda: sources.files(folder, suffixes=[".txt"]), [str(folder / "a.txt")]


@cell("files", "name with letters of patterns")
def _(folder: Path) -> Any:
    (folder / "a[1].txt").touch()
    (folder / "a1.txt").touch()
    return lambda: sources.files(folder / "a[1].txt"), [str(folder / "a[1].txt")]


@cell("files", "names of one number")
def _(folder: Path) -> Any:
    names = ["01", "1", "001"]
    for name in names:
        (folder / name).touch()
    return lambda: sources.files(folder), [str(folder / name) for name in sorted(names)]


@cell("files", "broken file")
def _(folder: Path) -> Any:
    (folder / "a.txt").write_text("x")
    return lambda: sources.files(folder, read=lambda path: int(Path(path).read_text())), refused(r"a\.txt")


@cell("files", "empty folder")
def _(folder: Path) -> Any:
    return lambda: sources.files(folder), refused("there is no file")


# -------------------------------------------------------------------- images

PIXELS = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)


def images(folder: Path, mode: str | None = "RGB", **options: Any) -> Callable[[], Any]:
    return lambda: sources.images(folder, mode, **options)


def turned(folder: Path, suffix: str) -> Any:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    Image.fromarray(PIXELS).save(folder / f"a{suffix}", exif=exif)
    return images(folder), [np.rot90(PIXELS, -1)]


for suffix in (".png", ".tif"):
    cell("images", f"orientation, {suffix}", "PIL")(lambda folder, suffix=suffix: turned(folder, suffix))


@cell("images", "orientation, jpeg", "PIL")
def _(folder: Path) -> Any:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.full((4, 8, 3), 9, np.uint8)).save(folder / "a.jpg", exif=exif)
    return images(folder), [np.full((8, 4, 3), 9, np.uint8)]


def frames(folder: Path, suffix: str) -> Any:
    from PIL import Image

    pages = [Image.new("L", (3, 2), 40 * k) for k in range(3)]
    pages[0].save(folder / f"a{suffix}", save_all=True, append_images=pages[1:])
    return images(folder), refused("has 3 frames", r"files\(path, read=", rf"a\{suffix}")


for suffix in (".gif", ".tif", ".png"):
    cell("images", f"frames, {suffix}", "PIL")(lambda folder, suffix=suffix: frames(folder, suffix))


deep = np.array([[0, 300, 30000, 65535]], np.uint16)


def saved(folder: Path, array: Any, suffix: str) -> None:
    from PIL import Image

    Image.fromarray(array).save(folder / f"a{suffix}")


@cell("images", "16 bit", "PIL")
def _(folder: Path) -> Any:
    saved(folder, deep, ".png")
    return images(folder, None), [deep]


@cell("images", "channel without a name", "PIL", "tifffile")
def _(folder: Path) -> Any:
    import tifffile

    bands = np.zeros((2, 4, 4), np.uint8)
    tifffile.imwrite(folder / "a.tif", bands, photometric="rgb", extrasamples=["unspecified"])
    return images(folder, None), refused("without some of its channels", "mode='RGB'", r"a\.tif")


@cell("images", "16 bit as RGB", "PIL")
def _(folder: Path) -> Any:
    saved(folder, deep, ".png")
    return images(folder), refused("'RGB' would clip", "mode=None", r"a\.png")


@cell("images", "floats", "PIL")
def _(folder: Path) -> Any:
    floats = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    saved(folder, floats, ".tif")
    return images(folder, None), [floats]


@cell("images", "floats as L", "PIL")
def _(folder: Path) -> Any:
    saved(folder, np.zeros((2, 3), np.float32), ".tif")
    return images(folder, "L"), refused("'L' would clip", r"a\.tif")


@cell("images", "32 bit without a sign", "PIL", "tifffile")
def _(folder: Path) -> Any:
    import tifffile

    large = np.array([[0, 3_000_000_000]], np.uint32)
    tifffile.imwrite(folder / "a.tif", large)
    return images(folder, None), [large]


@cell("images", "signed 8 bit", "PIL", "tifffile")
def _(folder: Path) -> Any:
    import tifffile

    signed = np.array([[0, -1]], np.int8)
    tifffile.imwrite(folder / "a.tif", signed)
    return images(folder, None), refused("signed", r"files\(path, read=", r"a\.tif")


@cell("images", "16 bit colour", "PIL", "tifffile")
def _(folder: Path) -> Any:
    import tifffile

    colour = np.stack([deep] * 3, -1)
    tifffile.imwrite(folder / "a.tif", colour, photometric="rgb")
    return images(folder, None), refused("upper 8 of its 16 bits", "mode='RGB'", r"a\.tif")


@cell("images", "white is zero", "PIL", "tifffile")
def _(folder: Path) -> Any:
    import tifffile

    tifffile.imwrite(folder / "a.tif", np.array([[0, 255]], np.uint8), photometric="miniswhite")
    return images(folder, None), [np.array([[255, 0]], np.uint8)]


for dtype in ("uint16", "float32"):

    @cell("images", f"white is zero, {dtype}", "PIL", "tifffile")
    def _(folder: Path, dtype: str = dtype) -> Any:
        import tifffile

        tifffile.imwrite(folder / "a.tif", deep.astype(dtype), photometric="miniswhite")
        return images(folder, None), refused(
            "its white, which is 0, as black", r"files\(path, read=", r"a\.tif"
        )


@cell("images", "palette as it is", "PIL")
def _(folder: Path) -> Any:
    from PIL import Image

    image = Image.new("P", (2, 2), 3)
    image.putpalette([1, 2, 3] * 256)
    image.save(folder / "a.png")
    return images(folder, None), [np.full((2, 2), 3, np.uint8)]


@cell("images", "palette with alpha as RGB", "PIL")
def _(folder: Path) -> Any:
    from PIL import Image

    image = Image.new("P", (2, 2))
    image.putpalette([1, 2, 3] * 256)
    image.save(folder / "a.png", transparency=bytes([0, 255]))
    return images(folder), [np.full((2, 2, 3), [1, 2, 3], np.uint8)]


@cell("images", "alpha as it is", "PIL")
def _(folder: Path) -> Any:
    pixels = np.full((2, 3, 4), [1, 2, 3, 4], np.uint8)
    saved(folder, pixels, ".png")
    return images(folder, None), [pixels]


@cell("images", "CMYK as it is", "PIL")
def _(folder: Path) -> Any:
    from PIL import Image

    Image.new("CMYK", (3, 2), (1, 2, 3, 4)).save(folder / "a.tif")
    return images(folder, None), [np.full((2, 3, 4), [1, 2, 3, 4], np.uint8)]


@cell("images", "CMYK as RGB", "PIL")
def _(folder: Path) -> Any:
    from PIL import Image

    Image.new("CMYK", (3, 2), (0, 0, 0, 0)).save(folder / "a.tif")
    return images(folder), [np.full((2, 3, 3), 255, np.uint8)]


@cell("images", "photo with a second image", "PIL")
def _(folder: Path) -> Any:
    from PIL import Image

    grey = [Image.new("RGB", (3, 2), (k, k, k)) for k in (50, 90)]
    grey[0].save(folder / "a.jpg", "MPO", save_all=True, append_images=grey[1:])
    return images(folder), [np.full((2, 3, 3), 50, np.uint8)]


@cell("images", "broken file", "PIL")
def _(folder: Path) -> Any:
    rng = np.random.default_rng(0)
    saved(folder, rng.integers(0, 255, (64, 64, 3), dtype=np.uint8), ".jpg")
    os.truncate(folder / "a.jpg", (folder / "a.jpg").stat().st_size // 2)
    return images(folder), refused(r"smap\[0\] failed: .*runcated.*; file: .*a\.jpg")


@cell("images", "format without a decoder", "PIL")
def _(folder: Path) -> Any:
    (folder / "a.heic").write_bytes(b"    ftypheic")
    return images(folder), refused(r"a\.heic", r"files\(path, read=")


# -------------------------------------------------------------------- audio

WAVE = np.arange(-4000, 4000, dtype=np.int16)


def sound(folder: Path, name: str = "a.wav", **options: Any) -> Path:
    import soundfile

    soundfile.write(folder / name, WAVE, 8000, **options)
    return folder / name


@cell("audio", "no frames", "soundfile")
def _(folder: Path) -> Any:
    import soundfile

    soundfile.write(folder / "a.wav", np.zeros((0, 2)), 8000)
    return lambda: sources.audio(folder), [(np.zeros((0, 2), np.float32), 8000)]


@cell("audio", "24 bit", "soundfile")
def _(folder: Path) -> Any:
    sound(folder, subtype="PCM_24")
    return lambda: sources.audio(folder), [(WAVE.astype(np.float32) / 32768, 8000)]


@cell("audio", "size unknown to the writer", "soundfile")
def _(folder: Path) -> Any:
    data = bytearray(sound(folder).read_bytes())
    at = data.index(b"data") + 4
    data[4:8] = data[at : at + 4] = b"\xff\xff\xff\xff"
    (folder / "a.wav").write_bytes(data)
    return lambda: sources.audio(folder), [(WAVE.astype(np.float32) / 32768, 8000)]


def cut_sound(folder: Path, name: str) -> Any:
    path = sound(folder, name)
    os.truncate(path, path.stat().st_size // 2)
    return lambda: sources.audio(folder), refused(re.escape(name))


for each in ("a.wav", "a.aiff", "a.flac", "a.ogg", "a.au", "a.w64", "a.mp3"):
    cell("audio", f"broken file, {each}", "soundfile")(lambda folder, name=each: cut_sound(folder, name))


def sound_without_its_end(folder: Path, name: str) -> Any:
    path = sound(folder, name)
    os.truncate(path, path.stat().st_size - 20)
    return lambda: sources.audio(folder), refused("EOFError", "ends after", re.escape(name))


for each in ("a.ogg", "a.rf64"):
    cell("audio", f"end missing, {each}", "soundfile")(
        lambda folder, name=each: sound_without_its_end(folder, name)
    )


@cell("audio", "format without a decoder", "soundfile")
def _(folder: Path) -> Any:
    (folder / "a.m4a").write_bytes(b"no sound")
    return lambda: sources.audio(folder), refused(r"a\.m4a")


# -------------------------------------------------------------------- numpy


@cell("npy", "scalar")
def _(folder: Path) -> Any:
    np.save(folder / "a.npy", np.array(5))
    return lambda: sk.read(folder / "a.npy"), refused(r"a\.npy has no array with rows", "numpy.load")


@cell("npy", "objects")
def _(folder: Path) -> Any:
    np.save(folder / "a.npy", np.array([None, 1]))
    return lambda: sk.read(folder / "a.npy"), refused("Python objects in dtype", r"file: .*a\.npy")


@cell("npy", "no rows")
def _(folder: Path) -> Any:
    np.save(folder / "a.npy", np.zeros((0, 3)))
    return lambda: sk.read(folder / "a.npy"), []


@cell("npy", "columns and bytes in another order")
def _(folder: Path) -> Any:
    array = np.asfortranarray(np.arange(6, dtype=">i4").reshape(3, 2))
    np.save(folder / "a.npy", array)
    return lambda: sk.read(folder / "a.npy"), [*array]


@cell("npy", "broken file")
def _(folder: Path) -> Any:
    np.save(folder / "a.npy", np.arange(100))
    os.truncate(folder / "a.npy", 300)
    return lambda: sk.read(folder / "a.npy"), refused(r"a\.npy")


@cell("npy", "files of other lengths")
def _(folder: Path) -> Any:
    np.save(folder / "2.npy", np.arange(2))
    np.save(folder / "10.npy", np.arange(3))
    return lambda: sk.read(folder / "*.npy"), [0, 1, 0, 1, 2]


@cell("npy", "columns first")
def _(folder: Path) -> Any:
    np.save(folder / "a.npy", np.asfortranarray(np.arange(6).reshape(2, 3)))
    return lambda: sources.npy(folder / "a.npy"), [*np.arange(6).reshape(2, 3)]


@cell("npz", "names with folders and suffixes")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", **{"x.npy": np.arange(2), "deep/y": np.arange(2.0)})
    rows = [{"x.npy": np.int64(i), "deep/y": np.float64(i)} for i in range(2)]
    return lambda: sources.npz(folder / "a.npz"), rows


@cell("npy", "archive of arrays")
def _(folder: Path) -> Any:
    with open(folder / "a.npy", "wb") as file:
        np.savez(file, x=np.arange(3))
    return lambda: sk.read(folder / "a.npy"), refused(r"a\.npy has no array with rows", "sources.npz")


@cell("npz", "scalar beside an array")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", x=np.arange(3.0), fps=30)
    return lambda: sk.read(folder / "a.npz"), [0.0, 1.0, 2.0]


@cell("npz", "scalar by its name")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", x=np.arange(3.0), fps=30)
    return lambda: sk.read(folder / "a.npz", "fps"), refused(r"'fps' in .*a\.npz has no rows")


@cell("npz", "scalars alone")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", fps=30)
    return lambda: sk.read(folder / "a.npz"), refused(r"a\.npz has no arrays with rows", "'fps'")


@cell("npz", "equal names")
def _(folder: Path) -> Any:
    data = io.BytesIO()
    np.save(data, np.arange(3))
    with warnings.catch_warnings(), zipfile.ZipFile(folder / "a.npz", "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("x.npy", data.getvalue())
    return lambda: sk.read(folder / "a.npz"), refused(r"a\.npz need different names, got 'x' twice")


@cell("npz", "unknown name")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", x=np.arange(3), y=np.arange(3))
    return lambda: sk.read(folder / "a.npz", "z"), refused(r"no 'z' in .*a\.npz. It has 'x', 'y'")


@cell("npz", "objects, compressed")
def _(folder: Path) -> Any:
    np.savez_compressed(folder / "a.npz", x=np.array([None]), y=np.arange(1))
    return lambda: sk.read(folder / "a.npz"), refused("Object arrays", r"a\.npz")


@cell("npz", "other lengths")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", x=np.arange(3), y=np.arange(2))
    return lambda: sk.read(folder / "a.npz"), refused(r"a\.npz differ in length: {'x': 3, 'y': 2}")


@cell("npz", "broken file")
def _(folder: Path) -> Any:
    np.savez(folder / "a.npz", x=np.arange(300))
    os.truncate(folder / "a.npz", 300)
    return lambda: sk.read(folder / "a.npz"), refused(r"a\.npz")


# -------------------------------------------------------------------- archives


def tar(folder: Path, *members: tuple[str, Any], name: str = "a.tar") -> Path:
    with tarfile.open(folder / name, "w") as archive:
        for member, content in members:
            info = tarfile.TarInfo(member)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                archive.addfile(info)
    return folder / name


@cell("tar", "hard links")
def _(folder: Path) -> Any:
    members = [("x/a", b"old"), ("hard", (tarfile.LNKTYPE, "x/a")), ("twice", (tarfile.LNKTYPE, "hard"))]
    path = tar(folder, *members)
    return lambda: sk.read(path), [(name, b"old") for name, _ in members]


@cell("tar", "hard link without its file")
def _(folder: Path) -> Any:
    path = tar(folder, ("hard", (tarfile.LNKTYPE, "x/a")))
    return lambda: sk.read(path), refused(r"'hard' in .*a\.tar is a link", "pattern")


@cell("tar", "symbolic link")
def _(folder: Path) -> Any:
    path = tar(folder, ("a", b"1"), ("link", (tarfile.SYMTYPE, "a")))
    return lambda: sk.read(path), refused(r"'link' in .*a\.tar is a link", "pattern")


@cell("tar", "equal names")
def _(folder: Path) -> Any:
    path = tar(folder, ("a", b"1"), ("a", b"2"))
    return lambda: sk.read(path), [("a", b"1"), ("a", b"2")]


@cell("tar", "empty member")
def _(folder: Path) -> Any:
    path = tar(folder, ("a", b""), ("b", b"1"))
    return lambda: sk.read(path), [("a", b""), ("b", b"1")]


@cell("tar", "sparse member")
def _(folder: Path) -> Any:
    with tarfile.open(folder / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x"}
        info.size = 512
        archive.addfile(info, io.BytesIO(b"1\n0\n0\n".ljust(512, b"\0")))
    return lambda: sources.tar_members(folder / "a.tar"), refused("'x' in .*a\\.tar is sparse", "unpack")


@cell("tar", "long and odd names")
def _(folder: Path) -> Any:
    names = ["deep/" * 50 + "é.txt", "./here", "d/./a", "/top", "../up", "x" * 200]
    path = tar(folder, *((name, b"1") for name in names))
    return lambda: sources.tar_members(path), [(name, b"1") for name in names]


@cell("tar", "damaged header")
def _(folder: Path) -> Any:
    path = tar(folder, ("a", b"1"), ("b", b"2"), ("c", b"3"))
    data = bytearray(path.read_bytes())
    data[1024 + 10] = 99
    path.write_bytes(data)
    return lambda: sk.read(path), refused(r"a\.tar cannot be read: it is damaged at byte 1024")


@cell("tar", "broken file")
def _(folder: Path) -> Any:
    path = tar(folder, ("a", b"1" * 600), ("b", b"2"))
    os.truncate(path, 700)
    return lambda: sk.read(path), refused(r"a\.tar cannot be read")


@cell("tar", "no members")
def _(folder: Path) -> Any:
    path = tar(folder)
    return lambda: sk.read(path), refused(r"no file in .*a\.tar")


@cell("zip", "equal names")
def _(folder: Path) -> Any:
    with warnings.catch_warnings(), zipfile.ZipFile(folder / "a.zip", "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("a", "1")
        archive.writestr("a", "2")
    return lambda: sk.read(folder / "a.zip"), [("a", b"1"), ("a", b"2")]


@cell("zip", "symbolic link")
def _(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("x/link")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "../b")
        archive.writestr("b", "bbb")
    return lambda: sk.read(folder / "a.zip"), refused(r"'x/link' in .*a\.zip is a link", "pattern")


@cell("zip", "text before and after, folders, all methods")
def _(folder: Path) -> Any:
    data = io.BytesIO()
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("d/", b"")
        for method in methods:
            archive.writestr(f"d/é{method}", b"1" * 99, method)
    (folder / "a.zip").write_bytes(b"#!/bin/sh\n" + data.getvalue() + b"\0" * 10)
    return lambda: sources.zip_members(folder / "a.zip"), [(f"d/é{method}", b"1" * 99) for method in methods]


@cell("zip", "damaged member")
def _(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a", "12345")
    data = (folder / "a.zip").read_bytes().replace(b"12345", b"12945")
    (folder / "a.zip").write_bytes(data)
    return lambda: sk.read(folder / "a.zip"), refused(r"file: .*a\.zip", "'a'")


@cell("zip", "broken file")
def _(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a", "12345")
    os.truncate(folder / "a.zip", 40)
    return lambda: sk.read(folder / "a.zip"), refused(r"file: .*a\.zip")


# -------------------------------------------------------------------- HDF5


def hdf5(folder: Path, name: Any = None, **items: Any) -> Callable[[], Any]:
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        for key, value in items.items():
            file[key] = value
    return lambda: sk.read(folder / "a.h5") if name is None else sk.read(folder / "a.h5", name)


@cell("hdf5", "scalar and empty beside an array", "h5py")
def _(folder: Path) -> Any:
    import h5py

    return hdf5(folder, x=np.arange(3), fps=30, none=h5py.Empty("f4")), [0, 1, 2]


@cell("hdf5", "empty by its name", "h5py")
def _(folder: Path) -> Any:
    import h5py

    return hdf5(folder, "none", none=h5py.Empty("f4")), refused(r"'none' in .*a\.h5 has no rows")


@cell("hdf5", "dead link", "h5py")
def _(folder: Path) -> Any:
    import h5py

    return hdf5(folder, x=np.arange(3), y=h5py.SoftLink("/gone")), refused("KeyError", r"a\.h5")


def virtual(folder: Path, file_name: str, key: str, name: str = "a.h5") -> Callable[[], Any]:
    import h5py

    layout = h5py.VirtualLayout((2,), "i8")
    layout[:] = h5py.VirtualSource(file_name, key, shape=(2,))
    with h5py.File(folder / name, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-1)
    return lambda: sk.read(folder / name)


@cell("hdf5", "virtual data set of one", "h5py")
def _(folder: Path) -> Any:
    hdf5(folder, z=np.arange(2))
    os.rename(folder / "a.h5", folder / "c.h5")
    virtual(folder, "c.h5", "z", "b.h5")
    return virtual(folder, "b.h5", "x"), [0, 1]


@cell("hdf5", "dead external link", "h5py")
def _(folder: Path) -> Any:
    import h5py

    link = h5py.ExternalLink("gone.h5", "/x")
    return hdf5(folder, "y", y=link), refused("no 'y' in", r"a\.h5")


@cell("hdf5", "dead link beside a chosen name", "h5py")
def _(folder: Path) -> Any:
    import h5py

    return hdf5(folder, "x", x=np.arange(3), y=h5py.SoftLink("/gone")), [0, 1, 2]


@cell("hdf5", "link", "h5py")
def _(folder: Path) -> Any:
    import h5py

    return hdf5(folder, x=np.arange(2), y=h5py.SoftLink("/x")), [{"x": i, "y": i} for i in range(2)]


@cell("hdf5", "virtual data set without its file", "h5py")
def _(folder: Path) -> Any:
    import h5py

    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource("gone.h5", "x", (4,))
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    return lambda: sk.read(folder / "a.h5"), refused("x is made of the file gone.h5", r"a\.h5")


@cell("hdf5", "unknown name", "h5py")
def _(folder: Path) -> Any:
    return hdf5(folder, "z", x=np.arange(3), **{"g/y": np.arange(3)}), refused(
        r"no 'z' in .*a\.h5. It has 'g', 'x'"
    )


@cell("hdf5", "group by its name", "h5py")
def _(folder: Path) -> Any:
    return hdf5(folder, "g", **{"g/y": np.arange(3)}), refused(r"'g' is a group", "'y'", r"a\.h5")


@cell("hdf5", "strings", "h5py")
def _(folder: Path) -> Any:
    return hdf5(folder, x=["a", "é"]), [b"a", "é".encode()]


@cell("hdf5", "records, ragged rows, bools", "h5py")
def _(folder: Path) -> Any:
    import h5py

    records = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    with h5py.File(folder / "a.h5", "w") as file:
        ragged = file.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
        ragged[0], ragged[1] = [1, 2], [3]
        file["records"], file["flags"], file["half"] = records, np.array([True, False]), np.zeros(2, "f2")
    lists = [np.array([1, 2], "i4"), np.array([3], "i4")]
    rows = [
        {"flags": np.bool_(not i), "half": np.float16(0), "ragged": lists[i], "records": records[i]}
        for i in range(2)
    ]
    return lambda: sources.hdf5(folder / "a.h5"), rows


@cell("hdf5", "external link", "h5py")
def _(folder: Path) -> Any:
    import h5py

    with h5py.File(folder / "b.h5", "w") as file:
        file["deep/y"] = np.arange(2)
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("b.h5", "deep/y")
    return lambda: sources.hdf5(folder / "a.h5"), [*np.arange(2)]


@cell("hdf5", "no rows", "h5py")
def _(folder: Path) -> Any:
    return hdf5(folder, x=np.zeros((0, 2))), []


@cell("hdf5", "broken file", "h5py")
def _(folder: Path) -> Any:
    (folder / "a.h5").write_bytes(b"no HDF5")
    return lambda: sk.read(folder / "a.h5"), refused(r"a\.h5")


# -------------------------------------------------------------------- Zarr


def zarr_group(folder: Path, name: Any = None, **items: Any) -> Callable[[], Any]:
    import zarr

    group = zarr.create_group(folder / "a.zarr")
    for key, value in items.items():
        group.create_array(key, data=np.asarray(value))
    return lambda: sk.read(folder / "a.zarr") if name is None else sk.read(folder / "a.zarr", name)


@cell("zarr", "scalar beside an array", "zarr")
def _(folder: Path) -> Any:
    return zarr_group(folder, x=np.arange(3), fps=30), [0, 1, 2]


def after_consolidation(folder: Path, change: Callable[[Any], Any], **options: Any) -> Callable[[], Any]:
    import zarr

    group = zarr.create_group(folder / "a.zarr", **options)
    group.create_array("x", data=np.arange(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 has no rule for consolidated metadata
        zarr.consolidate_metadata(folder / "a.zarr")
    change(zarr.open_group(folder / "a.zarr", mode="a", use_consolidated=False))
    return lambda: sk.read(folder / "a.zarr")


for each in (2, 3):

    @cell("zarr", f"late array, version {each}", "zarr")
    def _(folder: Path, version: int = each) -> Any:
        opened = after_consolidation(
            folder, lambda group: group.create_array("y", data=np.arange(3)), zarr_format=version
        )
        return opened, [{"x": np.int64(i), "y": np.int64(i)} for i in range(3)]

    @cell("zarr", f"late rows, version {each}", "zarr")
    def _(folder: Path, version: int = each) -> Any:
        opened = after_consolidation(
            folder, lambda group: group["x"].append(np.arange(3, 5)), zarr_format=version
        )
        return opened, [np.int64(i) for i in range(5)]


@cell("zarr", "chunks that were not written", "zarr")
def _(folder: Path) -> Any:
    import zarr

    for version in (2, 3):
        zarr.create_array(
            folder / f"{version}.zarr",
            shape=(3,),
            chunks=(2,),
            dtype="f4",
            fill_value=7.5,
            zarr_format=version,  # type: ignore[arg-type]
        )
    opened = [sources.zarr(folder / f"{version}.zarr") for version in (2, 3)]
    return lambda: sk.concatenate(opened), [np.float32(7.5)] * 6


@cell("zarr", "scalar", "zarr")
def _(folder: Path) -> Any:
    import zarr

    zarr.create_array(folder / "a.zarr", data=np.array(30))
    return lambda: sk.read(folder / "a.zarr"), refused(r"a\.zarr has no arrays with rows")


@cell("zarr", "unknown name", "zarr")
def _(folder: Path) -> Any:
    return zarr_group(folder, "z", x=np.arange(3), y=np.arange(3)), refused("no 'z'", "'x'", "'y'")


@cell("zarr", "strings", "zarr")
def _(folder: Path) -> Any:
    import zarr

    array = zarr.create_array(folder / "a.zarr", shape=(4,), dtype=str, chunks=(2,))
    array[:] = ["a", "bb", "", "é"]
    return lambda: sk.read(folder / "a.zarr"), ["a", "bb", "", "é"]


@cell("zarr", "shards", "zarr")
def _(folder: Path) -> Any:
    import zarr

    array = zarr.create_array(folder / "a.zarr", shape=(40,), dtype="i4", chunks=(2,), shards=(16,))
    array[:] = np.arange(40)
    assert sources.zarr(folder / "a.zarr").group_sizes == 16  # type: ignore[attr-defined]
    return lambda: sk.read(folder / "a.zarr"), [*range(40)]


@cell("zarr", "large chunks", "zarr")
def _(folder: Path) -> Any:
    import zarr

    rows = 9 * 1024 * 1024  # of 8 bytes: not kept
    zarr.create_array(folder / "a.zarr", shape=(rows,), dtype="f8", chunks=(rows,), fill_value=2.0)
    return lambda: sk.read(folder / "a.zarr")[:2], [np.float64(2), np.float64(2)]


@cell("zarr", "broken file", "zarr")
def _(folder: Path) -> Any:
    import zarr

    zarr.create_array(folder / "a.zarr", data=np.arange(8), chunks=(8,))
    (folder / "a.zarr" / "c" / "0").write_bytes(b"no chunk")
    return lambda: sk.read(folder / "a.zarr"), refused(r"a\.zarr")


# -------------------------------------------------------------------- Parquet


def parquet(folder: Path, **files: Any) -> Path:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    for name, columns in files.items():
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
    return folder


@cell("parquet", "partitions", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa
    from pyarrow.parquet import write_to_dataset

    table = pa.table({"x": [1, 2, 3], "year": [2020, 2021, 2021], "town": ["a b", "ö/é", None]})
    write_to_dataset(table, folder, partition_cols=["year", "town"])
    rows = [
        {"x": 1, "year": 2020, "town": "a b"},
        {"x": 2, "year": 2021, "town": "ö/é"},
        {"x": 3, "year": 2021, "town": None},
    ]
    return lambda: sources.parquet(folder), rows


@cell("parquet", "partition alone", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, **{"year=2020/a": {"x": [1, 2]}, "year=next/a": {"x": [3]}})
    years = [{"year": "2020"}, {"year": "2020"}, {"year": "next"}]
    return lambda: sources.parquet(folder, "year"), years


@cell("parquet", "partition and column of one name", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, **{"x=1/a": {"x": [1, 2]}})
    return lambda: sources.parquet(folder), refused("Field x|'x' twice")


@cell("parquet", "partition of some files", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, **{"year=2020/a": {"x": [1]}, "b": {"x": [2]}})
    return lambda: sources.parquet(folder), refused(r"b\.parquet", "'year'", "other columns")


@cell("parquet", "column in some files", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]}, b={"x": [2], "y": [3]})
    return lambda: sources.parquet(folder), refused(r"a\.parquet and .*b\.parquet has 'y'", "other columns")


@cell("parquet", "chosen column in some files", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1], "y": [1]}, b={"x": [2]})
    return lambda: sources.parquet(folder, ["y"]), refused(r"b\.parquet has 'y'")


@cell("parquet", "columns in another order", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1], "y": [2]}, b={"y": [4], "x": [3]})
    return lambda: sources.parquet(folder), [{"x": 1, "y": 2}, {"x": 3, "y": 4}]


@cell("parquet", "types that differ", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]}, b={"x": [2.5]})
    return lambda: sources.parquet(folder), refused(r"'x' is int in .*a\.parquet and float in .*b\.parquet")


@cell("parquet", "types of one kind", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa

    parquet(folder, a={"x": pa.array([1], "int8")}, b={"x": pa.array([2], "int64")}, c={"x": pa.nulls(1)})
    return lambda: sources.parquet(folder), [{"x": 1}, {"x": 2}, {"x": None}]


@cell("parquet", "equal names", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa

    parquet(folder, a=pa.table([[1], [2]], names=["x", "x"]))
    return lambda: sources.parquet(folder), refused("Field x|'x' twice")


@cell("parquet", "types of one column each", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa

    oslo = pa.array([0, None], pa.timestamp("us", "Europe/Oslo"))
    columns = {
        "category": pa.array(["x", None]).dictionary_encode(),
        "time": oslo,
        "price": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        "nested": pa.array([[[1, 2], [3]], None]),
        "parts": pa.array([[{"x": 1, "y": None}], []]),
        "map": pa.array([[("k", 1), ("k", 2)], None], pa.map_(pa.string(), pa.int64())),
        "large": pa.array([2**64 - 1, None], pa.uint64()),
        "half": pa.array([np.float16(1.5), None], pa.float16()),
        "flag": pa.array([True, None]),
        "nothing": pa.nulls(2),
        "exact": pa.array([1001, None], pa.timestamp("ns")),
    }
    path = parquet(folder, a=pa.table(columns))
    return lambda: sources.parquet(path), [
        {name: column.to_pylist()[i] for name, column in columns.items()} for i in range(2)
    ]


@cell("parquet", "empty groups", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(folder / "a.parquet", pa.schema([("x", pa.int64())])) as writer:
        for rows in ([1], [], [2]):
            writer.write_table(pa.table({"x": pa.array(rows, pa.int64())}))
    return lambda: sources.parquet(folder / "a.parquet"), [{"x": 1}, {"x": 2}]


def unreadable_cell(oddity: str, make: Callable[[Any], Any], *patterns: str) -> None:
    def of(folder: Path) -> Any:
        pa = importlib.import_module("pyarrow")
        path = parquet(folder, a=pa.table({"day": make(pa)}))
        return lambda: sources.parquet(path), refused(*patterns, "column: day", r"file: .*a\.parquet")

    cell("parquet", oddity, "pyarrow")(of)


unreadable_cell(
    "times with nanoseconds", lambda pa: pa.array([1001], pa.time64("ns")), "would lose data: 1001"
)
unreadable_cell(
    "date after the year 9999", lambda pa: pa.array([10**18], pa.timestamp("ms")), "OverflowError"
)
unreadable_cell(
    "equal names in a struct",
    lambda pa: pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]),
    "duplicate field names",
)


@cell("polars", "dates with nanoseconds", "polars")
def _(folder: Path) -> Any:
    import polars as pl

    frame = pl.DataFrame({"x": [1, 2], "day": pl.Series([1000, 1001], dtype=pl.Datetime("ns"))})
    return lambda: sk.view(frame), refused("the column 'day' of Datetime.* has nanosec", "cast_time_unit")


@cell("polars", "dates in nanoseconds", "polars")
def _(folder: Path) -> Any:
    import polars as pl

    columns = {"day": pl.Series([1000, None], dtype=pl.Datetime("ns")), "big": pl.Series([1, 2**64 - 1])}
    rows = [{"day": datetime(1970, 1, 1, 0, 0, 0, 1), "big": 1}, {"day": None, "big": 2**64 - 1}]
    return lambda: sk.view(pl.DataFrame(columns)), rows


@cell("parquet", "no rows", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]}, b={"x": []}, c={"x": [2]})
    return lambda: sources.parquet(folder), [{"x": 1}, {"x": 2}]


@cell("parquet", "files of the writer", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, **{"a": {"x": [1]}, "_temporary/b": {"x": [2]}, "_metadata": {"x": [3]}})
    return lambda: sources.parquet(folder), [{"x": 1}]


@cell("parquet", "column chosen twice", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]})
    return lambda: sources.parquet(folder, ["x", "x"])[:0], refused("columns must have names that differ")


@cell("parquet", "partitions by read", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, **{"y=1/z=/a": {"x": [1]}, "y=2/z=3/a": {"x": [2]}})
    return lambda: sk.read(folder), [{"x": 1, "y": 1, "z": ""}, {"x": 2, "y": 2, "z": "3"}]


@cell("parquet", "name with a dot", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1], "x.y": [2]})
    return lambda: sources.parquet(folder, ["x"]), [{"x": 1}]


@cell("parquet", "several paths", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]}, b={"x": [2]})
    return lambda: sources.parquet([folder / "b.parquet", folder / "a.parquet"]), [{"x": 2}, {"x": 1}]


@cell("parquet", "link to a folder", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder / "deep", a={"x": [1]})
    (folder / "shown").mkdir()
    (folder / "shown" / "link").symlink_to("../deep")
    return lambda: sources.parquet(folder / "shown"), [{"x": 1}]


@cell("parquet", "dead link", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]})
    (folder / "b.parquet").symlink_to("gone")
    return lambda: sources.parquet(folder), refused(r"b\.parquet' is a link to 'gone'")


@cell("parquet", "broken file", "pyarrow")
def _(folder: Path) -> Any:
    parquet(folder, a={"x": [1]})
    (folder / "b.parquet").write_bytes(b"PAR1 nothing PAR1")
    return lambda: sources.parquet(folder), refused(r"b\.parquet")


@cell("parquet", "damaged group", "pyarrow")
def _(folder: Path) -> Any:
    path = parquet(folder, a={"x": [1, 2, 3]}) / "a.parquet"
    data = bytearray(path.read_bytes())
    data[4:30] = b"\xff" * 26
    path.write_bytes(data)
    return lambda: sources.parquet(folder), refused(r"file: .*a\.parquet")


# -------------------------------------------------------------------- Arrow


def feather(folder: Path, table: Any) -> Callable[[], Any]:
    import pyarrow.feather

    pyarrow.feather.write_feather(table, str(folder / "a.feather"))
    return lambda: sk.read(folder / "a.feather")


@cell("arrow", "equal names", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa

    with pa.OSFile(str(folder / "a.arrow"), "wb") as file:
        table = pa.table([[1], [2]], names=["x", "x"])
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write(table)
    return lambda: sk.read(folder / "a.arrow"), refused(r"a\.arrow need different names, got 'x' twice")


@cell("arrow", "no rows", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa

    return feather(folder, pa.table({"x": pa.array([], "int8")})), []


@cell("arrow", "broken file", "pyarrow")
def _(folder: Path) -> Any:
    (folder / "a.feather").write_bytes(b"nothing")
    return lambda: sk.read(folder / "a.feather"), refused(r"a\.feather")


@cell("arrow", "types that pyarrow cannot take from", "pyarrow")
def _(folder: Path) -> Any:
    import pyarrow as pa

    table = pa.table({"x": pa.array(["a", "b"], pa.string_view())})
    try:
        table.nbytes
    except pa.ArrowTypeError:
        pytest.skip("an old pyarrow, which does not pickle parts of such tables")
    return lambda: sk.view(table), [{"x": "a"}, {"x": "b"}]


# -------------------------------------------------------------------- SQLite


def database(folder: Path, *statements: str) -> Path:
    opened = sqlite3.connect(folder / "a.db")
    for statement in statements:
        opened.execute(statement)
    opened.commit()
    opened.close()
    return folder / "a.db"


@cell("sqlite", "equal names")
def _(folder: Path) -> Any:
    path = database(folder, "CREATE TABLE t (x, y)", "INSERT INTO t VALUES (1, 2)")
    query = "SELECT x, y AS x FROM t WHERE rowid = ?"
    return lambda: sources.sqlite(path, query, [1]), refused("the query need different names, got 'x' twice")


@cell("sqlite", "values of all kinds")
def _(folder: Path) -> Any:
    path = database(
        folder,
        "create table t(id integer primary key, x, twice generated always as (x * 2))",
        "insert into t(id, x) values (5, 9223372036854775807), (3, x'00ff'), (4, null), (7, 1e400)",
    )
    rows = [(3, b"\0\xff", 0), (4, None, None), (5, 2**63 - 1, float(2**64)), (7, np.inf, np.inf)]
    return lambda: sources.sqlite(path, "t"), [
        dict(zip(("id", "x", "twice"), row, strict=True)) for row in rows
    ]


@cell("sqlite", "quote in the name of a table")
def _(folder: Path) -> Any:
    path = database(folder, 'create table "a""b"("X")', 'insert into "a""b" values (char(97, 0))')
    return lambda: sources.sqlite(path, 'a"b'), [{"X": "a\0"}]


@cell("sqlite", "table with a space in its name")
def _(folder: Path) -> Any:
    path = database(folder, "CREATE TABLE 'my table' (x)", "INSERT INTO 'my table' VALUES (1)")
    return lambda: sources.sqlite(path, "my table"), [{"x": 1}]


@cell("sqlite", "column named rowid")
def _(folder: Path) -> Any:
    rows = ("CREATE TABLE t (rowid, a)", "INSERT INTO t VALUES ('x', 1), ('x', 2), (NULL, 3)")
    path = database(folder, *rows)
    return lambda: sources.sqlite(path, "t"), [
        {"rowid": "x", "a": 1},
        {"rowid": "x", "a": 2},
        {"rowid": None, "a": 3},
    ]


@cell("sqlite", "table without row ids")
def _(folder: Path) -> Any:
    path = database(folder, "CREATE TABLE t (k PRIMARY KEY, y) WITHOUT ROWID")
    return lambda: sources.sqlite(path, "t"), refused("no such column: _rowid_", r"a\.db")


@cell("sqlite", "view")
def _(folder: Path) -> Any:
    path = database(
        folder, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)", "CREATE VIEW v AS SELECT x FROM t"
    )
    return lambda: sources.sqlite(path, "v"), refused("id None has no row", r"a\.db")


@cell("sqlite", "gaps in row ids")
def _(folder: Path) -> Any:
    rows = [f"INSERT INTO t VALUES ({i})" for i in range(4)]
    path = database(folder, "CREATE TABLE t (x)", *rows, "DELETE FROM t WHERE x = 1")
    return lambda: sources.sqlite(path, "t"), [{"x": 0}, {"x": 2}, {"x": 3}]


@cell("sqlite", "no rows")
def _(folder: Path) -> Any:
    path = database(folder, "CREATE TABLE t (x)")
    return lambda: sources.sqlite(path, "t"), []


@cell("sqlite", "unknown name")
def _(folder: Path) -> Any:
    path = database(folder, "CREATE TABLE t (x)")
    return lambda: sources.sqlite(path, "z"), refused("no such table: z", r"a\.db")


@cell("sqlite", "text of another encoding")
def _(folder: Path) -> Any:
    path = database(folder, "CREATE TABLE t (x TEXT)", "INSERT INTO t VALUES (CAST(x'ff' AS TEXT))")
    return lambda: sources.sqlite(path, "t"), refused("'x'", r"file: .*a\.db")


@cell("sqlite", "broken file")
def _(folder: Path) -> Any:
    (folder / "a.db").write_text("no database" * 100)
    return lambda: sources.sqlite(folder / "a.db", "t"), refused(r"file: .*a\.db")


# -------------------------------------------------------------------- Hugging Face


def of_format(kind: str | None, **columns: Any) -> Callable[[], Any]:
    import datasets

    return lambda: sk.view(datasets.Dataset.from_dict(columns).with_format(kind))


for each in ("pandas", "arrow", "polars"):
    cell("huggingface", f"{each} format", "datasets", each.replace("arrow", "pyarrow"))(
        lambda folder, kind=each: (
            of_format(kind, x=[1, 2]),
            refused(f"in {kind} format are tables", r"with_format\(None\)"),
        )
    )


@cell("huggingface", "numpy format", "datasets")
def _(folder: Path) -> Any:
    return of_format("numpy", x=[1, 2]), [{"x": 1}, {"x": 2}]


# -------------------------------------------------------------------- files behind a URL


@cell("remote", "folder", "fsspec")
def _(folder: Path) -> Any:
    (folder / "a.txt").touch()
    return lambda: sources.remote(f"file://{folder}"), refused("For a folder, pass", r"/\*\*")


@cell("remote", "name with letters of patterns", "fsspec")
def _(folder: Path) -> Any:
    (folder / "a[1].txt").write_text("x")
    return lambda: sources.remote(f"file://{folder}/a[1].txt"), [b"x"]


@cell("remote", "broken file", "fsspec")
def _(folder: Path) -> Any:
    (folder / "a.txt").write_text("x")
    return lambda: sources.remote(f"file://{folder}/*.txt", read=lambda file: int(file.read())), refused(
        r"file: file://.*a\.txt"
    )


# -------------------------------------------------------------------- the table

SOURCES = [
    *("files", "images", "audio", "npy", "npz", "tar", "zip", "hdf5", "zarr"),
    *("parquet", "arrow", "sqlite", "remote"),
]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_has_a_cell_for_broken_files(source: str) -> None:
    assert [oddity for name, oddity in CELLS if name == source and "broken" in oddity]


# -------------------------------------------------------------------- ends that may be missing


def tar_without_its_end(folder: Path) -> Path:
    """A program that does not close its archive writes such a file."""
    path = tar(folder, ("a", b"a" * 512), ("b", b"b" * 512))
    os.truncate(path, 4 * tarfile.BLOCKSIZE)
    return path


def stream_without_its_end(folder: Path) -> Path:
    pa = pytest.importorskip("pyarrow")
    path = folder / "a.arrow"
    with pa.OSFile(str(path), "wb") as file:
        writer = pa.ipc.new_stream(file, pa.schema({"x": pa.int64()}))
        writer.write_table(pa.table({"x": [1, 2]}))
    return path


@pytest.mark.parametrize(
    ("make", "n"), [(tar_without_its_end, 2), (stream_without_its_end, 2)], ids=["tar", "arrow"]
)
def test_file_without_the_mark_of_its_end_is_read(make: Any, n: int, tmp_path: Path) -> None:
    assert len(sk.read(make(tmp_path))) == n


@pytest.mark.parametrize(
    "name", ["a.npy", "a.npz", "a.h5", "a.zip", "a.tar", "a.csv", "a.parquet", "a.feather", "a.png", "a.wav"]
)
def test_error_of_a_pointer_of_git_lfs_says_what_it_is(name: str, tmp_path: Path) -> None:
    needs = {".h5": "h5py", ".parquet": "pyarrow", ".feather": "pyarrow", ".png": "PIL", ".wav": "soundfile"}
    if library := needs.get(Path(name).suffix):
        pytest.importorskip(library)
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is checked below
        list(sk.read(tmp_path / name))
    assert f"{name} is a pointer of Git LFS" in text_of(caught.value)
    assert "git lfs pull" in text_of(caught.value)
