"""What every backend does, and the jobs and events between it and the dispatcher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from .results import Result


# Made for every item that travels singly, so not frozen, which takes three times as long.
@dataclass(slots=True)
class Job:
    """Indices to evaluate in order; `ticket` counts up from 1 over all jobs of a node.

    A worker ends a job early when the items turn out slow or large (unless `is_whole`), and delivers what
    it has. A job that is urgent comes before the jobs that wait.
    """

    ticket: int
    epoch: int
    indices: Any
    is_whole: bool = False
    is_urgent: bool = False


class Unsendable(Exception):
    """The indices of a job cannot be sent to a worker; `reason` is the error."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Done:
    """The next items of a job: those behind the ones delivered before.

    `is_last`: the job is over. Items that it still lacks were not begun; or, if `is_end`, do not exist,
    because the sequence ended there. `cost_ns` is the time that evaluating and encoding took, in
    nanoseconds.
    """

    ticket: int
    result: Result
    cost_ns: int
    worker: int | None
    is_last: bool = True
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker was lost at the first undelivered item of a job, `ran_s` seconds after that began.

    `worker` is None for a worker of an executor, which may have been at any item of the job.
    """

    ticket: int
    worker: int | None
    pid: int
    cause: str
    ran_s: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """The undelivered items of a job were not begun: it was cancelled, or lost on its way to a worker."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The node cannot go on: a start hook or the start of all workers failed, or an executor did."""

    worker: int | None
    error: BaseException
    what: str = "could not start"


Event = Done | Lost | Skipped | Failed


class Backend(ABC):
    """Where jobs are evaluated.

    `start`, `submit`, `receive` and `close` are called by one thread at a time; `cancel` and `wake` from any,
    also from a finaliser.
    """

    capacity: int  # most jobs submitted and not yet delivered

    @abstractmethod
    def start(self) -> None: ...

    def has_room(self) -> bool:
        """Is there memory for the result of another job?"""
        return True

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Queue a job; never blocks within the capacity, and does without memory if there is none.

        Raises `Unsendable` if the indices cannot be sent; nothing has happened then.
        """

    def flush(self) -> None:  # noqa: B027  most backends have nothing to do
        """Let the workers see the jobs that were submitted, as far as there are places for them."""

    @abstractmethod
    def receive(self, timeout_s: float | None) -> list[Event]:
        """Wait for events, a call of `wake`, or until `timeout_s` have passed."""

    def collect(self) -> list[Event]:
        """Return the items that were finished before the last call, of jobs that are still running."""
        return []

    def await_release(self, timeout_s: float) -> None:
        """Wait until a consumer drops a result that lies in a slot; called without a lock."""
        raise AssertionError("there are no slots")

    @abstractmethod
    def cancel(self, ticket: int) -> None:
        """Skip a job if it has not begun. Some event still follows."""

    def running_s(self) -> dict[int, float]:
        """Return for how many seconds the current item of each running job has been evaluated."""
        return {}

    def stop(self, ticket: int) -> None:
        """End the worker that runs a job; a `Lost` event with `timed_out` follows."""
        raise AssertionError("its workers cannot be stopped")

    def is_worker(self) -> bool:
        """Is the calling thread a worker?"""
        return False

    @abstractmethod
    def wake(self) -> None: ...

    def statistics(self) -> dict[str, int]:
        """Return the backend's share of `Statistics`."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """End the workers and give back everything but leased memory; idempotent."""


def drained(queue: SimpleQueue[Any], timeout_s: float | None) -> list[Any]:
    """Wait for something in a queue, and return everything in it but None."""
    arrived: list[Any] = []
    try:  # not a context manager, which would take as long as all the rest
        arrived.append(queue.get(timeout=timeout_s))
        while True:
            arrived.append(queue.get_nowait())
    except Empty:
        pass
    return [it for it in arrived if it is not None]
