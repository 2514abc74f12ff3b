"""The order of one consumer: which chunk to submit next, and which chunk to hand out next.

Guarantees
----------
- With order, chunks are handed out in plan order, each once, no matter in which order they complete.
  Without order, they are handed out as they complete.
- At most `limit` items are sent and not handed out, and never an index beyond the plan.
- The plan is drawn once, no further ahead than the limit. An exception of the plan ends it.

Relies on
---------
- `draw` is called by one thread at a time, without a lock. All other methods are called under the
  scheduler's lock.

This module does not depend on threads, clocks, processes or the content of items.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np

from ..core.indices import Cursor, as_list


class Chunk:
    """Successive indices of a plan that are evaluated together.

    Attributes
    ----------
    indices : range, array or list
    position : int
        The position of the first index in the plan.
    result : Result or None
        The result, None until it has arrived.
    sent : bool
        Whether a worker is expected to deliver the chunk.
    sent_before : bool
        Whether a worker was expected to deliver it before. Then the consumer may be waiting for it.
    deaths : int
        How many workers have died at its first item.
    fatal : bool
        Whether the item ended all workers that tried it.
    dropped : bool
        Whether no consumer waits for it any more.
    worker : int or None
        Number of the worker that delivered it.
    """

    __slots__ = (
        "deaths",
        "dropped",
        "indices",
        "position",
        "result",
        "sent",
        "sent_before",
        "worker",
    )

    def __init__(self, indices: Any, position: int = 0) -> None:
        self.indices = indices
        self.position = position
        self.result: Any = None
        self.sent = self.sent_before = False
        self.deaths = 0
        self.dropped = False
        self.worker: int | None = None

    # A Python method. Code that runs for every job calls `len(chunk.indices)`, which is faster.
    def __len__(self) -> int:
        return len(self.indices)

    def index(self, position: int) -> Any:
        """Return one of the indices, of an array as a Python number."""
        return as_list(self.indices[position : position + 1])[0]


class ChunkWindow:
    """The chunks of one consumer, from the next chunk to hand out to the last chunk drawn.

    Parameters
    ----------
    plan : iterable
        The indices to read, in order. Drawn once, lazily.
    limit : int
        Most items drawn and not yet handed out. 0 allows only the item that the consumer waits for.
    in_order : bool
        Whether to hand out in plan order, or in the order of arrival.
    cut : callable, optional
        Returns how many of some drawn indices to put into one chunk, at least 1.

    Attributes
    ----------
    failure : BaseException or None
        The exception that ended the plan, until the consumer raises it.
    has_failed : bool
        Whether the consumer raised it.
    is_drawn : bool
        Whether the plan has been drawn to its end.

    Examples
    --------
    >>> window = ChunkWindow("abc", limit=2)
    >>> window.add(window.draw(window.room(1, depth=2), 1))
    >>> first, second = window.next_to_send(1), window.next_to_send(1)
    >>> second.result = "B"; window.ready() is None
    True
    >>> first.result = "A"; window.ready() is first
    True
    """

    def __init__(
        self,
        plan: Iterable[Any],
        limit: int,
        in_order: bool = True,
        cut: Callable[[Any], int] | None = None,
    ) -> None:
        self._cursor = Cursor(plan)
        self._length = len(plan) if isinstance(plan, range | np.ndarray) else None
        self._cut = cut
        self._in_order = in_order
        self._chunks: deque[Chunk] = deque()
        # Chunks that are not sent. Those to send again lie before the new ones, which are the last.
        self._to_resend = 0
        self._unsent = 0
        self._items = 0
        self._drawn = 0  # the position of the next index of the plan
        self._has_ended = False
        self.is_drawn = False
        self.limit = limit
        self.failure: BaseException | None = None
        self.has_failed = False

    # ---------------------------------------------------------------- sending

    def room(self, size: int, depth: int, waiting: bool = False) -> int:
        """Return how many chunks of `size` items may be drawn, with at most `depth` chunks pending.

        A waiting consumer gets at least the item that it waits for, even above the limit.
        """
        if self.is_drawn:
            return 0
        items = (self.limit or int(waiting)) - self._items
        return max(0, min(depth - len(self._chunks), -(-items // size)))

    def draw(self, chunks: int, size: int) -> list[Chunk]:
        """Draw chunks of up to `size` items from the plan. This may run user code: hold no lock."""
        drawn: list[Chunk] = []
        items = max(self.limit, 1) - self._items
        try:
            while len(drawn) < chunks and items > 0:
                indices = self._cursor.take(min(size, items))
                if not len(indices):
                    self.is_drawn = True
                    break
                if self._cut is not None and len(indices) > 1:
                    count = self._cut(indices)
                    self._cursor.put_back(indices[count:])
                    indices = indices[:count]
                items -= len(indices)
                drawn.append(Chunk(indices, self._drawn))
                self._drawn += len(indices)
        except BaseException as error:
            self.failure, self.is_drawn = error, True
            if not isinstance(error, Exception):
                raise
        return drawn

    def left(self) -> int | None:
        """Return how many indices of the plan are not drawn, or None if that is unknown."""
        return None if self._length is None else self._length - self._drawn

    def add(self, drawn: list[Chunk]) -> None:
        """Append the drawn chunks, unless the sequence has ended since the draw."""
        if not self._has_ended:
            self._chunks.extend(drawn)
            self._unsent += len(drawn)
            for chunk in drawn:
                self._items += len(chunk.indices)

    def next_to_send(self, size: int, may_repeat: bool = True) -> Chunk | None:
        """Return the next chunk to evaluate, of up to `size` items, or None if all are sent.

        With `may_repeat`, the chunk may have been sent before.
        """
        if self._to_resend:
            if not may_repeat:
                return None
            at, chunk = next((at, chunk) for at, chunk in enumerate(self._chunks) if not chunk.sent)
        elif self._unsent:
            at = len(self._chunks) - self._unsent
            chunk = self._chunks[at]
        else:
            return None
        if len(chunk.indices) > size:
            self._split(at, chunk, size)
        self._count(chunk, -1)
        chunk.sent = True
        return chunk

    def _count(self, chunk: Chunk, change: int) -> None:
        if chunk.sent_before:
            self._to_resend += change
        else:
            self._unsent += change

    def _split(self, at: int, chunk: Chunk, size: int) -> Chunk:
        """Cut a chunk after its first `size` items. Return the rest, which is not sent."""
        rest = Chunk(chunk.indices[size:], chunk.position + size)
        rest.sent_before = chunk.sent or chunk.sent_before
        chunk.indices = chunk.indices[:size]
        self._chunks.insert(at + 1, rest)
        self._count(rest, 1)
        return rest

    def send_again(self, chunk: Chunk) -> None:
        """Let a chunk be sent again. Its job was not begun, or was lost."""
        if not chunk.dropped:
            chunk.sent, chunk.sent_before = False, True
            self._to_resend += 1

    def has_unsent(self) -> bool:
        """Return whether any chunk is not sent."""
        return self._to_resend > 0 or self._unsent > 0

    # ---------------------------------------------------------------- results

    def deliver(self, chunk: Chunk, result: Any, *, is_sent: bool = False) -> Chunk | None:
        """Store the result of a chunk's first items. Return the chunk of the other items, if there are any.

        `is_sent`: the job of the other items is still running.
        """
        count, rest = result.count, None
        if count < len(chunk.indices):
            rest = self._split(self._chunks.index(chunk), chunk, count)
            if is_sent:
                rest.sent = True
                self._to_resend -= 1
        chunk.result = result
        return rest

    def isolate(self, chunk: Chunk) -> None:
        """Cut a chunk after its first item, which its worker was evaluating."""
        if len(chunk) > 1:
            self._split(self._chunks.index(chunk), chunk, 1)

    def scatter(self, chunk: Chunk) -> None:
        """Cut a chunk into single items, and send each of them again by itself."""
        at = self._chunks.index(chunk)
        self.send_again(chunk)
        while len(chunk) > 1:
            chunk, at = self._split(at, chunk, 1), at + 1

    def end_at(self, chunk: Chunk, count: int) -> None:
        """End the sequence after the first `count` items of a chunk, and drop all later chunks.

        Without order, other chunks may lie before the end. Their own results show whether they do.
        """
        self.is_drawn = self._has_ended = True
        at = self._chunks.index(chunk)
        self._items -= len(chunk) - count
        chunk.indices = chunk.indices[:count]
        for after in list(self._chunks)[at + 1 :]:
            if self._in_order or not after.sent:
                self.drop(after)
        if count == 0:
            self.drop(chunk)

    def drop(self, chunk: Chunk) -> None:
        """Remove a chunk that is not wanted any more."""
        self._chunks.remove(chunk)
        self._items -= len(chunk)
        if not chunk.sent:
            self._count(chunk, -1)
        chunk.dropped = True
        if chunk.result is not None:
            chunk.result.discard()

    def ready(self) -> Chunk | None:
        """Return the chunk that can be handed out now, or None."""
        for chunk in self._chunks:
            if chunk.result is not None:
                return chunk
            if self._in_order:
                break
        return None

    def at(self, position: int) -> Chunk | None:
        """Return the chunk of a position of the plan, or None if it is not in the window."""
        at = bisect_right(self._chunks, position, key=attrgetter("position")) - 1
        chunk = self._chunks[at] if at >= 0 else None
        return chunk if chunk is not None and position - chunk.position < len(chunk.indices) else None

    def hand_out(self, chunk: Chunk) -> None:
        """Remove a ready chunk, which now belongs to the consumer."""
        if self._chunks[0] is chunk:
            self._chunks.popleft()
        else:
            self._chunks.remove(chunk)
        self._items -= len(chunk.indices)

    def pending(self) -> int:
        """Return how many chunks are drawn and not handed out."""
        return len(self._chunks)

    def pending_items(self) -> int:
        return self._items

    def ready_items(self) -> int:
        """Return how many items are finished and not handed out."""
        return sum(len(chunk.indices) for chunk in self._chunks if chunk.result is not None)

    def ended(self) -> bool:
        """Return whether all chunks have been handed out."""
        return self.is_drawn and not self._chunks

    def end(self) -> list[Chunk]:
        """Forget and return all chunks that have not been handed out."""
        left = list(self._chunks)
        self._chunks.clear()
        self._items = self._to_resend = self._unsent = 0
        self.is_drawn = self._has_ended = True
        for chunk in left:
            chunk.dropped = True
        return left
