"""`prefetch` and its view, which connect the sequence to the engine.

Guarantees
----------
- A prefetch node is a view like any other. It has the same items, lengths and errors as its source, for any
  method, number of workers and order of reading.
- Creating a node computes and starts nothing. Workers start at the first read or at `start()`.
- No process, thread or memory is left after the node is closed or collected, or after the interpreter
  exits.

Relies on
---------
- The scheduler handles everything that involves threads, processes or time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

from ..core.ahead import advised
from ..core.epoch import EpochPair
from ..core.indices import Indices, Plan
from ..core.iteration import restarting, surviving
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.view import Indexable, T, View
from .engine import Engine
from .evaluate import UNKEYED
from .reader import Reading, Scans
from .settings import Context, Method, Settings
from .stages import Node, current_item, is_repeatable
from .statistics import Statistics


def prefetch(
    seq: Indexable[T],
    nworkers: int | None = None,
    method: Method | Executor = "thread",
    max_buffered: int | None = None,
    start_hook: Callable[..., Any] | None = None,
    shm_size: int | None = None,
    *,
    context: Context | None = None,
    chunk_size: int | Literal["auto"] = "auto",
    timeout: float | None = None,
    retries: int = 1,
    in_order: bool = True,
    seed: int | None = None,
) -> Prefetch[T]:
    """Return a view of the same items, computed ahead of the consumer by threads, processes or coroutines.

    Items come in order. Arrays from process workers arrive in shared memory without a copy. They belong to
    the consumer, are writable, and stay valid for as long as they are kept.

    Parameters
    ----------
    seq : View or indexable
        The sequence to evaluate. Workers see it as it was when they started; see `Prefetch.restart`.
    nworkers : int, optional
        Number of workers. Below a node with processes, the number in all of them together. None (the
        default): one per usable CPU, or as many as the executor has. 0: no workers, evaluate while reading.
        -k: all of those but k. A stream has at most as many as the `n_parallel` of its `uniter`, by default
        one. With an executor, a smaller number than it has workers limits the tasks in flight. So does any
        number if the executor does not report its number of workers.
    method : "thread", "process", "async", "inline", "auto", "dask", "ray" or concurrent.futures.Executor
        Threads share memory and the interpreter lock. Processes share neither. Inside a process worker,
        ``"process"`` means threads. Without Linux, processes come from the standard library's pool: results
        are pickled, `shm_size` and `context` have no effect, and `timeout` is refused. ``"async"`` awaits
        the function of the `smap` directly below, in the loop of one thread: `nworkers` coroutines run at
        once, and `start_hook` and `chunk_size` are refused. An executor
        evaluates items as its tasks, perhaps on other machines. You shut it down yourself. ``"dask"`` uses
        the current client, ``"ray"`` the Ray that was initialised. ``"auto"`` measures items in a worker
        process before the first read, for about half a second. It then chooses threads, processes or no
        workers, and their number unless `nworkers` is given; see `tune`. With an executor, `start_hook`,
        `shm_size`, `context`, `timeout` and `seed` are refused, because they apply only to the node's own
        workers.
    max_buffered : int, optional
        Most items computed ahead for each consumer (1 or more). None (the default) chooses from the workers
        and the size of items.
    start_hook : callable, optional
        Called in every worker before its first item, with the worker's number, or without arguments if it
        takes none.
    shm_size : int, optional
        Bytes of shared memory for the results in all slots together. None (the default): as much as is
        used, because pages are allocated when written. 0: no shared memory, each result comes in a file in
        memory. Only for processes.
    context : "fork", "forkserver" or "spawn", optional
        How processes start. "forkserver" forks workers from a process that receives the pipeline. None (the
        default) is "fork" unless another thread might matter to workers, then "forkserver", with a warning
        the first time. A start method set with `multiprocessing.set_start_method` is used. Lambdas, closures
        and classes of the main script work with all of them, and a main script needs no guard.
    chunk_size : int or "auto"
        Items per message (1 or more). ``"auto"`` sends small, fast items in chunks, and others singly.
    timeout : float, optional
        Seconds an item may take, above 0, without the time that it waits for nodes below. After that it
        fails with `ItemTimeout`, and its worker is replaced. None (the default) is the limit of the node
        above, or no limit.
    retries : int
        Retries per item after its worker died (0 or more).
    in_order : bool
        False: iterating the node itself yields items in the order of completion, each once. A slow item
        then does not delay the others. Indexing, slices and views that wrap the node keep the order.
    seed : int, optional
        A number of at least 0. With the epoch and the worker's number it seeds the global generators of
        `random`, `numpy.random` and torch in process workers, and gives `WorkerInfo.seed`. None (the
        default) draws a seed from the system when workers start. It is random which worker computes an
        item. For items that do not depend on it, use `random_map`.

    Returns
    -------
    Prefetch

    Raises
    ------
    TypeError
        If `seq` cannot be indexed, or an argument has the wrong type.
    ValueError
        If an argument is out of range, or an engine is not running.
    ImportError
        If an engine is not installed.

    Notes
    -----
    Modelled on ``prefetch`` of SeqTools. The environment variable ``SEQKIT_NATIVE_THREADS`` sets how many
    BLAS and OpenMP threads a process worker may use (default 1; 0 sets no limit).

    Examples
    --------
    >>> import seqkit as sk
    >>> squares = sk.smap(lambda x: x * x, range(1000))
    >>> with sk.prefetch(squares, nworkers=2) as ahead:
    ...     list(ahead) == list(squares), ahead[-1], list(ahead[:3])
    (True, 998001, [0, 1, 4])
    """
    source = as_view(seq, "prefetch")
    given: Any = (nworkers, method, max_buffered, start_hook, shm_size, context)
    given += (chunk_size, timeout, retries, in_order, seed)
    return Prefetch(source, Settings(*given).checked())


class Prefetch(Node[T]):
    """The view that `prefetch` returns.

    The views of all epochs of a node share its workers. Closing one of them closes all. As a context
    manager, the view closes at the end of the block.
    """

    _reads_ahead = _passes_on = True

    def __init__(self, source: View[T], settings: Settings, engine: Engine | None = None) -> None:
        super().__init__((source,))
        if settings.method == "async" and source._coroutines() is None:
            raise TypeError(
                "prefetch: method='async' awaits the function of smap, so smap must be directly below it, got"
                f" {source._name}. Put other views below smap, or above the node"
            )
        self._settings = replace(settings, workers=min(settings.workers, source._readers))
        self._readers = View._readers  # of this node
        self._advises = False  # the node asks for the bytes of its own plan
        self.engine: Engine = engine or Engine(source, self._settings)
        self._epoch = UNKEYED  # of submitted jobs; workers hold the pipeline as the user passed it
        self._scans = Scans()

    # ---------------------------------------------------------------- reading

    def _get(self, i: int) -> Any:
        if self.engine.reads_here():
            return self._sources[0]._get(i)
        item = current_item.get()
        return item.read(self, i) if item is not None and item.plans(self) else self._scans.read(self, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return list(self._iter(indices))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self._read(plan)

    @hiding_frames()
    def __iter__(self) -> Iterator[T]:
        # Views that wrap this one use `_iter`. They may pair its items with other sequences, so `_iter` keeps
        # the order.
        return self._read(self._plan(), self._settings.in_order)

    def _read(self, plan: Plan, in_order: bool = True) -> Iterator[Any]:
        if self.engine.reads_here():
            source = self._sources[0]
            return advised(source, plan) if is_repeatable(plan) else source._iter(plan)
        item = current_item.get()
        if item is not None and item.claims(self):
            return surviving(self, plan, partial(item.read, self))
        return restarting(self.reading(plan, in_order))

    def reading(self, plan: Plan, in_order: bool = True) -> Reading:
        """Begin to read the items of a plan. `restarting` turns the returned object into an iterator."""
        reader = self.open(plan, in_order=in_order)
        reader.prepare()
        return Reading(self, reader, plan)

    # ---------------------------------------------------------------- figures and close

    def close(self) -> None:
        """End the workers and refuse further reads. Arrays already handed out stay valid. Idempotent."""
        self.engine.close()

    def restart(self) -> None:
        """End the workers. The next read starts new workers, which see the sources as they are then."""
        self.engine.restart()

    @property
    def choice(self) -> Any:
        """The choice of ``method="auto"``, and why. None before the first read, and for other methods."""
        return self.engine.choice

    def statistics(self) -> Statistics:
        """Return the figures of the node since its workers started, as a frozen dataclass."""
        return self.engine.statistics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def changed(self, **changes: Any) -> Prefetch[T]:
        """Return the same node, not started, with some other `Settings` (for loaders)."""
        return Prefetch(self._sources[0], replace(self._settings, **changes))

    # ---------------------------------------------------------------- the expression

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Prefetch(sources[0], self._settings)

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        # Needed even if nothing is random, because the epoch seeds the global generators of process
        # workers.
        keyed = Prefetch(sources[0], self._settings, self.engine)
        keyed._epoch = epoch.after(EpochPair.of(self._epoch)).number
        return keyed

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self._settings if self.choice is None else self.engine.settings
        return Prefetch, (self._sources[0], settings.without_executor()), {"_epoch": self._epoch}

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, f"nworkers={self._settings.workers}", f"method={self._settings.method!r}"]
