"""`debug`: call a function for items that are read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from ..core.arguments import check_callable, optional_int, optional_number
from ..core.errors import fail
from ..core.indices import as_list
from ..core.source import as_view
from ..core.view import Indexable, T, View, name_of, sized
from .tap import END, Tap

__all__ = ["Debug", "debug"]


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
    check_callable(func, "debug: func", ("index", "item"))
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
        if self.max_calls is not None and self._calls >= self.max_calls:
            return False  # this never changes, so no lock is needed
        with self._lock:
            if self.max_calls is not None and self._calls >= self.max_calls:
                return False
            if self.max_rate is not None:
                now = monotonic()
                if self._last is not None and now - self._last < 1 / self.max_rate:
                    return False
                self._last = now
            self._calls += 1
            return True


class Debug(Tap[Any]):
    """The view that `debug` returns."""

    def __init__(self, source: View[Any], func: Callable[[int, Any], object], limits: Limits) -> None:
        super().__init__((source,))
        self._func = func
        self._limits = limits

    def _look(self, i: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        found = read(*args)
        if i >= 0 and found is not END:
            self._report(i, found)
        elif i < 0:
            for j, item in zip(as_list(args[0]), found, strict=True):
                self._report(j, item)
        return found

    def _report(self, i: int, item: Any) -> None:
        if self._limits.allow():
            try:
                self._func(i, item)
            except Exception as error:
                fail(self, i, error, "in func")

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Debug(sources[0], self._func, self._limits)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._func,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, name_of(self._func)]
