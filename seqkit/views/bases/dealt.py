"""`Dealt` and `Deal`: the items of one of several processes, when all of them iterate the same sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any, Literal

from ...core.indices import Endless, Plan
from ...core.iteration import surviving
from ...core.lengths import UNKNOWN
from ...core.view import View, in_order
from .forwards import next_item, read_forwards

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
        deal = Deal(in_order(self._sources[0]), *self._place)
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
    """Iterate items in rounds of `unit`, and give those of one process. It survives the error of an item."""

    def __init__(
        self, items: Iterator[Any], rank: int, world_size: int, even: Even | None, unit: int
    ) -> None:
        self._items, self._even, self._unit = items, even, unit
        self._mine = slice(rank, None, world_size)
        self._first: list[tuple[Any, Exception | None]] = []  # the first round, which fills up the last one
        self._round: list[tuple[Any, Exception | None]] = []  # what is left of this process's items

    def __next__(self) -> Any:
        if not self._round:
            self._round = self._next_round()[self._mine][::-1]
        if not self._round:
            raise StopIteration
        item, error = self._round.pop()
        if error is not None:
            raise error
        return item

    def _next_round(self) -> list[tuple[Any, Exception | None]]:
        """Return items, or their errors."""
        found: list[tuple[Any, Exception | None]] = []
        while len(found) < self._unit:
            try:
                found.append((next(self._items), None))
            except StopIteration:
                if found and self._even == "pad":
                    found += islice(cycle(self._first or found[:]), self._unit - len(found))
                return [] if self._even == "drop" else found
            except Exception as error:  # of an item, perhaps of another process
                found.append((None, error))
        self._first = self._first or found
        return found
