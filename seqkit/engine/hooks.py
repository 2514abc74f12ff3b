"""Code that runs in a worker around its items, the same for threads and processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..core.arguments import accepts
from ..core.worker import WorkerInfo


class _Generation:
    """Counts the forks that led to this process. Faster to check than `os.getpid`."""

    number = 0

    def count(self) -> None:
        self.number += 1


generation = _Generation()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=generation.count)


def worker_info(number: int, num_workers: int, seed: int, method: str) -> WorkerInfo:
    """Return the information about worker `number`. Its seed depends on the node's seed and the number."""
    own = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
    return WorkerInfo(number, num_workers, own, method)


def call_hook(hook: Callable[..., Any] | None, worker: int) -> None:
    """Call a start hook with the worker's number, or without arguments if it takes none.

    >>> call_hook(print, 3)
    3
    >>> call_hook(lambda: print("ready"), 3)
    ready
    """
    if hook is None:
        return
    forks = generation.number
    try:
        if accepts(hook, worker):
            hook(worker)
        else:
            hook()
    finally:
        if generation.number != forks:
            leave_fork()


def leave_fork() -> NoReturn:
    """End a process that user code in a worker forked, and that left the user's code. It is no worker."""
    flush_streams()
    os._exit(1)


def flush_streams() -> None:
    """Flush stdout and stderr, before a fork or at the end of a worker."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the stream may be None, closed, or an object of the user
            pass
