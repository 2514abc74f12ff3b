"""End a node that nobody reads any more: with its dispatcher, or at the interpreter's exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from typing import Protocol

from .signals import CtrlCHeld


class Closable(Protocol):
    def close(self) -> None: ...


class Life:
    """Closes a backend when the dispatcher, which alone holds this object, is gone.

    `weakref.finalize` would keep the backend alive, and with it the pipeline, whose functions may lead back
    to the node: neither would ever be collected.
    """

    _pid: int | None = None  # of the process that must end it

    def __init__(self, backend: Closable, lock: threading.RLock) -> None:
        self._backend = backend
        self._lock = lock
        # Not empty once nobody may read any more: finalisers and hooks at the interpreter's exit may try.
        self.over: list[object] = []
        # The callback runs before any `__del__` of the objects that are collected with this one.
        _lives[weakref.ref(self, _lives.pop)] = weakref.ref(self, self.over.append)
        self._pid = os.getpid()

    def end(self) -> None:
        if self._pid is None or self._pid != os.getpid():
            return
        with CtrlCHeld():  # Python drops a Ctrl-C in the garbage collector, and nobody would try again
            # At exit a daemon thread may still be reading: it stays where it is from now on.
            self._lock.acquire(timeout=1)
            self.over.append(True)
            self._backend.close()
            self.forget()

    def forget(self) -> None:
        """The backend is closed."""
        self._pid = None

    __del__ = end


_lives: dict[weakref.ref[Life], weakref.ref[Life]] = {}


@atexit.register
def _end_all() -> None:
    """End all that are left at the interpreter's exit: the node that was started last comes first."""
    for life in reversed(list(_lives)):
        try:
            if (alive := life()) is not None:
                alive.end()
        except BaseException:  # the others must end, too
            sys.excepthook(*sys.exc_info())
