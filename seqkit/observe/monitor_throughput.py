"""`monitor_throughput`: measure the time that reading takes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from ..core.source import as_view
from ..core.view import Indexable, T, View, sized
from .tap import END, Tap

__all__ = ["MonitorThroughput", "monitor_throughput"]


def monitor_throughput(sequence: Indexable[T]) -> MonitorThroughput[T]:
    """Return the view of the same items, and measure how long consumers wait for them.

    Parameters
    ----------
    sequence : View or indexable

    Returns
    -------
    MonitorThroughput
        With methods ``read_delay()``, ``throughput()`` and ``reset()``.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed.

    Notes
    -----
    About 0.4 µs per access. The views of all epochs share one measurement. Reads in workers are
    not counted. Put the monitor above a `prefetch` to measure how long the consumer waits, or see `profile`.
    After ``monitor_throughput`` of SeqTools.

    Examples
    --------
    >>> import seqkit as sk
    >>> monitored = monitor_throughput(sk.smap(abs, range(3)))
    >>> list(monitored), monitored.read_delay() < 1, monitored.throughput() > 1
    ([0, 1, 2], True, True)
    """
    return sized(MonitorThroughput(as_view(sequence, "monitor_throughput"), Meter()))


class Meter:
    """Adds up items and seconds. The views of all epochs share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0, 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Meter, ()

    def add(self, items: int, seconds: float) -> None:
        with self._lock:
            self._total = self._total[0] + items, self._total[1] + seconds

    def reset(self) -> None:
        with self._lock:
            self._total = 0, 0.0

    def total(self) -> tuple[int, float]:
        return self._total


class MonitorThroughput(Tap[T]):
    """The view that `monitor_throughput` returns."""

    def __init__(self, source: View[Any], meter: Meter) -> None:
        super().__init__((source,))
        self._meter = meter

    def read_delay(self) -> float:
        """Return the average number of seconds per item, for single and batched reads.

        Raises
        ------
        RuntimeError
            If no item was read since the view was created, or since `reset`.
        """
        items, seconds = self._so_far()
        return seconds / items

    def throughput(self) -> float:
        """Return the number of items per second of waiting, which is ``1 / read_delay()``.

        Raises
        ------
        RuntimeError
            If no item was read since the view was created, or since `reset`.
        """
        items, seconds = self._so_far()
        return items / seconds if seconds else math.inf

    def reset(self) -> None:
        """Discard the measurement so far."""
        self._meter.reset()

    def _so_far(self) -> tuple[int, float]:
        items, seconds = self._meter.total()
        if not items:
            raise RuntimeError("monitor_throughput: nothing was read yet, so there is nothing measured")
        return items, seconds

    def _look(self, i: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        begun = perf_counter()
        found = read(*args)
        if found is not END:
            self._meter.add(items, perf_counter() - begun)
        return found

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return MonitorThroughput(sources[0], self._meter)
