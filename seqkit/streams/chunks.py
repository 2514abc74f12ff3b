"""Read the chunks of open streams: in a worker, or in the consumer's process.

Guarantees
----------
- A chunk is the one that a fresh pass over its stream gives at its place, whatever was asked before:
  after a lost worker a stream is opened again, and moved on to the chunk.
- Exceptions of the user's code, `StopIteration` included, are errors of the chunk. They never end a
  stream quietly.
- Iterators are closed at their end, after an error, and with their worker.

Relies on
---------
- A stream gives the same chunks each time it is opened.
- One thread uses an `StreamsOfThread`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from time import monotonic_ns
from typing import Any, Literal, NamedTuple

from ..core.arguments import is_table
from ..core.errors import EndOfSequence, EvaluationError, RemoteError, seterr, summary
from ..core.lengths import UNKNOWN, is_measured
from ..core.set_epoch import listeners
from ..core.view import View, in_order
from ..core.worker import close_with_worker, get_worker_info, in_process_worker
from ..engine.seeding import seed_item
from .order import Order
from .stream import Stream
from .unshared import unshared

__all__ = ["Chunks", "Found", "Key", "Opener", "Resume", "StreamsOfThread", "keys"]

Resume = Literal["start"] | None

# How many ended streams a worker remembers: more than jobs can be in flight for one worker.
MOST_OVER = 4096
# A key that is a single number holds the number of the stream above these bits, and that of the chunk below.
CHUNK_BITS = 40
MOST_NUMBERED = 1 << (62 - CHUNK_BITS)


class Key(NamedTuple):
    """Which chunk to read. `item` is the stream itself, if the worker does not know it by its number."""

    number: int
    chunk: int
    item: Any = None
    has_item: bool = False


def keys(start: Key) -> Iterable[Any]:
    """Return the keys of the chunks of a stream from one on, without end.

    Ranges of ints are the fastest way to a worker.

    >>> Key(*divmod(keys(Key(3, 7))[1], 1 << CHUNK_BITS))
    Key(number=3, chunk=8, item=None, has_item=False)
    """
    number, chunk = start.number, start.chunk
    if start.has_item or number >= MOST_NUMBERED:
        return (tuple(start._replace(chunk=later)) for later in count(chunk))
    return range((number << CHUNK_BITS) + chunk, (number + 1) << CHUNK_BITS)


class Found(NamedTuple):
    """A chunk, and the time that reading it took."""

    value: Any
    cost_ns: int


class Opener:
    """Opens a stream at a chunk, or as near before it as `resume` allows.

    Parameters
    ----------
    open_fn : callable
    resume : "start" or None
        Whether `open_fn` takes the number of the first chunk. Without it, only views and streams of seqkit go
        on at a chunk.
    epoch : int
        Number of the epoch for views, and for other objects with `set_epoch`, that `open_fn` returns.
    """

    def __init__(self, open_fn: Callable[..., Iterable[Any]], resume: Resume = None, epoch: int = 0) -> None:
        self.open_fn = open_fn
        self._resume = resume
        self._epoch = epoch
        if resume == "start" and isinstance(open_fn, partial) and "start" in open_fn.keywords:
            raise ValueError(
                f"StreamLoader: resume='start' sets start, but open_fn has"
                f" start={open_fn.keywords['start']!r} already. Leave out one of them"
            )

    def at_epoch(self, epoch: int) -> Opener:
        return Opener(self.open_fn, self._resume, epoch)

    def open(self, stream: Any, chunk: int) -> _OpenPass:
        """Open a stream at a chunk, or at its beginning."""
        if self._resume == "start":
            return _OpenPass(in_order(self._at_epoch(self._opened(stream, start=chunk))), chunk)
        opened = self._at_epoch(self._opened(stream))
        if chunk and isinstance(opened, View) and is_measured(opened):
            return _OpenPass(in_order(opened[chunk:]), chunk)
        if chunk and isinstance(opened, Stream):
            return _OpenPass(iter(opened.skip(chunk)), chunk)
        return _OpenPass(in_order(opened), 0)

    def _opened(self, stream: Any, **start: int) -> Iterable[Any]:
        opened = self.open_fn(stream, **start)
        if is_table(opened) or isinstance(opened, Mapping):
            parts = "keys" if isinstance(opened, Mapping) else "columns"
            raise TypeError(
                f"open_fn must return an iterable of chunks, got a {type(opened).__name__}, which gives its"
                f" {parts}. Return [table], or seqkit.view(table) for its rows."
            )
        return opened

    def _at_epoch(self, opened: Iterable[Any]) -> Iterable[Any]:
        if isinstance(opened, View):
            return opened.at_epoch(self._epoch)
        for one in listeners(opened):
            one.set_epoch(self._epoch)
        return opened


class _OpenPass:
    """A pass over an open stream.

    `position` is the chunk that comes next. `postponed` is the last chunk that was asked for while the pass
    had not reached it, if nothing was read since.
    """

    def __init__(self, items: Iterator[Any], position: int) -> None:
        self.items = items
        self.position = position
        self.postponed: int | None = None

    def close(self) -> None:
        close = getattr(self.items, "close", None)
        if close is not None:
            try:
                close()
            except Exception:
                pass  # the chunks that it gave are good all the same


class StreamsOfThread:
    """The streams that one thread reads.

    Parameters
    ----------
    order : Order or None
        Where the streams are found by their number. None if keys bring them along.
    opener : Opener
    patience_ns : int
        How long to move a reopened stream on before returning None.
    seed : int, optional
        In a worker process, the global generators are seeded for each chunk, and for opening a stream, from
        this number, the stream and the chunk. So draws depend neither on the worker nor on what it read
        before.
    """

    def __init__(
        self, order: Order | None, opener: Opener, patience_ns: int = sys.maxsize, seed: int | None = None
    ) -> None:
        self._order = order
        self._opener = opener
        self._patience_ns = patience_ns
        info = get_worker_info() if in_process_worker() else None
        self._seed = None if info is None else seed
        self._initial_seed = 0 if info is None else info.seed >> 1  # of torch
        # Other chunks are read while the consumer has this one. Processes send copies.
        self._copies = not in_process_worker()
        self._open: dict[int, _OpenPass] = {}
        self._over: dict[int, int] = {}  # number of an ended stream, and of its chunks

    def read(self, key: Key) -> Found | None:
        """Return a chunk, or None if the stream has not reached it yet: ask again.

        The chunks that were asked for right behind such a chunk are None, too. Any other chunk moves the
        stream on, however often it is asked for.

        Raises
        ------
        EndOfSequence
            If the stream ends before the chunk.
        """
        begun = monotonic_ns()
        stream = self._open.get(key.number)
        if stream is not None and key.chunk < stream.position:
            self._end(key.number)
            stream = None
        if stream is None:
            stream = self._begin(key)
        elif stream.postponed == key.chunk - 1:
            stream.postponed = key.chunk
            return None
        while stream.position < key.chunk:
            self._draw(key, stream)
            if monotonic_ns() - begun > self._patience_ns:
                stream.postponed = key.chunk
                return None
        began = monotonic_ns()
        chunk = self._draw(key, stream)
        stream.postponed = None
        return Found(unshared(chunk) if self._copies else chunk, monotonic_ns() - began)

    def _begin(self, key: Key) -> _OpenPass:
        if key.chunk >= self._over.get(key.number, sys.maxsize):
            raise EndOfSequence("the stream has ended")
        try:
            self._seed_globals(key.number, -1)
            order = None if key.has_item else self._order
            stream = self._opener.open(key.item if order is None else order.item(key.number), key.chunk)
            if any(stream.items is other.items for other in self._open.values()):
                raise RuntimeError(
                    "open_fn returned the iterator of another stream, which is still open. Return a new"
                    " iterator each time."
                )
        except BaseException as error:
            self._fail(key, key.chunk, error)
        self._open[key.number] = stream
        close_with_worker(self)
        return stream

    def _draw(self, key: Key, stream: _OpenPass) -> Any:
        try:
            self._seed_globals(key.number, stream.position)
            value = next(stream.items)
        except StopIteration:
            self._end(key.number, stream.position)
        except BaseException as error:
            self._fail(key, stream.position, error)
        else:
            stream.position += 1
            return value
        raise EndOfSequence("the stream has ended")

    def _seed_globals(self, number: int, chunk: int) -> None:
        if self._seed is not None:
            seed_item(self._seed, self._initial_seed, 0, (number, chunk))

    def _end(self, number: int, chunks: int | None = None) -> None:
        """Close a stream. `chunks` is how many it has, if it is not to be opened again."""
        if chunks is not None:
            self._over[number] = chunks
            if len(self._over) > MOST_OVER:
                del self._over[next(iter(self._over))]
        stream = self._open.pop(number, None)
        if stream is not None:
            stream.close()

    def _fail(self, key: Key, chunk: int, error: BaseException) -> Any:
        """Close a stream, which has no chunks after this one. Raise the error that the policy asks for."""
        try:
            # The chunk itself can be asked for again: the error may not have reached the consumer.
            self._end(key.number, chunk + 1 if chunk == key.chunk else None)
            if not isinstance(error, Exception):
                raise error
            if isinstance(error, EvaluationError | RecursionError):
                raise error
            if seterr() == "passthrough" and not isinstance(error, RemoteError):
                raise IndexError(*error.args) if isinstance(error, EndOfSequence) else error
            raise EvaluationError(f"chunk {chunk} failed: {summary(error)}") from error
        finally:
            del error  # or it and this frame would refer to each other

    def close(self) -> None:
        """Close all streams."""
        while self._open:
            self._end(next(iter(self._open)))


class _OfThread(threading.local):
    streams: StreamsOfThread | None = None


class Chunks(View[Any]):
    """The chunks of all streams by their keys: the pipeline of a worker.

    An item has the fields of `Found` in a plain tuple, or is None; see `StreamsOfThread.read`. Each thread
    has open streams of its own. So a thread that was given up, because it is stuck in a stream, shares none
    with the thread in its place.
    """

    def __init__(self, order: Order | None, opener: Opener, patience_ns: int, seed: int) -> None:
        super().__init__((), UNKNOWN)
        self._of_streams = order, opener, patience_ns, seed
        self._local = _OfThread()
        # By the number of a stream: the chunk that is being read, and by which thread.
        self._being_read: dict[int, tuple[int, StreamsOfThread]] = {}

    def _get(self, i: Any) -> Any:
        streams = self._local.streams
        if streams is None:
            streams = self._local.streams = StreamsOfThread(*self._of_streams)
        key = Key(*i) if type(i) is tuple else Key(i >> CHUNK_BITS, i & ((1 << CHUNK_BITS) - 1))
        chunk, reader = self._being_read.get(key.number, (key.chunk, streams))
        if reader is not streams and chunk < key.chunk:  # opened again, the stream would be stuck again
            raise EvaluationError(
                f"chunk {key.chunk} failed: a thread that was given up still reads chunk {chunk}"
            )
        self._being_read[key.number] = key.chunk, streams
        try:
            found = streams.read(key)
        finally:
            if self._being_read.get(key.number) == (key.chunk, streams):
                del self._being_read[key.number]
        return None if found is None else tuple(found)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunks, self._of_streams
