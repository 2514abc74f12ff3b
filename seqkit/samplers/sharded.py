"""`ShardedSampler`: the share of one of several processes of another sampler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Any

from ..core.arguments import as_bool
from ..core.view import View
from ..views.shard import Even, as_even, refuse_drawn_seeds
from .base import SeededSampler, chain_of, order_of
from .distributed import Share, as_place
from .nested import NestedSampler

__all__ = ["ShardedSampler"]


class ShardedSampler(Share, NestedSampler):
    """The share of one of several processes of another sampler or batch sampler.

    Parameters
    ----------
    sampler : iterable
        Indices or batches, the same in every process. It may be endless.
    num_replicas : int, optional
        Number of processes (1 or more). None (the default) asks PyTorch, whose process group must be
        initialised.
    rank : int, optional
        Number of this process, in ``[0, num_replicas)``. None (the default) asks PyTorch.
    even : "pad", "drop" or None
        What to do with a number of items that `num_replicas` does not divide. "pad" (the default) repeats
        the first items, "drop" leaves out the last ones. With None some processes have one item fewer.
    contiguous : bool
        True: each process has a run of the items. False (the default): it has every `num_replicas`-th item.

    Raises
    ------
    TypeError
        If `sampler` is not iterable, a number is not an int, or `contiguous` is not a bool.
    ValueError
        If a number is out of range, `even` is unknown, PyTorch has no process group, or `sampler` draws its
        order without a seed.

    Notes
    -----
    A random sampler needs the same seed in every process. If the order of `sampler` is known, each process
    reads its own share only. Otherwise it draws all items, and with `contiguous` keeps them. A loader can
    resume with another number of processes: the items that no process has read are dealt out anew. Modelled
    on ``ShardedIterator`` of GluonNLP.

    Examples
    --------
    >>> [list(ShardedSampler(["a", "b", "c"], 2, rank)) for rank in range(2)]
    [['a', 'c'], ['b', 'a']]
    >>> from seqkit.samplers import BatchSampler
    >>> list(ShardedSampler(BatchSampler(range(8), 2), 2, 1))
    [[2, 3], [6, 7]]
    """

    def __init__(
        self,
        sampler: Iterable[Any],
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        even: Even | None = "pad",
        contiguous: bool = False,
    ) -> None:
        super().__init__(sampler)
        self.num_replicas, self.rank = as_place(num_replicas, rank, "ShardedSampler")
        self.even = as_even(even, "ShardedSampler")
        self.contiguous = as_bool(contiguous, "ShardedSampler: contiguous")
        inner = chain_of(sampler)[-1]
        if self.num_replicas > 1 and isinstance(inner, SeededSampler) and getattr(inner, "shuffle", True):
            refuse_drawn_seeds([(type(inner).__name__, inner.seed)], "ShardedSampler")

    def _shared_at(self, epoch: int) -> View[Any] | None:
        return order_of(self.sampler, epoch)

    def _total(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def _drawn(self, shared: Iterator[Any]) -> Iterator[Any]:
        """Deal out items in rounds, and yield those of this process."""
        if self.contiguous:
            yield from self._share(list(shared))
            return
        first = deal = list(islice(shared, self.num_replicas))
        while len(deal) == self.num_replicas:
            yield deal[self.rank]
            deal = list(islice(shared, self.num_replicas))
        if deal and self.even == "pad":
            deal += islice(cycle(list(first)), self.num_replicas - len(deal))
        if self.even != "drop":
            yield from deal[self.rank : self.rank + 1]
