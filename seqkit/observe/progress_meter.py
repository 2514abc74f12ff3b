"""`ProgressMeter`: measures the rate of an iteration, and shows its `Status` from time to time."""

from __future__ import annotations

from time import monotonic
from typing import Any

from ..core.view import View, walk
from ..prefetch.node import Prefetch
from ..prefetch.resources import resident_bytes
from .live import Display, display_of
from .status import Status

__all__ = ["INTERVAL_S", "ProgressMeter", "meter_of"]

INTERVAL_S = 0.5
# The weight of the latest interval in the rate.
LATEST = 0.3


def meter_of(progress: Any, what: str, sequence: Any) -> ProgressMeter:
    """Return a meter for the argument `progress` of a function that takes long."""
    display = display_of(None if progress is True else progress, f"{what}: progress", what)
    return ProgressMeter(sequence, display, INTERVAL_S)


class ProgressMeter:
    """Measures the rate of an iteration.

    Attributes
    ----------
    done, total : int, and int or None
        Number of items so far, and of all items.
    has_consumer : bool
        Whether somebody waits for the items.
    waited_s : float
        How long the consumer has waited since the last `show`.
    due_s : float
        When the next status is due, in seconds of `clock`.
    status : Status or None
        The latest status.
    """

    clock = staticmethod(monotonic)

    def __init__(self, sequence: Any, display: Display, every_s: float) -> None:
        self.done = 0
        self.total: int | None = None
        self.has_consumer = False
        self.waited_s = 0.0
        self.status: Status | None = None
        self._sequence = sequence
        self._display = display
        self._every_s = every_s
        self._rate, self._shown, self._worked_ns = 0.0, 0, 0
        self._begun = self._since = self.clock()
        self.due_s = self._begun + every_s
        self._of_nodes: dict[str, Any] = {}  # the latest figures, which stay when the workers have ended

    def report(self, done: int, total: int | None) -> None:
        """Record how many items are done. The first call says how many were done before."""
        if self.total is None and not self.done:
            self.begin_at(done)
        self.done, self.total = done, total
        now = self.clock()
        if now >= self.due_s:
            self.show(now)

    def begin_at(self, done: int) -> None:
        """Record how many items were done before. They do not count for the rate."""
        self.done = self._shown = done

    def show(self, now: float) -> None:
        """Show the status."""
        taken_s = max(now - self._since, 1e-9)
        lately = (self.done - self._shown) / taken_s
        self._rate = lately if not self._rate else LATEST * lately + (1 - LATEST) * self._rate
        left = None if self.total is None or not self._rate else (self.total - self.done) / self._rate
        waited = min(1.0, self.waited_s / taken_s) if self.has_consumer else None
        if nodes := _running(self._sequence):
            self._look_at(nodes, taken_s)
        seconds = now - self._begun
        self.status = Status(
            self.done, self.total, seconds, self._rate, left, waited, resident_bytes(), **self._of_nodes
        )
        self._display.show(self.status)
        self._since, self._shown = now, self.done
        self.due_s, self.waited_s = now + self._every_s, 0.0

    def _look_at(self, nodes: list[Prefetch[Any]], taken_s: float) -> None:
        """Add up the figures of the nodes that run."""
        figures, workers = [node.statistics() for node in nodes], sum(node.workers() for node in nodes)
        worked_ns = sum(each.worked_ns for each in figures)
        busy = min(1.0, max(0, worked_ns - self._worked_ns) / 1e9 / taken_s / max(workers, 1))
        self._worked_ns = worked_ns
        sums = ("restarts", "ready", "in_work", "slots", "leased")
        self._of_nodes = {name: sum(getattr(each, name) for each in figures) for name in sums}
        self._of_nodes |= {"workers": workers, "busy": busy}

    def close(self) -> None:
        """Show the items that were not shown yet, and end the display."""
        if self.status is None or self.done > self._shown:
            self.show(self.clock())
        self._display.close()


def _running(sequence: Any) -> list[Prefetch[Any]]:
    """Return the nodes of a view or loader that run."""
    views = sequence.nodes() if hasattr(sequence, "nodes") else [sequence]
    nodes = {id(node): node for top in views if isinstance(top, View) for node in walk(top)}
    return [node for node in nodes.values() if isinstance(node, Prefetch) and node.is_running()]
