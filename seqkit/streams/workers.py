"""Where streams are read: in the consumer's process, or ahead of it by workers.

A worker is a prefetch node with one worker, because a stream stays with its worker while it is open. Each
open stream is a consumer of its node, with a plan of its own that has no end. So the engine gives windows,
back-pressure, shared memory, retries, time-outs and the end of the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..core.errors import EndOfSequence, EvaluationError, brief
from ..core.iteration import restarting
from ..engine.prefetch import Prefetch
from ..engine.reader import Reader, Reading
from ..engine.results import size_of
from .chunks import Found, Key, StreamsOfThread, keys

__all__ = ["Here", "ReadAhead", "StreamFailed", "StreamInUse", "Workers"]


class StreamFailed(Exception):
    """Carries the error of a chunk to the lanes. Other exceptions are not about a stream."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class StreamInUse:
    """A stream that is being read, or about to be.

    Attributes
    ----------
    number, id : int
        See `order`.
    start : Key
        The first chunk to read.
    is_padding : bool
        Whether its chunks are read again, to fill rows.
    is_over : bool
        Whether it has ended or failed.
    needed : int
        The batch in which its first chunk is needed, as far as known.
    """

    def __init__(self, start: Key, id_: int, is_padding: bool = False) -> None:
        self.number = start.number
        self.id = id_
        self.start = start
        self.is_padding = is_padding
        self.is_over = False
        self.cost_ns = 0.0
        self.worker = -1
        self.limit = 0
        self.needed = 0
        self.reader: Reader | None = None
        self.reading: Reading | None = None
        self.items: Iterator[Any] = iter(())

    def knows_end(self) -> bool:
        """Return whether a worker has seen the end of the stream."""
        return self.reader is not None and self.reader.knows_end()

    def refill(self) -> None:
        """Let chunks be asked for once a quarter of them is used up: several at once cost less than
        singly."""
        assert self.reader is not None
        few = self.limit - self.limit // 4
        self.reader.limit(self.limit if self.reader.pending() <= few else few)

    def close(self) -> None:
        """Stop reading ahead. The stream can be read on."""
        reader, self.reader, self.reading, self.items = self.reader, None, None, iter(())
        if reader is not None:
            reader.close()


class Here:
    """Read streams in the consumer's thread."""

    nodes: Sequence[Prefetch[Any]] = ()

    def __init__(self, streams: StreamsOfThread, name: Callable[[int], str]) -> None:
        self._streams = streams
        self._name = name

    def begin(self, stream: StreamInUse, key: Key, needed: int, batch: int) -> None:
        """Nothing is read ahead."""

    def read(self, stream: StreamInUse, key: Key) -> Found | None:
        """Return a chunk of a stream, or None if the stream has ended."""
        try:
            found = self._streams.read(key)
        except EndOfSequence:
            return None
        except Exception as error:
            raise StreamFailed(_located(error, stream, key.chunk, self._name, None)) from None
        assert found is not None  # its patience has no end
        return found

    def ends(self, batch: int) -> list[int]:
        return []

    def interrupt(self) -> None:
        """Go on after an exception that is not about a stream."""

    def close(self) -> None:
        self._streams.close()

    __del__ = close


@dataclass(frozen=True)
class ReadAhead:
    """How much is read ahead.

    Parameters
    ----------
    chunks : int
        Most chunks ahead for each stream.
    streams : int
        Most streams open ahead of need.
    stream_bytes : int
        Most bytes ahead for each stream. One chunk is always allowed.
    """

    chunks: int
    streams: int
    stream_bytes: int


class Workers:
    """Read streams ahead of the consumer in nodes of one worker each."""

    def __init__(self, nodes: list[Prefetch[Any]], limits: ReadAhead, name: Callable[[int], str]) -> None:
        self.nodes: Sequence[Prefetch[Any]] = nodes
        self._limits = limits
        self._name = name
        self._is_closed = False
        self._average_ns = 0.0  # cost of a chunk
        self._depth = 1  # how many chunks the streams in lanes are read ahead, at least
        self._placed: list[set[StreamInUse]] = [set() for _ in nodes]

    def begin(self, stream: StreamInUse, key: Key, needed: int, batch: int) -> None:
        """Read a stream ahead, up to the same batch as the streams in this batch.

        So a worker reads chunks in about the order in which they are needed, although its queue has no
        priorities.
        """
        stream.needed = needed
        limit = max(1, self._depth - (needed - batch))
        if stream.reader is None:
            self._open(stream, key, limit)
        elif limit >= stream.limit + max(1, self._depth // 4):
            stream.limit = limit
            stream.reader.limit(limit)
            stream.reader.prepare()

    def _open(self, stream: StreamInUse, key: Key, limit: int) -> None:
        """Open a stream on its worker, and read up to `limit` chunks ahead.

        A stream gets the worker with the least work, and keeps it.
        """
        if stream.worker < 0:
            stream.worker = min(range(len(self.nodes)), key=self._load)
        stream.limit = limit
        node = self.nodes[stream.worker]
        stream.reader = node.open(plan := keys(key), limit)
        stream.reading = Reading(node, stream.reader, plan)
        stream.items = restarting(stream.reading)
        self._placed[stream.worker].add(stream)
        stream.reader.prepare()

    def _load(self, worker: int) -> tuple[float, int]:
        """Return the time that one chunk of each stream of a worker takes, and how many streams it reads."""
        reading = [stream for stream in self._placed[worker] if not stream.knows_end()]
        return sum([stream.cost_ns or self._average_ns for stream in reading]), len(reading)

    def ends(self, batch: int) -> list[int]:
        """Return in which batches lanes need another stream, as far as workers have seen ends, in order."""
        streams = [stream for placed in self._placed for stream in placed]
        self._depth = min([stream.limit for stream in streams if stream.cost_ns], default=1)
        return sorted(
            [
                max(stream.needed, batch) + stream.reader.pending()
                for stream in streams
                if stream.reader is not None and stream.reader.knows_end()
            ]
        )

    def read(self, stream: StreamInUse, key: Key) -> Found | None:
        """Return a chunk of a stream, or None if the stream has ended."""
        while True:
            if stream.reader is None:
                self._open(stream, key, stream.limit or 1)
            stream.refill()
            try:
                item = next(stream.items)
            except StopIteration:
                self._leave(stream)
                return None
            except BaseException as error:
                self._refuse(error, stream, key)
            if item is not None:
                break
            self._leave(stream)  # the worker has not reached the chunk yet: ask for it again
        found = Found(*item)
        if not stream.cost_ns or not key.chunk & (key.chunk - 1):  # at chunks 0, 1, 2, 4, 8, …
            self._adapt(stream, found.value)
        stream.cost_ns += (found.cost_ns - stream.cost_ns) / min(key.chunk + 1, 8)
        self._average_ns += (found.cost_ns - self._average_ns) / (32 if self._average_ns else 1)
        return found

    def _adapt(self, stream: StreamInUse, value: Any) -> None:
        """Read as far ahead as the size of chunks allows."""
        limits, nbytes = self._limits, size_of(value) or 1
        stream.limit = max(1, min(limits.chunks, limits.stream_bytes // nbytes))

    def _refuse(self, error: BaseException, stream: StreamInUse, key: Key) -> NoReturn:
        try:
            if not (
                isinstance(error, Exception) and stream.reading is not None and stream.reading.is_at_item()
            ):
                self._recover(stream.worker, error)
                raise error
            worker = stream.worker
            self._leave(stream)
            raise StreamFailed(_located(error, stream, key.chunk, self._name, worker)) from None
        finally:
            del error  # or it and this frame would refer to each other

    def _recover(self, worker: int, error: BaseException) -> None:
        """Read on with new workers after an error of a node, not of a stream."""
        self.interrupt()
        if isinstance(error, Exception) and not self._is_closed:
            self.nodes[worker].restart()

    def _leave(self, stream: StreamInUse) -> None:
        self._placed[stream.worker].discard(stream)
        stream.close()

    def interrupt(self) -> None:
        """Read all streams anew, from the next chunk of each, after an exception that is not about a
        stream."""
        for placed in self._placed:
            for stream in list(placed):
                self._leave(stream)

    def close(self) -> None:
        self._is_closed = True
        for node in self.nodes:
            node.close()


def _located(
    error: Exception, stream: StreamInUse, chunk: int, name: Callable[[int], str], worker: int | None
) -> Exception:
    """Return an error of a chunk that names the stream and the chunk."""
    if not isinstance(error, EvaluationError):
        return error
    own, who = f"chunk {chunk}", f"chunk {chunk} of {name(stream.id)}"
    message = error.message
    for prefix in (f"prefetch[{brief(error.index)}]", own):
        if message.startswith(prefix):
            message = who + message.removeprefix(prefix)
            break
    error.message = message
    error.index, error.view, error.path = (stream.id, chunk), None, ()
    return error
