"""What several threads ask for at once is evaluated once, and kept: the memory of `add_cache`, made safe.

Guarantees
----------
- of the threads that want one missing item, the first evaluates it and the others wait for the outcome;
- different items are evaluated side by side: the lock is held for bookkeeping only;
- an outcome is not kept if the item was forgotten while it was evaluated;
- a thread that waits has promised nothing that others wait for but the items it was asked for on the way,
  so that items which do not depend on themselves never wait for each other in a circle.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import EvaluationError, seterr
from .stores import ABSENT, Directory, Memory

__all__ = ["Contents", "Flight", "holding_many"]


class _Local(threading.local):
    many = 0


_local = _Local()


@contextmanager
def holding_many() -> Iterator[None]:
    """Say that this thread has claimed several items and evaluates them together: it must not wait."""
    _local.many += 1
    try:
        yield
    finally:
        _local.many -= 1


class Flight:
    """The evaluation of an item that others may wait for."""

    __slots__ = ("_error", "_item", "_landing", "_owner", "_policy")

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._policy = seterr()
        self._landing = threading.Lock()
        self._landing.acquire()
        self._item: Any = ABSENT
        self._error: Exception | None = None

    def land(self, item: Any, error: BaseException | None) -> None:
        """Tell those who wait; with neither item nor error they must see for themselves."""
        self._item = item
        self._error = error if isinstance(error, Exception) else None  # Ctrl-C is for one thread only
        self._landing.release()

    def may_be_awaited(self) -> bool:
        """Can this thread wait without waiting for itself, and use what comes?"""
        waits = self._landing.locked()
        if waits and (self._owner == threading.get_ident() or _local.many):
            return False
        return self._policy == seterr()

    def wait(self) -> Any:
        """Return the item, or `ABSENT` if it must be evaluated again; raise the error there was."""
        with self._landing:
            item, error = self._item, self._error
        if isinstance(error, EvaluationError):
            raise _twin(error) from error.__cause__
        if error is not None:
            raise error
        return item


def _twin(error: EvaluationError) -> EvaluationError:
    """Return the same error as an object of its own: each reader completes the path to it."""
    twin = type(error).__new__(type(error))
    twin.args = error.args
    twin.__dict__.update(error.__dict__, path=())
    return twin


class Contents:
    """What a cache holds, and what is on its way there.

    Parameters
    ----------
    memory : Memory
    store : Directory or None
    """

    def __init__(self, memory: Memory, store: Directory | None) -> None:
        self.memory = memory
        self.store = store
        self._lock = threading.RLock()  # again from the same thread: by a finaliser of what is dropped
        self._flights: dict[int, Flight] = {}
        _alive.add(self)

    def find(self, i: int) -> Any:
        """Return an item that is in memory, or `ABSENT`."""
        with self._lock:
            return self.memory.get(i)

    def holds(self, i: int, name: Any) -> bool:
        """Is the item in memory, or under its name in the store?"""
        with self._lock:
            if i in self.memory:
                return True
        return self.store is not None and name in self.store

    def claim(self, i: int) -> tuple[Flight, bool]:
        """Return the evaluation of an item, and whether it is this thread's to do; then `land` it."""
        with self._lock:
            flight = self._flights.get(i)
            if flight is not None:
                return flight, False
            flight = Flight()
            item = self.memory.get(i)
            if item is not ABSENT:  # it has landed since it was looked for
                flight.land(item, None)
                return flight, False
            self._flights[i] = flight
            return flight, True

    def land(
        self, flights: dict[int, Flight], items: dict[int, Any], error: BaseException | None = None
    ) -> None:
        """End evaluations: keep the items that are not forgotten meanwhile, and hand them to who waits."""
        try:
            with self._lock:
                current = [i for i, flight in flights.items() if self._flights.get(i) is flight]
                for i in current:
                    del self._flights[i]
                for i in current:
                    if i in items:
                        self.memory.put(i, items[i])
        finally:  # a mapping of the user's may fail
            for i, flight in flights.items():
                flight.land(items.get(i, ABSENT), error)

    def put(self, i: int, item: Any) -> None:
        with self._lock:
            self.memory.put(i, item)

    def forget(self, i: int | None) -> None:
        """Forget an item, or all that are in memory, and what is on its way."""
        with self._lock:
            if i is None:
                self._flights.clear()
                self.memory.clear()
            else:
                self._flights.pop(i, None)
                self.memory.drop(i)

    def after_fork(self) -> None:
        """Become usable in a forked process, where the threads that were at work do not exist."""
        interrupted, self._lock = self._lock, threading.RLock()
        self._flights = {}
        if not interrupted.acquire(blocking=False):
            self.memory.mend()


_alive: weakref.WeakSet[Contents] = weakref.WeakSet()


def _after_fork() -> None:
    for contents in list(_alive):
        contents.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
