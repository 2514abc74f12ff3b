"""Check the arguments of `prefetch`, and derive figures from them."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..core.arguments import (
    as_bool,
    check_callable,
    int_at_least,
    optional_int,
    optional_number,
    positive_int,
)
from ..core.errors import as_given
from ..core.randomness import as_seed
from .chunking import MAX_DEPTH, chunk_depth
from .resources import usable_cpus

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from .processes.slots import Pinner

Method = Literal["thread", "process", "inline", "auto", "dask", "ray"]
OWN = ("thread", "process", "inline", "auto")
ENGINES = ("dask", "ray")
Context = Literal["fork", "forkserver", "spawn"]
CONTEXTS: tuple[str, ...] = get_args(Context)

# Number of slots for the arrays that consumers hold, beyond those of jobs in flight and of unread results.
LEASES = 8


@dataclass(frozen=True)
class Settings:
    """The arguments of a node: those of `prefetch` in their order, and what follows from them.

    If `chunk_size` is None, the engine chooses it. If `timeout_s` is None, there is no limit. `most_tasks`
    is how many tasks of an executor may be in flight, if that is less than its number of workers. `pid` is
    the process in which the executor can be used. `item_seed`: see `Prefetch.seeding_items`. With the method
    "auto", `chooses_workers` says that the number of workers is not the user's.
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
    most_tasks: int | None = None
    pid: int = field(default_factory=os.getpid)
    pinner: Pinner | None = None
    item_seed: int | None = None
    chooses_workers: bool = False

    def slot_counts(self) -> tuple[int, int]:
        """Return how many jobs may be in flight, and how many slots there are."""
        return slot_counts(self.max_buffered, self.workers, self.shm_size)


def slot_counts(max_buffered: int | None, workers: int, shm_size: int | None) -> tuple[int, int]:
    depth = chunk_depth(max_buffered, workers)
    unbounded = max_buffered is None and shm_size is None  # allows more small results, see `Chunking`
    jobs = max(depth, 2 * workers, MAX_DEPTH * unbounded)
    return jobs, jobs + depth + max(depth, LEASES) + workers  # workers may each retain one


def checked(*given: Any) -> Settings:
    """Return the settings for the arguments of `prefetch`, in order. Raise an error if one is wrong."""
    args = Settings(*given)
    method, context = args.method, args.context
    chunk_size: Any = args.chunk_size
    executor = _executor(method)
    if context is not None and context not in CONTEXTS:
        raise ValueError(
            f"prefetch: context must be 'fork', 'forkserver', 'spawn' or None, got {as_given(context)}"
        )
    check_callable(args.start_hook, "prefetch: start_hook", optional=True)
    max_buffered = optional_int(args.max_buffered, "prefetch: max_buffered")
    if chunk_size != "auto":
        chunk_size = positive_int(chunk_size, "prefetch: chunk_size", other=" or 'auto'")
    workers = 0 if method == "inline" else _worker_count(args.workers, executor)
    shm_size = optional_int(args.shm_size, "prefetch: shm_size", least=0)
    if executor is not None:
        owned = {
            "start_hook": args.start_hook,
            "timeout": args.timeout_s,
            "seed": args.seed,
            "context": context,
            "shm_size": shm_size or None,  # 0 bytes, SeqTools' default, contradict nothing
        }
        for name, value in owned.items():
            if value is not None:
                raise ValueError(
                    f"prefetch: {name} needs workers of the node's own, got {method!r}. Leave {name} out"
                )
    if method != "process":
        for name, value in {"context": context, "shm_size": shm_size}.items():
            if value:
                raise ValueError(
                    f"prefetch: {name} is for processes, got method={method!r}. Leave {name} out, or set"
                    " method='process'"
                )
    least = slot_counts(max_buffered, workers, 1)[1] if method == "process" else 0
    return replace(
        args,
        workers=workers,
        method=_evaluator(method, executor) if workers else "inline",
        most_tasks=None if executor is None else _most_tasks(args.workers, workers, executor),
        max_buffered=max_buffered,
        shm_size=_shm_size(shm_size, least),
        chunk_size=None if chunk_size == "auto" else chunk_size,
        timeout_s=_timeout(args.timeout_s, workers),
        retries=int_at_least(args.retries, "prefetch: retries", 0),
        in_order=as_bool(args.in_order, "prefetch: in_order"),
        seed=None if args.seed is None else as_seed(args.seed, "prefetch: seed"),
        chooses_workers=args.workers is None,
    )


def _executor(method: Any) -> Executor | None:
    """Return the executor that `method` is or names, or None for the engine's own workers."""
    if isinstance(method, str) and method in OWN:
        return None
    from . import executors  # imported here because most nodes have their own workers

    if isinstance(method, str) and method in ENGINES:
        return executors.named(method)
    if not isinstance(method, executors.Executor):
        names = ", ".join(map(repr, [*OWN, *ENGINES]))
        raise ValueError(
            f"prefetch: method must be one of {names} or a concurrent.futures.Executor, got {method!r}"
        )
    executors.refuse_dask(method)
    return method


def _worker_count(nworkers: int | None, executor: Executor | None) -> int:
    if nworkers is None:
        return _workers_of(executor)
    if isinstance(nworkers, bool) or not hasattr(nworkers, "__index__"):
        raise TypeError(f"prefetch: nworkers must be an int or None, got {nworkers!r}")
    number = operator.index(nworkers)
    if number >= 0:
        return number
    workers = _workers_of(executor)
    if workers + number < 1:
        there = "usable CPUs" if executor is None else "workers"
        raise ValueError(f"prefetch: nworkers={number} leaves no worker, there are {workers} {there}")
    return workers + number


def _workers_of(executor: Executor | None) -> int:
    return (None if executor is None else _known_workers(executor)) or usable_cpus()


def _known_workers(executor: Executor) -> int | None:
    from . import executors

    return executors.workers_of(executor)


def _evaluator(method: Any, executor: Executor | None) -> Any:
    """Return the executor or the method that evaluates items.

    Inside a task of the named executor, items are evaluated by threads.
    """
    if executor is not None:
        return executor
    return method if method in OWN else "thread"


def _most_tasks(nworkers: int | None, workers: int, executor: Executor) -> int | None:
    """Return how many tasks may be in flight, if that may be less than the executor's number of workers."""
    if nworkers is None:
        return None
    known = _known_workers(executor)
    return workers if known is None or workers < known else None


def _shm_size(shm_size: int | None, slots: int) -> int | None:
    if shm_size is not None and 0 < shm_size < slots * PAGESIZE:
        raise ValueError(
            f"prefetch: shm_size must be 0 or at least {slots * PAGESIZE} bytes,"
            f" a page for each of {slots} slots, got {shm_size}"
        )
    return shm_size


def _timeout(timeout: float | None, workers: int) -> float | None:
    timeout = optional_number(timeout, "prefetch: timeout", "seconds")
    if timeout is not None and not workers:
        raise ValueError("prefetch: timeout needs workers, got nworkers=0")
    return timeout
