"""Open handles: one per process or per thread, opened when first used, never shared with a forked process.

Handles over files that seqkit opens are bounded: a process keeps at most `most_open` of them. The one that
was used least recently is closed, and opened again when it is needed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from ..core.worker import close_with_worker, in_process_worker

__all__ = ["Handles", "most_open"]

R = TypeVar("R")

# Handles that a forked process inherited. They belong to the parent: closing one here could change its file.
_inherited: list[Any] = []
_uses = count()


def most_open() -> int:
    """Return how many files this process keeps open: a quarter of those that the system allows, at most 256.

    >>> 8 <= most_open() <= 256
    True
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return 64
    return max(8, min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


class Handle:
    """A handle of this process, open or closed. Closing it in a forked process does nothing."""

    def __init__(self, open_fn: Callable[[], Any], is_bounded: bool, with_worker: bool) -> None:
        self._open_fn = open_fn
        self._is_bounded = is_bounded
        self._with_worker = with_worker
        self.lock = threading.RLock()
        self.value: Any = None
        self.last_use = 0
        self._pid = os.getpid()

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        with self.lock:
            if self.value is None:
                self._open()
            if self._is_bounded:
                self.last_use = next(_uses)
            return function(self.value, *arguments)

    def _open(self) -> None:
        if self._is_bounded:
            _few.setdefault(os.getpid(), _Few()).make_room_for(self)
        self._pid = os.getpid()
        self.value = self._open_fn()
        if self.value is None:
            raise TypeError("per_process: open_fn returned None. Return the opened object.")
        # A handle that threads share outlives the worker thread that opened it.
        if self._with_worker or in_process_worker():
            close_with_worker(self)

    def close(self) -> None:
        value, self.value = self.value, None
        if value is not None and self._pid != os.getpid():
            _inherited.append(value)
        elif callable(close := getattr(value, "close", None)):
            with suppress(Exception):  # sqlite3 refuses to close in another thread
                close()

    __del__ = close


class _Few:
    """The bounded handles of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: weakref.WeakSet[Handle] = weakref.WeakSet()

    def make_room_for(self, new: Handle) -> None:
        with self._lock:
            self._opened.add(new)
            others = [opened for opened in self._opened if opened.value is not None]
        excess = len(others) + 1 - most_open()
        for opened in sorted(others, key=lambda opened: opened.last_use) if excess > 0 else ():
            excess -= excess > 0 and self._close(opened)

    def _close(self, opened: Handle) -> bool:
        """Close a handle unless another thread uses it. Return True if it was open and is closed."""
        if not opened.lock.acquire(blocking=False):
            return False
        try:
            was_open = opened.value is not None
            opened.close()
            with self._lock:
                self._opened.discard(opened)
            return was_open
        finally:
            opened.lock.release()


_few: dict[int, _Few] = {}  # by pid: a forked child leaves the entries of its parents alone


class _Own:
    """The handles of one process: one for all threads, or one for each."""

    def __init__(self, shared: Handle) -> None:
        self.shared = shared
        self.local = threading.local()


class Handles:
    """The handles that `open_fn` opens. A pickle holds `open_fn` only.

    Parameters
    ----------
    open_fn : callable
        Called without arguments.
    per_thread : bool
        True: each thread opens its own. False: the threads of a process share one, and take turns.
    inheritable : bool
        True: a forked process uses the value of its parent. Only for data in memory.
    bounded : bool
        True: the handle may be closed between two calls, so that few files are open.

    Examples
    --------
    >>> handles = Handles(lambda: print("open") or [3, 4])
    >>> handles.call(sum), handles.call(len)
    open
    (7, 2)
    """

    def __init__(
        self,
        open_fn: Callable[[], Any],
        per_thread: bool = False,
        inheritable: bool = False,
        bounded: bool = False,
    ) -> None:
        self._open_fn = open_fn
        self._per_thread = per_thread
        self._inheritable = inheritable
        self._bounded = bounded
        # By pid. A forked child leaves the entries of its parents alone: a thread of the parent may hold the
        # lock, and closing a handle could change the parent's file.
        self._own: dict[int, _Own] = {}

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return ``function(handle, *arguments)``."""
        own = self._own.get(os.getpid()) or self._of_new_process()
        opened = self._of_thread(own) if self._per_thread else own.shared
        return opened.call(function, *arguments)

    def _of_new_process(self) -> _Own:
        parents = list(self._own.values()) if self._inheritable else []
        opened = self._opened()
        if parents:
            opened.value, opened._pid = parents[-1].shared.value, parents[-1].shared._pid
        return self._own.setdefault(os.getpid(), _Own(opened))  # one step, so two threads get the same

    def _of_thread(self, own: _Own) -> Handle:
        opened: Handle | None = getattr(own.local, "opened", None)
        if opened is None:
            opened = own.local.opened = self._opened()
        return opened

    def _opened(self) -> Handle:
        return Handle(self._open_fn, self._bounded, self._per_thread)

    def __reduce__(self) -> Any:
        return Handles, (self._open_fn, self._per_thread, self._inheritable, self._bounded)
