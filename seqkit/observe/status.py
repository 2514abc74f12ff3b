"""The state of an iteration: how far it is, its rate, and what its nodes do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..core.units import count, percent, plural, rounded, seconds, size

__all__ = ["Status"]


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
    memory : int
        Resident memory of this process in bytes, 0 if unknown.
    workers, restarts : int
        Number of workers, and of those that were replaced.
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
    memory: int = 0
    workers: int = 0
    restarts: int = 0
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
        if self.memory:
            found["memory"] = size(self.memory)
        if self.restarts:
            found["replaced"] = plural(self.restarts, "worker")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, such as for JSON."""
        return asdict(self)
