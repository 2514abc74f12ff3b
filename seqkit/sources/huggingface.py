"""`huggingface`: data sets of Hugging Face. A `Dataset` needs no wrapper, a column does."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from ..view import View
from .files import existing
from .per_process import PerProcess

__all__ = ["Column", "huggingface"]


class Column:
    """The values of a column by position; a batch of them is one call."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, i: int) -> Any:
        return self._column[i]

    def __getitems__(self, indices: list[int]) -> Any:
        return self._column[indices]


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
        A batch is one call. Any other `datasets.Dataset` is read by ``view(dataset)``.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`, or, when it is first opened, no data set.
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
    return PerProcess(partial(_load, existing(path, "huggingface"), split))


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
