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

import sys
import threading
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
# How long to look for waits for the interpreter lock. A thread may wait for a busy CPU for as long.
LEAST_LOCK_S = 0.1
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

    def of(self, method: str) -> Speed | None:
        """Return the speed of threads or processes, if it was measured."""
        return next((speed for speed in self.speeds if speed.method == method), None)

    @property
    def holds_lock(self) -> bool:
        """Do items that compute hold the interpreter lock for most of their time?"""
        return self.lock_share is not None and self.lock_share > 0.3


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
            return Measured(cost, (), None, start, view._reads_ahead)
        found = Measured(cost, (), None, start, view._reads_ahead)
        if is_accountable(view, cost):
            share, start = lock_share_of(view, start, max(LEAST_LOCK_S, COST_SHARE / 2 * self.seconds))
            found = Measured(cost, (), share, start)
        workers = self.workers or cost.useful_workers(self.cpus)
        return tried(view, self.settings, "thread", workers, self.seconds, self.cpus, found)


@dataclass(frozen=True)
class _Threads:
    """Measure the speed of several numbers of threads. Called with a view in a child."""

    numbers: tuple[int, ...]
    seconds: float

    def __call__(self, view: View[Any]) -> list[Speed]:
        start, speeds = 0, []
        for workers in self.numbers:
            settings = prefetch(view, workers)._settings
            use, start = use_of(view, settings, "thread", workers, start, self.seconds)
            speeds.append(Speed("thread", workers, use.items_per_s))
        return speeds


def tried(
    view: View[Any], settings: Settings, method: Any, workers: int, seconds: float, cpus: int, found: Measured
) -> Measured:
    """Try a method, and return the figures with its speed. On an idle machine, if items compute."""
    length = (1 - COST_SHARE) / 2 * seconds
    use, start = use_of(view, settings, method, workers, found.next_start, length)
    speed = use.items_per_s
    if is_accountable(view, found.cost) and use.worker_s:
        at_once = 1 if method == "thread" and found.holds_lock else min(workers, cpus)
        both_s = use.worker_s + use.consumer_s
        speed = min(at_once / use.worker_s, (1 if at_once == 1 else cpus) / both_s, 1 / use.consumer_s)
    return replace(found, speeds=(*found.speeds, Speed(method, workers, speed)), next_start=start)


def is_accountable(view: View[Any], cost: Cost) -> bool:
    """Does the speed follow from CPU times? Other programs do not change these. Not if items wait."""
    return cost.sleep_share < SLEEPS and not view._reads_ahead


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

    def now() -> tuple[float, float, float, float]:
        return perf_counter() - stood.seconds, thread_time(), times_s("thread-self")[1], _sleeps()

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
    wall_s, cpu_s, queued_s, sleeps = (
        (after - before) / max(done - first, 1) for before, after in zip(begun, now(), strict=True)
    )
    # A virtual machine may lose time to others, which is no sleep.
    asleep_s = max(0.0, wall_s - cpu_s - queued_s) if sleeps > 0.5 else 0.0
    cost = Cost(done, failed, wall_s, cpu_s, asleep_s, nbytes // max(sized, 1), error)
    return cost, next_start(view, start, done)


def lock_share_of(view: View[Any], start: int, seconds: float) -> tuple[float, int]:
    """Return the share of their time that two threads wait for the interpreter lock, and where to go on.

    A thread gives the lock away only where items release it, because it is not asked to. So the thread that
    waits sleeps, and does not compete for a CPU.
    """
    used, counts, may_begin = list[float](), list[int](), threading.Event()

    def read() -> None:
        items, done, before = view._iter(plan_from(view, start)), 0, times_s("thread-self")
        may_begin.wait()
        while perf_counter() < until:
            try:
                next(items)
            except StopIteration:
                break
            except Exception:
                pass
            done += 1
        used.append(sum(times_s("thread-self")) - sum(before))
        counts.append(done)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100 * seconds)
    try:
        begun = perf_counter()
        until = begun + seconds
        may_begin.set()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    taken_s = max(perf_counter() - begun, 1e-9)
    return max(0.0, 1 - sum(used) / (2 * taken_s)), next_start(view, start, max(counts))


class Use(NamedTuple):
    """How many items per second a node gave, and the CPU time for each of its workers and its consumer.

    The CPU time of workers is 0 if it is not known.
    """

    items_per_s: float
    worker_s: float
    consumer_s: float


def use_of(
    view: View[Any], settings: Settings, method: Any, workers: int, start: int, seconds: float
) -> tuple[Use, int]:
    """Read a node for some seconds. Return the figures, and where to go on.

    Not counted are the start of the workers, the first item of each of them, and a quarter of the time, in
    which the size of chunks adapts. They count if there is nothing else.
    """
    warm_s = 0.25 * seconds + (FORK_S * workers if method == "process" else 0.0)
    chosen = replace(settings, method=method, workers=workers, in_order=True, pinner=None)
    begun = last = perf_counter()
    first = done = 0
    with Prefetch(view, chosen).start() as node:
        items, since = node._iter(plan_from(view, start)), _spent(node)
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
                first, since = done, _spent(node)
            if last - begun > warm_s + 0.75 * seconds and done >= 2 * workers:
                break
        spent, count = _spent(node), max(done - first, 1)
    wall_s, worker_s, consumer_s = (max(new - old, 0.0) for new, old in zip(spent, since, strict=True))
    return Use(count / max(wall_s, 1e-9), worker_s / count, consumer_s / count), next_start(view, start, done)


def _spent(node: Prefetch[Any]) -> tuple[float, float, float]:
    """Return the time, and the CPU times of the workers and of their consumer, so far."""
    tasks = node._engine.running().backend.tasks()
    return perf_counter(), sum(times_s(task)[0] for task in tasks), thread_time()


def plan_from(view: View[Any], start: int) -> Plan:
    """Return the plan of a view, from an item on."""
    plan = view._plan()
    return plan[start:] if isinstance(plan, range) else plan


def next_start(view: View[Any], start: int, done: int) -> int:
    """Return where to go on after so many items: behind them, if many are left. They may be cached now."""
    plan, end = view._plan(), start + done
    return end if isinstance(plan, range) and len(plan) - end >= done else 0


def times_s(thread: str) -> tuple[float, float]:
    """Return how long a thread has computed, and how long it has waited for a CPU; 0 if that is not known."""
    try:
        with open(f"/proc/{thread}/schedstat") as file:
            computed, queued, *_ = map(int, file.read().split())
        return computed / 1e9, queued / 1e9
    except (OSError, ValueError):
        return 0.0, 0.0


def _sleeps() -> int:
    """Return how often this thread has given its CPU away to wait for something."""
    if sys.platform != "linux":
        return 0
    import resource  # missing on Windows

    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
