"""Samplers for one of several readers: what falls to each of them of an epoch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any

import numpy as np

from ..checks import as_flag, positive_int
from ..view import View, view
from ..views.concatenate import concatenate
from ..views.epochs import epochs
from ..views.random_map import random_map
from ..views.shard import Even, shard
from ..views.shuffle import shuffle
from .base import NestedSampler, SeededSampler, order_of, sample_count

__all__ = ["DistributedSampler", "ShardedSampler", "SplitSampler"]


class DistributedSampler(SeededSampler):
    """The indices that fall to one of several processes, in an order that all of them agree on.

    Parameters
    ----------
    dataset : int or sized
        How many indices all processes share, or what to take the length of, anew in every epoch.
    num_replicas : int, optional
        How many processes there are, at least 1; there may be more than indices. None (the default) asks
        PyTorch, whose process group must then be initialised.
    rank : int, optional
        Number of this process, in ``[0, num_replicas)``. None (the default) asks PyTorch.
    shuffle : bool
        In random order (the default), another one in every epoch.
    seed : int
        At least 0, the same in every process.
    drop_last : bool
        The same as ``even="drop"``.
    even : "pad", "drop" or None
        What to do if the indices cannot be dealt out evenly: begin anew with the first ones (the default),
        leave out the last ones, or let some processes have one index fewer.
    contiguous : bool
        Give each process a run of the order. By default every `num_replicas`-th index falls to it.

    Raises
    ------
    TypeError
        If `dataset` is neither, a number no int, or `seed` None.
    ValueError
        If a number is out of range, `even` unknown or at odds with `drop_last`, `shuffle` or `drop_last` no
        bool, or PyTorch is asked and has no process group.

    Notes
    -----
    No memory at 65,536 indices and above. The epoch advances with every `iter`; where ``set_epoch`` is called
    as for ``torch.utils.data.DistributedSampler``, whose arguments and shares these are, it says the same. As
    a view: ``shard(shuffle(dataset, seed, epoch), rank, num_replicas, contiguous=False, even="pad")``.

    Examples
    --------
    >>> [list(DistributedSampler(7, 3, rank, shuffle=False)) for rank in range(3)]
    [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    >>> [list(DistributedSampler(7, 3, rank, shuffle=False, even=None)) for rank in range(3)]
    [[0, 3, 6], [1, 4], [2, 5]]
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
        even: Even | None = "pad",
        contiguous: bool = False,
    ) -> None:
        if seed is None:
            raise TypeError(
                "DistributedSampler: seed must be an int of at least 0, the same in every process, got None"
            )
        super().__init__(seed)
        sample_count(dataset, "DistributedSampler", "dataset")
        self.dataset = dataset
        self.num_replicas, self.rank = _as_place(num_replicas, rank, "DistributedSampler")
        self.shuffle = as_flag(shuffle, "DistributedSampler: shuffle")
        self.drop_last = as_flag(drop_last, "DistributedSampler: drop_last")
        self.even = _as_even("drop" if self.drop_last and even == "pad" else even, "DistributedSampler")
        if self.drop_last and self.even != "drop":
            raise ValueError(f"DistributedSampler: drop_last=True means even='drop', got even={even!r}")
        self.contiguous = as_flag(contiguous, "DistributedSampler: contiguous")
        # The epoch that is resumed, and how many of its indices other numbers of processes have read.
        self._resumed = 0, 0

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        return self._share(self._shared)

    @property
    def _shared(self) -> View[int]:
        """The indices of all processes in an epoch."""
        indices = view(range(sample_count(self.dataset, "DistributedSampler", "dataset")))
        return shuffle(indices, self.seed) if self.shuffle else indices

    def _share(self, shared: View[int]) -> View[int]:
        return shard(shared, self.rank, self.num_replicas, self.contiguous, even=self.even)

    def at_epoch(self, epoch: int) -> View[int]:
        """Return the indices of an epoch as a view: of a resumed epoch, those of the rest."""
        return self._share(self._shared.at_epoch(epoch)[self._already_read(epoch) :])

    def _already_read(self, epoch: int) -> int:
        resumed, read = self._resumed
        return read if epoch == resumed else 0

    def _draw(self, epoch: int) -> Iterator[int]:
        return iter(self.at_epoch(epoch))

    def __len__(self) -> int:
        return len(self.at_epoch(self.epoch))

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the next epoch, the seed, and how the epoch is dealt out."""
        dealt = {"num_replicas": self.num_replicas, "read": self._already_read(self.epoch)}
        return {**super().state_dict(), **dealt}

    def _restore(self, state: Mapping[str, Any]) -> None:
        read = positive_int(state["read"], "DistributedSampler: read of a state", least=0)
        super()._restore(state)
        self._resumed = self.epoch, read

    def resume_after(self, state: Mapping[str, Any], read: int) -> int:
        """Load a state of an epoch of which each process has read `read` indices.

        With another number of processes, the indices that none has read are dealt out anew.
        """
        self.load_state_dict(state)
        replicas = state["num_replicas"]
        if read == 0 or replicas == self.num_replicas:
            return read
        if self.contiguous:
            raise ValueError(
                f"DistributedSampler: with contiguous=True the state of {replicas} processes resumes with as"
                f" many only, got num_replicas={self.num_replicas}"
            )
        self._resumed = self.epoch, min(self._resumed[1] + replicas * read, len(self._shared))
        return 0


class ShardedSampler(NestedSampler):
    """What falls to one of several processes of another sampler, or batch sampler.

    Parameters
    ----------
    sampler : iterable
        Of indices or batches; the same ones in every process. It may be endless.
    num_replicas : int, optional
        How many processes there are, at least 1. None (the default) asks PyTorch, whose process group must
        then be initialised.
    rank : int, optional
        Number of this process, in ``[0, num_replicas)``. None (the default) asks PyTorch.
    even : "pad", "drop" or None
        What to do if what the sampler gives cannot be dealt out evenly: begin anew with the first (the
        default), leave out the last, or let some processes have one fewer.
    contiguous : bool
        Give each process a run of them. By default it gets every `num_replicas`-th one.

    Raises
    ------
    TypeError
        If `sampler` is not iterable, or a number no int.
    ValueError
        If a number is out of range, `even` unknown, `contiguous` no bool, or PyTorch is asked and has no
        process group.

    Notes
    -----
    A random sampler needs a seed of its own, the same in every process: without one the processes draw
    different orders. Of a sampler that knows its order each process draws only what falls to it; of others it
    draws all, and with `contiguous` keeps them, too. After ``ShardedIterator`` of GluonNLP.

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
        self.num_replicas, self.rank = _as_place(num_replicas, rank, "ShardedSampler")
        self.even = _as_even(even, "ShardedSampler")
        self.contiguous = as_flag(contiguous, "ShardedSampler: contiguous")

    def _share(self, shared: Any) -> View[Any]:
        return shard(shared, self.rank, self.num_replicas, self.contiguous, even=self.even)

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return this process's share of an epoch, or None if `sampler` must be iterated to find out."""
        order = order_of(self.sampler, epoch)
        return None if order is None else self._share(order)

    def _drawn(self, shared: Iterator[Any]) -> Iterator[Any]:
        """Deal out what comes, a round at a time, and give what falls to this process."""
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

    def __len__(self) -> int:
        return len(self._share(range(len(self.sampler))))  # type: ignore[arg-type]


class SplitSampler(SeededSampler):
    """The indices of one of several parts, in random order, once or several times.

    Parameters
    ----------
    length : int or sized
        How many indices all parts have, or what to take the length of, anew in every epoch.
    num_parts : int
        How many parts there are, at least 1.
    part_index : int
        Number of the part, in ``[0, num_parts)``. Parts are neighbouring indices; the first
        ``length % num_parts`` have one more.
    even_size : bool
        Complete the shorter parts with an index of another part, a random one in every pass.
    repeat : int
        Passes over the part per epoch, at least 1, each in an order of its own.
    shuffle : bool
        In random order (the default).
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `length` is neither, or a number no int.
    ValueError
        If a number is out of range, or `even_size` or `shuffle` no bool.

    Notes
    -----
    No memory but that of one view per pass. Unlike with `DistributedSampler`, an index is in the same part
    in every epoch. After ``SplitSampler`` of GluonNLP.

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
        num_parts: int = 1,
        part_index: int = 0,
        even_size: bool = False,
        repeat: int = 1,
        shuffle: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        sample_count(length, "SplitSampler", "length")
        self.length = length
        self.num_parts = positive_int(num_parts, "SplitSampler: num_parts")
        self.part_index = positive_int(part_index, "SplitSampler: part_index", least=0)
        if self.part_index >= self.num_parts:
            raise ValueError(
                f"SplitSampler: part_index must be below num_parts {num_parts}, got {part_index}"
            )
        self.even_size = as_flag(even_size, "SplitSampler: even_size")
        self.repeat = positive_int(repeat, "SplitSampler: repeat")
        self.shuffle = as_flag(shuffle, "SplitSampler: shuffle")

    def _part(self) -> tuple[range, bool]:
        """Return the indices of the part, and whether it must be completed."""
        n = sample_count(self.length, "SplitSampler", "length")
        size, longer = divmod(n, self.num_parts)
        start = self.part_index * size + min(self.part_index, longer)
        is_short = self.part_index >= longer
        return range(start, start + size + (not is_short)), self.even_size and longer > 0 and is_short

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        part, lacks_one = self._part()
        indices: View[int] = view(part)
        name = f"part {self.part_index}"
        if lacks_one:
            indices = concatenate([part, random_map(self._other, [part], self.seed, name=name)])
        if self.shuffle:
            indices = shuffle(indices, self.seed, name=name)
        return epochs(indices, self.repeat)

    def _other(self, part: range, rng: np.random.Generator) -> int:
        """Return a random index of another part."""
        n = sample_count(self.length, "SplitSampler", "length")
        index = int(rng.integers(n - len(part)))
        return index if index < part.start else index + len(part)


def _as_place(num_replicas: Any, rank: Any, who: str) -> tuple[int, int]:
    """Return how many processes there are and which one this is, checked."""
    if num_replicas is None or rank is None:
        group = _process_group(who)
        num_replicas = group.get_world_size() if num_replicas is None else num_replicas
        rank = group.get_rank() if rank is None else rank
    num_replicas = positive_int(num_replicas, f"{who}: num_replicas")
    try:
        number = positive_int(rank, f"{who}: rank", least=0)
    except ValueError:
        number = num_replicas  # as much out of range
    if number >= num_replicas:
        raise ValueError(
            f"Invalid rank {rank} for {who}: with num_replicas={num_replicas} it must be in"
            f" [0, {num_replicas - 1}]"
        )
    return num_replicas, number


def _process_group(who: str) -> Any:
    """Return PyTorch's module for process groups, if it has one."""
    group: Any = sys.modules.get("torch.distributed")  # whoever has made a group has imported it
    if group is None or not (group.is_available() and group.is_initialized()):
        raise ValueError(
            f"{who}: num_replicas and rank are needed, or a process group of PyTorch's, and there is none:"
            " give both, or call torch.distributed.init_process_group before"
        )
    return group


def _as_even(even: Any, who: str) -> Even | None:
    if even not in ("pad", "drop", None):
        raise ValueError(f"{who}: even must be 'pad', 'drop' or None, got {even!r}")
    return even  # type: ignore[no-any-return]
