"""How `pack` lays items out in arrays, in memory and in a file.

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

A layout begins with what its first item is; the first item that does not fit turns it into pickles.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
from array import array
from ast import literal_eval
from collections.abc import Sequence
from typing import Any, BinaryIO, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from ..context import MAIN, empty
from ..indices import Indices, as_array, as_list, as_slice
from ..source import Source
from ..view import View, in_order
from .stores import replace_file

__all__ = ["LAYOUTS", "Layout", "lay_out", "read_layout", "write_layout"]

Array = npt.NDArray[Any]


class Layout:
    """Items as they lie in arrays.

    Attributes
    ----------
    small : bool
        Are the items so small that they are best read in blocks?
    runs_code : bool
        Does reading an item run code of its class, which may fail?
    classes : tuple of type
        Classes of the main script that the items need, which have to travel with them.
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
        return item.copy() if isinstance(item, np.void) else item  # a record is a view of its array

    def many(self, indices: Indices) -> Any:
        return np.array(self._picked(indices))

    def describe(self) -> str:
        return str(self._values.dtype)


class Rows(Layout):
    """Arrays of one shape."""

    kind = "row"

    def one(self, i: int) -> Any:
        return _copied(self._values[i], self._values.shape[1:])

    def many(self, indices: Indices) -> Any:
        if self._values.ndim == 1:  # arrays without dimensions are no scalars
            return super().many(indices)
        return np.array(self._picked(indices))

    def describe(self) -> str:
        return f"arrays {self._values.dtype}{list(self._values.shape[1:])}"


class Pieces(Layout):
    """Items of different lengths; `starts` says where each begins in the values, and where the last ends."""

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
    """Items that are strings of bytes, in some code."""

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
        return str(piece, "utf-8", "surrogatepass")  # names of files may hold lone surrogates


class Pickles(ByteStrings):
    kind = "pickle"
    runs_code = True

    def _decoded(self, piece: memoryview) -> Any:
        return pickle.loads(piece)

    def describe(self) -> str:
        return "pickled"


LAYOUTS: dict[str, Any] = {
    layout.kind: layout for layout in (Numbers, Scalars, Rows, Ragged, ByteStrings, Strings, Pickles)
}


def _read_only(values: Array) -> Array:
    values = np.asarray(values).view()
    values.flags.writeable = False
    return values


def _copied(values: Any, shape: tuple[int, ...]) -> Array:
    out = empty(shape, values.dtype)
    out[...] = values
    return out


# -------------------------------------------------------------------- laying out


def lay_out(source: View[Any]) -> Layout:
    """Evaluate all items of a sequence and lay them out.

    >>> import seqkit as sk
    >>> lay_out(sk.view([3, 300])).arrays()
    (array([  3, 300], dtype=uint16),)
    """
    if isinstance(source, Source) and _is_plain_array(source._data):
        return Rows(source._data) if source._data.ndim > 1 else Scalars(source._data)
    builder: _Builder | None = None
    for count, item in enumerate(in_order(source)):
        if builder is None:
            builder = _builder(item)
        if not builder.add(item):
            builder = _as_pickles(builder, count)
            builder.add(item)
    return Pickles(np.empty(0, np.uint8), np.zeros(1, np.uint32)) if builder is None else builder.built()


def _builder(item: Any) -> _Builder:
    kind = type(item)
    if kind in (int, float, bool):
        return _NumberBuilder(kind)
    if kind in (str, bytes):
        return _StringBuilder(kind)
    if _is_plain_array(item):
        return _ArrayBuilder(item)
    if isinstance(item, np.generic) and item.dtype.kind in "biufcmM":
        return _ArrayBuilder(item)
    return _PickleBuilder()


def _as_pickles(builder: _Builder, count: int) -> _Builder:
    """Return a builder that takes everything and has the items of another."""
    pickles = _PickleBuilder()
    if count:
        layout = builder.built()
        for i in range(count):
            pickles.add(layout.one(i))
    return pickles


def _is_plain_array(value: Any) -> bool:
    return type(value) in (np.ndarray, np.memmap) and not value.dtype.hasobject and value.dtype.itemsize > 0


class _Builder(Protocol):
    """Takes items one by one, as long as they are of its kind."""

    def add(self, item: Any) -> bool: ...
    def built(self) -> Layout: ...


class _NumberBuilder:
    CODES: ClassVar[dict[type, str]] = {int: "q", float: "d", bool: "B"}

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._values: array[Any] = array(self.CODES[kind])

    def add(self, item: Any) -> bool:
        if type(item) is not self._kind:
            return False
        try:
            self._values.append(item)
        except OverflowError:
            return False
        return True

    def built(self) -> Layout:
        values = np.array(self._values)
        return Numbers(values.astype(bool) if self._kind is bool else _narrowed(values))


def _narrowed(values: Array) -> Array:
    """Return ints in the smallest dtype that holds them all; floats as they are."""
    if values.dtype.kind == "i":
        least, most = np.min(values), np.max(values)
        for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32):
            if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
                return values.astype(dtype)
    return values


class _ArrayBuilder:
    """Of arrays of one dtype that differ at most in the length of their first dimension, or of scalars."""

    def __init__(self, first: Any) -> None:
        self._kinds = (np.ndarray, np.memmap) if isinstance(first, np.ndarray) else (type(first),)
        self._dtype = first.dtype
        self._ndim = first.ndim
        self._trailing = first.shape[1:]
        self._data = bytearray()
        self._lengths = array("q")

    def add(self, item: Any) -> bool:
        if type(item) not in self._kinds or item.dtype != self._dtype:
            return False
        if item.ndim != self._ndim or item.shape[1:] != self._trailing:
            return False
        self._data += item.tobytes()
        self._lengths.append(len(item) if item.ndim else 1)
        return True

    def built(self) -> Layout:
        values = np.frombuffer(self._data, self._dtype) if self._data else np.empty(0, self._dtype)
        if not self._ndim:
            return Rows(values) if np.ndarray in self._kinds else Scalars(values)
        lengths = np.array(self._lengths)
        if (lengths == lengths[0]).all():
            return Rows(values.reshape(len(lengths), int(lengths[0]), *self._trailing))
        return Ragged(values.reshape(int(lengths.sum()), *self._trailing), _starts(lengths.cumsum()))


class _StringBuilder:
    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._data = bytearray()
        self._ends = array("q")

    def add(self, item: Any) -> bool:
        if type(item) is not self._kind:
            return False
        self._data += item.encode("utf-8", "surrogatepass") if self._kind is str else item
        self._ends.append(len(self._data))
        return True

    def built(self) -> Layout:
        layout = Strings if self._kind is str else ByteStrings
        return layout(_as_bytes(self._data), _starts(np.array(self._ends)))


class _PickleBuilder:
    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._pickler = _Pickler(self._file, protocol=5)
        self._ends = array("q")

    def add(self, item: Any) -> bool:
        try:
            self._pickler.dump(item)
        except Exception as error:
            raise TypeError(
                f"pack: item {len(self._ends)}, a {type(item).__name__}, cannot be pickled: {error}"
            ) from error
        self._pickler.clear_memo()  # every item must be readable without the others
        self._ends.append(self._file.tell())
        return True

    def built(self) -> Layout:
        layout = Pickles(_as_bytes(self._file.getbuffer()), _starts(np.array(self._ends)))
        layout.classes = tuple(self._pickler.classes)
        return layout


class _Pickler(pickle.Pickler):
    """Notes which classes of the main script the items refer to."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.classes: dict[type, None] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value.__module__ in MAIN:
            self.classes[value] = None
        return NotImplemented


def _as_bytes(data: bytearray | memoryview) -> Array:
    return np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)


def _starts(ends: Array) -> Array:
    """Return where pieces begin, and where the last one ends, in as few bytes as will do."""
    starts = np.zeros(len(ends) + 1, np.uint32 if ends[-1] < 2**32 else np.int64)
    starts[1:] = ends
    return starts


# -------------------------------------------------------------------- files

# | magic | length of header | header: JSON | arrays, each on a multiple of 64 |
_MAGIC = b"\x93SEQPACK"
_ALIGNMENT = 64
_VERSION = 1


def _aligned(offset: int) -> int:
    return offset + -offset % _ALIGNMENT


def write_layout(layout: Layout, path: str) -> None:
    """Write a layout to a file, which replaces another one once it is complete."""
    arrays = [np.ascontiguousarray(values) for values in layout.arrays()]
    described, end = [], 0
    for values in arrays:
        dtype = repr(np.lib.format.dtype_to_descr(values.dtype))
        described.append({"dtype": dtype, "shape": values.shape, "offset": end})
        end = _aligned(end + values.nbytes)
    header = {"version": _VERSION, "kind": layout.kind, "arrays": described, "bytes": end}
    text = json.dumps(header).encode()

    def write(file: BinaryIO) -> None:
        file.write(_MAGIC + len(text).to_bytes(8, "little") + text)
        for values in arrays:
            file.write(bytes(_aligned(file.tell()) - file.tell()))
            file.write(values.reshape(-1).view(np.uint8).data if values.size else b"")
        file.write(bytes(_aligned(file.tell()) - file.tell()))

    replace_file(path, write)


def read_layout(path: str) -> Layout:
    """Return the layout that lies in a file, mapped into memory."""
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC) + 8)
        if start[: len(_MAGIC)] != _MAGIC:
            _refuse(path, "is no file of packed items")
        length = int.from_bytes(start[len(_MAGIC) :], "little")
        try:
            header = json.loads(file.read(length))
            version, end = header["version"], header["bytes"]
        except (ValueError, LookupError, TypeError, MemoryError, OverflowError):
            _refuse(path, "is damaged: its header cannot be read")
        if version != _VERSION:
            _refuse(path, f"has format {version}, this seqkit knows {_VERSION}")
        begin = _aligned(len(start) + length)
        if os.fstat(file.fileno()).st_size != begin + end:
            _refuse(path, f"is damaged: it should have {begin + end} bytes")
        block = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        layout: Layout = LAYOUTS[header["kind"]](*(_mapped(block, begin, one) for one in header["arrays"]))
        _check(layout)
    except (ValueError, LookupError, TypeError, SyntaxError):
        _refuse(path, "is damaged: its header does not fit its content")
    return layout


def _mapped(block: mmap.mmap, begin: int, described: Any) -> Array:
    dtype = np.lib.format.descr_to_dtype(literal_eval(described["dtype"]))
    shape = tuple(described["shape"])
    return np.ndarray(shape, dtype, block, begin + described["offset"])


def _check(layout: Layout) -> None:
    if isinstance(layout, Pieces):
        values, starts = layout.arrays()
        if starts[0] != 0 or starts[-1] != len(values):
            raise ValueError("pieces do not cover the values")


def _refuse(path: str, why: str) -> NoReturn:
    raise ValueError(f"load_packed: {path} {why}")
