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
- One thread uses an `OpenStreams`.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from time import monotonic_ns
from typing import Any, NamedTuple

from ..context import close_with_worker
from ..errors import EndOfSequence, EvaluationError, RemoteError, seterr, summary
from ..indices import UNKNOWN
from ..view import View
from .order import Order

__all__ = ["Chunks", "Found", "Key", "OpenStreams", "Opener", "keys"]

# How many ended streams a worker remembers: more than jobs can be in flight for one worker.
MOST_OVER = 4096
# A key that is a single number holds the number of the stream above these bits, and that of the chunk below.
CHUNK_BITS = 40
MOST_NUMBERED = 1 << (62 - CHUNK_BITS)


class Key(NamedTuple):
    """Which chunk to read.

    `base` and `mark` say where a stream that can seek may begin: `mark` is what its iterator's `tell` gave
    before chunk `base`. `item` is the stream itself, if the worker does not know it by its number.
    """

    number: int
    chunk: int
    base: int = 0
    mark: Any = None
    item: Any = None
    has_item: bool = False


def keys(start: Key) -> Iterable[Any]:
    """Return the keys of the chunks of a stream from one on, without end.

    Ranges of ints are the fastest way to a worker.

    >>> Key(*divmod(keys(Key(3, 7))[1], 1 << CHUNK_BITS))
    Key(number=3, chunk=8, base=0, mark=None, item=None, has_item=False)
    """
    number, chunk = start.number, start.chunk
    if start.has_item or start.base or number >= MOST_NUMBERED:
        return (tuple(start._replace(chunk=later)) for later in count(chunk))
    return range((number << CHUNK_BITS) + chunk, (number + 1) << CHUNK_BITS)


class Found(NamedTuple):
    """A chunk. `mark` is where a stream that can seek goes on after it, else None."""

    value: Any
    mark: Any
    cost_ns: int


class Opener:
    """Opens a stream: ``open_fn(stream)``, or ``open_fn(stream, start=chunk)`` if it has that parameter."""

    def __init__(self, open_fn: Callable[..., Iterable[Any]]) -> None:
        self.open_fn = open_fn
        try:
            self._takes_start = "start" in inspect.signature(open_fn).parameters
        except (TypeError, ValueError):  # a builtin without a signature
            self._takes_start = False

    def open(self, stream: Any, key: Key) -> tuple[Iterator[Any], int]:
        """Return an iterator of the stream, and the chunk that it stands before: `key.chunk` or an
        earlier one."""
        if self._takes_start:
            return iter(self.open_fn(stream, start=key.chunk)), key.chunk
        items = iter(self.open_fn(stream))
        if key.base and key.mark is not None and hasattr(items, "seek"):
            items.seek(key.mark)
            return items, key.base
        return items, 0


class _Open:
    """An open stream. `position` is the chunk that comes next, `wanted` the one it is being moved on to."""

    def __init__(self, items: Iterator[Any], position: int) -> None:
        self.items = items
        self.position = position
        self.wanted: int | None = None
        self.can_seek = hasattr(items, "seek") and hasattr(items, "tell")

    def mark(self) -> Any:
        """Return where the next chunk begins, if the stream can say."""
        if self.can_seek:
            try:
                return self.items.tell()  # type: ignore[attr-defined]
            except Exception:  # text files refuse while they are iterated
                self.can_seek = False
        return None

    def close(self) -> None:
        close = getattr(self.items, "close", None)
        if close is not None:
            try:
                close()
            except Exception:
                pass  # the chunks that it gave are good all the same


class OpenStreams:
    """The streams that one thread reads.

    Parameters
    ----------
    order : Order or None
        Where the streams are found by their number. None if keys bring them along.
    opener : Opener
    patience_ns : int
        How long to move a reopened stream on before returning None.
    """

    def __init__(self, order: Order | None, opener: Opener, patience_ns: int = sys.maxsize) -> None:
        self._order = order
        self._opener = opener
        self._patience_ns = patience_ns
        self._open: dict[int, _Open] = {}
        self._over: dict[int, int] = {}  # number of an ended stream, and of its chunks

    def read(self, key: Key) -> Found | None:
        """Return a chunk, or None if the stream is still being moved on to it: ask again.

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
        elif stream.wanted is not None and key.chunk > stream.wanted:
            return None
        stream.wanted = key.chunk
        while stream.position < key.chunk:
            self._draw(key, stream)
            if monotonic_ns() - begun > self._patience_ns:
                return None
        began = monotonic_ns()
        value = self._draw(key, stream)
        stream.wanted = None
        return Found(value, stream.mark(), monotonic_ns() - began)

    def _begin(self, key: Key) -> _Open:
        if key.chunk >= self._over.get(key.number, sys.maxsize):
            raise EndOfSequence("the stream has ended")
        try:
            item = key.item if self._order is None else self._order.item(key.number)
            stream = _Open(*self._opener.open(item, key))
        except BaseException as error:
            self._fail(key, key.chunk, error)
        self._open[key.number] = stream
        close_with_worker(self)
        return stream

    def _draw(self, key: Key, stream: _Open) -> Any:
        try:
            value = next(stream.items)
        except StopIteration:
            self._end(key.number, stream.position)
        except BaseException as error:
            self._fail(key, stream.position, error)
        else:
            stream.position += 1
            return value
        raise EndOfSequence("the stream has ended")

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


class _Local(threading.local):
    streams: OpenStreams | None = None


class Chunks(View[Any]):
    """The chunks of all streams by their keys: the pipeline of a worker.

    An item has the fields of `Found` in a plain tuple, or is None; see `OpenStreams.read`. Each thread has
    open streams of its own. So a thread that was given up, because it is stuck in a stream, shares none with
    the thread in its place.
    """

    def __init__(self, order: Order | None, opener: Opener, patience_ns: int) -> None:
        super().__init__((), UNKNOWN)
        self._order = order
        self._opener = opener
        self._patience_ns = patience_ns
        self._local = _Local()

    def _get(self, i: Any) -> Any:
        streams = self._local.streams
        if streams is None:
            streams = self._local.streams = OpenStreams(self._order, self._opener, self._patience_ns)
        found = streams.read(
            Key(*i) if type(i) is tuple else Key(i >> CHUNK_BITS, i & ((1 << CHUNK_BITS) - 1))
        )
        return None if found is None else tuple(found)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunks, (self._order, self._opener, self._patience_ns)
