"""Tables of polars, read by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.once import cached
from .columns import ByPosition
from .number_lists import dtype_named, number_list

__all__ = ["PolarsColumn", "PolarsRows"]

NAT = np.datetime64("NaT", "ns").astype(np.int64)


class PolarsColumn(ByPosition):
    """The values of a Series by position, as Python objects."""

    def __init__(self, series: Any) -> None:
        super().__init__(series)
        self._dtype = _dtype_of_lists(series.dtype)

    def __getitem__(self, i: int) -> Any:
        return self._read(self._data.slice(i, 1))[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return self._read(self._data.gather(indices))

    @cached
    def _checked(self) -> None:
        _check_times(self._data)

    def _read(self, series: Any) -> list[Any]:
        self._checked  # noqa: B018 - once
        values: list[Any] = series.to_list()
        return values if self._dtype is None else [number_list(value, self._dtype) for value in values]


class PolarsRows(ByPosition):
    """The rows of a DataFrame by position, each a dict from column to value."""

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self._names = frame.columns
        dtypes = {name: _dtype_of_lists(dtype) for name, dtype in frame.schema.items()}
        self._lists = [(name, dtype) for name, dtype in dtypes.items() if dtype is not None]

    @cached
    def _checked(self) -> None:
        for name in self._names:
            _check_times(self._data.get_column(name))

    def __getitem__(self, i: int) -> dict[str, Any]:
        self._checked  # noqa: B018 - once
        row = dict(zip(self._names, self._data.row(i), strict=True))
        for name, dtype in self._lists:
            row[name] = number_list(row[name], dtype)
        return row

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        # `frame[indices]` uses the threads of polars, which a forked process does not have. `named=True`
        # takes longer.
        self._checked  # noqa: B018 - once
        if self._lists:
            return [self[i] for i in indices]
        row, names = self._data.row, self._names
        return [dict(zip(names, row(i), strict=True)) for i in indices]


def _check_times(series: Any) -> None:
    """Refuse a column of dates, times or durations with nanoseconds, which polars would cut off."""
    kinds = [kind for kind in _parts(series.dtype) if kind == "Time" or "time_unit='ns'" in kind]
    if not kinds:
        return
    if kinds == [str(series.dtype)]:  # within lists and structs, values are not looked at
        import polars as pl

        ticks = (series.cast(pl.Duration("ns")) if kinds == ["Time"] else series).to_numpy().view(np.int64)
        if not np.any((ticks % 1000 != 0) & (ticks != NAT)):
            return
    raise ValueError(
        f"the column {series.name!r} of {series.dtype} has nanoseconds, which objects of Python cannot hold."
        " Cast it to microseconds: pl.col(…).dt.cast_time_unit('us'). Cast times of the day to pl.Int64"
    )


def _parts(dtype: Any) -> list[str]:
    """Return the names of the types within lists and structs."""
    inner = (
        [dtype.inner] if hasattr(dtype, "inner") else [each.dtype for each in getattr(dtype, "fields", ())]
    )
    return [kind for part in inner for kind in _parts(part)] or [str(dtype)]


def _dtype_of_lists(dtype: Any) -> Any:
    """Return the dtype of the numbers in nested lists, or None if values are not lists of numbers."""
    inner = dtype
    while type(inner).__name__ in ("List", "Array"):
        inner = inner.inner
    return None if inner is dtype else dtype_named(str(inner))
