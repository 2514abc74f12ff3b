"""Read a node: by iterators, and by plain indexing, which works ahead while indices come in order.

Nothing here needs the lock of the scheduler.

Guarantees
----------
- The plan, which may run user code, is drawn without a lock.
- An iterator goes on after the error of an item. It is over after Ctrl-C, and refuses each further read.

Relies on
---------
- A reader is used by one thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, Protocol

import numpy as np

from ..core.ahead import Ahead
from ..core.errors import EndOfSequence
from ..core.iteration import Progress
from ..core.lengths import Length, Unsized
from ..core.tracebacks import hide_frames
from .chunking import MAX_CHUNK
from .culprits import Unpicklable
from .protocol import Consumer, LowerPlan, PrefetchError
from .results import Outcomes
from .scheduler import ReadsItself, Scheduler
from .window import Chunk, ChunkWindow

# How many items that were computed ahead and passed over plain indexing keeps.
MOST_KEPT = 64


class Reader:
    """Reads a plan as one consumer of a node. When it is dropped, the consumer's pending items are cancelled.

    It submits no job before its first `next` or `prepare`. `limit` is the most items that are pending.
    `timeout_s` is the time limit of its items if the node has none.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        plan: Iterable[Any],
        epoch: Any,
        limit: int | None = None,
        in_order: bool = True,
        stage: LowerPlan | None = None,
        cut: Callable[[Any], int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        window = ChunkWindow(
            plan, scheduler.limit(limit), in_order, None if scheduler.chunking.fixed else cut
        )
        self.consumer = Consumer(window, epoch, stage, scheduler.limit_s(timeout_s))
        self._scheduler = scheduler
        self.ahead: Ahead | None = None
        scheduler.watch(self, self.consumer)

    def next(self) -> list[Chunk]:
        """Return the next chunks, with results to open. The list is empty at the end of the plan."""
        if self._scheduler.is_copy():  # the workers belong to the parent, and the lock may stay held
            raise PrefetchError("prefetch: this iterator was begun before a fork; begin another one")
        chunks, draws = self._scheduler.next(self.consumer, [])
        while draws and not chunks:
            chunks, draws = self._scheduler.next(self.consumer, self._draw(draws))
        self._fill(draws)
        return chunks

    def prepare(self) -> None:
        """Submit as many jobs as possible, without waiting."""
        if self.consumer.stage is not None:
            self.consumer.stage.prepare()
        self._fill(self._scheduler.send(self.consumer, []))

    def limit(self, items: int) -> None:
        """Change how many items may be pending, up to the node's own limit."""
        self.consumer.window.limit = self._scheduler.limit(items)

    def pending(self) -> int:
        """Return how many items are pending."""
        return self.consumer.window.pending_items()

    def knows_end(self) -> bool:
        """Return whether the end of the plan, or of the sequence, is known."""
        return self.consumer.window.is_drawn

    def plan_has_failed(self) -> bool:
        """Return whether the plan ended with an exception, which was raised."""
        return self.consumer.window.has_failed

    def close(self) -> None:
        """Cancel pending items. Dropping the reader has the same effect."""
        self._scheduler.drop(self.consumer)

    def ended(self) -> bool:
        """Return whether the node cannot be read any more: it is closed, or a copy in a forked child."""
        return self._scheduler.ended()

    def _fill(self, draws: int) -> None:
        """Draw chunks and submit them. Repeat while there is room."""
        while draws:
            draws = self._scheduler.send(self.consumer, self._draw(draws))

    def _draw(self, chunks: int) -> list[Chunk]:
        window = self.consumer.window
        return self._asked(window.draw(chunks, self._scheduler.chunking.size_near_end(window.left())))

    def _asked(self, drawn: list[Chunk]) -> list[Chunk]:
        """Return drawn chunks after asking the system for the bytes that they are read from."""
        if self.ahead is not None:
            for chunk in drawn:
                self.ahead.reach(chunk.position + len(chunk.indices) - 1, chunk.indices)
        return drawn


def opened(chunk: Chunk) -> Outcomes:
    """Return the outcomes of a chunk that was handed out. From then on only they refer to its memory."""
    result, chunk.result = chunk.result, None
    outcomes: Outcomes = result.open()
    return outcomes


class Readable(Protocol):
    """The node that is read."""

    _n: Length

    def open(self, plan: Iterable[Any], limit: int | None = None, in_order: bool = True) -> Reader:
        """Return a reader of a plan."""

    def hand_over(self, chunk: Chunk, outcomes: Outcomes, position: int) -> Any:
        """Return an item of a chunk, or raise its error."""


class Reading:
    """The work of an iterator, in runs. An error of an item ends a run; the next run continues after it.

    The position is kept here and not in the runs. So no item is lost if several threads draw from the
    iterator. After Ctrl-C, or another exception that a signal handler or a warning filter raises, it has no
    reader any more, and each further read is refused.
    """

    def __init__(self, node: Readable, reader: Reader, plan: Any) -> None:
        self._node = node
        self._reader: Reader | None = reader
        self._plan_cannot_fail = isinstance(plan, range | np.ndarray)
        self._chunks: deque[Chunk] = deque()
        self._items: Iterator[Any] = iter(())  # of the current chunk
        self._is_at_item = False

    def is_at_item(self) -> bool:
        """Return whether the last exception is about an item, not about the iteration."""
        return self._is_at_item

    def __call__(self, progress: Progress) -> Iterator[Any]:
        try:
            while True:
                yield from self._items
                self._items = iter(())
                self._is_at_item = False
                if not self._chunks:
                    self._chunks.extend(self._next())
                if not self._chunks:
                    break
                self._begin(self._chunks.popleft())
        except GeneratorExit:
            raise
        except BaseException as error:
            if not self._can_go_on(error):
                progress.done = self._is_told(error)
                if not progress.done:
                    self._end()
            hide_frames(error)
            raise
        progress.done = True

    def _next(self) -> list[Chunk]:
        if self._reader is None:
            raise PrefetchError(
                "prefetch: this iterator ended when Ctrl-C, or another exception of a signal handler,"
                " interrupted it; begin a new one"
            )
        return self._reader.next()

    def _can_go_on(self, error: BaseException) -> bool:
        """Return whether an error is that of an item, or was raised before anything changed."""
        if self._is_at_item:
            return isinstance(error, Exception) and isinstance(self._items, _Items) and self._items.is_failed
        return isinstance(error, MemoryError | ReadsItself)

    def _is_told(self, error: BaseException) -> bool:
        """Return whether an error says why the iteration ends. Any other error interrupted it."""
        if self._reader is None or not isinstance(error, Exception):
            return False
        if self._reader.plan_has_failed():
            return not self._plan_cannot_fail
        return isinstance(error, PrefetchError | Unpicklable)

    def _end(self) -> None:
        self._reader = None
        self._chunks.clear()
        self._items = iter(())
        self._is_at_item = False

    def _begin(self, chunk: Chunk) -> None:
        """Open a chunk and prepare its items."""
        outcomes = opened(chunk)
        values = outcomes.values
        if outcomes.failures:
            self._items = _Items(self._node, chunk, outcomes)
        elif len(values) == 1:
            self._items = map(list.pop, (values,))  # keeps no reference to the item
        else:
            self._items = iter(values)
        self._is_at_item = True


class _Items(Iterator[Any]):
    """The items of a chunk of which some failed."""

    def __init__(self, node: Readable, chunk: Chunk, outcomes: Outcomes) -> None:
        self._node = node
        self._chunk = chunk
        self._outcomes = outcomes
        self._position = 0
        self.is_failed = False  # whether the last item failed

    def __next__(self) -> Any:
        position = self._position
        if position == len(self._outcomes.values):
            raise StopIteration
        self._position += 1
        self.is_failed = position in self._outcomes.failures
        try:
            return self._node.hand_over(self._chunk, self._outcomes, position)
        except StopIteration as error:  # it would end the iteration silently
            raise RuntimeError("an item raised StopIteration") from error


class _Scan:
    """A reader for plain indexing. It works ahead while indices come in order."""

    def __init__(self, reader: Reader, start: int) -> None:
        self.reader = reader
        self.next = start
        self.is_sound = True  # False after an interruption in the middle of a step
        self._ahead = -1
        self._chunks: deque[Chunk] = deque()
        self._items: deque[tuple[Chunk, Outcomes, int]] = deque()  # remaining items of the current chunk
        self._kept: dict[int, tuple[Chunk, Outcomes, int]] = {}  # items that were passed over, by index

    def covers(self, i: int) -> bool:
        """Return whether item `i` is the next item, is kept, or is pending."""
        if i == self.next or i in self._kept:
            return True
        there = len(self._items) + sum(map(len, self._chunks)) + self.reader.pending()
        return self.next < i < self.next + there

    def read(self, node: Readable, i: int) -> Any:
        """Return an item that the scan covers, or raise its error."""
        self.is_sound = False
        is_next = i == self.next
        while self.next <= i:
            if not self._items:
                self._advance(is_next)
            self._kept[self.next] = self._items.popleft()
            self.next += 1
        item = self._kept.pop(i)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self.is_sound = True
        return node.hand_over(*item)

    def _advance(self, is_next: bool) -> None:
        """Take the next chunk. The first read has nothing ahead; later reads have one, two, four …
        items."""
        if not self._chunks:
            if is_next:
                self._ahead = min(max(2 * self._ahead, self._ahead + 1), MAX_CHUNK)
            self.reader.limit(self._ahead)
            self._chunks.extend(self.reader.next())
        if not self._chunks:
            raise EndOfSequence(f"the sequence ends before index {self.next}")
        chunk = self._chunks.popleft()
        outcomes = opened(chunk)
        self._items.extend((chunk, outcomes, position) for position in range(len(outcomes.values)))


class Scans:
    """The scans of a node, the most recently used scan last. They are few, because each may hold results.

    Lock-free: the thread that removes a scan from the list owns it. With a lock, a child that is forked
    while another thread holds the lock could never acquire it.
    """

    MOST = 4

    def __init__(self) -> None:
        self._idle: list[_Scan] = []

    def read(self, node: Readable, i: int) -> Any:
        scan = self._take(i) or _Scan(node.open(_from(i, node._n), 0), i)
        try:
            return scan.read(node, i)
        finally:
            if scan.is_sound:
                self._keep(scan)

    def _keep(self, scan: _Scan) -> None:
        self._idle.append(scan)
        for old in self._idle[: -self.MOST]:
            if self._got(old):
                old.reader.close()

    def _take(self, i: int) -> _Scan | None:
        """Return a scan that covers item `i`, and remove it from the list, or return None."""
        for scan in self._idle[:]:
            if scan.reader.ended():
                self._got(scan)
            elif scan.covers(i) and self._got(scan):
                if scan.covers(i):  # check again: another thread may have read on and returned the scan
                    return scan
                self._keep(scan)
        return None

    def _got(self, scan: _Scan) -> bool:
        """Remove a scan from the list. Return whether it was there."""
        try:
            self._idle.remove(scan)
            return True
        except ValueError:
            return False


def _from(start: int, n: Length) -> Iterable[int]:
    return count(start) if isinstance(n, Unsized) else range(start, n)
