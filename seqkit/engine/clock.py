"""The clock of an item: it stands while the item waits for a node below."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Clock(Protocol):
    """Measures how long an item takes. It stands in a ``with`` block."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...


# The clock of the item that is computed here, if there is one.
current_clock: ContextVar[Clock | None] = ContextVar("seqkit.clock", default=None)
