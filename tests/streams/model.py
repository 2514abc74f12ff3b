"""What a `StreamLoader` must give, in plain Python: every stream is a list of its chunks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

import seqkit as sk

__all__ = ["KINDS", "batches", "numbers", "rows_of", "shown"]

# Where streams are read: number of workers and method.
KINDS = [(0, "process"), (1, "thread"), (2, "thread"), (1, "process"), (2, "process"), (5, "process")]

Row = tuple[int, int, int, Any, bool]  # lane, stream, chunk, value, is_padding


def numbers(length: int) -> Iterator[int]:
    """A stream of `length` chunks, each a different number."""
    for chunk in range(length):
        yield 1000 * length + chunk


def batches(
    streams: list[list[Any]],
    rows: int,
    padding: str,
    pad_value: Any = None,
    broken: Collection[int] = (),
) -> list[list[Row]]:
    """Return the rows of all batches. The streams in `broken` fail after their last chunk.

    A batch for which no stream is left to be read again is None, and the last one.
    """
    unread = list(range(len(streams)))
    lanes: list[list[int] | None] = [None] * rows  # the stream and the chunk that come next
    again = lanes[:]
    restarts = 0
    lost: set[int] = set()

    def ended(lane: list[int] | None) -> bool:
        if lane is None or lane[1] < len(streams[lane[0]]):
            return lane is None
        if lane[0] in broken:
            lost.add(lane[0])
        return True

    def taken(number: int, lane: list[int], is_padding: bool) -> Row:
        lane[1] += 1
        return number, lane[0], lane[1] - 1, streams[lane[0]][lane[1] - 1], is_padding

    result: list[Any] = []
    while True:
        batch: dict[int, Row] = {}
        for number, lane in enumerate(lanes):
            while ended(lane) and unread:
                lane = lanes[number] = [unread.pop(0), 0]
            if lane is not None and not ended(lane):
                batch[number] = taken(number, lane, False)
        if not batch or (padding == "stop" and len(batch) < rows):
            return result
        for number in sorted(set(range(rows)) - set(batch)):
            if padding == "value":
                batch[number] = number, -1, -1, pad_value, True
            elif padding == "restart":
                lane, tried = again[number], 0
                while ended(lane):
                    if len(lost) == len(streams) or tried > len(streams):
                        return [*result, None]
                    while restarts % len(streams) in lost:
                        restarts += 1
                    lane = again[number] = [restarts % len(streams), 0]
                    restarts += 1
                    tried += 1
                assert lane is not None
                batch[number] = taken(number, lane, True)
        result.append([batch[number] for number in sorted(batch)])


def rows_of(batch: sk.streams.StreamBatch) -> list[Row]:
    """Return the rows of a batch whose chunks are numbers."""
    columns = batch.lane, batch.stream, batch.chunk, np.asarray(batch.data), batch.is_padding
    return list(zip(*(column.tolist() for column in columns), strict=True))


def shown(loader: Iterable[sk.streams.StreamBatch]) -> list[list[Row]]:
    """Return the rows of all batches of an epoch, and check what follows from them."""
    found = []
    for batch in loader:
        assert (batch.is_first == (batch.chunk == 0)).all()
        found.append(rows_of(batch))
    return found
