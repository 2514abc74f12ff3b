"""Choose the workers of a node, for `tune`, `profile` and ``method="auto"``.

No item is computed in the caller's process: a worker process measures, which is killed if it takes too long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.view import View
from ..core.worker import in_process_worker
from ..prefetch.engine import why_not_here
from ..prefetch.node import prefetch
from ..prefetch.resources import usable_cpus
from ..prefetch.settings import Context, Settings
from .choice import SLEEPS, Choice, Cost, Measured, Speed, affordable, decided
from .measure import cost_of, lock_share_of, use_of
from .remedy import one_shot_of

__all__ = ["MEASURING_S", "choose", "settled"]

_log = logging.getLogger("seqkit.prefetch")

# How long `tune` and `profile` measure, without the start of the processes that measure.
MEASURING_S = 1.0
# How long `method="auto"` measures.
AUTO_S = 0.4
# With nodes below it takes longer, because processes read these in long jobs.
AUTO_STAGES_S = 1.2
# Threads that reach this share of their ideal are not compared with processes.
GOOD = 0.85
# The share of the measuring time for the cost of items. The rest is for threads, and for processes.
COST_SHARE = 0.25
# How long to look for waits for the interpreter lock. A busy machine takes a part of it.
LEAST_LOCK_S = 0.1
# A process that measures is killed after this multiple of the measuring time, and at least this many seconds.
PATIENCE = 4
LEAST_LIMIT_S = 2.0


def settled(source: View[Any], settings: Settings) -> tuple[Settings, Choice]:
    """Return the settings of a node with ``method="auto"``, once chosen, and the choice."""
    workers = None if settings.chooses_workers else settings.workers
    choice = choose(source, settings, AUTO_STAGES_S if source._reads_ahead else AUTO_S, workers)
    _log.info("prefetch: auto chose %s. %s", choice.settings, choice.why)
    method: Any = choice.method
    return replace(settings, method=method, workers=choice.workers), choice


def choose(source: View[Any], settings: Settings, seconds: float, workers: int | None = None) -> Choice:
    """Measure for some seconds, and choose. `workers` is the number that the user has chosen."""
    if reason := _obstacle(source):
        return Choice("thread", settings.workers, f"Not measured, because {reason}.")
    if source._readers == 1:
        return Choice("thread", 1, "Not measured: one worker reads a stream.")
    cpus = usable_cpus()
    try:
        work = CostAndThreads(settings, seconds, cpus, workers)
        measured: Measured = in_child(source, work, limit_s(seconds), settings.start_hook)
    except Exception as error:
        return Choice("thread", settings.workers, f"Measuring failed: {_failure(error, seconds)}.")
    return decided(_with_processes(source, settings, measured, seconds, cpus, workers), cpus, workers)


def _failure(error: Exception, seconds: float) -> str:
    """Return why measuring failed, in words."""
    if isinstance(error, ItemTimeout):
        return f"items took longer than {limit_s(seconds):g} s, and their process was killed"
    if isinstance(error, WorkerDied):
        return "an item ended its process"
    return summary(error.__cause__ or error).partition("\n")[0].rstrip(".")


def _obstacle(source: View[Any]) -> str:
    """Return why items must not be computed in another process to measure them, or ""."""
    if in_process_worker():
        return "this is a worker process"
    if why := why_not_here():
        return f"worker processes cannot be created here: {why}"
    if (iterator := one_shot_of(source)) is not None:
        return f"{iterator!r} is a one-shot iterator, whose items would be lost"
    return ""


# -------------------------------------------------------------------- trials


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
        found = Measured(cost, (), None, start, view._reads_ahead)
        if cost.failed == cost.items or 1 / cost.items_per_s > self.seconds / 2:
            return found
        if _is_accountable(view, cost):
            share, start = lock_share_of(view, start, max(LEAST_LOCK_S, COST_SHARE / 2 * self.seconds))
            found = replace(found, lock_share=share, next_start=start)
        workers = self.workers or cost.useful_workers(self.cpus)
        return _tried(view, self.settings, "thread", workers, self.seconds, self.cpus, found)


def _with_processes(
    source: View[Any], settings: Settings, measured: Measured, seconds: float, cpus: int, workers: int | None
) -> Measured:
    """Measure processes too, unless threads are about as fast as they can be, or items take too long."""
    cost, threads = measured.cost, measured.of("thread")
    if threads is None or threads.items_per_s > GOOD * cost.ideal(threads.workers, cpus):
        return measured
    if cost.sleep_share > SLEEPS and threads.items_per_s * cost.cpu_s < 0.5:
        return measured  # threads that all together compute for half of the time do not wait for the lock
    workers = workers or affordable(cost.useful_workers(cpus), cost.nbytes)
    limited = replace(settings, timeout_s=limit_s(seconds), retries=0, context=_start_method())
    try:
        return _tried(source, limited, "process", workers, seconds, cpus, measured)
    except Exception as error:
        _log.info("prefetch: processes could not be measured: %s", _failure(error, seconds))
        return measured


def _tried(
    view: View[Any], settings: Settings, method: Any, workers: int, seconds: float, cpus: int, found: Measured
) -> Measured:
    """Try a method, and return the figures with its speed. On an idle machine, if items compute."""
    length = (1 - COST_SHARE) / 2 * seconds
    use, start = use_of(view, settings, method, workers, found.next_start, length)
    speed = use.items_per_s
    if _is_accountable(view, found.cost) and use.worker_s:
        at_once = 1 if method == "thread" and found.holds_lock else min(workers, cpus)
        worker_s = max(use.worker_s, found.cost.cpu_s)  # workers may have begun items that are not counted
        both_s = worker_s + use.consumer_s
        speed = min(at_once / worker_s, (1 if at_once == 1 else cpus) / both_s, 1 / use.consumer_s)
    return replace(found, speeds=(*found.speeds, Speed(method, workers, speed)), next_start=start)


def _is_accountable(view: View[Any], cost: Cost) -> bool:
    """Does the speed follow from CPU times? Other programs do not change these. Not if items wait."""
    return cost.sleep_share < SLEEPS and not view._reads_ahead


# -------------------------------------------------------------------- the process that measures


def limit_s(seconds: float) -> float:
    """Return after how many seconds a process is killed that measures for so long."""
    return max(LEAST_LIMIT_S, PATIENCE * seconds)


def in_child(
    view: View[Any], work: Callable[[View[Any]], Any], limit_s: float, hook: Callable[..., Any] | None = None
) -> Any:
    """Return `work(view)`, computed by a worker process, which is killed after some seconds."""
    # `retries=0`: an item that kills the process would kill the next one, too.
    ahead = prefetch(
        Child(view, work), 1, "process", 1, hook, context=_start_method(), timeout=limit_s, retries=0
    )
    with ahead:
        ahead.engine().said.add("generator")  # the node that is chosen warns
        return ahead[0]


def _start_method() -> Context | None:
    """Return how processes start that measure. An explicit start method is not announced."""
    from ..prefetch.processes.forking import is_safe  # other systems lack what it needs

    return None if is_safe() else "forkserver"


class Child(View[Any]):
    """A view of one item: the result of a function of the view below."""

    def __init__(self, source: View[Any], work: Callable[[View[Any]], Any]) -> None:
        super().__init__((source,), 1)
        self._work = work

    def _get(self, i: int) -> Any:
        return self._work(self._sources[0])

    def _needs(self, i: int) -> tuple[()]:
        return ()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Child(sources[0], self._work)
