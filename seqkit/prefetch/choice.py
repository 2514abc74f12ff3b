"""Decide on the workers of a node, from measured figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import units
from .figures import SLEEPS, Measured, Speed
from .resources import memory_limit_bytes, usable_cpus
from .settings import Method

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


@dataclass(frozen=True)
class Choice:
    """The workers that were chosen for a node, and why.

    Attributes
    ----------
    method : str
    workers : int
        0 if `method` is "inline".
    max_buffered : int or None
        Set if the items that a node computes ahead by default would exceed the memory.
    why : str
        The reason in sentences, with numbers.
    measured : Measured or None
        The figures, or None if nothing could be measured.
    """

    method: Method
    workers: int
    max_buffered: int | None
    why: str
    measured: Measured | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `prefetch`."""
        if self.method == "inline":
            return {"nworkers": 0}
        ahead = {} if self.max_buffered is None else {"max_buffered": self.max_buffered}
        return {"nworkers": self.workers, "method": self.method, **ahead}

    @property
    def speed(self) -> Speed | None:
        """The items per second of these workers, if they were tried."""
        return None if self.measured is None else self.measured.of(str(self.method))

    @property
    def code(self) -> str:
        """The call of `prefetch`, as text."""
        return f"sk.prefetch(view, {', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


@dataclass(frozen=True)
class WorkerBudget:
    """How many CPUs workers may keep busy, and how many bytes items may take that are computed ahead."""

    cpus: int
    nbytes: float

    @classmethod
    def of_this_process(cls) -> WorkerBudget:
        return cls(usable_cpus(), MEMORY_SHARE * memory_limit_bytes())


def affordable(workers: int, nbytes: int, budget: WorkerBudget) -> int:
    """Return how many workers may each have two items in memory."""
    return max(1, int(min(workers, budget.nbytes // max(2 * nbytes, 1))))


def decided(measured: Measured, budget: WorkerBudget, workers: int | None = None) -> Choice:
    """Choose from figures. `workers` is the number that the user has chosen.

    >>> from seqkit.prefetch.figures import Cost
    >>> cost = Cost(100, 0, 0.02, 0.02, 0.0, 8)
    >>> speeds = Speed("thread", 2, 51.0), Speed("process", 2, 97.0)
    >>> decided(Measured(cost, speeds), WorkerBudget(2, 1e9)).code
    "sk.prefetch(view, nworkers=2, method='process')"
    """
    cost = measured.cost
    if not cost.items or cost.failed == cost.items:
        why = f"Every item failed: {cost.error}." if cost.items else "There are no items."
        return Choice("thread", workers or budget.cpus, None, why, measured)
    best = _best(measured, budget, workers)
    number = workers or affordable(best.workers, cost.nbytes, budget)
    if best.method == "inline":
        number = 0
    ahead = None
    if number and (2 * number + 2) * cost.nbytes > budget.nbytes:  # what a node computes ahead at least
        ahead = max(number, int(budget.nbytes // cost.nbytes))
    why = _why(measured, best, budget)
    if ahead is not None:
        why += f" Items of {units.size(cost.nbytes)} fill the memory: at most {ahead} are computed ahead."
    method: Any = best.method
    return Choice(method, number, ahead, why, measured)


def _best(measured: Measured, budget: WorkerBudget, workers: int | None) -> Speed:
    """Return the method to choose. Threads are preferred to processes, and no workers to slower ones."""
    cost, thread, process = measured.cost, measured.of("thread"), measured.of("process")
    if thread is None:  # an item takes too long to try anything
        number = workers or cost.useful_workers(budget.cpus)
        return Speed("thread" if cost.sleep_share > 0.5 else "process", number, 0.0)
    if cost.items_per_s > 1 / SMALLEST_S:
        return Speed("inline", 0, cost.items_per_s)
    sleeps, busy_cpus = cost.sleep_share >= SLEEPS, thread.items_per_s * cost.cpu_s
    advantage = NOISE if sleeps else ADVANTAGE
    # Above nodes the trial is unjust to processes, which read in long jobs. There, threads must use more than
    # one CPU.
    if measured.is_above_nodes and not sleeps and busy_cpus < 1.2:
        advantage = 1 / 1.5
    # A short trial counts too few items of processes. Sleeping threads that all together keep one CPU busy
    # wait for the lock.
    if measured.holds_lock or (sleeps and 0.5 < busy_cpus < 1.2):
        advantage = 1 / NOISE
    best = process if process and process.items_per_s > advantage * thread.items_per_s else thread
    # Workers that are not faster still work while the consumer does. That is not worth it for tiny items.
    least = ADVANTAGE if cost.cpu_s + cost.asleep_s < TINY_S else 1 / NOISE
    if not measured.is_above_nodes and not sleeps and best.items_per_s < least * cost.items_per_s:
        return Speed("inline", 0, cost.items_per_s)
    return best


def _why(measured: Measured, best: Speed, budget: WorkerBudget) -> str:
    """Return the reason for a choice, in sentences with numbers."""
    cost = measured.cost
    one = cost.items_per_s
    parts = [f"An item takes {units.seconds(1 / one)} in one thread"]
    parts[0] += f" and sleeps {cost.sleep_share:.0%} of it." if cost.sleep_share >= 0.05 else "."
    if not measured.speeds:
        suits = (
            "Threads suit items that sleep"
            if best.method == "thread"
            else "Processes suit items that compute"
        )
        parts.append(f"That is too long to try workers. {suits}.")
    for speed in measured.speeds:
        what = f"{speed.workers} {'processes' if speed.method == 'process' else 'threads'}"
        if speed.workers == 1:
            what = f"1 {speed.method}"
        verb = "is" if speed.workers == 1 else "are"
        found = f"{what} {verb} {units.rounded(speed.items_per_s / one, 2)} times as fast as none"
        parts.append(f"{found} ({units.rounded(speed.items_per_s)} items/s).")
    if measured.lock_share is not None:
        does = "hold" if measured.holds_lock else "release"
        parts.append(f"The functions {does} the interpreter lock.")
    if best.method == "inline":
        parts.append("Handing over an item costs more than the item.")
    elif cost.sleep_share >= 0.2 and best.workers > budget.cpus:
        parts.append(f"More workers than the {budget.cpus} CPUs, because items sleep.")
    return " ".join(parts)
