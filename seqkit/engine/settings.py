"""The arguments of `prefetch`: their checks, and the figures that follow from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from ..core.arguments import (
    as_bool,
    check_callable,
    int_at_least,
    optional_int,
    optional_number,
    positive_int,
)
from ..core.errors import brief
from ..core.randomness import as_seed
from ..core.worker import WorkerInfo
from .chunking import MAX_DEPTH, chunk_depth
from .hooks import worker_info
from .resources import usable_cpus

if TYPE_CHECKING:
    from .processes.slots import Pinner

Method = Literal["thread", "process", "async", "inline", "auto", "dask", "ray"]
OWN = ("thread", "process", "async", "inline", "auto")
ENGINES = ("dask", "ray")
Context = Literal["fork", "forkserver", "spawn"]
CONTEXTS: tuple[str, ...] = get_args(Context)

# Number of slots for the arrays that consumers hold, beyond those of jobs in flight and of unread results.
LEASES = 8


@dataclass(frozen=True)
class Settings:
    """The arguments of `prefetch` in their order, and what follows from them.

    After `checked`, `workers` is their number, and `chunk_size` is None if the engine chooses it. `nworkers`
    is the number that the user gave. `method` is how items are computed: an executor can be used in the
    process `pid` only. `item_seed` seeds the global generators of process workers for each item. Nodes that
    work together count their workers together: `first` is the number of this node's first worker, and
    `together` how many all of them have, or 0 for a node that works alone.
    """

    workers: int
    method: Method | Executor
    max_buffered: int | None
    start_hook: Callable[..., Any] | None
    shm_size: int | None
    context: Context | None
    chunk_size: int | None
    timeout_s: float | None
    retries: int
    in_order: bool
    seed: int | None
    nworkers: int | None = None
    pid: int = field(default_factory=os.getpid)
    pinner: Pinner | None = None
    item_seed: int | None = None
    first: int = 0
    together: int = 0

    @property
    def numbers(self) -> range:
        """The numbers of the workers."""
        return range(self.first, self.first + self.workers)

    def info(self, number: int, method: str) -> WorkerInfo:
        """Return the information about a worker of this node, which has a seed."""
        assert self.seed is not None
        return worker_info(number, self.together or self.workers, self.seed, method)

    def checked(self) -> Settings:
        """Return the settings for arguments that the user gave. Raise an error if one is wrong."""
        own, chunk_size = replace(self, method=_method(self.method)), cast(Any, self.chunk_size)
        if chunk_size != "auto":
            chunk_size = positive_int(chunk_size, "prefetch: chunk_size", other=" or 'auto'")
        if self.context not in (None, *CONTEXTS):
            raise ValueError(
                f"prefetch: context must be 'fork', 'forkserver', 'spawn' or None, got {brief(self.context)}"
            )
        check_callable(self.start_hook, "prefetch: start_hook", optional=True)
        settings = replace(
            own,
            workers=0 if own.method == "inline" else _number(self.workers, own.executor),
            max_buffered=optional_int(self.max_buffered, "prefetch: max_buffered"),
            shm_size=optional_int(self.shm_size, "prefetch: shm_size", least=0),
            chunk_size=None if chunk_size == "auto" else chunk_size,
            timeout_s=optional_number(self.timeout_s, "prefetch: timeout", "seconds"),
            retries=int_at_least(self.retries, "prefetch: retries", 0),
            in_order=as_bool(self.in_order, "prefetch: in_order"),
            seed=None if self.seed is None else as_seed(self.seed, "prefetch: seed"),
            nworkers=self.workers,
        )
        settings._check_together(self.method)
        return settings if settings.workers else replace(settings, method="inline")

    def _check_together(self, method: Any) -> None:
        """Raise an error if arguments contradict each other. `method` is as the user gave it."""
        others: dict[str, Any] = {}
        if self.executor is not None:
            others = {"start_hook": self.start_hook, "timeout": self.timeout_s, "seed": self.seed}
        if self.method != "process":  # 0 bytes, SeqTools' default, contradict nothing
            others |= {"context": self.context, "shm_size": self.shm_size or None}
        if self.method == "async":
            others |= {"start_hook": self.start_hook, "chunk_size": self.chunk_size}
        for name, value in others.items():
            if value is not None:
                kind = "processes" if self.executor is None else "workers of the node's own"
                raise ValueError(
                    f"prefetch: {name} is for {kind}, got method={method!r}. Leave {name} out, or set"
                    " method='process'"
                )
        if self.method == "async" and not self.workers:
            raise ValueError("prefetch: method='async' needs workers, got nworkers=0")
        if self.timeout_s is not None and not self.workers:
            raise ValueError("prefetch: timeout needs workers, got nworkers=0")
        _, slots = self.slot_counts()
        if 0 < (self.shm_size or 0) < slots * PAGESIZE:
            raise ValueError(
                f"prefetch: shm_size must be 0 or at least {slots * PAGESIZE} bytes,"
                f" a page for each of {slots} slots, got {self.shm_size}"
            )

    @property
    def executor(self) -> Executor | None:
        """The executor that computes the items, if it is no method of the engine's own."""
        return None if isinstance(self.method, str) else self.method

    def without_executor(self) -> Settings:
        """Return the settings for another process, where threads replace the executor."""
        if self.executor is None:
            return self
        return replace(self, method="thread", workers=min(self.workers, usable_cpus()))

    def slot_counts(self) -> tuple[int, int]:
        """Return how many jobs may be in flight, and how many slots there are."""
        depth = chunk_depth(self.max_buffered, self.workers)
        unbounded = self.max_buffered is None and self.shm_size is None  # more small results: see `Chunking`
        jobs = max(depth, 2 * self.workers, MAX_DEPTH * unbounded)
        return jobs, jobs + depth + max(depth, LEASES) + self.workers  # workers may each retain one


def _method(method: Any) -> Any:
    """Return how items are computed: a method of the engine's own, or an executor.

    Inside a task of the executor that `method` names, items are computed by threads.
    """
    if isinstance(method, str) and method in OWN:
        return method
    from . import executors  # imported here because most nodes have their own workers

    if isinstance(method, str) and method in ENGINES:
        return executors.named(method) or "thread"
    if not isinstance(method, executors.Executor):
        names = ", ".join(map(repr, [*OWN, *ENGINES]))
        raise ValueError(
            f"prefetch: method must be one of {names} or a concurrent.futures.Executor, got {method!r}"
        )
    executors.refuse_dask(method)
    return method


def _number(nworkers: Any, executor: Executor | None) -> int:
    """Return the number of workers."""
    there = usable_cpus()
    if executor is not None:
        from .executors import workers_of

        there = workers_of(executor) or there
    number = optional_int(nworkers, "prefetch: nworkers", least=1 - there)
    if number is None:
        return there
    return number if number >= 0 else there + number
