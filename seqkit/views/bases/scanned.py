"""`Scanned`: the base of views that must read their source to find their length and their items."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ...core.error_path import locate
from ...core.errors import EndOfSequence, fail
from ...core.indices import UNBOUNDED, Endless, Indices, Length, Plan, Unsized
from ...core.iteration import Progress, restarting
from ...core.once import Deferred
from ...core.tracebacks import hide_frames
from ...core.view import T_co, View, is_measured
from .columns import Columns
from .passes import Passes, Stopped

__all__ = ["END", "FoundItems", "Scan", "Scanned"]

END = object()


class Scan:
    """A scan of the source of a view, which yields the items of the view. See `restarting`.

    A scan that reaches the end without an error offers its result to the view. The first result counts. Other
    iterations finish on what they find themselves.

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
        if self.is_complete and self.ready is None:
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
    complete scan. Its result is kept in `_found`. Over a sequence without a length, items are also read by
    index, as far as necessary.
    """

    _length_reads = True
    _found: Deferred[Any]
    # Not part of copies and pickles.
    _last: weakref.ref[Iteration] | None = None  # the last iteration
    _passes: Passes | None = None  # for reads by index
    _progress: Any = None  # which often cannot be pickled

    def __init__(self, sources: tuple[View[Any], ...], needs_scan: bool = True) -> None:
        n = sources[0]._n if needs_scan and is_measured(sources[0]) else 0
        super().__init__(sources, UNBOUNDED if n is UNBOUNDED else None)
        self._needs_scan = needs_scan
        self._is_unsized = isinstance(n, Unsized)

    def __getstate__(self) -> dict[str, Any]:
        left_out = "_last", "_passes", "_progress"
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

    def _part(self, scan: Any, count: int) -> View[Any]:
        """Return the view of the first `count` items, which a scan has found."""
        raise NotImplementedError

    def _first(self, count: int) -> View[Any]:
        """Return the view of the first items of the source, which a scan has read."""
        source = self._sources[0]
        return source._take(range(count)) if is_measured(source) else source.head(count)

    def _scanned(self) -> Any:
        """Return the result of a complete scan."""
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
    def _reads_on_demand(self) -> bool:
        if not self._needs_scan or self._found.known:
            return False
        return self._is_unsized or bool(self._sources[0]._reads_on_demand)

    @property
    def _streams(self) -> bool:
        return not self._found.known

    @property
    def _has_parts(self) -> bool:
        return self._found.known

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return self._parts(i) if self._found.known else ()

    def _stream(self) -> Iterator[Any]:
        if self._found.known:
            return self._iter(range(len(self)))
        iteration = Iteration(self)
        self._last = weakref.ref(iteration)
        return restarting(iteration)

    def _head(self, n: int) -> View[T_co]:
        if self._known is not None or self._found.known or not self._needs_scan:
            return super()._head(n)
        return Head(self, n)

    def _slice(self, key: slice) -> View[T_co]:
        if self._known is None and self._reads_on_demand and _is_bounded(key):
            return Head(self, key.stop)[key]
        return super()._slice(key)

    def _read(self, i: int) -> Any:
        """Return item `i`, found by iterating up to it. A larger index continues the iteration."""
        if self._passes is None:
            other = self._rebuild(self._sources)  # not this view, which would then be part of a cycle
            self._passes = Passes(partial(_outcomes, other), 0, 1)
        elif self._passes.pid != os.getpid():
            self._passes = self._passes.after_fork()
        found = self._passes.read(i)
        if isinstance(found, _Failed):
            raise found.error
        if isinstance(found, Stopped):
            if found.error is not None:
                fail(self, i, found.error)
            raise EndOfSequence(f"{self._name}: index {i} out of range for length {found.at}")
        return found


class HeadScan(Scan):
    """The first items of another scan."""

    def __init__(self, view: Head, ready: deque[Any] | None) -> None:
        super().__init__(view, ready)
        self.scan = view._source._begin()
        self.close = self.scan.close  # type: ignore[method-assign]
        self.count = 0

    def step(self) -> Any:
        if self.ready is not None:
            return self.ready.popleft() if self.ready else END
        if self.count == self.view._most:
            self.close()
            return END
        try:
            item = self.scan.step()
        except Exception:
            self.is_complete = self.scan.is_complete
            self.count += self.is_complete  # the item exists, and fails
            raise
        self.count += item is not END
        return item

    def result(self) -> View[Any]:
        return self.view._source._part(self.scan, self.count)  # type: ignore[no-any-return]


class FoundItems(Scanned[T_co], Columns[T_co]):
    """A view whose items are those of another view, which a scan finds: `_target`."""

    _target: Any  # a property

    def _length(self) -> Length:
        return self._target._n  # type: ignore[no-any-return]

    def _get(self, i: int) -> Any:
        return self._read(i) if self._reads_on_demand else self._target._get(i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return super()._getmany(indices) if self._reads_on_demand else self._target._getmany(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            return self._stream()
        return super()._iter(plan) if self._reads_on_demand else self._target._iter(plan)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._target._set(i, value)  # type: ignore[no-any-return]

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return () if self._known is UNBOUNDED else self._target._parts(i)


class Head(FoundItems[Any]):
    """The first items of a view that scans its source, which is scanned only as far as they need it."""

    _decides = ("_most",)
    _reads_on_demand = False

    def __init__(self, source: Scanned[Any], most: int) -> None:
        View.__init__(self, (source,))
        self._source = source
        self._most = most
        self._needs_scan, self._is_unsized = True, False
        self._found: Deferred[View[Any]] = Deferred()

    def _begin(self, ready: deque[Any] | None = None) -> HeadScan:
        return HeadScan(self, ready)

    def _part(self, scan: HeadScan, count: int) -> View[Any]:
        return self._source._part(scan.scan, count)

    def _head(self, n: int) -> View[Any]:
        return Head(self._source, min(n, self._most))

    @property
    def _target(self) -> View[Any]:
        return self._scanned()  # type: ignore[no-any-return]

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return sources[0].head(self._most)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, str(self._most)]


class _Failed:
    """An item that failed, in a pass for reads by index."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _outcomes(view: View[Any]) -> Iterator[Any]:
    items = view._iter(Endless())
    while True:
        try:
            outcome = next(items, END)
        except Exception as error:
            outcome = _Failed(error)
        if outcome is END:
            return
        yield outcome


def _is_bounded(key: slice) -> bool:
    """Does a slice select from the first items, up to a known one?"""
    parts = (key.start, key.stop, key.step)
    return key.stop is not None and all(part is None or part >= 0 for part in parts) and key.step != 0
