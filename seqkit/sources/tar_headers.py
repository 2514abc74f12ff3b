"""Where the members of a tar archive are: a quick reader of plain headers, and `tarfile` for all others."""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from itertools import repeat
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    *("FILE", "FOLDER", "HEADER", "LINK", "NAME", "OTHER", "PREFIX", "SPARSE", "SYMLINK", "PlainMembers"),
    *("in_blocks", "plain_members", "scan"),
]

FILE, FOLDER, LINK, SYMLINK, SPARSE, OTHER = "file", "folder", "link", "symlink", "sparse", "other"

BLOCK = 1024  # headers that are checked together
HEADER = tarfile.BLOCKSIZE
NAME, SIZE, CHECKSUM, KIND, PREFIX = slice(100), slice(124, 135), slice(148, 154), 156, slice(345, 500)
# Octal numbers: mode, owner, group, size, time, checksum, and two of devices. Each has a blank at its end.
NUMBERS = np.array([(100, 8), (108, 8), (116, 8), (124, 12), (136, 12), (148, 8), (329, 8), (337, 8)])
NUMBER_COLUMNS = np.concatenate([np.arange(start, start + width) for start, width in NUMBERS])
LAST_COLUMNS = np.cumsum(NUMBERS[:, 1]) - 1
POWERS = 8 ** np.arange(5, -1, -1)
BLANK = ord(" ")
TIMES = "times"
KINDS = {ord("0"): FILE, ord("5"): FOLDER, ord("x"): TIMES}
TIME = re.compile(rb"(\d+) [acm]time=-?[\d.]+\n")

Rows = npt.NDArray[np.uint8]


class PlainMembers(NamedTuple):
    """Successive members of an archive. `starts` and `sizes` are those of their data.

    `end` is the offset of the header after them.
    """

    names: list[str]
    kinds: list[str]
    starts: list[int]
    sizes: list[int]
    end: int


def in_blocks(size: int) -> int:
    """Return how many bytes of an archive the data of a member take.

    >>> in_blocks(0), in_blocks(513)
    (0, 1024)
    """
    return -(-size // HEADER) * HEADER


def plain_members(file: IO[bytes], offset: int) -> PlainMembers:
    """Return the members from the header at `offset` on, up to a header that is not plain.

    A plain header is that of a file or folder with a short name and a right checksum, in the format ustar or
    that of GNU, and the data of the member are complete. A header of the format PAX may precede it if it has
    only times. Python writes such a header for each file that it adds. All else is left to `tarfile`: links,
    long names, sparse files, and the end of the archive. Returns at most `BLOCK` members, and no member if
    the first header is not plain.
    """
    length = file.seek(0, 2)
    headers, starts, sizes, ends = list[bytes](), list[int](), list[int](), [offset]
    while len(headers) < BLOCK:
        file.seek(offset)
        header = file.read(HEADER)
        try:
            size = int(header[SIZE], 8)
        except ValueError:
            break
        start = offset + HEADER
        if KINDS.get(header[KIND]) == TIMES and not (size <= HEADER and _are_times(file.read(HEADER))):
            break
        offset = start if KINDS.get(header[KIND]) == FOLDER else start + in_blocks(size)
        if not start <= offset <= length:
            break
        headers.append(header)
        starts.append(start)
        sizes.append(size)
        ends.append(offset)
    rows = np.frombuffer(b"".join(headers), np.uint8).reshape(-1, HEADER)
    plain = _are_plain(rows)
    count = len(rows) if plain.all() else int(plain.argmin())
    kinds = [KINDS[kind] for kind in rows[:count, KIND].tolist()]
    while kinds and kinds[-1] == TIMES:  # of a member that is not plain, or that is in the next block
        kinds.pop()
    members = [i for i, kind in enumerate(kinds) if kind != TIMES]
    end, kinds = ends[len(kinds)], [kinds[i] for i in members]
    names = _names(rows[members], kinds)
    return PlainMembers(names, kinds, [starts[i] for i in members], [sizes[i] for i in members], end)


def _are_plain(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which headers are plain. The size of each is read already."""
    numbers = rows[:, NUMBER_COLUMNS]
    is_digit = numbers - ord("0") < 8
    is_blank = (numbers == 0) | (numbers == BLANK)
    begins = is_blank[:, :-1] & is_digit[:, 1:]  # digits after a blank: only in the next number
    begins[:, LAST_COLUMNS[:-1]] = False
    plain: npt.NDArray[np.bool_] = (is_digit | is_blank).all(axis=1) & ~begins.any(axis=1)
    plain &= is_blank[:, LAST_COLUMNS].all(axis=1)
    # The checksum counts its own eight columns as blanks.
    given = (rows[:, CHECKSUM] - ord("0")) @ POWERS
    counted = rows.sum(axis=1, dtype=np.int64) - rows[:, 148:156].sum(axis=1, dtype=np.int64) + 8 * BLANK
    plain &= (given == counted) & is_blank[:, LAST_COLUMNS[5] - 1]
    names = rows[:, NAME]
    plain &= ~((names[:, :-1] == 0) & (names[:, 1:] != 0)).any(axis=1)
    plain &= ~rows[:, PREFIX].any(axis=1)  # the first part of a long name
    plain &= np.isin(rows[:, KIND], list(KINDS))
    return plain


def _are_times(data: bytes) -> bool:
    """Return whether a header of the format PAX has only times of a member.

    >>> _are_times(b"22 mtime=1700000000.5\\n")
    True
    """
    records, at = data.rstrip(b"\0"), 0
    while (found := TIME.match(records, at)) and found.end() - at == int(found[1]):
        at = found.end()
    return 0 < at == len(records)


def _names(rows: Rows, kinds: list[str]) -> list[str]:
    texts = np.ascontiguousarray(rows[:, NAME]).view("S100").ravel().tolist()
    names = [text.decode(tarfile.ENCODING, "surrogateescape") for text in texts]
    return [name.rstrip("/") if kind == FOLDER else name for name, kind in zip(names, kinds, strict=True)]


def scan(file: IO[bytes]) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield the members of a tar archive: name, kind, offset and size of the data, and target of a link.

    Headers that are not plain are left to `tarfile`, which takes over for more and more members. So in an
    archive of which many are not plain, little time is lost on attempts.

    Raises
    ------
    tarfile.ReadError
        If the archive is damaged, compressed, or ends within a member.
    """
    archive: tarfile.TarFile | None = None
    offset, turn = 0, 1
    while True:
        while True:
            found = plain_members(file, offset)
            yield from zip(found.names, found.kinds, found.starts, found.sizes, repeat(""))
            offset = found.end
            if not found.names:
                break
        if archive is None:
            file.seek(offset)
            archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115
        else:
            archive.offset = offset
            file.seek(0)  # away from there, or tarfile does not check that the data before it are complete
        for _ in range(turn):
            info = archive.next()
            if info is None:
                _check_end(file, archive.offset)
                return
            archive.members = []  # type: ignore[attr-defined]  # or it keeps all of them
            yield info.name, _kind(info), info.offset_data, info.size, info.linkname
        offset = archive.offset
        # A global header of the format PAX counts for all members after it.
        turn = sys.maxsize if archive.pax_headers else 2 * turn


def _kind(info: tarfile.TarInfo) -> str:
    if info.issparse():
        return SPARSE
    if info.isreg():
        return FILE
    return LINK if info.islnk() else SYMLINK if info.issym() else FOLDER if info.isdir() else OTHER


def _check_end(file: IO[bytes], offset: int) -> None:
    """Raise ReadError if `tarfile` takes a damaged header for the end of the archive."""
    file.seek(offset)
    if file.read(HEADER).strip(b"\0"):
        raise tarfile.ReadError(f"it is damaged at byte {offset}")
