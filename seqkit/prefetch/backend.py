"""The Protocol every backend meets, and what travels between it and the dispatcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from ..indices import Unsized
from ..view import View
from .hooks import leave_fork
from .outcome import Outcomes, collect

__all__ = [
    "Backend",
    "Carrier",
    "Done",
    "Evaluator",
    "Event",
    "Failed",
    "Job",
    "Joint",
    "Lost",
    "Parcel",
    "Ready",
    "Skipped",
    "Unjoined",
    "Unreadable",
    "Unsendable",
    "concatenated",
    "drained",
    "size_of",
]


# Made for every item that travels singly, so not frozen, which takes three times as long.
@dataclass(slots=True)
class Job:
    """Indices to evaluate: `ticket` counts up from 1 over all jobs of a node.

    Jobs for the pieces of one batch write into one piece of memory, `joint`, if there is any.
    """

    ticket: int
    epoch: int
    indices: Any
    joint: Joint | None = None


class Joint(Protocol):
    """Memory for an array that several jobs write, each some rows of it."""

    nbytes: int
    outlived: bool  # did a worker keep memory of it beyond its job?

    def is_intact(self) -> bool:
        """Have all jobs written where the others expect them to? Else some rows may be overwritten."""

    def unite(self, arrays: list[Any]) -> Any:
        """Return arrays as one, row behind row, without a copy where they lie so in memory.

        ValueError where their rows differ.
        """

    def forget(self) -> None:
        """Everything is decoded: from now on only arrays hold the memory."""


class Carrier(Exception):
    """Takes an error, its `reason`, through the engine to who deals with it; no reader ever sees it."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


class Unreadable(Carrier):
    """User code that unpickles a result has failed."""


class Unjoined(Exception):
    """The pieces of a batch do not go together: it is to be asked for once more."""


class Unsendable(Carrier):
    """The indices of a job cannot be sent to a worker."""


class Parcel(Protocol):
    """The outcomes of a job, wherever they lie."""

    @property
    def nbytes(self) -> int | None:
        """About how much memory they take; None where that is unknown."""

    def must_copy(self) -> bool:
        """Would `claim` copy, since readers hold as much shared memory as they may (lock held)?"""

    def claim(self) -> None:
        """Make the memory the reader's own, by a lease or a copy (dispatcher's lock held)."""

    def open(self) -> Outcomes:
        """Return the outcomes, after `claim` (no lock held: decoding may take a while).

        Raises `Unreadable` or `Unjoined`.
        """

    def detach(self) -> bool:
        """Copy out of shared memory; say whether there was anything to copy (lock held)."""

    def discard(self) -> None:
        """Nobody wants it (lock held)."""


@dataclass(slots=True)
class Done:
    """A job came back; `cost_ns` is what evaluating and encoding it took, in nanoseconds."""

    ticket: int
    parcel: Parcel
    cost_ns: int
    worker: int | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker that was at a job is gone, `ran_s` seconds after it began; None: one of an executor."""

    ticket: int
    worker: int | None
    pid: int
    cause: str
    ran_s: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nobody began a job: it was cancelled, or lost on the way to a worker."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The node cannot go on: a start hook or the start of a worker failed; or an executor, with no worker."""

    worker: int | None
    error: BaseException
    what: str = "could not start"


Event = Done | Lost | Skipped | Failed


class Backend(Protocol):
    """Where jobs are evaluated.

    `start`, `submit`, `receive` and `close` are called by one thread at a time; `cancel` and `wake` from any,
    also from a finaliser.
    """

    capacity: int  # most jobs submitted and not yet delivered

    def start(self) -> None: ...

    def ready(self) -> bool:
        """Is there memory for the result of another job?"""

    def submit(self, job: Job) -> None:
        """Queue a job; never blocks within the capacity, and does without memory if there is none.

        Raises `Unsendable` if that cannot be; nothing has happened then.
        """

    def flush(self) -> None:
        """Let the workers see the jobs that were submitted."""

    def joint(self, jobs: int) -> Joint | None:
        """Return memory that so many jobs will share, or None where there is none to be had."""

    def receive(self, timeout: float | None) -> list[Event]:
        """Wait for events, a call of `wake`, or until `timeout` seconds have passed."""

    def cancel(self, ticket: int) -> None:
        """Nobody waits for this job any more: skip it if it has not begun. Some event still follows."""

    def running_s(self) -> dict[int, float]:
        """Return for how many seconds each job that a worker has begun has been running."""

    def stop(self, ticket: int) -> None:
        """End the worker that runs a job; a `Lost` event with `timed_out` follows."""

    def wake(self) -> None: ...

    def is_worker(self) -> bool:
        """Is it a worker in whose thread this is asked?"""

    def statistics(self) -> dict[str, int]:
        """Return the backend's share of `Statistics`."""

    def close(self) -> None:
        """End the workers and give back everything but leased memory; idempotent."""


@dataclass(slots=True)
class Ready:
    """A parcel whose outcomes are ordinary objects already."""

    outcomes: Outcomes
    nbytes: int | None = 0

    @classmethod
    def sized(cls, outcomes: Outcomes) -> Ready:
        """Return the parcel of outcomes that take as much memory as the first one says."""
        values = outcomes.values
        size = size_of(values[0]) if values else 0
        return cls(outcomes, None if size is None else size * len(values))

    def must_copy(self) -> bool:
        return False

    def claim(self) -> None:
        pass

    def open(self) -> Outcomes:
        return self.outcomes

    def detach(self) -> bool:
        return False

    def discard(self) -> None:
        pass


def drained(queue: SimpleQueue[Any], timeout: float | None) -> list[Any]:
    """Wait for something in a queue, and return all there is; None stands for nothing."""
    arrived: list[Any] = []
    try:  # by no context manager, which would take as long as all the rest
        arrived.append(queue.get(timeout=timeout))
        while True:
            arrived.append(queue.get_nowait())
    except Empty:
        pass
    return [it for it in arrived if it is not None]


Settle = Callable[[Iterator[Any]], Iterator[Any]]


class Evaluator:
    """The pipeline of a node as a worker holds it, at whatever epoch a job asks for.

    In the reader's own process and thread, Ctrl-C, exits and forks are the reader's.
    """

    def __init__(self, pipeline: View[Any], in_worker: bool = True) -> None:
        self._pipeline = pipeline
        self._epoch = -1
        self.keyed = pipeline
        self._caught = BaseException if in_worker else Exception
        self._pid = os.getpid() if in_worker else None

    def run(self, epoch: int, indices: Any, settle: Settle = iter) -> Outcomes:
        """Evaluate the items of a job; whatever fails, the job has an outcome for each of them.

        `settle` is laid over the iterator of items, and sees each of them when it is made. An item may come
        back in a process that it forked: see `leave_if_forked`.
        """
        count = len(indices)
        try:
            pipeline = self._at(epoch)
            items = settle(pipeline._iter(indices))
        except self._caught as error:
            self.leave_if_forked(error)
            return Outcomes([None] * count, dict.fromkeys(range(count), error))
        outcomes = collect(items, count, self._caught, self.leave_if_forked)
        if len(outcomes.values) < count and not isinstance(pipeline._n, Unsized):
            missing = range(len(outcomes.values), count)
            early = RuntimeError(f"{pipeline._name}: its iteration ended {len(missing)} items early")
            outcomes.failures.update(dict.fromkeys(missing, early))
            outcomes.values.extend([None] * len(missing))
        return outcomes

    def leave_if_forked(self, error: BaseException | None = None) -> None:
        """End here if an item has forked this process: the worker goes on in the other one.

        For a worker to call before it tells anybody of its outcomes.
        """
        if self._pid is not None and os.getpid() != self._pid:
            leave_fork(error)

    def _at(self, epoch: int) -> View[Any]:
        """Key the pipeline for an epoch; -1 is the pipeline as it was given."""
        if epoch != self._epoch:
            self.keyed = self._pipeline if epoch < 0 else self._pipeline._at_epoch(epoch)
            self._epoch = epoch
        return self.keyed


def size_of(value: Any) -> int | None:
    """Return about how many bytes a value takes; None where nobody can tell.

    >>> size_of((np.zeros(10), [np.zeros(20)] * 3)), size_of({"x": object()})
    (560, None)
    """
    try:
        return _size_of(value, _LOOKED_INTO)
    except BaseException:  # it is user code that answers
        return None


def _size_of(value: Any, depth: int) -> int | None:
    if isinstance(value, bool | int | float | complex | str | bytes | bytearray | None):
        return sys.getsizeof(value)
    if isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        sizes = [_size_of(part, depth - 1) if depth else None for part in islice(parts, _LOOKED_AT)]
        known = [size for size in sizes if size is not None]
        return None if len(known) < len(sizes) else sum(known) * len(value) // max(len(known), 1)
    nbytes = getattr(value, "nbytes", None)  # of arrays and tensors
    return nbytes if isinstance(nbytes, int) else None


_LOOKED_AT = 8  # parts of a large collection
_LOOKED_INTO = 3  # collections in one another


def concatenated(arrays: list[Any]) -> Any:
    """Return arrays as one, row behind row; ValueError where rows differ."""
    first = arrays[0]
    if any(
        type(a) is not np.ndarray or a.dtype != first.dtype or a.shape[1:] != first.shape[1:] for a in arrays
    ):
        raise ValueError("arrays of different kinds")
    return np.concatenate(arrays)
