"""Executors that compute items: `concurrent.futures` pools, Dask and Ray.

`pool.py` is the backend over any executor. The other modules are executors: `dask.py`, `ray.py`, and
`spawn.py` for systems without the engine's own processes. Importing this package imports none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor

__all__ = ["Engine", "adapted", "named", "workers_of"]


class Engine(Executor):
    """An executor that tells the backend more than `Executor` can."""

    # Whether it replaces its processes after a `BrokenExecutor`.
    recovers = False

    def put(self, value: bytes) -> bytes | Callable[[], bytes]:
        """Store a value for all tasks. Return what a task gets: the value, or a function that loads it."""
        return value

    def has_ended(self) -> bool:
        """Return whether no task will complete any more. Called while the backend waits for results.

        If only some futures will never complete, cancels these.
        """
        raise NotImplementedError

    def is_inside_task(self) -> bool:
        """Return whether the current thread runs a task of this engine."""
        return False

    def release(self) -> None:
        """End what belongs to the node that used this engine, and is closed now."""


def named(name: str) -> Executor | None:
    """Return the executor called ``"dask"`` or ``"ray"``, or None inside one of its tasks.

    A task that waits for other tasks of the same executor may be a deadlock.

    Raises
    ------
    ImportError
        If the package is not installed.
    ValueError
        If there is no client, or Ray does not run.
    """
    try:
        if name == "dask":
            from .dask import current_dask as current
        else:
            from .ray import current_ray as current
        return current()
    except ImportError as error:
        message = f"prefetch: method={name!r} needs it installed (pip install 'seqkit[{name}]'): {error}"
        raise ImportError(message) from error


def adapted(executor: Executor) -> Executor | None:
    """Return the executor to use for one that was given.

    Dask's own is replaced: it logs a traceback for each task that is cancelled, and it may reuse the result
    of a task with the same arguments.
    """
    distributed = sys.modules.get("distributed")  # perhaps a module of the user with that name
    dask_executor = getattr(getattr(distributed, "cfexecutor", None), "ClientExecutor", ())
    if not isinstance(executor, dask_executor):
        return executor
    from .dask import from_executor

    return from_executor(executor)


def workers_of(executor: Executor) -> int | None:
    """Return how many workers an executor has, or None if it does not say."""
    workers = getattr(executor, "_max_workers", None)  # the name in the standard library
    return workers if isinstance(workers, int) else None
