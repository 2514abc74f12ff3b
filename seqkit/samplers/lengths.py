"""Lengths of samples: a number for each sample, or a tuple of numbers if a sample has several parts."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.plain import plain
from ..core.values import numbers_of

__all__ = ["Key", "LengthArray", "as_key", "as_length", "as_lengths"]

# The length of a sample, or the lengths of its parts.
Key = float | tuple[float, ...]
LengthArray = npt.NDArray[Any]  # of ints or floats


def as_lengths(lengths: Any, who: str) -> LengthArray:
    """Return lengths as a table of ints or floats: a row per sample, a column per part of it.

    >>> as_lengths([3, 0], "FixedBucketSampler: lengths").tolist()
    [[3], [0]]
    """
    table = numbers_of(lengths, who)
    if table.size == 0 and table.ndim:
        return np.empty((0, 1), np.int64)
    if table.ndim not in (1, 2) or table.dtype.kind not in "iuf":
        raise TypeError(
            f"{who} must be numbers, or tuples of so many numbers for all, got {reprlib.repr(lengths)}"
        )
    table = table.reshape(len(table), -1).astype(np.float64 if table.dtype.kind == "f" else np.int64)
    if (bad := ~(np.isfinite(table) & (table >= 0)).all(axis=1)).any():
        position = int(bad.argmax())
        raise ValueError(f"{who} must be at least 0, got {as_key(table[position])} at position {position}")
    return table


def as_length(length: Any, who: str) -> float:
    """Return a single length, checked.

    >>> as_length(np.float32(0.5), "BudgetBatchSampler: lengths")
    0.5
    """
    number = plain(length)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{who} must be numbers, got {length!r}")
    if not 0 <= number < math.inf:
        raise ValueError(f"{who} must be at least 0, got {number}")
    return number


def as_key(row: LengthArray) -> Key:
    """Return a row of a table of lengths as a number, or as a tuple if there are several.

    >>> as_key(np.array([3])), as_key(np.array([3, 0.5]))
    (3, (3.0, 0.5))
    """
    values = row.tolist()
    return values[0] if len(values) == 1 else tuple(values)
