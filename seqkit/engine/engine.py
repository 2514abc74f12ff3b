"""The workers of a node: started once, when needed, and again in a forked child."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from ..core.randomness import as_seed
from ..core.tracebacks import warn
from ..core.view import View
from ..core.worker import in_process_worker
from . import observers
from .chunking import TARGET_NS, TASK_NS, Chunking
from .protocol import Backend, PrefetchError
from .scheduler import CLOSED, Scheduler
from .settings import Context, Settings
from .stages import items_per_job
from .statistics import Statistics
from .threads import Threads


class Engine:
    """The workers of a node. They are started once, when needed, and again in a forked child.

    Attributes
    ----------
    source, settings
        The pipeline and the settings. An observer may replace them before the first read.
    observer
        Reports after every so many items, or None.
    choice
        What ``method="auto"`` chose, and why. None before the first read, and for other methods.
    """

    def __init__(self, source: View[Any], settings: Settings) -> None:
        self.source = source
        self.settings = settings if settings.pid == os.getpid() else settings.without_executor()
        self.observer: Any = None
        self.choice: Any = None
        self._is_settled = False
        # Reentrant, so that a signal handler may close the node at any moment, even during its start.
        self._lock = threading.RLock()
        self._scheduler: Scheduler | None = None
        self._pid = os.getpid()
        self.closed = False
        self.said: set[str] = set()  # the warnings that are given once

    def settle(self) -> None:
        """Let the observer prepare the node, once. It chooses the workers of ``method="auto"``."""
        if not self._is_settled:
            self._forget_after_fork()
            with self._lock:
                if not (self._is_settled or self.closed):
                    observers.prepare(self)
                    self._is_settled = True

    def reads_here(self) -> bool:
        """Return whether the caller evaluates items itself.

        It does so without workers, and inside a task of the node's executor.
        """
        self.settle()
        if not self.settings.workers:
            if self.closed:
                raise PrefetchError(CLOSED)
            return True
        executor = self.settings.executor
        if executor is None or self.closed:
            return False
        from .executors import pool  # imported here because most nodes have their own workers

        return pool.is_within(executor)  # inside its tasks, waiting for another task could deadlock

    def has_workers(self) -> bool:
        """Return whether workers compute the items. A closed node counts as one with workers."""
        return self.closed or not self.reads_here()

    def has_threads(self) -> bool:
        """Return whether threads of this process, the engine's own, compute the items."""
        self.settle()
        settings = self.settings
        return settings.executor is None and (settings.method != "process" or in_process_worker())

    def limit(self, processes: int, timeout_s: float | None) -> None:
        """Adapt the settings, before the start, to a node above."""
        self._forget_after_fork()  # in a worker process the workers of the parent do not count
        settings = self.settings
        if self._scheduler is None and isinstance(settings.method, str) and settings.workers:
            workers = max(1, settings.workers // processes)
            timeout_s = timeout_s if settings.timeout_s is None else settings.timeout_s
            self.settings = replace(settings, workers=workers, timeout_s=timeout_s)

    def running(self) -> Scheduler:
        """Return the scheduler of the workers. Start them if they do not run."""
        self._forget_after_fork()
        with self._lock:
            if not self.closed and not self.is_running():
                self._scheduler = self._started()
            scheduler = self._scheduler
        if scheduler is None or self.closed:  # a signal handler may have closed the node during the start
            self.close()
            raise PrefetchError(CLOSED)
        return scheduler

    def _forget_after_fork(self) -> None:
        if self._pid != os.getpid():  # a forked child: the lock may be held by a thread of the parent
            self._lock, self._pid = threading.RLock(), os.getpid()
            self._scheduler = None
            self.settings = self.settings.without_executor()  # its threads do not exist here

    def _started(self) -> Scheduler:
        settings, executor = self.settings, self.settings.executor
        settings = replace(settings, seed=as_seed(settings.seed, "prefetch: seed"))
        # The engine's own threads have a `StagePlan`. Others need long jobs, so that nodes below work ahead.
        least = 1 if self.has_threads() else items_per_job(self.source, settings.workers)
        if executor is None and not self.has_threads() and (why := why_not_here()):
            executor = _standard_pool(settings, why)
        target_ns = TARGET_NS if executor is None else TASK_NS
        chunking = Chunking(settings.workers, settings.max_buffered, settings.chunk_size, target_ns, least)
        backend = self._backend(settings, executor, 2 * chunking.chunk_ns)
        return Scheduler(backend, chunking, settings.timeout_s, settings.retries, self.observer)

    def _backend(self, settings: Settings, executor: Executor | None, budget_ns: int) -> Backend:
        if executor is not None:
            from .executors import pool

            return pool.ExecutorBackend(self.source, settings, executor, budget_ns)
        if not self.has_threads():
            from .processes.transport import Processes

            settings = replace(settings, context=start_method(settings.context))
            return Processes(self.source, settings, budget_ns, self.said)
        if settings.method == "async":
            from .coroutines import Coroutines  # imported here because `asyncio` takes long to import

            return Coroutines(self.source, settings)
        return Threads(self.source, settings, budget_ns)

    def close(self) -> None:
        self._forget_after_fork()
        self.closed = True
        with self._lock:
            scheduler = self._scheduler
        if scheduler is not None:  # without the lock, for which an item that reads the node would wait
            scheduler.close()

    def restart(self) -> None:
        self._forget_after_fork()
        self.closed = False
        if self._scheduler is not None:
            self._scheduler.close()

    def is_running(self) -> bool:
        """Return whether the node has workers that have started and not ended."""
        return self._scheduler is not None and not self._scheduler.ended()

    def tasks(self) -> list[str]:
        """Return the folders of the workers below /proc, as far as they are known."""
        scheduler = self._scheduler
        return [] if scheduler is None or scheduler.ended() else scheduler.backend.tasks()

    def statistics(self) -> Statistics:
        self._forget_after_fork()
        return Statistics() if self._scheduler is None else self._scheduler.statistics()


def why_not_here() -> str:
    """Return why the engine cannot create its own processes here, or "" if it can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    from .processes import linux

    return linux.missing()


def _standard_pool(settings: Settings, why: str) -> Executor:
    """Return the worker processes of a system on which the engine cannot create its own."""
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
    from .executors.spawn import SpawnPool

    return SpawnPool(settings)


def start_method(context: Context | None) -> Context | None:
    """Return the start method of workers, or None to check whether forking is safe.

    A start method that the user set for `multiprocessing` is used. The default of `multiprocessing` is not
    used, because any use of `multiprocessing` sets it. If the user set "fork" there, the check is still
    made.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    if context is not None or multiprocessing is None:
        return context
    chosen: Any = multiprocessing.get_start_method(allow_none=True)
    return None if chosen in ("fork", multiprocessing.get_all_start_methods()[0]) else chosen
