"""`watch`: iterate a view or a loader, with a display that updates itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import length_hint
from time import monotonic
from typing import Any, Generic

from ..core.arguments import check_callable, optional_number
from ..core.errors import brief
from ..core.expression import walk
from ..core.units import count
from ..core.view import T, View
from ..engine.prefetch import Prefetch
from .html import cut, width
from .units import percent, rounded, seconds

__all__ = ["Status", "Watch", "to_stderr", "watch"]


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
    workers : int
    busy : float
        The share of the time that workers were busy, lately.
    ready, in_work : int
        Number of items that wait for the consumer, and of those that were given to workers.
    slots, leased : int
        Number of slots of shared memory, and of those that hold arrays of the consumer.
    """

    done: int
    total: int | None
    seconds: float
    rate: float
    remaining_s: float | None
    waited_share: float
    workers: int = 0
    busy: float = 0.0
    ready: int = 0
    in_work: int = 0
    slots: int = 0
    leased: int = 0

    def __str__(self) -> str:
        of = f" of {count(self.total)}" if self.total is not None else ""
        found = [f"{count(self.done)}{of}, rate {rounded(self.rate, 4)}/s"]
        if self.done == self.total:
            found.append(f"took {seconds(self.seconds)}")
        elif self.remaining_s is not None:
            found.append(f"left {seconds(self.remaining_s)}")
        found.append(f"waited {percent(self.waited_share)}")
        if self.workers:
            found.append(f"workers {self.workers}, busy {percent(self.busy)}")
            found.append(f"queue {count(self.ready)} ready, {count(self.in_work)} in work")
        if self.slots:
            found.append(f"slots {self.leased} of {self.slots} held")
        return ", ".join(found)


# Errors of a stream that is closed, full or gone. A display must not end the iteration that it shows.
_LOST = (OSError, ValueError)


def to_stderr(text: str) -> None:
    """Write on standard error if that is possible. Letters that its encoding lacks become escapes."""
    stream = sys.stderr
    if stream is None:
        return
    with suppress(*_LOST):
        try:
            stream.write(text)
        except UnicodeEncodeError as error:
            stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        stream.flush()


class _TextLine:
    """A line on standard error, which is written over in a terminal and in a notebook."""

    def __init__(self) -> None:
        self._width, self._is_replaced = 0, _is_notebook()
        with suppress(AttributeError, *_LOST):  # there may be no stream, as under ``pythonw``
            self._is_replaced |= sys.stderr.isatty()

    def __call__(self, status: Status) -> None:
        text = str(status)
        if self._is_replaced:
            text = cut(text, width() - 1)  # a line that wraps could not be written over
            to_stderr("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            to_stderr(text + "\n")

    def end(self) -> None:
        to_stderr("\n" * self._is_replaced)


def _is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


INTERVAL_S = 0.5
# The weight of the latest interval in the rate.
LATEST = 0.3


def watch(sequence: Any, report: Any = None, *, interval: float | None = None) -> Watch[Any]:
    """Return an iterable of the same items, with a display of rate, remaining time, waiting and queue.

    Parameters
    ----------
    sequence : View, DataLoader, StreamLoader or iterable
    report : callable, optional
        A function of a `Status`. None (the default) updates a line on standard error.
    interval : float, optional
        Seconds between updates, above 0. None (the default): 0.5.

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
    >>> shown = []
    >>> items = watch(sk.arange(3), shown.append)
    >>> list(items), shown[-1].done, shown[-1].total
    ([0, 1, 2], 3, 3)
    """
    if not hasattr(sequence, "__iter__") and not hasattr(sequence, "__getitem__"):
        raise TypeError(f"watch: the sequence must be iterable, got {brief(sequence)}")
    every_s = optional_number(interval, "watch: interval", "seconds") or INTERVAL_S
    if report is not None:
        check_callable(report, "watch: report")
    return Watch(sequence, report, every_s)


class Watch(Generic[T]):
    """What `watch` returns.

    Attributes
    ----------
    status : Status or None
        The latest status, or None before the first one.
    """

    clock = staticmethod(monotonic)

    def __init__(self, sequence: Any, report: Any, every_s: float) -> None:
        self._sequence = sequence
        self._report, self._every_s = report, every_s
        self.status: Status | None = None

    def __len__(self) -> int:
        return len(self._sequence)

    def __iter__(self) -> Iterator[T]:
        self.status = None
        display = _TextLine() if self._report is None else self._report
        return _Watched(self, self._sequence, display, self._every_s)


class _Watched(Iterator[T]):
    """One iteration, which measures its rate and shows it."""

    def __init__(
        self, watch: Watch[T], sequence: Any, display: Callable[[Status], Any], every_s: float
    ) -> None:
        self._watch, self._sequence, self._display, self._every_s = watch, sequence, display, every_s
        self._begun = self._since = watch.clock()
        self._due_s = self._begun + every_s
        self._items: Iterator[T] = iter(sequence)
        length = length_hint(sequence, -1)
        self._total = None if length < 0 else length
        # A loader that goes on within an epoch. Batches before that do not count for the rate.
        self._done = self._shown = getattr(self._items, "first_batch", 0)
        self._rate, self._waited_s, self._worked_ns = 0.0, 0.0, 0
        self._of_nodes: dict[str, Any] = {}  # the latest figures, which stay when the workers have ended

    def __next__(self) -> T:
        begun = self._watch.clock()
        if begun >= self._due_s:
            self._show(begun)
        try:
            item = next(self._items)
        except Exception as error:
            self._waited_s += self._watch.clock() - begun
            if isinstance(error, StopIteration):
                if self._watch.status is None or self._done > self._shown:
                    self._show(self._watch.clock())
                if isinstance(self._display, _TextLine):
                    self._display.end()
            else:
                self._done += 1
            raise
        self._done += 1
        self._waited_s += self._watch.clock() - begun
        return item

    def _show(self, now: float) -> None:
        taken_s = max(now - self._since, 1e-9)
        lately = (self._done - self._shown) / taken_s
        self._rate = lately if not self._rate else LATEST * lately + (1 - LATEST) * self._rate
        left = None if self._total is None or not self._rate else (self._total - self._done) / self._rate
        waited = min(1.0, self._waited_s / taken_s)
        if nodes := _running(self._sequence):
            self._look_at(nodes, taken_s)
        seconds = now - self._begun
        status = Status(self._done, self._total, seconds, self._rate, left, waited, **self._of_nodes)
        self._watch.status = status
        self._display(status)
        self._since, self._shown = now, self._done
        self._due_s, self._waited_s = now + self._every_s, 0.0

    def _look_at(self, nodes: list[Prefetch[Any]], taken_s: float) -> None:
        """Add up the figures of the nodes that run."""
        figures = [node.statistics() for node in nodes]
        workers = sum(node.engine.settings.workers for node in nodes)
        worked_ns = sum(each.worked_ns for each in figures)
        busy = min(1.0, max(0, worked_ns - self._worked_ns) / 1e9 / taken_s / max(workers, 1))
        self._worked_ns = worked_ns
        sums = ("ready", "in_work", "slots", "leased")
        self._of_nodes = {name: sum(getattr(each, name) for each in figures) for name in sums}
        self._of_nodes |= {"workers": workers, "busy": busy}


def _running(sequence: Any) -> list[Prefetch[Any]]:
    """Return the nodes of a view or loader that run."""
    views = sequence.nodes() if hasattr(sequence, "nodes") else [sequence]
    nodes = {id(node): node for top in views if isinstance(top, View) for node in walk(top)}
    return [node for node in nodes.values() if isinstance(node, Prefetch) and node.engine.is_running()]
