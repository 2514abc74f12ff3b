"""Lengths of samples: an int for each sample, or a tuple of ints if a sample has several parts."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Key", "LengthArray", "as_key", "as_lengths"]

# The length of a sample, or the lengths of its parts.
Key = int | tuple[int, ...]
LengthArray = npt.NDArray[np.int64]


def as_lengths(lengths: Any, who: str) -> LengthArray:
    """Return lengths as a table: a row per sample, a column per part of it."""
    try:
        table = np.asarray(lengths)
    except ValueError:  # tuples of different size
        table = np.array(None)
    if table.size == 0 and table.ndim:
        return np.empty((0, 1), np.int64)
    if table.ndim not in (1, 2) or table.dtype.kind not in "iu":
        raise TypeError(f"{who} must be ints, or tuples of so many ints for all, got {reprlib.repr(lengths)}")
    table = table.reshape(len(table), -1).astype(np.int64)
    if (short := (table < 1).any(axis=1)).any():
        position = int(short.argmax())
        raise ValueError(f"{who} must be at least 1, got {as_key(table[position])} at position {position}")
    return table


def as_key(row: LengthArray) -> Key:
    return int(row[0]) if len(row) == 1 else tuple(row.tolist())
