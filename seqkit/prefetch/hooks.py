"""What happens in a worker before its first item, the same for threads and processes."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import WorkerInfo

__all__ = ["call_hook", "seed_globals", "worker_info"]


def worker_info(number: int, num_workers: int, seed: int, method: str) -> WorkerInfo:
    """Return who worker `number` is; its seed follows from the node's and its number."""
    own = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
    return WorkerInfo(number, num_workers, own, method)


def seed_globals(seed: int, epoch: int) -> None:
    """Seed the global generators of a worker process, which would otherwise repeat their siblings'.

    Epoch -1 is the pipeline as it was given.
    """
    words = np.random.SeedSequence([seed, epoch + 1]).generate_state(4)
    random.seed(int.from_bytes(words.tobytes(), "little"))
    np.random.seed(words)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(int(words[0]))


def call_hook(hook: Callable[..., Any] | None, worker: int) -> None:
    """Call a start hook with the worker's number, or with nothing if it takes no argument.

    >>> call_hook(print, 3)
    3
    >>> call_hook(lambda: print("ready"), 3)
    ready
    """
    if hook is None:
        return
    if _takes(hook, worker):
        hook(worker)
    else:
        hook()


def _takes(hook: Callable[..., Any], worker: int) -> bool:
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):  # a builtin without a signature
        return True
    try:
        signature.bind(worker)
    except TypeError:
        return False
    return True
