"""Samplers of batches, and of epochs without end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count, islice
from itertools import cycle as endlessly
from typing import Any, Literal

import numpy as np

from ..checks import as_batch_size, as_flag
from ..view import View
from ..views.batch import batch
from ..views.cycle import cycle
from .base import NestedSampler, order_of, pass_epoch

__all__ = ["BatchSampler", "InfiniteSampler", "Last", "whole_batches"]

Last = Literal["keep", "discard", "pad", "rollover"]


class BatchSampler(NestedSampler):
    """Lists of k successive indices of another sampler, or of any iterable.

    Parameters
    ----------
    sampler : iterable
        Of indices or keys; may be endless, is read as batches are drawn, and anew in every epoch.
    batch_size : int
        Indices per batch, at least 1.
    drop_last : bool
        Leave out a last batch of fewer; the same as ``last="discard"``.
    last : "keep", "discard", "pad" or "rollover", optional
        What becomes of the indices of a last batch of fewer than k. ``"pad"``: it is completed with the first
        ones of the epoch. ``"rollover"``: the next epoch begins with them; the first one may then be empty.

    Raises
    ------
    TypeError
        If `sampler` is not iterable.
    ValueError
        If `batch_size` is no positive int, `drop_last` no bool, or `last` unknown or at odds with
        `drop_last`.

    Notes
    -----
    `len` needs that of `sampler`. With ``"rollover"`` an epoch is over when its iterator says so: one that is
    abandoned before leaves what the last epoch carried over for the next one, and `len` as it was. What is
    carried over can be saved: `state_dict`. After ``torch.utils.data.BatchSampler`` and, for `last`, Gluon's.

    Examples
    --------
    >>> list(BatchSampler(range(5), 2)), len(BatchSampler(range(5), 2, drop_last=True))
    ([[0, 1], [2, 3], [4]], 2)
    >>> sampler = BatchSampler(range(5), 2, last="rollover")
    >>> list(sampler), list(sampler)
    ([[0, 1], [2, 3]], [[4, 0], [1, 2], [3, 4]])
    """

    def __init__(
        self,
        sampler: Iterable[Any],
        batch_size: int,
        drop_last: bool = False,
        *,
        last: Last | None = None,
    ) -> None:
        super().__init__(sampler)
        self.batch_size = as_batch_size(batch_size, "BatchSampler")
        self.drop_last = as_flag(drop_last, "BatchSampler: drop_last")
        self.last = _last_policy(self.drop_last, last)
        self._carried: list[Any] = []

    def order(self, epoch: int) -> View[list[Any]] | None:
        """Return the batches of an epoch as a view; None with rollover, or without the order of `sampler`."""
        order = None if self.last == "rollover" else order_of(self.sampler, epoch)
        if order is None:
            return None
        if self.last == "pad":
            order = whole_batches(order, self.batch_size)
        return batch(order, self.batch_size, self.last == "discard")

    def _draw(self, epoch: int) -> Iterator[list[Any]]:
        return self._batches(chain(self._carried, iter(self.sampler)))

    def _batches(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        first: list[Any] = []
        while len(drawn := list(islice(indices, self.batch_size))) == self.batch_size:
            first = first or list(drawn)
            yield drawn
        if self.last == "pad" and drawn:
            yield list(islice(chain(drawn, endlessly(first or drawn)), self.batch_size))
        if self.last == "rollover":
            self._carried = drawn
        elif drawn and self.last == "keep":
            yield drawn

    def __len__(self) -> int:
        n = len(self._carried) + len(self.sampler)  # type: ignore[arg-type]
        return -(-n // self.batch_size) if self.last in ("keep", "pad") else n // self.batch_size

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on: its number, and the indices carried over to it.

        Of these it is enough to know how many they are where they end the epoch before.

        >>> sampler = BatchSampler(RandomSampler(5, seed=0), 2, last="rollover")
        >>> batches = list(sampler)
        >>> sampler.state_dict()
        {'epoch': 1, 'sampler': {'epoch': 1, 'seed': 0}, 'carried': 1}
        """
        carried: Any = list(self._carried)
        if carried == self._tail(len(carried)):
            carried = len(carried)
        return {**super().state_dict(), "carried": carried}

    def _tail(self, count: int) -> list[Any] | None:
        """Return the last indices of the epoch before the next one."""
        order = order_of(self.sampler, self.epoch - 1) if self.epoch > 0 else None
        if order is None or len(order) < count:
            return None
        return [i.item() if isinstance(i, np.generic) else i for i in order[len(order) - count :]]

    def _restore(self, state: Mapping[str, Any]) -> None:
        carried: Any = state["carried"]
        count = carried if isinstance(carried, int) else len(carried)
        if count > (self.batch_size - 1 if self.last == "rollover" else 0):
            raise ValueError(
                f"BatchSampler: the state carries {count} indices over, which does not go with"
                f" batch_size={self.batch_size}, last={self.last!r}"
            )
        super()._restore(state)
        if isinstance(carried, int):
            carried = self._tail(carried) or []
        self._carried = list(carried)


def _last_policy(drop_last: bool, last: Last | None) -> Last:
    if last is None:
        return "discard" if drop_last else "keep"
    if last not in ("keep", "discard", "pad", "rollover"):
        raise ValueError(f"BatchSampler: last must be 'keep', 'discard', 'pad' or 'rollover', got {last!r}")
    if drop_last and last != "discard":
        raise ValueError(f"BatchSampler: drop_last=True means last='discard', got last={last!r}")
    return last


class InfiniteSampler(NestedSampler):
    """The epochs of another sampler one after the other, without end.

    Parameters
    ----------
    sampler : iterable
        Of anything; a sampler or a batch sampler, not an iterator.
    resume : bool
        Let every `iter` go on where the last one stopped. By default it begins a new epoch.

    Raises
    ------
    TypeError
        If `sampler` is not iterable, or an iterator, which has one epoch only.
    ValueError
        If `resume` is no bool; and, when it is drawn from, if an epoch is empty.

    Notes
    -----
    No length, so that `len` raises TypeError. Pickles with its place. After ``Infinite`` of MegEngine.

    Examples
    --------
    >>> from itertools import islice
    >>> sampler = InfiniteSampler(range(3))
    >>> list(islice(sampler, 7)), list(islice(sampler, 2))
    ([0, 1, 2, 0, 1, 2, 0], [0, 1])
    >>> sampler = InfiniteSampler(range(3), resume=True)
    >>> list(islice(sampler, 7)), list(islice(sampler, 2))
    ([0, 1, 2, 0, 1, 2, 0], [1, 2])
    """

    def __init__(self, sampler: Iterable[Any], resume: bool = False) -> None:
        super().__init__(sampler)
        if isinstance(sampler, Iterator):
            raise TypeError(
                f"InfiniteSampler: sampler should give a new iterator every epoch, but got the iterator"
                f" {sampler!r}; make a list of it first"
            )
        self.resume = as_flag(resume, "InfiniteSampler: resume")
        self._place: tuple[int, int] | None = None  # epoch, and how many of its indices were given

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin with epoch number `epoch`, at least 0."""
        super().set_epoch(epoch)
        self._place = None

    def state_dict(self) -> dict[str, Any]:
        """Return what the next `iter` depends on: its epoch, and the place there if it is to resume."""
        return {**super().state_dict(), "place": self._place}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._place = state["place"]

    def _draw(self, epoch: int) -> Iterator[Any]:
        epoch, given = self._place if self.resume and self._place else (epoch, 0)
        return self._endless(epoch, given)

    def _endless(self, epoch: int, given: int) -> Iterator[Any]:
        for number in count(epoch):
            pass_epoch(self.sampler, number)
            self._place = number, given
            for index in islice(self.sampler, given, None):
                given += 1
                self._place = number, given
                yield index
            if not given:
                raise ValueError(
                    "InfiniteSampler: an epoch of its sampler is empty, and more of them could be without end"
                )
            given = 0


def whole_batches(order: Any, size: int) -> Any:
    """Return a sequence, completed with its first items to a multiple of `size` of them.

    >>> list(whole_batches([7, 1, 4], 2))
    [7, 1, 4, 7]
    """
    n = len(order)
    return cycle(order)[: -(-n // size) * size] if n % size else order
