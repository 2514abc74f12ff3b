"""Choose the workers of a node: method, number, and how much is computed ahead, from measured figures."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.iteration import is_one_shot
from ..core.view import View
from ..core.worker import in_process_worker
from .culprits import shared_handles
from .engine import why_not_here
from .measure import (
    SLEEPS,
    CostAndThreads,
    Measured,
    Speed,
    in_child,
    limit_s,
    speed_of,
    start_method,
    trial_s,
)
from .repeated import repetition_warning
from .resources import in_units, memory_limit_bytes, usable_cpus
from .settings import Method, Settings

_log = logging.getLogger("seqkit.prefetch")

# How long `method="auto"` measures, without the start of the processes that measure.
AUTO_S = 0.4
# With nodes below it takes longer, because processes read these in long jobs.
AUTO_STAGES_S = 1.2
# The share of the memory limit that items computed ahead may take.
MEMORY_SHARE = 0.25
# Threads are chosen up to this advantage of processes, and workers at all from this advantage on.
ADVANTAGE = 1.1
# Handing over an item takes about as long. No worker makes smaller ones faster.
SMALLEST_S = 1e-6
# Threads that reach this share of their ideal are not compared with processes.
GOOD = 0.85


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
    def code(self) -> str:
        """The call of `prefetch`, as text."""
        return f"sk.prefetch(view, {', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


@dataclass(frozen=True)
class Budget:
    """How many CPUs workers may keep busy, and how many bytes items may take that are computed ahead."""

    cpus: int
    nbytes: float

    @classmethod
    def of_this_process(cls) -> Budget:
        return cls(usable_cpus(), MEMORY_SHARE * memory_limit_bytes())


def settled(source: View[Any], settings: Settings) -> tuple[Settings, Choice]:
    """Return the settings of a node with ``method="auto"``, once chosen, and the choice."""
    workers = None if settings.chooses_workers else settings.workers
    seconds = AUTO_STAGES_S if source._reads_ahead else AUTO_S
    choice = choose(source, settings, seconds, Budget.of_this_process(), workers)
    _log.info("prefetch: auto chose %s. %s", choice.code, choice.why)
    ahead = choice.max_buffered if settings.max_buffered is None else settings.max_buffered
    chosen = replace(settings, method=choice.method, workers=choice.workers, max_buffered=ahead)
    return chosen, choice


def choose(
    source: View[Any], settings: Settings, seconds: float, budget: Budget, workers: int | None = None
) -> Choice:
    """Measure for some seconds, and choose. `workers` is the number that the user has chosen."""
    if reason := _obstacle(source, settings):
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
    budget: Budget,
    workers: int | None,
) -> Measured:
    """Measure processes too, unless threads are about as fast as they can be, or items take too long."""
    cost = measured.cost
    workers = workers or _affordable(cost.useful_workers(budget.cpus), cost.nbytes, budget)
    for speed in measured.speeds:
        # Threads that compute half of the time, all together, do not wait for the interpreter lock.
        is_free = speed.items_per_s * cost.cpu_s < 0.5 and cost.sleep_share > SLEEPS
        if not is_free and speed.items_per_s < GOOD * cost.ideal(speed.workers, budget.cpus):
            limited = replace(settings, timeout_s=limit_s(seconds), retries=0, context=start_method())
            start, length = measured.next_start, trial_s(seconds)
            try:
                speed, _ = speed_of(source, limited, "process", workers, start, length)
            except Exception as error:
                speed = Speed("process", workers, 0.0)
                _log.info("prefetch: processes could not be measured: %s", _failure(error, seconds))
            return replace(measured, speeds=(*measured.speeds, speed))
    return measured


def _obstacle(source: View[Any], settings: Settings) -> str:
    """Return why items must not be computed in another process to measure them, or ""."""
    if in_process_worker():
        return "this is a worker process"
    if why := why_not_here():
        return f"worker processes cannot be created here: {why}"
    pending = [source]
    while pending:
        node = pending.pop()
        pending.extend(node._sources)
        if not node._sources and is_one_shot(_data(node)):
            return f"{node!r} reads a one-shot iterator, whose items would be lost"
    if handles := shared_handles(source):
        return f"processes would share an open handle: {handles[0]}"
    if repetition_warning(source, settings.start_hook):
        return "each process would have a copy of a random generator that a function holds"
    return ""


def _data(leaf: View[Any]) -> Any:
    try:
        return leaf._wrapped()
    except AttributeError:
        return None


def _is_stream(view: View[Any]) -> bool:
    """Return whether each worker would have to read all items to find its own."""
    pending = [view]
    while pending:
        node = pending.pop()
        pending.extend(node._sources)
        if node._name == "uniter":
            return True
    return False


def _affordable(workers: int, nbytes: int, budget: Budget) -> int:
    """Return how many workers may each have two items in memory."""
    return max(1, int(min(workers, budget.nbytes // max(2 * nbytes, 1))))


# -------------------------------------------------------------------- deciding


def decided(measured: Measured, budget: Budget, workers: int | None = None) -> Choice:
    """Choose from figures. `workers` is the number that the user has chosen.

    >>> from seqkit.prefetch.measure import Cost
    >>> cost = Cost(100, 0, 0.02, 0.02, 0.0, 8)
    >>> speeds = Speed("thread", 2, 51.0), Speed("process", 2, 97.0)
    >>> decided(Measured(cost, speeds), Budget(2, 1e9)).code
    "sk.prefetch(view, nworkers=2, method='process')"
    """
    cost = measured.cost
    if not cost.items or cost.failed == cost.items:
        why = f"Every item failed: {cost.error}." if cost.items else "There are no items."
        return Choice("thread", workers or budget.cpus, None, why, measured)
    best = _best(measured, budget, workers)
    number = workers or _affordable(best.workers, cost.nbytes, budget)
    if best.method == "inline":
        number = 0
    ahead = None
    if number and (2 * number + 2) * cost.nbytes > budget.nbytes:  # what a node computes ahead at least
        ahead = max(number, int(budget.nbytes // cost.nbytes))
    why = _why(measured, best, budget)
    if ahead is not None:
        why += f" Items of {in_units(cost.nbytes)} fill the memory: at most {ahead} are computed ahead."
    method: Any = best.method
    return Choice(method, number, ahead, why, measured)


def _best(measured: Measured, budget: Budget, workers: int | None) -> Speed:
    """Return the method to choose. Threads are preferred to processes, and no workers to slower ones."""
    cost, speeds = measured.cost, {speed.method: speed for speed in measured.speeds}
    number = workers or cost.useful_workers(budget.cpus)
    if not speeds:  # an item takes too long to try anything
        return Speed("thread" if cost.sleep_share > 0.5 else "process", number, 0.0)
    if cost.wall_s < SMALLEST_S:
        return Speed("inline", 0, 1 / max(cost.wall_s, 1e-9))
    thread, process = speeds["thread"], speeds.get("process")
    best = process if process and process.items_per_s > ADVANTAGE * thread.items_per_s else thread
    if 1 / cost.wall_s > ADVANTAGE * best.items_per_s and process:
        return Speed("inline", 0, 1 / cost.wall_s)
    return best


def _why(measured: Measured, best: Speed, budget: Budget) -> str:
    """Return the reason for a choice, in sentences with numbers."""
    cost = measured.cost
    parts = [f"An item takes {_seconds(cost.wall_s)} in one thread"]
    parts[0] += f" and sleeps {cost.sleep_share:.0%} of it." if cost.sleep_share >= 0.05 else "."
    one = 1 / max(cost.wall_s, 1e-9)
    if not measured.speeds:
        kind = "sleep" if best.method == "thread" else "compute"
        parts.append(f"That is too long to try workers. {best.method.capitalize()}s suit items that {kind}.")
    for speed in measured.speeds:
        what = f"{speed.workers} {'processes' if speed.method == 'process' else 'threads'}"
        if speed.workers == 1:
            what = f"1 {speed.method}"
        verb = "is" if speed.workers == 1 else "are"
        found = f"{what} {verb} {shown(speed.items_per_s / one, 2)} times as fast as none"
        parts.append(f"{found} ({shown(speed.items_per_s)} items/s).")
    if best.method == "inline":
        parts.append("Handing over an item costs more than the item.")
    elif cost.sleep_share >= 0.2 and best.workers > budget.cpus:
        parts.append(f"More workers than the {budget.cpus} CPUs, because items sleep.")
    return " ".join(parts)


def shown(number: float, digits: int = 3) -> str:
    """Return a number with so many digits, and without an exponent.

    >>> shown(3086.7), shown(0.0513, 2), shown(97)
    ('3,087', '0.051', '97')
    """
    return f"{number:,.0f}" if number >= 10 ** (digits - 1) else f"{number:.{digits}g}"


def _seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
