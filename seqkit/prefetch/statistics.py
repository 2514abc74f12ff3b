"""A line in the log every so many items: how fast a node is, and which side of it is the slower one.

Guarantees
----------
- without the environment variable nothing is measured or logged.

Relies on
---------
- `Statistics` counting on, whoever reads.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

_log = logging.getLogger("seqkit.prefetch")


@dataclass(frozen=True)
class Statistics:
    """What a prefetch node has done since its workers started.

    Attributes
    ----------
    items : int
        Items handed to readers, failed ones included.
    jobs : int
        Jobs delivered by workers; a job carries one item or a chunk of small ones.
    restarts : int
        Workers replaced after a death or a timeout.
    waited_ns : int
        Time readers spent waiting for workers, in nanoseconds.
    worked_ns : int
        Time workers spent evaluating and encoding, in nanoseconds, all workers together.
    nbytes : int
        Bytes that came through shared memory or pipes.
    copies : int
        Results copied out of their slot because slots ran short.
    misses : int
        Results that travelled through a pipe because they did not fit a slot, or had none.
    slots, leased, retired : int
        Slots in all; those now held by readers' arrays; those a worker kept memory of.
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


class Counts(Protocol):
    """The part of `Statistics` that is looked at."""

    @property
    def items(self) -> int: ...
    @property
    def waited_ns(self) -> int: ...
    @property
    def worked_ns(self) -> int: ...


def items_per_line() -> int:
    """Return what the environment variable ``SEQKIT_LOG_EVERY`` asks for; 0 for no lines at all."""
    text = os.environ.get("SEQKIT_LOG_EVERY", "0")
    if not text.isdecimal():
        raise ValueError(f"prefetch: SEQKIT_LOG_EVERY must be a number of items, 0 for none, got {text!r}")
    return int(text)


class Progress:
    """Logs every `every` items what happened since the line before."""

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
    """Say which side holds the other up, from the shares of time that each side was so."""
    if waited > 0.5:
        return "the workers are the slower side" if worked > 0.5 else "handing over is the slower side"
    return "the reader is the slower side" if worked < 0.5 else "both sides are busy"
