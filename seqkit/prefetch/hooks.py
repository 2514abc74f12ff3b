"""Code that runs in a worker around its items, the same for threads and processes."""

from __future__ import annotations

import inspect
import os
import random
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..context import WorkerInfo, flush_streams

# How long closing a node waits for the end hooks of its workers.
END_HOOK_S = 5.0


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


def seed_globals(seed: int, epoch: int, again: int = 0) -> None:
    """Seed the global generators of a worker process. Forked workers would otherwise repeat each other.

    Epoch -1 is the pipeline as the user passed it. `again` gives each return to an epoch a different seed.
    """
    entropy = [seed, epoch + 1, again] if again else [seed, epoch + 1]
    words = np.random.SeedSequence(entropy).generate_state(4)
    random.seed(int.from_bytes(words.tobytes(), "little"))
    np.random.seed(words)
    torch = sys.modules.get("torch")
    if torch is not None:
        version = getattr(torch, "version", None)
        has_devices = any(getattr(version, device, None) for device in ("cuda", "hip", "xpu"))
        # `torch.manual_seed` takes milliseconds to look for devices, which a build for CPUs does not have.
        (torch.manual_seed if has_devices else torch.default_generator.manual_seed)(int(words[0]))


class Seeding:
    """Seed the global generators of a worker process for every epoch.

    No seed is used twice, even if other epochs are read in between, or if a worker dies. Otherwise the
    replacement of a dead worker would give items the same numbers as earlier items.

    Parameters
    ----------
    seed : int
        The seed of the worker.
    count : callable
        Returns how often it was called before, including calls by dead workers with the same number.
    """

    def __init__(self, seed: int, count: Callable[[], int]) -> None:
        self._seed = seed
        self._count = count
        self._is_first = not count()  # the first worker with this number
        self._begun: set[int] = set()
        self.begin(-1)

    def begin(self, epoch: int) -> None:
        again = 0 if self._is_first and epoch not in self._begun else self._count()
        seed_globals(self._seed, epoch, again)
        self._begun.add(epoch)
        self.epoch = epoch


def call_hook(hook: Callable[..., Any] | None, worker: int) -> None:
    """Call a start or end hook with the worker's number, or without arguments if it takes none.

    If the hook forks, only the worker itself returns from this function.

    >>> call_hook(print, 3)
    3
    >>> call_hook(lambda: print("ready"), 3)
    ready
    """
    if hook is None:
        return
    pid = os.getpid()
    try:
        if _takes(hook, worker):
            hook(worker)
        else:
            hook()
    except BaseException as error:
        if os.getpid() != pid:
            leave_fork(error)
        raise
    if os.getpid() != pid:
        leave_fork()


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


def leave_fork(error: BaseException | None = None) -> NoReturn:
    """End a process that user code in a worker forked, as Python would end it. It is not a worker."""
    status = 1
    try:
        if error is None:
            status = 0
        elif not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, error.__traceback__)
        elif isinstance(error.code, int | None):
            status = (error.code or 0) & 0xFF
        else:
            print(error.code, file=sys.stderr)
        flush_streams()
    finally:
        os._exit(status)
