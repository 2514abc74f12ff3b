"""`Profile`: the result of `profile`, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from .measurement import Measurement
from .probe import Event, Thread

__all__ = ["Profile"]


@dataclass(frozen=True)
class Profile(Measurement):
    """What `profile` found. Its text is a table.

    Attributes
    ----------
    threads : tuple
        Each thread that read items, and its events, for the timeline.
    """

    threads: tuple[tuple[Thread, list[Event]], ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        width = max(len(stage.line) for stage in self.stages)
        rows = [f"{'own time':<{width}}   share     items   per item"]
        for stage in self.stages:
            each = _short(stage.seconds / stage.items) if stage.items else "-"
            share = "wait" if stage.waits else f"{stage.seconds / total:.1%}"
            rows.append(f"{stage.line:<{width}}  {share:>6}  {stage.items:>8}  {each:>9}")
        return "\n".join(rows)


def _short(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
