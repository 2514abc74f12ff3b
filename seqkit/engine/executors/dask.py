"""Dask as an executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import suppress
from typing import Any

from . import ManagedExecutor


class Dask(ManagedExecutor):
    """Run tasks with a Dask client."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise ValueError("prefetch: method needs a Dask client that is not asynchronous")
        self._client = client
        self._tasks: dict[Future[Any], Any] = {}

    @property
    def _max_workers(self) -> int | None:
        return int(sum(self._client.nthreads().values())) or None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_closed():
            raise RuntimeError("the Dask client is closed")
        # Not pure: results of tasks with equal arguments are not reused.
        task = self._client.submit(fn, *args, **kwargs, pure=False)
        future: Future[Any] = Future()
        self._tasks[future] = task
        future.add_done_callback(self._release_task)
        # Callbacks of the Dask task would run in a thread pool, which raises errors at interpreter exit.
        self._client.loop.add_callback(_complete, future, task)
        return future

    def _release_task(self, future: Future[Any]) -> None:
        self._tasks.pop(future).release()  # cancels the task if it has not run; does not block

    def ended(self) -> Exception | None:
        for future, task in self._tasks.copy().items():
            if task.cancelled():  # Dask does not complete a task that was cancelled during the transfer
                future.cancel()
        return RuntimeError("it has been shut down") if self._is_closed() else None

    def is_inside_task(self) -> bool:
        return _is_in_dask()

    def _is_closed(self) -> bool:
        return self._client.status in ("closing", "closed")


async def _complete(future: Future[Any], task: Any) -> None:
    with suppress(InvalidStateError):  # the future was cancelled earlier
        try:
            result = await task._result()
        except CancelledError:
            future.cancel()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _is_in_dask() -> bool:
    import distributed

    try:
        distributed.get_worker()
        return True
    except ValueError:
        return False


def current_dask() -> Executor | None:
    """Return an executor for the current client, or None inside a Dask task."""
    import distributed

    if _is_in_dask():
        return None
    try:
        return Dask(distributed.get_client())
    except ValueError as error:
        raise ValueError("prefetch: method='dask' needs a client: make a distributed.Client first") from error
