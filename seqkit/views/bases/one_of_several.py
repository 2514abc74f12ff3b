"""`OneOfSeveral`: the base of views whose item i *is* an item of one of several sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.errors import EndOfSequence
from ...core.indices import UNKNOWN, IndexArray, Indices, Length, Plan, Selected, as_list, each, ends
from ...core.iteration import located
from ...core.view import View
from .columns import Columns

__all__ = ["Lengths", "OneOfSeveral", "read_grouped"]

IntArray = npt.NDArray[np.int64]


class OneOfSeveral(Columns[Any]):
    """A view whose item i is item j of source w, where ``_place(i)`` is (w, j)."""

    _selects = True
    _passes_on = True

    def _place(self, i: int) -> tuple[int, int]:
        """Return the number of the source of item `i`, and the index there."""
        raise NotImplementedError

    def _places(self, indices: Indices) -> tuple[IntArray, IntArray]:
        """Return the numbers of the sources of a batch of items, and the indices there."""
        places = np.array([self._place(i) for i in as_list(indices)], np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]

    def _source(self, which: int) -> View[Any]:
        return self._sources[which]

    def _get(self, i: int) -> Any:
        which, j = self._place(i)
        return self._source(which)._get(j)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        which, local = self._places(indices)
        if which.size and (which == which[0]).all():
            return self._source(int(which[0]))._getmany(local)
        return read_grouped(which, lambda w, positions: self._source(w)._getmany(local[positions]))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not (self._reads_ahead and ends(plan)):  # a share of an endless plan may have no next item
            return View._iter(self, plan)
        turns = (self._place(i)[0] for i in each(plan))
        return self._in_turn(plan, turns, [self._share(plan, w) for w in range(len(self._sources))])

    def _share(self, plan: Plan, which: int) -> Plan:
        """Return the part of a plan that is read from one source, in the indices of that source."""

        def local(i: int) -> int | None:
            number, j = self._place(i)
            return j if number == which else None

        return Selected(plan, local)

    def _in_turn(self, plan: Plan, turns: Iterator[int], shares: Sequence[Plan]) -> Iterator[Any]:
        """Iterate each source over its share of a plan, and take each item from the source in turn."""
        items = [source._iter(share) for source, share in zip(self._sources, shares, strict=True)]
        return located(self, plan, map(next, map(items.__getitem__, turns)))

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        which, j = self._place(i)
        return self._source(which)._set(j, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        which, j = self._place(i)
        return ((self._source(which), (j,)),)


def read_grouped(places: IndexArray, read: Callable[[int, IndexArray], Sequence[Any]]) -> list[Any]:
    """Return an item for each of some places; ``read(place, positions)`` reads the items of one place.

    Places are read in the order in which they occur, so that a cache of the last place is used.

    >>> read_grouped(np.array([1, 0, 1]), lambda place, positions: [(place, i) for i in positions.tolist()])
    [(1, 0), (0, 1), (1, 2)]
    """
    items: list[Any] = [None] * len(places)
    _, first = np.unique(places, return_index=True)
    for place in places[np.sort(first)].tolist():
        positions = np.flatnonzero(places == place)
        for position, item in zip(positions.tolist(), read(place, positions), strict=True):
            items[position] = item
    return items


class Lengths:
    """The lengths of several sources, found by reading where they are unknown, as far as necessary.

    >>> from seqkit import view
    >>> from seqkit.testing import UnsizedSource
    >>> ends = Lengths((view("ab"), view(UnsizedSource("abc"))))
    >>> ends.length(0, 9), ends.length(1, 1) > 1, ends.length(1, 9), ends.length(1, 1)
    (2, True, 3, 3)
    """

    def __init__(self, sources: Sequence[View[Any]]) -> None:
        self.lengths: list[Length] = [source._n for source in sources]
        self._sources = sources
        self._reached = [0] * len(sources)  # how many items are known to exist

    def length(self, which: int, i: int) -> Length:
        """Return the length of a source, or UNKNOWN if it has an item `i`."""
        source = self._sources[which]
        if self.lengths[which] is UNKNOWN and i >= self._reached[which]:
            try:
                source._get(i)
            except EndOfSequence:
                self.lengths[which] = self._count(which)
            except Exception:
                self.reach(which, i)  # an item that fails exists
            else:
                self.reach(which, i)
        return self.lengths[which]

    def reach(self, which: int, i: int) -> None:
        """Note that a source has an item `i`."""
        self._reached[which] = max(self._reached[which], i + 1)

    def _count(self, which: int) -> int:
        n = self._reached[which]
        while True:
            try:
                self._sources[which]._get(n)
            except EndOfSequence:
                return n
            except Exception:
                pass
            n += 1
