"""Samplers for one of several processes: its share of an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any

import numpy as np

from ..core.arguments import as_bool, as_flag, int_at_least, positive_int
from ..core.processes import process_group, warn_of_drawn_seed
from ..core.renamed import renamed
from ..core.source import view
from ..core.tracebacks import warn
from ..core.view import View
from ..views.concatenate import concatenate
from ..views.epochs import epochs
from ..views.random_map import random_map
from ..views.shard import Even, as_even, shard
from ..views.shuffle import shuffle
from .base import NestedSampler, Sampler, SeededSampler, order_of, sample_count

__all__ = ["DistributedSampler", "ShardedSampler", "SplitSampler"]


class Share(Sampler):
    """The base of samplers that give the share of one of several processes.

    An epoch that was begun by another number of processes continues with the indices that none has read. A
    subclass sets `num_replicas`, `rank`, `even` and `contiguous`, and defines `_shared_at` and `_total`.
    """

    num_replicas: int
    rank: int
    even: Even | None
    contiguous: bool
    # The epoch that is resumed, and how many of its indices other numbers of processes have read.
    _resumed = 0, 0

    def _shared_at(self, epoch: int) -> View[Any] | None:
        """Return the indices of all processes in an epoch, or None if they are not known in advance."""
        raise NotImplementedError(f"{type(self).__name__} must define _shared_at(epoch)")

    def _total(self) -> int:
        """Return the number of indices of all processes in an epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define _total()")

    def _share(self, shared: Any) -> View[Any]:
        return shard(shared, self.rank, self.num_replicas, self.contiguous, even=self.even)

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return this process's share of an epoch as a view; of a resumed epoch, that of the rest.

        Returns None if a sampler inside must be iterated to find out.
        """
        shared = self._shared_at(epoch)
        return None if shared is None else self._share(shared[self._already_read(epoch) :])

    def _already_read(self, epoch: int) -> int:
        resumed, read = self._resumed
        return read if epoch == resumed else 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more)."""
        super().set_epoch(epoch)
        if epoch != self._resumed[0]:
            self._resumed = epoch, 0

    def _draw(self, epoch: int) -> Iterator[Any]:
        rest = super()._draw(epoch)
        self._resumed = epoch, 0
        return rest

    def __len__(self) -> int:
        return len(self._share(range(self._total())[self._already_read(self.epoch) :]))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the sampler besides its arguments, and how the epoch is shared."""
        dealt = {"num_replicas": self.num_replicas, "read": self._already_read(self.epoch)}
        return {**super().state_dict(), **dealt, "order": self._order_name()}

    def _order_name(self) -> str:
        """Return what the share of an epoch depends on, besides the seed and the number of processes."""
        words = ["shuffled"] * getattr(self, "shuffle", False) + ["contiguous"] * self.contiguous
        try:
            return " ".join([str(self._total()), *words])
        except TypeError:  # the sampler inside has no length
            return " ".join(words)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a sampler with the same arguments was when it returned `state`."""
        # States of earlier versions have no order.
        super().load_state_dict({"order": None, **state} if isinstance(state, Mapping) else state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        read = int_at_least(state["read"], f"{type(self).__name__}: read of a state", 0)
        super()._restore(state)
        self._resumed = self.epoch, read

    def resume_after(self, state: Mapping[str, Any], read: int) -> int:
        """Load the state of an epoch after `read` indices per process. Return how many indices are left to
        skip.

        With another number of processes, the indices that no process has read are dealt out anew.
        """
        self.load_state_dict(state)
        own, other = self._order_name(), state.get("order")
        if read and other not in (None, own):
            raise ValueError(
                f"{type(self).__name__}: the state is in the middle of an epoch of {other} indices, got {own}"
                " indices. Resume it with the same arguments, or call set_epoch to begin an epoch"
            )
        replicas = state.get("num_replicas", self.num_replicas)
        if read == 0 or replicas == self.num_replicas:
            return read
        if self.contiguous:
            raise ValueError(
                f"{type(self).__name__}: with contiguous=True the state of {replicas} processes resumes with"
                f" as many only, got num_replicas={self.num_replicas}"
            )
        self._resumed = self.epoch, self._resumed[1] + replicas * read
        return 0


class DistributedSampler(Share, SeededSampler):
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
        The same as ``even="drop"``.
    even : "pad", "drop" or None
        What to do with a number of indices that `num_replicas` does not divide. "pad" (the default) repeats
        the first indices, "drop" leaves out the last ones. With None some processes have one index fewer.
    contiguous : bool
        True: each process has a run of the order. False (the default): it has every `num_replicas`-th index.

    Raises
    ------
    TypeError
        If `dataset` is neither an int nor sized, a number is not an int, `contiguous` is not a bool, or
        `seed` is None.
    ValueError
        If a number is out of range, `even` is unknown or contradicts `drop_last`, a flag is not a bool, or
        PyTorch has no process group.

    Notes
    -----
    No memory at 65,536 indices and above. A loader can resume with another number of processes: the indices
    that no process has read are dealt out anew. The same as a view: ``shard(shuffle(dataset, seed), rank,
    num_replicas, contiguous=False, even="pad")``. Modelled on ``torch.utils.data.DistributedSampler``, with
    the same shares; ``set_epoch`` is optional here.

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
        self.even = as_even("drop" if self.drop_last and even == "pad" else even, "DistributedSampler")
        if self.drop_last and self.even != "drop":
            raise ValueError(f"DistributedSampler: drop_last=True means even='drop', got even={even!r}")
        self.contiguous = as_bool(contiguous, "DistributedSampler: contiguous")

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        return self._share(self._shared)

    @property
    def _shared(self) -> View[int]:
        """The indices of all processes in an epoch."""
        indices = view(range(self._total()))
        return shuffle(indices, self.seed) if self.shuffle else indices

    def _shared_at(self, epoch: int) -> View[int]:
        return self._shared.at_epoch(epoch)

    def _total(self) -> int:
        return sample_count(self.dataset, "DistributedSampler", "dataset")

    def _draw(self, epoch: int) -> Iterator[int]:
        rest = iter(self._share(self._shared_at(epoch)[self._already_read(epoch) :]))
        self._resumed = epoch, 0
        return rest


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
        If a number is out of range, `even` is unknown, or PyTorch has no process group.

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
        self.num_replicas, self.rank = _as_place(num_replicas, rank, "ShardedSampler")
        self.even = as_even(even, "ShardedSampler")
        self.contiguous = as_bool(contiguous, "ShardedSampler: contiguous")
        inner = _innermost(sampler)
        if isinstance(inner, SeededSampler) and getattr(inner, "shuffle", True):
            name = f"ShardedSampler: {type(inner).__name__}"
            warn_of_drawn_seed(inner.seed, name, "shares overlap and leave out indices")

    def _shared_at(self, epoch: int) -> View[Any] | None:
        return order_of(self.sampler, epoch)

    def _total(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a sampler with the same arguments was when it returned `state`.

        A state of an earlier version of seqkit does not say how many processes shared the epoch. As many as
        now are assumed, with a warning.
        """
        if isinstance(state, Mapping) and "sampler" in state and "num_replicas" not in state:
            warn(
                "ShardedSampler: the state does not say how many processes shared the epoch, because an"
                f" earlier version of seqkit made it. num_replicas={self.num_replicas} is assumed, as now.",
                UserWarning,
            )
            state = {**state, "num_replicas": self.num_replicas, "read": 0}
        super().load_state_dict(state)

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

    @renamed(num_parts="num_replicas", part_index="rank")
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
        self.num_replicas = positive_int(num_replicas, "SplitSampler: num_replicas")
        self.rank = int_at_least(rank, "SplitSampler: rank", 0)
        if self.rank >= self.num_replicas:
            raise ValueError(f"SplitSampler: rank must be below num_replicas {num_replicas}, got {rank}")
        self.even_size = as_flag(even_size, "SplitSampler: even_size")
        self.repeat = positive_int(repeat, "SplitSampler: repeat")
        self.shuffle = as_flag(shuffle, "SplitSampler: shuffle")

    def _part(self) -> tuple[range, bool]:
        """Return the indices of the part, and whether it gets one index more."""
        n = sample_count(self.length, "SplitSampler", "length")
        size, longer = divmod(n, self.num_replicas)
        start = self.rank * size + min(self.rank, longer)
        is_short = self.rank >= longer
        return range(start, start + size + (not is_short)), self.even_size and longer > 0 and is_short

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        part, lacks_one = self._part()
        indices: View[int] = view(part)
        name = f"part {self.rank}"
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
    """Return the number of processes and the number of this process, checked."""
    if num_replicas is None or rank is None:
        group = _process_group(who)
        num_replicas = group.get_world_size() if num_replicas is None else num_replicas
        rank = group.get_rank() if rank is None else rank
    num_replicas = positive_int(num_replicas, f"{who}: num_replicas")
    try:
        number = int_at_least(rank, f"{who}: rank", 0)
    except ValueError:
        number = num_replicas  # as much out of range
    if number >= num_replicas:
        raise ValueError(
            f"Invalid rank {rank} for {who}: with num_replicas={num_replicas} it must be in"
            f" [0, {num_replicas - 1}]"
        )
    return num_replicas, number


def _innermost(sampler: Any) -> Any:
    """Return the sampler that a sampler reads, through samplers in between."""
    while isinstance(sampler, NestedSampler):
        sampler = sampler.sampler
    return sampler


def _process_group(who: str) -> Any:
    """Return PyTorch's module for process groups, or raise ValueError if no group is initialised."""
    group = process_group()
    if group is None:
        raise ValueError(
            f"{who}: num_replicas and rank are needed, or a process group of PyTorch's, and there is none:"
            " give both, or call torch.distributed.init_process_group before"
        )
    return group
