"""Samplers whose order is the same in every epoch: in order, every k-th, sorted, or filtered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_bool, check_callable, int_at_least, positive_int
from ..core.indices import IndexArray
from ..core.source import as_view, view
from ..core.values import values_of
from ..core.view import View
from ..views.concatenate import concatenate
from ..views.filter import Filter
from ..views.gather import gather
from .base import Sampler
from .keys import Order, check_keys, check_sequence, keys_of, sample_count

__all__ = [
    "FilterSampler",
    "IntervalSampler",
    "SequentialSampler",
    "SortedSampler",
    "as_sort_keys",
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
            raise ValueError(f"SequentialSampler: start={start} needs a number as data_source, no indices")
        if indices is not None:
            check_keys(indices, "SequentialSampler: indices")

    @property
    def order(self) -> View[Any]:
        """The indices, the same in every epoch."""
        if self.indices is not None:
            return keys_of(self.indices, "SequentialSampler: indices")
        n = sample_count(self.data_source, "SequentialSampler")
        return view(range(self.start, self.start + n))


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
        self.rollover = as_bool(rollover, "IntervalSampler: rollover")

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
    At most 8 bytes per index. ``filter(predicate, sequence)`` is the view of the samples themselves.
    Modelled on ``FilterSampler`` of Gluon.

    Examples
    --------
    >>> list(FilterSampler(str.isupper, "aBcD"))
    [1, 3]
    """

    def __init__(self, predicate: Callable[[Any], object], sequence: Any) -> None:
        super().__init__()
        check_callable(predicate, "FilterSampler: predicate")
        self._indices = Filter(predicate, as_view(sequence, "FilterSampler")).indices

    @property
    def order(self) -> View[int]:
        """The indices, the same in every epoch."""
        n = int(self._indices[-1]) + 1 if len(self._indices) else 0
        return gather(range(n), self._indices)


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
        self.reverse = as_bool(reverse, "SortedSampler: reverse")
        self._indices = sort_order(comparable, self.reverse)

    @property
    def order(self) -> View[int]:
        """The indices, the same in every epoch."""
        return gather(range(len(self._indices)), self._indices)


def as_sort_keys(keys: Any, who: str) -> npt.NDArray[Any]:
    """Return keys that compare as an array, by position.

    >>> as_sort_keys([2, 0.5], "SortedSampler: keys"), as_sort_keys(["b", "a"], "SortedSampler: keys")
    (array([2. , 0.5]), array(['b', 'a'], dtype=object))
    """
    check_sequence(keys, who)
    is_array = type(keys) is np.ndarray and not keys.dtype.hasobject
    if is_array and keys.ndim == 1:
        return np.asarray(keys)
    values = keys.tolist() if is_array else values_of(keys, who)  # rows compare as lists
    if set(map(type, values)) <= {bool, int, float}:
        return np.array(values)  # sorts NaN behind all numbers
    for position, value in enumerate(values):
        if value is None or value != value:
            raise TypeError(f"{who} must compare, got {value!r} at position {position}. Fill in a value.")
    return np.fromiter(values, object, len(values))


def sort_order(keys: npt.NDArray[Any], reverse: bool) -> IndexArray:
    """Return the positions of keys in ascending or descending order; equal keys stay in theirs.

    >>> sort_order(np.array([2, 1, 2]), reverse=False), sort_order(np.array([2, 1, 2]), reverse=True)
    (array([1, 0, 2]), array([0, 2, 1]))
    """
    if not reverse:
        return np.argsort(keys, kind="stable")
    return (len(keys) - 1 - np.argsort(keys[::-1], kind="stable"))[::-1]
