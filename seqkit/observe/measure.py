"""Measure a view: the cost of its items, waits for the interpreter lock, and what a node's workers use.

Guarantees
----------
- Called in a worker process (see `choose.in_child`), nothing here computes items in the caller's process. So
  no pool of native threads starts there, and no cache or iterator changes.
- A failing item is counted. A hanging or deadly one costs the process that measures.

Relies on
---------
- Linux says how long a thread has waited for a CPU. Elsewhere this time counts as sleep.
"""

from __future__ import annotations

import math
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter, thread_time
from typing import Any

from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.indices import Plan
from ..core.view import View
from ..engine.clock import current_clock
from ..engine.prefetch import Prefetch
from ..engine.settings import Settings

__all__ = ["SLEEPS", "Cost", "cost_of", "lock_share_of", "use_of"]

# From this share of sleep on, more workers than CPUs can be of use, up to this number.
SLEEPS = 0.2
MOST_WORKERS = 32
# How long it takes until one more process works, on busy CPUs.
FORK_S = 0.02


@dataclass(frozen=True)
class Cost:
    """The cost of an item in one thread, on average.

    Attributes
    ----------
    items, failed : int
        Number of items that were computed, and how many of them failed.
    cpu_s, asleep_s : float
        Seconds of CPU time; seconds that the item neither computed nor waited for a CPU or a node below.
    error : str
        The first failure, or "".
    """

    items: int
    failed: int
    cpu_s: float
    asleep_s: float
    error: str = ""

    @property
    def sleep_share(self) -> float:
        """The share of sleep in the time that an item would take on an idle machine."""
        return self.asleep_s / max(self.cpu_s + self.asleep_s, 1e-9)

    def useful_workers(self, cpus: int) -> int:
        """Return how many workers keep so many CPUs busy: more than there are only if items sleep.

        Then it is a power of two, so that two measurements seldom differ.
        """
        if self.sleep_share < SLEEPS:
            return cpus
        wanted = 1.25 * cpus / max(1 - self.sleep_share, 1e-3)
        return min(MOST_WORKERS, 1 << round(math.log2(wanted)))

    @property
    def items_per_s(self) -> float:
        """The speed without workers, on an idle machine."""
        return 1 / max(self.cpu_s + self.asleep_s, 1e-9)

    def ideal(self, workers: int, cpus: int) -> float:
        """Return the items per second of undisturbed workers, on an idle machine."""
        return min(workers * self.items_per_s, cpus / max(self.cpu_s, 1e-9))


class _Waits:
    """A clock of items (see `clock.py`): how long they waited for nodes below."""

    def __init__(self) -> None:
        self.seconds = self._since = 0.0

    def __enter__(self) -> None:
        self._since = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter() - self._since


def cost_of(view: View[Any], start: int, seconds: float) -> tuple[Cost, int]:
    """Compute items in this thread for some seconds. Return their cost, and where to go on.

    The first item is left out of the cost if there are others: it imports modules and opens files.
    """
    waits = _Waits()

    def now() -> tuple[float, float, float, float]:
        return perf_counter() - waits.seconds, thread_time(), times_s("thread-self")[1], _sleeps()

    failed, error, begun = 0, "", now()
    until = begun[0] + seconds
    items, done, first = view._iter(plan_from(view, start)), 0, 0
    current_clock.set(waits)
    try:
        while not done or perf_counter() < until:
            try:
                item = next(items)  # noqa: F841 - held until the next one comes, as in a loop
            except StopIteration:
                break
            except Exception as raised:
                failed, error = failed + 1, error or summary(raised.__cause__ or raised)
            done += 1
            if done == 1 and perf_counter() < until:
                begun, first = now(), 1
    finally:
        current_clock.set(None)
    wall_s, cpu_s, queued_s, sleeps = (
        (after - before) / max(done - first, 1) for before, after in zip(begun, now(), strict=True)
    )
    # A virtual machine may lose time to others, which is no sleep.
    asleep_s = max(0.0, wall_s - cpu_s - queued_s) if sleeps > 0.5 else 0.0
    return Cost(done, failed, cpu_s, asleep_s, error), next_start(view, start, done)


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
    interval, begun = sys.getswitchinterval(), perf_counter()
    until = begun + seconds
    sys.setswitchinterval(100 * seconds)
    try:
        may_begin.set()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    taken_s = max(perf_counter() - begun, 1e-9)
    return max(0.0, 1 - sum(used) / (2 * taken_s)), next_start(view, start, max(counts))


def use_of(
    view: View[Any], settings: Settings, method: Any, workers: int, start: int, seconds: float
) -> tuple[tuple[float, float, float], int]:
    """Read a node for some seconds. Return figures, and where to go on.

    The figures are the items per second, and the CPU time of an item in its worker, 0 if it is not known, and
    in the consumer.

    Not counted are the start of the workers, the first item of each of them, and a quarter of the time, in
    which the size of chunks adapts. They count if there is nothing else.
    """
    warm_s = 0.25 * seconds + (FORK_S * workers if method == "process" else 0.0)
    chosen = replace(settings, method=method, workers=workers, in_order=True, pinner=None)
    begun = last = perf_counter()
    first = done = 0
    with Prefetch(view, chosen).start() as node:
        node.engine.said.add("generator")  # the node that is chosen warns
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
        spent, counted = _spent(node), max(done - first, 1)
    wall_s, worker_s, consumer_s = (
        max(new - old, 0.0) / counted for new, old in zip(spent, since, strict=True)
    )
    return (1 / max(wall_s, 1e-12), worker_s, consumer_s), next_start(view, start, done)


def _spent(node: Prefetch[Any]) -> tuple[float, float, float]:
    """Return the time, and the CPU times of the workers and of their consumer, so far; 0 if not known."""
    return perf_counter(), sum(times_s(task)[0] for task in node.engine.tasks()), thread_time()


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
    with suppress(OSError, ValueError), open(f"/proc/{thread}/schedstat") as file:
        computed, queued, *_ = map(int, file.read().split())
        return computed / 1e9, queued / 1e9
    return 0.0, 0.0


def _sleeps() -> int:
    """Return how often this thread has given its CPU away to wait for something."""
    if sys.platform != "linux":
        return 0
    import resource  # missing on Windows

    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
