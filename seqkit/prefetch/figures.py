"""The figures of a view that `measure` finds, and that `choose` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# From this share of sleep on, more workers than CPUs can be of use, up to this number.
SLEEPS = 0.2
MOST_WORKERS = 32


@dataclass(frozen=True)
class Cost:
    """The cost of an item in one thread, on average.

    Attributes
    ----------
    items, failed : int
        Number of items that were computed, and how many of them failed.
    wall_s, cpu_s, asleep_s : float
        Seconds from begin to end, without waiting for nodes below; seconds of CPU time; seconds that the
        item neither computed nor waited for a CPU.
    nbytes : int
        Estimated size.
    error : str
        The first failure, or "".
    """

    items: int
    failed: int
    wall_s: float
    cpu_s: float
    asleep_s: float
    nbytes: int
    error: str = ""

    @property
    def sleep_share(self) -> float:
        """The share of sleep in the time that an item would take on an idle machine."""
        return self.asleep_s / max(self.cpu_s + self.asleep_s, 1e-9)

    def useful_workers(self, cpus: int) -> int:
        """Return how many workers keep so many CPUs busy: more than there are only if items sleep."""
        if self.sleep_share < SLEEPS:
            return cpus
        wanted = 1.25 * cpus / max(1 - self.sleep_share, 1e-3)
        return min(MOST_WORKERS, -int(-wanted // 1))

    @property
    def items_per_s(self) -> float:
        """The speed without workers, on an idle machine."""
        return 1 / max(self.cpu_s + self.asleep_s, 1e-9)

    def ideal(self, workers: int, cpus: int) -> float:
        """Return the items per second of undisturbed workers, on an idle machine."""
        return min(workers * self.items_per_s, cpus / max(self.cpu_s, 1e-9))


class Speed(NamedTuple):
    """How many items per second the workers of a node compute."""

    method: str
    workers: int
    items_per_s: float


@dataclass(frozen=True)
class Measured:
    """The figures of a view.

    `lock_share` is the share of their time that two threads wait for the interpreter lock: half of it if
    items hold the lock, 0 if they release it, and None if it is not known. `next_start` is the first index
    that was not read.
    """

    cost: Cost
    speeds: tuple[Speed, ...]
    lock_share: float | None = None
    next_start: int = 0
    is_above_nodes: bool = False

    @property
    def compared(self) -> tuple[Speed, ...]:
        """The speed without workers, and those of the workers that were tried."""
        return Speed("inline", 0, self.cost.items_per_s), *self.speeds

    def of(self, method: str) -> Speed | None:
        """Return the speed of "thread", "process" or "inline", if it was measured."""
        return next((speed for speed in self.compared if speed.method == method), None)

    @property
    def holds_lock(self) -> bool:
        """Do items that compute hold the interpreter lock for most of their time?"""
        return self.lock_share is not None and self.lock_share > 0.3
