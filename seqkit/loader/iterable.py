"""Data sets that can only be iterated, and the processes that read them.

With ``iterable_split="none"`` one worker iterates the data set. With ``"reader"`` the calling process does,
and workers transform and collate. With ``"parts"`` the data set splits itself; see `parts`. With
``"workers"`` each worker iterates the data set, which chooses its part by `get_worker_info`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, NoReturn

from ..core.indices import UNKNOWN
from ..core.view import View, in_order
from ..core.worker import WorkerInfo, get_worker_info
from ..views.bases.passes import Passes
from ..views.uniter import Uniter
from .keyed import Sample

__all__ = [
    "IterableReader",
    "WorkerParts",
    "is_iterable_only",
    "refuse_second_epoch",
    "sample_again",
    "sample_of_part",
    "samples_of",
]


def is_iterable_only(dataset: Any) -> bool:
    """Return whether a data set can be iterated, but not indexed."""
    # The iterable data sets of PyTorch have a `__getitem__` that raises.
    iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", ())
    return isinstance(dataset, iterable) or not hasattr(dataset, "__getitem__")


def samples_of(dataset: Any) -> View[Any]:
    """Return the view of the samples of a data set in its order. Its `__len__` is ignored."""
    return Uniter(Passes(dataset, cache_size=0, n_parallel=1), UNKNOWN)


def refuse_second_epoch(what: str, iterator: Any) -> NoReturn:
    """Raise the error of a second epoch over an iterator."""
    raise RuntimeError(
        f"DataLoader: the {what} is an iterator ({type(iterator).__name__}), which gives one epoch only; pass"
        " something that can be iterated again"
    )


class IterableReader:
    """The samples of a data set as keys of themselves: a sampler that the calling process reads.

    >>> [(sample.number, sample.value) for sample in IterableReader("ab")]
    [(0, 'a'), (1, 'b')]
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Sample]:
        return map(Sample, count(), iter(self.dataset))

    def __len__(self) -> int:
        return len(self.dataset)


def sample_again(dataset: Any, number: int) -> Any:
    """Return a sample from a new pass over a data set."""
    if isinstance(dataset, Iterator):
        raise RuntimeError("DataLoader: the data set is an iterator, so no sample can be read again")
    for item in islice(in_order(dataset), number, None):
        return item
    raise IndexError(f"DataLoader: a new pass over the data set has no sample {number}")


def sample_of_part(dataset: Any, key: tuple[int, int]) -> Any:
    """Return a sample from a new pass over the part that it belongs to."""
    part, number = key
    for item in islice(in_order(dataset.split(part, dataset.parts)), number, None):
        return item
    raise IndexError(f"DataLoader: a new pass over part {part} has no sample {number}")


@dataclass(frozen=True)
class WorkerParts:
    """A data set that chooses its part by `get_worker_info`, as one that splits itself.

    Parameters
    ----------
    dataset : iterable
    parts : int
        Number of workers.
    introduce : callable
        Called with the `WorkerInfo` that is valid while a part is read.
    """

    dataset: Any
    parts: int
    introduce: Callable[[WorkerInfo], None]

    def split(self, part: int, parts: int) -> Iterator[Any]:
        """Return an iterator over the part of worker number `part`."""
        info = get_worker_info()
        if info is not None:
            self.introduce(replace(info, id=part, num_workers=parts))
        return iter(self.dataset)
