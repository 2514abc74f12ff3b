"""Engines that run tasks on many machines, by their names: an executor over what is running there already.

Guarantees
----------
- an engine is imported when it is asked for by name, and not before; none is started or ended here;
- every future is completed, or `has_ended` says that it will not be.

Relies on
---------
- a client of Dask's, or `ray.init`, having been there first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any

__all__ = ["ENGINES", "Dask", "Engine", "Ray", "adapted", "named", "workers_of"]


def named(name: str) -> Executor | None:
    """Return the executor of an engine; None within a task of it, where it might wait for itself.

    Raises
    ------
    ImportError
        If the engine is not installed.
    ValueError
        If it is not running.
    """
    try:
        return ENGINES[name]()
    except ImportError as error:
        message = f"prefetch: method={name!r} needs it installed (pip install 'seqkit[{name}]'): {error}"
        raise ImportError(message) from error


def is_executor(method: Any) -> bool:
    return isinstance(method, Executor)


def adapted(executor: Executor) -> Executor | None:
    """Return an executor; one of Dask's as `named` would, as its own loses futures that others cancel."""
    distributed = sys.modules.get("distributed")  # a module of the user's, perhaps
    theirs = getattr(getattr(distributed, "cfexecutor", None), "ClientExecutor", ())
    if isinstance(executor, theirs):
        return None if _is_in_dask() else Dask(executor._client, **executor._kwargs)
    return executor


def workers_of(executor: Executor) -> int | None:
    """Return how many workers an executor says it has, if it does."""
    workers = getattr(executor, "_max_workers", None)  # the standard library's, and who takes after them
    return workers if isinstance(workers, int) else None


class Engine(Executor):
    """What the backend asks an engine beyond what every executor can do."""

    def put(self, value: bytes) -> bytes | Callable[[], bytes]:
        """Store a value once, if there is a store; return it, or how a task gets it."""
        return value

    def has_ended(self) -> bool:
        """Will nothing come any more? A single future that will never be completed is cancelled."""
        raise NotImplementedError


# -------------------------------------------------------------------- Dask


class Dask(Engine):
    """The tasks of a Dask client as an executor; `options` are those of the client's `submit`."""

    def __init__(self, client: Any, **options: Any) -> None:
        if client.asynchronous:
            raise ValueError("prefetch: method needs a client of Dask's that is not asynchronous")
        self._client = client
        self._options = {**options, "pure": False}  # else tasks that look alike would be one
        self._tasks: dict[Future[Any], Any] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dask) and other._client is self._client

    def __hash__(self) -> int:
        return id(self._client)

    @property
    def _max_workers(self) -> int | None:
        return int(sum(self._client.nthreads().values())) or None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_closed():
            raise RuntimeError("the client of Dask is closed")
        task = self._client.submit(fn, *args, **kwargs, **self._options)
        future: Future[Any] = Future()
        self._tasks[future] = task
        future.add_done_callback(self._release)
        # Not by a callback of the task: those come from a thread pool, and complain when the program ends.
        self._client.loop.add_callback(_complete, future, task)
        return future

    def _release(self, future: Future[Any]) -> None:
        self._tasks.pop(future).release()  # which cancels it, if nobody else wants it, and waits for nothing

    def has_ended(self) -> bool:
        for future, task in self._tasks.copy().items():
            if task.cancelled():  # while its result was on its way: that is never heard of again
                future.cancel()
        return self._is_closed()

    def _is_closed(self) -> bool:
        return self._client.status in ("closing", "closed")


async def _complete(future: Future[Any], task: Any) -> None:
    with suppress(InvalidStateError):  # cancelled meanwhile
        try:
            result = await task._result()
        except CancelledError:
            future.cancel()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _is_in_dask() -> bool:
    """Is this a task of Dask's?"""
    import distributed

    try:
        distributed.get_worker()
        return True
    except ValueError:
        return False


def _dask() -> Executor | None:
    import distributed

    if _is_in_dask():
        return None
    try:
        return Dask(distributed.get_client())
    except ValueError as error:
        raise ValueError("prefetch: method='dask' needs a client: make a distributed.Client first") from error


# -------------------------------------------------------------------- Ray


class Ray(Engine):
    """The tasks of Ray as an executor, with its store of objects.

    What Ray has been given, it does: it can cancel a task, but would break off one that it is at.
    """

    def __init__(self) -> None:
        import ray

        self._ray = ray
        self._cluster: tuple[str, str] | None = None  # as it was when the node started
        self._max_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._functions: dict[Callable[..., Any], Any] = {}

    def put(self, value: bytes) -> Callable[[], bytes]:
        if self._ray.is_initialized():
            self._cluster = self._current()
        self._check()
        return partial(self._ray.get, self._ray.put(value))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._check()
        if fn not in self._functions:
            # Who lost a worker asks again, or not, as `retries` says.
            self._functions[fn] = self._ray.remote(max_retries=0)(fn)
        return self._functions[fn].remote(*args, **kwargs).future()  # type: ignore[no-any-return]

    def has_ended(self) -> bool:
        return not self._ray.is_initialized() or self._current() != self._cluster

    def _current(self) -> tuple[str, str]:
        context = self._ray.get_runtime_context()
        return context.get_job_id(), context.get_node_id()  # another cluster counts its jobs from one again

    def _check(self) -> None:
        if self.has_ended():  # and would be begun anew
            raise RuntimeError("Ray has been shut down")


def _ray() -> Executor | None:
    import ray

    if not ray.is_initialized():
        raise ValueError("prefetch: method='ray' needs Ray running: call ray.init first")
    return None if ray.get_runtime_context().worker.mode == ray.WORKER_MODE else Ray()


ENGINES: dict[str, Callable[[], Executor | None]] = {"dask": _dask, "ray": _ray}
