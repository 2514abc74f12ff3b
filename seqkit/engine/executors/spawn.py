"""Worker processes of a node on systems without the engine's own processes: macOS, Windows, old kernels.

Guarantees
----------
- The processes belong to one node. They start with the node's first task, and end with the node.
- When a process dies, the node ends with an error. `restart` starts new processes.
- No process outlives its parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any

import threadpoolctl

from ...core.worker import WorkerInfo, set_worker_info
from ..resources import native_threads
from ..seeding import seed_globals
from ..settings import Settings
from . import ManagedExecutor

# How long closing waits for processes that are computing an item. Then it kills them.
GRACE_S = 0.5
ENDED = (
    "its processes ended, for example because memory ran out: restart() starts new ones. If they ended while"
    " they started: they import the main script, so put the code that starts work under"
    " `if __name__ == '__main__':`, or use method='thread'"
)


class SpawnPool(ProcessPoolExecutor, ManagedExecutor):
    """A process pool of the standard library whose processes are workers of a node."""

    def __init__(self, settings: Settings) -> None:
        spawn = multiprocessing.get_context("spawn")
        infos = [settings.info(number, "process") for number in settings.numbers]
        arguments = spawn.Value("q", 0), infos, native_threads()
        super().__init__(settings.workers, spawn, _start_worker, arguments)

    def ended(self) -> Exception | None:
        return RuntimeError(ENDED) if self._broken else None

    def release(self) -> None:
        # `kill_workers` of the pool requires Python 3.14.
        processes: list[BaseProcess] = list((self._processes or {}).values())
        manager: Any = self._executor_manager_thread
        self.shutdown(wait=False, cancel_futures=True)
        if manager not in (None, threading.current_thread()):  # the garbage collector may run in any thread
            manager.join(GRACE_S)  # the manager thread waits for the processes
        for process in processes:
            process.kill()
            process.join(GRACE_S)


def _start_worker(started: Any, infos: list[WorkerInfo], threads: int) -> None:
    """Initialize a process of the pool as a worker: number it, and make it end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, name="seqkit-watch", daemon=True).start()
    with started.get_lock():
        info = infos[started.value]
        started.value += 1
    set_worker_info(info)
    seed_globals(info.seed, -1, initial=info.seed >> 1)
    threadpoolctl.threadpool_limits(threads or None)


def _end_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
