"""What happens in a worker around its items, the same for threads and processes."""

from __future__ import annotations

import inspect
import os
import random
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..context import WorkerInfo, flush_streams


class _Generation:
    """Counts the forks that lead to this process, quicker to ask than `os.getpid`."""

    number = 0

    def count(self) -> None:
        self.number += 1


generation = _Generation()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=generation.count)


def worker_info(number: int, num_workers: int, seed: int, method: str) -> WorkerInfo:
    """Return who worker `number` is; its seed follows from the node's and its number."""
    own = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
    return WorkerInfo(number, num_workers, own, method)


def seed_globals(seed: int, epoch: int, again: int = 0) -> None:
    """Seed the global generators of a worker process, which would otherwise repeat their siblings'.

    Epoch -1 is the pipeline as it was given; `again` tells apart the times that a worker comes to an epoch.
    """
    entropy = [seed, epoch + 1, again] if again else [seed, epoch + 1]
    words = np.random.SeedSequence(entropy).generate_state(4)
    random.seed(int.from_bytes(words.tobytes(), "little"))
    np.random.seed(words)
    torch = sys.modules.get("torch")
    if torch is not None:
        version = getattr(torch, "version", None)
        has_devices = any(getattr(version, device, None) for device in ("cuda", "hip", "xpu"))
        # `torch.manual_seed` takes milliseconds to look for devices that a build for CPUs has not got.
        (torch.manual_seed if has_devices else torch.default_generator.manual_seed)(int(words[0]))


class Seeding:
    """Seeds the global generators of a worker process for every epoch that it comes to.

    Never twice alike, though readers of other epochs come in between, or a worker dies: its successor would
    give items the numbers that others have had.

    Parameters
    ----------
    seed : int
        The worker's.
    count : callable
        Returns how often it was called before, also by workers in the same place that have died.
    """

    def __init__(self, seed: int, count: Callable[[], int]) -> None:
        self._seed = seed
        self._count = count
        self._is_first = not count()  # in its place
        self._begun: set[int] = set()
        self.begin(-1)

    def begin(self, epoch: int) -> None:
        again = 0 if self._is_first and epoch not in self._begun else self._count()
        seed_globals(self._seed, epoch, again)
        self._begun.add(epoch)
        self.epoch = epoch


def call_hook(hook: Callable[..., Any] | None, worker: int) -> None:
    """Call a start hook with the worker's number, or with nothing if it takes no argument.

    Should it fork, only the worker itself comes back.

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
    """End a process that user code in a worker forked, as Python would: it is nobody's worker."""
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
