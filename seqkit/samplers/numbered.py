"""`NumberedSampler`: a number of its own for each draw of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from ..core.view import View
from ..views.arange import arange
from ..views.collate import collate
from ..views.starmap import starmap
from .base import order_of
from .distributed import world_of
from .keys import sample_count
from .nested import NestedSampler

__all__ = ["NumberedSampler"]


class NumberedSampler(NestedSampler):
    """The indices of another sampler, with a number of its own for each draw.

    An index names an item, so two draws of one index in an epoch get the same random numbers. The k-th key
    of this sampler is ``index + n * k``, for n samples. ``cycle(data)`` has the item of `index` there, and
    `random_map` above it draws other numbers for each k.

    Parameters
    ----------
    sampler : iterable
        Indices of ``range(n)``. It may be endless.
    data_source : int or sized
        The number n of samples, or an object with a length. The length is asked for in every epoch.

    Raises
    ------
    TypeError
        If `sampler` is not iterable, or `data_source` is neither an int nor sized.
    ValueError
        If `data_source` is negative, or `sampler` is the share of one of several processes.

    Notes
    -----
    One multiplication per index. Draws are numbered before they are dealt to processes: use
    ``ShardedSampler(NumberedSampler(…))``, so that the samples are the same for any number of processes.

    Examples
    --------
    >>> import seqkit as sk
    >>> sampler = NumberedSampler([2, 0, 2], data_source=3)
    >>> list(sampler)
    [2, 3, 8]
    >>> samples = sk.random_map(lambda x, rng: (x, rng.integers(100)), sk.cycle("abc"), seed=1)
    >>> letters, numbers = zip(*(samples[key] for key in sampler))
    >>> letters, len(set(numbers))
    (('c', 'a', 'c'), 3)
    """

    def __init__(self, sampler: Iterable[Any], data_source: Any) -> None:
        super().__init__(sampler)
        sample_count(data_source, "NumberedSampler")
        self.data_source = data_source
        if world_of(sampler) > 1:
            raise ValueError(
                "NumberedSampler: sampler is the share of one of several processes. Number the draws before"
                " they are dealt out: ShardedSampler(NumberedSampler(sampler, n), num_replicas, rank)"
            )

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return the keys of an epoch as a view, or None if the inner sampler must be iterated."""
        order = order_of(self.sampler, epoch)
        if order is None:
            return None
        return starmap(self._number, collate([order, arange(len(order))]))

    def _drawn(self, keys: Iterator[Any]) -> Iterator[Any]:
        return map(self._number, keys, count())

    def _number(self, index: int, k: int) -> int:
        return index + sample_count(self.data_source, "NumberedSampler") * k

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]
