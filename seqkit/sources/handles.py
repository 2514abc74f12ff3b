"""Open handles: one per process or per thread, opened when first used, never shared with a forked process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

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
            return function(self.value, *arguments)

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


class _Own:
    """The handles of one process: one for all threads, or one for each."""

    def __init__(self, shared: Handle) -> None:
        self.shared = shared
        self.local = threading.local()
        self.all = weakref.WeakSet([shared])


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

    def __init__(
        self, open_fn: Callable[[], Any], per_thread: bool = False, inheritable: bool = False
    ) -> None:
        self._open_fn = open_fn
        self._per_thread = per_thread
        self._inheritable = inheritable
        # By pid. A forked child leaves the entries of its parents alone: a thread of the parent may hold the
        # lock, and closing a handle could change the parent's file.
        self._own: dict[int, _Own] = {}

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return ``function(handle, *arguments)``."""
        own = self._own.get(os.getpid()) or self._of_new_process()
        opened = self._of_thread(own) if self._per_thread else own.shared
        return opened.call(function, *arguments)

    def close(self) -> None:
        """Close the handles of this process. The next call opens a new one."""
        own = self._own.get(os.getpid())
        for opened in list(own.all) if own else ():
            with opened.lock:
                opened.close()

    def _of_new_process(self) -> _Own:
        parents = list(self._own.values()) if self._inheritable else []
        opened = Handle(self._open_fn, self._per_thread)
        if parents:
            opened.value, opened.pid = parents[-1].shared.value, parents[-1].shared.pid
        return self._own.setdefault(os.getpid(), _Own(opened))  # one step, so two threads get the same

    def _of_thread(self, own: _Own) -> Handle:
        opened: Handle | None = getattr(own.local, "opened", None)
        if opened is None:
            opened = own.local.opened = Handle(self._open_fn, self._per_thread)
            own.all.add(opened)
        return opened

    def __reduce__(self) -> Any:
        return Handles, (self._open_fn, self._per_thread, self._inheritable)
