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
from ...core.view import T_co, View
from .passes import Passes

__all__ = ["Scan", "Scanned"]


class Scan:
    """A scan of the source of a view, which finds the items of the view.

    Parameters
    ----------
    view : Scanned
    ready : deque, optional
        What a scan for the length has read for this iteration.
    """

    def __init__(self, view: Any, ready: deque[Any] | None = None) -> None:
        self.view = view
        self.ready = ready
        self.is_complete = ready is None  # False after an error: the result would lack an item

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
        return surviving(view, Endless(), view._begin(self.ready).step)


class Scanned(View[T_co]):
    """A view that must read its source to find its length and its items.

    Iterating it yields items while it scans. The length, and everything that depends on the length, needs a
    complete scan. Its result is kept in `_found`. Over a sequence without a length there is no length either:
    items are read forwards.
    """

    _length_reads = True
    _streams = True
    _found: Deferred[Any]
    _most: int | None = None  # items, if this is the head of a view
    # Not part of copies and pickles.
    _last: weakref.ref[Iteration] | None = None  # the last iteration
    _forwards: Passes | None = None  # see `read_forwards`
    _progress: Any = None  # which often cannot be pickled

    def __init__(self, sources: tuple[View[Any], ...], most: int | None = None) -> None:
        n = sources[-1]._n if is_measured(sources[-1]) else 0
        super().__init__(sources, n if isinstance(n, Unsized) and most is None else None)
        self._most = most

    def __getstate__(self) -> dict[str, Any]:
        left_out = "_last", "_forwards", "_progress"
        return {name: value for name, value in vars(self).items() if name not in left_out}

    # ---------------------------------------------------------------- hooks

    def _begin(self, ready: deque[Any] | None = None) -> Scan:
        """Return a new scan."""
        raise NotImplementedError

    def _scan(self, ready: deque[Any] | None) -> Any:
        """Scan the source and return the result. Add to `ready`, if given, what an iteration needs."""
        raise NotImplementedError

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
        if last is None or not last.waits():
            return self._scan(None)
        ready: deque[Any] = deque()
        result = self._scan(ready)
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
