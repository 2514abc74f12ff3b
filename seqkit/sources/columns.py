"""Rows made of columns: shared by the readers of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Columns", "as_rows", "check_names"]


def check_names(names: Sequence[Any], what: str) -> None:
    """Raise ValueError if two columns have one name, because a row is a dict.

    >>> check_names(["x", "y", "x"], "DataFrame")
    Traceback (most recent call last):
    ValueError: view: the columns of a DataFrame need different names, got 'x' twice. Rename one of them.
    """
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise ValueError(
                f"view: the columns of a {what} need different names, got {name!r} twice. Rename one of them."
            )
        seen.add(name)


def as_rows(names: Sequence[Any], columns: Iterable[Sequence[Any]], n: int) -> list[dict[Any, Any]]:
    """Return a dict for each row of some columns of length `n`.

    >>> as_rows(["x", "y"], [[1, 2], "ab"], 2)
    [{'x': 1, 'y': 'a'}, {'x': 2, 'y': 'b'}]
    """
    if not names:
        return [{} for _ in range(n)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


class Columns:
    """The rows of several sequences of one length, each a dict.

    >>> Columns({"x": [1, 2], "y": "ab"}, "letters.npz")[1]
    {'x': 2, 'y': 'b'}
    """

    def __init__(self, columns: Mapping[str, Any], where: str) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"the columns of {where} differ in length: {lengths}. Choose one by its name.")
        self._columns = dict(columns)
        self._n = next(iter(lengths.values()))
        sizes = [getattr(column, "group_sizes", None) for column in columns.values()]
        self.group_sizes = max((size for size in sizes if size), default=None)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {name: column[i] for name, column in self._columns.items()}

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        read = [_many(column, indices) for column in self._columns.values()]
        return as_rows(list(self._columns), read, len(indices))


def _many(column: Any, indices: list[int]) -> Any:
    if hasattr(column, "__getitems__"):
        return column.__getitems__(indices)
    return column[indices] if isinstance(column, np.ndarray) else [column[i] for i in indices]
