"""`monitor_throughput`: measure the time that reading takes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..core.arguments import check_callable
from ..core.errors import EndOfSequence
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.source import as_view
from ..core.units import rounded
from ..core.view import Indexable, T, View, sized

__all__ = ["MonitorThroughput", "monitor_throughput"]


def monitor_throughput(
    sequence: Indexable[T], *, clock: Callable[[], float] = time.perf_counter
) -> MonitorThroughput[T]:
    """Return the view of the same items, and measure how long consumers wait for them.

    Parameters
    ----------
    sequence : View or indexable
    clock : callable
        Returns the time in seconds. The default is `time.perf_counter`.

    Returns
    -------
    MonitorThroughput
        With methods ``read_delay()``, ``throughput()`` and ``reset()``.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or `clock` is not callable.

    Notes
    -----
    About 0.4 µs per access. The views of all epochs share one measurement. Reads in workers are
    not counted. Put the monitor above a `prefetch` to measure how long the consumer waits, or see `profile`.
    After ``monitor_throughput`` of SeqTools.

    Examples
    --------
    >>> import seqkit as sk
    >>> ticks = iter(range(100))
    >>> monitored = monitor_throughput(sk.smap(abs, range(3)), clock=lambda: next(ticks) / 4)
    >>> list(monitored), monitored.read_delay(), monitored.throughput()
    ([0, 1, 2], 0.25, 4.0)
    """
    check_callable(clock, "monitor_throughput: clock")
    return sized(MonitorThroughput(as_view(sequence, "monitor_throughput"), Meter(clock)))


class Meter:
    """Adds up items and seconds. The views of all epochs share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._total = 0, 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Meter, (self.clock,)

    def add(self, items: int, seconds: float) -> None:
        with self._lock:
            self._total = self._total[0] + items, self._total[1] + seconds

    def reset(self) -> None:
        with self._lock:
            self._total = 0, 0.0

    def total(self) -> tuple[int, float]:
        return self._total


class MonitorThroughput(View[T]):
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

    @property
    def _streams(self) -> bool:
        return self._sources[0]._known is None and self._sources[0]._streams

    def _get(self, i: int) -> Any:
        clock = self._meter.clock
        begun = clock()
        item = self._sources[0]._get(i)
        self._meter.add(1, clock() - begun)
        return item

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        clock = self._meter.clock
        begun = clock()
        items = self._sources[0]._getmany(indices)
        self._meter.add(len(indices), clock() - begun)
        return items

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items, clock, meter = self._sources[0]._iter(plan), self._meter.clock, self._meter

        def read(i: int) -> Any:
            begun = clock()
            for item in items:
                meter.add(1, clock() - begun)
                return item
            raise EndOfSequence(f"the sequence ends before index {i}")

        return surviving(self, plan, read)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[0]._set(i, value)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return MonitorThroughput(sources[0], self._meter)

    def _remarks(self) -> list[str]:
        items, seconds = self._meter.total()
        return [f"{rounded(items / seconds)} items/s"] if items and seconds else []
