"""Choose the workers of a node: method, number, and how much is computed ahead, from measured figures."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.iteration import is_one_shot
from ..core.view import View, walk
from ..core.worker import in_process_worker
from .child import in_child, limit_s, start_method
from .choice import Choice, WorkerBudget, affordable, decided
from .engine import why_not_here
from .figures import SLEEPS, Measured, Speed
from .settings import Settings
from .trials import CostAndThreads, tried

_log = logging.getLogger("seqkit.prefetch")

# How long `method="auto"` measures, without the start of the processes that measure.
AUTO_S = 0.4
# With nodes below it takes longer, because processes read these in long jobs.
AUTO_STAGES_S = 1.2
# Threads that reach this share of their ideal are not compared with processes.
GOOD = 0.85


def settled(source: View[Any], settings: Settings) -> tuple[Settings, Choice]:
    """Return the settings of a node with ``method="auto"``, once chosen, and the choice."""
    workers = None if settings.chooses_workers else settings.workers
    seconds = AUTO_STAGES_S if source._reads_ahead else AUTO_S
    choice = choose(source, settings, seconds, WorkerBudget.of_this_process(), workers)
    _log.info("prefetch: auto chose %s. %s", choice.code, choice.why)
    ahead = choice.max_buffered if settings.max_buffered is None else settings.max_buffered
    chosen = replace(settings, method=choice.method, workers=choice.workers, max_buffered=ahead)
    return chosen, choice


def choose(
    source: View[Any], settings: Settings, seconds: float, budget: WorkerBudget, workers: int | None = None
) -> Choice:
    """Measure for some seconds, and choose. `workers` is the number that the user has chosen."""
    if reason := _obstacle(source):
        return Choice("thread", settings.workers, None, f"Not measured, because {reason}.")
    if _is_stream(source):
        return Choice("thread", 1, None, "Not measured: one worker reads a stream.")
    try:
        work = CostAndThreads(settings, seconds, budget.cpus, workers)
        measured: Measured = in_child(source, work, limit_s(seconds), settings.start_hook)
    except Exception as error:
        return Choice("thread", settings.workers, None, f"Measuring failed: {_failure(error, seconds)}.")
    return decided(with_processes(source, settings, measured, seconds, budget, workers), budget, workers)


def _failure(error: Exception, seconds: float) -> str:
    """Return why measuring failed, in words."""
    if isinstance(error, ItemTimeout):
        return f"items took longer than {limit_s(seconds):g} s, and their process was killed"
    if isinstance(error, WorkerDied):
        how = summary(error).partition(") ")[2].partition(" while")[0]
        return f"an item ended its process, which {how}"
    return summary(error.__cause__ or error).partition("\n")[0].rstrip(".")


def with_processes(
    source: View[Any],
    settings: Settings,
    measured: Measured,
    seconds: float,
    budget: WorkerBudget,
    workers: int | None,
) -> Measured:
    """Measure processes too, unless threads are about as fast as they can be, or items take too long."""
    threads = measured.of("thread")
    if threads is None or _are_free(measured, threads, budget):
        return measured
    workers = workers or affordable(measured.cost.useful_workers(budget.cpus), measured.cost.nbytes, budget)
    limited = replace(settings, timeout_s=limit_s(seconds), retries=0, context=start_method())
    try:
        return tried(source, limited, "process", workers, seconds, budget.cpus, measured)
    except Exception as error:
        _log.info("prefetch: processes could not be measured: %s", _failure(error, seconds))
        return measured


def _are_free(measured: Measured, threads: Speed, budget: WorkerBudget) -> bool:
    """Return whether threads compute as fast as they can, so that processes cannot be much faster."""
    cost = measured.cost
    if threads.items_per_s > GOOD * cost.ideal(threads.workers, budget.cpus):
        return True
    # Sleeping threads that compute for half of the time, all together, do not wait for the lock.
    return cost.sleep_share > SLEEPS and threads.items_per_s * cost.cpu_s < 0.5


def _obstacle(source: View[Any]) -> str:
    """Return why items must not be computed in another process to measure them, or ""."""
    if in_process_worker():
        return "this is a worker process"
    if why := why_not_here():
        return f"worker processes cannot be created here: {why}"
    for node in walk(source):
        if not node._sources and is_one_shot(_data(node)):
            return f"{node!r} reads a one-shot iterator, whose items would be lost"
    return ""


def _data(leaf: View[Any]) -> Any:
    try:
        return leaf._wrapped()
    except AttributeError:
        return None


def _is_stream(view: View[Any]) -> bool:
    """Return whether each worker would have to read all items to find its own."""
    return any(node._name == "uniter" for node in walk(view))
