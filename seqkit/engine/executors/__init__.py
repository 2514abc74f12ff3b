"""Executors that compute items: `concurrent.futures` pools, Dask and Ray.

`pool.py` is the backend over any executor. The other modules are executors: `dask.py`, `ray.py`, and
`spawn.py` for systems without the engine's own processes. Importing this package imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

__all__ = ["Executor", "ManagedExecutor", "named", "refuse_dask", "workers_of"]


class ManagedExecutor(Executor):
    """An executor that gives the backend more information than `Executor` can."""

    def put(self, value: bytes) -> bytes | Callable[[], bytes]:
        """Store a value for all tasks. Return the value, or a function that loads it inside a task."""
        return value

    def ended(self) -> Exception | None:
        """Return why no further task will complete, or None. Called while the backend waits for results.

        If only some futures will never complete, this method cancels those.
        """
        raise NotImplementedError

    def is_inside_task(self) -> bool:
        """Return whether the current thread runs a task of this executor."""
        return False

    def release(self) -> None:
        """Free the resources of the node that used this executor. Called when the node is closed."""


def named(name: str) -> Executor | None:
    """Return the executor called ``"dask"`` or ``"ray"``, or None inside one of its tasks.

    A task that waits for other tasks of the same executor may deadlock.

    Raises
    ------
    ImportError
        If the package is not installed.
    ValueError
        If there is no client, or Ray is not running.
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


def refuse_dask(executor: Executor) -> None:
    """Refuse Dask's own executor, which may reuse the result of a task with the same arguments."""
    if type(executor).__module__ == "distributed.cfexecutor":
        raise ValueError("prefetch: method cannot be an executor of Dask. Use method='dask'")


def workers_of(executor: Executor) -> int | None:
    """Return the number of workers of an executor, or None if the executor does not report it."""
    workers = getattr(executor, "_max_workers", None)  # the name in the standard library
    return workers if isinstance(workers, int) else None
