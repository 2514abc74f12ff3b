"""Write arrays of one shape to a `.npy` file, each part at the place of its items."""

from __future__ import annotations

import math
import os
import shutil
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.arguments import is_table
from ...core.view import View
from ...core.whole_files import replace_file

__all__ = ["NpyFile"]


class NpyFile:
    """Writes to a file that has its final size from the beginning, and moves it to its place at the end.

    An empty file stands for each part that is done. The type of the items is the pair of their dtype and
    shape.
    """

    kind: Any = None

    def __init__(self, path: str) -> None:
        self._path = path
        self.folder = f"{path}.partial"
        self._data = os.path.join(self.folder, "data.npy")

    def is_finished(self, wanted: dict[str, Any]) -> bool:
        if os.path.lexists(self._path):
            raise FileExistsError(
                f"materialize: {self._path!r} exists already. Read it, delete it, or write somewhere else."
            )
        return False

    def begin(self, first: Any, n: int) -> None:
        array = as_array(first)
        described = np.lib.format.dtype_to_descr(array.dtype)
        header = {"descr": described, "fortran_order": False, "shape": (n, *array.shape)}
        with open(self._data, "wb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            file.truncate(file.tell() + n * array.nbytes)

    def resume(self, plan: dict[str, Any]) -> list[int]:
        data = np.load(self._data, mmap_mode="r")  # raises ValueError if it is too short
        self.kind, self._start = (data.dtype, data.shape[1:]), data.offset
        self._k: int = plan["k"]
        parts = range(math.ceil(plan["n"] / self._k))
        self._done = [os.path.join(self.folder, f"{p}.done") for p in parts]
        return [p for p, path in enumerate(self._done) if not os.path.exists(path)]

    def keep(self, kind: Any, item: Any) -> tuple[Any, bytes]:
        array = as_array(item)
        if kind != (array.dtype, array.shape):
            raise TypeError(
                "items must have one shape and dtype. The items before are {} {}, this one is {} {}. Convert"
                " it".format(*kind, array.dtype, array.shape)
            )
        return kind, array.tobytes()

    def write(self, p: int, kind: Any, rows: dict[int, bytes], failed: dict[int, str]) -> None:
        with open(self._data, "r+b") as file:
            file.seek(self._start + p * self._k * math.prod(kind[1]) * kind[0].itemsize)
            file.write(b"".join(rows.values()))
            file.flush()
            os.fsync(file.fileno())
        replace_file(self._done[p], lambda file: None, durable=False)  # a part without it is written again

    def check(self, p: int) -> None:
        """All parts have one type."""

    def finish(self) -> None:
        os.replace(self._data, self._path)
        shutil.rmtree(self.folder, ignore_errors=True)  # a worker of a killed call may still be writing

    def view(self) -> View[Any]:
        from ...sources.npy import npy

        return npy(self._path)


def as_array(item: Any) -> npt.NDArray[Any]:
    """Return a number or an array as an array of numpy. Raise TypeError for other items.

    >>> as_array(2.5)
    array(2.5)
    """
    # A subclass of ndarray has more than numbers, such as a mask or a unit, and a table has names.
    is_plain = type(item) in (np.ndarray, np.memmap) or isinstance(item, int | float | complex | np.generic)
    is_more = isinstance(item, np.ndarray) or is_table(item) or not hasattr(item, "__array__")
    if is_plain or not is_more:
        array = np.asarray(item)
        # A dtype of another library, such as bfloat16, has no name in a .npy file.
        is_named = array.dtype.names is not None or np.dtype(array.dtype.str) == array.dtype
        if array.dtype.itemsize and not array.dtype.hasobject and is_named:
            return array
    kind = f"{type(item).__name__} of {item.dtype}" if isinstance(item, np.ndarray) else type(item).__name__
    raise TypeError(
        f".npy needs numbers or arrays of numbers, got {kind}. Convert it with numpy.asarray, or use .parquet"
        " for dicts"
    )
