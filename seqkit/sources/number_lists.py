"""Cells of tables that are lists of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NumberList", "are_numbers", "number_list"]


class NumberList(list[Any]):
    """A list of numbers, or of lists of them, from a column of a table: a list that collate functions stack.

    Other lists are taken apart position by position, because they may mix what does not belong together.

    >>> np.stack([NumberList([1, 2], np.dtype("i1")), NumberList([3, 4], np.dtype("i1"))])
    array([[1, 2],
           [3, 4]], dtype=int8)
    """

    __slots__ = ("dtype",)

    def __init__(self, numbers: Any = (), dtype: Any = None) -> None:
        super().__init__(numbers)
        self.dtype = dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if not _is_full(self):
            raise ValueError("a number is missing (None)")
        return np.array(list(self), dtype or self.dtype)

    def __reduce__(self) -> Any:
        return NumberList, (list(self), self.dtype)


def number_list(values: Any, dtype: Any) -> Any:
    """Return a cell of a column of lists of numbers as a `NumberList`. A missing cell stays None."""
    return None if values is None else NumberList(values, dtype)


def are_numbers(values: list[Any]) -> bool:
    """Return whether a list holds numbers of one type of Python."""
    kinds = set(map(type, values))
    return len(kinds) == 1 and kinds <= {int, float, bool}


def _is_full(values: list[Any]) -> bool:
    """Has a list, with the lists in it, no missing number?"""
    if values and isinstance(values[0], list):
        return None not in values and all(map(_is_full, values))
    return None not in values
