"""The layouts of `pack`: how items are stored in arrays, in memory and in a file.

========  =======================================  ===========================
kind      items                                    arrays
========  =======================================  ===========================
number    bool, int or float                       values
scalar    numpy scalars of one dtype               values
row       numpy arrays of one shape and dtype      values
ragged    numpy arrays that differ in length       values, starts (in rows)
str       str                                      UTF-8, starts (in bytes)
bytes     bytes                                    bytes, starts
pickle    anything else                            pickles, starts
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

__all__ = [
    "LAYOUTS",
    "Array",
    "Arrays",
    "ByteStrings",
    "Layout",
    "Numbers",
    "Pickles",
    "Pieces",
    "Ragged",
    "Scalars",
    "Strings",
]

Array = npt.NDArray[Any]


class Layout:
    """Items that are stored in arrays.

    Attributes
    ----------
    small : bool
        Are the items so small that reading blocks of them is faster?
    runs_code : bool
        Does reading an item run code of its class? Such code may fail.
    classes : tuple of type
        Classes of the main script that the items need. They are pickled with the layout.
    """

    kind: ClassVar[str]
    small: ClassVar[bool] = False
    runs_code: ClassVar[bool] = False

    def __init__(self, values: Array) -> None:
        self._values = _read_only(values)
        self.length = len(values)
        self.classes: tuple[type, ...] = ()

    def arrays(self) -> tuple[Array, ...]:
        return (self._values,)

    def one(self, i: int) -> Any:
        raise NotImplementedError

    def many(self, indices: Indices) -> Sequence[Any]:
        return [self.one(i) for i in as_list(indices)]

    def describe(self) -> str:
        return self.kind

    def _picked(self, indices: Indices) -> Array:
        if isinstance(indices, range):
            return self._values[as_slice(indices)]
        return self._values[as_array(indices)]


class Numbers(Layout):
    """Python numbers; ints in the smallest dtype that holds them all."""

    kind = "number"
    small = True

    def one(self, i: int) -> Any:
        return self._values.item(i)

    def many(self, indices: Indices) -> Sequence[Any]:
        return self._picked(indices).tolist()  # type: ignore[no-any-return]

    def describe(self) -> str:
        return {"b": "bool", "f": "float"}.get(self._values.dtype.kind, "int")


class Scalars(Layout):
    """Numpy scalars."""

    kind = "scalar"
    small = True

    def one(self, i: int) -> Any:
        item = self._values[i]
        return item.copy() if isinstance(item, np.void) else item  # a record would be a view of its array

    def many(self, indices: Indices) -> Any:
        return np.array(self._picked(indices))

    def describe(self) -> str:
        return str(self._values.dtype)


class Arrays(Layout):
    """Arrays of one shape."""

    kind = "row"

    def one(self, i: int) -> Any:
        return _copied(self._values[i], self._values.shape[1:])

    def many(self, indices: Indices) -> Any:
        if self._values.ndim == 1:  # arrays without dimensions, not scalars
            return super().many(indices)
        return np.array(self._picked(indices))

    def describe(self) -> str:
        return f"arrays {self._values.dtype}{list(self._values.shape[1:])}"


class Pieces(Layout):
    """Items of different lengths. `starts` has the position of each item in the values, and the end."""

    def __init__(self, values: Array, starts: Array) -> None:
        super().__init__(values)
        self._starts = _read_only(starts)
        self.length = len(starts) - 1

    def arrays(self) -> tuple[Array, ...]:
        return self._values, self._starts


class Ragged(Pieces):
    """Arrays that differ in the length of their first dimension."""

    kind = "ragged"

    def one(self, i: int) -> Any:
        piece = self._values[self._starts.item(i) : self._starts.item(i + 1)]
        return _copied(piece, piece.shape)

    def describe(self) -> str:
        shape = ", ".join(map(str, ["*", *self._values.shape[1:]]))
        return f"arrays {self._values.dtype}[{shape}]"


class ByteStrings(Pieces):
    """Items that are stored as byte strings."""

    kind = "bytes"
    small = True

    def __init__(self, values: Array, starts: Array) -> None:
        super().__init__(values, starts)
        self._bytes = memoryview(values.data)

    def one(self, i: int) -> Any:
        return self._decoded(self._bytes[self._starts.item(i) : self._starts.item(i + 1)])

    def many(self, indices: Indices) -> Sequence[Any]:
        wanted = as_array(indices)
        pieces = zip(self._starts[wanted].tolist(), self._starts[1:][wanted].tolist(), strict=True)
        return [self._decoded(self._bytes[start:stop]) for start, stop in pieces]

    def _decoded(self, piece: memoryview) -> Any:
        return bytes(piece)


class Strings(ByteStrings):
    kind = "str"

    def _decoded(self, piece: memoryview) -> Any:
        return str(piece, "utf-8", "surrogatepass")  # file names may contain lone surrogates


class Pickles(ByteStrings):
    kind = "pickle"
    runs_code = True

    def _decoded(self, piece: memoryview) -> Any:
        return pickle.loads(piece)

    def describe(self) -> str:
        return "pickled"


LAYOUTS: dict[str, Any] = {
    layout.kind: layout for layout in (Numbers, Scalars, Arrays, Ragged, ByteStrings, Strings, Pickles)
}


def _read_only(values: Array) -> Array:
    values = np.asarray(values).view()
    values.flags.writeable = False
    return values


def _copied(values: Any, shape: tuple[int, ...]) -> Array:
    out = empty(shape, values.dtype)
    out[...] = values
    return out
