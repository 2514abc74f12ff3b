"""Print the time of each stage after every N items, in programs that run with ``SEQKIT_PROFILE_EVERY=N``."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from ..core.units import count, percent, rounded, seconds
from ..core.view import View
from ..prefetch import engine
from ..prefetch.statistics import Statistics
from .live import to_stderr
from .live_stages import LiveStages

__all__ = ["VARIABLE", "StagePrinter", "install"]

VARIABLE = "SEQKIT_PROFILE_EVERY"
# So many stages are named, the costliest first.
NAMED = 4


def install(text: str) -> None:
    """Print a line after every so many items of each node that starts from now on.

    >>> install("often")
    Traceback (most recent call last):
    ValueError: SEQKIT_PROFILE_EVERY must be a number of items, 0 for none, got 'often'
    """
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE} must be a number of items, 0 for none, got {text!r}")
    every = int(text)
    engine.observe_start = (lambda source, workers: StagePrinter(source, workers, every)) if every else None


class StagePrinter(LiveStages):
    """Prints lines about a node on standard error, after every so many items."""

    def __init__(self, source: View[Any], workers: int, every: int) -> None:
        super().__init__(source)
        self.every = every
        self._workers = workers
        self._latest = Statistics()
        self._since = perf_counter()

    def report(self, now: Statistics) -> None:
        """Print what happened since the last line."""
        taken_s = max(perf_counter() - self._since, 1e-9)
        before, stages = self._latest, self.lately()
        waited_s = (now.waited_ns - before.waited_ns) / 1e9
        worked_s = (now.worked_ns - before.worked_ns) / 1e9
        total_s = sum(spent.seconds for _, spent in stages) or 1.0
        shares = (
            f"{name} {percent(spent.seconds / total_s)} ({seconds(spent.seconds / max(spent.items, 1))} each)"
            for name, spent in stages[:NAMED]
        )
        line = (
            f"seqkit: {count(now.items)} items,"
            f" {rounded((now.items - before.items) / taken_s, 4)} per second;"
            f" waited {percent(min(1.0, waited_s / taken_s))}, {self._workers} workers busy"
            f" {percent(min(1.0, worked_s / taken_s / self._workers))}; {', '.join(shares)}"
        )
        to_stderr(line + "\n")
        self._latest, self._since = now, perf_counter()
