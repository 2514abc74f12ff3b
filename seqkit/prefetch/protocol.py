"""The Protocol every backend meets, and what travels between it and the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from .results import Outcomes

__all__ = [
    "Backend",
    "Done",
    "Event",
    "Failed",
    "Job",
    "Joint",
    "Lost",
    "Parcel",
    "Skipped",
    "Unjoined",
    "drained",
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


class Unjoined(Exception):
    """The pieces of a batch do not go together: it is to be asked for once more."""


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
