"""`Dealt` and `Deal`: the items of one of several processes, when all of them iterate the same sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any, Literal

from ...core.indices import Endless, Plan
from ...core.iteration import surviving
from ...core.lengths import UNKNOWN
from ...core.view import View
from .forwards import FailedItem, next_item, outcomes, read_forwards

__all__ = ["Deal", "Dealt", "Even"]

Even = Literal["pad", "drop"]


class Dealt(View[Any]):
    """The view that `shard` returns for a sequence without a length. Each process iterates all of it."""

    _streams = True
    _forwards: Any = None  # see `read_forwards`

    def __init__(self, source: View[Any], rank: int, world_size: int, even: Even | None, unit: int) -> None:
        super().__init__((source,), UNKNOWN)
        self._place: Any = rank, world_size, even, unit

    def _get(self, i: int) -> Any:
        return read_forwards(self, i)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not isinstance(plan, Endless):
            return super()._iter(plan)
        deal = Deal(outcomes(self._sources[0]), *self._place)
        return surviving(self, plan, partial(next_item, deal))

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ()

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        rank, *others = self._place
        return *others, *[rank] * items

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Dealt(sources[0], *self._place)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, *map(repr, self._place)]


Dealt._name = "shard"


class Deal(Iterator[Any]):
    """Iterate items in rounds of `unit`, and give those of one process. A `FailedItem` raises its error."""

    def __init__(
        self, items: Iterator[Any], rank: int, world_size: int, even: Even | None, unit: int
    ) -> None:
        self._items, self._even, self._unit = items, even, unit
        self._mine = slice(rank, None, world_size)
        self._first: list[Any] = []  # the first round, which fills up the last one
        self._round: list[Any] = []  # what is left of this process's items

    def __next__(self) -> Any:
        if not self._round:
            self._round = self._next_round()[self._mine][::-1]
        if not self._round:
            raise StopIteration
        item = self._round.pop()
        if isinstance(item, FailedItem):
            raise item.error
        return item

    def _next_round(self) -> list[Any]:
        found = list(islice(self._items, self._unit))
        if len(found) < self._unit:
            if self._even == "drop":
                return []
            if found and self._even == "pad":
                found += islice(cycle(self._first or found[:]), self._unit - len(found))
        self._first = self._first or found
        return found
