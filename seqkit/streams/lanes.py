"""Which chunk is in which row of which batch.

Batches advance in lock step. In every batch the rows are filled in order. A lane whose stream has ended
takes the next unread stream at once, in the same batch. So the assignment follows from the data alone, and
is the same wherever streams are read.

Guarantees
----------
- Every chunk of every stream is in one row of one batch, in order, or the stream is named by an error.
- An exception, Ctrl-C included, loses no chunk: the next call goes on with the row that it came up in.
  The state is the `row` and the `stream` of each lane, and each changes by one assignment.
- No batch consists of padding only, unless `Ends.batches` says how many batches there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..core.errors import EvaluationError
from .chunks import Key
from .order import Order
from .workers import Here, StreamFailed, StreamInUse, Workers

__all__ = ["Ends", "Lanes", "NoChunk", "Padding", "Row", "Where", "count_batches"]

Padding = str  # one of PADDING
PADDING = ("value", "restart", "drop_rows", "stop")
Where: TypeAlias = Here | Workers  # where streams are read


class NoChunk(RuntimeError):
    """Padding cannot be made, in this batch and in all later ones."""


class Row(NamedTuple):
    """A row of a batch. A row of the padding value has no stream: its number and id are -1."""

    batch: int
    lane: int
    number: int
    id: int
    chunk: int
    is_padding: bool
    value: Any
    key: Key | None  # how to read this chunk again


@dataclass(frozen=True)
class Ends:
    """The rules for the time when streams have run out.

    Parameters
    ----------
    padding : "value", "restart", "drop_rows" or "stop"
    batches : int or None
        How many batches there are, if that does not follow from the streams.
    lengths : list of int or None
        How many chunks the stream with each id has, if that is known.
    """

    padding: Padding
    batches: int | None = None
    lengths: list[int] | None = None


class _Lane:
    """One row of all batches: the stream that it reads, and the row that it read last."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stream: StreamInUse | None = None
        self.row: Row | None = None

    def next_key(self) -> Key:
        """Return the chunk to read next."""
        stream, row = self.stream, self.row
        assert stream is not None
        if row is None or row.number != stream.number or row.key is None:
            return stream.start
        return row.key._replace(chunk=row.chunk + 1)

    def has(self, batch: int) -> bool:
        return self.row is not None and self.row.batch == batch

    def needs_stream(self) -> bool:
        return self.stream is None or self.stream.is_over


class Lanes:
    """The lanes of one epoch.

    Parameters
    ----------
    order : Order
    where : Where
    rows : int
        How many lanes.
    ends : Ends
    ahead : int
        Most unread streams to open ahead.
    failed : callable
        Called with the `StreamFailed` of a chunk; raises, or returns to go on without the stream.
    """

    def __init__(
        self,
        order: Order,
        where: Where,
        rows: int,
        ends: Ends,
        ahead: int,
        failed: Callable[[StreamFailed, StreamInUse, int], None],
    ) -> None:
        self._order = order
        self._where = where
        self._ends = ends
        self._failed = failed
        self._most_ahead = ahead
        self._lanes = [_Lane(number) for number in range(rows)]
        self._ahead: dict[int, StreamInUse] = {}
        self._has_begun = False
        self.batch = 0
        self.lost: set[int] = set()  # ids of the streams that failed

    def read(self) -> list[Row] | None:
        """Return the rows of the next batch, or None after the last batch. Call `advance` once it is
        delivered."""
        ends, t = self._ends, self.batch
        if t == ends.batches:
            self._check_end()
            return None
        self._begin()
        for lane in self._lanes:
            self._fill(lane)
        full = [
            lane for lane in self._lanes if lane.has(t) and lane.row is not None and not lane.row.is_padding
        ]
        # If streams fail, rows that are dropped can run out before the number of batches is reached.
        if not full and (ends.batches is None or ends.padding == "drop_rows"):
            return None
        if ends.padding == "stop" and len(full) < len(self._lanes):
            return None
        if ends.padding == "restart":
            for lane in self._lanes:
                self._fill_again(lane)
        rows = [lane.row if lane.has(t) else self._empty(lane) for lane in self._lanes]
        return [row for row in rows if row is not None]

    def advance(self) -> None:
        """Go on to the next batch. Open a stream for each one that a worker has read to its end.

        This is as early as the worker has time for it. Earlier, it would not be known which worker has.
        """
        self.batch += 1
        self._open_ahead(self._where.ends(self.batch)[: self._most_ahead])

    # ---------------------------------------------------------------- streams

    def _begin(self) -> None:
        """Begin to read the streams of all lanes side by side."""
        if self._has_begun:
            return
        needed = []
        for lane in self._lanes:
            if lane.stream is None or lane.stream.is_over:
                needed.append(self.batch)
            elif not lane.has(self.batch):
                self._where.begin(lane.stream, lane.next_key(), self.batch, self.batch)
        self._open_ahead(needed)
        self._has_begun = True

    def _next_number(self) -> int:
        """Return the number of the next unread stream. The latest one that was handed over is still known."""
        return 1 + max([lane.stream.number for lane in self._lanes if lane.stream is not None], default=-1)

    def _open_ahead(self, needed: list[int]) -> None:
        """Open the next streams. `needed` has the batches in which lanes need them, in order."""
        for number, batch in enumerate(needed, self._next_number()):
            if number not in self._ahead:
                if not self._order.may_find(number):
                    break
                self._ahead[number] = self._opened(number)
            stream = self._ahead[number]
            self._where.begin(stream, stream.start, batch, self.batch)

    def _opened(self, number: int, is_padding: bool = False) -> StreamInUse:
        item, has_item = self._order.sent(number)
        return StreamInUse(Key(number, 0, item=item, has_item=has_item), self._order.id(number), is_padding)

    def _hand_over(self, lane: _Lane, *, again: bool) -> bool:
        """Give a lane the next unread stream, or the next one to read again. Return whether there is one."""
        number = self._next_number()
        if again:
            length = self._order.length
            assert length is not None
            first = max(number, length)
            sound = (
                later for later in range(first, first + length) if self._order.id(later) not in self.lost
            )
            number = next(sound, -1)
        if number < 0 or not (again or self._order.find(number)):
            return False
        lane.stream = self._ahead.get(number) or self._opened(number, again)
        self._ahead.pop(number, None)
        self._order.forget(number)
        return True

    # ---------------------------------------------------------------- rows

    def _fill(self, lane: _Lane) -> None:
        """Read the row of a lane for this batch, unless streams have run out."""
        while not lane.has(self.batch):
            if lane.needs_stream() and not self._hand_over(lane, again=False):
                return
            assert lane.stream is not None
            if lane.stream.is_padding:
                return
            self._read(lane)

    def _fill_again(self, lane: _Lane) -> None:
        """Read a row of padding: a chunk of a stream that is read again."""
        fruitless = 0
        while not lane.has(self.batch):
            if lane.needs_stream():
                if fruitless > (self._order.length or 0) or not self._hand_over(lane, again=True):
                    raise NoChunk("StreamLoader: padding='restart' finds no chunk in any stream")
                fruitless += 1
            self._read(lane)

    def _read(self, lane: _Lane) -> None:
        stream, key = lane.stream, lane.next_key()
        assert stream is not None
        try:
            found = self._where.read(stream, key)
        except StreamFailed as failure:
            self._lose(stream, key, failure)
            return
        if found is None:
            stream.is_over = True
            self._check_length(stream, key.chunk)
            return
        lane.row = Row(
            self.batch,
            lane.number,
            stream.number,
            stream.id,
            key.chunk,
            stream.is_padding,
            found.value,
            key,
        )

    def _lose(self, stream: StreamInUse, key: Key, failure: StreamFailed) -> None:
        """Go on without the rest of a stream, unless the failure is to be raised."""
        stream.is_over = True
        self.lost.add(stream.id)
        self._failed(failure, stream, key.chunk)

    def _empty(self, lane: _Lane) -> Row | None:
        if self._ends.padding == "drop_rows":
            return None
        return Row(self.batch, lane.number, -1, -1, -1, True, None, None)

    def first_chunk(self) -> Any:
        """Return the first chunk of any stream, also of other ranks. Rows of the padding value get its form.

        Streams that fail are passed over: the rank that reads them reports them.
        """
        for id_ in self._order.ids():
            try:
                item = self._order.stream(id_)
                stream = StreamInUse(
                    Key(-1 - id_, 0, item=item, has_item=True), id_
                )  # a lane may read it too
                found = self._where.read(stream, stream.start)
            except (StreamFailed, EvaluationError):
                continue
            if found is not None:
                stream.close()
                return found.value
        raise NoChunk(
            "StreamLoader: a batch would consist of padding only, and no stream has a chunk whose shape and"
            " type the padding could have"
        )

    # ---------------------------------------------------------------- known lengths

    def _check_length(self, stream: StreamInUse, chunks: int) -> None:
        if self._ends.lengths is not None and not stream.is_padding:
            told = self._ends.lengths[stream.id]
            if told != chunks:
                raise ValueError(
                    f"StreamLoader: stream {stream.id} has {chunks} chunks, but lengths says {told}."
                    " Correct lengths"
                )

    def _check_end(self) -> None:
        """Raise an error if streams go on after the number of batches that follows from their lengths."""
        if self._ends.lengths is None or self._ends.padding == "stop" or self.lost:
            return  # without the rest of a stream, others may be read in other batches
        for lane in self._lanes:
            stream = lane.stream
            if stream is None or stream.is_over or stream.is_padding:
                continue
            try:
                found = self._where.read(stream, lane.next_key())
            except StreamFailed as failure:
                self._lose(stream, lane.next_key(), failure)
                continue
            if found is not None:
                raise ValueError(
                    f"StreamLoader: stream {stream.id} is longer than lengths says. Correct lengths"
                )

    # ---------------------------------------------------------------- state

    def state(self) -> list[list[Any]]:
        """Return where each lane reads on: number, chunk, and whether the stream is padding.

        Chunk -1 says that the stream is over, number -1 that there was none.
        """
        return [self._lane_state(lane) for lane in self._lanes]

    def _lane_state(self, lane: _Lane) -> list[Any]:
        stream, row = lane.stream, lane.row
        if row is not None and row.batch == self.batch and row.key is not None:  # it was not delivered
            key, is_padding = row.key, row.is_padding
        elif stream is None:
            return [-1, -1, False]
        else:
            key, is_padding = lane.next_key(), stream.is_padding
            if stream.is_over:
                return [stream.number, -1, is_padding]
        return [key.number, key.chunk, is_padding]

    def restore(self, batch: int, state: list[list[Any]], lost: list[int]) -> None:
        """Go on from a state."""
        self.batch = batch
        self.lost.update(lost)
        for lane in sorted(self._lanes, key=lambda lane: state[lane.number][0]):
            number, chunk, is_padding = state[lane.number]
            if number < 0:
                continue
            if not self._order.find(number) and not is_padding:
                raise ValueError(
                    f"StreamLoader: the state speaks of stream number {number}, which does not exist"
                )
            stream = self._opened(number, is_padding)
            stream.start = stream.start._replace(chunk=chunk)
            stream.is_over = chunk < 0
            lane.stream = stream
            self._order.forget(number)


def count_batches(lengths: Iterable[int], rows: int, padding: Padding) -> int:
    """Return how many batches streams with these numbers of chunks give, in their order.

    >>> count_batches([3, 1, 0, 2], 2, "value"), count_batches([3, 1, 0, 2], 2, "stop")
    (3, 3)
    >>> count_batches([5, 1], 2, "value"), count_batches([5, 1], 2, "stop")
    (5, 1)
    """
    ends = [(0, row) for row in range(rows)]  # the batch in which each row needs a stream
    for chunks in lengths:
        if chunks:
            batch, row = ends[0]
            heapq.heapreplace(ends, (batch + chunks, row))
    return ends[0][0] if padding == "stop" else max(ends)[0]
