"""Print the time of each stage after every N items, in programs that run with ``SEQKIT_PROFILE_EVERY=N``."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from time import perf_counter
from typing import Any

from ..core.units import count, percent, rounded, seconds
from ..core.view import View
from ..prefetch import engine
from ..prefetch.node import Prefetch
from ..prefetch.statistics import Statistics
from .live import to_stderr
from .probe import Probe, Recording, Sums, forget
from .tree import outline

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


class StagePrinter:
    """Prints lines about a node on standard error, after every so many items.

    Nodes below have lines of their own.

    Attributes
    ----------
    every : int
        Items between two lines.
    source : View
        The pipeline of the node, with probes.
    """

    def __init__(self, source: View[Any], workers: int, every: int) -> None:
        self.every = every
        self._workers = workers
        self._latest = Statistics()
        self._since = perf_counter()
        directory = tempfile.mkdtemp(prefix="seqkit-stages-")
        weakref.finalize(self, _forget, directory, os.getpid())
        self._recording = Recording(directory, perf_counter, keeps_events=False)
        self._names: list[str] = []
        self.source = self._probed(source, {id(view): line for line, view in outline(source)}, {})
        self._recording.clear()
        self._before: dict[int, Sums] = {}

    def _probed(self, view: View[Any], lines: dict[int, str], probes: dict[int, View[Any]]) -> View[Any]:
        if isinstance(view, Prefetch):
            return view
        if id(view) not in probes:
            sources = tuple(self._probed(source, lines, probes) for source in view._sources)
            probes[id(view)] = Probe(view._rebuild(sources), len(self._names), self._recording)
            self._names.append(lines[id(view)].lstrip(" │├└─"))
        return probes[id(view)]

    def _lately(self) -> list[tuple[str, Sums]]:
        """Return what each stage has done since the last call, the costliest first."""
        sums = self._recording.sums()
        spent = [(self._names[stage], now - self._before.get(stage, Sums())) for stage, now in sums.items()]
        self._before = sums
        return sorted(spent, key=lambda pair: -pair[1].seconds)

    def report(self, now: Statistics) -> None:
        """Print what happened since the last line."""
        taken_s = max(perf_counter() - self._since, 1e-9)
        before, stages = self._latest, self._lately()
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


def _forget(directory: str, pid: int) -> None:
    if pid == os.getpid():
        forget(directory)
        shutil.rmtree(directory, ignore_errors=True)
