"""The interface of a backend, and the consumers, jobs and events that it shares with the scheduler."""

from __future__ import annotations

import math
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from .results import Result
from .window import Chunk, ChunkWindow


class PrefetchError(RuntimeError):
    """Says why a node cannot be read, or cannot be read on."""


class Unsendable(Exception):
    """The indices of a job cannot be sent to a worker. `reason` is the error."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


class LowerPlan(Protocol):
    """Lets the nodes below work ahead in the plan of a consumer (see `stages.py`)."""

    def prepare(self) -> None: ...
    def items(self, position: int) -> Callable[[Any, Any], None]: ...
    def skip(self, positions: list[int]) -> None: ...
    def close(self) -> None: ...


class Consumer:
    """A consumer's window and its jobs in flight. Kept after its reader is gone until the jobs return.

    It does not refer to the scheduler, so that a forgotten node ends at once.
    """

    __slots__ = (
        "dropped",
        "epoch",
        "jobs",
        "limit_s",
        "most_per_item",
        "stages",
        "urgent",
        "watches",
        "window",
    )

    def __init__(
        self, window: ChunkWindow, epoch: Any, stage: LowerPlan | None = None, limit_s: float = math.inf
    ) -> None:
        self.window = window
        self.epoch = epoch
        self.limit_s = limit_s  # how long an item may take
        self.stages = [] if stage is None else [stage]  # a list, which callbacks may hold
        self.most_per_item = 0  # how many of its items an item of the node above takes
        self.jobs: dict[int, Job] = {}  # by ticket
        self.urgent = 0  # how many of them are urgent
        self.watches: list[weakref.ref[object]] = []
        self.dropped = False

    @property
    def stage(self) -> LowerPlan | None:
        return next(iter(self.stages), None)  # another thread may empty the list


class JobProgress(Protocol):
    """How far a worker, which has this number, is with a job."""

    @property
    def worker(self) -> int | None: ...

    def finished(self) -> int:
        """Return how many items are finished."""

    def take(self, first: int, stop: int) -> Result:
        """Return finished items, from the first that was not taken yet."""

    def ran_s(self) -> float | None:
        """Return how long the current item has run, in seconds, or None if no item has begun."""


class Job:
    """One attempt at a chunk.

    A worker ends a job early if the items are slow or large, and delivers the items that it has finished. A
    whole job ends early only if an urgent job waits or its block is full. Urgent jobs run before the others.

    Attributes
    ----------
    ticket : int
        The number of the job. It counts up from 1 over all jobs of a node.
    consumer : Consumer
    chunk : Chunk
        The items that were not delivered yet.
    indices : range, array or list
        The indices to evaluate, in order.
    is_whole, is_urgent : bool
    order : int
        The `Backend.order` that the scheduler knew.
    is_cancelled : bool
        Whether the job is to be skipped if it has not begun.
    progress : JobProgress or None
        Set by the backend while a worker may be at the job.
    seen, delivered : int
        How many items were finished at the last look, and how many of these were delivered.
    """

    __slots__ = (
        "chunk",
        "consumer",
        "delivered",
        "indices",
        "is_cancelled",
        "is_urgent",
        "is_whole",
        "order",
        "progress",
        "seen",
        "ticket",
    )

    def __init__(
        self,
        ticket: int,
        consumer: Consumer,
        chunk: Chunk,
        is_whole: bool = False,
        is_urgent: bool = False,
        order: int = 0,
    ) -> None:
        self.ticket = ticket
        self.consumer = consumer
        self.chunk = chunk
        self.indices = chunk.indices
        self.is_whole = is_whole
        self.is_urgent = is_urgent
        self.order = order
        self.is_cancelled = False
        self.progress: Any = None
        self.seen = self.delivered = 0

    @property
    def is_timed(self) -> bool:
        """Whether each item has a time limit."""
        return self.consumer.limit_s < math.inf

    def is_wanted(self) -> bool:
        return not (self.consumer.dropped or self.chunk.dropped)

    def taken(self, stop: int) -> list[Event]:
        """Return the event of the finished items before a position, if some of these were not delivered."""
        if stop <= self.delivered:
            return []
        result = self.progress.take(self.delivered, stop)
        self.delivered = stop
        return [Done(self, result, 0, self.progress.worker, is_last=False)]


@dataclass(slots=True)
class Done:
    """The next items of a job, after the items that were delivered before.

    `is_last`: the job is over. Its remaining items were not begun; or, if `is_end`, they do not exist,
    because the sequence ended there. `cost_ns` is the time for evaluating and encoding, in nanoseconds.
    """

    job: Job
    result: Result
    cost_ns: int
    worker: int | None
    is_last: bool = True
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker was lost at the first undelivered item of a job, `ran_s` seconds after the item began.

    `worker` is None for a worker of an executor. That worker may have been at any item of the job. `hint`
    continues the sentence about a death that was not a time-out. `stack` is where a worker was that took too
    long, if that is known.
    """

    job: Job
    worker: int | None
    pid: int
    cause: str
    ran_s: float
    timed_out: bool = False
    hint: str = ""
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The undelivered items of a job were not begun: the job was cancelled, or lost on the way to a
    worker."""

    job: Job


@dataclass(frozen=True, slots=True)
class Failed:
    """The node cannot go on. A start hook failed, no worker could start, or an executor failed."""

    worker: int | None
    error: BaseException
    what: str = "could not start"


Event = Done | Lost | Skipped | Failed


class Backend(ABC):
    """Where jobs are evaluated.

    `start`, `submit`, `receive` and `close` are called by one thread at a time. `cancel` and `wake` are
    called by any thread, and by finalisers.
    """

    capacity: int  # most jobs submitted and not yet delivered
    most_items = sys.maxsize  # most items of a job
    keeps_order = False  # whether there is one worker, which evaluates items in plan order

    @property
    def order(self) -> int:
        """With `keeps_order`, a number that rises when the worker gives back items, or is replaced.

        The worker skips the waiting jobs that were submitted before. The scheduler submits them again after
        the items that come first in the plan.
        """
        raise AssertionError("it has several workers")

    @abstractmethod
    def start(self) -> None: ...

    def has_room(self) -> bool:
        """Return whether there is memory for the result of another job."""
        return True

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Queue a job. Never blocks within the capacity. Call `has_room` first.

        Raises `Unsendable` if the indices cannot be sent. The job is not queued then.
        """

    def flush(self) -> None:  # noqa: B027  most backends have nothing to do
        """Make submitted jobs visible to the workers, up to the number of free places."""

    @abstractmethod
    def receive(self, timeout_s: float) -> list[Event]:
        """Wait for events or a call of `wake`, at most `timeout_s` seconds."""

    def cancel(self, job: Job) -> None:  # noqa: B027  threads read `Job.is_cancelled`
        """Tell the workers that a job is cancelled. If it has not begun, an event for it still follows."""

    def stop(self, job: Job) -> None:
        """End the worker that runs a job. A `Lost` event with `timed_out` follows."""
        raise AssertionError("its workers cannot be stopped")

    def is_worker(self) -> bool:
        """Return whether the calling thread is a worker."""
        return False

    @abstractmethod
    def wake(self) -> None: ...

    def tasks(self) -> list[str]:
        """Return the folders of the workers below /proc, as far as they are known (for `measure`)."""
        return []

    def statistics(self) -> dict[str, int]:
        """Return the figures of `Statistics` that the backend counts."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """End the workers and free everything except leased memory. Idempotent."""


def drained(queue: SimpleQueue[Any], timeout_s: float | None) -> list[Any]:
    """Wait for an entry of a queue. Return all entries except None."""
    arrived: list[Any] = []
    try:  # a context manager would double the run time
        arrived.append(queue.get(timeout=timeout_s))
        while True:
            arrived.append(queue.get_nowait())
    except Empty:
        pass
    return [it for it in arrived if it is not None]
