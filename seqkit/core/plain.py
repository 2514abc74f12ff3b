"""Single values that users pass as labels, keys, ids and indices, as plain Python values.

Scalars of numpy and pyarrow, and arrays and tensors without dimensions, hash and compare in their own ways.
A tensor is a new key in every dict. `plain` turns them into the values that they stand for. All code that
hashes, compares or looks up a value of the user calls it first. `seqkit.core.values` does so for whole
sequences.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

__all__ = ["as_index", "is_flag", "plain"]

_PLAIN = {int, str, bool, bytes, type(None)}


def plain(value: Any) -> Any:
    """Return a single value as a plain Python value. Other objects are returned as they are.

    All NaNs become one object, so that they are one label.

    >>> plain(np.int32(3)), plain(np.array("a")), plain((np.float64(0.5), None)), plain([1])
    (3, 'a', (0.5, None), [1])
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if value == value else math.nan
    if kind is tuple:
        return tuple(map(plain, value))
    if hasattr(kind, "as_py"):  # a scalar of pyarrow
        return plain(value.as_py())
    if isinstance(value, np.generic) or (hasattr(kind, "item") and getattr(value, "ndim", None) == 0):
        item = value.item()
        return value if type(item) is kind else plain(item)  # an extended float is its own item
    return value


def is_flag(value: Any) -> bool:
    """Is a value a bool, also one of numpy, or an array or tensor of one bool without dimensions?

    >>> is_flag(True), is_flag(np.array(False)), is_flag(1)
    (True, True, False)
    """
    return type(value) is not int and isinstance(plain(value), bool)


def as_index(value: Any) -> int:
    """Return an int of any library as an int of Python, or raise TypeError. A bool is not an int here.

    >>> as_index(np.uint8(3))
    3
    >>> as_index(True)
    Traceback (most recent call last):
    TypeError: a bool is not an index
    """
    if type(value) is int:
        return value
    number = plain(value)
    if isinstance(number, bool):
        raise TypeError("a bool is not an index")
    return int(operator.index(number))
