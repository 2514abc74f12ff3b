"""`Selection`: the base of views whose item i *is* an item of their source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...core.ahead import Ranges, runs
from ...core.errors import EndOfSequence
from ...core.indices import Indices, Plan, Translated
from ...core.lengths import UNKNOWN
from ...core.view import View
from .columns import Columns

__all__ = ["Selection"]


class Selection(Columns[Any]):
    """A view whose item i is item ``_where(i)`` of its source. A subclass also writes `_many`."""

    _passes_on = True

    def _where(self, i: int) -> int:
        """Return the index in the source of item `i`."""
        raise NotImplementedError

    def _many(self, indices: Indices) -> Indices:
        """Return the indices in the source of a batch of items."""
        raise NotImplementedError

    def _get(self, i: int) -> Any:
        j = self._where(i)
        try:
            return self._sources[0]._get(j)
        except EndOfSequence as end:
            if self._n is UNKNOWN:
                raise  # both sequences end
            raise IndexError(f"{self._name}: item {i} is item {j} of its source, and {end}") from None

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._sources[0]._getmany(self._many(indices))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self._sources[0]._iter(Translated(plan, self._many))

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[0]._set(self._where(i), value)

    def _ahead(self, indices: Indices, width: int) -> Iterator[Ranges]:
        return self._sources[0]._ahead(self._many(runs(indices, width, self._n)), 1)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (self._where(i),)),)
