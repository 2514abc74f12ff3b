"""`huggingface`: data sets of Hugging Face, on disk and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

from ..core.lazy import need
from ..core.view import View
from .columns import ByPosition
from .files import existing
from .per_process import PerProcess

__all__ = ["HuggingFaceColumn", "HuggingFaceRows", "huggingface"]


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


def huggingface(path: str | PathLike[str], split: str | None = None) -> View[dict[str, Any]]:
    """Return a view of the rows of a data set that `datasets` saved to disk.

    Parameters
    ----------
    path : path-like
        Where ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote.
    split : str, optional
        The split, such as ``"train"``. Needed if there are several.

    Returns
    -------
    View
        A batch is one call. Any other `datasets.Dataset` is read by ``view(dataset)``. The format may be
        None, ``"numpy"``, ``"torch"`` or another one with rows. Formats with tables (arrow, pandas, polars)
        are refused.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`, or, when it is first opened, no data set.
    ImportError
        If `datasets` is not installed.
    ValueError
        When the data set is first opened: if a split is needed, or does not exist.

    Examples
    --------
    >>> import datasets
    >>> datasets.disable_progress_bars()
    >>> path = getfixture("tmp_path") / "cities"
    >>> datasets.Dataset.from_dict({"city": ["Oslo", "Rome"], "people": [7, 28]}).save_to_disk(path)
    >>> huggingface(path)[1]
    {'city': 'Rome', 'people': 28}
    """
    need("datasets", "huggingface")
    path = existing(path, "huggingface")
    return PerProcess(partial(_load, path, split), "huggingface", path)


def _load(path: str, split: str | None) -> Any:
    from datasets import load_from_disk

    data = load_from_disk(path)
    if not isinstance(data, dict):
        if split is not None:
            raise ValueError(f"huggingface: {path} is one data set without splits, got split={split!r}")
        return data
    if split not in data:
        raise ValueError(f"huggingface: split must be one of {list(data)}, got {split!r}")
    return data[split]
