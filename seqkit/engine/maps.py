"""Arrays over memory-mapped files, pickled as references to the files.

An array over a shared mapping of a file travels as the file, the dtype, the shape, the strides and the
place of its first element. The receiver maps the file again. No byte of the file is read or copied.

Guarantees
----------
- This covers `numpy.memmap`, its slices and reshapes, and arrays over `mmap.mmap` and over
  `multiprocessing.shared_memory`. A tensor over a mapping travels by value.
- A reference is sent only if the path still leads to the mapped file. Private mappings (mode "c") and files
  that were deleted or replaced travel by value.
- The file is never truncated. It is mapped for writing only if it was mapped for writing.
- Ordinary arrays cost almost nothing: an array without an `mmap.mmap` among its bases is not looked up.

Relies on
---------
- /proc/self/maps gives the place at which a file is mapped. The attributes of a `numpy.memmap` do not: a
  slice has the `offset` of the whole array.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from typing import IO, Any

import numpy as np

from ..core.once import cached


class Maps:
    """The mapped files of this process, at the time when an array is first looked up."""

    @cached
    def _mappings(self) -> list[_Mapping]:
        return _read_maps()

    def reduce(self, array: np.ndarray[Any, Any]) -> Any:
        """Return how to pickle an array, or NotImplemented if no mapped file holds its memory."""
        if not _is_over_mmap(array):
            return NotImplemented
        start = array.__array_interface__["data"][0]
        steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
        low = start + sum(step for step in steps if step < 0)
        high = start + sum(step for step in steps if step > 0) + array.itemsize
        mapping = _containing(self._mappings, low, high)
        if mapping is None or mapping.identity is None:
            return NotImplemented
        layout = array.shape, array.dtype, mapping, start - mapping.start, array.strides
        return _array, (type(array), layout, array.flags.writeable)


def _is_over_mmap(array: np.ndarray[Any, Any]) -> bool:
    base = array.base
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, mmap.mmap)


class _Mapping:
    """A shared mapping of a file, from a line of /proc/self/maps. Unpickling it maps the file again."""

    def __init__(self, line: str) -> None:
        addresses, permissions, offset, *file, path = line.split(None, 5)
        self.start, self.end = (int(address, 16) for address in addresses.split("-"))
        self.offset = int(offset, 16)
        self.is_writable = permissions[1] == "w"
        self.file = " ".join(file)  # device and inode
        self.path = path

    @cached
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file, as in `os.stat`. None if the path leads to another file or none."""
        try:
            with _open(self.path, self.is_writable) as file:
                status = os.fstat(file.fileno())
                device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
                is_same = self.file == f"{device} {status.st_ino}" or self.file == _file_of(file)
                return (status.st_dev, status.st_ino) if is_same else None
        except (OSError, ValueError):
            return None

    def __reduce__(self) -> Any:
        return _map, (self.path, self.identity, self.offset, self.end - self.start, self.is_writable)


def _read_maps() -> list[_Mapping]:
    """Return the shared mappings of files, sorted by address."""
    with open("/proc/self/maps", "rb") as file:
        lines = os.fsdecode(file.read()).split("\n")
    return [_Mapping(line) for line in lines if line.partition(" ")[2][3:4] == "s" and "/" in line]


def _containing(mappings: list[_Mapping], low: int, high: int) -> _Mapping | None:
    at = bisect_right(mappings, low, key=lambda mapping: mapping.start) - 1
    return mappings[at] if at >= 0 and high <= mappings[at].end else None


def _file_of(file: IO[bytes]) -> str | None:
    """Return device and inode of a file as in /proc/self/maps.

    On Btrfs and overlay file systems, that device differs from the device of `os.stat`.
    """
    page = np.frombuffer(mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ), np.uint8)
    start = page.__array_interface__["data"][0]
    mapping = _containing(_read_maps(), start, start + 1)
    return None if mapping is None else mapping.file


def _open(path: str, for_writing: bool) -> IO[bytes]:
    return open(path, "r+b" if for_writing else "rb")


# -------------------------------------------------------------------- in the process that reads the pickle


def _map(path: str, identity: tuple[int, int], offset: int, length: int, for_writing: bool) -> mmap.mmap:
    """Map a file again."""
    with _open(path, for_writing) as file:
        status = os.fstat(file.fileno())
        if (status.st_dev, status.st_ino) != identity:
            raise FileNotFoundError(f"{path} was replaced since this array was mapped")
        length = min(length, status.st_size - offset)  # a mapping ends at a page boundary, a file need not
        access = mmap.ACCESS_WRITE if for_writing else mmap.ACCESS_READ
        return mmap.mmap(file.fileno(), length, access=access, offset=offset)


def _array(kind: type[Any], layout: tuple[Any, ...], is_writable: bool) -> Any:
    """Return an array over a mapping."""
    array: Any = np.ndarray.__new__(kind, *layout)
    if not is_writable:
        array.flags.writeable = False
    return array
