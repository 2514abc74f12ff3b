"""The sources of `test_table`: how to make each in a folder, how to open it, and the items it must have."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

N = 60
NUMBERS = np.arange(N * 6, dtype=np.int32).reshape(N, 2, 3)
NAMES = [f"name {i}" for i in range(N)]
ROWS = [{"name": name, "number": i} for i, name in enumerate(NAMES)]


@dataclass(frozen=True)
class Kind:
    """A kind of source; `make` writes it into a folder and returns the view and its items."""

    name: str
    make: Callable[[Path], tuple[sk.View[Any], list[Any]]]
    needs: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ("fork", "spawn", "forkserver", "thread")


def of_files(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    for i, name in enumerate(NAMES):
        (folder / f"{i}.txt").write_text(name)
    return sources.files(folder, read=read_text), NAMES


def read_text(path: str) -> str:
    return Path(path).read_text()


def of_images(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    from PIL import Image

    for i, pixels in enumerate(NUMBERS.astype(np.uint8)):
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return sources.images(folder, "L"), [*NUMBERS.astype(np.uint8)]


def of_audio(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import soundfile

    waves = NUMBERS.reshape(N, -1).astype(np.int16)
    for i, wave in enumerate(waves):
        soundfile.write(folder / f"{i}.wav", wave, 8000)
    return sources.audio(folder), [(wave.astype(np.float32) / 32768, 8000) for wave in waves]


def of_npy(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    np.save(folder / "a.npy", NUMBERS)
    return sk.read(folder / "a.npy"), [*NUMBERS]


def of_npz(folder: Path, save: Callable[..., Any] = np.savez) -> tuple[sk.View[Any], list[Any]]:
    save(folder / "a.npz", x=NUMBERS, y=np.arange(N))
    return sk.read(folder / "a.npz"), [{"x": x, "y": i} for i, x in enumerate(NUMBERS)]


def of_zip(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in NAMES:
            archive.writestr(name, name * 1000)
    return sk.read(folder / "a.zip"), [(name, name.encode() * 1000) for name in NAMES]


def of_tar(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for name in NAMES:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            archive.addfile(info, io.BytesIO(name.encode()))
    return sk.read(folder / "a.tar"), [(name, name.encode()) for name in NAMES]


def of_webdataset(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    for k in (0, 1):
        with tarfile.open(folder / f"{k}.tar", "w") as archive:
            for row in ROWS[k::2]:
                info = tarfile.TarInfo(f"{row['number']}.txt")
                info.size = len(row["name"])
                archive.addfile(info, io.BytesIO(row["name"].encode()))
    view = sources.webdataset(f"{folder}/{{0..1}}.tar", {"txt": bytes.decode})
    rows = [*ROWS[::2], *ROWS[1::2]]
    return view, [{"txt": row["name"], "__key__": str(row["number"])} for row in rows]


def of_hdf5(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=NUMBERS, chunks=(7, 2, 3))
        file["y"] = np.arange(N)
    return sk.read(folder / "a.h5"), [{"x": x, "y": i} for i, x in enumerate(NUMBERS)]


def of_zarr(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import zarr

    zarr.create_array(folder / "a.zarr", data=NUMBERS, chunks=(7, 2, 3))
    return sk.read(folder / "a.zarr"), [*NUMBERS]


def a_zarr_array(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import zarr

    return sk.view(zarr.create_array(folder / "a.zarr", data=NUMBERS, chunks=(7, 2, 3))), [*NUMBERS]


def arrow_table() -> Any:
    import pyarrow as pa

    return pa.table({"name": NAMES, "number": list(range(N))})


def of_parquet(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow_table(), folder / "a.parquet", row_group_size=7)
    return sk.read(folder / "a.parquet"), ROWS


def of_feather(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import pyarrow.feather

    pyarrow.feather.write_feather(arrow_table(), str(folder / "a.feather"), chunksize=7)
    return sk.read(folder / "a.feather"), ROWS


def of_csv(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    lines = ["name,number", *(f"{name},{i}" for i, name in enumerate(NAMES))]
    (folder / "a.csv").write_text("\n".join(lines))
    return sk.read(folder / "a.csv"), ROWS


def of_lines(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    half = N // 2
    (folder / "a1.txt").write_text("".join(f"{name}\n" for name in NAMES[:half]))
    (folder / "a2.txt").write_text("\r\n".join(NAMES[half:]) + "\r\n")
    return sources.lines(folder / "*.txt"), [f"{name}\n" for name in NAMES]


def of_jsonl(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return sources.jsonl(folder / "a.jsonl"), ROWS


def of_sqlite(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    database = sqlite3.connect(folder / "a.db")
    database.execute("CREATE TABLE a (name, number)")
    database.executemany("INSERT INTO a VALUES (:name, :number)", ROWS)
    database.commit()
    database.close()
    return sources.sqlite(folder / "a.db", "a"), ROWS


def of_huggingface(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_list(ROWS).save_to_disk(folder / "a")
    return sk.read(folder / "a", open_fn=datasets.load_from_disk), ROWS


def of_remote(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    of_files(folder)
    return sk.read(f"file://{folder}/*.txt"), [name.encode() for name in NAMES]


def of_memory(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    import fsspec

    for i, name in enumerate(NAMES):
        fsspec.filesystem("memory").pipe(f"/{folder.name}/{i}", name.encode())
    return sk.read(f"memory://{folder.name}/*"), [name.encode() for name in NAMES]


def a_frame(folder: Path, library: str) -> tuple[sk.View[Any], list[Any]]:
    frame = pytest.importorskip(library).DataFrame({"name": NAMES, "number": range(N)})
    return sk.view(frame), ROWS


def an_arrow_table(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    return sk.view(arrow_table()), ROWS


def by_hand(folder: Path) -> tuple[sk.View[Any], list[Any]]:
    of_zip(folder)
    open_fn = partial(zipfile.ZipFile, folder / "a.zip")
    return sk.per_process(open_fn, zipfile.ZipFile.read, NAMES), [name.encode() * 1000 for name in NAMES]


KINDS = [
    Kind("files", of_files),
    Kind("images, Pillow", of_images, ("PIL",)),
    Kind("audio", of_audio, ("soundfile",)),
    Kind("npy", of_npy),
    Kind("npz", of_npz),
    Kind("npz, compressed", partial(of_npz, save=np.savez_compressed)),
    Kind("zip", of_zip),
    Kind("tar", of_tar),
    Kind("webdataset", of_webdataset),
    Kind("hdf5", of_hdf5, ("h5py",)),
    Kind("zarr", of_zarr, ("zarr",)),
    Kind("zarr array", a_zarr_array, ("zarr",)),
    Kind("parquet", of_parquet, ("pyarrow",)),
    Kind("feather", of_feather, ("pyarrow",)),
    Kind("csv", of_csv, ("pyarrow",)),
    Kind("lines", of_lines),
    Kind("jsonl", of_jsonl),
    Kind("sqlite", of_sqlite),
    Kind("huggingface", of_huggingface, ("datasets",)),
    Kind("fsspec, local", of_remote, ("fsspec",)),
    # The file system in memory belongs to one process: only forked workers have its files.
    Kind("fsspec, memory", of_memory, ("fsspec",), ("fork", "thread")),
    Kind("pandas", partial(a_frame, library="pandas"), ("pandas",)),
    Kind("polars", partial(a_frame, library="polars"), ("polars",)),
    Kind("pyarrow", an_arrow_table, ("pyarrow",)),
    Kind("per_process", by_hand),
]
