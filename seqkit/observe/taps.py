"""`debug` and `monitor_throughput`: views of the same items, which look at each read."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any

from ..core.arguments import check_callable, optional_int, optional_number
from ..core.errors import fail
from ..core.expression import name_of
from ..core.indices import as_list
from ..core.lengths import sized
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .probe import END, Tap

__all__ = ["Debug", "MonitorThroughput", "debug", "monitor_throughput"]


def debug(
    sequence: Indexable[T],
    func: Callable[[int, T], object],
    max_calls: int | None = None,
    max_rate: float | None = None,
) -> View[T]:
    """Return the view of the same items, and call a function for each item that is read.

    Parameters
    ----------
    sequence : View or indexable
    func : callable
        Called with index and item after the item was read. Its result is ignored.
    max_calls : int, optional
        Largest number of calls, 0 or more, of all consumers and epochs together. None (the default): no
        limit.
    max_rate : float, optional
        Largest number of calls per second, above 0. Reads within ``1 / max_rate`` seconds of a call are not
        reported. None (the default): no limit.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `func` is not callable, `sequence` cannot be indexed, or a limit is not a number.
    ValueError
        If a limit is out of range.

    Notes
    -----
    One call of `func` and about 0.4 µs per access. Each process counts its own calls, so below a
    `prefetch` with process workers the limits apply to each worker. After ``debug`` of SeqTools.

    Examples
    --------
    >>> watched = debug("abc", print, max_calls=2)
    >>> "".join(watched)
    0 a
    1 b
    'abc'
    """
    check_callable(func, "debug: func")
    max_calls = optional_int(max_calls, "debug: max_calls", least=0)
    max_rate = optional_number(max_rate, "debug: max_rate", "calls per second")
    return sized(Debug(as_view(sequence, "debug"), func, Limits(max_calls, max_rate)))


class Limits:
    """Counts calls and decides about further ones. The views of all epochs share it."""

    def __init__(self, max_calls: int | None, max_rate: float | None) -> None:
        self.max_calls = max_calls
        self.max_rate = max_rate
        self._lock = threading.Lock()
        self._calls = 0
        self._last: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Limits, (self.max_calls, self.max_rate)

    def allow(self) -> bool:
        """Is a call allowed now? If so, count it."""
        with self._lock:
            now = monotonic() if self.max_rate else 0.0
            is_early = self.max_rate and self._last is not None and now - self._last < 1 / self.max_rate
            if is_early or (self.max_calls is not None and self._calls >= self.max_calls):
                return False
            self._calls, self._last = self._calls + 1, now
            return True


class Debug(Tap[Any]):
    """The view that `debug` returns."""

    def __init__(self, source: View[Any], func: Callable[[int, Any], object], limits: Limits) -> None:
        super().__init__((source,))
        self._func = func
        self._limits = limits

    def _look(self, i: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        found = read(*args)
        pairs = zip(as_list(args[0]), found, strict=True) if i < 0 else [(i, found)] * (found is not END)
        for j, item in pairs:
            if self._limits.allow():
                try:
                    self._func(j, item)
                except Exception as error:
                    fail(self, j, error, "in func")
        return found

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Debug(sources[0], self._func, self._limits)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._func,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, name_of(self._func)]


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
        self.total = 0, 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Meter, ()

    def add(self, items: int, seconds: float) -> None:
        with self._lock:
            self.total = self.total[0] + items, self.total[1] + seconds


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
        self._meter.total = 0, 0.0

    def _so_far(self) -> tuple[int, float]:
        items, seconds = self._meter.total
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
