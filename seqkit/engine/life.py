"""End a node that is no longer used: when its scheduler is collected, or at interpreter exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref

from ..core.worker import Closable
from .signals import CtrlCHeld


class Life:
    """Close a backend when the scheduler is gone. Only the scheduler refers to this object.

    `weakref.finalize` would keep the backend alive, and with it the pipeline. The pipeline's functions may
    refer to the node. Then neither would ever be collected.
    """

    _pid: int | None = None  # the process that must close the backend

    def __init__(self, backend: Closable, lock: threading.RLock) -> None:
        self._backend = backend
        self._lock = lock
        # Not empty when the node must not be read any more. Finalisers and exit hooks may still try.
        self.over: list[object] = []
        # The callback runs before any `__del__` of the objects that are collected together with this
        # object.
        _lives[weakref.ref(self, _lives.pop)] = weakref.ref(self, self.over.append)
        self._pid = os.getpid()

    def end(self) -> None:
        if self._pid is None or self._pid != os.getpid():
            return
        with CtrlCHeld():  # Python drops a Ctrl-C in the garbage collector, and no call would repeat this
            # At exit a daemon thread may still be reading. It stops at this lock.
            self._lock.acquire(timeout=1)
            self.over.append(True)
            self._backend.close()
            self.forget()

    def forget(self) -> None:
        """Record that the backend is closed."""
        self._pid = None

    __del__ = end


_lives: dict[weakref.ref[Life], weakref.ref[Life]] = {}


@atexit.register
def _end_all() -> None:
    """Close the backends that are left at interpreter exit. The backend that was started last comes
    first."""
    for life in reversed(list(_lives)):
        try:
            if (alive := life()) is not None:
                alive.end()
        except BaseException:  # the other backends must be closed, too
            sys.excepthook(*sys.exc_info())
