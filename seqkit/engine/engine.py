"""The workers of a node: started once, when needed, and again in a forked child."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.randomness import as_seed
from ..core.tracebacks import warn
from ..core.view import View
from ..core.worker import in_process_worker
from . import observers
from .chunking import TARGET_NS, Chunking
from .dispatcher import CLOSED, Dispatcher, FaultLimits
from .hooks import worker_info
from .protocol import Backend, PrefetchError
from .resources import usable_cpus
from .settings import Settings
from .stages import items_per_job
from .statistics import Statistics
from .threads import Threads

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Engine:
    """The workers of a node. They are started once, when needed, and again in a forked child."""

    def __init__(self, source: View[Any], settings: Settings) -> None:
        self._source = source
        self._settings = settings
        # Reentrant, so that a signal handler may close the node at any moment, even during its start.
        self._lock = threading.RLock()
        self._dispatcher: Dispatcher | None = None
        self._replaced: Dispatcher | None = None  # may still be closing
        self._pid = os.getpid()
        self.closed = False
        self.said: set[str] = set()  # the warnings that are given once
        # In a forked child the executor's threads do not exist. The node then starts its own threads.
        is_here = not isinstance(settings.method, str) and settings.pid == self._pid
        self._executor: Executor | None = settings.method if is_here else None  # type: ignore[assignment]
        self.choice: Any = None  # of ``method="auto"``, once it is made

    def _choose(self) -> None:
        """Choose the workers of ``method="auto"``, once."""
        self._forget_after_fork()
        with self._lock:
            if self._settings.method == "auto" and not self.closed:
                self._settings, self.choice = observers.choose(self._source, self._settings)

    def settings(self) -> Settings:
        """Return the settings, with the choice of ``method="auto"`` if it was made."""
        return self._settings

    def reads_here(self) -> bool:
        """Return whether the caller evaluates items itself.

        It does so without workers, and inside a task of the node's executor.
        """
        if self._settings.method == "auto":
            self._choose()
        if not self._settings.workers:
            if self.closed:
                raise PrefetchError(CLOSED)
            return True
        if self._executor is None or self.closed:
            return False
        from .executors import pool  # imported here because most nodes have their own workers

        return pool.is_within(self._executor)  # inside its tasks, waiting for another task could deadlock

    def has_workers(self) -> bool:
        """Return whether workers compute the items. A closed node counts as one with workers."""
        return self.closed or not self.reads_here()

    def has_threads(self) -> bool:
        """Return whether threads of this process, the engine's own, compute the items."""
        if self._settings.method == "auto":
            self._choose()
        method = self._settings.method
        return self._executor is None and (method != "process" or in_process_worker())

    def live_below(self, processes: int, timeout_s: float | None) -> None:
        """Adapt the settings, before the start, to a node above."""
        self._forget_after_fork()  # in a worker process the workers of the parent do not count
        settings = self._settings
        if self._dispatcher is None and isinstance(settings.method, str) and settings.workers:
            workers = max(1, settings.workers // processes)
            timeout_s = timeout_s if settings.timeout_s is None else settings.timeout_s
            self._settings = replace(settings, workers=workers, timeout_s=timeout_s)

    def running(self) -> Dispatcher:
        self._forget_after_fork()
        with self._lock:
            dispatcher = self._dispatcher
            if not self.closed and (dispatcher is None or dispatcher is self._replaced or dispatcher.ended()):
                dispatcher = self._dispatcher = self._started()
        if dispatcher is None or self.closed:  # a signal handler may have closed the node during the start
            self._end(dispatcher)
            raise PrefetchError(CLOSED)
        return dispatcher

    def _end(self, *dispatchers: Dispatcher | None) -> None:
        """End the workers. Call without the lock, because an item that reads the node would wait for it."""
        for dispatcher in dispatchers:
            if dispatcher is not None:
                dispatcher.close()

    def _forget_after_fork(self) -> None:
        if self._pid != os.getpid():  # a forked child: the lock may be held by a thread of the parent
            self._lock, self._pid = threading.RLock(), os.getpid()
            self._dispatcher = self._replaced = self._executor = None

    def _started(self) -> Dispatcher:
        settings, chunk = self._settings, self._settings.chunk_size
        target_ns = TARGET_NS
        has_copies = settings.method == "process" and not in_process_worker()
        if self._executor is not None:
            from .executors import pool

            target_ns, has_copies = pool.TASK_NS, not pool.shares_objects(self._executor)
        is_told = self._executor is None and not has_copies  # threads have a `StagePlan`
        least = 1 if is_told else items_per_job(self._source, settings.workers)
        chunking = Chunking(settings.workers, settings.max_buffered, chunk, target_ns, least)
        options = FaultLimits(settings.timeout_s, settings.retries)
        if observers.begin is None or in_process_worker():
            return Dispatcher(self._backend(self._source, 2 * chunking.chunk_ns), chunking, options)
        observer = observers.begin(self._source, settings.workers)
        return Dispatcher(self._backend(observer.source, 2 * chunking.chunk_ns), chunking, options, observer)

    def _backend(self, source: View[Any], budget_ns: int) -> Backend:
        settings, workers, hook = self._settings, self._settings.workers, self._settings.start_hook
        capacity, _ = settings.slot_counts()
        if self._executor is not None:
            from .executors import pool

            most = settings.most_tasks or capacity
            return pool.ExecutorBackend(source, self._executor, workers, most, capacity, budget_ns)
        seed = as_seed(settings.seed, "prefetch: seed")
        if settings.method == "process" and not in_process_worker():
            if why := why_not_here():
                return self._standard_pool(source, why, seed, capacity, budget_ns)
            from .processes.transport import Processes

            context = _start_method(settings.context)
            return Processes(source, settings, context, seed, budget_ns, self.said)
        if not isinstance(settings.method, str):  # a copy of the node, which has no executor
            workers = min(workers, usable_cpus())
        infos = [worker_info(number, workers, seed, "thread") for number in range(workers)]
        return Threads(source, infos, hook, capacity, budget_ns)

    def _standard_pool(
        self, source: View[Any], why: str, seed: int, capacity: int, budget_ns: int
    ) -> Backend:
        """Return the backend for systems on which the engine cannot create its own processes."""
        from .executors.pool import ExecutorBackend
        from .executors.spawn import SpawnPool

        settings = self._settings
        if settings.timeout_s is not None:
            raise ValueError(
                f"prefetch: timeout cannot be used with method='process' on this system ({why}). Leave it"
                " out, or use method='thread'"
            )
        warn(
            f"prefetch: shared memory is not available on this system ({why}). method='process' uses the"
            " process pool of the standard library. Results are pickled, so large arrays take longer;"
            " shm_size, context and retries have no effect",
            RuntimeWarning,
        )
        pool = SpawnPool(settings.workers, seed)
        workers, hook = settings.workers, settings.start_hook
        return ExecutorBackend(source, pool, workers, capacity, capacity, budget_ns, hook, settings.item_seed)

    def close(self) -> None:
        self._forget_after_fork()
        self.closed = True
        with self._lock:
            dispatchers = self._replaced, self._dispatcher
        self._end(*dispatchers)

    def restart(self) -> None:
        self._forget_after_fork()
        with self._lock:
            replaced, self.closed = self._dispatcher, False
            self._replaced = replaced
        self._end(replaced)

    def is_running(self) -> bool:
        dispatcher = self._dispatcher
        return not (self._pid != os.getpid() or dispatcher is None or dispatcher.ended())

    def tasks(self) -> list[str]:
        """Return the folders of the workers below /proc, as far as they are known (for `profile`)."""
        dispatcher = self._dispatcher
        return dispatcher.backend.tasks() if dispatcher is not None and self.is_running() else []

    def state(self) -> str:
        """Return what the workers do now, in a few words."""
        if self.closed:
            return "closed"
        workers = self._settings.workers
        if not workers:
            return "no workers"
        return f"{workers} worker{'s' * (workers > 1)} running" if self.is_running() else "idle"

    def statistics(self) -> Statistics:
        self._forget_after_fork()
        dispatcher = self._dispatcher
        return Statistics() if dispatcher is None else dispatcher.statistics()


def why_not_here() -> str:
    """Return why the engine cannot create its own processes here, or "" if it can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    from .processes import linux

    return linux.missing()


def _start_method(context: str | None) -> str | None:
    """Return the start method of workers, or None to check whether forking is safe.

    A start method that the user set for `multiprocessing` is used. The default of `multiprocessing` is not
    used, because any use of `multiprocessing` sets it. If the user set "fork" there, the check is still
    made.
    """
    if context is not None or "multiprocessing" not in sys.modules:
        return context
    multiprocessing = sys.modules["multiprocessing"]
    chosen: str | None = multiprocessing.get_start_method(allow_none=True)
    return None if chosen in ("fork", multiprocessing.get_all_start_methods()[0]) else chosen
