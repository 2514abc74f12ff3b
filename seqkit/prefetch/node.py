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

import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import count
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, cast, get_args

from ..checks import as_bool, check_callable, optional_int, optional_number, positive_int
from ..context import in_process_worker
from ..errors import EndOfSequence, SlotsExhausted
from ..indices import UNKNOWN, Endless, Indices, Length, Plan, Unsized
from ..randomness import as_seed
from ..view import Indexable, Progress, T, View, as_view, restarting
from .backend import Backend
from .blame import reraise
from .dispatcher import (
    CLOSED,
    MAX_CHUNK,
    MAX_DEPTH,
    MESSAGE_NS,
    Dispatcher,
    Options,
    Reader,
    ReadsItself,
    Statistics,
)
from .engines import ENGINES, adapted, named, workers_of
from .executors import TASK_NS, Executors, is_within
from .hooks import worker_info
from .inline import Inline
from .outcome import Outcomes
from .pieces import InPieces, Pieces
from .resources import usable_cpus
from .threads import Threads
from .window import Chunk

if TYPE_CHECKING:  # these need Linux
    from .forkserver import Server
    from .slots import Pinner

__all__ = ["CONTEXTS", "Prefetch", "fork_server", "prefetch"]

Method = Literal["thread", "process", "inline", "dask", "ray"] | Executor
OWN = ("thread", "process", "inline")
Context = Literal["fork", "forkserver", "spawn"]
CONTEXTS: tuple[str, ...] = get_args(Context)
OnExhausted = Literal["copy", "block", "raise"]

# So many items in a row of a sequence without a length may cost their workers. It may be a stream that does
# so for ever; with a length, it would end.
MOST_LOST = 8

# Slots beyond those in flight, for the arrays that readers hold.
LEASES = 8


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
        ``"process"`` means threads. An executor evaluates items as its tasks, perhaps on other machines,
        and stays yours to shut down; ``"dask"`` and ``"ray"`` are those of the current client, and of the Ray
        that was initialised. With an executor, `start_hook`, `shm_size`, `context`, `timeout` and `seed` are
        refused: they are about workers of the node's own.
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
    executor = _executor(method)
    if context is not None and context not in CONTEXTS:
        raise ValueError(f"prefetch: context must be 'fork', 'forkserver', 'spawn' or None, got {context!r}")
    if on_exhausted not in ("copy", "block", "raise"):
        raise ValueError(f"prefetch: on_exhausted must be 'copy', 'block' or 'raise', got {on_exhausted!r}")
    check_callable(start_hook, "prefetch: start_hook", optional=True)
    max_buffered = optional_int(max_buffered, "prefetch: max_buffered")
    if chunk_size != "auto":
        chunk_size = positive_int(chunk_size, "prefetch: chunk_size", other=" or 'auto'")
    workers = 0 if method == "inline" else _worker_count(nworkers, executor)
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
        "method": _where(method, executor) if workers else "inline",
        # How many tasks of an executor may be under way: it has others, which are not to be used.
        "most_tasks": workers if executor is not None and _limits(nworkers, workers, executor) else None,
        "max_buffered": max_buffered,
        "start_hook": start_hook,
        "shm_size": _shm_size(shm_size, sum(_slots(max_buffered, workers, 1)) if method == "process" else 0),
        "context": context,
        "chunk_size": chunk_size,
        "timeout": _timeout(timeout, workers),
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


def _executor(method: Any) -> Executor | None:
    """Return the executor that a method is, or names; None for those of the engine's own."""
    if isinstance(method, str) and method in OWN:
        return None
    if isinstance(method, str) and method in ENGINES:
        return named(method)
    if not isinstance(method, Executor):
        names = ", ".join(map(repr, [*OWN, *ENGINES]))
        raise ValueError(
            f"prefetch: method must be one of {names} or a concurrent.futures.Executor, got {method!r}"
        )
    return adapted(method)


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
    return usable_cpus() if executor is None else workers_of(executor) or usable_cpus()


def _where(method: Method, executor: Executor | None) -> Method:
    """Return what evaluates: an executor; or threads within a task of the engine that is named."""
    if executor is not None:
        return executor
    return method if method in OWN else "thread"


def _limits(nworkers: int | None, workers: int, executor: Executor) -> bool:
    """Are these fewer workers than an executor has, as far as that is known?"""
    if nworkers is None:
        return False
    known = workers_of(executor)
    return known is None or workers < known


def _depth(max_buffered: int | None, workers: int) -> int:
    """Return how many chunks a reader may have pending."""
    return min(max_buffered or 2 * workers + 2, max(256, 2 * workers))


def _slots(max_buffered: int | None, workers: int, shm_size: int | None) -> tuple[int, int]:
    """Return how many jobs may be in flight, and how many more slots there are for readers' arrays."""
    depth = _depth(max_buffered, workers)
    unbounded = max_buffered is None and shm_size is None  # small results may come deeper, see `Dispatcher`
    return max(depth, 2 * workers, MAX_DEPTH * unbounded), max(depth, LEASES)


def _shm_size(shm_size: int | None, slots: int) -> int | None:
    size = optional_int(shm_size, "prefetch: shm_size", least=0)
    if size is not None and 0 < size < slots * PAGESIZE:
        raise ValueError(
            f"prefetch: shm_size must be 0 or at least {slots * PAGESIZE} bytes,"
            f" a page for each of {slots} slots, got {size}"
        )
    return size


def _timeout(timeout: float | None, workers: int) -> float | None:
    timeout = optional_number(timeout, "prefetch: timeout", "seconds")
    if timeout is not None and not workers:
        raise ValueError("prefetch: timeout needs workers, got nworkers=0")
    return timeout


class Prefetch(View[T]):
    """The view behind `prefetch`.

    The views of all epochs of a node share its workers. Closing it from any of them closes it for all; a
    context manager closes it at the end of its block.
    """

    _reads_ahead = True

    def __init__(self, source: View[T], settings: dict[str, Any], engine: _Engine | None = None) -> None:
        super().__init__((source,), source._n)
        self._reads_ahead = True
        self._settings = settings
        # What workers evaluate.
        self._pipeline = source._in_pieces(settings["pieces"]) if settings["pieces"] > 1 else source
        self._engine = engine or _Engine(self._pipeline, settings)
        self._epoch = -1  # what jobs ask of the workers, who hold the pipeline as it was given
        self._scans = _Scans()

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


class Reading:
    """What an iterator does, run by run: an error ends a run, and the next one goes on behind it.

    Where it stands is kept here and not in the runs, so that nothing is lost whoever draws from the iterator:
    a thread that finds another one in it is told by Python that the generator is executing.
    """

    def __init__(self, node: Prefetch[Any], reader: Reader, in_order: bool, may_never_end: bool) -> None:
        self._node = node
        self._reader = reader
        self._in_order = in_order
        self._may_never_end = may_never_end
        self._items: Iterator[Any] = iter(())  # of the chunk at hand
        self._is_last = False
        self._lost = 0  # how many items in a row have cost their workers
        self._is_at_item = False

    def is_at_item(self) -> bool:
        """Is what was raised last about an item, rather than the whole reading?"""
        return self._is_at_item

    def __call__(self, progress: Progress) -> Iterator[Any]:
        while True:
            yield from self._items
            self._items = iter(())
            self._is_at_item = False
            if self._is_last:
                break
            try:
                if self._lost == MOST_LOST and self._may_never_end:
                    self._give_up()
                arrived = self._reader.next()
                if arrived is not None:
                    self._take(*arrived)
            except (SlotsExhausted, ReadsItself):  # nothing is lost
                raise
            except BaseException:
                progress.done, self._is_at_item = True, False
                raise
            if arrived is None:
                break
            del arrived  # nothing here may keep the reader's arrays alive
        progress.done = True

    def _give_up(self) -> NoReturn:
        self._reader.close()
        raise RuntimeError(
            f"prefetch: {MOST_LOST} items in a row have cost their workers, and without a length nobody"
            " knows whether any are left; give the sequence one to read on"
        )

    def _take(self, chunk: Chunk, outcomes: Outcomes) -> None:
        values = outcomes.values
        self._is_at_item = True
        self._lost = self._lost + 1 if chunk.fatal else 0
        if len(values) < chunk.size:  # the sequence ends
            self._is_last = self._in_order
            self._reader.stop()  # out of order, what lies before may still come
        if outcomes.failures:
            self._items = map(partial(self._node._handed_over, chunk, outcomes), range(len(values)))
        elif len(values) == 1:
            self._items = map(list.pop, (values,))  # which lets go of it
        else:
            self._items = iter(values)


class _Engine:
    """The workers of a node: started when needed, once, anew in a forked child."""

    def __init__(self, source: View[Any], settings: dict[str, Any]) -> None:
        self._source = source
        self._settings = settings
        # Reentrant, so that a signal handler may close the node at any moment, its start included.
        self._lock = threading.RLock()
        self._dispatcher: Dispatcher | None = None
        self._replaced: Dispatcher | None = None  # it may still be ending
        self._pid = os.getpid()
        self.closed = False
        # In a fork its threads are not there; threads of the node's own are.
        is_here = not isinstance(settings["method"], str) and settings["pid"] == self._pid
        self._executor: Executor | None = settings["method"] if is_here else None

    def is_within(self) -> bool:
        """Is it asked in a task of the executor, which might wait for ever for another one?"""
        return self._executor is not None and not self.closed and is_within(self._executor)

    def running(self) -> Dispatcher:
        self._forget_after_fork()
        with self._lock:
            dispatcher = self._dispatcher
            if not self.closed and (dispatcher is None or dispatcher is self._replaced or dispatcher.ended()):
                dispatcher = self._dispatcher = self._started()
        if dispatcher is None or self.closed:  # perhaps by a signal handler, while it started
            self._end(dispatcher)
            raise RuntimeError(CLOSED)
        return dispatcher

    def _end(self, *dispatchers: Dispatcher | None) -> None:
        """End the workers; not under the lock, which an item that reads the node would wait for."""
        for dispatcher in dispatchers:
            if dispatcher is not None:
                dispatcher.close()

    def _forget_after_fork(self) -> None:
        if self._pid != os.getpid():  # a forked child: the lock may be held by a thread that is not here
            self._lock, self._pid = threading.RLock(), os.getpid()
            self._dispatcher = self._replaced = self._executor = None

    def _started(self) -> Dispatcher:
        settings = self._settings
        workers = max(settings["workers"], 1)
        chunk = settings["chunk_size"]
        # Without workers there are no messages to be spared: an item is made when it is read, not before.
        inline = chunk == "auto" and not settings["workers"]
        if inline or settings["timeout"] is not None or settings["pieces"] > 1:
            chunk = 1
        options = Options(
            workers=workers,
            depth=_depth(settings["max_buffered"], workers),
            max_buffered=settings["max_buffered"],
            chunk_size=None if chunk == "auto" else chunk,
            message_ns=MESSAGE_NS if self._executor is None else TASK_NS,
            timeout_s=settings["timeout"],
            retries=settings["retries"],
            on_exhausted=settings["on_exhausted"],
        )
        return Dispatcher(self._backend(), options)

    def _backend(self) -> Backend:
        pieces = self._settings["pieces"]
        return (
            self._workers() if pieces == 1 else InPieces(self._workers(), cast(Pieces, self._source), pieces)
        )

    def _workers(self) -> Backend:
        settings = self._settings
        workers, hook = settings["workers"], settings["start_hook"]
        if not workers:
            return Inline(self._source)
        capacity, leases = _slots(settings["max_buffered"], workers, settings["shm_size"])
        capacity *= settings["pieces"]
        if self._executor is not None:
            most = settings["most_tasks"] or capacity
            return Executors(self._source, self._executor, workers, most, capacity)
        seed = as_seed(settings["seed"], "prefetch: seed")
        if settings["method"] == "process" and _can_have_processes():
            from .processes import Processes  # only here: it needs Linux, and takes a while to import

            return Processes(
                self._source,
                workers,
                _start_method(settings["context"]),
                hook,
                capacity=capacity,
                most_leases=leases,
                shm_bytes=settings["shm_size"],
                seed=seed,
                pieces=settings["pieces"],
                pinner=settings["pinner"],
                server=settings["server"],
            )
        if not isinstance(settings["method"], str):  # a copy, which has no executor
            workers = min(workers, usable_cpus())
        infos = [worker_info(number, workers, seed, "thread") for number in range(workers)]
        return Threads(self._source, infos, hook, capacity)

    def close(self) -> None:
        self._forget_after_fork()
        self.closed = True
        with self._lock:
            dispatchers = self._replaced, self._dispatcher
        self._end(*dispatchers)

    def restart(self) -> None:
        self._forget_after_fork()
        with self._lock:
            replaced, self.closed = self._dispatcher, False
            self._replaced = replaced
        self._end(replaced)

    def statistics(self) -> Statistics:
        self._forget_after_fork()
        dispatcher = self._dispatcher
        return Statistics() if dispatcher is None else dispatcher.statistics()


_HAS_PROCESSES = sys.platform == "linux" and hasattr(os, "memfd_create") and hasattr(os, "pidfd_open")


def _can_have_processes() -> bool:
    if in_process_worker():
        return False
    if not _HAS_PROCESSES:
        warnings.warn(
            f"prefetch: method='process' needs Linux, this is {sys.platform}; threads are used instead",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def fork_server(preload: tuple[str, ...]) -> Server | None:
    """Return a fork server for nodes to share, that imports modules for their workers; None without Linux."""
    if not _HAS_PROCESSES:
        return None
    from .forkserver import Server

    return Server(preload)


def _start_method(context: str | None) -> str:
    if context is not None:
        return context
    chosen = None
    if "multiprocessing" in sys.modules:
        chosen = sys.modules["multiprocessing"].get_start_method(allow_none=True)
    method = chosen or ("fork" if sys.version_info < (3, 14) else "forkserver")
    # A fork copies locks that other threads hold, which nobody will ever release in the child.
    return "forkserver" if method == "fork" and threading.active_count() > 1 else method


class _Scan:
    """A reader of plain indexing: works ahead for as long as indices come in order."""

    def __init__(self, reader: Reader, start: int) -> None:
        self.reader = reader
        self.next = start
        self._ahead = -1
        self._chunk = Chunk(())
        self._outcomes = Outcomes()
        self._position = 0

    def read(self, node: Prefetch[Any]) -> Any:
        """Return the next item, or raise its error."""
        if self._position >= len(self._outcomes.values):
            self._advance()
        position = self._position
        self._position += 1
        self.next += 1
        return node._handed_over(self._chunk, self._outcomes, position)

    def _advance(self) -> None:
        # Nothing is read ahead of the first item; then one, and twice as many with every further chunk.
        self._ahead = min(max(2 * self._ahead, self._ahead + 1), MAX_CHUNK)
        self.reader.limit(self._ahead)
        arrived = self.reader.next()
        if arrived is None or not arrived[1].values:
            raise EndOfSequence(f"the sequence ends before index {self.next}")
        self._chunk, self._outcomes = arrived
        self._position = 0


class _Scans:
    """The scans of a node, the one read last at the end; few, since each may hold results.

    Without a lock, which a signal handler that reads the node, or a child forked meanwhile, would wait for in
    vain: a scan is whose who gets it out of the list.
    """

    MOST = 4

    def __init__(self) -> None:
        self._idle: list[_Scan] = []

    def read(self, node: Prefetch[Any], i: int) -> Any:
        scan = self._take(i) or _Scan(node._open(_from(i, node._n), 0), i)
        try:
            return scan.read(node)
        finally:
            if scan.next == i + 1:  # else a signal handler raised, and it may have lost its place
                self._keep(scan)

    def _keep(self, scan: _Scan) -> None:
        self._idle.append(scan)
        for old in self._idle[: -self.MOST]:
            if self._got(old):
                old.reader.close()

    def _take(self, i: int) -> _Scan | None:
        """Return the scan that stands before item `i`, for nobody else to use."""
        for scan in self._idle[:]:
            if scan.reader.ended():
                self._got(scan)
            elif scan.next == i and self._got(scan):
                if scan.next == i:  # still: somebody may have read it on, and brought it back
                    return scan
                self._keep(scan)
        return None

    def _got(self, scan: _Scan) -> bool:
        """Take a scan out of the list; say whether it was there."""
        try:
            self._idle.remove(scan)
            return True
        except ValueError:
            return False


def _from(start: int, n: Length) -> Iterable[int]:
    return count(start) if isinstance(n, Unsized) else range(start, n)
