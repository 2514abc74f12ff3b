"""Files with an index: built once by a scan, kept on disk, and mapped into memory by each process."""

from __future__ import annotations

import errno
import mmap
import os
import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from glob import has_magic
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..core.adapters import TableReader
from ..core.progress import Progress, reporting
from ..core.randomness import digest
from ..core.whole_files import read_buffers, replace_file, write_buffers
from .files import as_path, existing, found, name_file

__all__ = ["IndexedFile", "IndexedRows", "Scan", "count_items", "paths_of"]

# Returns the arrays of the index of a file, given the open file and its size in bytes.
Scan = Callable[[BinaryIO, int], Sequence[Any]]

MOST_OPEN = 100  # files of one view in one process; each takes two descriptors
# The first bytes of compressed files, and the program that unpacks them.
COMPRESSED = {
    rb"\x1f\x8b\x08": "gunzip",
    rb"BZh\d1AY&SY": "bunzip2",
    rb"\xfd7zXZ\0": "unxz",
    rb"\x28\xb5\x2f\xfd": "unzstd",
}


class IndexedFile:
    """A file that is open for reading, and the arrays of its index.

    The index is in the cache folder of the user, or next to the file if one is there. It holds the size and
    the time of the file, and is built again if they have changed.

    Parameters
    ----------
    path : str
    kind : str
        Kind of the index, in eight letters: ``"sk-lines"``.
    scan : callable
        Builds the index.
    beside : bool
        Keep the index next to the file.
    """

    def __init__(self, path: str, kind: str, scan: Scan, beside: bool) -> None:
        self.path = path
        self._file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115
        try:
            self.index = self._kept(kind, scan, beside)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            self.index = self._kept(kind, scan, beside)  # the index was replaced on a network disk

    def _kept(self, kind: str, scan: Scan, beside: bool) -> list[Any]:
        """Return the arrays of the index, mapped into memory."""
        found = os.fstat(self._file.fileno())
        stamp = f"{found.st_size} {found.st_mtime_ns}".encode()
        folder, name = os.path.split(os.path.abspath(self.path))
        places = [os.path.join(folder, f".{name}.{kind}")]
        if not beside:
            places.append(_in_cache(f"{digest(os.path.realpath(self.path)).hex()}.{kind}"))
        for place in places:
            if (kept := _mapped(place, kind, stamp)) is not None:
                return kept
        self._refuse_compressed()
        self._file.seek(0)
        arrays = scan(self._file, found.st_size)
        try:
            os.makedirs(os.path.dirname(places[-1]), exist_ok=True)
            replace_file(
                places[-1],
                partial(write_buffers, magic=kind.encode(), buffers=[stamp, *arrays]),
            )
        except OSError as error:
            error.add_note("The index is kept there. Pass beside=True, or set XDG_CACHE_HOME to a folder.")
            raise
        # Another process may have replaced the file and its index.
        return _mapped(places[-1], kind, stamp) or [memoryview(array) for array in arrays]

    def _refuse_compressed(self) -> None:
        self._file.seek(0)
        head = self._file.read(16)
        for magic, program in COMPRESSED.items():
            if re.match(magic, head):
                raise ValueError(
                    f"{self.path} is compressed, and has no random access. Unpack it, for example with"
                    f" {program}."
                )

    def read(self, start: int, size: int) -> bytes:
        """Return `size` bytes of the file."""
        self._file.seek(start)
        parts = []
        while size and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        if size:
            raise EOFError(f"{self.path} is shorter than before. Build the view again.")
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was not opened
            self.close()


def _in_cache(name: str) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "seqkit", name)


def _mapped(path: str, kind: str, stamp: bytes) -> list[Any] | None:
    """Return the arrays of an index, or None if it is not there, or of another state of the file."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        kept, *arrays = read_buffers(content, kind.encode())
    except ValueError:  # an empty or damaged file, or one of another version
        return None
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise
        return None
    return arrays if kept == stamp else None


class IndexedRows(TableReader):
    """The items of several indexed files, one file after the other. The files used last stay open.

    Parameters
    ----------
    counts : array of int
        The number of items of each file.
    open_fn : callable
        Opens a file, given its number.
    """

    def __init__(self, counts: npt.NDArray[np.int64], open_fn: Callable[[int], Any]) -> None:
        self._counts = counts
        self._ends = np.cumsum(counts)
        self._opened = lru_cache(MOST_OPEN)(open_fn)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _place(self, i: int) -> tuple[int, int]:
        """Return the number of the file with item `i`, and the position of the item in it."""
        k = int(np.searchsorted(self._ends, i, side="right"))
        return k, i - int(self._ends[k] - self._counts[k])

    def close(self) -> None:
        self._opened.cache_clear()


def count_items(
    paths: Sequence[str],
    open_fn: Callable[[str], IndexedFile],
    count: Callable[[IndexedFile], Any],
    progress: Progress | None,
    who: str,
) -> list[Any]:
    """Return ``count(file)`` for each file, after its index was found or built.

    The files are taken in a random order, so that processes which begin together share the work.
    """
    found: list[Any] = [None] * len(paths)
    with reporting(progress, who) as report:
        for done, k in enumerate(random.Random().sample(range(len(paths)), len(paths)), 1):
            try:
                found[k] = count(open_fn(paths[k]))
            except Exception as error:
                name_file(error, paths[k])
                raise
            report(done, len(paths))
    return found


def paths_of(path: str | PathLike[str], who: str) -> Sequence[str]:
    """Return the file at a path, or the files of a glob pattern in natural order."""
    name = as_path(path, who)
    if not has_magic(name) or os.path.exists(name):
        return [existing(name, who)]
    paths = found(name, who, ("",))
    if not paths:
        raise FileNotFoundError(f"{who}: there is no file at {name!r}. Check the pattern.")
    return paths
