"""Indices, keys, lengths and weights that users give to samplers, checked."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import int_at_least
from ..core.plain import plain
from ..core.source import as_view
from ..core.values import by_position, is_single
from ..core.view import View
from ..views.smap import smap

__all__ = [
    "Key",
    "LengthArray",
    "Order",
    "as_key",
    "as_lengths",
    "check_keys",
    "check_sequence",
    "key_of_row",
    "keys_of",
    "sample_count",
]


# Indices or keys that can be indexed.
Order = Sequence[Any] | npt.NDArray[Any]
# The length of a sample, or the lengths of its parts.
Key = float | tuple[float, ...]
LengthArray = npt.NDArray[Any]  # of ints or floats


def keys_of(indices: Order, who: str) -> View[Any]:
    """Return given indices or keys as a view. They become plain Python values. A bool is not a key.

    >>> list(keys_of(np.array([2, 0]), "SequentialSampler: indices"))
    [2, 0]
    """
    return smap(partial(as_key, who), as_view(indices, who))


def as_key(who: str, key: Any) -> Any:
    """Return an index or key as a plain Python value. A bool is refused, because it would mean 0 or 1.

    >>> as_key("SequentialSampler: indices", np.int32(2))
    2
    """
    value = key if type(key) is int else plain(key)
    if isinstance(value, bool):
        raise TypeError(
            f"{who} must be indices or keys, got {key!r}, a bool. Pass numpy.flatnonzero(mask) for a mask."
        )
    return value


def check_keys(indices: Order, who: str) -> None:
    """Refuse an object that is not a sequence of keys, such as a mask. A view is checked when it is read."""
    check_sequence(indices, who)
    if not isinstance(indices, View) and len(indices):
        as_key(who, as_view(indices, who)._get(0))


def check_sequence(values: Any, who: str) -> None:
    """Refuse an object that has no length or cannot be indexed."""
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise TypeError(f"{who} should be a sequence or an array, but got {values!r}")


def sample_count(data_source: Any, who: str, name: str = "data_source") -> int:
    """Return a number of samples, given as an int or as a data source with a length.

    >>> sample_count("abc", "RandomSampler"), sample_count(4, "RandomSampler")
    (3, 4)
    """
    if hasattr(data_source, "__len__") and not is_single(data_source):
        return len(data_source)
    return int_at_least(data_source, f"{who}: {name} (an int, or anything with len)", 0)


def as_lengths(lengths: Any, who: str, kinds: str = "iuf") -> LengthArray:
    """Return lengths, or weights, as a table of ints or floats: a row per sample, a column per part of it.

    `kinds` has the kinds of dtypes that are numbers.

    >>> as_lengths([3, 0], "FixedBucketSampler: lengths").tolist()
    [[3], [0]]
    """
    table = _as_array(lengths, who)
    if table.size == 0 and table.ndim:
        return np.empty((0, 1), np.int64)
    if table.ndim not in (1, 2) or table.dtype.kind not in kinds:
        raise TypeError(
            f"{who} must be numbers, or tuples of so many numbers for all, got {reprlib.repr(lengths)}"
        )
    table = table.reshape(len(table), -1).astype(np.float64 if table.dtype.kind == "f" else np.int64)
    if (bad := ~(np.isfinite(table) & (table >= 0)).all(axis=1)).any():
        position = int(bad.argmax())
        raise ValueError(
            f"{who} must be at least 0, got {key_of_row(table[position])} at position {position}"
        )
    return table


def _as_array(values: Any, who: str) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray) and values.dtype != object and not np.ma.is_masked(values):
        return values
    given = by_position(values, who, "numbers")
    rows = [row.tolist() if hasattr(row, "tolist") else plain(row) for row in given]
    try:
        return np.array(rows)
    except ValueError:  # rows of different length
        return np.array(None)


def key_of_row(row: LengthArray) -> Key:
    """Return a row of a table of lengths as a number, or as a tuple if there are several.

    >>> key_of_row(np.array([3])), key_of_row(np.array([3, 0.5]))
    (3, (3.0, 0.5))
    """
    values = row.tolist()
    return values[0] if len(values) == 1 else tuple(values)
