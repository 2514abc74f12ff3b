"""`watch`: iterate a view or a loader, with a display that updates itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Generic

from ..core.arguments import check_callable, optional_number
from ..core.errors import as_given
from ..core.units import count, percent, plural, seconds, size
from ..core.view import T, View
from ..prefetch.node import Prefetch
from ..prefetch.statistics import Statistics
from .live import Display, display_of
from .tree import outline

__all__ = ["Status", "Watch", "watch"]

INTERVAL_S = 0.5
# The weight of the latest interval in the rate.
LATEST = 0.3


@dataclass(frozen=True)
class Status:
    """The state of an iteration. Its text is one line.

    Attributes
    ----------
    done : int
        Number of items so far.
    total : int or None
        Number of all items, None if unknown.
    seconds : float
        Seconds since the first item was asked for.
    rate : float
        Items per second lately.
    remaining_s : float or None
        Seconds until the end at this rate.
    waited_share : float
        The share of the time that the consumer waited for items, lately.
    workers, restarts : int
        Number of workers, and of those that were replaced.
    busy : float
        The share of the time that workers were busy, lately.
    slots, leased : int
        Number of slots of shared memory, and of those that hold arrays of the consumer.
    memory : int
        Resident memory of this process in bytes, 0 if unknown.
    """

    done: int
    total: int | None
    seconds: float
    rate: float
    remaining_s: float | None
    waited_share: float
    workers: int = 0
    restarts: int = 0
    busy: float = 0.0
    slots: int = 0
    leased: int = 0
    memory: int = 0

    def __str__(self) -> str:
        return f"{self.position}, {', '.join(f'{name} {text}' for name, text in self.figures.items())}"

    @property
    def position(self) -> str:
        """How far the iteration is, as text."""
        return count(self.done) + (f" of {count(self.total)}" if self.total is not None else "")

    @property
    def figures(self) -> dict[str, str]:
        """The other figures, as texts by name."""
        found = {"rate": f"{self.rate:,.4g}/s"}
        if self.remaining_s is not None:
            found["left"] = seconds(self.remaining_s)
        found["waited"] = percent(self.waited_share)
        if self.workers:
            found["workers"] = f"{self.workers}, busy {percent(self.busy)}"
        if self.slots:
            found["slots"] = f"{self.leased} of {self.slots} held"
        if self.memory:
            found["memory"] = size(self.memory)
        if self.restarts:
            found["replaced"] = plural(self.restarts, "worker")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, such as for JSON."""
        return asdict(self)


def watch(
    sequence: Any,
    report: Any = None,
    *,
    interval: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Watch[Any]:
    """Return an iterable of the same items, with a display of rate, remaining time and waiting.

    Parameters
    ----------
    sequence : View, DataLoader, StreamLoader or iterable
    report : callable, bar or file, optional
        A function of a `Status`, a bar such as that of tqdm, or a text file, which gets lines of JSON. None
        (the default) updates a display in notebooks, a panel in terminals if rich is installed, and otherwise
        a line on standard error.
    interval : float, optional
        Seconds between updates, above 0. None (the default): 0.5.
    clock : callable
        Returns the time in seconds. The default is `time.monotonic`.

    Returns
    -------
    Watch
        Iterable any number of times. ``status`` is the latest `Status`.

    Raises
    ------
    TypeError
        If `sequence` cannot be iterated, or an argument has the wrong type.
    ValueError
        If `interval` is not above 0.

    Notes
    -----
    Reads the clock twice per item, which takes about 0.5 µs. There is no thread: the consumer updates the
    display when it asks for an item. An item that raises an error counts as done.

    Examples
    --------
    >>> import seqkit as sk
    >>> ticks = iter(range(100))
    >>> shown = []
    >>> items = watch(sk.arange(3), shown.append, interval=1, clock=lambda: next(ticks))
    >>> list(items), shown[-1].done, shown[-1].total
    ([0, 1, 2], 3, 3)
    """
    if not hasattr(sequence, "__iter__") and not hasattr(sequence, "__getitem__"):
        raise TypeError(f"watch: the sequence must be iterable, got {as_given(sequence)}")
    check_callable(clock, "watch: clock")
    every_s = optional_number(interval, "watch: interval", "seconds") or INTERVAL_S
    return Watch(sequence, display_of(report), every_s, clock)


class Watch(Generic[T]):
    """What `watch` returns."""

    def __init__(
        self, sequence: Any, display: Callable[[], Display], every_s: float, clock: Callable[[], float]
    ) -> None:
        self._sequence = sequence
        self._given = display, every_s, clock
        self.status: Status | None = None

    def __len__(self) -> int:
        return len(self._sequence)

    def __iter__(self) -> Iterator[T]:
        return _Watched(self, self._sequence, *self._given)

    def __repr__(self) -> str:
        return f"watch({self._sequence!r})" + (f": {self.status}" if self.status else "")


class _Watched(Iterator[T]):
    """One iteration."""

    def __init__(
        self,
        watch: Watch[T],
        sequence: Any,
        display: Callable[[], Display],
        every_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._watch = watch
        self._sequence = sequence
        self._items: Iterator[T] = iter(sequence)
        self._display = display()
        self._every_s = every_s
        self._clock = clock
        self._total = _length(sequence)
        self._done = self._done_before = 0
        self._waited_s = self._rate = 0.0
        self._begun = self._since = clock()
        self._before = Statistics()

    def __next__(self) -> T:
        begun = self._clock()
        if begun - self._since >= self._every_s:
            self._show(begun)
        try:
            item = next(self._items)
        except StopIteration:
            now = self._clock()
            self._waited_s += now - begun
            if self._done > self._done_before or not self._done:
                self._show(now)
            self._display.close()
            raise
        except Exception:
            self._count(begun)
            raise
        self._count(begun)
        return item

    def _count(self, begun: float) -> None:
        self._done += 1
        self._waited_s += self._clock() - begun

    def _show(self, now: float) -> None:
        taken_s = max(now - self._since, 1e-9)
        lately = (self._done - self._done_before) / taken_s
        self._rate = lately if not self._rate else LATEST * lately + (1 - LATEST) * self._rate
        left = None if self._total is None or not self._rate else (self._total - self._done) / self._rate
        figures, workers = _figures(self._sequence)
        worked_s = max(0, figures.worked_ns - self._before.worked_ns) / 1e9
        self._watch.status = status = Status(
            self._done,
            self._total,
            now - self._begun,
            self._rate,
            left,
            min(1.0, self._waited_s / taken_s),
            workers,
            figures.restarts,
            min(1.0, worked_s / taken_s / max(workers, 1)),
            figures.slots,
            figures.leased,
            _memory(),
        )
        self._display.show(status)
        self._since, self._done_before, self._waited_s, self._before = now, self._done, 0.0, figures


def _length(sequence: Any) -> int | None:
    try:
        return len(sequence)
    except TypeError:
        return None


def _figures(sequence: Any) -> tuple[Statistics, int]:
    """Return the sums of the figures of the nodes that run, and the number of their workers."""
    found, workers = dict.fromkeys(("worked_ns", "restarts", "slots", "leased"), 0), 0
    for node in _nodes(sequence):
        figures, workers = node.statistics(), workers + node.workers()
        for name in found:
            found[name] += getattr(figures, name)
    return Statistics(**found), workers


def _nodes(sequence: Any) -> list[Prefetch[Any]]:
    views = sequence.nodes() if hasattr(sequence, "nodes") else [sequence]
    nodes = [view for top in views if isinstance(top, View) for _, view in outline(top)]
    return [node for node in nodes if isinstance(node, Prefetch) and node.is_running()]


def _memory() -> int:
    """Return the resident memory of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
