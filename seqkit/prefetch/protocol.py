"""The interface of a backend, and the jobs and events between a backend and the dispatcher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from .results import Result


# One is made for every item that travels singly. A frozen dataclass would take three times as long to make.
@dataclass(slots=True)
class Job:
    """Indices to evaluate in order. `ticket` counts up from 1 over all jobs of a node.

    A worker ends a job early if the items are slow or large (unless `is_whole`), and delivers the items
    that it has finished. An urgent job runs before the jobs that wait.

    `consumer` and `known` are for a node with one worker, which evaluates the items of each consumer in plan
    order: the number of the consumer, and the consumer's last job that ended early, as far as the dispatcher
    knew. See `PlanOrder`. Other nodes have consumer 0.
    """

    ticket: int
    epoch: int
    indices: Any
    is_whole: bool = False
    is_urgent: bool = False
    consumer: int = 0
    known: int = 0


class PlanOrder:
    """Tells the only worker of a node which jobs to skip, so that items are evaluated in plan order.

    A job that ends early gives back its last items. Later jobs of the same consumer may be in the queue
    already. They are skipped, and submitted again after these items. Until all of them have returned, nothing
    else of this consumer is submitted.

    >>> order = PlanOrder()
    >>> order.ended_early(consumer=1, ticket=3)
    >>> order.skips(consumer=1, known=0), order.skips(consumer=1, known=3), order.skips(consumer=2, known=0)
    (True, False, False)
    """

    MOST = 4096  # consumers to remember; more than jobs can be in flight

    def __init__(self) -> None:
        self._early: dict[int, int] = {}  # the last job that ended early, by consumer

    def skips(self, consumer: int, known: int) -> bool:
        """Return whether to skip a job with these numbers."""
        return known < self._early.get(consumer, 0)

    def ended_early(self, consumer: int, ticket: int) -> None:
        """Note that a job gave back items."""
        if consumer:
            self._early.pop(consumer, None)
            self._early[consumer] = ticket
            if len(self._early) > self.MOST:
                del self._early[next(iter(self._early))]


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

    @abstractmethod
    def start(self) -> None: ...

    def has_room(self) -> bool:
        """Return whether there is memory for the result of another job."""
        return True

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Queue a job. Never blocks within the capacity. If there is no memory, the job goes without.

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

    def await_release(self, timeout_s: float) -> None:
        """Wait until a consumer drops a result that lies in a slot. Called without a lock."""
        raise AssertionError("there are no slots")

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
