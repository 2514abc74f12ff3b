"""Choose the workers of a node, for `tune`, `profile` and ``method="auto"``.

No item is computed in the caller's process: a worker process measures, which is killed if it takes too long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.errors import summary
from ..core.view import View
from ..core.worker import in_process_worker
from ..engine.engine import Engine, why_not_here
from ..engine.prefetch import prefetch
from ..engine.resources import usable_cpus
from ..engine.settings import Settings
from . import units
from .measure import SLEEPS, Cost, cost_of, lock_share_of, use_of
from .subject import one_shot_of

__all__ = [
    *("MEASURING_S", "Choice", "Cost", "Measured", "Speed"),
    *("choose", "decided", "arguments_of", "settle", "instruction"),
]


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
        return {"nworkers": self.workers} | ({"method": self.method} if self.workers else {})


# Arguments of `prefetch` that loaders call otherwise.
_OF_LOADERS = {"nworkers": "num_workers"}


def arguments_of(subject: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of `prefetch` as those of the object that was measured: a view, a node or a loader.

    >>> arguments_of("DataLoader", {"nworkers": 4, "method": "thread"})
    {'num_workers': 4, 'method': 'thread'}
    """
    if subject in ("view", "prefetch"):
        return settings
    return {_OF_LOADERS.get(name, name): value for name, value in settings.items()}


def instruction(subject: str, settings: dict[str, Any]) -> str:
    """Return a sentence with code to paste.

    >>> instruction("view", {"nworkers": 4})
    'Write `sk.prefetch(view, nworkers=4)`.'
    >>> instruction("DataLoader", {"num_workers": 4, "shm_size": 48 << 20})
    'Pass `num_workers=4, shm_size=48 << 20` to DataLoader.'
    """
    named = {"shm_size": lambda value: f"{value >> 20} << 20"}
    code = ", ".join(f"{name}={named.get(name, repr)(value)}" for name, value in settings.items())
    if subject == "view":
        return f"Write `sk.prefetch(view, {code})`."
    return f"Pass `{code}` to {'`prefetch`' if subject == 'prefetch' else subject}."


def decided(measured: Measured, cpus: int, workers: int | None = None) -> Choice:
    """Choose from figures. `workers` is the number that the user has chosen.

    >>> cost = Cost(100, 0, 0.02, 0.0)
    >>> speeds = Speed("thread", 2, 51.0), Speed("process", 2, 97.0)
    >>> decided(Measured(cost, speeds), 2).settings
    {'nworkers': 2, 'method': 'process'}
    """
    cost = measured.cost
    if not cost.items or cost.failed == cost.items:
        why = f"Every item failed: {cost.error}." if cost.items else "There are no items."
        return Choice("thread", workers or cpus, why, measured)
    best, reason = _best(measured, cpus, workers)
    number = 0 if best.method == "inline" else workers or best.workers
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


def settle(engine: Engine) -> None:
    """Choose the workers of a node with ``method="auto"``."""
    source, settings = engine.source, engine.settings
    workers = None if settings.nworkers is None else settings.workers
    choice = choose(source, settings, AUTO_STAGES_S if source._reads_ahead else AUTO_S, workers)
    _log.info("prefetch: auto chose %s. %s", choice.settings, choice.why)
    method: Any = choice.method
    engine.settings, engine.choice = replace(settings, method=method, workers=choice.workers), choice


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
        what = summary(error.__cause__ or error).partition("\n")[0].rstrip(".")
        return Choice("thread", settings.workers, f"Measuring failed: {what}.")
    return decided(_with_processes(source, settings, measured, seconds, cpus, workers), cpus, workers)


def _obstacle(source: View[Any]) -> str:
    """Return why items must not be computed in another process to measure them, or ""."""
    if in_process_worker():
        return "this is a worker process"
    iterator = one_shot_of(source)
    return "" if iterator is None else f"{iterator!r} is a one-shot iterator, whose items would be lost"


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
    workers = workers or cost.useful_workers(cpus)
    limits = _limits(limit_s(seconds))
    limited = replace(settings, timeout_s=limits.get("timeout"), retries=0, context=limits.get("context"))
    try:
        return _tried(source, limited, "process", workers, seconds, cpus, measured)
    except Exception as error:
        _log.info("prefetch: processes could not be measured: %s", summary(error))
        return measured


def _tried(
    view: View[Any], settings: Settings, method: Any, workers: int, seconds: float, cpus: int, found: Measured
) -> Measured:
    """Try a method, and return the figures with its speed. On an idle machine, if items compute."""
    length = (1 - COST_SHARE) / 2 * seconds
    (speed, worker_s, consumer_s), start = use_of(view, settings, method, workers, found.next_start, length)
    if _is_accountable(view, found.cost) and worker_s:
        at_once = 1 if method == "thread" and found.holds_lock else min(workers, cpus)
        worker_s = max(worker_s, found.cost.cpu_s)  # workers may have begun items that are not counted
        both_s = worker_s + consumer_s
        speed = min(at_once / worker_s, (1 if at_once == 1 else cpus) / both_s, 1 / consumer_s)
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
    with prefetch(Child(view, work), 1, "process", 1, hook, **_limits(limit_s)) as ahead:
        ahead.engine.said.add("generator")  # the node that is chosen warns
        return ahead[0]


def _limits(limit_s: float) -> dict[str, Any]:
    """Return the arguments of `prefetch` that end a process which measures for too long.

    Where the engine uses the pool of the standard library, there are none.
    """
    if why_not_here():
        return {}
    from ..engine.processes.forking import obstacles  # other systems lack what it needs

    # An explicit start method is not announced. After an item that was fatal, the next one would be too.
    return {"timeout": limit_s, "retries": 0, "context": "forkserver" if obstacles() else None}


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
