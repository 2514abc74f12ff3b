"""Tables of polars, read by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.once import cached
from .columns import ByPosition, ColumnOf

__all__ = ["PolarsRows", "column"]


def column(series: Any) -> ColumnOf:
    """Return the values of a Series by position, as Python objects."""
    return ColumnOf(PolarsRows(series.to_frame()), series.name)


class PolarsRows(ByPosition):
    """The rows of a DataFrame by position, each a dict from column to value."""

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self.names = tuple(frame.columns)

    @cached
    def _vectors(self) -> list[tuple[str, Any]]:
        dtypes = [(name, checked(self._data.get_column(name))) for name in self.names]
        return [(name, dtype) for name, dtype in dtypes if dtype is not None]

    def __getitem__(self, i: int) -> dict[str, Any]:
        vectors = self._vectors
        row = dict(zip(self.names, self._data.row(i), strict=True))
        for name, dtype in vectors:
            row[name] = _vector(row[name], dtype)
        return row

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        # `frame[indices]` uses the threads of polars, which a forked process does not have.
        return [self[i] for i in indices]

    def select(self, names: Sequence[str]) -> PolarsRows:
        return PolarsRows(self._data.select(names))


def checked(series: Any) -> Any:
    """Return the dtype of the vectors in a column, or None if its values are no lists of numbers.

    Refuse dates, times and durations with nanoseconds, which polars would drop.
    """
    import polars as pl

    dtype = series.dtype
    is_fine = dtype == pl.Time or getattr(dtype, "time_unit", None) == "ns"
    if is_fine and (series.cast(pl.Int64) % 1000 != 0).any():
        raise ValueError(
            f"the column {series.name!r} of {dtype} has nanoseconds, which objects of Python cannot hold."
            " Cast it to microseconds: pl.col(…).dt.cast_time_unit('us'). Cast times of the day to pl.Int64"
        )
    inner: Any = dtype.inner if isinstance(dtype, pl.List | pl.Array) else pl.String
    is_number = inner == pl.Boolean or (inner.is_numeric() and not inner.is_decimal())
    return pl.Series([], dtype=inner).to_numpy().dtype if is_number else None


def _vector(value: Any, dtype: Any) -> Any:
    return value if value is None or None in value else np.array(value, dtype)
