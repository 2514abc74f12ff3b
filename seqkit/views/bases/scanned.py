"""`Scanned`: the base of views that must read their source to find their length and their items."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

from ...core.errors import EndOfSequence
from ...core.indices import Endless
from ...core.iteration import Progress, restarting, surviving
from ...core.lengths import Unsized, is_measured
from ...core.once import Deferred
from ...core.tracebacks import hide_frames
from ...core.view import T_co, View, in_order
from .passes import Passes

__all__ = ["END", "Scan", "Scanned"]

END = object()


class Scan:
    """A scan of the source of a view, which finds the items of the view.

    A scan finds *units*, of which items are made: the items themselves in `filter`, sequences in `flatten`.

    Parameters
    ----------
    view : Scanned
    ready : deque, optional
        The units that a scan for the length has found for this iteration.
    """

    def __init__(self, view: Any, ready: deque[Any] | None = None) -> None:
        self.view = view
        self.is_complete = ready is None  # False after an error: the result would lack an item
        self._ready = ready
        self._source: Iterator[Any] | None = None

    def unit(self) -> Any:
        """Return the next unit, or `END`. After an error, continue after it."""
        if self._ready is not None:
            return self._ready.popleft() if self._ready else END
        try:
            if self._source is None:
                self._source = in_order(self.view._to_scan())
            return self.find(self._source)
        except Exception:
            self.is_complete = False
            raise

    def find(self, source: Iterator[Any]) -> Any:
        """Read the source up to the next unit, and return the unit, or `END`."""
        raise NotImplementedError

    def step(self, i: int) -> Any:
        """Return item `i` of the view, which is the next one. After an error, continue after it."""
        raise NotImplementedError

    def result(self) -> Any:
        """Return the result of the scan, for `Scanned._found`."""
        raise NotImplementedError

    def end(self, i: int) -> EndOfSequence:
        """Offer the result to the view, unless an error occurred. Return the exception for the end."""
        if self.is_complete and not self.view._is_unsized:
            self.view._found.offer(self.result())
        return EndOfSequence(f"the sequence ends before index {i}")


class Iteration:
    """An iteration of a `Scanned` view. It decides how to read when its first item is requested.

    If the program asks for the length before that, as ``list(view)`` does, the scan for the length leaves
    what it reads in `ready`, and nothing is read twice.
    """

    def __init__(self, view: Any) -> None:
        self.view = view
        self.ready: deque[Any] | None = None
        self._thread = threading.get_ident()
        self._items: Iterator[Any] | None = None

    def waits(self) -> bool:
        """Has it not begun? An iteration of another thread may begin at any time."""
        return self._items is None and self._thread == threading.get_ident()

    def __call__(self, progress: Progress) -> Iterator[Any]:
        if self._items is None:
            self._items = self._begin()
        try:
            yield from self._items
        except Exception as error:
            hide_frames(error)
            raise
        progress.done = True

    def _begin(self) -> Iterator[Any]:
        view = self.view
        if self.ready is None and view._found.known:
            return cast(Iterator[Any], view._iter(range(len(view))))
        return surviving(view, Endless(), view._scan(view, self.ready).step)


class Scanned(View[T_co]):
    """A view that must read its source to find its length and its items.

    Iterating it yields items while it scans. The length, and everything that depends on the length, needs a
    complete scan. Its result is kept in `_found`. Over a sequence without a length there is no length either:
    items are read forwards.
    """

    _length_reads = True
    _streams = True
    _scan: type[Scan]
    _found: Deferred[Any]
    _most: int | None = None  # items, if this is the head of a view
    # Not part of copies and pickles.
    _last: weakref.ref[Iteration] | None = None  # the last iteration
    _forwards: Passes | None = None  # see `read_forwards`

    def __init__(self, sources: tuple[View[Any], ...], most: int | None = None) -> None:
        n = sources[-1]._n if is_measured(sources[-1]) else 0
        super().__init__(sources, n if isinstance(n, Unsized) and most is None else None)
        self._most = most

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_last", "_forwards")}

    # ---------------------------------------------------------------- hooks

    def _to_scan(self) -> View[Any]:
        """Return the view that scans read."""
        return self._sources[-1]

    def _forget(self) -> None:
        """Forget what scans have found."""
        self._found = Deferred()

    def _first(self, most: int) -> View[T_co]:
        """Return the view of the first items, which is not scanned yet."""
        raise NotImplementedError

    def _scanned(self) -> Any:
        """Return the result of a complete scan."""
        if isinstance(n := self._known, Unsized):
            raise TypeError(f"{self._name}: a sequence without a length cannot be scanned: {n.reason}")
        return self._found.get(self._scan_all)

    def _scan_all(self) -> Any:
        last = None if self._last is None else self._last()
        ready: deque[Any] | None = deque() if last is not None and last.waits() else None
        scan = self._scan(self)
        while (unit := scan.unit()) is not END:
            if ready is not None:
                ready.append(unit)
        result = scan.result()
        if last is not None and ready is not None:
            last.ready = ready
        return result

    # ---------------------------------------------------------------- reading

    @property
    def _is_unsized(self) -> bool:
        return isinstance(self._known, Unsized)

    def _stream(self) -> Iterator[Any]:
        if self._found.known:
            return self._iter(range(len(self)))
        iteration = Iteration(self)
        self._last = weakref.ref(iteration)
        return restarting(iteration)

    def _head(self, n: int) -> View[T_co]:
        if self._found.known:
            return super()._head(n)
        return self._first(n if self._most is None else min(n, self._most))
