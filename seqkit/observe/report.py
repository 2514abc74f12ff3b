"""`Profile`: the result of `profile`, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from .diagnosis import Diagnosis, diagnose
from .measurement import Measurement
from .probe import Event, Thread
from .units import seconds

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

    @property
    def diagnosis(self) -> Diagnosis:
        """What limits the pipeline, with a number and a remedy. Print it to see one or two sentences."""
        return diagnose(self)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        width = max(len(stage.line) for stage in self.stages)
        rows = [f"{'own time':<{width}}   share     items   per item"]
        for stage in self.stages:
            each = seconds(stage.each_s) if stage.items else "-"
            share = "wait" if stage.waits else f"{stage.seconds / total:.1%}"
            rows.append(f"{stage.line:<{width}}  {share:>6}  {stage.items:>8}  {each:>9}")
        return "\n".join(rows)
