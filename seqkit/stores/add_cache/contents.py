"""The memory of `add_cache` for several threads: an item that they request together is computed once.

Guarantees
----------
- If several threads request a missing item, the first one computes it and the others wait for the result.
- Different items are computed in parallel. The lock is only held to update the tables.
- A result is not kept if the item was dropped while it was computed.
- Two threads never wait for each other, unless an item depends on itself.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...core.errors import EvaluationError, seterr
from ..directory import ABSENT, Directory
from .memory import CacheMemory

__all__ = ["Computation", "Contents", "computing_many"]


class _Nesting(threading.local):
    many = 0


_local = _Nesting()


@contextmanager
def computing_many() -> Iterator[None]:
    """Mark this thread as computing several claimed items together. It must not wait for other threads."""
    _local.many += 1
    try:
        yield
    finally:
        _local.many -= 1


class Computation:
    """The computation of an item by one thread, for which other threads may wait."""

    __slots__ = ("_error", "_item", "_owner", "_policy", "_unfinished")

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._policy = seterr()
        self._unfinished = threading.Lock()
        self._unfinished.acquire()
        self._item: Any = ABSENT
        self._error: Exception | None = None

    def finish(self, item: Any, error: BaseException | None) -> None:
        """End the computation and wake the waiting threads, which compute an absent item themselves."""
        self._item = item
        self._error = error if isinstance(error, Exception) else None  # Ctrl-C concerns one thread only
        self._unfinished.release()

    def may_be_awaited(self) -> bool:
        """May this thread wait for the result, without a deadlock, and under the same error policy?"""
        waits = self._unfinished.locked()
        if waits and (self._owner == threading.get_ident() or _local.many):
            return False
        return self._policy == seterr()

    def wait(self) -> Any:
        """Return the item, or `ABSENT` if it must be computed again. Raise its error if it failed."""
        with self._unfinished:
            item, error = self._item, self._error
        if isinstance(error, EvaluationError):
            raise _copy_of(error) from error.__cause__
        if error is not None:
            raise error
        return item


def _copy_of(error: EvaluationError) -> EvaluationError:
    """Return a copy of an error, because each thread completes its own path to it."""
    copied = type(error).__new__(type(error))
    copied.args = error.args
    copied.__dict__.update(error.__dict__, path=())
    return copied


class Contents:
    """The items of a cache, and the items that are being computed for it.

    Parameters
    ----------
    memory : CacheMemory
    store : Directory or None
    """

    def __init__(self, memory: CacheMemory, store: Directory | None) -> None:
        self.memory = memory
        self.store = store
        self.hits = self.computed = 0  # items that were kept, and that needed the source, in this process
        self._lock = threading.RLock()  # reentrant: dropping an item may run a finaliser
        self._computations: dict[int, Computation] = {}
        _alive.add(self)

    def find(self, i: int) -> Any:
        """Return an item that is in memory, or `ABSENT`."""
        with self._lock:
            item = self.memory.get(i)
            if item is not ABSENT:
                self.hits += 1
            return item

    def holds(self, i: int, name: Any) -> bool:
        """Is the item in memory, or under its name (unless that is `ABSENT`) in the store?"""
        with self._lock:
            if i in self.memory:
                return True
        return name is not ABSENT and self.store is not None and name in self.store

    def claim(self, i: int) -> tuple[Computation, bool]:
        """Return the computation of an item, and whether this thread must do it. Then `finish` it."""
        with self._lock:
            computation = self._computations.get(i)
            if computation is not None:
                return computation, False
            computation = Computation()
            item = self.memory.get(i)
            if item is not ABSENT:  # another thread has finished it since
                computation.finish(item, None)
                return computation, False
            self._computations[i] = computation
            return computation, True

    def finish(
        self,
        computations: dict[int, Computation],
        items: dict[int, Any],
        error: BaseException | None = None,
        stored: int = 0,
    ) -> None:
        """End computations: keep the items that were not dropped, and wake the waiting threads.

        `stored` of the items were read from the store.
        """
        try:
            with self._lock:
                self.hits += stored
                self.computed += len(computations) - stored
                current = [i for i, ours in computations.items() if self._computations.get(i) is ours]
                for i in current:
                    del self._computations[i]
                for i in current:
                    if i in items:
                        self.memory.put(i, items[i])
        finally:  # a mapping of the user may raise
            for i, computation in computations.items():
                computation.finish(items.get(i, ABSENT), error)

    def put(self, i: int, item: Any) -> None:
        with self._lock:
            self.computed += 1
            self.memory.put(i, item)

    def forget(self, i: int | None) -> None:
        """Drop an item, or all items in memory, and the results of running computations."""
        with self._lock:
            if i is None:
                self._computations.clear()
                self.memory.clear()
            else:
                self._computations.pop(i, None)
                self.memory.drop(i)

    def after_fork(self) -> None:
        """Reset the state in a forked process, where the other threads do not exist."""
        interrupted, self._lock = self._lock, threading.RLock()
        self._computations = {}
        if not interrupted.acquire(blocking=False):
            self.memory.repair()


_alive: weakref.WeakSet[Contents] = weakref.WeakSet()


def _after_fork() -> None:
    for contents in list(_alive):
        contents.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
