"""`gather` (also called `take`): items selected by index. A slice is a gather over a `range`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, SupportsIndex

import numpy as np

from ..core.arguments import as_bool
from ..core.epoch import DRAWS, ORDER
from ..core.errors import EndOfSequence, brief
from ..core.expression import only_selects
from ..core.indices import Endless, IndexArray, Indices, Plan, as_array, as_index_map, as_list, select
from ..core.iteration import each_with, surviving
from ..core.lengths import LAST, UNKNOWN, Length, Unsized
from ..core.once import cached
from ..core.plain import as_index
from ..core.source import as_view
from ..core.view import Indexable, Ordered, T, View
from .bases.columns import Columns, selected
from .bases.decided import Decided
from .bases.order_digest import index_facts
from .bases.selection import Selection

__all__ = ["Gather", "GatherView", "gather", "take"]


def gather(sequence: Indexable[T], indexes: Iterable[SupportsIndex], *, check: bool = False) -> View[T]:
    """Return the view of the items of a sequence at `indexes`, in that order.

    Item ``i`` is ``sequence[indexes[i]]``. Nothing is read until an item is requested.

    Parameters
    ----------
    sequence : View or indexable
        Where the items come from, of length n.
    indexes : range, integer array, list, iterable of int, View or sampler
        Positions in ``[-n, n)``. They may repeat. Arrays are not copied: do not change them afterwards. A
        boolean array of length n selects the positions that are true. An index of a view or of a sampler is
        read with its item, and follows the epoch: see `View.at_epoch`.
    check : bool
        Raise now if an index is outside ``[-n, n)``; indices of a view are all read. False (the default)
        raises when that item is read.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, `indexes` are not ints, the order of a sampler is not known in
        advance, or `check` is not a bool. An item raises it if a view gives another index than an int, such
        as a bool.
    IndexError
        For a mask of the wrong length, or an index outside ``[-n, n)``.

    Notes
    -----
    One lookup per access. A gather of a gather costs one lookup in all. Memory: that of `indexes`, so
    ``numpy.uint32`` arrays halve it. A view of indices is not read at
    construction, and needs no memory. After ``gather`` of SeqTools; known elsewhere as ``take``, ``Subset``,
    ``select``, ``sample``.

    Examples
    --------
    >>> list(gather("abcd", [3, 0, 0, -2]))
    ['d', 'a', 'a', 'c']
    >>> gather("abcd", [4], check=True)
    Traceback (most recent call last):
    IndexError: gather: indexes[0] is 4, outside [-4, 4)
    >>> import seqkit as sk
    >>> letters = gather("abcd", sk.shuffle(range(4), seed=0))
    >>> "".join(letters), "".join(letters.at_epoch(1))
    ('dabc', 'acbd')
    """
    source = as_view(sequence, "gather")
    is_checked = as_bool(check, "gather: check")
    if isinstance(indexes, View | Ordered):
        selection = _by(source, indexes)
        if is_checked:
            order = selection._sources[1]
            for i, index in zip(range(len(order)), order, strict=True):
                selection._index(i, index)
        return selection
    index_map = as_index_map(indexes, "gather: indexes", lambda: source._n)
    if is_checked and not _within(index_map, source._n):
        array = as_array(index_map)
        place = int(np.flatnonzero((array < 0) | (array >= source._n))[0])
        raise _outside(place, array[place], source._n)
    return source._named(index_map)


def _by(source: View[Any], indexes: View[Any] | Ordered) -> GatherView:
    """Return the items at the indices that a view or a sampler gives."""
    order = indexes.whole_order() if isinstance(indexes, Ordered) else indexes
    if order is None:
        name = type(indexes).__name__
        raise TypeError(
            f"gather: the indices of {name} are only known when it is iterated. Make a list of them first."
        )
    return GatherView(source, order)


def _outside(i: int, index: Any, n: Length) -> IndexError:
    least = 0 if isinstance(n, Unsized) else -n
    return IndexError(f"gather: indexes[{i}] is {index}, outside [{least}, {n})")


take = gather


class Gather(Selection):
    """The view that `gather` returns, and every slice.

    `_map` is a range or an integer array. A Gather wraps another one only to report an index that is out of
    range there. With `keeps` it keeps the orders below it, otherwise it follows the epoch. With `is_open` its
    length is that of its source, which has none: it ends with the source, or with the map if that is shorter.
    """

    def __init__(
        self, source: View[Any], index_map: range | IndexArray, keeps: bool = False, is_open: bool = False
    ) -> None:
        super().__init__((source,), source._n if is_open else len(index_map))
        self._map = index_map
        self._is_open = is_open
        if keeps:
            self._keeps = True
            self._varies &= DRAWS

    def _where(self, i: int) -> int:
        try:
            j = int(self._map[i])
        except IndexError:  # of an open map
            raise EndOfSequence(f"the sequence ends before index {i}") from None
        n = self._sources[0]._n
        if not 0 <= j < n:
            raise _outside(i, j, n)
        return j

    def _many(self, indices: Indices) -> range | IndexArray:
        return select(self._map, indices)

    @cached
    def _readable(self) -> bool:
        """Is every index known to be in range? Otherwise items are read one by one, and some may fail."""
        n = self._sources[0]._n
        return self._is_rest if n is UNKNOWN else _within(self._map, n)

    @cached
    def _is_rest(self) -> bool:
        """Are these all items from one on, of a sequence without a length?"""
        return self._is_open and len(self._map) > 0 and int(self._map[-1]) == LAST

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return super()._getmany(indices) if self._readable else View._getmany(self, indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        source = self._sources[0]
        if isinstance(plan, Endless) and not self._is_rest:
            return source._iter(self._map)
        if not self._readable:
            return View._iter(self, plan)
        if isinstance(plan, range) and isinstance(self._map, range):
            return source._iter(self._many(plan))
        return super()._iter(plan)

    def _take(self, indices: range | IndexArray) -> View[Any]:
        if not _within(indices, len(self._map)):
            return Gather(self, indices)
        source, index_map = self._sources[0], self._many(indices)
        return Gather(source, index_map, keeps=True) if self._keeps else source._take(index_map)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        j = int(self._map[i]) if i < len(self._map) else -1
        return ((self._sources[0], (j,)),) if 0 <= j < self._sources[0]._n else ()

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return self._map, self._varies & ORDER

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Gather(sources[0], self._map, self._keeps, self._is_open)

    def _arguments(self, sources: list[str]) -> list[str]:
        indices = repr(self._map) if isinstance(self._map, range) else f"<{len(self._map)} indices>"
        indices = f"{self._map[0]}:" if self._is_rest else indices
        follows = ["follows the epoch"] * bool(self._varies & ORDER)
        return [*sources, indices, *follows]


class GatherView(Columns[Any]):
    """The view that `gather` returns for a view of indices. Its second source has the indices.

    The indices follow the epoch, and the orders of the first source are kept.
    """

    _streams = True
    _keeps = True

    def __init__(self, source: View[Any], order: View[Any]) -> None:
        super().__init__((source, order))
        self._varies = (source._varies & DRAWS) | order._varies

    def _length(self) -> Length:
        return self._sources[1]._n

    def _index(self, i: int, given: Any) -> Any:
        """Return the index in the source that the view of indices gives for item `i`."""
        try:
            index = as_index(given)
        except TypeError:
            raise TypeError(
                f"gather: indexes[{i}] is {brief(given)}, not an int. A mask is a list or an array of bools."
            ) from None
        n = self._sources[0]._n
        wrapped = index + n if index < 0 and not isinstance(n, Unsized) else index
        if not 0 <= wrapped < n:
            raise _outside(i, index, n)
        return int(wrapped)

    def _item(self, i: int, given: Any) -> Any:
        j = self._index(i, given)
        try:
            return self._sources[0]._get(j)
        except EndOfSequence as end:  # this view has an item i, so its end is elsewhere
            raise IndexError(f"gather: item {i} is item {j} of its source, and {end}") from None

    def _get(self, i: int) -> Any:
        return self._item(i, self._sources[1]._get(i))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if self._sources[0]._n is UNKNOWN:
            return super()._getmany(indices)
        given = self._sources[1]._getmany(indices)
        try:
            wanted = self._valid(indices, given)
        except (IndexError, TypeError):
            return super()._getmany(indices)  # the items before this index come first, and may fail too
        return self._sources[0]._getmany(wanted)

    def _valid(self, indices: Indices, given: Any) -> Indices:
        """Return the indices in the source of a batch of items."""
        if isinstance(given, np.ndarray) or {int}.issuperset(map(type, given)):
            array = np.asarray(given)
            are_ints = array.ndim == 1 and array.size and array.dtype.kind in "iu"
            if are_ints and array.min() >= 0 and array.max() < self._sources[0]._n:
                return array
        return [self._index(i, index) for i, index in zip(as_list(indices), given, strict=True)]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        source, order = self._sources
        if source._reads_ahead:
            return self._planned(plan)
        return each_with(self, self._item, order._iter(plan), plan)

    def _planned(self, plan: Plan) -> Iterator[Any]:
        """Let the source know which of its items will be read. The indices are read as it works ahead."""
        indices = self._sources[1]._iter(plan)

        def decide(i: int) -> Any:
            try:
                for given in indices:
                    return self._index(i, given)
            except Exception as error:
                return error
            return EndOfSequence(f"the sequence ends before index {i}")

        decided = Decided(plan, decide, self._members)
        items, positions = self._sources[0]._iter(decided), count()

        def read(i: int) -> Any:
            index = decided.at(next(positions))
            if isinstance(index, Exception):
                raise index
            return self._drawn(i, index, items)

        return surviving(self, plan, read)

    def _members(self, index: Any) -> Iterable[int]:
        """Return the indices in the source that an item is made of."""
        return (index,)

    def _drawn(self, i: int, index: Any, items: Iterator[Any]) -> Any:
        """Return item `i`, made of the next items of the source."""
        for item in items:
            return item
        raise IndexError(f"gather: item {i} is item {index} of its source, which ends before it")

    def _take(self, indices: Any) -> View[Any]:
        return type(self)(self._sources[0], self._sources[1]._take(indices))

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[0]._set(self._index(i, self._sources[1]._get(i)), value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        yield self._sources[1], (i,)
        if self._is_planned:
            try:
                yield self._sources[0], self._members(self._index(i, self._sources[1]._get(i)))
            except (IndexError, TypeError):
                return  # the index is not valid

    @cached
    def _is_planned(self) -> bool:
        return only_selects(self._sources[1])

    def _select(self, names: tuple[str, ...]) -> View[Any]:
        return type(self)(selected(self._sources[0], names), self._sources[1])

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return index_facts(self._sources[1])

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(*sources)


GatherView._name = "gather"


def _kept(view: View[Any], index_map: range | IndexArray) -> View[Any]:
    """Return the items at some indices of a view. They keep the orders below as they stand."""
    if isinstance(view, Gather) and _within(index_map, len(view._map)):
        return Gather(view._sources[0], view._many(index_map), keeps=True)
    return Gather(view, index_map, keeps=True)


View._gather = staticmethod(Gather)
View._keep = staticmethod(_kept)
View._gather_by = staticmethod(_by)


def _within(index_map: range | IndexArray, n: Length) -> bool:
    if not len(index_map):
        return True
    is_range = isinstance(index_map, range)
    ends = (index_map[0], index_map[-1]) if is_range else (int(np.min(index_map)), int(np.max(index_map)))
    return min(ends) >= 0 and max(ends) < n
