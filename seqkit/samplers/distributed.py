"""`DistributedSampler`: the indices of one of several processes, and `Share`, the base of such samplers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.arguments import as_bool, int_at_least, positive_int
from ..core.expression import walk
from ..core.source import view
from ..core.view import View
from ..views.shard import Even, Shard, as_even, as_rank, shard
from ..views.shuffle import shuffle
from .base import Sampler, SeededSampler, chain_of
from .keys import sample_count

__all__ = ["DistributedSampler", "Share", "as_place", "world_of"]


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

    @property
    def order(self) -> View[Any] | None:
        """The share of epoch 0 as a view, or None if a sampler inside must be iterated to find out."""
        shared = self._shared_at(0)
        return None if shared is None else self._share(shared)

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return this process's share of an epoch as a view; of a resumed epoch, that of the rest.

        Returns None if a sampler inside must be iterated to find out.
        """
        shared = self._shared_at(epoch)
        return None if shared is None else self._share(shared.skip(self._already_read(epoch)))

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
        own, other = self._order_name(), state["order"]
        if read and other != own:
            raise ValueError(
                f"{type(self).__name__}: the state is in the middle of an epoch of {other} indices, got {own}"
                " indices. Resume it with the same arguments, or call set_epoch to begin an epoch"
            )
        replicas = state["num_replicas"]
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
        self.num_replicas, self.rank = as_place(num_replicas, rank, "DistributedSampler")
        self.shuffle = as_bool(shuffle, "DistributedSampler: shuffle")
        self.drop_last = as_bool(drop_last, "DistributedSampler: drop_last")
        self.even = as_even("drop" if self.drop_last and even == "pad" else even, "DistributedSampler")
        if self.drop_last and self.even != "drop":
            raise ValueError(f"DistributedSampler: drop_last=True means even='drop', got even={even!r}")
        self.contiguous = as_bool(contiguous, "DistributedSampler: contiguous")

    def _shared_at(self, epoch: int) -> View[int]:
        indices = view(range(self._total()))
        return shuffle(indices, self.seed).at_epoch(epoch) if self.shuffle else indices

    def _total(self) -> int:
        return sample_count(self.dataset, "DistributedSampler", "dataset")


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
    shares = [one.num_replicas for one in chain if isinstance(one, Share)]
    if chain and isinstance(chain[-1], View):
        shares += [node._world_size for node in walk(chain[-1]) if isinstance(node, Shard)]
    return max(shares, default=1)


def process_group() -> Any:
    """Return PyTorch's module for process groups if a group is initialised, otherwise None."""
    group: Any = sys.modules.get("torch.distributed")  # a program with a process group has imported it
    return group if group is not None and group.is_available() and group.is_initialized() else None
