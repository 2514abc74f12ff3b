"""Log a line after every N items: how fast a node is, and whether its workers or its consumers are slower.

Guarantees
----------
- Without the environment variable, nothing is measured or logged.

Relies on
---------
- `Statistics` never goes back, for any consumer.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

from ..core.display import facts_as_html
from ..core.units import count, seconds, size

_log = logging.getLogger("seqkit.prefetch")


@dataclass(frozen=True)
class Statistics:
    """The work of a prefetch node since its workers started.

    Attributes
    ----------
    items : int
        Items handed to consumers, including failed items.
    jobs : int
        Jobs delivered by workers. A job carries one item or a chunk of small items.
    restarts : int
        Workers replaced after a death or a timeout.
    waited_ns : int
        Time that consumers waited for workers, in nanoseconds.
    worked_ns : int
        Time that workers spent evaluating and encoding, in nanoseconds, summed over all workers.
    nbytes : int
        Bytes received through shared memory or pipes.
    copies : int
        Results copied out of their slot because too few slots were free.
    misses : int
        Results sent through a pipe because they did not fit a slot, or had no slot.
    slots, leased, retired : int
        Number of slots; slots that consumers' arrays hold now; slots whose memory a worker kept.
    slot_bytes : int
        Size of a slot.
    chunk : int
        Items per job at present.
    """

    items: int = 0
    jobs: int = 0
    restarts: int = 0
    waited_ns: int = 0
    worked_ns: int = 0
    nbytes: int = 0
    copies: int = 0
    misses: int = 0
    slots: int = 0
    leased: int = 0
    retired: int = 0
    slot_bytes: int = 0
    chunk: int = 1

    _repr_html_ = facts_as_html

    def __repr__(self) -> str:
        _, facts = self._facts()
        return f"Statistics({', '.join(f'{name}: {text}' for name, text in facts)})"

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the figures in readable units, without those of events that did not occur."""
        busy = self.waited_ns + self.worked_ns > 0
        found = [("items", count(self.items)), ("jobs", count(self.jobs)), ("chunk", count(self.chunk))]
        found += [("waited", seconds(self.waited_ns / 1e9)), ("worked", seconds(self.worked_ns / 1e9))] * busy
        found += [("received", size(self.nbytes))] * (self.nbytes > 0)
        if self.slots:
            free = self.slots - self.leased - self.retired
            found.append(("slots", f"{count(self.slots)} of {size(self.slot_bytes)}, {count(free)} free"))
        events = (("restarts", self.restarts), ("copies", self.copies), ("misses", self.misses))
        return "Statistics", [*found, *((name, count(n)) for name, n in events if n)]


class Counts(Protocol):
    """The figures of `Statistics` that a progress line uses."""

    @property
    def items(self) -> int: ...
    @property
    def waited_ns(self) -> int: ...
    @property
    def worked_ns(self) -> int: ...


def items_per_line() -> int:
    """Return the value of the environment variable ``SEQKIT_LOG_EVERY``; 0 means no lines."""
    text = os.environ.get("SEQKIT_LOG_EVERY", "0")
    if not text.isdecimal():
        raise ValueError(f"prefetch: SEQKIT_LOG_EVERY must be a number of items, 0 for none, got {text!r}")
    return int(text)


class ProgressLog:
    """Log the progress since the last line, after every `every` items."""

    def __init__(self, every: int, workers: int) -> None:
        self._every = every
        self._workers = workers
        self._due = every
        self._items = self._waited_ns = self._worked_ns = 0
        self._since_ns = perf_counter_ns()

    def is_due(self, items: int) -> bool:
        return items >= self._due

    def log(self, now: Counts) -> None:
        time_ns = perf_counter_ns()
        taken_ns = max(time_ns - self._since_ns, 1)
        waited = (now.waited_ns - self._waited_ns) / taken_ns
        worked = (now.worked_ns - self._worked_ns) / taken_ns / self._workers
        _log.info(
            "prefetch: %d items, %.0f per second; readers waited %.0f %% of the time, workers worked %.0f %%:"
            " %s",
            now.items,
            (now.items - self._items) / taken_ns * 1e9,
            100 * waited,
            100 * worked,
            _slower(waited, worked),
        )
        self._items, self._waited_ns, self._worked_ns = now.items, now.waited_ns, now.worked_ns
        self._since_ns = time_ns
        self._due = now.items + self._every


def _slower(waited: float, worked: float) -> str:
    """Name the slower side, from the shares of time that consumers waited and workers worked."""
    if waited > 0.5:
        return "the workers are the slower side" if worked > 0.5 else "handing over is the slower side"
    return "the reader is the slower side" if worked < 0.5 else "both sides are busy"
