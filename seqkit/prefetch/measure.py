"""Measure a view: the cost of its items, and how fast threads and processes compute them.

Guarantees
----------
- Items are computed in worker processes only. The caller's process computes none, so no pool of native
  threads starts in it, and no cache or iterator changes.
- A failing item is counted. A hanging or deadly one costs the process that measures, and raises.

Relies on
---------
- Linux says how long a thread has waited for a CPU. Elsewhere this time counts as sleep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter, thread_time
from typing import Any, NamedTuple

from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.indices import Plan
from ..core.view import View
from .clock import set_clock
from .node import Prefetch, prefetch
from .results import size_of
from .settings import Context, Settings

# The share of the measuring time for the cost of items. The rest is for threads, and for processes.
COST_SHARE = 0.25
# A process that measures is killed after this multiple of the measuring time, and at least this many seconds.
PATIENCE = 4
LEAST_LIMIT_S = 2.0
# From this share of sleep on, more workers than CPUs can be of use, up to this number.
SLEEPS = 0.2
MOST_WORKERS = 32
# How long it takes until one more process works, on busy CPUs.
FORK_S = 0.02
# How many items are sized.
SIZED = 16


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

    def ideal(self, workers: int, cpus: int) -> float:
        """Return the items per second of so many workers that do not disturb each other."""
        return min(workers / max(self.wall_s, 1e-9), cpus / max(self.cpu_s, 1e-9))


class Speed(NamedTuple):
    """How many items per second the workers of a node compute."""

    method: str
    workers: int
    items_per_s: float


@dataclass(frozen=True)
class Measured:
    """The figures of a view. `next_start` is the first index that was not read."""

    cost: Cost
    speeds: tuple[Speed, ...]
    next_start: int = 0


def speedup_of_threads(view: View[Any], threads: int, seconds: float = 0.5) -> float:
    """Return how many times faster so many threads compute the items than one: 1 if they hold the lock.

    Parameters
    ----------
    view : View
    threads : int
        Number of threads, 2 or more.
    seconds : float
        How long to measure, without the start of the process that measures.

    Raises
    ------
    ItemTimeout, WorkerDied, EvaluationError
        If an item hangs, is deadly, or none can be computed.

    Examples
    --------
    >>> import seqkit as sk, time
    >>> waits = sk.smap(lambda i: time.sleep(0.01), range(1000))
    >>> 2 < speedup_of_threads(waits, 3) < 4
    True
    """
    one, several = in_child(view, _Threads((1, threads), seconds / 2), limit_s(seconds))
    return several.items_per_s / one.items_per_s  # type: ignore[no-any-return]


def limit_s(seconds: float) -> float:
    """Return after how many seconds a process is killed that measures for so long."""
    return max(LEAST_LIMIT_S, PATIENCE * seconds)


def in_child(
    view: View[Any], work: Callable[[View[Any]], Any], limit_s: float, hook: Callable[..., Any] | None = None
) -> Any:
    """Return `work(view)`, computed by a worker process, which is killed after some seconds."""
    # `retries=0`: an item that kills the process would kill the next one, too.
    ahead = prefetch(
        Child(view, work), 1, "process", 1, hook, context=start_method(), timeout=limit_s, retries=0
    )
    with ahead:
        return ahead[0]


def start_method() -> Context | None:
    """Return how processes start that measure. An explicit start method is not announced."""
    from .processes.forking import is_safe  # imported here because other systems lack what it needs

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


# -------------------------------------------------------------------- work for a child


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
        if cost.failed == cost.items or cost.wall_s > self.seconds / 2:
            return Measured(cost, (), start)
        workers = self.workers or cost.useful_workers(self.cpus)
        speed, start = speed_of(view, self.settings, "thread", workers, start, trial_s(self.seconds))
        return Measured(cost, (speed,), start)


@dataclass(frozen=True)
class _Threads:
    """Measure the speed of several numbers of threads. Called with a view in a child."""

    numbers: tuple[int, ...]
    seconds: float

    def __call__(self, view: View[Any]) -> list[Speed]:
        start, speeds = 0, []
        for workers in self.numbers:
            settings = prefetch(view, workers)._settings
            speed, start = speed_of(view, settings, "thread", workers, start, self.seconds)
            speeds.append(speed)
        return speeds


def trial_s(seconds: float) -> float:
    """Return how long one method is tried."""
    return (1 - COST_SHARE) / 2 * seconds


# -------------------------------------------------------------------- measuring


class _Stood:
    """A clock of items (see `clock.py`): how long they waited for nodes below."""

    def __init__(self) -> None:
        self.seconds = self._since = 0.0

    def stand(self) -> None:
        self._since = perf_counter()

    def go_on(self) -> None:
        self.seconds += perf_counter() - self._since


def cost_of(view: View[Any], start: int, seconds: float) -> tuple[Cost, int]:
    """Compute items in this thread for some seconds. Return their cost, and where to go on.

    The first item is left out of the cost if there are others: it imports modules and opens files.
    """
    stood = _Stood()

    def now() -> tuple[float, float, float]:
        return perf_counter() - stood.seconds, thread_time(), _queued_s()

    failed, sized, nbytes, error = 0, 0, 0, ""
    begun = now()
    until = begun[0] + seconds
    items, done, first = view._iter(plan_from(view, start)), 0, 0
    set_clock(stood)
    try:
        while not done or perf_counter() < until:
            try:
                for item in items:
                    done += 1
                    if sized < SIZED:
                        sized, nbytes = sized + 1, nbytes + (size_of(item) or 0)
                    del item  # the next one may then have its memory
                    if done == 1 or perf_counter() >= until:
                        break
                else:
                    break
            except Exception as raised:
                failed, error, done = failed + 1, error or summary(raised.__cause__ or raised), done + 1
            if done == 1 and perf_counter() < until:
                begun, first = now(), 1
    finally:
        set_clock(None)
    wall_s, cpu_s, queued_s = (
        (after - before) / max(done - first, 1) for before, after in zip(begun, now(), strict=True)
    )
    asleep_s = max(0.0, wall_s - cpu_s - queued_s)
    cost = Cost(done, failed, wall_s, cpu_s, asleep_s, nbytes // max(sized, 1), error)
    return cost, next_start(view, start, done)


def speed_of(
    view: View[Any], settings: Settings, method: Any, workers: int, start: int, seconds: float
) -> tuple[Speed, int]:
    """Read a node for some seconds. Return its speed, and where to go on.

    Not counted are the start of the workers, the first item of each of them, and a quarter of the time, in
    which the size of chunks adapts. They count if there is nothing else.
    """
    warm_s = 0.25 * seconds + (FORK_S * workers if method == "process" else 0.0)
    chosen = replace(settings, method=method, workers=workers, in_order=True, pinner=None)
    begun = since = last = perf_counter()
    first = done = 0
    with Prefetch(view, chosen) as node:
        items = node._iter(plan_from(view, start))
        while True:
            try:
                next(items)
            except StopIteration:
                break
            except Exception as error:
                if isinstance(error, ItemTimeout | WorkerDied):
                    raise
            done, last = done + 1, perf_counter()
            if not first and done >= workers and last - begun > warm_s:
                first, since = done, last
            if last - begun > warm_s + 0.75 * seconds and done >= 2 * workers:
                break
    if done <= first:
        first, since = 0, begun
    return Speed(method, workers, (done - first) / max(last - since, 1e-9)), next_start(view, start, done)


def plan_from(view: View[Any], start: int) -> Plan:
    """Return the plan of a view, from an item on."""
    plan = view._plan()
    return plan[start:] if isinstance(plan, range) else plan


def next_start(view: View[Any], start: int, done: int) -> int:
    """Return where to go on after so many items: behind them, if many are left. They may be cached now."""
    plan, end = view._plan(), start + done
    return end if isinstance(plan, range) and len(plan) - end >= done else 0


def _queued_s() -> float:
    """Return how long this thread has waited for a CPU."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
