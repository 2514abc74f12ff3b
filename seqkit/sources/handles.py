"""Open handles: one per process or per thread, opened when first used, never shared with a forked process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ..core.adapters import TableReader
from ..core.worker import close_with_worker, in_process_worker

__all__ = ["Handles"]

R = TypeVar("R")

# Handles that a forked process inherited. They belong to the parent: closing one here could change its file.
_inherited: list[Any] = []


class Handle:
    """A handle of this process, open or closed. Closing it in a forked process does nothing."""

    def __init__(self, open_fn: Callable[[], Any], with_worker: bool) -> None:
        self._open_fn = open_fn
        self._with_worker = with_worker
        self.lock = threading.RLock()
        self.value: Any = None
        self.pid = os.getpid()

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        with self.lock:
            if self.value is None:
                self._open()
            value = self.value
            if not (isinstance(value, TableReader) and value.concurrent):
                return function(value, *arguments)
        return function(value, *arguments)

    def _open(self) -> None:
        self.pid = os.getpid()
        self.value = self._open_fn()
        if self.value is None:
            raise TypeError("per_process: open_fn returned None. Return the opened object.")
        # A handle that threads share outlives the worker thread that opened it.
        if self._with_worker or in_process_worker():
            close_with_worker(self)

    def close(self) -> None:
        value, self.value = self.value, None
        if value is not None and self.pid != os.getpid():
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
        True: each thread opens its own. False: the threads of a process share one. They take turns, unless it
        is a `TableReader` that is `concurrent`.
    inheritable : bool
        True: a forked process uses the value of its parent. Only for data in memory.

    Examples
    --------
    >>> handles = Handles(lambda: print("open") or [3, 4])
    >>> handles.call(sum), handles.call(len)
    open
    (7, 2)
    """

    def __init__(
        self, open_fn: Callable[[], Any], per_thread: bool = False, inheritable: bool = False
    ) -> None:
        self.open_fn = open_fn
        self._per_thread = per_thread
        self._inheritable = inheritable
        # By pid, and by thread if each opens its own. A forked child leaves the entries of its parents alone:
        # a thread of the parent may hold the lock, and closing a handle could change the parent's file.
        self._handles: dict[tuple[int, int], Handle] = {}

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return ``function(handle, *arguments)``."""
        key = os.getpid(), threading.get_ident() if self._per_thread else 0
        return (self._handles.get(key) or self._new(key)).call(function, *arguments)

    def close(self) -> None:
        """Close the handles of this process. The next call opens a new one."""
        for (pid, _), handle in list(self._handles.items()):
            if pid == os.getpid():
                with handle.lock:
                    handle.close()

    def _new(self, key: tuple[int, int]) -> Handle:
        handle = Handle(self.open_fn, self._per_thread)
        if self._inheritable and self._handles:
            parents = list(self._handles.values())[-1]
            handle.value, handle.pid = parents.value, parents.pid
        return self._handles.setdefault(key, handle)  # one step, so two threads get the same

    def __reduce__(self) -> Any:
        return Handles, (self.open_fn, self._per_thread, self._inheritable)
