"""`shuffle_groups`: groups in random order, and the items of each group in random order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import int_at_least, positive_int
from ..core.epoch import ORDER
from ..core.indices import IndexArray, Indices, as_array
from ..core.lengths import needed_length
from ..core.once import cached
from ..core.randomness import Permutation, as_name, as_seed, node_key
from ..core.source import as_view
from ..core.values import is_single, values_of
from ..core.view import Indexable, T, View
from .bases.random import Random
from .bases.selection import Selection

__all__ = ["ShuffleGroups", "shuffle_groups"]


def shuffle_groups(
    sequence: Indexable[T],
    group_sizes: int | Iterable[int] | None = None,
    seed: int | None = None,
    *,
    groups_at_once: int = 1,
    name: str | None = None,
) -> View[T]:
    """Return a view that shuffles groups of neighbouring items, and the items within each group.

    For data that is read in groups, such as the row groups of Parquet or the chunks of HDF5 and Zarr: in this
    order each group is read once, where `shuffle` reads a group for almost every item. Each epoch has its own
    order, see `View.at_epoch`.

    Parameters
    ----------
    sequence : View or indexable
        Of known length, below 2**63.
    group_sizes : int or iterable of int, optional
        Items per group. An int: all groups have this size, the last may be smaller. None (the default): the
        sequence's own, as the views of `seqkit.sources` have them.
    seed : int, optional
        At least 0. None (the default) draws a seed from the system, once.
    groups_at_once : int
        Number of groups whose items are mixed (1 or more). Larger values come closer to a full shuffle, and
        need a cache of this many groups.
    name : str, optional
        Salts the seed in place of the number of orders below. See `shuffle`.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, an argument has the wrong type, or the sequence has
        no groups and `group_sizes` is None.
    ValueError
        If a size or `seed` is too small, or the sizes do not add up to the length.

    Notes
    -----
    Memory: 24 bytes per group, and 8 bytes per item of the groups being read. About 4 µs per access. With
    process workers, let one worker read a group: ``prefetch(batch(view, k), ..., chunk_size=size // k)``.
    Otherwise each of several workers reads it.
    Known elsewhere as shard shuffle or block shuffle.

    Examples
    --------
    >>> order = list(shuffle_groups(range(9), 3, seed=0))
    >>> order
    [4, 5, 3, 2, 1, 0, 8, 7, 6]
    >>> list(shuffle_groups("aabbbc", [2, 3, 1], seed=1))
    ['a', 'a', 'b', 'b', 'b', 'c']
    """
    source = as_view(sequence, "shuffle_groups")
    n = needed_length(source, "shuffle_groups")
    if n >= 1 << 63:
        raise ValueError(f"shuffle_groups: the sequence must be shorter than 2**63, got {n} items")
    sizes = _own_sizes(source) if group_sizes is None else group_sizes
    view = ShuffleGroups(
        source,
        _checked(sizes),
        as_seed(seed, "shuffle_groups: seed"),
        0,
        positive_int(groups_at_once, "shuffle_groups: groups_at_once"),
        as_name(name, "shuffle_groups: name"),
    )
    view._bounds  # noqa: B018 - refuses sizes that do not add up
    return view


def _own_sizes(source: View[Any]) -> Any:
    for owner in (source, getattr(source, "_data", None)):
        if (sizes := getattr(owner, "group_sizes", None)) is not None:
            return sizes
    raise TypeError("shuffle_groups: the sequence has no groups of its own. Pass group_sizes.")


def _checked(sizes: int | Iterable[int]) -> int | IndexArray:
    """Return the size of all groups, or that of each one."""
    if not isinstance(sizes, Iterable) or is_single(sizes):
        return positive_int(sizes, "shuffle_groups: group_sizes", other=" or ints")
    given = values_of(sizes, "shuffle_groups: group_sizes")
    checked = (int_at_least(size, "shuffle_groups: each of group_sizes", 0) for size in given)
    return np.array([size for size in checked if size], np.int64)


class _Order(NamedTuple):
    """The groups in random order, as if they were copied one after the other."""

    ends: IndexArray  # where each copy ends
    shifts: IndexArray  # from a position in a copy to the index in the sequence
    mixed: IndexArray  # where each run of groups ends whose items are mixed


class ShuffleGroups(Selection, Random):
    """The view that `shuffle_groups` returns."""

    _varies = ORDER

    def __init__(
        self,
        source: View[Any],
        sizes: int | IndexArray,
        seed: int,
        epoch: int,
        at_once: int,
        name: str | int | None,
    ) -> None:
        Random.__init__(self, (source,), seed, epoch, name)
        self._sizes = sizes
        self._at_once = at_once
        self._last: tuple[int, tuple[int, Permutation] | None] = (-1, None)

    def _key_of(self, part: str) -> int:
        return node_key(f"shuffle_groups {part}", self._seed, self._epoch, self._salt)

    @cached
    def _bounds(self) -> IndexArray:
        """Where each group starts, and the end of the last one. The length may differ between epochs."""
        n = needed_length(self._sources[0], "shuffle_groups")
        if isinstance(self._sizes, int):
            return np.append(np.arange(0, n, self._sizes, dtype=np.int64), n)
        bounds = np.append(0, np.cumsum(self._sizes, dtype=np.int64))
        if bounds[-1] != n:
            raise ValueError(f"shuffle_groups: group_sizes must add up to the length {n}, got {bounds[-1]}")
        return bounds

    @cached
    def _order(self) -> _Order:
        groups = len(self._bounds) - 1
        order = (
            Permutation(groups, self._key_of("order")).many(range(groups))
            if groups
            else np.empty(0, np.int64)
        )
        starts, sizes = self._bounds[order], np.diff(self._bounds)[order]
        ends = np.cumsum(sizes)
        last = np.arange(self._at_once - 1, groups + self._at_once - 1, self._at_once)
        return _Order(ends, starts - (ends - sizes), ends[np.minimum(last, groups - 1)])

    def _mixing(self, run: int) -> tuple[int, Permutation]:
        """Return where a run of mixed groups starts, and the order of its items."""
        number, found = self._last  # replaced as a whole, so threads may share it
        if number != run or found is None:
            ends = self._order.mixed
            start = int(ends[run - 1]) if run else 0
            found = start, Permutation(int(ends[run]) - start, self._key_of(f"run {run}"))
            self._last = run, found
        return found

    def _where(self, i: int) -> int:
        start, permutation = self._mixing(int(np.searchsorted(self._order.mixed, i, "right")))
        position = start + permutation.one(i - start)
        return position + int(self._order.shifts[np.searchsorted(self._order.ends, position, "right")])

    def _many(self, indices: Indices) -> IndexArray:
        wanted, order = as_array(indices), self._order
        runs = np.searchsorted(order.mixed, wanted, "right")
        found = np.empty(len(wanted), np.int64)
        for run in np.unique(runs).tolist():
            start, permutation = self._mixing(run)
            here = runs == run
            found[here] = start + permutation.many(wanted[here] - start)
        return found + order.shifts[np.searchsorted(order.ends, found, "right")]

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return *(super()._ordered(items) or ()), self._sizes, self._at_once

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return ShuffleGroups(
            sources[0], self._sizes, self._seed, self._epoch, self._at_once, self._given_name
        )

    def _arguments(self, sources: list[str]) -> list[str]:
        is_known = not isinstance(self._sizes, int) or self._sources[0]._known is not None
        groups = f"<{len(self._bounds) - 1} groups>" if is_known else f"groups of {self._sizes}"
        return [*sources, groups, *self._key_arguments()]
