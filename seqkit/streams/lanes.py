"""Which chunk is in which row of which batch.

Batches advance in lock step. In every batch the rows are filled in order. A lane whose stream has ended
takes the next unread stream at once, in the same batch. So the assignment follows from the data alone, and
is the same wherever streams are read.

Guarantees
----------
- Every chunk of every stream is in one row of one batch, in order, or the stream is named by an error.
- An exception, Ctrl-C included, loses no chunk: the next call goes on with the row that it came up in.
  The state is the `row` and the `stream` of each lane, and each changes by one assignment.
- No batch consists of padding only, unless `EndRules.batches` says how many batches there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.errors import EvaluationError
from .order import Listed
from .reading import InConsumer, InWorkers, Stream, StreamFailed

__all__ = ["PADDING", "EndRules", "Lanes", "NoChunk", "Padding", "Row", "count_batches"]

Padding = str  # one of PADDING
PADDING = ("value", "restart", "drop_rows", "stop")


class NoChunk(RuntimeError):
    """Padding cannot be made, in this batch and in all later ones."""


class Row(NamedTuple):
    """A row of a batch. A row of the padding value has no stream."""

    batch: int
    lane: int
    stream: Stream | None
    chunk: int
    is_padding: bool
    value: Any


@dataclass(frozen=True)
class EndRules:
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
        self.stream: Stream | None = None
        self.row: Row | None = None

    def next_chunk(self) -> int:
        """Return the number of the chunk to read next."""
        assert self.stream is not None
        if self.row is None or self.row.stream is not self.stream:
            return self.stream.start
        return self.row.chunk + 1

    def state(self, batch: int) -> list[Any]:
        row, stream = self.row, self.stream
        if row is not None and row.batch == batch and row.stream is not None:  # it was not delivered
            return [row.stream.number, row.chunk, row.is_padding]
        if stream is None:
            return [-1, -1, False]
        return [stream.number, -1 if stream.is_over else self.next_chunk(), stream.is_padding]


class Lanes:
    """The lanes of one epoch.

    Parameters
    ----------
    order : Listed or Drawn
    where : InConsumer or InWorkers
    rows : int
        How many lanes.
    ends : EndRules
    failed : callable
        Called with the `StreamFailed` of a chunk; raises, or returns to go on without the stream.
    """

    def __init__(
        self,
        order: Listed,
        where: InConsumer,
        rows: int,
        ends: EndRules,
        failed: Callable[[StreamFailed, Stream, int], None],
    ) -> None:
        self._order = order
        self._where = where
        self._ends = ends
        self._failed = failed
        self._lanes = [_Lane(number) for number in range(rows)]
        self._ahead: dict[int, Stream] = {}
        self._has_begun = False
        self.is_over = False
        self.batch = 0
        self.lost: set[int] = set()  # ids of the streams that failed

    def read(self) -> list[Row] | None:
        """Return the rows of the next batch, or None after the last one. Then count `batch` up."""
        ends, t = self._ends, self.batch
        if t == ends.batches and (ends.lengths is None or ends.padding == "stop"):
            return None
        self._read_ahead()
        rows = [self._fill(lane) for lane in self._lanes]
        full = [row for row in rows if row is not None and not row.is_padding]
        if t == ends.batches:
            if full:
                raise ValueError("StreamLoader: a stream is longer than lengths says. Correct lengths")
            return None
        # If streams fail, rows that are dropped can run out before the number of batches is reached.
        if not full and (ends.batches is None or ends.padding == "drop_rows"):
            return None
        if ends.padding == "stop" and len(full) < len(self._lanes):
            return None
        if ends.padding == "drop_rows":
            return full
        fill = self._fill_again if ends.padding == "restart" else self._empty
        return [row or fill(lane) for row, lane in zip(rows, self._lanes, strict=True)]

    def interrupt(self) -> None:
        """Open all streams again, after an exception that is not about a stream."""
        self._where.interrupt()
        self._has_begun = False

    # ---------------------------------------------------------------- streams

    def _read_ahead(self) -> None:
        """Let workers begin to read the streams of all lanes side by side, and the next ones.

        A stream is opened ahead when a worker has read another one to its end.
        """
        where = self._where
        if not isinstance(where, InWorkers):
            return
        needed = where.ending()
        if not self._has_begun:
            for lane in self._lanes:
                if lane.stream is not None and not lane.stream.is_over:
                    where.begin(lane.stream, lane.next_chunk())
            needed = sum(lane.stream is None or lane.stream.is_over for lane in self._lanes)
            self._has_begun = True
        first = self._next_number()
        for number in range(first, first + min(needed, len(self._lanes))):
            if number not in self._ahead:
                if not self._order.has(number, is_needed=False):
                    break
                self._ahead[number] = self._stream(number)
            where.begin(self._ahead[number], 0)

    def _next_number(self) -> int:
        """Return the number of the next unread stream. The latest one that was handed over is still known."""
        return 1 + max([lane.stream.number for lane in self._lanes if lane.stream is not None], default=-1)

    def _stream(self, number: int, start: int = 0, is_padding: bool = False) -> Stream:
        return Stream(number, self._order.id(number), self._order.sent(number), start, is_padding)

    def _fill(self, lane: _Lane) -> Row | None:
        """Return the row of a lane for this batch, or None if streams have run out."""
        while (row := lane.row) is None or row.batch != self.batch:
            stream = lane.stream
            if stream is None or stream.is_over:
                number = self._next_number()
                if not self._order.has(number):
                    return None
                lane.stream = stream = self._ahead.get(number) or self._stream(number)
                self._ahead.pop(number, None)
            if stream.is_padding:
                return None
            self._read(lane, stream)
        return row

    def _fill_again(self, lane: _Lane) -> Row:
        """Return a row of padding: a chunk of a stream that is read again."""
        length, tried = self._order.length or 0, 0
        while (row := lane.row) is None or row.batch != self.batch:
            stream = lane.stream
            if stream is None or stream.is_over:
                first = max(self._next_number(), length)
                again = [n for n in range(first, first + length) if self._order.id(n) not in self.lost]
                if not again or tried > length:
                    raise NoChunk(self._why_no_chunk())
                lane.stream = stream = self._stream(again[0], is_padding=True)
                tried += 1
            self._read(lane, stream)
        return row

    def _empty(self, lane: _Lane) -> Row:
        return Row(self.batch, lane.number, None, -1, True, None)

    def _why_no_chunk(self) -> str:
        if not self.lost:
            return "StreamLoader: padding='restart' finds no chunk in any stream"
        return (
            "StreamLoader: padding='restart' needs a stream to read again, but all streams that have chunks"
            f" failed ({len(self.lost)} of {self._order.length}). This rank makes no more batches in this"
            " epoch. Let the other ranks end it too, or they wait for this one; or use padding='value'"
        )

    def _read(self, lane: _Lane, stream: Stream) -> None:
        chunk = lane.next_chunk()
        try:
            found = self._where.read(stream, chunk)
        except StreamFailed as failure:
            stream.is_over = True
            self.lost.add(stream.id)
            self._failed(failure, stream, chunk)
            return
        if found is not None:
            lane.row = Row(self.batch, lane.number, stream, chunk, stream.is_padding, found[0])
            return
        stream.is_over = True
        lengths = self._ends.lengths
        if lengths is not None and lengths[stream.id] != chunk:
            raise ValueError(
                f"StreamLoader: stream {stream.id} has {chunk} chunks, but lengths says {lengths[stream.id]}."
                " Correct lengths"
            )

    def first_chunk(self) -> Any:
        """Return the first chunk of any stream, also of other ranks. Rows of the padding value get its form.

        Streams that fail are passed over: the rank that reads them reports them.
        """
        held = [lane.stream for lane in self._lanes if lane.stream is not None]
        again = (Stream(-1, id_, id_) for id_ in range(self._order.n))
        for stream in again if self._order.length is not None else held:
            try:
                found = self._where.read(other := Stream(-1, stream.id, stream.sent), 0)
            except (StreamFailed, EvaluationError):
                continue
            if found is not None:
                self._where.leave(other)
                return found[0]
        raise NoChunk(
            "StreamLoader: a batch would consist of padding only, and no stream has a chunk whose shape and"
            " type the padding could have"
        )

    # ---------------------------------------------------------------- state

    def state(self, epoch: int) -> dict[str, Any]:
        """Return which epoch and batch come next, and where each lane reads on.

        A lane is a list: number, chunk, and whether the stream is padding. Chunk -1 says that the stream is
        over, number -1 that there was none.
        """
        if self.is_over:
            return {"epoch": epoch + 1, "batch": 0, "lanes": None, "lost": []}
        lanes = [lane.state(self.batch) for lane in self._lanes]
        return {"epoch": epoch, "batch": self.batch, "lanes": lanes, "lost": sorted(self.lost)}

    def restore(self, batch: int, state: list[list[Any]], lost: list[int]) -> None:
        """Go on from a state."""
        self.batch = batch
        self.lost.update(lost)
        for lane in sorted(self._lanes, key=lambda lane: state[lane.number][0]):
            number, chunk, is_padding = state[lane.number]
            if number < 0:
                continue
            if not is_padding and not self._order.has(number):
                raise ValueError(
                    f"StreamLoader: the state speaks of stream number {number}, which does not exist"
                )
            lane.stream = self._stream(number, chunk, is_padding)
            lane.stream.is_over = chunk < 0


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
