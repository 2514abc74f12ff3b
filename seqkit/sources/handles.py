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
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._shared: Opened | None = None
        self._local = threading.local()

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return ``function(handle, *arguments)``."""
        if self._pid != os.getpid():
            shared = self._shared
            self._reset()  # the lock may be held by a thread of the parent
            if self._inheritable:
                self._shared = shared
        if self._per_thread:
            return function(self._of_thread(), *arguments)
        with self._lock:
            if self._shared is None or self._shared.value is None:
                self._shared = self._open()
            return function(self._shared.value, *arguments)

    def _of_thread(self) -> Any:
        opened: Opened | None = getattr(self._local, "opened", None)
        if opened is None or opened.value is None:
            opened = self._local.opened = self._open()
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
