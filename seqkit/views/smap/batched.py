"""The view of `smap` for a function of many items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ...core.adapters import as_results
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
        return self._checked(indices, self._apply(indices, self._columns(indices)))

    def _apply(self, indices: Indices, columns: list[Sequence[Any]]) -> Any:
        try:
            return self._f(*columns)
        except Exception as error:
            self._fail(indices, error)

    def _checked(self, indices: Indices, results: Any) -> Sequence[Any]:
        try:
            return as_results(results, len(indices), name_of(self._f))
        except Exception as error:
            self._fail(indices, error)

    def _fail(self, indices: Indices, error: Exception) -> NoReturn:
        many = f"mapping {len(indices)} items at once" if len(indices) > 1 else ""
        fail(self, as_list(indices)[0], error, many)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Map blocks of items. If the function fails for a block, map its items one by one."""
        if self._n is UNKNOWN or self._by_index:
            return super()._iter(plan)
        cursor, size, single = Cursor(plan), 32, 0
        items: Iterator[Any] = iter(())
        ahead = [source._iter(plan) for source in self._sources] if self._reads_ahead else None

        def read(i: int) -> Any:
            nonlocal size, items, single
            for item in items:
                return item
            if single:
                single -= 1
                return self._get(i)
            block, size = cursor.take(size), self.BLOCK
            single = len(block) - 1  # unless the function succeeds
            try:
                results = self._apply(block, self._columns(block) if ahead is None else _drawn(block, ahead))
            except Exception:
                return self._get(i)
            items, single = iter(self._checked(block, results)), 0
            return next(items)

        return surviving(self, plan, read)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return BatchedSmap(self._f, sources, self._zip)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._f,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._f), *sources, "batched=True"]


BatchedSmap._name = "smap"


def _drawn(block: Indices, ahead: list[Iterator[Any]]) -> list[Sequence[Any]]:
    """Return the next items of iterators over the sources, where those read ahead."""
    failed: dict[int, Exception] = {}
    columns: list[Sequence[Any]] = [draw(items, 0, len(block), failed) for items in ahead]
    if failed:
        raise first_error(failed)
    return columns
