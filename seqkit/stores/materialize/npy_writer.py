"""Write arrays of one shape to a `.npy` file, each process at the places of its items."""

import os
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.arguments import is_table
from ...core.casting import int_changed, lost_missing
from ...core.view import View
from ...sources.handles import Handles
from .journal import write_all
from .target import Ahead, Target

__all__ = ["NpyWriter"]

COPIED_BYTES = 64 * 1024 * 1024  # rows that are copied at a time


class NpyWriter(Target):
    """Writes arrays of one shape and dtype at their places in a file, and marks them in another one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._data = Handles(partial(open, self.within("data.npy"), "r+b", 0))
        self._marks = Handles(partial(open, self.within("done"), "r+b", 0))

    def type(self) -> None:
        return None

    def begin(self, first: Any) -> None:
        array = self._as_array(first)
        if array is None:
            kind = type(first).__name__
            raise TypeError(
                f"materialize: .npy needs numbers or arrays of numbers, got {kind}. Use .parquet for dicts,"
                " tuples and text."
            )
        if array.dtype.names is None and np.dtype(array.dtype.str) != array.dtype:
            raise TypeError(
                f"materialize: a .npy file does not say that its numbers are {array.dtype}. Convert items to"
                " a dtype of numpy, such as float32."
            )
        self._dtype, self._shape = array.dtype, array.shape
        with open(self.within("data.npy"), "wb") as file:
            _write_header(file, self.n, array)
            self._start = file.tell()
            file.truncate(self._start + self.n * array.nbytes)
        with open(self.within("done"), "wb") as file:
            file.truncate(self.n)

    def resume(self, kind: Any) -> None:
        if os.path.getsize(self.within("done")) != self.n:
            raise ValueError(
                f"materialize: {self.within('done')} is damaged. Delete {self.folder} to begin again."
            )
        data = np.load(self.within("data.npy"), mmap_mode="r")  # raises ValueError if it is too short
        self._dtype, self._shape, self._start = data.dtype, data.shape[1:], data.offset

    @staticmethod
    def _as_array(item: Any) -> Any:
        """Return an item as an array, or None if the array would not say the same."""
        is_plain = type(item) in (np.ndarray, np.memmap) or isinstance(
            item, int | float | complex | str | bytes | list | np.generic
        )
        # A subclass of ndarray says more than its numbers, such as a mask or a unit.
        is_more = isinstance(item, np.ndarray) or is_table(item) or not hasattr(item, "__array__")
        if not is_plain and is_more:
            return None
        try:
            array = np.asarray(item)
        except (TypeError, ValueError, RuntimeError):
            return None
        is_changed = lost_missing(item, array) or (
            isinstance(item, list) and int_changed(item, array) is not None
        )
        if array.dtype.kind in "SU" and isinstance(item, str | bytes | list):
            is_changed = array.tolist() != item  # numpy drops zero bytes at the end
        return None if is_changed or array.dtype.hasobject or not array.dtype.itemsize else array

    def as_stored(self, item: Any) -> Any:
        return self._as_array(item)

    def stored(self, i: int) -> Any:
        return np.asarray(np.load(self.within("data.npy"), mmap_mode="r")[i])

    def record(self, i: int, item: Any) -> npt.NDArray[np.uint8]:
        value = self._as_array(item)
        if value is None or value.shape != self._shape or value.dtype != self._dtype:
            found = type(item).__name__ if value is None else f"{value.dtype} {value.shape}"
            self.refuse(
                i,
                f"items must have one shape and dtype. Item {self.first} is {self._dtype} {self._shape}, item"
                f" {i} is {found}",
            )
        return _raw(value)

    def write(self, i: int, record: npt.NDArray[np.uint8]) -> None:
        if record.nbytes:
            self._data.call(write_all, record, self._start + i * record.nbytes)
        self._marks.call(write_all, b"\1", i)

    def done(self) -> npt.NDArray[np.bool_]:
        return np.fromfile(self.within("done"), np.uint8).astype(bool)

    def complete(self, kept: npt.NDArray[np.intp], ahead: Ahead) -> None:
        missing = kept[~self.done()[kept]]
        if len(missing):
            raise RuntimeError(f"materialize: items {missing.tolist()} of {self.path} are missing")
        name = self.within("data.npy") if len(kept) == self.n else self._without_failed(kept)
        np.load(name, mmap_mode="r")  # raises ValueError if the file is too short
        os.replace(name, self.path)

    def _without_failed(self, kept: npt.NDArray[np.intp]) -> str:
        name = self.within("kept.npy")
        data = np.load(self.within("data.npy"), mmap_mode="r")
        rows = max(1, COPIED_BYTES // max(data[0].nbytes, 1))
        with open(name, "wb", 0) as file:  # not through a map: a full disk would kill the process (SIGBUS)
            _write_header(file, len(kept), data[0, ...])
            end = file.tell()
            for start in range(0, len(kept), rows):
                record = _raw(data[kept[start : start + rows]])
                write_all(file, record, end)
                end += record.nbytes
        return name

    def prepare(self) -> None:
        from ...sources import npy  # noqa: F401

    def view(self) -> View[Any]:
        from ...sources.npy import npy

        return npy(self.path)


def _raw(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of an array, in C order."""
    if not values.size:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _write_header(file: Any, n: int, first: Any) -> None:
    described = np.lib.format.dtype_to_descr(first.dtype)
    header = {"descr": described, "fortran_order": False, "shape": (n, *first.shape)}
    np.lib.format.write_array_header_2_0(file, header)
