"""`lay_out`: the items of a sequence, evaluated and stored in arrays."""

from __future__ import annotations

import io
import pickle
from array import array
from typing import Any, TypeAlias

import numpy as np

from ...core.lengths import Unsized
from ...core.progress import Report
from ...core.source import Source
from ...core.view import View, in_order
from ...engine.classes import MAIN
from .layouts import LAYOUTS, Array, Arrays, Layout, Ragged

__all__ = ["lay_out"]


def lay_out(source: View[Any], report: Report) -> Layout:
    """Evaluate all items of a sequence and lay them out. `report` gets the number of items that are done.

    >>> import seqkit as sk
    >>> lay_out(sk.view(["a", "bc"]), lambda done, total: None).arrays
    (array([97, 98, 99], dtype=uint8), array([0, 1, 3], dtype=uint32))
    """
    if isinstance(source, Source) and _is_plain_array(source._data):
        return Arrays(source._data)
    builder: _Builder | None = None
    total = None if isinstance(source._n, Unsized) else source._n
    for count, item in enumerate(in_order(source)):
        if builder is None:
            builder = _builder(item)
        if not builder.add(item):
            builder = _as_pickles(builder, count)
            builder.add(item)
        report(count + 1, total)
    return (builder or _BytesBuilder()).built()


def _builder(item: Any) -> _Builder:
    kind = type(item)
    if kind in (str, bytes):
        return _BytesBuilder(kind)
    is_scalar = isinstance(item, np.generic) and item.dtype.kind in "biufcmM"
    if is_scalar or (_is_plain_array(item) and item.ndim):
        return _ArrayBuilder(item)
    return _BytesBuilder()


def _as_pickles(builder: _Builder, count: int) -> _Builder:
    """Return a builder for any items, with the items of another builder."""
    pickles = _BytesBuilder()
    if count:
        layout = builder.built()
        for i in range(count):
            pickles.add(layout.one(i))
    return pickles


def _is_plain_array(value: Any) -> bool:
    if type(value) not in (np.ndarray, np.memmap):
        return False
    dtype = value.dtype
    # A pickle keeps metadata, and dtypes of other libraries, such as bfloat16.
    if dtype.metadata is not None or dtype.hasobject or not dtype.itemsize:
        return False
    return dtype.names is not None or np.dtype(dtype.str) == dtype


class _ArrayBuilder:
    """For arrays of one dtype that differ only in the length of their first dimension, and for scalars."""

    def __init__(self, first: Any) -> None:
        self._kinds = (np.ndarray, np.memmap) if isinstance(first, np.ndarray) else (type(first),)
        self._dtype = first.dtype
        self._ndim = first.ndim
        self._trailing = first.shape[1:]
        self._data = bytearray()
        self._lengths = array("q")

    def add(self, item: Any) -> bool:
        if type(item) not in self._kinds or item.dtype != self._dtype or item.dtype.metadata:
            return False
        if item.ndim != self._ndim or item.shape[1:] != self._trailing:
            return False
        self._data += item.tobytes()
        self._lengths.append(len(item) if item.ndim else 1)
        return True

    def built(self) -> Layout:
        values = np.frombuffer(self._data, self._dtype) if self._data else np.empty(0, self._dtype)
        if not self._ndim:
            return Arrays(values)
        lengths = np.array(self._lengths)
        if (lengths == lengths[0]).all():
            return Arrays(values.reshape(len(lengths), int(lengths[0]), *self._trailing))
        return Ragged(values.reshape(int(lengths.sum()), *self._trailing), _starts(lengths.cumsum()))


class _BytesBuilder:
    """For items that become bytes one by one: those of `kind`, str or bytes, or pickles of any items."""

    def __init__(self, kind: type[Any] | None = None) -> None:
        self._kind = kind
        self._file = io.BytesIO()
        self._pickler = ClassRecorder(self._file, protocol=5)
        self._ends = array("q")

    def add(self, item: Any) -> bool:
        if self._kind is None:
            self._pickle(item)
        elif type(item) is not self._kind:
            return False
        else:
            self._file.write(item.encode("utf-8", "surrogatepass") if self._kind is str else item)
        self._ends.append(self._file.tell())
        return True

    def _pickle(self, item: Any) -> None:
        try:
            self._pickler.dump(item)
        except Exception as error:
            raise TypeError(
                f"pack: item {len(self._ends)}, a {type(item).__name__}, cannot be pickled: {error}"
            ) from error
        self._pickler.clear_memo()  # each item must be readable without the others

    def built(self) -> Layout:
        data = self._file.getbuffer()
        values = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
        kind = "pickled" if self._kind is None else self._kind.__name__
        made: Layout = LAYOUTS[kind](values, _starts(np.array(self._ends)))
        made.classes = tuple(self._pickler.classes)
        return made


class ClassRecorder(pickle.Pickler):
    """Records the classes of the main script that the items refer to."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.classes: dict[type, None] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value.__module__ in MAIN:
            self.classes[value] = None
        return NotImplemented


def _starts(ends: Array) -> Array:
    """Return the start of each piece and the end of the last one, in the smaller sufficient dtype."""
    starts = np.concatenate([[0], ends])
    return starts.astype(np.uint32) if starts[-1] < 2**32 else starts


_Builder: TypeAlias = _ArrayBuilder | _BytesBuilder
