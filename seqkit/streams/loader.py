"""`StreamLoader`: many sequential streams as batches in lock step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, Self
from weakref import WeakSet, ref

from ..checks import as_bool, check_callable, int_at_least, optional_int, optional_number, positive_int
from ..frames import warn
from ..indices import Unsized
from ..prefetch.node import Prefetch, prefetch
from ..prefetch.settings import CONTEXTS, Context
from ..randomness import as_seed
from ..source import as_view
from ..view import View
from .batch import Collation, StreamBatch, Unequal
from .chunks import Chunks, Opener, OpenStreams
from .lanes import PADDING, Ends, Lanes, Where, count_batches
from .order import Drawn, Listed, Order, described
from .state import check_state
from .workers import Here, Limits, Opened, StreamFailed, Workers, introduced

__all__ = ["StreamIterator", "StreamLoader"]


class StreamLoader:
    """Batches of many streams that can only be read in order, one stream in each row.

    Row r of a batch goes on where row r of the batch before ended. A row whose stream ends takes the next
    unread stream, in the same batch. Every chunk of every stream comes once. Batches are the same, contents
    and order, for any number of workers. Every `iter` is one epoch.

    Parameters
    ----------
    streams : View, sequence or iterable
        The streams to open: paths, or anything else that `open_fn` accepts. An iterable without a length is
        drawn in the consumer's process, as far as needed. It may be endless.
    open_fn : callable
        ``open_fn(stream)`` returns an iterable of chunks, the same ones each time. A generator function is
        typical. Called just in time, in a worker. If it has a parameter ``start``, it is called with the
        number of the first chunk wanted, which makes resuming cheap. So do ``seek`` and ``tell`` of the
        iterator it returns.
    batch_size : int
        Number of rows: how many streams are read at a time (1 or more).
    num_workers : int
        Number of workers, at least 0. 0 (the default) reads in the consumer's thread.
    collate_fn : callable, optional
        Makes ``batch.data`` from the list of chunks. None (the default) stacks arrays, also within dicts
        and tuples.
    padding : "value", "restart", "drop_rows" or "stop"
        What rows hold when streams run out, until the last chunk of any stream is delivered. "value" (the
        default): `pad_value`. "restart": streams read again from the start of the list, flagged as padding.
        "drop_rows": nothing, so batches get smaller. "stop": the epoch ends at the first batch that has not
        all rows. The chunks left over are dropped.
    pad_value : Any, optional
        Fills rows of padding and short chunks. Required with ``padding="value"``.
    unequal : "pad" or "refuse", optional
        What to do with chunks of one batch that differ in length: fill up short ones with `pad_value`, or
        raise ValueError. The default is "pad" if there is a `pad_value`.
    time_first : bool
        False (the default) gives arrays of shape (rows, steps, …), True of shape (steps, rows, …).
    strict : bool
        True refuses fewer streams than rows.
    shuffle : bool
        True reads the streams in another order in every epoch. Needs streams with a length.
    seed : int, optional
        Chooses the orders (0 or more). None (the default) draws one from the system, once.
    rank, world : int
        Read every `world`-th stream from number `rank` on, in the order of the epoch. All ranks make the
        same number of batches: `batches_per_epoch`, or the number that follows from `lengths`.
    lengths : sequence of int, optional
        Number of chunks of each stream. With it, `len` of the loader is known.
    batches_per_epoch : int, optional
        Number of batches of each epoch (1 or more). Longer epochs are cut, shorter ones go on with padding.
    on_error : "raise" or "skip"
        What to do when a chunk fails, costs its worker or takes too long. "raise" (the default) raises the
        error. The next call of `next` goes on without the rest of that stream. "skip" goes on at once, with
        a RuntimeWarning and an entry in `failed`.
    timeout : float
        Seconds that a chunk may take, at least 0. 0 (the default) is no limit. Needs workers.
    worker_init_fn : callable, optional
        Called with the number of the worker in each one, before its first stream.
    method : "process" or "thread"
        Whether workers are processes or threads.
    multiprocessing_context : "fork", "forkserver" or "spawn", optional
        How processes start; see `prefetch`.
    retries : int
        Retries of a chunk whose worker died (0 or more).
    shm_size : int, optional
        Bytes of shared memory for chunks from processes; see `prefetch`.
    max_buffered : int
        Most chunks read ahead of each stream (1 or more).
    max_bytes : int
        Most bytes read ahead of all streams together (1 or more). A chunk of each stream is always allowed.
    streams_ahead : int, optional
        Most unread streams that are open ahead of need (0 or more). None (the default) is `batch_size`. One
        is opened when a worker has read a stream to its end, which is up to `max_buffered` batches before
        its row needs it.

    Attributes
    ----------
    failed : list of tuple
        The id, the chunk and the error text of each stream that failed with ``on_error="skip"``.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `shuffle` meets streams without a length.
    ValueError
        If an argument is out of range, or arguments contradict each other.

    Notes
    -----
    Modelled on pytorch-stream-dataloader, with lanes that are not split over workers. A stream stays with
    its worker while it is open. New streams go to the worker with the least work. Why batches do not depend
    on workers is in decision 22.

    Examples
    --------
    >>> import numpy as np
    >>> def open_fn(n):  # n chunks
    ...     for chunk in range(n):
    ...         yield np.array([10 * n + chunk])
    >>> for batch in StreamLoader([3, 1, 2], open_fn, 2, pad_value=0):
    ...     print(batch.data.T, batch.stream, batch.is_first, batch.is_padding)
    [[30 10]] [0 1] [ True  True] [False False]
    [[31 20]] [0 2] [False  True] [False False]
    [[32 21]] [0 2] [False False] [False False]
    """

    def __init__(
        self,
        streams: Any,
        open_fn: Callable[..., Iterable[Any]],
        batch_size: int,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        *,
        padding: Literal["value", "restart", "drop_rows", "stop"] = "value",
        pad_value: Any = None,
        unequal: Unequal | None = None,
        time_first: bool = False,
        strict: bool = False,
        shuffle: bool = False,
        seed: int | None = None,
        rank: int = 0,
        world: int = 1,
        lengths: Any = None,
        batches_per_epoch: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        timeout: float = 0,
        worker_init_fn: Callable[..., Any] | None = None,
        method: Literal["process", "thread"] = "process",
        multiprocessing_context: Context | None = None,
        retries: int = 1,
        shm_size: int | None = None,
        max_buffered: int = 16,
        max_bytes: int = 1 << 28,
        streams_ahead: int | None = None,
    ) -> None:
        who = "StreamLoader"
        check_callable(open_fn, f"{who}: open_fn")
        check_callable(collate_fn, f"{who}: collate_fn", optional=True)
        check_callable(worker_init_fn, f"{who}: worker_init_fn", optional=True)
        self.batch_size = positive_int(batch_size, f"{who}: batch_size")
        self.num_workers = int_at_least(num_workers, f"{who}: num_workers", 0)
        _check_choice(padding, PADDING, f"{who}: padding")
        _check_choice(on_error, ("raise", "skip"), f"{who}: on_error")
        _check_choice(method, ("process", "thread"), f"{who}: method")
        if multiprocessing_context is not None:
            _check_choice(multiprocessing_context, CONTEXTS, f"{who}: multiprocessing_context")
        if padding == "value" and pad_value is None:
            raise ValueError(
                f"{who}: padding='value' needs pad_value. Pass one, or set padding to 'restart',"
                " 'drop_rows' or 'stop'"
            )
        unequal = unequal or ("refuse" if pad_value is None else "pad")
        _check_choice(unequal, ("pad", "refuse"), f"{who}: unequal")
        if unequal == "pad" and pad_value is None:
            raise ValueError(f"{who}: unequal='pad' needs pad_value")
        self._streams, self._n = _as_streams(streams)
        self._items = streams
        self._opener = Opener(open_fn)
        self._padding = padding
        self._collation = Collation(collate_fn, pad_value, unequal, as_bool(time_first, f"{who}: time_first"))
        self._shuffle = as_bool(shuffle, f"{who}: shuffle")
        self.seed = as_seed(seed, f"{who}: seed")
        self._seed_was_drawn = seed is None
        self._rank = int_at_least(rank, f"{who}: rank", 0)
        self._world = positive_int(world, f"{who}: world")
        self._lengths = lengths
        self._batches = optional_int(batches_per_epoch, f"{who}: batches_per_epoch")
        self._on_error = on_error
        self._limits = self._checked_limits(max_buffered, max_bytes, streams_ahead)
        self._check_streams(as_bool(strict, f"{who}: strict"))
        self._check_world()
        if lengths is not None:
            self._lengths = self._checked_lengths(lengths)
        self._options: dict[str, Any] = {
            "method": method,
            "context": multiprocessing_context,
            "timeout": self._checked_timeout(timeout),
            "retries": int_at_least(retries, f"{who}: retries", 0),
            "shm_size": None if shm_size is None else int_at_least(shm_size, f"{who}: shm_size", 0),
        }
        self._hook = worker_init_fn
        if self.num_workers:
            self._nodes(None)  # checks the options; starts nothing
        self.failed: list[tuple[int, int, str]] = []
        self._epoch = 0
        self._start: dict[str, Any] | None = None
        self._latest: Progress | None = None
        self._alive: WeakSet[StreamIterator] = WeakSet()
        self._has_begun = self._is_closed = False

    # ---------------------------------------------------------------- arguments

    def _checked_limits(self, max_buffered: int, max_bytes: int, streams_ahead: int | None) -> Limits:
        chunks = positive_int(max_buffered, "StreamLoader: max_buffered")
        nbytes = positive_int(max_bytes, "StreamLoader: max_bytes")
        ahead = optional_int(streams_ahead, "StreamLoader: streams_ahead", least=0)
        ahead = self.batch_size if ahead is None else ahead
        return Limits(chunks, ahead if self.num_workers else 0, nbytes // (self.batch_size + ahead))

    def _checked_timeout(self, timeout: Any) -> float | None:
        if not isinstance(timeout, bool) and timeout == 0:
            return None
        limit = optional_number(timeout, "StreamLoader: timeout", "seconds")
        if limit is not None and not self.num_workers:
            raise ValueError(
                "StreamLoader: timeout needs workers, got num_workers=0. A chunk that the consumer reads"
                " itself"
                " cannot be interrupted"
            )
        return limit

    def _checked_lengths(self, lengths: Any) -> list[int]:
        if self._n is None:
            raise TypeError("StreamLoader: lengths needs streams with a length")
        checked = [int_at_least(length, "StreamLoader: lengths: each length", 0) for length in lengths]
        if len(checked) != self._n:
            raise ValueError(
                f"StreamLoader: lengths has {len(checked)} numbers, but there are {self._n} streams"
            )
        return checked

    def _check_streams(self, strict: bool) -> None:
        if self._n is None:
            if self._shuffle:
                raise TypeError(
                    "StreamLoader: shuffle needs streams with a length, and these can only be iterated."
                    " Make a list"
                    " of them, or see seqkit.streams.shuffle_buffer"
                )
            if strict:
                raise TypeError(
                    "StreamLoader: strict needs streams with a length, and these can only be iterated"
                )
            if self._padding == "restart" and isinstance(self._streams, Iterator):
                raise ValueError(
                    "StreamLoader: padding='restart' reads streams again, but these are an iterator"
                )
        elif strict and len(range(self._rank, self._n, self._world)) < self.batch_size:
            raise ValueError(
                f"StreamLoader: {self._n} streams cannot fill {self.batch_size} rows of each of"
                f" {self._world} ranks."
                " Set a smaller batch_size, or strict=False to pad"
            )

    def _check_world(self) -> None:
        if self._rank >= self._world:
            raise ValueError(f"StreamLoader: rank must be below world {self._world}, got {self._rank}")
        if self._batches is not None and (
            self._lengths is not None or self._padding in ("drop_rows", "stop")
        ):
            other = f"padding={self._padding!r}" if self._lengths is None else "lengths"
            raise ValueError(f"StreamLoader: batches_per_epoch contradicts {other}. Leave out one of them")
        if self._world == 1:
            return
        if self._shuffle and self._seed_was_drawn:
            raise ValueError("StreamLoader: shuffle with several ranks needs a seed, the same in each rank")
        if self._n is None or self._n < self._world:
            raise ValueError(
                f"StreamLoader: {self._world} ranks need at least as many streams, with a length, got"
                f" {'streams without a length' if self._n is None else self._n}"
            )
        if self._padding == "drop_rows":
            raise ValueError("StreamLoader: padding='drop_rows' cannot give all ranks the same batches")
        if self._lengths is None and self._batches is None:
            raise ValueError(
                "StreamLoader: a rank does not know how long the streams of others are. Pass lengths or"
                " batches_per_epoch, so that all ranks make the same number of batches"
            )

    # ---------------------------------------------------------------- epochs

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch` (0 or more), from its beginning."""
        epoch = int_at_least(epoch, "StreamLoader: epoch", 0)
        if self._start is None or epoch != self._epoch:
            self._start = None
        self._epoch, self._latest = epoch, None

    def __iter__(self) -> StreamIterator:
        if self._is_closed:
            raise RuntimeError("StreamLoader: the loader is closed. Make another one")
        if isinstance(self._streams, Iterator) and self._has_begun:
            raise RuntimeError(
                "StreamLoader: the streams are an iterator, which an epoch has read already. Pass"
                " something that can"
                " be iterated again"
            )
        self._has_begun = True
        iterator = StreamIterator(self, self._epoch, self._start)
        self._epoch, self._start, self._latest = self._epoch + 1, None, iterator.progress
        self._alive.add(iterator)
        return iterator

    def __len__(self) -> int:
        batches = self._count(self._epoch)
        if batches is None:
            raise TypeError("StreamLoader has no length: pass lengths or batches_per_epoch")
        return batches

    def order(self, epoch: int, rank: int | None = None) -> Order:
        """Return the streams of an epoch."""
        if self._n is None:
            return Drawn(self._streams)
        seed = self.seed if self._shuffle else None
        return Listed(self._streams, seed, epoch, self._rank if rank is None else rank, self._world)

    def _count(self, epoch: int) -> int | None:
        """Return how many batches an epoch has, the same on all ranks, or None if it is unknown."""
        if self._lengths is None:
            return self._batches
        orders = [self.order(epoch, rank) for rank in range(self._world)]
        counts = [count_batches(self._lengths_in(order), self.batch_size, self._padding) for order in orders]
        return min(counts) if self._padding == "stop" else max(counts)

    def _lengths_in(self, order: Order) -> Iterator[int]:
        return (self._lengths[order.id(number)] for number in range(order.length or 0))

    def lanes(self, epoch: int) -> tuple[Lanes, Where]:
        """Return the lanes of an epoch, and where they read."""
        order = self.order(epoch)
        name = partial(described, self._items)
        known = order if isinstance(order, Listed) else None
        where: Here | Workers
        if self.num_workers:
            where = Workers(self._nodes(known), self._limits, name)
        else:
            where = Here(OpenStreams(known, self._opener), name)
        chunks = None if self._lengths is None else self._lengths.__getitem__
        ends = Ends(self._padding, self._count(epoch), chunks)
        return Lanes(order, where, self.batch_size, ends, self._limits.streams, self._fail), where

    def _nodes(self, order: Order | None) -> list[Prefetch[Any]]:
        timeout, workers = self._options["timeout"], self.num_workers
        chunks = Chunks(order, self._opener, sys.maxsize if timeout is None else int(timeout * 1e9 / 4))
        shm_size = self._options["shm_size"]
        # So many results can be held, or on their way, without copies. All streams may be with one worker.
        most = min(256, max(16, self._limits.chunks * self.batch_size))
        return [
            prefetch(
                chunks,
                1,
                **{**self._options, "shm_size": shm_size and shm_size // workers},
                max_buffered=most,
                start_hook=introduced(self._hook, number, workers),
                seed=as_seed(self.seed + number, "seed"),
            )
            for number in range(workers)
        ]

    def _fail(self, failure: StreamFailed, stream: Opened, chunk: int) -> None:
        """Raise the error of a stream, or note it and go on without the stream."""
        error = failure.error
        try:
            if self._on_error == "raise":
                raise error
            self.failed.append((stream.id, chunk, str(error)))
            warn(
                f"StreamLoader: went on without the rest of {described(self._items, stream.id)}: {error}",
                RuntimeWarning,
            )
        finally:
            del error, failure  # or they and this frame would refer to each other

    def collate(self, rows: list[Any], template: Any) -> StreamBatch:
        return self._collation.batch(rows, template)

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return where the latest iterator is, as a small dict for JSON.

        A loader of the same streams and arguments goes on there, with any number of workers; see
        `load_state_dict`.
        """
        latest = self._latest
        if latest is None:
            state = self._start or {"epoch": self._epoch, "batch": 0, "lanes": None}
        else:
            state = latest.state()
        return {**state, **self._identity()}

    def _identity(self) -> dict[str, Any]:
        """Return the fields that a state and the loader that goes on from it must share."""
        return {
            "version": 1,
            "seed": self.seed if self._shuffle else None,
            "streams": self._n,
            "batch_size": self.batch_size,
            "padding": self._padding,
            "rank": self._rank,
            "world": self._world,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin with the batch that was next when `state_dict` was called.

        Streams that were open are opened again and moved on to their next chunk. That is exact. It is cheap
        for streams that can seek. Others read the chunks before it once more, in the workers.

        Parameters
        ----------
        state : dict
            From `state_dict`.

        Raises
        ------
        TypeError
            If `state` is no such dict.
        ValueError
            If it is the state of another loader: of other streams, rows, padding, rank, world or seed.
        """
        check_state(state)
        if self._seed_was_drawn and state["seed"] is not None and self._shuffle:
            self.seed = state["seed"]
        for name, own in self._identity().items():
            if state[name] != own:
                raise ValueError(
                    f"StreamLoader: the state is of a loader with {name}={state[name]!r}, this one has"
                    f" {own!r}"
                )
        self._epoch, self._latest = state["epoch"], None
        self._start = {name: state[name] for name in ("epoch", "batch", "lanes")}

    # ---------------------------------------------------------------- end

    def close(self) -> None:
        """End all iterators and their workers, and close their streams. Idempotent."""
        self._is_closed = True
        for iterator in list(self._alive):
            iterator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        n = "?" if self._n is None else self._n
        name = getattr(self._opener.open_fn, "__name__", type(self._opener.open_fn).__name__)
        return f"StreamLoader(<{n} streams>, {name}, {self.batch_size}, num_workers={self.num_workers})"


class Progress:
    """How far an epoch was read. It outlives the iterator, whose workers end with it."""

    def __init__(self, iterator: StreamIterator) -> None:
        self._iterator = ref(iterator)
        self._last: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        iterator = self._iterator()
        return self._last if iterator is None else iterator.state()

    def keep(self, state: dict[str, Any]) -> None:
        self._last = state


class StreamIterator(Iterator[StreamBatch]):
    """One epoch of a `StreamLoader`. It survives errors, and owns its workers.

    Dropping it, or `close`, ends the workers and closes all open streams.
    """

    def __init__(self, loader: StreamLoader, epoch: int, start: dict[str, Any] | None) -> None:
        self._epoch = epoch
        self._is_closed = self._is_over = False
        self._failed_at: dict[str, Any] | None = None
        self._collate = loader.collate
        self._lanes, self._where = loader.lanes(epoch)
        self._template: Any = None
        self._has_template = False
        if start is not None and start["lanes"] is not None:
            self._lanes.restore(start["batch"], start["lanes"])
        self.progress = Progress(self)

    def __next__(self) -> StreamBatch:
        if self._is_closed:
            raise StopIteration
        try:
            rows = self._lanes.read()
        except BaseException as error:
            self._recover(error)
            raise
        if rows is None:
            self._is_over = True
            self.close()
            raise StopIteration
        try:
            batch = self._collate(rows, self._padding_template(rows))
        except Exception:
            self._lanes.advance()
            raise
        self._lanes.advance()  # not after Ctrl-C, which must not lose the batch
        return batch

    def _recover(self, error: BaseException) -> None:
        """Prepare the next read after an error, or end the epoch if two errors left it at the same place."""
        if not isinstance(error, Exception):
            self._where.interrupt()
            return
        state = self.state()
        if state == self._failed_at:  # workers that cannot start would fail without end
            self.close()
        self._failed_at = state

    def _padding_template(self, rows: list[Any]) -> Any:
        """Return a chunk whose form rows of the padding value get."""
        if all(row.number >= 0 for row in rows):
            return None
        for row in rows:
            if row.number >= 0:
                return row.value
        if not self._has_template:
            self._template, self._has_template = self._lanes.first_chunk(), True
        return self._template

    def state(self) -> dict[str, Any]:
        """Return which epoch and batch come next, and where each lane reads on."""
        if self._is_over:
            return {"epoch": self._epoch + 1, "batch": 0, "lanes": None}
        return {"epoch": self._epoch, "batch": self._lanes.batch, "lanes": self._lanes.state()}

    def close(self) -> None:
        """End the workers and close all open streams. Idempotent."""
        self._is_closed = True
        self._where.close()

    def __del__(self) -> None:
        if hasattr(self, "progress"):  # otherwise it was not made completely
            self.progress.keep(self.state())


def _as_streams(streams: Any) -> tuple[Any, int | None]:
    """Return streams as a view, and their number; or as an iterable, and None."""
    if hasattr(streams, "__getitem__") and (hasattr(streams, "__len__") or isinstance(streams, View)):
        view = as_view(streams, "StreamLoader: streams")
        if not isinstance(view._n, Unsized):
            return view, len(view)
    if not hasattr(streams, "__iter__") or isinstance(streams, type | dict):
        raise TypeError(f"StreamLoader: streams must be a sequence or an iterable, got {streams!r}")
    return streams, None


def _check_choice(value: Any, choices: tuple[str, ...], who: str) -> None:
    if value not in choices:
        raise ValueError(f"{who} must be one of {', '.join(map(repr, choices))}, got {value!r}")
