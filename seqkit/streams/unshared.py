"""Chunks that their stream cannot change any more."""

from __future__ import annotations

import array
import copy
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

import numpy as np

from ..collation.leaves import is_tensor
from .padding import like

__all__ = ["unshared"]

# Parts of these types may change. The parts of a list are alike, so only its first one is looked at.
_MUTABLE = (dict, list, tuple, np.ndarray, bytearray, array.array, memoryview)


def unshared(held: list[Any]) -> Any:
    """Return the only item of a list, a chunk, with copies of what its stream may still change.

    An array that was made for this chunk is passed on as it is: the list, or a new container in the list,
    holds the only reference to it and to its memory. So is a read-only array. Other arrays, containers and
    all tensors of PyTorch are copied. Objects of other types are not.

    >>> buffer = np.zeros(2)
    >>> kept = unshared([{"x": buffer, "name": "a"}])
    >>> buffer[:] = 7
    >>> kept
    {'x': array([0., 0.]), 'name': 'a'}
    """
    return _unshared(held, 0, False)


def _unshared(holder: Any, key: Any, is_shared: bool) -> Any:
    is_shared = is_shared or getrefcount(holder[key]) > _ALONE
    value = holder[key]
    if isinstance(value, np.ndarray):
        is_ours = not is_shared and _owns_memory(value)
        return value if is_ours or _is_constant(value) else value.copy()
    if isinstance(value, dict):
        return _with_parts(value, value.keys(), is_shared)
    if isinstance(value, list):
        has_mutable = any(isinstance(part, _MUTABLE) or is_tensor(type(part)) for part in value[:1])
        return _with_parts(value, range(len(value)) if has_mutable else (), is_shared)
    if isinstance(value, tuple):
        return like(value, [_unshared(value, place, is_shared) for place in range(len(value))])
    if isinstance(value, memoryview):
        return memoryview(bytes(value))
    if isinstance(value, bytearray | array.array):
        return copy.copy(value)
    return value.clone() if is_tensor(type(value)) else value


def _with_parts(value: Any, keys: Iterable[Any], is_shared: bool) -> Any:
    parts = [(key, _unshared(value, key, is_shared)) for key in keys]
    copied = copy.copy(value)  # afterwards: it refers to the parts, too
    for key, part in parts:
        copied[key] = part
    return copied


def _is_constant(value: Any) -> bool:
    """Return whether neither an array nor the array that it is a part of can be written to."""
    base = value if value.base is None else value.base
    return type(base) in (np.ndarray, np.memmap) and not (value.flags.writeable or base.flags.writeable)


def _owns_memory(value: Any) -> bool:
    if value.base is None or isinstance(value.base, bytes):
        return True
    return type(value.base) is np.ndarray and value.base.base is None and getrefcount(value.base) <= _ALONE


def _references(holder: Any, key: Any) -> int:
    return getrefcount(holder[key])


_ALONE = _references([np.empty(1)], 0)
