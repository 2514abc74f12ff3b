"""Read the chunks of streams: in the consumer's process, or ahead of it in workers.

A worker is a prefetch node with one worker, because a stream stays with its worker while it is open. Each
open stream is a consumer of its node, with a plan of its own that has no end. So the engine gives windows,
back-pressure, shared memory, time-outs and the end of the workers.

Guarantees
----------
- A stream is opened once, and once more after each event that took its pass away: its worker died or was
  replaced, or an exception that is not about a stream interrupted the consumer.
- A stream whose worker dies twice before it gives another chunk has failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from typing import Any

from ..core.errors import EndOfSequence, EvaluationError, WorkerDied, brief
from ..core.iteration import restarting
from ..engine.prefetch import Prefetch
from ..engine.reader import Reader, Reading
from .chunks import OPEN, Key, Opening, keys

__all__ = ["InConsumer", "InWorkers", "Stream", "StreamFailed"]

_passes = count()  # numbers of passes, unique in this process


class StreamFailed(Exception):
    """Carries the error of a chunk to the lanes. Other exceptions are not about a stream."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Stream:
    """A stream that is being read, or about to be.

    Attributes
    ----------
    number, id : int
        See `order`.
    sent : Any
        What a worker needs to open it.
    start : int
        The first chunk to read.
    is_padding : bool
        Whether its chunks are read again, to fill rows.
    is_over : bool
        Whether it has ended or failed.
    """

    def __init__(self, number: int, id_: int, sent: Any, start: int = 0, is_padding: bool = False) -> None:
        self.number = number
        self.id = id_
        self.sent = sent
        self.start = start
        self.is_padding = is_padding
        self.is_over = False
        self.pass_: int | None = None
        self.items: Iterator[Any] | None = None  # of the pass
        self.worker = -1
        self.reader: Reader | None = None
        self.reading: Reading | None = None
        self.deaths = 0  # of its worker, since it gave a chunk


class InConsumer:
    """Read streams in the consumer's thread.

    Parameters
    ----------
    opened : OpenStreams
    epoch, seed : int
        See `Opening`.
    name : callable
        Returns how errors name the stream with an id.
    """

    def __init__(self, opened: Any, epoch: int, seed: int, name: Callable[[int], str]) -> None:
        self._opened = opened
        self._of_epoch = epoch, seed
        self._name = name
        self._reading: set[Stream] = set()

    def read(self, stream: Stream, chunk: int) -> tuple[Any, ...] | None:
        """Return the next chunk of a stream in a tuple, or None if the stream has ended."""
        while True:
            if stream.items is None:
                self._open(stream, chunk)
            try:
                found = next(stream.items)  # type: ignore[arg-type] # it was just opened
            except (StopIteration, EndOfSequence):
                self.leave(stream)
                return None
            except BaseException as error:
                self._refuse(stream, chunk, error)
                continue
            if isinstance(found, int):
                self._follow(stream, keys(stream.pass_ or 0, found))
            elif found is None:
                self.leave(stream)
            elif found:
                stream.deaths = 0
                return found  # type: ignore[no-any-return]

    def _open(self, stream: Stream, chunk: int) -> None:
        opening = Opening(stream.sent, stream.number, chunk, *self._of_epoch, stream.pass_)
        stream.pass_ = next(_passes)
        self._reading.add(stream)
        if chunk:  # where the pass begins depends on what open_fn returns
            self._follow(stream, [(stream.pass_, OPEN, opening)])
        else:
            self._follow(stream, chain([(stream.pass_, 0, opening)], keys(stream.pass_, 1)))

    def _follow(self, stream: Stream, plan: Iterable[Key]) -> None:
        stream.items = map(self._opened.read, plan)

    def _refuse(self, stream: Stream, chunk: int, error: BaseException) -> None:
        """Raise an error, or return to read the chunk again."""
        if not isinstance(error, Exception):
            self.interrupt()
            raise error
        self.leave(stream)
        raise StreamFailed(_located(error, stream, chunk, self._name)) from None

    def leave(self, stream: Stream) -> None:
        """Stop reading a stream. It can be read on."""
        stream.items = None
        self._reading.discard(stream)

    def interrupt(self) -> None:
        """Open all streams again, after an exception that is not about a stream."""
        for stream in list(self._reading):
            self.leave(stream)

    def close(self) -> None:
        self._opened.close()

    def __del__(self) -> None:
        self.close()


class InWorkers(InConsumer):
    """Read streams ahead of the consumer, in nodes of one worker each.

    Parameters
    ----------
    nodes : list of Prefetch
    limit : int
        Most chunks ahead for each stream.
    released : callable
        Called once nothing is read any more.
    epoch, seed, name
        See `InConsumer`.
    """

    def __init__(
        self,
        nodes: list[Prefetch[Any]],
        limit: int,
        released: Callable[[InWorkers], None],
        epoch: int,
        seed: int,
        name: Callable[[int], str],
    ) -> None:
        super().__init__(None, epoch, seed, name)
        self._nodes = nodes
        self._limit = limit
        self._released = released

    def begin(self, stream: Stream, chunk: int) -> None:
        """Read a stream ahead, from a chunk on."""
        if stream.items is None:
            self._open(stream, chunk)

    def read(self, stream: Stream, chunk: int) -> tuple[Any, ...] | None:
        if stream.reader is not None:  # ask for several chunks at once, which costs less, but wait for few
            few = self._limit - self._limit // 4
            stream.reader.limit(self._limit if stream.reader.pending() <= few else few)
        return super().read(stream, chunk)

    def ending(self) -> int:
        """Return how many streams have ended in their workers."""
        return sum(stream.reader is not None and stream.reader.knows_end() for stream in self._reading)

    def _follow(self, stream: Stream, plan: Iterable[Key]) -> None:
        if stream.worker < 0:  # a stream keeps its worker. A new one gets the worker with the fewest streams
            streams = Counter(other.worker for other in self._reading if other is not stream)
            stream.worker = min(range(len(self._nodes)), key=streams.__getitem__)
        node = self._nodes[stream.worker]
        stream.reader = node.open(plan, self._limit)
        stream.reading = Reading(node, stream.reader, plan)
        stream.items = restarting(stream.reading)
        stream.reader.prepare()

    def _refuse(self, stream: Stream, chunk: int, error: BaseException) -> None:
        if not (isinstance(error, Exception) and stream.reading is not None and stream.reading.is_at_item()):
            self.interrupt()
            if isinstance(error, Exception):
                self._nodes[stream.worker].restart()
            raise error
        self.leave(stream)
        stream.deaths += isinstance(error, WorkerDied)
        if isinstance(error, WorkerDied) and stream.deaths < 2:
            return
        raise StreamFailed(_located(error, stream, chunk, self._name)) from None

    def leave(self, stream: Stream) -> None:
        super().leave(stream)
        reader, stream.reader, stream.reading = stream.reader, None, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        self.interrupt()
        self._released(self)


def _located(error: Exception, stream: Stream, chunk: int, name: Callable[[int], str]) -> Exception:
    """Return an error of a chunk that names the stream and the chunk."""
    if not isinstance(error, EvaluationError):
        return error
    who, key = f"chunk {chunk} of {name(stream.id)}", f"prefetch[{brief(error.index)}]"
    message = error.message
    if message.startswith(key):
        message = who + message.removeprefix(key)
    else:
        message = f"{who}{' ' if message.startswith('failed: ') else ': '}{message}"
    error.message = message
    error.index, error.view, error.path = (stream.id, chunk), None, ()
    return error
