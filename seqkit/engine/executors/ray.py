"""Ray as an executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from . import ManagedExecutor


class Ray(ManagedExecutor):
    """Run tasks with Ray, and store the pipeline in Ray's object store.

    Tasks that Ray has received are not cancelled, because Ray would also interrupt a running task.
    """

    def __init__(self) -> None:
        import ray

        self._ray = ray
        self._max_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._remote: dict[Callable[..., Any], Any] = {}

    def put(self, value: bytes) -> Callable[[], bytes]:
        self._check()
        return partial(self._ray.get, self._ray.put(value))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._check()
        if fn not in self._remote:
            self._remote[fn] = self._ray.remote(max_retries=0)(fn)  # prefetch does the retries
        return self._remote[fn].remote(*args, **kwargs).future()  # type: ignore[no-any-return]

    def ended(self) -> Exception | None:
        return None if self._ray.is_initialized() else RuntimeError("Ray has been shut down")

    def _check(self) -> None:
        if (error := self.ended()) is not None:  # otherwise Ray would start again on its own
            raise error


def current_ray() -> Executor | None:
    """Return an executor for the running Ray, or None inside a Ray task."""
    import ray

    if not ray.is_initialized():
        raise ValueError("prefetch: method='ray' needs Ray running: call ray.init first")
    return None if ray.get_runtime_context().worker.mode == ray.WORKER_MODE else Ray()
