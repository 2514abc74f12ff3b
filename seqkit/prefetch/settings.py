"""Which arguments of `prefetch` mean what: checks, and figures that follow from them."""

from __future__ import annotations

import operator
from concurrent.futures import Executor
from mmap import PAGESIZE
from typing import Any, Literal, get_args

from ..checks import optional_int, optional_number
from .dispatcher import MAX_DEPTH
from .resources import usable_cpus

__all__ = [
    "CONTEXTS",
    "Context",
    "Method",
    "OnExhausted",
    "checked_shm_size",
    "checked_timeout",
    "chunk_depth",
    "executor_of",
    "limits_tasks",
    "place_of",
    "slot_counts",
    "worker_count",
]

Method = Literal["thread", "process", "inline", "dask", "ray"] | Executor
OWN = ("thread", "process", "inline")
ENGINES = ("dask", "ray")
Context = Literal["fork", "forkserver", "spawn"]
CONTEXTS: tuple[str, ...] = get_args(Context)
OnExhausted = Literal["copy", "block", "raise"]

# Slots beyond those in flight, for the arrays that readers hold.
LEASES = 8


def executor_of(method: Any) -> Executor | None:
    """Return the executor that a method is, or names; None for those of the engine's own."""
    if isinstance(method, str) and method in OWN:
        return None
    from .. import executors  # only here: most nodes have workers of their own

    if isinstance(method, str) and method in ENGINES:
        return executors.named(method)
    if not isinstance(method, Executor):
        names = ", ".join(map(repr, [*OWN, *ENGINES]))
        raise ValueError(
            f"prefetch: method must be one of {names} or a concurrent.futures.Executor, got {method!r}"
        )
    return executors.adapted(method)


def worker_count(nworkers: int | None, executor: Executor | None) -> int:
    if nworkers is None:
        return _workers_of(executor)
    if isinstance(nworkers, bool) or not hasattr(nworkers, "__index__"):
        raise TypeError(f"prefetch: nworkers must be an int or None, got {nworkers!r}")
    number = operator.index(nworkers)
    if number >= 0:
        return number
    workers = _workers_of(executor)
    if workers + number < 1:
        there = "usable CPUs" if executor is None else "workers"
        raise ValueError(f"prefetch: nworkers={number} leaves no worker, there are {workers} {there}")
    return workers + number


def _workers_of(executor: Executor | None) -> int:
    return (None if executor is None else _known_workers(executor)) or usable_cpus()


def _known_workers(executor: Executor) -> int | None:
    from ..executors import workers_of

    return workers_of(executor)


def place_of(method: Method, executor: Executor | None) -> Method:
    """Return what evaluates: an executor; or threads within a task of the engine that is named."""
    if executor is not None:
        return executor
    return method if method in OWN else "thread"


def limits_tasks(nworkers: int | None, workers: int, executor: Executor) -> bool:
    """Are these fewer workers than an executor has, as far as that is known?"""
    if nworkers is None:
        return False
    known = _known_workers(executor)
    return known is None or workers < known


def chunk_depth(max_buffered: int | None, workers: int) -> int:
    """Return how many chunks a reader may have pending."""
    return min(max_buffered or 2 * workers + 2, max(256, 2 * workers))


def slot_counts(max_buffered: int | None, workers: int, shm_size: int | None) -> tuple[int, int]:
    """Return how many jobs may be in flight, and how many more slots there are for readers' arrays."""
    depth = chunk_depth(max_buffered, workers)
    unbounded = max_buffered is None and shm_size is None  # small results may come deeper, see `Dispatcher`
    return max(depth, 2 * workers, MAX_DEPTH * unbounded), max(depth, LEASES)


def checked_shm_size(shm_size: int | None, slots: int) -> int | None:
    size = optional_int(shm_size, "prefetch: shm_size", least=0)
    if size is not None and 0 < size < slots * PAGESIZE:
        raise ValueError(
            f"prefetch: shm_size must be 0 or at least {slots * PAGESIZE} bytes,"
            f" a page for each of {slots} slots, got {size}"
        )
    return size


def checked_timeout(timeout: float | None, workers: int) -> float | None:
    timeout = optional_number(timeout, "prefetch: timeout", "seconds")
    if timeout is not None and not workers:
        raise ValueError("prefetch: timeout needs workers, got nworkers=0")
    return timeout
