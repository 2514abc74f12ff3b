"""Chunks that their stream cannot change any more."""

from __future__ import annotations

import array
import copy
from typing import Any

import numpy as np

from ..collation.leaves import is_tensor
from .padding import like

__all__ = ["unshared"]

_CONSTANT = {bool, int, float, str, bytes, type(None)}


def unshared(chunk: Any) -> Any:
    """Return a chunk with copies of its containers, arrays and tensors, which its stream may fill again.

    Objects of other types are not copied.

    >>> buffer = np.zeros(2)
    >>> kept = unshared({"x": buffer, "name": "a"})
    >>> buffer[:] = 7
    >>> kept
    {'x': array([0., 0.]), 'name': 'a'}
    """
    if type(chunk) in _CONSTANT:
        return chunk
    if isinstance(chunk, dict | list):
        copied = copy.copy(chunk)
        if isinstance(copied, dict) or not _CONSTANT.issuperset(map(type, copied)):
            for key in copied if isinstance(copied, dict) else range(len(copied)):
                copied[key] = unshared(copied[key])
        return copied
    if isinstance(chunk, tuple):
        return like(chunk, [unshared(part) for part in chunk])
    if isinstance(chunk, np.ndarray | np.void | bytearray | array.array):
        return copy.copy(chunk)
    if isinstance(chunk, memoryview):
        return memoryview(bytes(chunk))
    return chunk.clone() if is_tensor(type(chunk)) else chunk
