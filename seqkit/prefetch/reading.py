"""Read a node: by iterators, and by plain indexing, which works ahead while indices come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from copy import copy
from itertools import count, islice, tee
from typing import Any, NoReturn, Protocol

import numpy as np

from ..core.errors import EndOfSequence
from ..core.indices import Length, Plan, Unsized
from ..core.iteration import Progress
from ..core.tracebacks import hide_frames
from .chunking import MAX_CHUNK
from .consumer import Reader
from .culprits import Unpicklable
from .dispatcher import ReadsItself
from .protocol import PrefetchError
from .results import Outcomes
from .window import Chunk

# Limit of successive items that end their workers, for a sequence without a length. Such a sequence may
# never end. With a length, it would.
MOST_LOST = 8
# How many items that were computed ahead and passed over plain indexing keeps.
MOST_KEPT = 64


class Node(Protocol):
    """The node that is read."""

    _n: Length

    def open(self, plan: Iterable[Any], limit: int | None = None, in_order: bool = True) -> Reader:
        """Return a reader of a plan."""

    def hand_over(self, chunk: Chunk, outcomes: Outcomes, position: int) -> Any:
        """Return an item of a chunk, or raise its error."""


class Reading:
    """The work of an iterator, in runs. An error ends a run, and the next run continues after the error.

    The position is kept here and not in the runs. So no item is lost if several threads draw from the
    iterator. After Ctrl-C, or another exception that a signal handler or a warning filter raises, the next
    run reads the `rest` of the plan, perhaps with new workers. If other sequences are read `in_step`, such an
    `Exception` costs one item, because they take it for the error of an item.
    """

    def __init__(
        self,
        node: Node,
        reader: Reader,
        may_never_end: bool = False,
        rest: Rest | None = None,
        in_step: bool = False,
    ) -> None:
        self._node = node
        self._reader: Reader | None = reader
        self._may_never_end = may_never_end
        self._rest = rest
        self._in_step = in_step
        self._chunks: deque[Chunk] = deque()
        self._items: Iterator[Any] = iter(())  # of the current chunk
        self._lost = 0  # number of successive items that ended their workers
        self._is_at_item = False

    def is_at_item(self) -> bool:
        """Return whether the last exception is about an item, not about the iteration."""
        return self._is_at_item

    def __call__(self, progress: Progress) -> Iterator[Any]:
        while True:
            try:
                yield from self._items
            except BaseException as error:
                hide_frames(error)
                raise
            self._items = iter(())
            self._is_at_item = False
            try:
                if not self._chunks:
                    self._chunks.extend(self._next())
                if not self._chunks:
                    break
                self._begin(self._chunks.popleft())
            except (MemoryError, ReadsItself) as error:
                hide_frames(error)
                raise
            except BaseException as error:
                progress.done = self._is_told(error)
                if not progress.done:
                    self._begin_again(error)
                hide_frames(error)
                raise
        progress.done = True

    def _is_told(self, error: BaseException) -> bool:
        """Return whether an error says why the iteration ends. Any other error interrupted it."""
        if not isinstance(error, Exception):
            return False
        if self._reader is not None and self._reader.plan_has_failed():
            return self._rest is None or not self._rest.cannot_fail()
        return isinstance(error, PrefetchError | Unpicklable)

    def _begin_again(self, error: BaseException) -> None:
        """Have the next run open a reader of the rest of the plan."""
        self._reader = None
        self._chunks.clear()
        self._is_at_item = False
        if self._in_step and isinstance(error, Exception) and self._rest is not None:
            self._rest = self._rest.after(1)

    def _next(self) -> list[Chunk]:
        if self._lost >= MOST_LOST and self._may_never_end:
            self._give_up()
        if self._reader is None:
            if self._rest is None:
                raise PrefetchError(
                    "prefetch: this iterator was interrupted, and with in_order=False it cannot go on;"
                    " begin another one"
                )
            self._reader = self._node.open(self._rest.plan())
        return self._reader.next()

    def _give_up(self) -> NoReturn:
        if self._reader is not None:
            self._reader.close()
        raise PrefetchError(
            f"prefetch: {MOST_LOST} items in a row have cost their workers, and without a length nobody knows"
            " whether the sequence goes on. Give it a length to read on"
        )

    def _begin(self, chunk: Chunk) -> None:
        """Open a chunk and prepare its items."""
        outcomes = opened(chunk)
        self._is_at_item = True
        self._lost = self._lost + 1 if chunk.fatal else 0
        values = outcomes.values
        items: Iterator[Any] = iter(values)
        if outcomes.failures:
            items = _Items(self._node, chunk, outcomes)
        elif len(values) == 1:
            items = map(list.pop, (values,))  # keeps no reference to the item
        rest = None if self._rest is None else self._rest.after(len(values))
        # In one line: a Ctrl-C in between would lose the chunk, or repeat it.
        self._items, self._rest = items, rest


class Rest:
    """A plan from some position on."""

    __slots__ = ("_plan", "_position")

    def __init__(self, plan: Any, position: int = 0) -> None:
        self._plan = plan
        self._position = position

    def after(self, count: int) -> Rest:
        """Return the rest after so many further indices."""
        return Rest(self._plan, self._position + count)

    def cannot_fail(self) -> bool:
        """Return whether the plan runs no user code, so that no error is its own."""
        return isinstance(self._plan, range | np.ndarray)

    def plan(self) -> Plan:
        plan, position = self._plan, self._position
        if isinstance(plan, range | np.ndarray):
            return plan[position:]
        return islice(iter(plan), position, None) if position else plan


class RestOfIterator(Rest):
    """The rest of a plan that can be drawn only once."""

    __slots__ = ()

    def __init__(self, plan: Iterator[Any], count: int = 0) -> None:
        super().__init__(tee(plan, 1)[0])
        deque(islice(self._plan, count), maxlen=0)

    def after(self, count: int) -> Rest:
        return RestOfIterator(copy(self._plan), count)

    def plan(self) -> Plan:
        return copy(self._plan)  # type: ignore[no-any-return]


class _Items(Iterator[Any]):
    """The items of a chunk of which some failed."""

    def __init__(self, node: Node, chunk: Chunk, outcomes: Outcomes) -> None:
        self._node = node
        self._chunk = chunk
        self._outcomes = outcomes
        self._position = 0

    def __next__(self) -> Any:
        position = self._position
        if position == len(self._outcomes.values):
            raise StopIteration
        self._position += 1
        try:
            return self._node.hand_over(self._chunk, self._outcomes, position)
        except StopIteration as error:  # it would end the iteration silently
            raise RuntimeError("an item raised StopIteration") from error
        except Exception:
            raise
        except BaseException:  # Ctrl-C: the item is handed out by the next call
            self._position = position
            raise


def opened(chunk: Chunk) -> Outcomes:
    """Return the outcomes of a chunk that was handed out. From then on only they refer to its memory."""
    result, chunk.result = chunk.result, None
    outcomes: Outcomes = result.open()
    return outcomes


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

    def read(self, node: Node, i: int) -> Any:
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

    def read(self, node: Node, i: int) -> Any:
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
