"""What a view finds out about its source when it first has to know, once for all threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Deferred"]

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that the first thread to need it computes, while others wait.

    An error is the caller's, and the next to need the value tries again. Copies and pickles have the value
    if it is known.

    Examples
    --------
    >>> length = Deferred()
    >>> length.known, length.get(lambda: 3), length.known, length.get(lambda: 4)
    (False, 3, True, 3)
    """

    def __init__(self, *value: T) -> None:
        self._value = value
        # Again from the same thread: by code that needs the value to compute it, and must not hang.
        self._lock = threading.RLock()
        self._pid = os.getpid()

    @property
    def known(self) -> bool:
        return bool(self._value)

    def get(self, compute: Callable[[], T]) -> T:
        if not self._value:
            if self._pid != os.getpid():  # a forked child: the lock may be held by a thread that is not here
                self._lock, self._pid = threading.RLock(), os.getpid()
            with self._lock:
                if not self._value:
                    self._value = (compute(),)
        return self._value[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, self._value
