"""What a worker of a loader does before its first batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..context import WorkerInfo, get_worker_info, set_worker_info
from ..prefetch.hooks import call_hook

__all__ = ["Start"]


class Start:
    """Puts the worker's data set into its `WorkerInfo`, and calls the user's `worker_init_fn`."""

    def __init__(self, worker_init_fn: Callable[..., Any] | None, dataset: Any) -> None:
        self.worker_init_fn = worker_init_fn
        self.dataset = dataset

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        self.introduce(replace(info, dataset=self.dataset))
        call_hook(self.worker_init_fn, worker)

    def introduce(self, info: WorkerInfo) -> None:
        """Let everybody know who the worker is."""
        set_worker_info(info)
