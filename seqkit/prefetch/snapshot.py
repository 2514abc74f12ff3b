"""An item as it is at the moment at which it is made, whatever happens to it afterwards.

A chunk of items is encoded when the last of them has been made. By then a function that fills the same buffer
for every item has overwritten the first ones; and where two items are the same object, one pickle of both
would make them one object of the reader's, too.

Guarantees
----------
- items of a chunk are as independent of one another as if each had been sent by itself;
- what is copied for it is not copied once more: it goes where it will be handed over.

Relies on
---------
- no item of a chunk having memory of the slot itself, which it might use again for the next one.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..context import Allocator
from .codec import INLINE_BYTES, dumps_plain
from .pickling import dumps_back

__all__ = ["snapshots"]

_ATOMS = {int, float, bool, complex, str, bytes, type(None)} | {
    np.dtype(code).type for code in "?bhilqBHILQefdgFDGmMSU"
}


def snapshots(items: Iterator[Any], allocate: Allocator) -> Iterator[Any]:
    """Return an iterator of what pickles as every item would do when it is made.

    An item is given itself if it never changes; or if it cannot be pickled, which whoever tries finds out.

    Parameters
    ----------
    items : iterator
    allocate : callable
        Returns an array of a shape and dtype in the slot, or None.

    Examples
    --------
    >>> buffer = [0]
    >>> def count(x):
    ...     buffer[0] = x
    ...     return buffer
    >>> list(map(count, range(3)))
    [[2], [2], [2]]
    >>> list(snapshots(map(count, range(3)), lambda shape, dtype: None))
    [[0], [1], [2]]
    """

    def settled(value: Any) -> Any:
        return value if type(value) in _ATOMS else _settled(value, allocate)

    return map(settled, items)


def _settled(value: Any, allocate: Allocator) -> Any:
    kind = type(value)
    if _is_array(value):
        return _copied(value, allocate)
    if kind is dict and _ATOMS.issuperset(map(type, value)) and _is_flat(list(value.values())):
        return {key: _copied(part, allocate) for key, part in value.items()}
    if kind in (tuple, list) and _is_flat(value):
        return kind([_copied(part, allocate) for part in value])
    return _pickled(value, allocate)


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray and not value.dtype.hasobject


def _is_flat(parts: Sequence[Any]) -> bool:
    """Are these atoms, and arrays each of which is there once?"""
    others = [part for part in parts if type(part) not in _ATOMS]
    return all(map(_is_array, others)) and len(set(map(id, others))) == len(others)


def _copied(part: Any, allocate: Allocator) -> Any:
    """Return a copy of an array; an atom itself."""
    if type(part) is not np.ndarray:
        return part
    turned = part.flags.fnc  # in memory, it is its transpose
    source = part.T if turned else part
    copied = allocate(source.shape, part.dtype)
    copied = np.empty(source.shape, part.dtype) if copied is None else copied
    if part.dtype.names and source.flags.c_contiguous:  # with what lies between the fields
        copied.reshape(-1).view(np.uint8)[:] = source.reshape(-1).view(np.uint8)
    else:
        copied[...] = source
    copied = copied.T if turned else copied
    copied.flags.writeable = part.flags.writeable or not part.flags.forc  # as pickle has it
    return copied


def _pickled(value: Any, allocate: Allocator) -> Any:
    buffers: list[pickle.PickleBuffer] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = np.frombuffer(buffer.raw(), np.uint8)
        if raw.nbytes < INLINE_BYTES:
            return True
        buffers.append(pickle.PickleBuffer(_copied(raw, allocate)))
        return False

    for dumps in (dumps_plain, dumps_back):
        buffers.clear()
        try:
            return _Pickled(dumps(value, protocol=5, buffer_callback=keep), tuple(buffers))
        except BaseException:  # it is user code that says how to pickle
            pass
    return value


class _Pickled:
    """A pickle, which is unpickled with what it is part of."""

    __slots__ = ("buffers", "data")

    def __init__(self, data: bytes, buffers: tuple[pickle.PickleBuffer, ...]) -> None:
        self.data = data
        self.buffers = buffers

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.data, self.buffers)


def _unpickled(data: bytes, buffers: tuple[Any, ...]) -> Any:
    return pickle.loads(data, buffers=buffers)
