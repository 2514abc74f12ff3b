"""Tables of polars, read by position."""

from __future__ import annotations

from typing import Any

__all__ = ["Column", "Rows"]


class Column:
    """The values of a Series by position, as Python objects."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def __len__(self) -> int:
        return len(self._series)

    def __getitem__(self, i: int) -> Any:
        return self._series.slice(i, 1).to_list()[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return self._series.gather(indices).to_list()  # type: ignore[no-any-return]


class Rows:
    """The rows of a DataFrame by position, each a dict from column to value."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._names = frame.columns

    def __len__(self) -> int:
        return len(self._frame)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return dict(zip(self._names, self._frame.row(i), strict=True))

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        # `frame[indices]` uses the threads of polars, which a forked process does not have. `named=True`
        # takes longer.
        row, names = self._frame.row, self._names
        return [dict(zip(names, row(i), strict=True)) for i in indices]
