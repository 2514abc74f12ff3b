"""Print the time of each stage after every N items, in programs that run with ``SEQKIT_PROFILE_EVERY=N``."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from time import perf_counter
from typing import Any

from ..core.units import count
from ..core.view import View
from ..core.worker import in_process_worker
from ..engine import observers
from ..engine.engine import Engine
from ..engine.prefetch import Prefetch
from ..engine.statistics import Statistics
from .explain import text_of
from .probe import Probe, Recording
from .rewriting import rewritten
from .units import percent, rounded, seconds
from .watch import to_stderr

__all__ = ["VARIABLE", "StagePrinter", "install"]

VARIABLE = "SEQKIT_PROFILE_EVERY"


def install(text: str) -> None:
    """Print a line after every so many items of each node that starts from now on.

    >>> install("often")
    Traceback (most recent call last):
    ValueError: SEQKIT_PROFILE_EVERY must be a number of items, 0 for none, got 'often'
    """
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE} must be a number of items, 0 for none, got {text!r}")
    every = int(text)
    others = observers.prepare

    def prepare(engine: Engine) -> None:
        others(engine)
        if engine.settings.workers and not in_process_worker():
            engine.observer = StagePrinter(engine.source, engine.settings.workers, every)
            engine.source = engine.observer.source

    if every:
        observers.prepare = prepare


class StagePrinter:
    """Prints lines about a node on standard error after `every` items. `source` is its pipeline with probes.

    Nodes below have lines of their own.
    """

    def __init__(self, source: View[Any], workers: int, every: int) -> None:
        self.every, self._workers = every, workers
        self._latest, self._since = Statistics(), perf_counter()
        self._recording = Recording(tempfile.mkdtemp(prefix="seqkit-stages-"))
        weakref.finalize(self, _forget, self._recording, os.getpid())
        self._names: list[str] = []
        self.source = rewritten(source, self._probed)

    def _probed(self, view: View[Any], sources: tuple[View[Any], ...]) -> View[Any]:
        if isinstance(view, Prefetch):
            return view  # without the probes below it
        self._names.append(text_of(view))
        return Probe(view._rebuild(sources), len(self._names) - 1, self._recording)

    def report(self, now: Statistics) -> None:
        """Print what happened since the last line."""
        # The figures begin anew when the node starts anew.
        before = self._latest if now.items > self._latest.items else Statistics()
        taken_s = max(perf_counter() - self._since, 1e-9)
        spent: dict[int, tuple[int, float]] = {}
        for event in self._recording.take():
            items, own_s = spent.get(event.stage, (0, 0.0))
            weight = event.weight
            spent[event.stage] = items + weight * event.items, own_s + weight * event.own_s
        total_s = sum(own_s for _, own_s in spent.values()) or 1.0
        costliest = sorted(spent.items(), key=lambda pair: -pair[1][1])[:4]
        shares = [
            f"{self._names[stage]} {percent(own_s / total_s)} ({seconds(own_s / max(items, 1))} each)"
            for stage, (items, own_s) in costliest
        ]
        waited = percent(min(1.0, (now.waited_ns - before.waited_ns) / 1e9 / taken_s))
        busy = percent(min(1.0, (now.worked_ns - before.worked_ns) / 1e9 / taken_s / self._workers))
        rate = rounded((now.items - before.items) / taken_s, 4)
        head = f"seqkit: {count(now.items)} items, {rate} per second; waited {waited}"
        to_stderr(f"{head}, {self._workers} workers busy {busy}; {', '.join(shares)}\n")
        self._latest, self._since = now, perf_counter()


def _forget(recording: Recording, pid: int) -> None:
    if pid == os.getpid():
        recording.forget()
        shutil.rmtree(recording.directory, ignore_errors=True)
