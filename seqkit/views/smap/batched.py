"""The view of `smap` for a function of many items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from ...core.errors import fail
from ...core.indices import UNKNOWN, Cursor, Indices, Plan, as_list
from ...core.iteration import draw, first_error, surviving
from ...core.view import View, name_of
from ..bases.side_by_side import SideBySide, Zip

__all__ = ["BatchedSmap"]


class BatchedSmap(SideBySide):
    """The view that `smap` returns for a function of many items."""

    BLOCK = 256  # most items that iteration maps at once

    def __init__(self, f: Callable[..., Any], sources: tuple[View[Any], ...], zip: Zip = "strict") -> None:
        super().__init__(sources, zip)
        self._f = f

    def _get(self, i: int) -> Any:
        return self._map([i])[0]

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._map(indices) if len(indices) else []

    def _map(self, indices: Indices) -> Sequence[Any]:
        return self._apply(indices, self._columns(indices))

    def _apply(self, indices: Indices, columns: list[Sequence[Any]]) -> Sequence[Any]:
        try:
            items = self._f(*columns)
            if len(items) != len(indices):
                raise ValueError(f"f returned {len(items)} items for {len(indices)}")
        except Exception as error:
            many = f"mapping {len(indices)} items at once" if len(indices) > 1 else ""
            fail(self, as_list(indices)[0], error, many)
        return cast(Sequence[Any], items)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Map blocks of items. If a block fails, map its items one by one."""
        if self._n is UNKNOWN or self._by_index:
            return super()._iter(plan)
        cursor, size, single = Cursor(plan), 32, 0
        items: Iterator[Any] = iter(())
        ahead = [source._iter(plan) for source in self._sources] if self._reads_ahead else None

        def read(i: int) -> Any:
            nonlocal size, items, single
            for item in items:
                return item
            if not single:
                block, size = cursor.take(size), self.BLOCK
                try:
                    items = iter(self._map(block) if ahead is None else self._draw(block, ahead))
                    return next(items)
                except Exception:
                    items, single = iter(()), len(block)
            single -= 1
            return self._get(i)

        return surviving(self, plan, read)

    def _draw(self, block: Indices, ahead: list[Iterator[Any]]) -> Sequence[Any]:
        """Map the next items of iterators over the sources, where those read ahead."""
        failed: dict[int, Exception] = {}
        columns: list[Sequence[Any]] = [draw(items, 0, len(block), failed) for items in ahead]
        if failed:
            raise first_error(failed)
        return self._apply(block, columns)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return BatchedSmap(self._f, sources, self._zip)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._f,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._f), *sources, "batched=True"]


BatchedSmap._name = "smap"
