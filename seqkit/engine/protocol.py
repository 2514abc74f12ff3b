"""The interface of a backend, and the jobs and events between a backend and the dispatcher."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from .results import Result

if TYPE_CHECKING:
    from .stages import StagePlan


# One is made for every item that travels singly. A frozen dataclass would take three times as long to make.
@dataclass(slots=True)
class Job:
    """Indices to evaluate in order. `ticket` counts up from 1 over all jobs of a node.

    A worker ends a job early if the items are slow or large (unless `is_whole`), and delivers the items
    that it has finished. An urgent job runs before the jobs that wait. A timed job has a time limit for each
    item. `order` is the `Backend.order` that the dispatcher knew. `stage` is the consumer's, and `position`
    that of the first index in its plan.
    """

    ticket: int
    epoch: int
    indices: Any
    is_whole: bool = False
    is_urgent: bool = False
    is_timed: bool = False
    order: int = 0
    stage: StagePlan | None = None
    position: int = 0


class PrefetchError(RuntimeError):
    """Says why a node cannot be read, or cannot be read on."""


class Unsendable(Exception):
    """The indices of a job cannot be sent to a worker. `reason` is the error."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Done:
    """The next items of a job, after the items that were delivered before.

    `is_last`: the job is over. Its remaining items were not begun; or, if `is_end`, they do not exist,
    because the sequence ended there. `cost_ns` is the time for evaluating and encoding, in nanoseconds.
    """

    ticket: int
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

    ticket: int
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

    ticket: int


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

        The worker skips the waiting jobs that were submitted before. The dispatcher submits them again after
        the items that come first in the plan.
        """
        return 0

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
    def receive(self, timeout_s: float | None) -> list[Event]:
        """Wait for events or a call of `wake`, at most `timeout_s` seconds."""

    def collect(self) -> list[Event]:
        """Return items of running jobs that were finished before the last call."""
        return []

    @abstractmethod
    def cancel(self, ticket: int) -> None:
        """Skip a job if it has not begun. An event for it still follows."""

    def running_s(self) -> dict[int, float]:
        """Return how many seconds the current item of each running job has taken so far."""
        return {}

    def stop(self, ticket: int) -> None:
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
