"""Data sets that can only be iterated, and the processes that read them.

With ``iterable_split="none"`` one worker iterates the data set. With ``"reader"`` the calling process does,
and workers transform and collate. With ``"parts"`` the data set splits itself; see `parts`. With
``"workers"`` each worker iterates the data set, which chooses its part by `get_worker_info`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from typing import Any, NoReturn

from ..context import get_worker_info
from ..errors import WorkerDied
from ..indices import UNBOUNDED
from ..view import View
from ..views.uniter import uniter
from .keyed import Sample

__all__ = ["Joined", "Parts", "Reader", "is_iterable_only", "refuse_second_epoch", "samples_of"]


def is_iterable_only(dataset: Any) -> bool:
    """Return whether a data set can be iterated, but not indexed."""
    # The iterable data sets of PyTorch have a `__getitem__` that raises.
    iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", ())
    return isinstance(dataset, iterable) or not hasattr(dataset, "__getitem__")


def samples_of(dataset: Any) -> View[Any]:
    """Return the view of the samples of a data set in its order. Its `__len__` is ignored."""
    return uniter(dataset if isinstance(dataset, Iterator) else _Iterating(dataset))


class _Iterating:
    """Begin a pass over a data set."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self) -> Iterator[Any]:
        return iter(self.dataset)


def refuse_second_epoch(what: str, iterator: Any) -> NoReturn:
    """Raise the error of a second epoch over an iterator."""
    raise RuntimeError(
        f"DataLoader: the {what} is an iterator ({type(iterator).__name__}), which gives one epoch only; pass"
        " something that can be iterated again"
    )


class Reader:
    """The samples of a data set as keys of themselves: a sampler that the calling process reads.

    >>> [(sample.number, sample.value) for sample in Reader("ab")]
    [(0, 'a'), (1, 'b')]
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Sample]:
        return map(Sample, count(), iter(self.dataset))

    def __len__(self) -> int:
        return len(self.dataset)


class _Part:
    """A batch of one worker, or with ``is_end`` the end of its part."""

    def __init__(self, worker: int, number: int, batch: Any, is_end: bool) -> None:
        self.worker = worker
        self.number = number
        self.batch = batch
        self.is_end = is_end


class Parts(View[Any]):
    """The batches of parts of a data set. Any index gives the next batch of the worker that evaluates it."""

    def __init__(self, source: View[Any]) -> None:
        super().__init__((source,), UNBOUNDED)
        self._positions: dict[int, tuple[Iterator[Any], Iterator[int]]] = {}  # by worker

    def _get(self, i: int) -> _Part:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        if worker not in self._positions:
            source = self._sources[0]
            self._positions[worker] = source._iter(source._plan()), count()
        batches, numbers = self._positions[worker]
        try:
            return _Part(worker, next(numbers), next(batches), is_end=False)
        except StopIteration:
            return _Part(worker, -1, None, is_end=True)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Parts(sources[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Parts, self._sources


class Joined(Iterator[Any]):
    """The batches of all workers in the order of arrival, until every worker has reached the end of its
    part.
    """

    def __init__(self, parts: Iterator[_Part], workers: int) -> None:
        self._parts = parts
        self._left = set(range(workers))
        self._expected = [0] * workers

    def __next__(self) -> Any:
        while self._left:
            try:
                part = next(self._parts)
            except WorkerDied:
                self._left.clear()  # its replacement would begin its part again
                raise
            if part.is_end:
                self._left.discard(part.worker)
                continue
            if part.number < self._expected[part.worker]:
                self._left.clear()
                raise RuntimeError(
                    f"DataLoader: worker {part.worker} was replaced and would repeat its samples. Use"
                    " iterable_split='none' or 'reader'"
                )
            self._expected[part.worker] = part.number + 1
            return part.batch
        raise StopIteration
