"""`Tap`: the base of views that pass on the items of their source, and look at each read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import tee
from typing import Any

from ..core.errors import EndOfSequence
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.view import T, View

__all__ = ["END", "Tap"]

END: Any = object()  # what a read returns that finds the end of an iteration


class Tap(View[T]):
    """A view of the items of its source."""

    _passes_on = True

    @property
    def _streams(self) -> bool:
        return self._sources[0]._known is None and bool(self._sources[0]._streams)

    def _look(self, i: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        """Return ``read(*args)``: item `i`, or the items at ``args[0]`` if `i` is -1, or `END`."""
        raise NotImplementedError

    def _get(self, i: int) -> Any:
        return self._look(i, 1, self._sources[0]._get, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._look(-1, len(indices), self._sources[0]._getmany, indices)  # type: ignore[no-any-return]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        plan, of_source = tee(plan) if isinstance(plan, Iterator) else (plan, plan)
        items = self._sources[0]._iter(of_source)

        def read(i: int) -> Any:
            item = self._look(i, 1, next, items, END)
            if item is END:
                raise EndOfSequence(f"the sequence ends before index {i}")
            return item

        return surviving(self, plan, read)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[0]._set(i, value)
