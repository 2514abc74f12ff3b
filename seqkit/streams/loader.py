"""`StreamLoader`: many sequential streams as batches in lock step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any, Literal, Self, cast
from weakref import WeakSet

import numpy as np

from ..core.arguments import as_bool, check_callable, int_at_least, positive_int
from ..core.chaining import Displayed
from ..core.errors import brief
from ..core.expression import name_of
from ..core.iteration import is_one_shot
from ..core.randomness import as_seed, node_key
from ..core.set_epoch import listeners, tell
from ..core.tracebacks import warn
from ..engine.prefetch import Prefetch, prefetch
from ..engine.settings import Context
from ..views.bases.order_digest import order_digest, refuse_other_order
from .batch import STACKED, Collation, StreamBatch
from .chunks import Chunks, Opener, OpenStreams, Resume
from .epochs import StreamEpochs
from .iterator import StreamIterator
from .lanes import PADDING, EndRules, Lanes, Row
from .order import described
from .reading import InConsumer, InWorkers, Stream, StreamFailed

__all__ = ["StreamLoader"]


class StreamLoader(Displayed):
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
        typical. Called just in time, in a worker. See `resume` for streams that can begin at a chunk.
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
    pad_value : number, optional
        Fills rows of padding and short chunks. None (the default) fills rows with 0, and refuses chunks of
        one batch that differ in length. Text and other objects are None in rows of padding. A batch of chunks
        whose type cannot hold it, such as -1 in unsigned integers, is a ValueError.
    strict : bool
        True refuses fewer streams than rows.
    shuffle : bool
        True reads the streams in another order in every epoch. Needs streams with a length.
    seed : int, optional
        Chooses the orders (0 or more), and seeds the global generators of worker processes for each chunk.
        None (the default) draws one from the system, once.
    rank, world_size : int
        Read every `world_size`-th stream from number `rank` on, in the order of the epoch. All ranks make the
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
    shm_size : int, optional
        Bytes of shared memory for chunks from processes; see `prefetch`.
    max_buffered : int
        Most chunks read ahead of each stream (1 or more).
    resume : "start", optional
        How a stream that is opened again gets to its next chunk: after a resume, or when its worker died.
        "start": `open_fn` takes ``start=chunk``, the number of the first chunk wanted. None (the default)
        reads the chunks before it once more, except in views, which can go there.

    Attributes
    ----------
    failed : list of tuple
        The id, the chunk and the error text of each stream that failed with ``on_error="skip"``. A part of
        the state.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `shuffle`, `strict`, `lengths` or ``padding="restart"`` meets
        streams without a length.
    ValueError
        If an argument is out of range, or arguments contradict each other.

    Notes
    -----
    Modelled on pytorch-stream-dataloader, with lanes that are not split over workers. A stream stays with
    its worker while it is open. New streams go to the worker with the fewest. When a worker dies, its streams
    are opened again. A stream whose worker dies twice in a row has failed. Why batches do not depend on
    workers is in ``docs/decisions/streams.md``.

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
        strict: bool = False,
        shuffle: bool = False,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        lengths: Any = None,
        batches_per_epoch: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        timeout: float = 0,
        worker_init_fn: Callable[..., Any] | None = None,
        method: Literal["process", "thread"] = "process",
        multiprocessing_context: Context | None = None,
        shm_size: int | None = None,
        max_buffered: int = 16,
        resume: Resume = None,
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
        _check_choice(resume, ("start", None), f"{who}: resume")
        number = np.asarray(0 if pad_value is None else pad_value)
        if number.ndim or number.dtype.kind not in STACKED:
            raise TypeError(f"{who}: pad_value must be a number, got {brief(pad_value)}")
        self._streams = streams
        self._opener = Opener(open_fn, resume)
        self._padding = padding
        self._collation = Collation(collate_fn, pad_value)
        self.seed = as_seed(seed, f"{who}: seed")
        self._seed_was_drawn = seed is None
        self._epochs = StreamEpochs(
            streams,
            batch_size=self.batch_size,
            padding=padding,
            shuffle=as_bool(shuffle, f"{who}: shuffle"),
            has_seed=seed is not None,
            strict=as_bool(strict, f"{who}: strict"),
            rank=rank,
            world_size=world_size,
            lengths=lengths,
            batches_per_epoch=batches_per_epoch,
        )
        self._on_error = on_error
        self._limit = positive_int(max_buffered, f"{who}: max_buffered")
        self._options: dict[str, Any] = {
            "method": method,
            "context": multiprocessing_context,
            "timeout": None if timeout == 0 else timeout,
            "shm_size": shm_size,
        }
        if timeout and not self.num_workers:
            raise ValueError(
                f"{who}: timeout needs workers, got num_workers=0. A chunk that the consumer reads itself"
                " cannot be interrupted"
            )
        self._hook = worker_init_fn
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Build the nodes, one for each worker. Begin at the first epoch."""
        workers, shm_size = self.num_workers, self._options["shm_size"]
        options = {**self._options, "shm_size": shm_size and shm_size // workers}
        streams = None if self._epochs.n is None else self._epochs.streams
        self._of_streams = streams, self._opener
        chunks = Chunks(*self._of_streams)
        # So many results can be held, or on their way, without copies. All streams may be with one worker.
        most = min(256, max(16, self._limit * self.batch_size))
        nodes: Any = [
            prefetch(
                chunks,
                1,
                **options,
                max_buffered=most,
                start_hook=self._hook,
                retries=0,  # a worker in the place of a dead one does not have the stream open
                seed=node_key("workers", self.seed, 0, number),
            ).changed(first=number, together=workers)
            for number in range(workers)
        ]
        self._nodes = cast("list[Prefetch[Any]]", nodes)
        self._working: WeakSet[InWorkers] = WeakSet()
        self._alive: WeakSet[StreamIterator] = WeakSet()
        self.failed: list[tuple[int, int, str]] = []
        self._epoch = 0
        self._start: dict[str, Any] | None = None
        self._latest: tuple[int, Lanes] | None = None
        self._has_begun = self._is_closed = False

    # ---------------------------------------------------------------- epochs

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch` (0 or more), from its beginning."""
        epoch = int_at_least(epoch, "StreamLoader: epoch", 0)
        if epoch != self._epoch:
            self._start = None
        self._epoch, self._latest = epoch, None

    def __iter__(self) -> StreamIterator:
        if self._is_closed:
            raise RuntimeError("StreamLoader: the loader is closed. Make another one")
        if is_one_shot(self._streams) and self._has_begun:
            raise RuntimeError(
                "StreamLoader: the streams are an iterator, which an epoch has read already. Pass"
                " something that can be iterated again"
            )
        self._has_begun = True
        tell(listeners(self._streams), self._epoch)  # before workers get a copy
        epoch, start = self._epoch, self._start
        lanes, where = self._lanes(epoch)
        if start is not None and start["lanes"] is not None:
            lanes.restore(start["batch"], start["lanes"], start["lost"])
        iterator = StreamIterator(lanes, where, self._collate())
        self._epoch, self._start, self._latest = epoch + 1, None, (epoch, lanes)
        self._alive.add(iterator)
        return iterator

    def __bool__(self) -> bool:
        return True  # also without a length

    def __len__(self) -> int:
        batches = self._epochs.batches(self._epoch, self.seed)
        if batches is None:
            raise TypeError("StreamLoader has no length: pass lengths or batches_per_epoch")
        return batches

    def _collate(self) -> Callable[[list[Row], Any], StreamBatch]:
        """Return the function that makes the batches of one epoch."""
        return self._collation.batch

    def _lanes(self, epoch: int) -> tuple[Lanes, InConsumer]:
        """Return the lanes of an epoch, and where they read."""
        seed = node_key("chunks", self.seed, epoch, self._epochs.rank)
        name = partial(described, self._streams)
        where: InConsumer
        if self.num_workers:
            where = InWorkers(self._nodes, self._limit, self._released, epoch, seed, name)
            self._working.add(where)
        else:
            where = InConsumer(OpenStreams(*self._of_streams), epoch, seed, name)
        ends = EndRules(self._padding, self._epochs.batches(epoch, self.seed), self._epochs.lengths)
        order = self._epochs.order(epoch, self.seed)
        return Lanes(order, where, self.batch_size, ends, self._fail), where

    def _released(self, workers: InWorkers) -> None:
        """End the workers, unless another epoch reads too. The next read starts new ones."""
        self._working.discard(workers)
        if not self._working:
            for node in self._nodes:
                node.restart()

    def _fail(self, failure: StreamFailed, stream: Stream, chunk: int) -> None:
        """Raise the error of a stream, or note it and go on without the stream."""
        error = failure.error
        try:
            if self._on_error == "raise":
                raise error
            self.failed.append((stream.id, chunk, str(error)))
            warn(
                f"StreamLoader: went on without the rest of {described(self._streams, stream.id)}: {error}",
                RuntimeWarning,
            )
        finally:
            del error, failure  # or they and this frame would refer to each other

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return where the latest iterator is, as a small dict for JSON.

        A loader of the same streams and arguments goes on there, with any number of workers; see
        `load_state_dict`.
        """
        if self._latest is None:
            state = self._start or {"epoch": self._epoch, "batch": 0, "lanes": None, "lost": []}
        else:
            epoch, lanes = self._latest
            state = lanes.state(epoch)
        order = self._streams_order(state)
        return {
            **state,
            "failed": [list(failure) for failure in self.failed],
            "worker_seed": self.seed,
            **({} if order is None else {"streams_order": order}),
            **self._identity(),
        }

    def _streams_order(self, state: dict[str, Any]) -> str | None:
        """Return a digest of the order in which the streams are given, in the middle of an epoch."""
        return order_digest(self._streams) if state["batch"] else None

    def _identity(self) -> dict[str, Any]:
        """Return the fields that a state and the loader that goes on from it must share."""
        return {
            "version": 1,
            "seed": self.seed if self._epochs.is_shuffled else None,
            "streams": self._epochs.n,
            "batch_size": self.batch_size,
            "padding": self._padding,
            "rank": self._epochs.rank,
            "world_size": self._epochs.world_size,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin with the batch that was next when `state_dict` was called.

        Streams that were open are opened again and moved on to their next chunk. That is exact. It is cheap
        with `resume`. Others read the chunks before it once more, in the workers. Streams that have failed
        are not read again.

        Parameters
        ----------
        state : dict
            From `state_dict`.

        Raises
        ------
        TypeError
            If `state` is no such dict.
        ValueError
            If it is the state of another loader: of other streams, rows, padding, rank, world_size or seed.
            Lanes are dealt to ranks, so each rank saves and loads a state of its own.
        """
        takes_seed = self.draws_its_order()
        self._check_state(state, takes_seed)
        refuse_other_order(
            "StreamLoader: the list of streams", state.get("streams_order"), self._streams_order(state)
        )
        if self._seed_was_drawn:
            self.seed = state["seed"] if takes_seed else state["worker_seed"]
        self._epoch, self._latest = state["epoch"], None
        self._start = {name: state[name] for name in ("epoch", "batch", "lanes", "lost")}
        self.failed[:] = [(stream, chunk, text) for stream, chunk, text in state["failed"]]

    def _check_state(self, state: Any, takes_seed: bool) -> None:
        """Refuse an object that is no state, and the state of another loader."""
        own = self._identity()
        names = [*own, "epoch", "batch", "lanes", "lost", "failed", "worker_seed"]
        if not isinstance(state, dict) or any(name not in state for name in names):
            raise TypeError(f"StreamLoader: a state is a dict with {', '.join(names)}, got {state!r}")
        for name, value in own.items():
            may_differ = name == "seed" and takes_seed and state["seed"] is not None
            if state[name] != value and not may_differ:
                remedy = "Pass the same one"
                if name in ("rank", "world_size"):
                    remedy = "Lanes are dealt to ranks: save the state of each rank, and load it there"
                raise ValueError(
                    f"StreamLoader: the state is of a loader with {name}={state[name]!r}, this one has"
                    f" {value!r}. {remedy}, or begin epoch {state['epoch'] + 1} with set_epoch"
                )

    # ---------------------------------------------------------------- end

    def draws_its_order(self) -> bool:
        """Is the order another one in every run of the program, because no seed was given?"""
        return self._epochs.is_shuffled and self._seed_was_drawn

    def with_workers(
        self, num_workers: int, method: str = "process", timeout: float = 0, context: str | None = None
    ) -> Self:
        """Return a loader of the same batches, not begun, that other workers compute (for `verify`)."""
        other = copy(self)
        other.num_workers = num_workers
        limits = {"timeout": timeout or None, "context": context} if num_workers else {}
        other._options = {**self._options, "method": method, **limits}
        other._begin_anew()
        return other

    def nodes(self) -> list[Prefetch[Any]]:
        """Return the nodes, if an epoch is being read (for `watch`)."""
        return self._nodes if self._working else []

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
        n = "?" if self._epochs.n is None else self._epochs.n
        name = name_of(self._opener.open_fn)
        return f"StreamLoader(<{n} streams>, {name}, {self.batch_size}, num_workers={self.num_workers})"


def _check_choice(value: Any, choices: tuple[str | None, ...], who: str) -> None:
    if value not in choices:
        raise ValueError(f"{who} must be one of {', '.join(map(repr, choices))}, got {value!r}")
