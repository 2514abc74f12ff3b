"""The layouts of `pack`: how items are stored in arrays, in memory and in a file.

========  =======================================  ===========================
kind      items                                    arrays
========  =======================================  ===========================
array     arrays of one shape, or numpy scalars    values
ragged    numpy arrays that differ in length       values, starts (in rows)
str       str                                      UTF-8, starts (in bytes)
bytes     bytes                                    bytes, starts
pickled   anything else                            pickles, starts
========  =======================================  ===========================

The first item decides the layout. If a later item does not fit, all items are pickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...core.indices import Indices, as_array, as_list, as_slice
from ...core.worker import empty

__all__ = ["LAYOUTS", "Array", "Arrays", "Layout", "Pieces", "Ragged"]

Array = npt.NDArray[Any]


class Layout:
    """Items that are stored in arrays.

    Attributes
    ----------
    arrays : tuple of numpy.ndarray
        The arrays, read-only.
    length : int
        Number of items.
    classes : tuple of type
        Classes of the main script that the items need. They are pickled with the layout.
    """

    kind: ClassVar[str]

    def __init__(self, *arrays: Array) -> None:
        self.arrays = tuple(np.asarray(values).view() for values in arrays)
        for values in self.arrays:
            values.flags.writeable = False
        self._values = self.arrays[0]
        self.length = len(self._values)
        self.classes: tuple[type, ...] = ()

    def one(self, i: int) -> Any:
        raise NotImplementedError

    def many(self, indices: Indices) -> Sequence[Any]:
        return [self.one(i) for i in as_list(indices)]

    def _picked(self, indices: Indices) -> Array:
        if isinstance(indices, range):
            return self._values[as_slice(indices)]
        return self._values[as_array(indices)]


class Arrays(Layout):
    """Arrays of one shape, or numpy scalars, which have no shape."""

    kind = "array"

    def one(self, i: int) -> Any:
        item = self._values[i]
        if self._values.ndim > 1:
            return _copied(item)
        return item.copy() if isinstance(item, np.void) else item  # a record would be a view of its array

    def many(self, indices: Indices) -> Any:
        return np.array(self._picked(indices))


class Pieces(Layout):
    """Items of different lengths. `starts` has the position of each item in the values, and the end."""

    def __init__(self, values: Array, starts: Array) -> None:
        super().__init__(values, starts)
        self._starts = self.arrays[1]
        self.length = len(starts) - 1

    def one(self, i: int) -> Any:
        return self._decoded(self._values[self._starts.item(i) : self._starts.item(i + 1)])

    def _decoded(self, piece: Array) -> Any:
        raise NotImplementedError


class ByteStrings(Pieces):
    kind = "bytes"

    def _decoded(self, piece: Array) -> bytes:
        return piece.tobytes()


class Strings(Pieces):
    kind = "str"

    def _decoded(self, piece: Array) -> str:
        return str(piece.data, "utf-8", "surrogatepass")  # file names may contain lone surrogates


class Pickles(Pieces):
    kind = "pickled"

    def _decoded(self, piece: Array) -> Any:
        return pickle.loads(piece.data)


class Ragged(Pieces):
    """Arrays that differ in the length of their first dimension."""

    kind = "ragged"

    def _decoded(self, piece: Array) -> Array:
        return _copied(piece)


LAYOUTS: dict[str, Any] = {layout.kind: layout for layout in (Arrays, Ragged, ByteStrings, Strings, Pickles)}


def _copied(values: Any) -> Array:
    out = empty(values.shape, values.dtype)
    out[...] = values
    return out
