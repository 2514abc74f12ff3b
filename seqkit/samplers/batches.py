"""Samplers around other samplers: batches, endless epochs, numbered draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from itertools import cycle as endlessly
from typing import Any, Literal

from ..core.arguments import WAYS_TO_END, as_bool, as_last, positive_int
from ..core.indices import batch_count
from ..core.view import View
from ..views.arange import arange
from ..views.batch import batch
from ..views.collate import collate
from ..views.cycle import cycle
from ..views.epochs import epochs
from ..views.starmap import starmap
from .base import NestedSampler, begin_epoch, order_of, pass_epoch
from .distributed import world_of
from .keys import sample_count

__all__ = ["BatchSampler", "InfiniteSampler", "Last", "NumberedSampler", "whole_batches"]


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
        contradicts `drop_last`, or ``last="rollover"`` meets a sampler whose order is not known in advance.

    Notes
    -----
    `len` needs the length of `sampler`. With ``"rollover"`` the batches of all epochs are those of
    ``epochs(sampler)``, so the number of an epoch determines its batches, whatever was read of the epoch
    before. Modelled on ``torch.utils.data.BatchSampler`` and, for `last`, on Gluon's.

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
        self._reading: int | None = None  # the epoch that is read, for its length
        if self.last == "rollover" and order_of(sampler, 0) is None:
            raise ValueError(
                "BatchSampler: last='rollover' needs a sampler whose order is known before it is iterated,"
                f" got {type(sampler).__name__}"
            )

    @property
    def order(self) -> View[Any] | None:
        """The batches of epoch 0 as a view. None with ``last="rollover"``, and if they must be drawn."""
        return None if self.last == "rollover" else super().order

    def at_epoch(self, epoch: int) -> View[list[Any]] | None:
        """Return the batches of an epoch as a view, or None if the inner sampler must be iterated."""
        if self.last != "rollover":
            return super().at_epoch(epoch)
        order: Any = order_of(self.sampler, 0)
        stop = (epoch + 1) * len(order)
        passes = epochs(order, epoch + 1) if order._varies else cycle(order, stop)
        return batch(passes, self.batch_size)[epoch * len(order) // self.batch_size : stop // self.batch_size]

    def _draw(self, epoch: int) -> Iterator[list[Any]]:
        self._reading = epoch
        try:
            yield from super()._draw(epoch)
        finally:
            self._reading = None

    def _over(self, order: View[Any]) -> View[list[Any]]:
        order = whole_batches(order, self.batch_size) if self.last == "pad" else order
        return batch(order, self.batch_size, self.last == "discard")

    def _drawn(self, keys: Iterator[Any]) -> Iterator[list[Any]]:
        first: list[Any] = []
        while len(drawn := list(islice(keys, self.batch_size))) == self.batch_size:
            first = first or list(drawn)
            yield drawn
        if self.last == "pad" and drawn:
            yield list(islice(chain(drawn, endlessly(first or drawn)), self.batch_size))
        if drawn and self.last == "keep":
            yield drawn

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        if self.last == "rollover":
            epoch = self.epoch if self._reading is None else self._reading
            return (epoch + 1) * n // self.batch_size - epoch * n // self.batch_size
        return batch_count(n, self.batch_size, self.last)


class InfiniteSampler(NestedSampler):
    """The epochs of another sampler one after the other, without end.

    Parameters
    ----------
    sampler : iterable
        A sampler or batch sampler, or any iterable that can be iterated again.
    resume : bool
        True: every `iter` continues where the last one stopped. False (the default): it begins a new epoch.

    Raises
    ------
    TypeError
        If `sampler` is not iterable.
    ValueError
        If `resume` is not a bool; and, while it is read, if an epoch is empty, such as the second of an
        iterator.

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

    _kept = ("read",)

    def __init__(self, sampler: Iterable[Any], resume: bool = False) -> None:
        super().__init__(sampler)
        self.resume = as_bool(resume, "InfiniteSampler: resume")
        self.read = 0  # indices of the epoch, with `resume`

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` begins or, with ``resume=True``, continues."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` begin with epoch number `epoch` (0 or more)."""
        super().set_epoch(epoch)
        self.read = 0

    def _draw(self, epoch: int) -> Iterator[Any]:
        read = self.read
        for number in count(epoch):
            pass_epoch(self.sampler, number)
            self._epoch = number
            for key in islice(begin_epoch(self.sampler, number), read, None):
                read += 1
                if self.resume:
                    self.read = read
                else:
                    self._epoch = number + 1
                yield key
            if not read:
                raise ValueError(
                    f"InfiniteSampler: epoch {number} of its sampler is empty, so it would search for ever."
                    " Make a list of an iterator first."
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

    def _over(self, order: View[Any]) -> View[int]:
        return starmap(self._number, collate([order, arange(len(order))]))

    def _drawn(self, keys: Iterator[Any]) -> Iterator[Any]:
        return map(self._number, keys, count())

    def _number(self, index: int, k: int) -> int:
        return index + sample_count(self.data_source, "NumberedSampler") * k

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]
