"""`uniter`: an iterable with an index."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

from ..checks import optional_int, positive_int
from ..context import close_with_worker
from ..errors import EndOfSequence, fail, summary
from ..indices import UNKNOWN, Endless, Indices, Length, Plan, as_list
from ..iteration import Progress, restarting
from ..view import T, View, in_order, name_of

__all__ = ["Uniter", "uniter"]


def uniter(
    iterable: Iterable[T] | Callable[[], Iterable[T]],
    cache_size: int = 0,
    n_parallel: int = 1,
    size: int | None = None,
) -> View[T]:
    """Return the view of the items of an iterable, which is iterated as far as the index says.

    An index ahead of the last one goes on from there, one behind it starts a new pass from the beginning.

    Parameters
    ----------
    iterable : iterable or callable
        What gives the same items each time it is iterated, or a function that returns an iterator of them,
        such as a generator function. A one-shot iterator can be read forwards only.
    cache_size : int
        How many items to keep, those drawn last, at least 0: so far back an index costs nothing.
    n_parallel : int
        Most passes to keep open side by side, at least 1: one for each place that is read in turn. A pass is
        opened when an index lies before all others; the one used longest ago makes room for it.
    size : int, optional
        How many items there are, at least 0. None (the default) asks ``len(iterable)``; where there is none
        either, the view has no length, and ends where the iterable does.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `iterable` is neither of the two, or a number is no int.
    ValueError
        If a number is too small.

    Notes
    -----
    Forwards, as many items as were skipped, per access; backwards, as many as lie before it. A batch of
    indices is read in ascending order, and iteration is a pass of its own. One thread reads at a time.
    Iterators are closed when they are done with. After ``uniter`` of SeqTools.

    Examples
    --------
    >>> def squares():
    ...     for x in range(1000):
    ...         yield x * x
    >>> view = uniter(squares, size=1000)
    >>> view[30], view[31], view[-1], list(view[:3])
    (900, 961, 998001, [0, 1, 4])
    """
    if not isinstance(iterable, Iterable) and not callable(iterable):
        raise TypeError(
            f"uniter: iterable must be iterable, or a function that returns an iterator, got {iterable!r}"
        )
    cache_size = positive_int(cache_size, "uniter: cache_size", least=0)
    n_parallel = positive_int(n_parallel, "uniter: n_parallel")
    size = optional_int(size, "uniter: size", least=0)
    return Uniter(_Passes(iterable, cache_size, n_parallel), _length(iterable) if size is None else size)


def _length(iterable: Any) -> Length:
    try:
        return len(iterable)
    except TypeError:
        return UNKNOWN


class Uniter(View[Any]):
    """The view behind `uniter`."""

    def __init__(self, passes: _Passes, n: Length) -> None:
        super().__init__((), n)
        self._passes = passes

    def _get(self, i: int) -> Any:
        found = self._own().read(i)
        if isinstance(found, _Stopped):
            self._refuse(i, found)
        return found

    def _own(self) -> _Passes:
        """Return the passes, which are this process's own."""
        if self._passes.pid != os.getpid():
            self._passes = self._passes.after_fork()
        return self._passes

    def _refuse(self, i: int, stopped: _Stopped) -> NoReturn:
        """Raise the reason why there is no item `i`."""
        at, error = stopped.at, stopped.error
        if error is not None and not (stopped.again and self._n is UNKNOWN):
            fail(self, i, error, f"at item {at}" if at < i else "")
        if self._n is UNKNOWN:
            why = f", for item {at} fails: {summary(error)}" if error is not None else ""
            raise EndOfSequence(f"the sequence ends before index {i}{why}") from error
        fail(self, i, IndexError(f"the iterable has ended after {at} items"))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted = as_list(indices)
        found = {i: self._get(i) for i in sorted(set(wanted))}  # forwards, whatever the order
        return [found[i] for i in wanted]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._passes.one_shot:
            if isinstance(plan, Endless):
                return self._stream(None)
            if isinstance(plan, range) and plan and plan.start == 0 and plan.step == 1:
                return self._stream(len(plan))
        return super()._iter(plan)

    def _stream(self, stop: int | None) -> Iterator[Any]:
        """Iterate in a pass of its own; after an error in a new one, for who knows where the old one is?"""
        position, broken = 0, -1

        def run(progress: Progress) -> Iterator[Any]:
            nonlocal position, broken
            if stop is not None and position >= stop:
                progress.done = True
                return
            drawn = 0
            try:
                with closing(self._own().start()) as current:
                    for item in islice(current.items, stop):
                        drawn += 1
                        if drawn > position:
                            position = drawn
                            if drawn == stop != self._n:
                                self._own().leave_open(current, drawn)
                            yield item
            except BaseException as error:
                progress.done = self._n is UNKNOWN and drawn == broken
                i, position, broken = position, position + 1, drawn
                if not isinstance(error, Exception):
                    raise
                if progress.done:  # it fails there for good, and this was said: nothing lies behind
                    return
                self._refuse(i, _Stopped(drawn, error))
            if self._n is not UNKNOWN and stop is not None and position < stop:
                i, position = position, position + 1
                self._refuse(i, _Stopped(drawn, None))
            progress.done = True

        return restarting(run)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def _arguments(self, sources: list[str]) -> list[str]:
        iterable, passes = self._passes.iterable, self._passes
        name = f"<{type(iterable).__name__}>" if isinstance(iterable, Iterable) else None
        return [
            name or name_of(iterable),
            *[f"cache_size={passes.cache_size}"] * (passes.cache_size > 0),
            *[f"n_parallel={passes.n_parallel}"] * (passes.n_parallel > 1),
        ]


_END = object()


@dataclass(frozen=True)
class _Stopped:
    """Why a pass gave no further item: an error at item `at`, or with None the end after `at` items.

    `again` says that it is what was said before: the iterable fails there, and nothing behind can be reached.
    """

    at: int
    error: Exception | None
    again: bool = False


class _Pass:
    """One pass over an iterable; `position` is the index of the item that comes next."""

    def __init__(self, items: Iterator[Any], position: int = 0, ours: bool = True) -> None:
        self.items = items
        self.position = position
        self._ours = ours

    def close(self) -> None:
        items, self.items = self.items, iter(())
        if self._ours and hasattr(items, "close"):
            try:
                items.close()
            except Exception:
                pass  # the items that it gave are good all the same

    def __del__(self) -> None:
        self.close()


class _Passes:
    """The passes that are open over an iterable, in the order of their last use, and the items kept.

    Shallow copies of a view share them, for a one-shot iterator stands at one place only; other copies
    begin without.
    """

    def __init__(self, iterable: Any, cache_size: int, n_parallel: int, position: int = 0) -> None:
        self.iterable = iterable
        self.cache_size = cache_size
        self.n_parallel = n_parallel
        self.one_shot = isinstance(iterable, Iterator)
        self.pid = os.getpid()
        self._lock = threading.RLock()
        self._open = [_Pass(iterable, position, ours=False)] if self.one_shot else []
        self._kept: dict[int, Any] = {}
        self._broken = -1  # where the last pass failed, until one gets beyond
        self._inherited: _Passes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        position = self._open[0].position if self.one_shot and self._open else 0
        return _Passes, (self.iterable, self.cache_size, self.n_parallel, position)

    def after_fork(self) -> _Passes:
        """Return passes for the process that this one became: copied iterators may share files."""
        fresh = _Passes(self.iterable, self.cache_size, self.n_parallel)
        fresh._open.clear()
        fresh._inherited = self  # never closed here, which might be felt where they come from
        return fresh

    def start(self) -> _Pass:
        """Begin a pass, which belongs to the caller."""
        iterable = self.iterable
        items = in_order(iterable if isinstance(iterable, Iterable) else iterable())
        return _Pass(items, ours=items is not iterable)

    def leave_open(self, current: _Pass, position: int) -> None:
        """Let whoever reads on by index have a pass that stopped on its way, if there is room for it."""
        with self._lock:
            if len(self._open) < self.n_parallel:
                self._open.append(_Pass(current.items, position))
                current.items = iter(())
                close_with_worker(self)

    def read(self, i: int) -> Any:
        """Return item `i`, or a `_Stopped`."""
        with self._lock:
            if i in self._kept:
                return self._kept[i]
            try:
                current = self._nearest(i)
            except Exception as error:
                return self._failed(i, i if self.one_shot else 0, error)
            item = None
            try:
                while current.position <= i:
                    item = next(current.items, _END)
                    if item is _END:
                        current.close()
                        return _Stopped(current.position, None)
                    self._keep(current.position, item)
                    current.position += 1
            except BaseException as error:
                at = self._lose(current)
                if isinstance(error, Exception):
                    return self._failed(i, at, error)
                raise
            if current.position > self._broken:
                self._broken = -1
            return item

    def _failed(self, i: int, at: int, error: Exception) -> _Stopped:
        again, self._broken = at == self._broken and at < i, at
        return _Stopped(at, error, again)

    def _nearest(self, i: int) -> _Pass:
        """Return the pass that stands nearest before item `i`, or a new one, as the one used last."""
        if self._open and self._open[-1].position == i:
            return self._open[-1]
        behind = [one for one in self._open if one.position <= i]
        if not behind and self.one_shot:
            raise RuntimeError(self._why_not_again(i))
        if behind:
            nearest = max(behind, key=lambda one: one.position)
            self._open.remove(nearest)
        else:
            if len(self._open) == self.n_parallel:
                self._open.pop(0).close()
            nearest = self.start()
            close_with_worker(self)
        self._open.append(nearest)
        return nearest

    def close(self) -> None:
        """Close the passes that are open, at the end of a worker; an index begins another one."""
        with self._lock:
            while self._open and not self.one_shot:
                self._open.pop().close()

    def _why_not_again(self, i: int) -> str:
        if self._open:
            return (
                f"the iterator has passed item {i} and cannot begin again: read it forwards, keep more items"
                " (cache_size), or give something that can be iterated again"
            )
        return "the iterator belongs to the process that this one was forked from"

    def _keep(self, i: int, item: Any) -> None:
        if self.cache_size:
            self._kept.pop(i, None)
            self._kept[i] = item
            if len(self._kept) > self.cache_size:
                del self._kept[next(iter(self._kept))]

    def _lose(self, failed: _Pass) -> int:
        """Give up a pass that raised, for nobody knows where it stands; return at which item it did."""
        at = failed.position
        if self.one_shot:
            failed.position += 1  # there is no other: the item is lost
        else:
            failed.close()
            self._open.remove(failed)
        return at
