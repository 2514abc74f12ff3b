"""Lengths of samples: a number for each sample, or a tuple of numbers if a sample has several parts."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.plain import plain
from ..core.values import by_position

__all__ = ["Key", "LengthArray", "as_lengths", "key_of_row", "numbers_of"]

# The length of a sample, or the lengths of its parts.
Key = float | tuple[float, ...]
LengthArray = npt.NDArray[Any]  # of ints or floats


def as_lengths(lengths: Any, who: str, kinds: str = "iuf") -> LengthArray:
    """Return lengths, or weights, as a table of ints or floats: a row per sample, a column per part of it.

    `kinds` has the kinds of dtypes that are numbers.

    >>> as_lengths([3, 0], "FixedBucketSampler: lengths").tolist()
    [[3], [0]]
    """
    table = numbers_of(lengths, who)
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


def key_of_row(row: LengthArray) -> Key:
    """Return a row of a table of lengths as a number, or as a tuple if there are several.

    >>> key_of_row(np.array([3])), key_of_row(np.array([3, 0.5]))
    (3, (3.0, 0.5))
    """
    values = row.tolist()
    return values[0] if len(values) == 1 else tuple(values)


def numbers_of(values: Any, who: str) -> npt.NDArray[Any]:
    """Return numbers, or rows of so many numbers each, as an array.

    The caller checks its dtype: what are not numbers gives an array of strings or objects.

    >>> numbers_of([3, 1], "SortedSampler: lengths"), numbers_of(iter([(1, 0.5)]), "SortedSampler: lengths")
    (array([3, 1]), array([[1. , 0.5]]))
    """
    try:
        array = np.asarray(values)
        if np.ma.is_masked(values):
            array = np.ma.filled(values.astype(np.float64), np.nan)  # missing, not what is below the mask
        if array.dtype.kind in "biuf":
            return array
    except (TypeError, ValueError, RuntimeError):
        pass  # rows of different length, or a tensor that numpy cannot read
    rows = [_plain_row(row) for row in by_position(values, who)]
    try:
        return np.array(rows)
    except ValueError:  # rows of different length
        return np.array([None])


def _plain_row(row: Any) -> Any:
    if hasattr(row, "tolist"):
        return row.tolist()
    return list(map(plain, row)) if isinstance(row, list | tuple) else plain(row)
