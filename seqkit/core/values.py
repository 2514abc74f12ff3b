"""Sequences of values that users pass as labels, lengths, weights, ids and keys, read by position.

`values_of` reads each of them once, when the function of the user is called: lists, arrays,
tensors, views, and columns of pandas, polars and pyarrow, whatever their index.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from typing import Any

from .lengths import UNBOUNDED
from .plain import plain
from .source import Source, as_view
from .view import in_order

__all__ = ["by_position", "is_single", "values_of"]


def by_position(values: Any, who: str, wanted: str = "a sequence") -> Iterator[Any]:
    """Iterate the elements of a sequence or iterable of the user by position, as they are.

    `wanted` describes the sequence in the error message.

    >>> list(by_position({0: "a", 1: "b"}, "mix: weights"))
    ['a', 'b']
    >>> by_position({3, 1}, "mix: weights")
    Traceback (most recent call last):
    TypeError: mix: weights: a set has no order, got set. Use sorted(s) or list(s).
    """
    is_iterable, is_indexed = isinstance(values, Iterable), hasattr(values, "__getitem__")
    if isinstance(values, type) or not (is_iterable or is_indexed) or is_single(values):
        raise TypeError(f"{who} must be {wanted}, got {reprlib.repr(values)}")
    if hasattr(values, "to_list"):  # of columns. Other reads start threads in polars
        return iter(values.to_list())
    if not is_indexed and not isinstance(values, set | frozenset):
        return iter(values)
    source = as_view(values, who)
    if source._n is UNBOUNDED:
        raise TypeError(f"{who} must end, got {source!r}. Select a part of it with head(n).")
    if isinstance(source, Source) and isinstance(source._n, int):
        return iter(source._getmany(range(source._n)))  # one read of a file
    return in_order(source)


def values_of(values: Any, who: str, wanted: str = "a sequence") -> list[Any]:
    """Return the values of a sequence or iterable by position, as plain Python values.

    Raises
    ------
    TypeError
        If `values` is not a sequence, or one of them is an array or tensor with dimensions.

    >>> import numpy as np
    >>> values_of(np.array([3, 1]), "sqlite: ids"), values_of(iter("ab"), "random_split: groups")
    ([3, 1], ['a', 'b'])
    """
    if hasattr(values, "tolist") and getattr(values, "ndim", None) == 1:
        found: list[Any] = values.tolist()  # of an array, tensor or Series: faster than one by one
    else:
        found = list(by_position(values, who, wanted))
    if _PLAIN.issuperset(map(type, found)):
        return found
    for i, value in enumerate(found):
        if hasattr(type(value), "__array__") and getattr(value, "ndim", None):
            raise TypeError(
                f"{who} must be single values, got {type(value).__name__} of shape {tuple(value.shape)} at"
                f" position {i}"
            )
    return list(map(plain, found))


_PLAIN = {int, str, bool, bytes, type(None)}


def is_single(value: Any) -> bool:
    """Is a value an array or tensor without dimensions?

    >>> import numpy as np
    >>> is_single(np.array(3)), is_single(np.array([3]))
    (True, False)
    """
    return hasattr(type(value), "__array__") and getattr(value, "ndim", None) == 0
