"""`SortedSampler`: indices in the order of keys."""

from __future__ import annotations

import numpy as np

from ..core.arguments import as_bool
from ..core.indices import IndexArray
from ..core.values import values_of
from ..core.view import View
from ..views.gather import gather
from .base import Sampler
from .keys import Order, check_sequence

__all__ = ["SortedSampler", "as_sort_keys", "sort_order"]


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


def as_sort_keys(keys: Order, who: str) -> Order:
    """Return keys that compare, by position: an array of numbers or texts, or a list of plain values.

    >>> as_sort_keys(["b", "a"], "SortedSampler: keys"), as_sort_keys([2, 0.5], "SortedSampler: keys")
    (['b', 'a'], array([2. , 0.5]))
    """
    check_sequence(keys, who)
    if type(keys) is np.ndarray and not keys.dtype.hasobject:
        return keys if keys.ndim == 1 else keys.tolist()  # rows compare as lists
    values = values_of(keys, who)
    if set(map(type, values)) <= {bool, int, float}:
        return np.array(values)  # sorts NaN behind all numbers
    for position, value in enumerate(values):
        if value is None or value != value:
            raise TypeError(f"{who} must compare, got {value!r} at position {position}. Fill in a value.")
    return values


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
