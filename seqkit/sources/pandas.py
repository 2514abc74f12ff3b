"""Tables of pandas, read by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.indices import Indices, as_array
from ..core.once import cached
from ..views.bases.columns import Rows
from .columns import ByPosition, check_names

__all__ = ["PandasColumn", "PandasRows"]


class PandasColumn(ByPosition):
    """The values of a Series or an Index by position. Labels do not matter.

    Numbers and objects come as they lie in the array of numpy. Other values come from the extension array:
    dates as Timestamp, missing values as NA.
    """

    takes_arrays = True

    @cached
    def values(self) -> Any:
        kind = self._data.dtype
        is_plain = isinstance(kind, np.dtype) and kind.kind in "biufcO"
        return self._data.to_numpy() if is_plain else self._data.array

    def __getitem__(self, i: int) -> Any:
        return self.values[i]

    def __getitems__(self, indices: Indices) -> Any:
        found = self.values[as_array(indices)]
        if isinstance(found, np.ndarray):
            return found
        if hasattr(found, "categories"):  # iterating a categorical array changes the types of numbers
            return [found[k] for k in range(len(found))]
        return list(found)


class PandasRows(ByPosition):
    """The rows of a DataFrame by position, each a dict from column to value."""

    takes_arrays = True

    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        self.names = tuple(frame.columns)
        check_names(self.names, "a DataFrame")

    @cached
    def _columns(self) -> list[Any]:
        return [PandasColumn(self._data.iloc[:, k]) for k in range(len(self.names))]

    def __getitem__(self, i: int) -> dict[Any, Any]:
        return {name: column.values[i] for name, column in zip(self.names, self._columns, strict=True)}

    def __getitems__(self, indices: Indices) -> Rows:
        columns = zip(self.names, self._columns, strict=True)
        return Rows({name: column.__getitems__(indices) for name, column in columns}, len(indices))

    def select(self, names: Sequence[str]) -> PandasRows:
        return PandasRows(self._data[names])
