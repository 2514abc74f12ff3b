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
from .measure import SLEEPS, CostAndThreads, Measured, Speed, in_child, limit_s, start_method, tried
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
    threads = measured.of("thread")
    if threads is None or _are_free(measured, threads, budget):
        return measured
    workers = workers or _affordable(measured.cost.useful_workers(budget.cpus), measured.cost.nbytes, budget)
    limited = replace(settings, timeout_s=limit_s(seconds), retries=0, context=start_method())
    try:
        return tried(source, limited, "process", workers, seconds, budget.cpus, measured)
    except Exception as error:
        _log.info("prefetch: processes could not be measured: %s", _failure(error, seconds))
        return measured


def _are_free(measured: Measured, threads: Speed, budget: Budget) -> bool:
    """Return whether threads compute as fast as they can, so that processes cannot be much faster."""
    cost = measured.cost
    if threads.items_per_s > GOOD * cost.ideal(threads.workers, budget.cpus):
        return True
    # Sleeping threads that compute for half of the time, all together, do not wait for the lock.
    return cost.sleep_share > SLEEPS and threads.items_per_s * cost.cpu_s < 0.5


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
    cost, thread, process = measured.cost, measured.of("thread"), measured.of("process")
    if thread is None:  # an item takes too long to try anything
        number = workers or cost.useful_workers(budget.cpus)
        return Speed("thread" if cost.sleep_share > 0.5 else "process", number, 0.0)
    if cost.items_per_s > 1 / SMALLEST_S:
        return Speed("inline", 0, cost.items_per_s)
    # Above nodes the trial is unjust to processes, which read in long jobs. There, threads must use more than
    # one CPU.
    has_one_cpu = cost.sleep_share < SLEEPS and thread.items_per_s * cost.cpu_s < 1.2
    advantage = 1 / 1.5 if measured.is_above_nodes and has_one_cpu else ADVANTAGE
    best = process if process and process.items_per_s > advantage * thread.items_per_s else thread
    # Workers that are not faster still work while the consumer does. That is not worth it for tiny items.
    least = ADVANTAGE if cost.cpu_s + cost.asleep_s < TINY_S else 1 / ADVANTAGE
    if not measured.is_above_nodes and best.items_per_s < least * cost.items_per_s:
        return Speed("inline", 0, cost.items_per_s)
    return best


def _why(measured: Measured, best: Speed, budget: Budget) -> str:
    """Return the reason for a choice, in sentences with numbers."""
    cost = measured.cost
    one = cost.items_per_s
    parts = [f"An item takes {_seconds(1 / one)} in one thread"]
    parts[0] += f" and sleeps {cost.sleep_share:.0%} of it." if cost.sleep_share >= 0.05 else "."
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
    if measured.lock_share is not None:
        does = "hold" if measured.holds_lock else "release"
        parts.append(f"The functions {does} the interpreter lock.")
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
