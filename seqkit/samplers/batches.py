"""Samplers of batches, and samplers without end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count, islice
from itertools import cycle as endlessly
from typing import Any, Literal

from ..core.arguments import WAYS_TO_END, as_bool, as_last, positive_int
from ..core.indices import batch_count
from ..core.iteration import is_one_shot
from ..core.plain import plain
from ..core.view import View
from ..views.batch import batch
from ..views.cycle import cycle
from .base import Sampler, draw, order_of, pass_epoch
from .nested import NestedSampler

__all__ = ["BatchSampler", "InfiniteSampler", "Last", "whole_batches"]

Last = Literal["keep", "discard", "pad", "rollover"]


class BatchSampler(NestedSampler):
    """Lists of k successive indices of another sampler, or of any iterable.

    Parameters
    ----------
    sampler : iterable
        Indices or keys. It may be endless. It is read lazily, and iterated again for every epoch.
    batch_size : int
        Indices per batch (1 or more).
    drop_last : bool
        Leave out a last batch that is short; the same as ``last="discard"``.
    last : "keep", "discard", "pad" or "rollover", optional
        What to do with a last batch that is short. ``"pad"`` completes it with the first indices of the
        epoch. ``"rollover"`` puts its indices at the beginning of the next epoch. The first epoch may then
        be empty.

    Raises
    ------
    TypeError
        If `sampler` is not iterable.
    ValueError
        If `batch_size` is not a positive int, `drop_last` is not a bool, `last` is unknown, or `last`
        contradicts `drop_last`.

    Notes
    -----
    `len` needs the length of `sampler`. With ``"rollover"`` an epoch is over when its iterator is exhausted.
    An epoch that is abandoned earlier changes nothing: the next epoch begins with the same indices, and
    `len` stays the same. `state_dict` contains these indices. Modelled on ``torch.utils.data.BatchSampler``
    and, for `last`, on Gluon's.

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
        self.batch_size = positive_int(batch_size, "BatchSampler: batch_size")
        self.drop_last = as_bool(drop_last, "BatchSampler: drop_last")
        self.last = as_last(last, "BatchSampler: last", drop_last=self.drop_last, allowed=WAYS_TO_END)
        self._carried: list[Any] = []  # indices that begin the next epoch

    def at_epoch(self, epoch: int) -> View[list[Any]] | None:
        """Return the batches of an epoch as a view.

        Returns None with ``last="rollover"``, and if the inner sampler must be iterated to find out.
        """
        order = None if self.last == "rollover" else order_of(self.sampler, epoch)
        if order is None:
            return None
        if self.last == "pad":
            order = whole_batches(order, self.batch_size)
        return batch(order, self.batch_size, self.last == "discard")

    def _drawn(self, keys: Iterator[Any]) -> Iterator[list[Any]]:
        keys = chain(self._carried, keys)
        first: list[Any] = []
        while len(drawn := list(islice(keys, self.batch_size))) == self.batch_size:
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
        return batch_count(n, self.batch_size, self.last)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the next epoch, and the indices that were carried over to it.

        >>> sampler = BatchSampler(range(5), 2, last="rollover")
        >>> batches = list(sampler)
        >>> sampler.state_dict()
        {'epoch': 1, 'sampler': None, 'carried': [4]}
        """
        return {**super().state_dict(), "carried": list(map(plain, self._carried))}

    def _restore(self, state: Mapping[str, Any]) -> None:
        carried = list(state["carried"])
        if len(carried) > (self.batch_size - 1 if self.last == "rollover" else 0):
            raise ValueError(
                f"BatchSampler: the state carries {len(carried)} indices over, which does not go with"
                f" batch_size={self.batch_size}, last={self.last!r}"
            )
        super()._restore(state)
        self._carried = carried

    def resume_after(self, state: Mapping[str, Any], read: int) -> int:
        """Load the state of an epoch after `read` batches. Return how many batches the caller still has to
        skip.
        """
        if state.get("carried"):
            self._check_shares(state)  # other processes carried other indices over
        self.load_state_dict(state)
        if not isinstance(self.sampler, Sampler) or state["sampler"] is None:
            return read
        left = self.sampler.resume_after(state["sampler"], read * self.batch_size)
        return read if left else 0


class InfiniteSampler(NestedSampler):
    """The epochs of another sampler one after the other, without end.

    Parameters
    ----------
    sampler : iterable
        A sampler or batch sampler, or any iterable that is not an iterator.
    resume : bool
        True: every `iter` continues where the last one stopped. False (the default): it begins a new epoch.

    Raises
    ------
    TypeError
        If `sampler` is not iterable, or is an iterator, which has one epoch only.
    ValueError
        If `resume` is not a bool; and, while it is read, if an epoch is empty.

    Notes
    -----
    It has no length, so `len` raises TypeError. Pickles keep the position. Modelled on ``Infinite`` of
    MegEngine.

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
        if is_one_shot(sampler):
            raise TypeError(
                "InfiniteSampler: sampler should give a new iterator every epoch, but got the iterator"
                f" {sampler!r}; make a list of it first"
            )
        self.resume = as_bool(resume, "InfiniteSampler: resume")
        self._place: tuple[int, int] = (0, 0)  # an epoch, and how many of its indices were read

    def at_epoch(self, epoch: int) -> None:
        """Return None: which indices come next depends on how far the sampler was read."""

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` begins or, with ``resume=True``, continues."""
        epoch, read = self._place
        return epoch + (read > 0 and not self.resume)

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin with epoch number `epoch` (0 or more)."""
        super().set_epoch(epoch)
        self._place = self._epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position, and the state of the inner sampler if it has one."""
        return {**super().state_dict(), "place": list(self._place)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        epoch, read = state["place"]
        self._place = epoch, read

    def _draw(self, epoch: int) -> Iterator[Any]:
        return self._endless(epoch, self._place[1] if self.resume else 0)

    def _endless(self, epoch: int, read: int) -> Iterator[Any]:
        for number in count(epoch):
            pass_epoch(self.sampler, number)
            self._place = number, read
            for key in draw(self.sampler, number, read):
                read += 1
                self._place = number, read
                yield key
            if not read:
                raise ValueError(
                    "InfiniteSampler: an epoch of its sampler is empty, so that it would search for ever"
                )
            read = 0


def whole_batches(order: View[Any], size: int) -> View[Any]:
    """Return a view completed with its first items to a multiple of `size`.

    >>> from seqkit import view
    >>> list(whole_batches(view([7, 1, 4]), 2))
    [7, 1, 4, 7]
    """
    n = len(order)
    return cycle(order, -(-n // size) * size) if n % size else order
