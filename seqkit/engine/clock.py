"""The clock of an item: it stands while the item waits for a node below."""

from __future__ import annotations

import threading
from typing import Protocol


class Clock(Protocol):
    """Measures how long the item of the current thread takes."""

    def stand(self) -> None: ...
    def go_on(self) -> None: ...


class _CurrentClock(threading.local):
    clock: Clock | None = None


_local = _CurrentClock()


def set_clock(clock: Clock | None) -> None:
    """Set the clock of the items that this thread evaluates."""
    _local.clock = clock


def current_clock() -> Clock | None:
    return _local.clock
