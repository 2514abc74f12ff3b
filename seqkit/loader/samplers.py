"""Samplers: sources of indices, each `iter` one epoch.

They stand on their own and know nothing of loaders. An epoch's order is a pure function of
(seed, epoch), and the epoch advances with every `iter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from itertools import cycle as endlessly
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..checks import check_callable, optional_int, positive_int
from ..indices import IndexArray, each
from ..randomness import Permutation, as_seed, item_generator, node_key
from ..source import as_view
from ..view import View, in_order
from ..views.batch import batch
from ..views.concatenate import concatenate
from ..views.cycle import cycle
from ..views.flatten import flatten
from ..views.shuffle import shuffle
from ..views.smap import smap
from .arguments import as_batch_size, as_flag, check_iterable

__all__ = [
    "BLOCK",
    "BatchSampler",
    "EpochSampler",
    "FilterSampler",
    "InfiniteSampler",
    "IntervalSampler",
    "NestedSampler",
    "Order",
    "RandomSampler",
    "SeededSampler",
    "SequentialSampler",
    "SortedSampler",
    "SubsetRandomSampler",
    "as_replacement",
    "check_sequence",
    "in_rounds",
    "order_of",
    "pass_epoch",
    "sample_count",
    "sort_order",
    "whole_batches",
]

# Indices that can be indexed.
Order = Sequence[Any] | npt.NDArray[Any]

Last = Literal["keep", "discard", "pad", "rollover"]

# How many draws with replacement are made at once.
BLOCK = 1024


class EpochSampler:
    """A sampler that counts its epochs: the base class of all of them.

    A subclass defines `order`, or `_draw` where the indices of an epoch cannot be known ahead.

    Examples
    --------
    >>> class EveryOther(EpochSampler):
    ...     def order(self, epoch):
    ...         return range(epoch % 2, 6, 2)
    >>> sampler = EveryOther()
    >>> list(sampler), list(sampler), sampler.epoch
    ([0, 2, 4], [1, 3, 5], 2)
    """

    def __init__(self) -> None:
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0."""
        self._epoch = positive_int(epoch, f"{type(self).__name__}: epoch", least=0)

    def order(self, epoch: int) -> Order | None:
        """Return what epoch number `epoch` gives, as a sequence; None where only drawing can tell."""
        return None

    def __iter__(self) -> Iterator[Any]:
        epoch = self.epoch
        self._epoch += 1
        return self._draw(epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        order: Any = self.order(epoch)
        if order is None:
            raise NotImplementedError(f"{type(self).__name__} must define order(epoch) or _draw(epoch)")
        return each(order)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on, but for the arguments.

        >>> RandomSampler(5, seed=3).state_dict()
        {'epoch': 0, 'seed': 3}
        """
        return {"epoch": self.epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next `iter` go on where that of a sampler of the same arguments would have.

        Raises
        ------
        TypeError, ValueError
            If `state` is not from `state_dict` of such a sampler.
        """
        fields = self.state_dict()
        if not isinstance(state, Mapping) or any(name not in state for name in fields):
            raise TypeError(
                f"{type(self).__name__}: a state is a dict with {', '.join(fields)}, got {state!r}"
            )
        self._restore(state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.set_epoch(state["epoch"])


class SeededSampler(EpochSampler):
    """A sampler whose epochs are random: functions of its seed and their number."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.seed = as_seed(seed, f"{type(self).__name__}: seed")

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on: its number, and the seed."""
        return {**super().state_dict(), "seed": self.seed}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.seed = as_seed(state["seed"], f"{type(self).__name__}: seed")


class NestedSampler(EpochSampler):
    """A sampler that draws from another one, whose epochs are its own."""

    def __init__(self, sampler: Iterable[Any]) -> None:
        check_iterable(sampler, f"{type(self).__name__}: sampler")
        super().__init__()
        self.sampler = sampler

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads: as the inner sampler has it, if it counts them."""
        return getattr(self.sampler, "epoch", self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0, of the inner sampler too."""
        super().set_epoch(epoch)
        pass_epoch(self.sampler, epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on: its number, and the state of the inner sampler if any."""
        inner = self.sampler.state_dict() if hasattr(self.sampler, "state_dict") else None
        return {**super().state_dict(), "sampler": inner}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        if state["sampler"] is not None and hasattr(self.sampler, "load_state_dict"):
            self.sampler.load_state_dict(state["sampler"])


class SequentialSampler(EpochSampler):
    """Indices in order: 0, 1, 2, …, or those that are given.

    Parameters
    ----------
    data_source : int or sized
        How many, or what to take the length of, anew in every epoch.
    start : int
        The first index, at least 0; not 0 only where `data_source` is a number.
    indices : sequence or integer array, optional
        Indices or keys of the data source to give instead, in their order.

    Raises
    ------
    TypeError
        If `data_source` is neither, `start` no int, or `indices` no sequence.
    ValueError
        If a number is negative, or `start` does not go with the other arguments.

    Notes
    -----
    No memory. After ``torch.utils.data.SequentialSampler``; `start` after Gluon, `indices` after MegEngine.

    Examples
    --------
    >>> list(SequentialSampler("abc")), list(SequentialSampler(2, start=5))
    ([0, 1, 2], [5, 6])
    >>> list(SequentialSampler("abc", indices=[2, 0])), len(SequentialSampler("abc", indices=[2, 0]))
    ([2, 0], 2)
    """

    def __init__(self, data_source: Any, start: int = 0, indices: Order | None = None) -> None:
        super().__init__()
        self.data_source = data_source
        self.start = positive_int(start, "SequentialSampler: start", least=0)
        self.indices = indices
        sample_count(data_source, "SequentialSampler")
        if self.start and (indices is not None or hasattr(data_source, "__len__")):
            raise ValueError(
                f"SequentialSampler: start={start} goes with a number of indices only; for a part of a"
                " data source, or of indices, give that part as indices"
            )
        if indices is not None:
            check_sequence(indices, "SequentialSampler: indices")

    def order(self, epoch: int) -> Order:
        """Return the indices, the same in every epoch."""
        if self.indices is not None:
            return self.indices
        return range(self.start, self.start + len(self))

    def __len__(self) -> int:
        if self.indices is not None:
            return len(self.indices)
        return sample_count(self.data_source, "SequentialSampler")


class RandomSampler(SeededSampler):
    """Indices in random order, or drawn with replacement.

    Parameters
    ----------
    data_source : int or sized
        How many indices to draw from, or what to take the length of, anew in every epoch.
    replacement : bool
        Draw every index from all of them. By default each occurs once, in random order.
    num_samples : int, optional
        Indices per epoch, at least 1. None (the default): as many as there are. More than that without
        replacement gives several whole permutations and a part of one.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `data_source` has no length, `replacement` is no bool, or a number no int.
    ValueError
        If a number is out of range, or samples are wanted and there is nothing to draw from.

    Notes
    -----
    No memory at 65,536 indices and above (see `shuffle`); draws with replacement are made 1024 at a time.
    The order for a seed is that of ``shuffle(range(n), seed)``, not that of PyTorch. After
    ``torch.utils.data.RandomSampler``.

    Examples
    --------
    >>> sampler = RandomSampler(5, seed=0)
    >>> first, second = list(sampler), list(sampler)
    >>> sorted(first), first == second, sampler.epoch
    ([0, 1, 2, 3, 4], False, 2)
    >>> sampler.set_epoch(0)
    >>> list(sampler) == first
    True
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.replacement = as_replacement(replacement, "RandomSampler")
        super().__init__(seed)
        self.data_source = data_source
        self._num_samples = optional_int(num_samples, "RandomSampler: num_samples")
        self._size()

    def _size(self) -> int:
        n = sample_count(self.data_source, "RandomSampler")
        if n == 0 and self._num_samples is not None:
            raise ValueError(
                f"RandomSampler: num_samples={self._num_samples} samples wanted, but data_source is empty"
            )
        return n

    def __len__(self) -> int:
        return self._size() if self._num_samples is None else self._num_samples

    def order(self, epoch: int) -> View[int]:
        """Return the indices of an epoch, as a view."""
        n, total = self._size(), len(self)
        if self.replacement:
            key = node_key("RandomSampler", self.seed, epoch, "replacement")
            return in_rounds(_Draws(n, key), BLOCK, total)
        permute = _Permutations(n, self.seed, epoch)
        if n < Permutation.TABLE and total > n:
            return in_rounds(permute, n, total)
        return concatenate(map(permute.whole, range(-(-total // max(n, 1)))))[:total]


def in_rounds(draw: Callable[[int, int], Sequence[int]], size: int, total: int) -> View[int]:
    """Return the view of `total` indices in rounds of `size`, each drawn when its indices are read.

    >>> list(in_rounds(lambda number, length: [number] * length, 2, 5))
    [0, 0, 1, 1, 2]
    """
    rounds = -(-total // size)
    lengths = np.full(rounds, size)
    lengths[-1:] = total - size * (rounds - 1)
    return flatten(smap(draw, range(rounds), lengths), lengths)


class _Draws:
    """Draws with replacement from ``range(n)``."""

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self.key = key

    def __call__(self, block: int, length: int) -> list[int]:
        drawn: list[int] = item_generator(self.key, block).integers(self.n, size=BLOCK).tolist()
        return drawn[:length]


class _Permutations:
    """Permutation after permutation of ``range(n)``; that of number 0 is that of `shuffle`."""

    def __init__(self, n: int, seed: int, epoch: int) -> None:
        self.n = n
        self.seed = seed
        self.epoch = epoch

    def whole(self, number: int) -> View[int]:
        name = f"round {number}" if number else None
        return shuffle(range(self.n), self.seed, self.epoch, name=name)

    def __call__(self, number: int, length: int) -> list[int]:
        return list(self.whole(number)[:length])


class SubsetRandomSampler(SeededSampler):
    """Given indices in random order.

    Parameters
    ----------
    indices : sequence
        Indices, or keys of any kind; arrays are kept as they are and give plain ints.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError, ValueError
        If `indices` cannot be indexed or has no length, or `seed` is no int or negative.

    Notes
    -----
    One lookup per index. After ``torch.utils.data.SubsetRandomSampler``.

    Examples
    --------
    >>> sorted(SubsetRandomSampler([7, 1, 4], seed=0))
    [1, 4, 7]
    """

    def __init__(self, indices: Order, seed: int | None = None) -> None:
        super().__init__(seed)
        check_sequence(indices, "SubsetRandomSampler: indices")
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def order(self, epoch: int) -> View[Any]:
        """Return the indices of an epoch, as a view."""
        return shuffle(self.indices, self.seed, epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        order = iter(self.order(epoch))
        return map(int, order) if isinstance(self.indices, np.ndarray) else order


class SortedSampler(EpochSampler):
    """The indices of keys in ascending order.

    Parameters
    ----------
    keys : sequence or one-dimensional array
        Of anything that compares with ``<``, one key per sample; read once, now.
    reverse : bool
        The greatest key first. Equal keys stay in their order either way.

    Raises
    ------
    TypeError
        If `keys` is no sequence, or its keys do not compare.
    ValueError
        If `reverse` is no bool.

    Notes
    -----
    8 bytes per index. After ``SortedSampler`` of GluonNLP, which has the greatest first by default.

    Examples
    --------
    >>> list(SortedSampler([30, 10, 20])), list(SortedSampler(["b", "c", "a"], reverse=True))
    ([1, 2, 0], [1, 0, 2])
    """

    def __init__(self, keys: Order, reverse: bool = False) -> None:
        super().__init__()
        check_sequence(keys, "SortedSampler: keys")
        self.reverse = as_flag(reverse, "SortedSampler: reverse")
        self._indices = sort_order(keys, self.reverse)

    def order(self, epoch: int) -> IndexArray:
        """Return the indices, the same in every epoch."""
        return self._indices

    def __len__(self) -> int:
        return len(self._indices)


class IntervalSampler(EpochSampler):
    """Every k-th index: 0, k, 2k, …, and then those from 1 on, from 2 on, and so forth.

    Parameters
    ----------
    length : int or sized
        How many indices there are, or what to take the length of, anew in every epoch.
    interval : int
        The step k, at least 1.
    rollover : bool
        Begin anew behind every index left out, until there is none (the default). False: only 0, k, 2k, ….

    Raises
    ------
    TypeError
        If a number is no int.
    ValueError
        If a number is out of range, or `rollover` no bool.

    Notes
    -----
    One range per pass. After ``IntervalSampler`` of Gluon.

    Examples
    --------
    >>> list(IntervalSampler(7, 3)), list(IntervalSampler(7, 3, rollover=False))
    ([0, 3, 6, 1, 4, 2, 5], [0, 3, 6])
    """

    def __init__(self, length: Any, interval: int, rollover: bool = True) -> None:
        super().__init__()
        sample_count(length, "IntervalSampler", "length")
        self.length = length
        self.interval = positive_int(interval, "IntervalSampler: interval")
        self.rollover = as_flag(rollover, "IntervalSampler: rollover")

    def order(self, epoch: int) -> Order:
        """Return the indices, the same in every epoch."""
        n = sample_count(self.length, "IntervalSampler", "length")
        if not self.rollover:
            return range(0, n, self.interval)
        return concatenate(range(first, n, self.interval) for first in range(min(self.interval, n)))

    def __len__(self) -> int:
        n = sample_count(self.length, "IntervalSampler", "length")
        return n if self.rollover else -(-n // self.interval)


class FilterSampler(EpochSampler):
    """The indices of those samples for which a function is true.

    Parameters
    ----------
    function : callable
        Called with every sample once, now.
    dataset : View or indexable
        Of known length.

    Raises
    ------
    TypeError
        If `function` cannot be called, or `dataset` cannot be indexed or has no length.

    Notes
    -----
    8 bytes per index. After ``FilterSampler`` of Gluon; the samples themselves are
    ``filter(function, dataset)``.

    Examples
    --------
    >>> list(FilterSampler(str.isupper, "aBcD"))
    [1, 3]
    """

    def __init__(self, function: Callable[[Any], object], dataset: Any) -> None:
        super().__init__()
        check_callable(function, "FilterSampler: function")
        samples = as_view(dataset, "FilterSampler")
        flags = np.fromiter((bool(function(sample)) for sample in in_order(samples)), np.bool_, len(samples))
        self._indices = np.flatnonzero(flags)

    def order(self, epoch: int) -> IndexArray:
        """Return the indices, the same in every epoch."""
        return self._indices

    def __len__(self) -> int:
        return len(self._indices)


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


def pass_epoch(sampler: Any, epoch: int) -> None:
    """Tell a sampler which epoch comes next, if it wants to know."""
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def whole_batches(order: Any, size: int) -> Any:
    """Return a sequence, completed with its first items to a multiple of `size` of them.

    >>> list(whole_batches([7, 1, 4], 2))
    [7, 1, 4, 7]
    """
    n = len(order)
    return cycle(order)[: -(-n // size) * size] if n % size else order


def order_of(sampler: Any, epoch: int) -> Order | None:
    """Return what a sampler gives in an epoch, as a sequence; None where only drawing can tell.

    Sequences and arrays are samplers, too, whose epochs are all alike.

    >>> order_of(RandomSampler(5, seed=0), 3)[2] in range(5), order_of([4, 2], 3), order_of({1}, 3)
    (True, [4, 2], None)
    """
    if isinstance(sampler, EpochSampler):
        # A class of the user's may draw in a way of its own.
        return sampler.order(epoch) if type(sampler).__iter__ is EpochSampler.__iter__ else None
    return sampler if isinstance(sampler, Sequence | np.ndarray) else None


def sort_order(keys: Order, reverse: bool) -> IndexArray:
    """Return the positions of keys in ascending or descending order; equal keys stay in theirs.

    >>> sort_order([2, 1, 2], reverse=True), sort_order(np.array([2, 1, 2]), reverse=True)
    (array([0, 2, 1]), array([0, 2, 1]))
    """
    n = len(keys)
    if not isinstance(keys, np.ndarray) or keys.ndim != 1:
        comparable = keys.tolist() if isinstance(keys, np.ndarray) else list(in_order(keys))
        return np.array(sorted(range(n), key=comparable.__getitem__, reverse=reverse), np.int64)
    if not reverse:
        return np.argsort(keys, kind="stable")
    return (n - 1 - np.argsort(keys[::-1], kind="stable"))[::-1]


def as_replacement(replacement: Any, who: str) -> bool:
    """Return a `replacement` argument, checked.

    >>> as_replacement(1, "RandomSampler")
    Traceback (most recent call last):
    TypeError: RandomSampler: replacement should be a boolean value, but got replacement=1
    """
    if not isinstance(replacement, bool):
        raise TypeError(f"{who}: replacement should be a boolean value, but got replacement={replacement!r}")
    return replacement


def sample_count(data_source: Any, who: str, name: str = "data_source") -> int:
    """Return how many samples a number or a data source stands for.

    >>> sample_count("abc", "RandomSampler"), sample_count(4, "RandomSampler")
    (3, 4)
    """
    if hasattr(data_source, "__len__"):
        return len(data_source)
    return positive_int(data_source, f"{who}: {name} (an int, or anything with len)", least=0)


def check_sequence(values: Any, who: str) -> None:
    """Refuse what has no length, or cannot be indexed."""
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise TypeError(f"{who} should be a sequence or an array, but got {values!r}")
