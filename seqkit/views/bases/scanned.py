"""`Scanned`: the base of views that must read their source to find their length and their items."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from ...core.error_path import locate
from ...core.iteration import Progress, restarting
from ...core.lengths import Unsized, is_measured
from ...core.once import Deferred
from ...core.tracebacks import hide_frames
from ...core.view import T_co, View
from .passes import Passes

__all__ = ["END", "Scan", "Scanned"]

END = object()


class Scan:
    """A scan of the source of a view, which yields the items of the view. See `restarting`.

    A scan that reaches the end without an error offers its result to the view. The first result counts. A
    second scan that runs at the same time yields what it finds itself.

    Parameters
    ----------
    view : Scanned
    ready : deque, optional
        What a scan for the length has read for this iteration.
    """

    def __init__(self, view: Any, ready: deque[Any] | None = None) -> None:
        self.view = view
        self.ready = ready
        self.yielded = 0  # items of the view, those that failed included
        self.is_complete = True  # False after an error: the result would lack an item

    def __call__(self, progress: Progress) -> Iterator[Any]:
        try:
            while (item := self.step()) is not END:
                self.yielded += 1
                yield item
        except Exception as error:
            locate(error, self.view, self.yielded)
            self.yielded += 1
            raise
        except BaseException:
            progress.interrupted = True
            raise
        if self.is_complete and self.ready is None and not self.view._is_unsized:
            self.view._found.offer(self.result())
        progress.done = True

    def step(self) -> Any:
        """Return the next item of the view, or `END`. After an error, continue behind what failed."""
        raise NotImplementedError

    def result(self) -> Any:
        """Return the result of the scan, for `Scanned._found`."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the scan has opened."""


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
        view = self.view
        if self._items is None:
            if self.ready is None and view._found.known:
                self._items = view._iter(range(len(view)))
            else:
                self._items = restarting(view._begin(self.ready))
        try:
            yield from self._items
        except Exception as error:
            hide_frames(error)
            raise
        progress.done = True


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
        with closing(self._begin()) as scan:
            while (item := scan.step()) is not END:
                if ready is not None:
                    ready.append(item)
            return scan.result()

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
