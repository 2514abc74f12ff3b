"""`watch`: iterate a view or a loader, with a display that updates itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic

from ..core.arguments import optional_number
from ..core.errors import as_given
from ..core.view import T
from .live import display_of
from .progress_meter import INTERVAL_S, ProgressMeter
from .status import Status

__all__ = ["Watch", "watch"]


def watch(sequence: Any, report: Any = None, *, interval: float | None = None) -> Watch[Any]:
    """Return an iterable of the same items, with a display of rate, remaining time, waiting and queue.

    Parameters
    ----------
    sequence : View, DataLoader, StreamLoader or iterable
    report : callable, bar or file, optional
        A function of a `Status`, a bar such as that of tqdm or its class, or a text file, which gets lines of
        JSON. None (the default) updates a display in notebooks, and otherwise a line on standard error.
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
