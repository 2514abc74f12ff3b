"""Arrays over memory-mapped files, pickled as references to the files.

An array over a shared mapping of a file travels as the file, the dtype, the shape, the strides and the
place of its first element. The receiver maps the file again. No byte of the file is read or copied.

Guarantees
----------
- This covers `numpy.memmap`, its slices and reshapes, arrays over `mmap.mmap` and over
  `multiprocessing.shared_memory`, and CPU tensors over any of these.
- A reference is sent only if the path still leads to the mapped file. Private mappings (mode "c") and files
  that were deleted or replaced travel by value.
- The file is never truncated. It is mapped for writing only if it was mapped for writing.
- Ordinary arrays cost almost nothing: an array without an `mmap.mmap` among its bases is not looked up.

Relies on
---------
- /proc/self/maps gives the place at which a file is mapped. The attributes of a `numpy.memmap` do not: a
  slice has the `offset` of the whole array. Without /proc, arrays travel by value.
"""

from __future__ import annotations

import mmap
import os
import stat
import warnings
from bisect import bisect_right
from importlib import import_module
from typing import Any

import numpy as np

from ..core.once import cached
from .tensors import as_array

LEAST_TENSOR_BYTES = 4096  # smaller tensors are not looked up


class Maps:
    """The mapped files of this process, at the time when an array is first looked up."""

    @cached
    def _mappings(self) -> list[_Mapping]:
        return _read_maps()

    def reduce(self, obj: Any) -> Any:
        """Return how to pickle an array or a tensor, or NotImplemented if no mapped file holds its
        memory."""
        if isinstance(obj, np.ndarray):
            reference = self._reference(obj) if _is_over_mmap(obj) else None
            if reference is not None:
                return _array, reference
            if type(obj) is np.memmap:  # numpy's own pickle of a memmap would hold the bytes twice
                return np.ndarray.view, (np.asarray(obj), np.memmap)
        # The `nbytes` of a sparse tensor raises an error.
        elif (array := as_array(obj)) is not None and array.nbytes >= LEAST_TENSOR_BYTES:
            reference = self._reference(array)
            if reference is not None:
                return _tensor, reference
        return NotImplemented

    def _reference(self, array: np.ndarray[Any, Any]) -> tuple[Any, ...] | None:
        start = array.__array_interface__["data"][0]
        steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
        low = start + sum(step for step in steps if step < 0)
        high = start + sum(step for step in steps if step > 0) + array.itemsize
        mapping = _containing(self._mappings, low, high)
        if mapping is None or not array.size or mapping.identity is None:
            return None
        layout = array.shape, array.dtype, start - mapping.start, array.strides
        return type(array), mapping, mapping.path, mapping.offset, layout, array.flags.writeable


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
            fd = _open(self.path, self.is_writable)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
            is_same = stat.S_ISREG(status.st_mode) and (
                self.file == f"{device} {status.st_ino}" or self.file == _file_of(fd)
            )
            return (status.st_dev, status.st_ino) if is_same else None
        except (OSError, ValueError):
            return None
        finally:
            os.close(fd)

    def __reduce__(self) -> Any:
        return _map, (self.path, self.identity, self.offset, self.end - self.start, self.is_writable)


def _read_maps() -> list[_Mapping]:
    """Return the shared mappings of files, sorted by address."""
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = os.fsdecode(file.read()).split("\n")
    except OSError:
        return []
    return [_Mapping(line) for line in lines if line.partition(" ")[2][3:4] == "s" and "/" in line]


def _containing(mappings: list[_Mapping], low: int, high: int) -> _Mapping | None:
    at = bisect_right(mappings, low, key=lambda mapping: mapping.start) - 1
    return mappings[at] if at >= 0 and high <= mappings[at].end else None


def _file_of(fd: int) -> str | None:
    """Return device and inode of a file as in /proc/self/maps.

    On Btrfs and overlay file systems, that device differs from the device of `os.stat`.
    """
    page = np.frombuffer(mmap.mmap(fd, 1, prot=mmap.PROT_READ), np.uint8)
    start = page.__array_interface__["data"][0]
    mapping = _containing(_read_maps(), start, start + 1)
    return None if mapping is None else mapping.file


def _open(path: str, for_writing: bool) -> int:
    return os.open(path, (os.O_RDWR if for_writing else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)


# -------------------------------------------------------------------- in the process that reads the pickle


def _map(path: str, identity: tuple[int, int], offset: int, length: int, for_writing: bool) -> mmap.mmap:
    """Map a file again."""
    fd = _open(path, for_writing)
    try:
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != identity:
            raise FileNotFoundError(f"{path} was replaced since this array was mapped")
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if for_writing else 0)
        length = min(length, status.st_size - offset)  # a mapping ends at a page boundary, a file need not
        return mmap.mmap(fd, length, mmap.MAP_SHARED, protection, offset=offset)
    finally:
        os.close(fd)


def _array(
    kind: type[Any], mapped: mmap.mmap, path: str, offset: int, layout: tuple[Any, ...], is_writable: bool
) -> Any:
    """Return an array over a mapping."""
    shape, dtype, at, strides = layout
    array: Any = np.ndarray.__new__(kind, shape, dtype, mapped, at, strides)
    if kind is np.memmap:
        array._mmap, array.filename, array.offset = mapped, path, offset + at
        array.mode = "r+" if array.flags.writeable else "r"
    if not is_writable:
        array.flags.writeable = False
    return array


def _tensor(*reference: Any) -> Any:
    """Return a tensor over a mapping."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns about files mapped for reading only
        return import_module("torch").from_numpy(_array(*reference))
