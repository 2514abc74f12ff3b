"""Decide on the workers of a node, from measured figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core import units
from ..prefetch.resources import memory_limit_bytes

__all__ = ["Choice", "Cost", "Measured", "Speed", "affordable", "decided"]

# From this share of sleep on, more workers than CPUs can be of use, up to this number.
SLEEPS = 0.2
MOST_WORKERS = 32
# The share of the memory limit that items computed ahead may take.
MEMORY_SHARE = 0.25
# Threads are chosen up to this advantage of processes, and workers at all from this advantage on.
ADVANTAGE = 1.1
# Speeds of items that sleep are measured as they are. A smaller difference between them is noise.
NOISE = 1.25
# Handing over an item takes about as long. No worker makes smaller ones faster.
SMALLEST_S = 1e-6
# Items below this cost about as much as handing them over.
TINY_S = 20e-6
# Two threads wait for the interpreter lock for more than this share of their time if items hold it.
HOLDS = 0.3


@dataclass(frozen=True)
class Cost:
    """The cost of an item in one thread, on average.

    Attributes
    ----------
    items, failed : int
        Number of items that were computed, and how many of them failed.
    cpu_s, asleep_s : float
        Seconds of CPU time; seconds that the item neither computed nor waited for a CPU or a node below.
    nbytes : int
        Estimated size.
    error : str
        The first failure, or "".
    """

    items: int
    failed: int
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
        return self.lock_share is not None and self.lock_share > HOLDS


@dataclass(frozen=True)
class Choice:
    """The workers that were chosen for a node, and why.

    Attributes
    ----------
    method : str
    workers : int
        0 if `method` is "inline".
    why : str
        The reason in sentences.
    measured : Measured or None
        The figures, or None if nothing could be measured.
    """

    method: str
    workers: int
    why: str
    measured: Measured | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `prefetch`."""
        return (
            {"nworkers": self.workers, "method": self.method} if self.method != "inline" else {"nworkers": 0}
        )


def affordable(workers: int, nbytes: int) -> int:
    """Return how many workers may each have two items in memory."""
    return max(1, int(min(workers, MEMORY_SHARE * memory_limit_bytes() // max(2 * nbytes, 1))))


def decided(measured: Measured, cpus: int, workers: int | None = None) -> Choice:
    """Choose from figures. `workers` is the number that the user has chosen.

    >>> cost = Cost(100, 0, 0.02, 0.0, 8)
    >>> speeds = Speed("thread", 2, 51.0), Speed("process", 2, 97.0)
    >>> decided(Measured(cost, speeds), 2).settings
    {'nworkers': 2, 'method': 'process'}
    """
    cost = measured.cost
    if not cost.items or cost.failed == cost.items:
        why = f"Every item failed: {cost.error}." if cost.items else "There are no items."
        return Choice("thread", workers or cpus, why, measured)
    best, reason = _best(measured, cpus, workers)
    number = 0 if best.method == "inline" else workers or affordable(best.workers, cost.nbytes)
    sleeps = f" and sleeps {units.percent(cost.sleep_share)} of it" if cost.sleep_share >= 0.05 else ""
    one = f"An item takes {units.seconds(1 / cost.items_per_s)} in one thread{sleeps}."
    return Choice(best.method, number, f"{one} {reason}".strip(), measured)


def _best(measured: Measured, cpus: int, workers: int | None) -> tuple[Speed, str]:
    """Return the method to choose, and why. Threads are preferred to processes, no workers to slower ones."""
    cost, thread, process = measured.cost, measured.of("thread"), measured.of("process")
    none = Speed("inline", 0, cost.items_per_s)
    tiny = "Handing over an item costs about as much as the item."
    if thread is None:  # an item takes too long to try anything
        number, sleeps = workers or cost.useful_workers(cpus), cost.sleep_share > 0.5
        suits = "Threads suit items that sleep." if sleeps else "Processes suit items that compute."
        method = "thread" if sleeps else "process"
        return Speed(method, number, 0.0), f"That is too long to try workers. {suits}"
    if cost.items_per_s > 1 / SMALLEST_S:
        return none, tiny
    sleeps, busy_cpus = cost.sleep_share >= SLEEPS, thread.items_per_s * cost.cpu_s
    advantage, slower = (NOISE if sleeps else ADVANTAGE), ""
    # Above nodes the trial is unjust to processes, which read in long jobs. There, threads must use more than
    # one CPU.
    if measured.is_above_nodes and not sleeps and busy_cpus < 1.2:
        advantage, slower = 1 / 1.5, "Above other nodes, a short trial counts too few items of processes."
    # A short trial counts too few items of processes. Sleeping threads that all together keep one CPU busy
    # wait for the lock.
    if measured.holds_lock or (sleeps and 0.5 < busy_cpus < 1.2):
        advantage, slower = 1 / NOISE, "Threads wait for the interpreter lock, and processes warm up slowly."
    best = process if process and process.items_per_s > advantage * thread.items_per_s else thread
    # Workers that are not faster still work while the consumer does. That is not worth it for tiny items.
    least = ADVANTAGE if cost.cpu_s + cost.asleep_s < TINY_S else 1 / NOISE
    if not measured.is_above_nodes and not sleeps and best.items_per_s < least * cost.items_per_s:
        return none, tiny
    reasons = ["The functions hold the interpreter lock."] * measured.holds_lock
    if sleeps and best.workers > cpus:
        reasons.append(f"More workers than the {cpus} CPUs, because items sleep.")
    if best is thread and process and process.items_per_s > thread.items_per_s:
        reasons.append("Processes were not faster by more than the noise, and threads copy nothing.")
    elif best is process and process.items_per_s < thread.items_per_s:
        reasons.append(slower)
    if best.items_per_s < cost.items_per_s:
        reasons.append("Workers compute while the consumer does its own work.")
    return best, " ".join(reasons)
