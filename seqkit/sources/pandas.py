"""Tables of pandas, read by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.once import cached
from .arrow import in_microseconds
from .columns import ByPosition, as_rows, check_names
from .number_lists import NumberList, are_numbers

__all__ = ["PandasColumn", "PandasRows"]


class PandasColumn(ByPosition):
    """The values of a Series or an Index by position. Labels do not matter.

    Numbers and objects come as they lie in the array of numpy. Other values come from the extension array:
    dates as Timestamp, missing values as NA.
    """

    @cached
    def values(self) -> Any:
        import pandas as pd

        kind = self._data.dtype
        if isinstance(kind, pd.ArrowDtype):
            _check_times(self._data, kind.pyarrow_dtype)
        is_plain = isinstance(kind, np.dtype) and kind.kind in "biufcO"
        return self._data.to_numpy() if is_plain else self._data.array

    def __getitem__(self, i: int) -> Any:
        return _cell(self.values[i])

    def __getitems__(self, indices: list[int]) -> Any:
        return _several(self.values, np.asarray(indices, np.intp))


class PandasRows(ByPosition):
    """The rows of a DataFrame by position, each a dict from column to value."""

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self._names = list(frame.columns)
        check_names(self._names, "a DataFrame")

    @cached
    def _columns(self) -> list[Any]:
        return [PandasColumn(self._data.iloc[:, k]).values for k in range(len(self._names))]

    def __getitem__(self, i: int) -> dict[Any, Any]:
        if not 0 <= i < len(self._data):  # a frame without columns has rows, too
            raise IndexError(f"row {i} is out of range for {len(self._data)} rows")
        return {name: _cell(column[i]) for name, column in zip(self._names, self._columns, strict=True)}

    def __getitems__(self, indices: list[int]) -> list[dict[Any, Any]]:
        wanted = np.asarray(indices, np.intp)
        return as_rows(self._names, [_several(column, wanted) for column in self._columns], len(indices))


def _cell(value: Any) -> Any:
    return NumberList(value) if type(value) is list and are_numbers(value) else value


def _several(values: Any, wanted: Any) -> Any:
    """Return some values of an array of numpy or pandas, of the same types as single ones."""
    found = values[wanted]
    if isinstance(found, np.ndarray):
        return found if found.dtype != object else list(map(_cell, found))
    import pandas as pd

    # Iterating a categorical array turns numbers of numpy into numbers of Python.
    return [found[k] for k in range(len(found))] if isinstance(found, pd.Categorical) else list(found)


def _check_times(series: Any, kind: Any) -> None:
    """Refuse a column of Arrow if one of its times of day has nanoseconds, which pyarrow drops."""
    import pyarrow as pa

    if (coarse := in_microseconds(kind)) == kind:
        return
    try:
        pa.chunked_array(pa.array(series.array)).cast(coarse)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"the column {series.name!r} has times of day with nanoseconds, which datetime.time cannot hold"
            f" ({error}). Cast them to ints"
        ) from error
