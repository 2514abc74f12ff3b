"""Data sets that can only be iterated: read by one worker, every item once, however many there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..view import View
from ..views.uniter import uniter

__all__ = ["is_stream", "stream", "stream_length"]


def is_stream(dataset: Any) -> bool:
    """Can a data set be iterated only?"""
    # PyTorch's iterable data sets have a `__getitem__` that raises; whoever has one has imported torch.
    iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", ())
    return isinstance(dataset, iterable) or not hasattr(dataset, "__getitem__")


def stream(dataset: Any) -> View[Any]:
    """Return the view of the items of a data set, in its order; how many it says there are does not count."""
    return uniter(dataset if isinstance(dataset, Iterator) else _Iterating(dataset))


def stream_length(dataset: Any, batch_size: int | None, last: str) -> int:
    """Return how many batches a data set says it has."""
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"DataLoader: no length, for its data set ({type(dataset).__name__}) has none")
    n = len(dataset)
    if batch_size is None:
        return n
    return n // batch_size if last == "discard" else -(-n // batch_size)


class _Iterating:
    """Begins a pass."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self) -> Iterator[Any]:
        return iter(self.dataset)
