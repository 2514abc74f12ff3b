"""The items that a cache keeps in memory, for several threads."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Protocol

from .directory import ABSENT

__all__ = ["CacheMapping", "CacheMemory", "size_of"]


class CacheMapping(Protocol):
    """The methods that a mapping needs to hold the items of a cache. A dict has them."""

    def __contains__(self, key: Any, /) -> bool: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __delitem__(self, key: Any, /) -> None: ...


def size_of(value: Any) -> int:
    """Estimate the size of a value in bytes: the larger of `sys.getsizeof` and ``nbytes``.

    Includes the parts of tuples, lists, sets and dicts. An object that occurs twice counts once.

    >>> import numpy as np
    >>> size_of(np.zeros(1000)) >= 8000, size_of([np.zeros(1000)] * 2) < 9000
    (True, True)
    """
    total, pending, seen = 0, [value], {id(value)}
    while pending:
        value = pending.pop()
        nbytes = getattr(value, "nbytes", 0)
        total += max(sys.getsizeof(value, 64), nbytes if isinstance(nbytes, int) else 0)
        for part in _parts(value):
            if id(part) not in seen:
                seen.add(id(part))
                pending.append(part)
    return total


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, tuple | list | set | frozenset) else ()


class _Nesting(threading.local):
    depth = 0


class CacheMemory:
    """A mapping of bounded size from the indices of items to items.

    A thread that computes an item holds the lock of the item, so that other threads wait and find it.
    Different items are computed at the same time.

    Parameters
    ----------
    mapping : CacheMapping
        Holds the items. It may have some already, and may drop some by itself.
    most : int or None
        Largest number of items.
    most_bytes : int or None
        Largest number of bytes, by `size_of`. A larger item is not kept.
    refresh : bool
        Does reading an item make it the last one to be dropped?

    Attributes
    ----------
    changes : int
        Counts calls of `forget`. An item that was computed before one is not kept.

    Examples
    --------
    >>> kept = CacheMemory({}, 2, None, refresh=True)
    >>> for i in range(2): kept.put(i, str(i), kept.changes)
    >>> kept.get(0); kept.put(2, "2", kept.changes); kept.get(1) is ABSENT
    '0'
    True
    """

    def __init__(
        self, mapping: CacheMapping, most: int | None, most_bytes: int | None, refresh: bool
    ) -> None:
        self.changes = 0
        self._mapping = mapping
        self._most = sys.maxsize if most is None else most
        self._most_bytes = most_bytes
        self._refresh = refresh
        self._sizes: OrderedDict[int, int] = OrderedDict()  # the first one is dropped next
        self._nbytes = 0
        self._after_fork()
        _all.add(self)

    def _after_fork(self) -> None:
        """Make new locks: in a forked process, the threads that held the old ones do not exist."""
        self._lock = threading.RLock()  # reentrant: dropping an item may run a finaliser
        self._locks: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._nesting = _Nesting()
        self._nbytes = sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, i: int) -> bool:
        with self._lock:
            return self._most > 0 and i in self._mapping

    def begin(self, indices: Iterable[int], wait: bool) -> dict[int, Any]:
        """Return the locks of the items that this thread computes, by index, for `end`.

        With `wait`, wait for other threads that compute them. A thread that has locks of this cache already
        never waits, because the other thread may be waiting for it.
        """
        ours = {}
        self._nesting.depth += 1
        try:
            for i in indices:
                with self._lock:
                    lock = self._locks.setdefault(i, threading.RLock())
                if lock.acquire(blocking=wait and self._nesting.depth == 1):
                    ours[i] = lock
        except BaseException:  # Ctrl-C while it waits
            self.end(ours)
            raise
        return ours

    def end(self, ours: dict[int, Any]) -> None:
        """Release the locks that `begin` returned."""
        self._nesting.depth -= 1
        for lock in ours.values():
            lock.release()

    def get(self, i: int) -> Any:
        """Return an item, or `ABSENT`."""
        with self._lock:
            item = self._found(i) if self._most else ABSENT
            if item is ABSENT:
                self._nbytes -= self._sizes.pop(i, 0)
            elif i not in self._sizes:
                self._note(i, item)
            elif self._refresh:
                self._sizes.move_to_end(i)
            return item

    def _found(self, i: int) -> Any:
        try:
            if i in self._mapping:
                return self._mapping[i]
        except KeyError:  # the mapping has just dropped it
            pass
        return ABSENT

    def put(self, i: int, item: Any, changes: int) -> None:
        """Keep an item that was computed when `changes` had this value."""
        with self._lock:
            if self._most and changes == self.changes:
                self._drop(i)
                self._mapping[i] = item
                self._note(i, item)

    def _note(self, i: int, item: Any) -> None:
        """Count an item of the mapping, and drop others to make room."""
        self._sizes[i] = 0 if self._most_bytes is None else size_of(item)
        self._nbytes += self._sizes[i]
        if self._sizes[i] > (self._most_bytes or 0):
            self._drop(i)
        while len(self._sizes) > self._most or self._nbytes > (self._most_bytes or 0):
            self._drop(next(iter(self._sizes)))

    def _drop(self, i: int) -> None:
        self._nbytes -= self._sizes.pop(i, 0)
        try:
            if i in self._mapping:
                del self._mapping[i]
        except KeyError:
            pass

    def forget(self, i: int | None) -> None:
        """Drop an item, or all items: if the mapping cannot be iterated, those that were put or read here."""
        with self._lock:
            self.changes += 1
            everything = self._mapping if isinstance(self._mapping, Iterable) else self._sizes
            for each in list(everything) if i is None else [i]:
                self._drop(each)


_all: weakref.WeakSet[CacheMemory] = weakref.WeakSet()


def _after_fork() -> None:
    for kept in list(_all):
        kept._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
