"""`scan`: the members of a tar archive are those that `tarfile` finds."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqkit.sources.tar_headers import BLOCK, plain_members, scan

Member = tuple[str, str, int, int, str]

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
KINDS = [tarfile.REGTYPE] * 4 + [
    *(tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE),
    *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE),
]
NAMES = st.one_of(
    st.text("ab/é", min_size=1, max_size=8), st.sampled_from(["a" * 99, "a" * 100, "d" * 60 + "/" + "e" * 60])
)


def by_tarfile(file: Any) -> Iterator[Member]:
    archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115
    while (info := archive.next()) is not None:
        known = {"file": info.isreg(), "link": info.islnk(), "symlink": info.issym(), "folder": info.isdir()}
        kind = "sparse" if info.issparse() else next((name for name in known if known[name]), "other")
        yield info.name, kind, info.offset_data, info.size, info.linkname
    file.seek(archive.offset)
    if file.read(512).strip(b"\0"):
        raise tarfile.ReadError("damaged")


def outcome(read: Callable[[Any], Iterator[Member]], data: bytes) -> tuple[list[Member], Any]:
    """Return the members, and the class of the error that came after them."""
    members = []
    try:
        for member in read(io.BytesIO(data)):
            members.append(member)
    except Exception as error:
        return members, type(error)
    return members, None


@st.composite
def infos(draw: Callable[[Any], Any]) -> tarfile.TarInfo:
    info = tarfile.TarInfo(draw(NAMES))
    info.type = draw(st.sampled_from(KINDS))
    info.size = draw(st.sampled_from([0, 1, 511, 512, 513, 2000]))
    info.mtime = draw(st.sampled_from([0, 1_700_000_000, 1.5, 8**11]))
    info.uid = draw(st.sampled_from([0, 1000, 8**7]))
    info.linkname = draw(NAMES) if info.issym() or info.islnk() else ""
    return info


class Archive(bytes):
    def __repr__(self) -> str:
        return f"<archive of {len(self)} bytes: {[member[:2] for member in outcome(by_tarfile, self)[0]]}>"


@st.composite
def archives(draw: Callable[[Any], Any]) -> Archive:
    file = io.BytesIO()
    headers = draw(st.sampled_from([{}, {}, {"comment": "all"}]))
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as archive:
        for info in draw(st.lists(infos(), max_size=8)):
            archive.format = draw(st.sampled_from(FORMATS))
            data = io.BytesIO(b"7" * info.size) if info.isreg() else None
            try:
                archive.addfile(info, data)
            except ValueError:  # ustar has no room for it
                continue
    return Archive(file.getvalue())


@given(archives())
def test_all_members_are_found(data: bytes) -> None:
    assert outcome(scan, data) == outcome(by_tarfile, data)


@given(archives(), st.data())
def test_an_archive_that_ends_early_is_read_as_by_tarfile(data: bytes, draw: st.DataObject) -> None:
    blocks, more = draw.draw(st.integers(0, len(data) // 512)), draw.draw(st.sampled_from([0, 0, 1, 511]))
    cut = Archive(data[: 512 * blocks + more])
    assert outcome(scan, cut) == outcome(by_tarfile, cut)


@settings(max_examples=300)
@given(archives(), st.data())
def test_a_damaged_archive_is_read_as_by_tarfile(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, min(len(data), 4096) - 1))
        damaged[at] = draw.draw(st.sampled_from([*b"\0 0178+_-x/5\xff\x80"]))
    if draw.draw(st.booleans()):  # the header of the first member is right for what it says
        damaged[148:156] = b"%06o\0 " % (sum(damaged[:148]) + sum(damaged[156:512]) + 8 * 32)
    assert outcome(scan, bytes(damaged)) == outcome(by_tarfile, bytes(damaged))


def archive_of(*names: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"123"))
    return file.getvalue()


def test_plain_members_come_in_blocks() -> None:
    file = io.BytesIO(archive_of(*map(str, range(BLOCK + 5))))
    first = plain_members(file, 0)
    second = plain_members(file, first.end)
    assert first.names + second.names == [str(i) for i in range(BLOCK + 5)]
    assert first.starts + second.starts == [1024 * i + 512 for i in range(BLOCK + 5)]
    assert {*first.sizes, *second.sizes} == {3}
    assert {*first.kinds, *second.kinds} == {"file"}
    assert second.end == 1024 * (BLOCK + 5)
    assert plain_members(file, second.end) == ([], [], [], [], second.end)


@pytest.mark.parametrize(
    ("names", "most"), [(["a"] * 3000, 3), (["x" * 200, *"abc"] * 2, 9), (["x" * 200] * 3000, 3010)]
)
def test_tarfile_reads_only_the_headers_that_are_not_plain(
    names: list[str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    following = tarfile.TarFile.next
    monkeypatch.setattr(tarfile.TarFile, "next", lambda archive: (calls.append(1), following(archive))[1])
    assert [name for name, *_ in scan(io.BytesIO(archive_of(*names)))] == names
    assert len(calls) <= most


@pytest.mark.parametrize(
    ("time", "uid", "most"), [(1.5, 0, 3), (-1.5, 0, 3), (1.5, 8**8, 1010)], ids=["times", "old", "owner"]
)
def test_headers_with_only_times_are_plain(
    time: float, uid: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(1000):
            info = tarfile.TarInfo(f"{number}")
            info.size, info.mtime, info.uid = 3, time, uid
            archive.addfile(info, io.BytesIO(b"123"))
    calls = []
    following = tarfile.TarFile.next
    monkeypatch.setattr(tarfile.TarFile, "next", lambda archive: (calls.append(1), following(archive))[1])
    assert [name for name, *_ in scan(file)] == [f"{number}" for number in range(1000)]
    assert len(calls) <= most


def test_an_archive_without_plain_headers_is_rarely_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    monkeypatch.setattr(
        sys.modules[scan.__module__],
        "plain_members",
        lambda file, offset: (tries.append(offset), plain_members(file, offset))[1],
    )
    assert len(list(scan(io.BytesIO(archive_of(*["x" * 200] * 1000))))) == 1000
    assert len(tries) <= 11
