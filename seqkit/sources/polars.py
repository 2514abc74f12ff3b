"""Tables of polars, read by position."""

from __future__ import annotations

from typing import Any

from ..core.once import cached
from .columns import ByPosition
from .number_lists import number_list

__all__ = ["PolarsColumn", "PolarsRows"]


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
    """Refuse a column if one of its dates, times or durations has nanoseconds, which polars drops."""
    fine, coarse = _in_unit(series.dtype, "ns"), _in_unit(series.dtype, "us")
    if fine == coarse:
        return
    exact = series.cast(fine)
    if not exact.cast(coarse).cast(fine).equals(exact):
        raise ValueError(
            f"the column {series.name!r} of {series.dtype} has nanoseconds, which objects of Python cannot"
            " hold. Cast it to microseconds: pl.col(…).dt.cast_time_unit('us'). Cast times of the day to"
            " pl.Int64"
        )


def _in_unit(dtype: Any, unit: Any) -> Any:
    """Return a type with another unit in place of nanoseconds, and durations in place of times of day."""
    import polars as pl

    if isinstance(dtype, pl.List):
        return pl.List(_in_unit(dtype.inner, unit))
    if isinstance(dtype, pl.Array):
        return pl.Array(_in_unit(dtype.inner, unit), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _in_unit(field.dtype, unit) for field in dtype.fields})
    if isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns":
        return pl.Datetime(unit, dtype.time_zone)
    return pl.Duration(unit) if dtype in (pl.Time, pl.Duration("ns")) else dtype


def _dtype_of_lists(dtype: Any) -> Any:
    """Return the dtype of the numbers in nested lists, or None if values are not lists of numbers."""
    import polars as pl

    inner = dtype
    while isinstance(inner, pl.List | pl.Array):
        inner = inner.inner
    ints = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
    if inner is dtype or inner not in (pl.Boolean, pl.Float32, pl.Float64, *ints):
        return None
    return pl.Series([], dtype=inner).to_numpy().dtype
