"""`Passes`: the open iterators of `uniter`, and the items that it keeps."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from ...core.iteration import is_one_shot
from ...core.set_epoch import listeners, tell
from ...core.view import in_order
from ...core.worker import close_with_worker

__all__ = ["Passes", "Stopped"]

_END = object()


class Stopped(NamedTuple):
    """The reason why a pass has no further item: an error at item `at`, or with None the end after `at`
    items.

    `again` is true if the pass before failed at the same item. Later items then cannot be read.
    """

    at: int
    error: Exception | None
    again: bool = False


class _Pass:
    """One pass over an iterable. `position` is the index of its next item."""

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
                pass  # the items read so far are valid

    def __del__(self) -> None:
        self.close()


class Passes:
    """The open passes over an iterable, in the order of their last use, and the kept items.

    Shallow copies of a view share them, because a one-shot iterator has only one position. Other copies start
    without open passes. With an `epoch`, `set_epoch` of the iterable is called before every pass.
    """

    def __init__(
        self,
        iterable: Any,
        cache_size: int,
        n_parallel: int,
        position: int = 0,
        epoch: int | None = None,
    ) -> None:
        self.iterable = iterable
        self.cache_size = cache_size
        self.n_parallel = n_parallel
        self.epoch = epoch
        self.one_shot = is_one_shot(iterable)
        self.pid = os.getpid()
        self._lock = threading.RLock()
        self._open = [_Pass(iterable, position, ours=False)] if self.one_shot else []
        self._kept: dict[int, Any] = {}
        self._broken, self._has_begun = -1, False  # where the last pass failed, until a pass gets further
        self._inherited: Passes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        position = self._open[0].position if self.one_shot and self._open else 0
        return Passes, (
            self.iterable,
            self.cache_size,
            self.n_parallel,
            position,
            self.epoch,
        )

    def after_fork(self) -> Passes:
        """Return new passes for a forked process, because copied iterators may share open files."""
        fresh = self.at_epoch(self.epoch)
        fresh._open.clear()
        fresh._has_begun = self._has_begun
        fresh._inherited = self  # kept, because closing them here could affect the parent process
        return fresh

    def at_epoch(self, epoch: int | None) -> Passes:
        """Return new passes over the same iterable, for an epoch."""
        return Passes(self.iterable, self.cache_size, self.n_parallel, 0, epoch)

    def start(self) -> _Pass:
        """Start a new pass, which the caller must close."""
        iterable = self.iterable
        if self.epoch is not None:
            tell(listeners(iterable), self.epoch)
        items = in_order(iterable if isinstance(iterable, Iterable) else iterable())
        if items is iterable:  # its class says whether it begins again, and its first item shows it
            first = list(islice(items, 1))
            if self._has_begun and not first:
                raise RuntimeError("the iterator does not begin again. Pass a function that returns one")
            items, self._has_begun = chain(first, map(next, repeat(items))), True
        return _Pass(items)

    def read(self, i: int) -> Any:
        """Return item `i`, or a `Stopped`."""
        with self._lock:
            if i in self._kept:
                return self._kept[i]
            return self._read(i)

    def _read(self, i: int) -> Any:
        """Return item `i`, or a `Stopped`. The lock is held."""
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
                    return Stopped(current.position, None)
                self._keep(current.position, item)
                current.position += 1
        except BaseException as error:
            at = self._drop(current)
            if isinstance(error, Exception):
                return self._failed(i, at, error)
            raise
        if current.position > self._broken:
            self._broken = -1
        return item

    def _failed(self, i: int, at: int, error: Exception) -> Stopped:
        again, self._broken = at == self._broken and at < i, at
        return Stopped(at, error, again)

    def _nearest(self, i: int) -> _Pass:
        """Return the pass with the nearest position up to `i`, or a new pass."""
        if self._open and self._open[-1].position == i:
            return self._open[-1]
        behind = [one for one in self._open if one.position <= i]
        if not behind and self.one_shot:
            raise RuntimeError(self._cannot_restart(i))
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
        """Close the open passes, at the end of a worker. The next read starts a new pass."""
        with self._lock:
            while self._open and not self.one_shot:
                self._open.pop().close()

    def _cannot_restart(self, i: int) -> str:
        if self._open:
            return (
                f"the iterator has passed item {i} and cannot restart. Read it in order, keep more items"
                " (cache_size), or pass an object that can be iterated again"
            )
        return (
            "the iterator belongs to the process that this one was forked from. Pass a function that returns"
            " a new iterator, read with method='thread', or use DataLoader(iterator, batch_size=None,"
            " transform=f, num_workers=2), which iterates it in the main process"
        )

    def _keep(self, i: int, item: Any) -> None:
        if self.cache_size:
            self._kept.pop(i, None)
            self._kept[i] = item
            if len(self._kept) > self.cache_size:
                del self._kept[next(iter(self._kept))]

    def _drop(self, failed: _Pass) -> int:
        """Drop a pass that raised, because its position is unknown. Return the index of the failed item."""
        at = failed.position
        if self.one_shot:
            failed.position += 1  # a one-shot iterator cannot restart, so the item is lost
        else:
            failed.close()
            self._open.remove(failed)
        return at
