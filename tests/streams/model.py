"""What a `StreamLoader` must give, in plain Python: every stream is a list of its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


def batches(streams: list[list[Any]], rows: int, padding: str, pad_value: Any = None) -> list[list[Row]]:
    """Return the rows of all batches."""
    unread = list(enumerate(streams))
    reading: list[tuple[int, list[Any], int] | None] = [None] * rows
    again = reading[:]
    restarts = 0
    result: list[list[Row]] = []
    while True:
        batch: list[Row] = []
        for lane in range(rows):
            while True:
                at = reading[lane]
                if at is not None and at[2] < len(at[1]):
                    batch.append((lane, at[0], at[2], at[1][at[2]], False))
                    reading[lane] = (at[0], at[1], at[2] + 1)
                    break
                if not unread:
                    reading[lane] = None
                    break
                number, chunks = unread.pop(0)
                reading[lane] = (number, chunks, 0)
        if not batch or (padding == "stop" and len(batch) < rows):
            return result
        for lane in sorted(set(range(rows)) - {row[0] for row in batch}):
            if padding == "value":
                batch.append((lane, -1, -1, pad_value, True))
            elif padding == "restart":
                at = again[lane]
                while at is None or at[2] == len(at[1]):
                    number = restarts % len(streams)
                    restarts += 1
                    at = (number, streams[number], 0)
                batch.append((lane, at[0], at[2], at[1][at[2]], True))
                again[lane] = (at[0], at[1], at[2] + 1)
        result.append(sorted(batch))


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
