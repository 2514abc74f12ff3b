"""`watch`: iterate a view or a loader, with a display that updates itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import Any, Generic, Protocol

from ..core.arguments import optional_number
from ..core.errors import as_given
from ..core.progress import is_bar
from ..core.units import count, percent, rounded, seconds
from ..core.view import T, View, walk
from ..engine.prefetch import Prefetch
from . import html

__all__ = [
    *("INTERVAL_S", "Display", "ProgressMeter", "Status", "Watch"),
    *("display_of", "meter_of", "to_stderr", "watch"),
]


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
    waited_share : float or None
        The share of the time that the consumer waited for items, lately. None if there is no consumer.
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
    waited_share: float | None
    workers: int = 0
    busy: float = 0.0
    ready: int = 0
    in_work: int = 0
    slots: int = 0
    leased: int = 0

    def __str__(self) -> str:
        return ", ".join([self.position, *(f"{name} {text}" for name, text in self.figures.items())])

    @property
    def position(self) -> str:
        """How far the iteration is, as text."""
        return count(self.done) + (f" of {count(self.total)}" if self.total is not None else "")

    @property
    def figures(self) -> dict[str, str]:
        """The other figures, as texts by name, the most important first."""
        found = {"rate": f"{rounded(self.rate, 4)}/s"}
        if self.done == self.total:
            found["took"] = seconds(self.seconds)
        elif self.remaining_s is not None:
            found["left"] = seconds(self.remaining_s)
        if self.waited_share is not None:
            found["waited"] = percent(self.waited_share)
        if self.workers:
            found["workers"] = f"{self.workers}, busy {percent(self.busy)}"
            found["queue"] = f"{count(self.ready)} ready, {count(self.in_work)} in work"
        if self.slots:
            found["slots"] = f"{self.leased} of {self.slots} held"
        return found


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


class Display(Protocol):
    """Shows the latest `Status`."""

    def show(self, status: Status) -> None: ...
    def close(self) -> None: ...


def display_of(report: Any, who: str, title: str = "") -> Display:
    """Return a display. `title` names the pipeline."""
    if report is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        return _Notebook(title) if shell is not None and hasattr(shell, "kernel") else _TextLine(title)
    if is_bar(report):
        return _Callback(partial(_move, report, report.n))
    if hasattr(report, "write"):
        return _Callback(partial(_write, report))
    if callable(report) and not isinstance(report, type):
        return _Callback(report)
    raise TypeError(
        f"{who} must be a function of a Status, a bar of tqdm or a text file, got {as_given(report)}"
    )


def _write(file: Any, status: Status) -> None:
    file.write(json.dumps(asdict(status)) + "\n")
    file.flush()


def _move(bar: Any, start: int, status: Status) -> None:
    if getattr(bar, "total", 0) is None:
        bar.total = status.total
    bar.update(start + status.done - bar.n)


class _Callback:
    def __init__(self, show: Callable[[Status], Any]) -> None:
        self.show, self.close = show, lambda: None


class _TextLine:
    """A line on standard error, which is written over in a terminal."""

    def __init__(self, title: str) -> None:
        self._title = f"{title}: " if title else ""
        self._width, self._is_terminal = 0, False
        with suppress(AttributeError, *_LOST):  # there may be no stream, as under ``pythonw``
            self._is_terminal = sys.stderr.isatty()

    def show(self, status: Status) -> None:
        text = f"{self._title}{status}"
        if self._is_terminal:
            text = html.cut(text + " ")[:-1]  # a line that wraps could not be written over
            to_stderr("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            to_stderr(text + "\n")

    def close(self) -> None:
        to_stderr("\n" * self._is_terminal)


class _Notebook:
    """The output of a cell, which is replaced."""

    def __init__(self, title: str) -> None:
        import IPython.display

        self._title = title
        self._display: Any = IPython.display
        self._handle = self._display.display(self._display.HTML(""), display_id=True)

    def show(self, status: Status) -> None:
        self._handle.update(self._display.HTML(as_html(status, self._title)))

    def close(self) -> None:
        pass


def as_html(status: Status, title: str = "") -> str:
    """Return a status as HTML: a bar and the figures.

    >>> as_html(Status(1, 4, 1.0, 1.0, 3.0, None)).count("width:25.0%")
    1
    """
    share = status.done / status.total if status.total else 0.0
    texts = [f"{html.bar(share)} {html.escape(status.position)}", *map(html.escape, status.figures.values())]
    return html.frame(html.scrolling(html.table([texts], [title or "items", *status.figures])))


INTERVAL_S = 0.5
# The weight of the latest interval in the rate.
LATEST = 0.3


def meter_of(progress: Any, what: str, sequence: Any) -> ProgressMeter:
    """Return a meter for the argument `progress` of a function that takes long."""
    display = display_of(None if progress is True else progress, f"{what}: progress", what)
    return ProgressMeter(sequence, display, INTERVAL_S)


class ProgressMeter:
    """Measures the rate of an iteration.

    Attributes
    ----------
    done, total : int, and int or None
        Number of items so far, and of all items.
    has_consumer : bool
        Whether somebody waits for the items.
    waited_s : float
        How long the consumer has waited since the last `show`.
    due_s : float
        When the next status is due, in seconds of `clock`.
    status : Status or None
        The latest status.
    """

    clock = staticmethod(monotonic)

    def __init__(self, sequence: Any, display: Display, every_s: float) -> None:
        self.done, self.has_consumer, self.waited_s = 0, False, 0.0
        self.total: int | None = None
        self.status: Status | None = None
        self._sequence, self._display, self._every_s = sequence, display, every_s
        self._rate, self._shown, self._worked_ns = 0.0, 0, 0
        self._begun = self._since = self.clock()
        self.due_s = self._begun + every_s
        self._of_nodes: dict[str, Any] = {}  # the latest figures, which stay when the workers have ended

    def report(self, done: int, total: int | None) -> None:
        """Record how many items are done. The first call says how many were done before."""
        if self.total is None and not self.done:
            self.begin_at(done)
        self.done, self.total = done, total
        now = self.clock()
        if now >= self.due_s:
            self.show(now)

    def begin_at(self, done: int) -> None:
        """Record how many items were done before. They do not count for the rate."""
        self.done = self._shown = done

    def show(self, now: float) -> None:
        """Show the status."""
        taken_s = max(now - self._since, 1e-9)
        lately = (self.done - self._shown) / taken_s
        self._rate = lately if not self._rate else LATEST * lately + (1 - LATEST) * self._rate
        left = None if self.total is None or not self._rate else (self.total - self.done) / self._rate
        waited = min(1.0, self.waited_s / taken_s) if self.has_consumer else None
        if nodes := _running(self._sequence):
            self._look_at(nodes, taken_s)
        seconds = now - self._begun
        self.status = Status(self.done, self.total, seconds, self._rate, left, waited, **self._of_nodes)
        self._display.show(self.status)
        self._since, self._shown = now, self.done
        self.due_s, self.waited_s = now + self._every_s, 0.0

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

    def close(self) -> None:
        """Show the items that were not shown yet, and end the display."""
        if self.status is None or self.done > self._shown:
            self.show(self.clock())
        self._display.close()


def _running(sequence: Any) -> list[Prefetch[Any]]:
    """Return the nodes of a view or loader that run."""
    views = sequence.nodes() if hasattr(sequence, "nodes") else [sequence]
    nodes = {id(node): node for top in views if isinstance(top, View) for node in walk(top)}
    return [node for node in nodes.values() if isinstance(node, Prefetch) and node.engine.is_running()]


def watch(sequence: Any, report: Any = None, *, interval: float | None = None) -> Watch[Any]:
    """Return an iterable of the same items, with a display of rate, remaining time, waiting and queue.

    Parameters
    ----------
    sequence : View, DataLoader, StreamLoader or iterable
    report : callable, bar or file, optional
        A function of a `Status`, a bar such as that of tqdm, or a text file, which gets lines of JSON. None
        (the default) updates a display in notebooks, and otherwise a line on standard error.
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
        raise TypeError(f"watch: the sequence must be iterable, got {as_given(sequence)}")
    every_s = optional_number(interval, "watch: interval", "seconds") or INTERVAL_S
    if report is not None:
        display_of(report, "watch: report")  # refuses other objects
    return Watch(sequence, report, every_s)


class Watch(Generic[T]):
    """What `watch` returns."""

    def __init__(self, sequence: Any, report: Any, every_s: float) -> None:
        self._sequence = sequence
        self._report, self._every_s = report, every_s
        self._meter: ProgressMeter | None = None

    @property
    def status(self) -> Status | None:
        """The latest status, or None before the first one."""
        return None if self._meter is None else self._meter.status

    def __len__(self) -> int:
        return len(self._sequence)

    def __iter__(self) -> Iterator[T]:
        display = display_of(self._report, "watch: report")
        self._meter = ProgressMeter(self._sequence, display, self._every_s)
        return _Watched(self._sequence, self._meter)

    def __repr__(self) -> str:
        return f"watch({self._sequence!r})" + (f": {self.status}" if self.status else "")


class _Watched(Iterator[T]):
    """One iteration."""

    def __init__(self, sequence: Any, meter: ProgressMeter) -> None:
        self._meter = meter
        self._items: Iterator[T] = iter(sequence)
        meter.total, meter.has_consumer = _length(sequence), True
        meter.begin_at(getattr(self._items, "first_batch", 0))  # of a loader that goes on within an epoch

    def __next__(self) -> T:
        meter = self._meter
        begun = meter.clock()
        if begun >= meter.due_s:
            meter.show(begun)
        try:
            item = next(self._items)
        except Exception as error:
            meter.waited_s += meter.clock() - begun
            if isinstance(error, StopIteration):
                meter.close()
            else:
                meter.done += 1
            raise
        meter.done += 1
        meter.waited_s += meter.clock() - begun
        return item


def _length(sequence: Any) -> int | None:
    try:
        return len(sequence)
    except TypeError:
        return None
