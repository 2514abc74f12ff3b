"""Samplers of single indices: in order, in random order, sorted, filtered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.arguments import as_flag, check_callable, int_at_least, optional_int, positive_int
from ..core.indices import IndexArray
from ..core.plain import plain
from ..core.renamed import renamed
from ..core.source import as_view, view
from ..core.values import values_of
from ..core.view import View, in_order
from ..stores.add_cache.add_cache import add_cache
from ..views.concatenate import concatenate
from ..views.epochs import epochs
from ..views.gather.gather import gather
from ..views.random_map import random_map
from ..views.shuffle import shuffle
from ..views.unbatch import unbatch
from .base import Order, Sampler, SeededSampler, check_keys, check_sequence, keys_of, sample_count

__all__ = [
    "FilterSampler",
    "IntervalSampler",
    "RandomSampler",
    "SequentialSampler",
    "SortedSampler",
    "SubsetRandomSampler",
    "as_replacement",
    "as_sort_keys",
    "in_blocks",
    "sort_order",
]


class SequentialSampler(Sampler):
    """Indices in order: 0, 1, 2, …, or those that are given.

    Parameters
    ----------
    data_source : int or sized
        The number of indices, or an object with a length. The length is asked for in every epoch.
    start : int
        The first index (0 or more). Other values than 0 need a number as `data_source`.
    indices : sequence or integer array, optional
        Indices or keys of the data source to give instead. They are read by position and become plain Python
        values. A mask is refused.

    Raises
    ------
    TypeError
        If `data_source` is neither an int nor sized, `start` is not an int, or `indices` is not a sequence.
    ValueError
        If a number is negative, or `start` contradicts the other arguments.

    Notes
    -----
    No memory. Modelled on ``torch.utils.data.SequentialSampler``, with `start` of Gluon and `indices` of
    MegEngine.

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
        self.start = int_at_least(start, "SequentialSampler: start", 0)
        self.indices = indices
        sample_count(data_source, "SequentialSampler")
        if self.start and (indices is not None or hasattr(data_source, "__len__")):
            raise ValueError(
                f"SequentialSampler: start={start} needs a number as data_source; for a part of a data"
                " source, pass its indices as indices"
            )
        if indices is not None:
            check_keys(indices, "SequentialSampler: indices")

    @property
    def order(self) -> View[Any]:
        """The indices, the same in every epoch."""
        if self.indices is not None:
            return keys_of(self.indices, "SequentialSampler: indices")
        n = sample_count(self.data_source, "SequentialSampler")
        return view(range(self.start, self.start + n))


class RandomSampler(SeededSampler):
    """Indices in random order, or drawn with replacement.

    Parameters
    ----------
    data_source : int or sized
        The number of indices to draw from, or an object with a length. The length is asked for in every
        epoch.
    replacement : bool
        True: every draw is from all indices. False (the default): each index occurs once, in random order.
    num_samples : int, optional
        Indices per epoch (1 or more). None (the default): as many as there are. A larger number without
        replacement gives several whole permutations and a part of another one.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `data_source` has no length, `replacement` is not a bool, or a number is not an int.
    ValueError
        If a number is out of range, or `num_samples` is given and there are no indices.

    Notes
    -----
    No memory at 65,536 indices and above (see `shuffle`). Draws with replacement are made 1024 at a time.
    The order for a seed is that of ``shuffle(range(n), seed)``, not that of PyTorch.
    Modelled on ``torch.utils.data.RandomSampler``.

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

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        n, total = self._size(), len(self)
        if self.replacement:
            return in_blocks(_Uniform(n), total, self.seed, "RandomSampler")
        permutation = shuffle(range(n), self.seed)
        if total > n:
            permutation = epochs(permutation, -(-total // n))
        return permutation[:total]


class _Uniform:
    """Draw with replacement from ``range(n)``."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, rng: np.random.Generator, count: int) -> list[int]:
        drawn: list[int] = rng.integers(self.n, size=count).tolist()
        return drawn


Draw = Callable[[np.random.Generator, int], Sequence[int]]


def in_blocks(draw: Draw, total: int, seed: int, name: str, size: int = 1024) -> View[int]:
    """Return the view of `total` random draws. ``draw(rng, count)`` makes them in blocks of `size`.

    >>> list(in_blocks(lambda rng, count: [count] * count, 5, seed=0, name="x", size=2))
    [2, 2, 2, 2, 1]
    """
    blocks = random_map(partial(_block, draw, total, size), range(-(-total // size)), seed, name=name)
    return unbatch(add_cache(blocks, 1), size, total % size)


def _block(draw: Draw, total: int, size: int, number: int, rng: np.random.Generator) -> Sequence[int]:
    return draw(rng, min(size, total - number * size))


class SubsetRandomSampler(SeededSampler):
    """Given indices in random order.

    Parameters
    ----------
    indices : sequence
        Indices, or keys of any kind. They are read by position and become plain Python values. A mask is
        refused.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError, ValueError
        If `indices` cannot be indexed or has no length, or `seed` is not an int or is negative.

    Notes
    -----
    One lookup per index. Modelled on ``torch.utils.data.SubsetRandomSampler``.

    Examples
    --------
    >>> sorted(SubsetRandomSampler([7, 1, 4], seed=0))
    [1, 4, 7]
    """

    def __init__(self, indices: Order, seed: int | None = None) -> None:
        super().__init__(seed)
        check_keys(indices, "SubsetRandomSampler: indices")
        self.indices = indices

    @property
    def order(self) -> View[Any]:
        """The indices of an epoch, as a view."""
        return shuffle(keys_of(self.indices, "SubsetRandomSampler: indices"), self.seed)


class SortedSampler(Sampler):
    """The indices of keys in ascending order.

    Parameters
    ----------
    keys : sequence or one-dimensional array
        One key per sample, of any type that compares with ``<``. They are read once, at construction, by
        position. NaN counts as the greatest number.
    reverse : bool
        True: the greatest key comes first. Equal keys keep their order in both cases.

    Raises
    ------
    TypeError
        If `keys` is not a sequence, or its keys do not compare.
    ValueError
        If `reverse` is not a bool.

    Notes
    -----
    8 bytes per index. Modelled on ``SortedSampler`` of GluonNLP, where the greatest key comes first by
    default.

    Examples
    --------
    >>> list(SortedSampler([30, 10, 20])), list(SortedSampler(["b", "c", "a"], reverse=True))
    ([1, 2, 0], [1, 0, 2])
    """

    def __init__(self, keys: Order, reverse: bool = False) -> None:
        super().__init__()
        comparable = as_sort_keys(keys, "SortedSampler: keys")
        self.reverse = as_flag(reverse, "SortedSampler: reverse")
        self._indices = sort_order(comparable, self.reverse)
        self._covered = len(self._indices)

    @property
    def order(self) -> View[int]:
        """The indices, the same in every epoch."""
        return gather(range(len(self._indices)), self._indices)


class IntervalSampler(Sampler):
    """Every k-th index: 0, k, 2k, …, then 1, k + 1, …, and so on.

    Parameters
    ----------
    length : int or sized
        The number of indices, or an object with a length. The length is asked for in every epoch.
    interval : int
        The step k (1 or more).
    rollover : bool
        True (the default): start again at the first index that is left, until none is. False: only 0, k,
        2k, ….

    Raises
    ------
    TypeError
        If a number is not an int.
    ValueError
        If a number is out of range, or `rollover` is not a bool.

    Notes
    -----
    One range per pass. Modelled on ``IntervalSampler`` of Gluon.

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

    @property
    def order(self) -> View[int]:
        """The indices, the same in every epoch."""
        n = sample_count(self.length, "IntervalSampler", "length")
        if not self.rollover:
            return view(range(0, n, self.interval))
        return concatenate(range(first, n, self.interval) for first in range(min(self.interval, n)))


class FilterSampler(Sampler):
    """The indices of the samples that satisfy a predicate.

    Parameters
    ----------
    predicate : callable
        Called once with every sample, at construction.
    sequence : View or indexable
        Of known length.

    Raises
    ------
    TypeError
        If `predicate` cannot be called, or `sequence` cannot be indexed or has no length.

    Notes
    -----
    8 bytes per index. ``filter(predicate, sequence)`` is the view of the samples themselves. Modelled on
    ``FilterSampler`` of Gluon.

    Examples
    --------
    >>> list(FilterSampler(str.isupper, "aBcD"))
    [1, 3]
    """

    @renamed(function="predicate", dataset="sequence")
    def __init__(self, predicate: Callable[[Any], object], sequence: Any) -> None:
        super().__init__()
        check_callable(predicate, "FilterSampler: predicate")
        samples = as_view(sequence, "FilterSampler")
        flags = np.fromiter(
            (bool(plain(predicate(sample))) for sample in in_order(samples)), np.bool_, len(samples)
        )
        self._indices = np.flatnonzero(flags)

    @property
    def order(self) -> View[int]:
        """The indices, the same in every epoch."""
        n = int(self._indices[-1]) + 1 if len(self._indices) else 0
        return gather(range(n), self._indices)


def as_sort_keys(keys: Order, who: str) -> Order:
    """Return keys that compare, by position: an array of numbers or texts, or a list of plain values.

    >>> as_sort_keys([2, 0.5], "SortedSampler: keys"), as_sort_keys([0.5], "SortedSampler: keys")
    ([2, 0.5], array([0.5]))
    """
    check_sequence(keys, who)
    if type(keys) is np.ndarray and keys.ndim == 1 and not keys.dtype.hasobject:
        return keys
    if hasattr(keys, "tolist") and getattr(keys, "ndim", 1) > 1:
        return list(keys.tolist())  # rows compare as lists
    values = values_of(keys, who)
    kinds = set(map(type, values))
    if kinds <= {int, bool, str}:
        return values  # nothing is missing, and a look at each takes long
    if kinds == {float} or (kinds <= {float, int, bool} and any(map(_is_missing, values))):
        return np.array(values, np.float64)
    for i, value in enumerate(values):
        if _is_missing(value):
            raise TypeError(f"{who} must compare, got {value!r} at position {i}. Fill in what is missing.")
    return values


def _is_missing(value: Any) -> bool:
    """Is a value None, or a NaN, NaT or NA, which compare with nothing?"""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def sort_order(keys: Order, reverse: bool) -> IndexArray:
    """Return the positions of keys in ascending or descending order; equal keys stay in theirs.

    >>> sort_order([2, 1, 2], reverse=True), sort_order(np.array([2, 1, 2]), reverse=True)
    (array([0, 2, 1]), array([0, 2, 1]))
    """
    if not isinstance(keys, np.ndarray):
        return np.array(sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse), np.int64)
    if not reverse:
        return np.argsort(keys, kind="stable")
    return (len(keys) - 1 - np.argsort(keys[::-1], kind="stable"))[::-1]


def as_replacement(replacement: Any, who: str) -> bool:
    """Return a `replacement` argument, checked.

    >>> as_replacement(1, "RandomSampler")
    Traceback (most recent call last):
    TypeError: RandomSampler: replacement should be a boolean value, but got replacement=1
    """
    if not isinstance(replacement, bool):
        raise TypeError(f"{who}: replacement should be a boolean value, but got replacement={replacement!r}")
    return replacement
