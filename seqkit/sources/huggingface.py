"""Data sets of Hugging Face, read by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .columns import ByPosition

__all__ = ["HuggingFaceColumn", "HuggingFaceRows"]


class HuggingFaceRows(ByPosition):
    """The rows of a data set, as its format says.

    Raises
    ------
    TypeError
        If its items are tables.
    """

    def __init__(self, data: Any) -> None:
        kind = data.format["type"]
        if kind in ("arrow", "pandas", "polars"):
            raise TypeError(
                f"view: items of a data set in {kind} format are tables, not rows. Use"
                " data.with_format(None), or the format 'numpy' or 'torch'."
            )
        super().__init__(data)
        self.names = tuple(data.column_names)

    def __getitem__(self, i: int) -> Any:
        return self._data[i]

    def __getitems__(self, indices: list[int]) -> Any:
        return self._data.__getitems__(indices)

    def select(self, names: Sequence[str]) -> HuggingFaceRows:
        return HuggingFaceRows(self._data.select_columns(names))


class HuggingFaceColumn(ByPosition):
    """The values of a column by position."""

    def __getitem__(self, i: int) -> Any:
        return self._data[i]

    def __getitems__(self, indices: list[int]) -> Any:
        return self._data[indices]
