"""`gather` (also called `take`): items picked by index. Slices are gathers over a `range`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np

from ..errors import EndOfSequence
from ..indices import UNKNOWN, IndexArray, Indices, Length, Plan, Translated, Unsized, as_index_map, select
from ..source import as_view
from ..view import Indexable, T, View

__all__ = ["Gather", "gather", "take"]


def gather(sequence: Indexable[T], indexes: Iterable[SupportsIndex]) -> View[T]:
    """Return the view of the items of a sequence at `indexes`, in that order.

    Item ``i`` is ``sequence[indexes[i]]``; nothing is read until it is asked for.

    Parameters
    ----------
    sequence : View or indexable
        Where the items come from, of length n.
    indexes : range, integer array, list or iterable of int
        Positions in ``[-n, n)``, repeats allowed. Arrays are not copied: do not change them afterwards. A
        boolean array of length n selects the positions that are true.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or `indexes` are no ints.
    IndexError
        For a mask of the wrong length; for an index outside ``[-n, n)`` when that item is read.

    Notes
    -----
    One lookup more per access; gathers of gathers cost one in all. Memory: that of `indexes`, so
    ``numpy.uint32`` arrays halve it. After ``gather`` of SeqTools; known elsewhere as ``take``,
    ``Subset``, ``select``, ``sample``.

    Examples
    --------
    >>> list(gather("abcd", [3, 0, 0, -2]))
    ['d', 'a', 'a', 'c']
    >>> gather("abcd", [4])[0]
    Traceback (most recent call last):
    IndexError: gather: indexes[0] is 4, outside [-4, 4)
    """
    source = as_view(sequence, "gather")
    return source._take(as_index_map(indexes, "gather: indexes", source._n))


take = gather


class Gather(View[Any]):
    """The view behind `gather` and behind every slice.

    `_map` is a range or an integer array. A Gather lies on another one only to report an index that is
    out of range there.
    """

    def __init__(self, source: View[Any], index_map: range | IndexArray) -> None:
        super().__init__((source,), len(index_map))
        self._map = index_map

    def _index(self, i: int) -> int:
        j = int(self._map[i])
        n = self._sources[0]._n
        if not 0 <= j < n:
            least = 0 if isinstance(n, Unsized) else -n
            raise IndexError(f"gather: indexes[{i}] is {j}, outside [{least}, {n})")
        return j

    def _indices(self, block: Indices) -> range | IndexArray:
        return select(self._map, block)

    @cached_property
    def _readable(self) -> bool:
        """Is every index known to be in range?  Where not, only the items concerned may fail."""
        n = self._sources[0]._n
        return n is not UNKNOWN and _within(self._map, n)

    def _get(self, i: int) -> Any:
        try:
            return self._sources[0]._get(self._index(i))
        except EndOfSequence as end:
            raise IndexError(f"gather: indexes[{i}] is {self._map[i]}, and {end}") from None

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if not self._readable:
            return super()._getmany(indices)
        return self._sources[0]._getmany(self._indices(indices))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._readable:
            return super()._iter(plan)
        if isinstance(plan, range) and isinstance(self._map, range):
            return self._sources[0]._iter(self._indices(plan))
        return self._sources[0]._iter(Translated(plan, self._indices))

    def _take(self, indices: range | IndexArray) -> View[Any]:
        if _within(indices, len(self._map)):
            return self._sources[0]._take(self._indices(indices))
        return Gather(self, indices)

    def _check_settable(self, i: int) -> None:
        self._index(i)  # raises if it is out of range
        super()._check_settable(i)

    def _set(self, i: int, value: Any) -> None:
        self._sources[0]._set(self._index(i), value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        j = int(self._map[i])
        return ((self._sources[0], (j,)),) if 0 <= j < self._sources[0]._n else ()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Gather(sources[0], self._map)

    def _arguments(self, sources: list[str]) -> list[str]:
        if isinstance(self._map, range):
            return [*sources, repr(self._map)]
        return [*sources, f"<{len(self._map)} indices>"]


View._gather = staticmethod(Gather)


def _ends(index_map: range | IndexArray) -> tuple[int, int]:
    if isinstance(index_map, range):
        return index_map[0], index_map[-1]
    return int(np.min(index_map)), int(np.max(index_map))


def _within(index_map: range | IndexArray, n: Length) -> bool:
    return not len(index_map) or (min(_ends(index_map)) >= 0 and max(_ends(index_map)) < n)
