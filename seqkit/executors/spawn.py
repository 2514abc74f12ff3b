"""Worker processes of a node on systems without the engine's own processes: macOS, Windows, old kernels.

Guarantees
----------
- The processes belong to one node. They start with the node's first task, and end with the node.
- When a process dies, all processes are replaced. The backend finds the item that caused the death.
- No process outlives its parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing.process import BaseProcess
from typing import Any

import threadpoolctl

from ..context import set_worker_info
from ..prefetch.hooks import worker_info
from ..prefetch.resources import native_threads
from ..prefetch.seeding import seed_globals
from . import Engine

# How long closing waits for processes that are computing an item. Then it kills them.
GRACE_S = 0.5
CANNOT_START = (
    "its processes ended while they started. They are spawned here, and import the main script: put the code"
    " that starts work under `if __name__ == '__main__':`, or use method='thread'"
)


class SpawnPool(Engine):
    """A process pool of the standard library that is replaced when one of its processes dies."""

    recovers = True

    def __init__(self, workers: int, seed: int) -> None:
        self._max_workers = workers
        self._seed = seed
        self._native_threads = native_threads()
        self._spawn = multiprocessing.get_context("spawn")
        self._started = self._spawn.Value("q", 0)  # how many processes have started so far
        self._started_before = 0  # value of `_started` when the current pool was created
        self._pool: ProcessPoolExecutor | None = None
        self._futures: set[Future[Any]] = set()  # futures in flight

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            future = self._running().submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self.release()
            if self._started.value == self._started_before:
                raise RuntimeError(CANNOT_START) from None
            future = self._running().submit(fn, *args, **kwargs)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._started_before = self._started.value
            arguments = self._started, self._max_workers, self._seed, self._native_threads
            self._pool = ProcessPoolExecutor(self._max_workers, self._spawn, _start_worker, arguments)
        return self._pool

    def has_ended(self) -> bool:
        if self._pool is not None and self._pool._broken:
            # Before Python 3.13 a broken pool stops notifying futures at the first cancelled future.
            for future in list(self._futures):
                future.cancel()
        return False

    def release(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        # `kill_workers` of the pool requires Python 3.14.
        processes: list[BaseProcess] = list((pool._processes or {}).values())
        manager: Any = pool._executor_manager_thread
        pool.shutdown(wait=False, cancel_futures=True)
        if manager not in (None, threading.current_thread()):  # the garbage collector may run in any thread
            manager.join(GRACE_S)  # the manager thread waits for the processes
        for process in processes:
            process.kill()
            process.join(GRACE_S)


def _start_worker(started: Any, workers: int, seed: int, threads: int) -> None:
    """Initialize a process of the pool as a worker: number it, and make it end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, name="seqkit-watch", daemon=True).start()
    with started.get_lock():
        number = started.value
        started.value += 1
    # A replacement reuses the number of another process, but gets a new seed.
    info = replace(worker_info(number, workers, seed, "process"), id=number % workers)
    set_worker_info(info)
    seed_globals(info.seed, -1)
    threadpoolctl.threadpool_limits(threads or None)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
