"""`OneOfSeveral`: the base of views whose item i *is* an item of one of several sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ahead import Ranges, runs
from ...core.indices import IndexArray, Indices, Plan, Selected, as_list, each, ends
from ...core.iteration import located
from ...core.lengths import UNKNOWN
from ...core.view import View
from .columns import Columns, Rows
from .forwards import read_forwards
from .passes import Passes

__all__ = ["OneOfSeveral", "read_grouped"]


class OneOfSeveral(Columns[Any]):
    """A view whose item i is item j of source w, where ``_place(i)`` is (w, j).

    With an unknown length it is only iterated. A subclass then handles the plan `Endless`.
    """

    _passes_on = True
    _forwards: Passes | None = None  # see `read_forwards`

    def _place(self, i: int) -> tuple[int, int]:
        """Return the number of the source of item `i`, and the index there."""
        raise NotImplementedError

    def _places(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
        """Return the numbers of the sources of a batch of items, and the indices there."""
        places = np.array([self._place(i) for i in as_list(indices)], np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]

    def _source(self, which: int) -> View[Any]:
        return self._sources[which]

    def _get(self, i: int) -> Any:
        if self._n is UNKNOWN:
            return read_forwards(self, i)
        which, j = self._place(i)
        return self._source(which)._get(j)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if self._n is UNKNOWN:
            return super()._getmany(indices)
        which, local = self._places(indices)
        return read_grouped(which, lambda w, positions: self._source(w)._getmany(local[positions]))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        # A share of an endless plan may have no next item.
        if not (self._reads_ahead and ends(plan)) or self._n is UNKNOWN:
            return super()._iter(plan)
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

    def _ahead(self, indices: Indices, width: int) -> Iterator[Ranges]:
        if self._n is not UNKNOWN:
            which, local = self._places(runs(indices, width, self._n))
            for number in np.unique(which).tolist():
                yield from self._source(number)._ahead(local[which == number], 1)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        if self._n is UNKNOWN:
            raise TypeError(f"{self._name}: assignment needs sequences with a length: {UNKNOWN.reason}")
        which, j = self._place(i)
        return self._source(which)._set(j, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        if self._n is UNKNOWN:
            return ()
        which, j = self._place(i)
        return ((self._source(which), (j,)),)


def read_grouped(places: IndexArray, read: Callable[[int, IndexArray], Sequence[Any]]) -> Sequence[Any]:
    """Return an item for each of some places; ``read(place, positions)`` reads the items of one place.

    Places are read in the order in which they occur, so that a cache of the last place is used.

    >>> read_grouped(np.array([1, 0, 1]), lambda place, positions: [(place, i) for i in positions.tolist()])
    [(1, 0), (0, 1), (1, 2)]
    """
    n = len(places)
    if n and (places == places[0]).all():
        return read(int(places[0]), np.arange(n))
    _, first = np.unique(places, return_index=True)
    positions = [np.flatnonzero(places == place) for place in places[np.sort(first)]]
    parts = [read(int(places[at[0]]), at) for at in positions]
    tables = [part.columns for part in parts if isinstance(part, Rows) and part.columns]
    names = {tuple(table) for table in tables}
    if len(tables) < len(parts) or len(names) != 1:
        return _placed(positions, parts)
    return Rows({name: _placed(positions, [table[name] for table in tables]) for name in names.pop()}, n)


def _placed(positions: Sequence[IndexArray], parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the items of some parts, each at its positions."""
    placed: list[Any] = [None] * sum(map(len, positions))
    for at, items in zip(positions, parts, strict=True):
        for position, item in zip(at.tolist(), items, strict=True):
            placed[position] = item
    return placed
