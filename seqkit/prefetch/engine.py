"""The workers of a node: started when needed, once, anew in a forked child."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, cast

from ..context import in_process_worker
from ..randomness import as_seed
from ..view import View
from .dispatcher import CLOSED, MESSAGE_NS, Dispatcher, Options
from .hooks import worker_info
from .inline import Inline
from .pieces import InPieces, Pieces
from .protocol import Backend
from .resources import usable_cpus
from .settings import chunk_depth, slot_counts
from .statistics import Statistics
from .threads import Threads

if TYPE_CHECKING:  # this needs Linux
    from .processes.template import Server

__all__ = ["Engine", "fork_server"]


class Engine:
    """The workers of a node: started when needed, once, anew in a forked child."""

    def __init__(self, source: View[Any], settings: dict[str, Any]) -> None:
        self._source = source
        self._settings = settings
        # Reentrant, so that a signal handler may close the node at any moment, its start included.
        self._lock = threading.RLock()
        self._dispatcher: Dispatcher | None = None
        self._replaced: Dispatcher | None = None  # it may still be ending
        self._pid = os.getpid()
        self.closed = False
        # In a fork its threads are not there; threads of the node's own are.
        is_here = not isinstance(settings["method"], str) and settings["pid"] == self._pid
        self._executor: Executor | None = settings["method"] if is_here else None

    def is_within(self) -> bool:
        """Is it asked in a task of the executor, which might wait for ever for another one?"""
        if self._executor is None or self.closed:
            return False
        from ..executors import pool  # only here: most nodes have workers of their own

        return pool.is_within(self._executor)

    def running(self) -> Dispatcher:
        self._forget_after_fork()
        with self._lock:
            dispatcher = self._dispatcher
            if not self.closed and (dispatcher is None or dispatcher is self._replaced or dispatcher.ended()):
                dispatcher = self._dispatcher = self._started()
        if dispatcher is None or self.closed:  # perhaps by a signal handler, while it started
            self._end(dispatcher)
            raise RuntimeError(CLOSED)
        return dispatcher

    def _end(self, *dispatchers: Dispatcher | None) -> None:
        """End the workers; not under the lock, which an item that reads the node would wait for."""
        for dispatcher in dispatchers:
            if dispatcher is not None:
                dispatcher.close()

    def _forget_after_fork(self) -> None:
        if self._pid != os.getpid():  # a forked child: the lock may be held by a thread that is not here
            self._lock, self._pid = threading.RLock(), os.getpid()
            self._dispatcher = self._replaced = self._executor = None

    def _started(self) -> Dispatcher:
        settings = self._settings
        workers = max(settings["workers"], 1)
        chunk = settings["chunk_size"]
        # Without workers there are no messages to be spared: an item is made when it is read, not before.
        inline = chunk == "auto" and not settings["workers"]
        if inline or settings["timeout"] is not None or settings["pieces"] > 1:
            chunk = 1
        message_ns = MESSAGE_NS
        if self._executor is not None:
            from ..executors import pool

            message_ns = pool.TASK_NS
        options = Options(
            workers=workers,
            depth=chunk_depth(settings["max_buffered"], workers),
            max_buffered=settings["max_buffered"],
            chunk_size=None if chunk == "auto" else chunk,
            message_ns=message_ns,
            timeout_s=settings["timeout"],
            retries=settings["retries"],
            on_exhausted=settings["on_exhausted"],
        )
        return Dispatcher(self._backend(), options)

    def _backend(self) -> Backend:
        pieces = self._settings["pieces"]
        return (
            self._workers() if pieces == 1 else InPieces(self._workers(), cast(Pieces, self._source), pieces)
        )

    def _workers(self) -> Backend:
        settings = self._settings
        workers, hook = settings["workers"], settings["start_hook"]
        if not workers:
            return Inline(self._source)
        capacity, leases = slot_counts(settings["max_buffered"], workers, settings["shm_size"])
        capacity *= settings["pieces"]
        if self._executor is not None:
            from ..executors import pool

            most = settings["most_tasks"] or capacity
            return pool.ExecutorBackend(self._source, self._executor, workers, most, capacity)
        seed = as_seed(settings["seed"], "prefetch: seed")
        if settings["method"] == "process" and not in_process_worker():
            if why := why_not_here():
                return self._standard_pool(why, seed, capacity)
            from .processes.transport import Processes

            return Processes(
                self._source,
                workers,
                _start_method(settings["context"]),
                hook,
                capacity=capacity,
                most_leases=leases,
                shm_bytes=settings["shm_size"],
                seed=seed,
                pieces=settings["pieces"],
                pinner=settings["pinner"],
                server=settings["server"],
            )
        if not isinstance(settings["method"], str):  # a copy, which has no executor
            workers = min(workers, usable_cpus())
        infos = [worker_info(number, workers, seed, "thread") for number in range(workers)]
        return Threads(self._source, infos, hook, capacity)

    def _standard_pool(self, why: str, seed: int, capacity: int) -> Backend:
        """Return the backend for processes where the engine cannot make its own."""
        from ..executors.pool import ExecutorBackend
        from ..executors.spawn import SpawnPool

        settings = self._settings
        if settings["timeout"] is not None:
            raise ValueError(
                f"prefetch: timeout cannot be used with method='process' on this system ({why}). Leave it"
                " out, or use method='thread'"
            )
        warnings.warn(
            f"prefetch: shared memory is not available on this system ({why}). method='process' uses the"
            " process pool of the standard library. Results are pickled, so large arrays take longer;"
            " shm_size and context have no effect",
            RuntimeWarning,
            stacklevel=2,
        )
        workers = settings["workers"]
        pool = SpawnPool(workers, seed)
        return ExecutorBackend(self._source, pool, workers, capacity, capacity, settings["start_hook"])

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

    def statistics(self) -> Statistics:
        self._forget_after_fork()
        dispatcher = self._dispatcher
        return Statistics() if dispatcher is None else dispatcher.statistics()


def why_not_here() -> str:
    """Return why the engine cannot make processes of its own here, or "" if it can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    missing = [name for name in ("memfd_create", "pidfd_open") if not hasattr(os, name)]
    return f"this Python has no os.{missing[0]}" if missing else ""


def fork_server(preload: tuple[str, ...]) -> Server | None:
    """Return a fork server for nodes to share, that imports modules for their workers; None without Linux."""
    if why_not_here():
        return None
    from .processes.template import Server

    return Server(preload)


def _start_method(context: str | None) -> str:
    if context is not None:
        return context
    chosen = None
    if "multiprocessing" in sys.modules:
        chosen = sys.modules["multiprocessing"].get_start_method(allow_none=True)
    method = chosen or ("fork" if sys.version_info < (3, 14) else "forkserver")
    # A fork copies locks that other threads hold, which nobody will ever release in the child.
    return "forkserver" if method == "fork" and threading.active_count() > 1 else method
