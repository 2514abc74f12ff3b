"""Forks by user code: a child shares the arrays that its parent holds in slots.

Before a fork, each living backend lends its leased slots to the child until the child has ended. In the
child, each backend closes its descriptors, so that pipes report their end.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from time import monotonic
from typing import Any

from . import linux

__all__ = ["living"]

# How often to check whether a child has ended.
LOOK_S = 0.1


class _Child:
    """A process forked by user code. Its end is seen by a pipe whose other end only the child holds."""

    def __init__(self) -> None:
        ours, self.theirs = os.pipe()  # the child holds the second end as long as it lives
        self._ours = [ours]
        self._look_at = 0.0

    def has_ended(self) -> bool:
        now = monotonic()
        if self._ours and now >= self._look_at:
            self._look_at = now + LOOK_S  # limit the checks, because every job calls this method
            if linux.is_readable(self._ours[0]):
                self.close()
        return not self._ours

    def close(self) -> None:
        with suppress(IndexError):  # another thread has closed it
            os.close(self._ours.pop())

    __del__ = close


class _Forking(threading.local):
    child: _Child | None = None  # the child that this thread is about to fork


# A plain set, which is copied in one step: backends are created and closed at any time, by the garbage
# collector too.
living: set[weakref.ref[Any]] = set()
_forking = _Forking()


def _others() -> list[Any]:
    """Return the living backends, except the backend for which this thread forks a worker."""
    backends = [reference() for reference in list(living)]
    return [other for other in backends if other is not None and not other.forks_now()]


def _before_fork() -> None:
    lenders = [backend for backend in _others() if backend.has_leases()]
    if lenders:
        try:
            _forking.child = child = _Child()
            is_over = child.has_ended
        except OSError:

            def is_over() -> bool:
                return False  # without a pipe, the end of the child is not known

        for backend in lenders:
            backend.lend(is_over)


def _after_fork_in_parent() -> None:  # also runs if the fork failed: then the child counts as ended
    child, _forking.child = _forking.child, None
    if child is not None:
        os.close(child.theirs)


def _after_fork_in_child() -> None:
    child, _forking.child = _forking.child, None
    if child is not None:
        child.close()
    for backend in _others():
        backend.forget()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)
