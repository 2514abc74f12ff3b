"""Try threads and processes on a view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.view import View
from .figures import SLEEPS, Cost, Measured, Speed
from .measure import cost_of, lock_share_of, use_of
from .settings import Settings

# The share of the measuring time for the cost of items. The rest is for threads, and for processes.
COST_SHARE = 0.25
# How long to look for waits for the interpreter lock. A busy machine takes a part of it.
LEAST_LOCK_S = 0.1


@dataclass(frozen=True)
class CostAndThreads:
    """Measure the cost of items, then the speed of useful threads. Called with a view in a child.

    `workers` is their number, if the user has chosen it.
    """

    settings: Settings
    seconds: float
    cpus: int
    workers: int | None

    def __call__(self, view: View[Any]) -> Measured:
        cost, start = cost_of(view, 0, COST_SHARE * self.seconds)
        if cost.failed == cost.items or 1 / cost.items_per_s > self.seconds / 2:
            return Measured(cost, (), None, start, view._reads_ahead)
        found = Measured(cost, (), None, start, view._reads_ahead)
        if is_accountable(view, cost):
            share, start = lock_share_of(view, start, max(LEAST_LOCK_S, COST_SHARE / 2 * self.seconds))
            found = Measured(cost, (), share, start)
        workers = self.workers or cost.useful_workers(self.cpus)
        return tried(view, self.settings, "thread", workers, self.seconds, self.cpus, found)


def tried(
    view: View[Any], settings: Settings, method: Any, workers: int, seconds: float, cpus: int, found: Measured
) -> Measured:
    """Try a method, and return the figures with its speed. On an idle machine, if items compute."""
    length = (1 - COST_SHARE) / 2 * seconds
    use, start = use_of(view, settings, method, workers, found.next_start, length)
    speed = use.items_per_s
    if is_accountable(view, found.cost) and use.worker_s:
        at_once = 1 if method == "thread" and found.holds_lock else min(workers, cpus)
        worker_s = max(use.worker_s, found.cost.cpu_s)  # workers may have begun items that are not counted
        both_s = worker_s + use.consumer_s
        speed = min(at_once / worker_s, (1 if at_once == 1 else cpus) / both_s, 1 / use.consumer_s)
    return replace(found, speeds=(*found.speeds, Speed(method, workers, speed)), next_start=start)


def is_accountable(view: View[Any], cost: Cost) -> bool:
    """Does the speed follow from CPU times? Other programs do not change these. Not if items wait."""
    return cost.sleep_share < SLEEPS and not view._reads_ahead
