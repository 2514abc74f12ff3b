"""Print the time of each stage after every N items, in programs that run with ``SEQKIT_PROFILE_EVERY=N``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import weakref
from typing import Any

from ..core.units import count, percent, seconds
from ..core.view import View
from ..prefetch import engine
from ..prefetch.node import Prefetch
from ..prefetch.statistics import Statistics
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


def _forget(directory: str, pid: int) -> None:
    if pid == os.getpid():
        forget(directory)
        shutil.rmtree(directory, ignore_errors=True)


class StagePrinter:
    """Prints lines about a node on standard error.

    Attributes
    ----------
    source : View
        The pipeline of the node, with probes. Nodes below have printers of their own.
    every : int
        Number of items between two lines.
    """

    def __init__(self, source: View[Any], workers: int, every: int) -> None:
        self.every = every
        self._workers = workers
        directory = tempfile.mkdtemp(prefix="seqkit-profile-")
        weakref.finalize(self, _forget, directory, os.getpid())
        self._recording = Recording(directory, time.perf_counter, keeps_events=False)
        self._names: dict[int, str] = {}
        self.source = self._probed(source, {id(view): line for line, view in outline(source)}, {})
        self._recording.clear()
        self._before, self._sums = Statistics(), dict[int, Sums]()
        self._since = time.perf_counter()

    def _probed(self, view: View[Any], lines: dict[int, str], probes: dict[int, View[Any]]) -> View[Any]:
        if isinstance(view, Prefetch):
            return view
        if id(view) not in probes:
            sources = tuple(self._probed(source, lines, probes) for source in view._sources)
            number = len(self._names)
            self._names[number] = lines[id(view)].lstrip(" │├└─")
            probes[id(view)] = Probe(view._rebuild(sources), number, self._recording)
        return probes[id(view)]

    def report(self, now: Statistics) -> None:
        """Print what happened since the last line."""
        taken_s = max(time.perf_counter() - self._since, 1e-9)
        before, sums = self._before, self._recording.sums()
        waited_s = (now.waited_ns - before.waited_ns) / 1e9
        worked_s = (now.worked_ns - before.worked_ns) / 1e9
        spent = {number: total - self._sums.get(number, Sums()) for number, total in sums.items()}
        line = (
            f"seqkit: {count(now.items)} items, {(now.items - before.items) / taken_s:,.4g} per second;"
            f" waited {percent(min(1.0, waited_s / taken_s))}, {self._workers} workers busy"
            f" {percent(min(1.0, worked_s / taken_s / self._workers))}; {self._stages(spent)}"
        )
        print(line, file=sys.stderr, flush=True)
        self._before, self._sums, self._since = now, sums, time.perf_counter()

    def _stages(self, spent: dict[int, Sums]) -> str:
        total_s = sum(sums.seconds for sums in spent.values()) or 1.0
        costliest = sorted(spent, key=lambda number: -spent[number].seconds)[:NAMED]
        return ", ".join(
            f"{self._names[number]} {percent(spent[number].seconds / total_s)}"
            f" ({seconds(spent[number].seconds / max(spent[number].items, 1))} each)"
            for number in costliest
        )
