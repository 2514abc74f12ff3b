"""`Deferred`: a value that a view computes when it is first needed, once for all threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Deferred"]

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that the first thread to need it computes, while other threads wait.

    If the computation fails, the error is raised, and the next call tries again. A value may also be offered
    by others. The first value counts. Copies and pickles contain the value if it is known.

    Examples
    --------
    >>> length = Deferred()
    >>> length.known, length.get(lambda: 3), length.known, length.get(lambda: 4)
    (False, 3, True, 3)
    """

    def __init__(self, *value: T) -> None:
        self._values = list(value)  # the first one counts, which needs no lock
        # Reentrant, so that a computation that needs its own value fails and does not hang.
        self._lock = threading.RLock()
        self._pid = os.getpid()

    @property
    def known(self) -> bool:
        return bool(self._values)

    def offer(self, value: T) -> None:
        """Keep a value, unless there is one."""
        self._values.append(value)
        del self._values[1:]

    def get(self, compute: Callable[[], T]) -> T:
        if not self._values:
            if self._pid != os.getpid():  # a forked child: the thread that held the lock does not exist
                self._lock, self._pid = threading.RLock(), os.getpid()
            with self._lock:
                if not self._values:
                    self.offer(compute())
        return self._values[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, tuple(self._values[:1])
