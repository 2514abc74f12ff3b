"""The times of the stages of a node, while it runs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from time import perf_counter
from typing import Any

from ..core.view import View
from ..prefetch.node import Prefetch
from ..prefetch.statistics import Statistics
from .probe import Probe, Recording, Sums, forget
from .tree import outline

__all__ = ["LiveStages"]


class LiveStages:
    """Times the stages of a node that starts. Nodes below have times of their own.

    Attributes
    ----------
    source : View
        The pipeline of the node, with probes.
    """

    every = sys.maxsize  # items between two reports

    def __init__(self, source: View[Any]) -> None:
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

    def lately(self) -> list[tuple[str, Sums]]:
        """Return what each stage has done since the last call, the costliest first."""
        sums = self._recording.sums()
        spent = [(self._names[stage], now - self._before.get(stage, Sums())) for stage, now in sums.items()]
        self._before = sums
        return sorted(spent, key=lambda pair: -pair[1].seconds)

    def report(self, now: Statistics) -> None:
        """Report on the node. It reports nothing by itself."""


def _forget(directory: str, pid: int) -> None:
    if pid == os.getpid():
        forget(directory)
        shutil.rmtree(directory, ignore_errors=True)
