"""`GatherView`: items selected by a view of indices, each of which is read with its item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from ...core.errors import EndOfSequence, brief
from ...core.indices import UNKNOWN, Indices, Length, Plan, Unsized, as_list
from ...core.iteration import each_with, surviving
from ...core.once import cached
from ...core.plain import as_index, is_flag
from ...core.view import View, only_selects
from ..bases.columns import Columns, selected
from ..bases.decided import Decided
from ..bases.order_digest import index_facts

__all__ = ["GatherView"]


class GatherView(Columns[Any]):
    """The view that `gather` returns for a view of indices. Its second source has the indices."""

    def __init__(self, source: View[Any], order: View[Any]) -> None:
        super().__init__((source, order))

    def _length(self) -> Length:
        return self._sources[1]._n

    @property
    def _streams(self) -> bool:
        order = self._sources[1]
        return order._known is None and bool(order._streams)

    def check(self) -> None:
        """Read all indices, and raise the error of the first one that is not valid."""
        order = self._sources[1]
        if isinstance(order._n, Unsized):
            raise TypeError(
                f"gather: check=True needs indexes with a length, and there is none: {order._n.reason}"
            )
        for i, given in enumerate(order._iter(order._plan())):
            self._index(i, given)

    def _index(self, i: int, given: Any) -> Any:
        """Return the index in the source that the view of indices gives for item `i`."""
        try:
            index = as_index(given)
        except TypeError:
            hint = (
                ", a bool. Pass numpy.asarray(mask) to select by a mask."
                if is_flag(given)
                else ", not an int"
            )
            raise TypeError(f"gather: indexes[{i}] is {brief(given)}{hint}") from None
        n = self._sources[0]._n
        wrapped = index + n if index < 0 and not isinstance(n, Unsized) else index
        if not 0 <= wrapped < n:
            least = 0 if isinstance(n, Unsized) else -n
            raise IndexError(f"gather: indexes[{i}] is {index}, outside [{least}, {n})")
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
            return self._ahead(plan)
        return each_with(self, self._item, order._iter(plan), plan)

    def _ahead(self, plan: Plan) -> Iterator[Any]:
        """Let the source know which of its items will be read. The indices are read as it works ahead."""
        decided = Decided.by_items(plan, self._sources[1]._iter(plan), self._index)
        items, positions = self._sources[0]._iter(decided.ints()), count()

        def read(i: int) -> Any:
            j = decided.at(next(positions))
            if isinstance(j, Exception):
                raise j
            for item in items:
                return item
            raise IndexError(f"gather: item {i} is item {j} of its source, which ends before it")

        return surviving(self, plan, read)

    def _take(self, indices: Any) -> View[Any]:
        return type(self)(self._sources[0], self._sources[1]._take(indices))

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[0]._set(self._index(i, self._sources[1]._get(i)), value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        yield self._sources[1], (i,)
        try:
            j = self._index(i, self._sources[1]._get(i))
        except Exception:
            return  # the index failed, or is not valid
        yield self._sources[0], (j,)

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return self._parts(i) if self._is_planned else ((self._sources[1], (i,)),)

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
