"""Samplers for one of several processes or parts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from typing import Any

import numpy as np

from ..core.arguments import as_bool, positive_int
from ..core.expression import walk
from ..core.view import View
from ..views.bases.dealt import Deal
from ..views.concatenate import concatenate
from ..views.epochs import epochs
from ..views.random_map import random_map
from ..views.shard import Even, Shard, as_even, as_rank, as_unit, refuse_drawn_seeds, shard
from ..views.shuffle import shuffle
from .base import NestedSampler, SeededSampler, chain_of, order_of
from .keys import sample_count
from .random_order import RandomSampler
from .sequential import SequentialSampler

__all__ = ["DistributedSampler", "ShardedSampler", "SplitSampler", "as_place", "world_of"]


class ShardedSampler(NestedSampler):
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
    global_batch : int, optional
        Number of items that all processes together read in a step, a multiple of `num_replicas`. `even` then
        fills up the last step, or drops it. A loader with batches of ``global_batch / num_replicas`` can go
        on with another number of processes, and each step has the same items.

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
    resume with another number of processes: the items that no process has read are dealt out again. Modelled
    on ``ShardedIterator`` of GluonNLP.

    Examples
    --------
    >>> [list(ShardedSampler(["a", "b", "c"], 2, rank)) for rank in range(2)]
    [['a', 'c'], ['b', 'a']]
    >>> from seqkit.samplers import BatchSampler
    >>> list(ShardedSampler(BatchSampler(range(8), 2), 2, 1))
    [[2, 3], [6, 7]]
    """

    _kept = ("read",)
    _number = 0
    global_batch: int | None

    def __init__(
        self,
        sampler: Iterable[Any],
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        even: Even | None = "pad",
        contiguous: bool = False,
        global_batch: int | None = None,
    ) -> None:
        super().__init__(sampler)
        who = type(self).__name__
        self.num_replicas, self.rank = as_place(num_replicas, rank, who)
        self.even = as_even(even, who)
        self.contiguous = as_bool(contiguous, f"{who}: contiguous")
        self.global_batch = global_batch
        self._unit = as_unit(global_batch, self.num_replicas, self.contiguous, self.even, who)
        self.read = 0  # items of the epoch that all processes had read before a resume
        inner = chain_of(sampler)[-1]
        if self.num_replicas > 1 and isinstance(inner, SeededSampler) and getattr(inner, "shuffle", True):
            refuse_drawn_seeds([(type(inner).__name__, inner.seed)], who)

    def of_process(self, rank: int, world: int) -> ShardedSampler:
        """Return the share of another process, of so many."""
        other = copy(self)
        other.num_replicas, other.rank = as_place(world, rank, type(self).__name__)
        other._unit = as_unit(self.global_batch, world, self.contiguous, self.even, type(self).__name__)
        return other

    def _over(self, order: Any) -> View[Any]:
        return shard(
            order,
            self.rank,
            self.num_replicas,
            self.contiguous,
            even=self.even,
            global_batch=self.global_batch,
        )

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return this process's share of an epoch as a view; of a resumed epoch, that of the rest.

        Returns None if a sampler inside must be iterated to find out.
        """
        shared = order_of(self.sampler, epoch)
        return None if shared is None else self._over(shared.skip(self.read if epoch == self.epoch else 0))

    @property
    def _epoch(self) -> int:
        return self._number

    @_epoch.setter
    def _epoch(self, epoch: int) -> None:
        if epoch != self._number:
            self.read = 0  # a resume is one of its epoch only
        self._number = epoch

    def _drawn(self, keys: Iterator[Any]) -> Iterator[Any]:
        return self._dealt(islice(keys, self.read, None))

    def _dealt(self, shared: Iterator[Any]) -> Iterator[Any]:
        """Return the items of this process."""
        if self.contiguous:
            return iter(self._over(list(shared)))
        return Deal(shared, self.rank, self.num_replicas, self.even, self._unit)

    def __len__(self) -> int:
        total: int = len(self.sampler)  # type: ignore[arg-type]
        return len(self._over(range(total)[self.read :]))


class DistributedSampler(ShardedSampler):
    """The indices of one of several processes, in an order that all of them agree on.

    Parameters
    ----------
    dataset : int or sized
        The number of indices of all processes, or an object with a length. The length is asked for in every
        epoch.
    num_replicas : int, optional
        Number of processes (1 or more). None (the default) asks PyTorch, whose process group must be
        initialised.
    rank : int, optional
        Number of this process, in ``[0, num_replicas)``. None (the default) asks PyTorch.
    shuffle : bool
        True (the default): in random order, a new one in every epoch.
    seed : int
        The same in every process (0 or more).
    drop_last : bool
        What to do with a number of indices that `num_replicas` does not divide. False (the default) repeats
        the first indices, True leaves out the last ones. See `ShardedSampler` for uneven and other shares.
    global_batch : int, optional
        Number of indices that all processes together read in a step, see `ShardedSampler`.

    Raises
    ------
    TypeError
        If `dataset` is neither an int nor sized, a number is not an int, a flag is not a bool, or `seed` is
        None.
    ValueError
        If a number is out of range, or PyTorch has no process group.

    Notes
    -----
    No memory at 65,536 indices and above. A loader can resume with another number of processes: the indices
    that no process has read are dealt out again. The same as a view: ``shard(shuffle(dataset, seed), rank,
    num_replicas, contiguous=False, even="pad")``. Modelled on ``torch.utils.data.DistributedSampler``, with
    the same shares; ``set_epoch`` is optional here.

    Examples
    --------
    >>> [list(DistributedSampler(7, 3, rank, shuffle=False)) for rank in range(3)]
    [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    >>> shares = [set(DistributedSampler(6, 2, rank)) for rank in range(2)]
    >>> shares[0] | shares[1], shares[0] & shares[1]
    ({0, 1, 2, 3, 4, 5}, set())
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        global_batch: int | None = None,
    ) -> None:
        sample_count(dataset, "DistributedSampler", "dataset")
        self.dataset = dataset
        self.shuffle = as_bool(shuffle, "DistributedSampler: shuffle")
        self.drop_last = as_bool(drop_last, "DistributedSampler: drop_last")
        even: Even = "drop" if self.drop_last else "pad"
        sampler = RandomSampler(dataset, seed=seed) if self.shuffle else SequentialSampler(dataset)
        super().__init__(sampler, num_replicas, rank, even=even, global_batch=global_batch)
        self.seed = seed


def process_group() -> Any:
    """Return PyTorch's module for process groups if a group is initialised, otherwise None."""
    group: Any = sys.modules.get("torch.distributed")  # a program with a process group has imported it
    return group if group is not None and group.is_available() and group.is_initialized() else None


def as_place(num_replicas: Any, rank: Any, who: str) -> tuple[int, int]:
    """Return the number of processes and the number of this process, given or asked of PyTorch."""
    if num_replicas is None or rank is None:
        group = process_group()
        if group is None:
            raise ValueError(
                f"{who}: num_replicas and rank are needed, because PyTorch has no process group. Pass both,"
                " or call torch.distributed.init_process_group before"
            )
        num_replicas = group.get_world_size() if num_replicas is None else num_replicas
        rank = group.get_rank() if rank is None else rank
    num_replicas = positive_int(num_replicas, f"{who}: num_replicas")
    return num_replicas, as_rank(rank, num_replicas, who, "num_replicas")


def world_of(sampler: Any) -> int:
    """Return the number of processes that share the keys of a sampler. It is 1 if they are not shared.

    >>> world_of(DistributedSampler(9, 2, 0)), world_of(shard("abc", 0, 3)), world_of([2, 1])
    (2, 3, 1)
    """
    chain = chain_of(sampler)
    shares = [one.num_replicas for one in chain if isinstance(one, ShardedSampler)]
    if chain and isinstance(chain[-1], View):
        shares += [node._world_size for node in walk(chain[-1]) if isinstance(node, Shard)]
    return max(shares, default=1)


class SplitSampler(SeededSampler):
    """The indices of one of several fixed parts, in random order, once or several times.

    Parameters
    ----------
    length : int or sized
        The number of indices of all parts, or an object with a length. The length is asked for in every
        epoch.
    num_replicas : int
        Number of parts (1 or more).
    rank : int
        Number of this part, in ``[0, num_replicas)``. Parts are runs of indices. The first ``length %
        num_replicas`` parts have one index more.
    even_size : bool
        True: shorter parts get one index of another part, a random one in every pass.
    repeat : int
        Passes over the part per epoch (1 or more), each in its own order.
    shuffle : bool
        True (the default): in random order.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `length` is neither an int nor sized, or a number is not an int.
    ValueError
        If a number is out of range, or a flag is not a bool.

    Notes
    -----
    No memory at 65,536 indices and above. Unlike with `DistributedSampler`, an index is in the same part in
    every epoch. Modelled on ``SplitSampler`` of GluonNLP.

    Examples
    --------
    >>> [list(SplitSampler(7, 3, part, shuffle=False)) for part in range(3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    >>> [len(SplitSampler(7, 3, part, even_size=True, repeat=2)) for part in range(3)]
    [6, 6, 6]
    """

    def __init__(
        self,
        length: Any,
        num_replicas: int = 1,
        rank: int = 0,
        even_size: bool = False,
        repeat: int = 1,
        shuffle: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        sample_count(length, "SplitSampler", "length")
        self.length = length
        self.num_replicas, self.rank = as_place(num_replicas, rank, "SplitSampler")
        self.even_size = as_bool(even_size, "SplitSampler: even_size")
        self.repeat = positive_int(repeat, "SplitSampler: repeat")
        self.shuffle = as_bool(shuffle, "SplitSampler: shuffle")

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        n, name = sample_count(self.length, "SplitSampler", "length"), f"part {self.rank}"
        part: View[int] = shard(range(n), self.rank, self.num_replicas)
        size, indices = len(part), part
        if self.even_size and size * self.num_replicas < n:
            start = part[0] if size else 0
            others = concatenate([range(start), range(start + size, n)])
            indices = concatenate([part, random_map(_any, [others], self.seed, name=name)])
        if self.shuffle:
            indices = shuffle(indices, self.seed, name=name)
        return epochs(indices, self.repeat)


def _any(items: View[int], rng: np.random.Generator) -> int:
    return items[int(rng.integers(len(items)))]
