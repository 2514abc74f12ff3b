"""Open handles: one per process or per thread, opened when first used, never shared with a forked process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ..context import close_with_worker, in_process_worker

__all__ = ["Handles"]

R = TypeVar("R")

# Handles that a forked process inherited. They belong to the parent: closing one here could change its file.
_inherited: list[Any] = []


class Opened:
    """A handle of this process. Closing it in a forked process does nothing."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._pid = os.getpid()

    def close(self) -> None:
        value, self.value = self.value, None
        if value is not None and self._pid != os.getpid():
            _inherited.append(value)
        elif callable(close := getattr(value, "close", None)):
            with suppress(Exception):  # sqlite3 refuses to close in another thread
                close()

    __del__ = close


class _Own:
    """The handles of one process: one for all threads, or one for each."""

    def __init__(self, shared: Opened | None) -> None:
        self.lock = threading.RLock()
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

    Examples
    --------
    >>> handles = Handles(lambda: print("open") or [3, 4])
    >>> handles.call(sum), handles.call(len)
    open
    (7, 2)
    """

    opens_its_own = True  # a forked process does not use the handles of its parent

    def __init__(
        self, open_fn: Callable[[], Any], per_thread: bool = False, inheritable: bool = False
    ) -> None:
        self._open_fn = open_fn
        self._per_thread = per_thread
        self._inheritable = inheritable
        # By pid. A forked child leaves the entries of its parents alone: a thread of the parent may hold the
        # lock, and closing a handle could change the parent's file.
        self._own: dict[int, _Own] = {}

    def _of_new_process(self) -> _Own:
        parents = list(self._own.values()) if self._inheritable else []
        shared = parents[-1].shared if parents else None
        return self._own.setdefault(os.getpid(), _Own(shared))  # one step, so two threads get the same

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return ``function(handle, *arguments)``."""
        own = self._own.get(os.getpid()) or self._of_new_process()
        if self._per_thread:
            return function(self._of_thread(own), *arguments)
        with own.lock:
            if own.shared is None or own.shared.value is None:
                own.shared = self._open()
            return function(own.shared.value, *arguments)

    def _of_thread(self, own: _Own) -> Any:
        opened: Opened | None = getattr(own.local, "opened", None)
        if opened is None or opened.value is None:
            opened = own.local.opened = self._open()
        return opened.value

    def _open(self) -> Opened:
        opened = Opened(self._open_fn())
        if opened.value is None:
            raise TypeError("per_process: open_fn returned None. Return the opened object.")
        # A handle that threads share outlives the worker thread that opened it.
        if self._per_thread or in_process_worker():
            close_with_worker(opened)
        return opened

    def __reduce__(self) -> Any:
        return Handles, (self._open_fn, self._per_thread, self._inheritable)
