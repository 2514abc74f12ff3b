"""`prefetch` and the view behind it: glue between the sequence and the engine.

Guarantees
----------
- a prefetch node is a view like any other: the same items, lengths and errors as its source, for any
  method, number of workers and order of reading;
- building it computes and starts nothing; workers start at the first read or `start()`;
- nothing is left behind once it is closed, collected, or the interpreter exits.

Relies on
---------
- the dispatcher for everything that involves threads, processes or time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from ..checks import as_bool, check_callable, optional_int, positive_int
from ..context import in_process_worker
from ..indices import UNKNOWN, Endless, Indices, Plan
from ..randomness import as_seed
from ..view import Indexable, T, View, as_view, restarting
from .dispatcher import Reader
from .engine import Engine
from .errors import reraise
from .reading import Reading, Scans
from .resources import usable_cpus
from .results import Outcomes
from .settings import (
    CONTEXTS,
    Context,
    Method,
    OnExhausted,
    checked_shm_size,
    checked_timeout,
    executor_of,
    limits_tasks,
    place_of,
    slot_counts,
    worker_count,
)
from .statistics import Statistics
from .window import Chunk

if TYPE_CHECKING:  # these need Linux
    from .processes.slots import Pinner
    from .processes.template import Server

__all__ = ["Prefetch", "prefetch"]


def prefetch(
    seq: Indexable[T],
    nworkers: int | None = None,
    method: Method = "thread",
    max_buffered: int | None = None,
    start_hook: Callable[..., Any] | None = None,
    shm_size: int | None = None,
    *,
    context: Context | None = None,
    chunk_size: int | Literal["auto"] = "auto",
    timeout: float | None = None,
    retries: int = 1,
    in_order: bool = True,
    on_exhausted: OnExhausted = "copy",
    seed: int | None = None,
    pieces: int = 1,
) -> Prefetch[T]:
    """Return the view of the same items, computed ahead of the reader by threads or processes.

    Items come in order; arrays from process workers arrive in shared memory without being copied, belong to
    the reader, are writable and stay valid for as long as they are kept.

    Parameters
    ----------
    seq : View or indexable
        What to evaluate. Workers see it as it was when they started; see `Prefetch.restart`.
    nworkers : int, optional
        How many workers. None (the default): one per usable CPU, or as many as the executor has; 0: none,
        evaluate while reading; -k: all of those but k. Fewer than an executor has, or if it does not say how
        many it has: the most tasks under way.
    method : "thread", "process", "inline", "dask", "ray" or concurrent.futures.Executor
        Threads share memory and the interpreter lock; processes share neither. Inside a process worker,
        ``"process"`` means threads. Without Linux, processes come from the standard library's pool: results
        are pickled, `shm_size` and `context` have no effect, and `timeout` is refused. An executor evaluates
        items as its tasks, perhaps on other machines, and stays yours to shut down; ``"dask"`` and ``"ray"``
        are those of the current client, and of the Ray that was initialised. With an executor, `start_hook`,
        `shm_size`, `context`, `timeout` and `seed` are refused: they are about workers of the node's own.
    max_buffered : int, optional
        Most items computed ahead of each reader, at least 1. None (the default) is chosen from the workers
        and the size of items.
    start_hook : callable, optional
        Called in every worker before its first item, with the worker's number, or without argument if it
        takes none.
    shm_size : int, optional
        Bytes of shared memory for results, all slots together. None (the default): as much as is used,
        pages come into being when written; 0: none, results travel through pipes. For processes.
    context : "fork", "forkserver" or "spawn", optional
        How processes start. None (the default) is the platform's choice (fork on Linux before Python 3.14),
        but not fork where other threads live. Lambdas, closures and classes of the main script work with
        all of them, and a main script needs no guard.
    chunk_size : int or "auto"
        Items per message, at least 1. ``"auto"`` sends small, quick items in chunks and others singly.
    timeout : float, optional
        Seconds an item may take, above 0; then it fails with `ItemTimeout` and its worker is replaced.
        None (the default) is no limit. With a timeout items travel singly.
    retries : int
        How many times an item is tried again whose worker died, at least 0.
    in_order : bool
        False: iterating the node itself yields items as they come, each once, so that a slow one holds
        nobody up. Indexing, slices and views laid over the node keep to the order.
    on_exhausted : "copy", "block" or "raise"
        What happens to a reader who holds as many results in shared memory as there are slots for: further
        ones are copied out (default); it waits until others are dropped, a minute at most; or it gets
        `SlotsExhausted` at once. No item is lost: reading goes on where it was.
    seed : int, optional
        At least 0. With the epoch and the worker's number it seeds the global generators of `random`,
        `numpy.random` and torch in process workers, and gives `WorkerInfo.seed`. None (the default) draws one
        from the system when workers start. Which worker computes an item is chance: for items that do not
        depend on it, use `random_map`.
    pieces : int
        Into how many pieces a batch is cut, which different workers evaluate: at least 1, the whole batch by
        one worker. Above 1, `seq` must be a `batch` whose `collate_fn` is left out, one of ``numpy.asarray``,
        ``numpy.array`` and ``numpy.stack``, or `default_collate`: process workers then write the rows of an
        array side by side into the slot of the batch. Any other function can be used that has an attribute
        ``join(pieces, unite)``, which makes a batch of its pieces; ``unite`` makes one array of many. A batch
        whose pieces fail or do not go together is evaluated once more as a whole; one of fewer items than
        pieces is not cut.

    Returns
    -------
    Prefetch

    Raises
    ------
    TypeError
        If `seq` cannot be indexed, an argument has the wrong type, or there is no telling how long the
        batches that are to be cut are.
    ValueError
        If an argument is out of range, or an engine is not running.
    ImportError
        If an engine is not installed.

    Notes
    -----
    After ``prefetch`` of SeqTools. The environment variable ``SEQKIT_NATIVE_THREADS`` sets how many BLAS and
    OpenMP threads a process worker may use (1; 0 leaves them alone).

    Examples
    --------
    >>> import seqkit as sk
    >>> squares = sk.smap(lambda x: x * x, range(1000))
    >>> with sk.prefetch(squares, nworkers=2) as ahead:
    ...     list(ahead) == list(squares), ahead[-1], list(ahead[:3])
    (True, 998001, [0, 1, 4])
    """
    source = as_view(seq, "prefetch")
    executor = executor_of(method)
    if context is not None and context not in CONTEXTS:
        raise ValueError(f"prefetch: context must be 'fork', 'forkserver', 'spawn' or None, got {context!r}")
    if on_exhausted not in ("copy", "block", "raise"):
        raise ValueError(f"prefetch: on_exhausted must be 'copy', 'block' or 'raise', got {on_exhausted!r}")
    check_callable(start_hook, "prefetch: start_hook", optional=True)
    max_buffered = optional_int(max_buffered, "prefetch: max_buffered")
    if chunk_size != "auto":
        chunk_size = positive_int(chunk_size, "prefetch: chunk_size", other=" or 'auto'")
    workers = 0 if method == "inline" else worker_count(nworkers, executor)
    owned = {
        "start_hook": start_hook,
        "timeout": timeout,
        "seed": seed,
        "context": context,
        "shm_size": shm_size,
    }
    for name, value in owned.items():
        if value is not None and executor is not None:
            raise ValueError(
                f"prefetch: {name} needs workers of the node's own, got {method!r}: leave it out"
            )
    settings: dict[str, Any] = {
        "workers": workers,
        "method": place_of(method, executor) if workers else "inline",
        # How many tasks of an executor may be under way: it has others, which are not to be used.
        "most_tasks": workers if executor is not None and limits_tasks(nworkers, workers, executor) else None,
        "max_buffered": max_buffered,
        "start_hook": start_hook,
        "shm_size": checked_shm_size(
            shm_size, sum(slot_counts(max_buffered, workers, 1)) if method == "process" else 0
        ),
        "context": context,
        "chunk_size": chunk_size,
        "timeout": checked_timeout(timeout, workers),
        "retries": positive_int(retries, "prefetch: retries", least=0),
        "in_order": as_bool(in_order, "prefetch: in_order"),
        "on_exhausted": on_exhausted,
        "seed": None if seed is None else as_seed(seed, "prefetch: seed"),
        "pieces": positive_int(pieces, "prefetch: pieces"),
        "pinner": None,
        "server": None,
        "pid": os.getpid(),
    }
    if pieces > 1 and source._in_pieces(pieces) is None:
        raise ValueError(
            f"prefetch: pieces={pieces} needs a batch whose collate_fn can join pieces (none, numpy.stack,"
            f" default_collate, Stack, …), got {source!r}; leave pieces at 1"
        )
    return Prefetch(source, settings)


class Prefetch(View[T]):
    """The view behind `prefetch`.

    The views of all epochs of a node share its workers. Closing it from any of them closes it for all; a
    context manager closes it at the end of its block.
    """

    _reads_ahead = True

    def __init__(self, source: View[T], settings: dict[str, Any], engine: Engine | None = None) -> None:
        super().__init__((source,), source._n)
        self._reads_ahead = True
        self._settings = settings
        # What workers evaluate.
        self._pipeline = source._in_pieces(settings["pieces"]) if settings["pieces"] > 1 else source
        self._engine = engine or Engine(self._pipeline, settings)
        self._epoch = -1  # what jobs ask of the workers, who hold the pipeline as it was given
        self._scans = Scans()

    # ---------------------------------------------------------------- reading

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(i) if self._engine.is_within() else self._scans.read(self, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return list(self._iter(indices))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self._read(plan)

    def __iter__(self) -> Iterator[T]:
        # Views over this one go through `_iter`: what they pair with other sequences must come in order.
        return super().__iter__() if self._settings["in_order"] else self._read(self._plan(), in_order=False)

    def _read(self, plan: Plan, in_order: bool = True) -> Iterator[Any]:
        if self._engine.is_within():
            return self._sources[0]._iter(plan)
        return restarting(self.reading(plan, in_order))

    def reading(self, plan: Plan, in_order: bool = True) -> Reading:
        """Begin to read the items of a plan; `restarting` makes an iterator of what this returns."""
        reader = self._open(plan, in_order=in_order)
        reader.prepare()
        may_never_end = isinstance(plan, Endless) and self._n is UNKNOWN
        return Reading(self, reader, in_order, may_never_end)

    def _open(self, plan: Iterable[Any], limit: int | None = None, in_order: bool = True) -> Reader:
        return self._engine.running().open(plan, self._epoch, limit, in_order)

    def _handed_over(self, chunk: Chunk, outcomes: Outcomes, position: int) -> Any:
        """Return an item of a chunk, and let go of it; or raise its error."""
        if position in outcomes.failures:
            # No name here may keep the error, whose traceback leads here, and to everything the reader has.
            reraise(
                outcomes.failures.pop(position), self, chunk.index(position), self._pipeline, chunk.worker
            )
        item, outcomes.values[position] = outcomes.values[position], None
        return item

    # ---------------------------------------------------------------- life

    def start(self) -> Self:
        """Start the workers now rather than at the first read; returns the view.

        Raises
        ------
        RuntimeError
            If the node is closed.
        TypeError
            If the pipeline cannot be shipped to the workers.
        """
        self._engine.running()
        return self

    def close(self) -> None:
        """End the workers and refuse further reads; arrays already handed out stay valid. Idempotent."""
        self._engine.close()

    def restart(self) -> None:
        """End the workers, and start new ones at the next read, which see the sources as they are then."""
        self._engine.restart()

    def statistics(self) -> Statistics:
        """Return what the node has done since its workers started, as a frozen dataclass."""
        return self._engine.statistics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pinned(self, pinner: Pinner) -> Prefetch[T]:
        """Return the same node, not started, over slots whose pages are locked (for `seqkit.torch`)."""
        return Prefetch(self._sources[0], {**self._settings, "pinner": pinner})

    def served(self, server: Server | None) -> Prefetch[T]:
        """Return the same node, not started, with a fork server that outlives it; see `fork_server`."""
        return Prefetch(self._sources[0], {**self._settings, "server": server})

    # ---------------------------------------------------------------- the expression

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Prefetch(sources[0], self._settings)

    def _at_epoch(self, epoch: int) -> View[Any]:
        # Also where nothing is random: the epoch seeds the global generators of process workers.
        keyed = Prefetch(self._sources[0]._at_epoch(epoch), self._settings, self._engine)
        keyed._epoch = epoch
        return keyed

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self._settings
        if not isinstance(settings["method"], str):  # it stays where it is: threads take its place
            settings = {**settings, "method": "thread", "workers": min(settings["workers"], usable_cpus())}
        return Prefetch, (self._sources[0], settings), {"_epoch": self._epoch}

    def _arguments(self, sources: list[str]) -> list[str]:
        pieces = [f"pieces={self._settings['pieces']}"] * (self._settings["pieces"] > 1)
        method = self._settings["method"]
        return [*sources, f"nworkers={self._settings['workers']}", f"method={method!r}", *pieces]

    def _remarks(self) -> list[str]:
        if self._settings["method"] == "process" and in_process_worker():
            return ["in threads: this is a process worker already"]
        return []
