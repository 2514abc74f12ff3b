"""How a node is read: by iterators, and by plain indexing, which works ahead while indices come in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import EndOfSequence, SlotsExhausted
from ..indices import Length, Unsized
from ..view import Progress
from .dispatcher import MAX_CHUNK, Reader, ReadsItself
from .results import Outcomes
from .window import Chunk

if TYPE_CHECKING:
    from .node import Prefetch

__all__ = ["Reading", "Scans"]

# So many items in a row of a sequence without a length may cost their workers. It may be a stream that does
# so for ever; with a length, it would end.
MOST_LOST = 8


class Reading:
    """What an iterator does, run by run: an error ends a run, and the next one goes on behind it.

    Where it stands is kept here and not in the runs, so that nothing is lost whoever draws from the iterator:
    a thread that finds another one in it is told by Python that the generator is executing.
    """

    def __init__(self, node: Prefetch[Any], reader: Reader, in_order: bool, may_never_end: bool) -> None:
        self._node = node
        self._reader = reader
        self._in_order = in_order
        self._may_never_end = may_never_end
        self._items: Iterator[Any] = iter(())  # of the chunk at hand
        self._is_last = False
        self._lost = 0  # how many items in a row have cost their workers
        self._is_at_item = False

    def is_at_item(self) -> bool:
        """Is what was raised last about an item, rather than the whole reading?"""
        return self._is_at_item

    def __call__(self, progress: Progress) -> Iterator[Any]:
        while True:
            yield from self._items
            self._items = iter(())
            self._is_at_item = False
            if self._is_last:
                break
            try:
                if self._lost == MOST_LOST and self._may_never_end:
                    self._give_up()
                arrived = self._reader.next()
                if arrived is not None:
                    self._take(*arrived)
            except (SlotsExhausted, ReadsItself):  # nothing is lost
                raise
            except BaseException:
                progress.done, self._is_at_item = True, False
                raise
            if arrived is None:
                break
            del arrived  # nothing here may keep the reader's arrays alive
        progress.done = True

    def _give_up(self) -> NoReturn:
        self._reader.close()
        raise RuntimeError(
            f"prefetch: {MOST_LOST} items in a row have cost their workers, and without a length nobody"
            " knows whether any are left; give the sequence one to read on"
        )

    def _take(self, chunk: Chunk, outcomes: Outcomes) -> None:
        values = outcomes.values
        self._is_at_item = True
        self._lost = self._lost + 1 if chunk.fatal else 0
        if len(values) < chunk.size:  # the sequence ends
            self._is_last = self._in_order
            self._reader.stop()  # out of order, what lies before may still come
        if outcomes.failures:
            self._items = map(partial(self._node._handed_over, chunk, outcomes), range(len(values)))
        elif len(values) == 1:
            self._items = map(list.pop, (values,))  # which lets go of it
        else:
            self._items = iter(values)


class _Scan:
    """A reader of plain indexing: works ahead for as long as indices come in order."""

    def __init__(self, reader: Reader, start: int) -> None:
        self.reader = reader
        self.next = start
        self._ahead = -1
        self._chunk = Chunk(())
        self._outcomes = Outcomes()
        self._position = 0

    def read(self, node: Prefetch[Any]) -> Any:
        """Return the next item, or raise its error."""
        if self._position >= len(self._outcomes.values):
            self._advance()
        position = self._position
        self._position += 1
        self.next += 1
        return node._handed_over(self._chunk, self._outcomes, position)

    def _advance(self) -> None:
        # Nothing is read ahead of the first item; then one, and twice as many with every further chunk.
        self._ahead = min(max(2 * self._ahead, self._ahead + 1), MAX_CHUNK)
        self.reader.limit(self._ahead)
        arrived = self.reader.next()
        if arrived is None or not arrived[1].values:
            raise EndOfSequence(f"the sequence ends before index {self.next}")
        self._chunk, self._outcomes = arrived
        self._position = 0


class Scans:
    """The scans of a node, the one read last at the end; few, since each may hold results.

    Without a lock, which a signal handler that reads the node, or a child forked meanwhile, would wait for in
    vain: a scan is whose who gets it out of the list.
    """

    MOST = 4

    def __init__(self) -> None:
        self._idle: list[_Scan] = []

    def read(self, node: Prefetch[Any], i: int) -> Any:
        scan = self._take(i) or _Scan(node._open(_from(i, node._n), 0), i)
        try:
            return scan.read(node)
        finally:
            if scan.next == i + 1:  # else a signal handler raised, and it may have lost its place
                self._keep(scan)

    def _keep(self, scan: _Scan) -> None:
        self._idle.append(scan)
        for old in self._idle[: -self.MOST]:
            if self._got(old):
                old.reader.close()

    def _take(self, i: int) -> _Scan | None:
        """Return the scan that stands before item `i`, for nobody else to use."""
        for scan in self._idle[:]:
            if scan.reader.ended():
                self._got(scan)
            elif scan.next == i and self._got(scan):
                if scan.next == i:  # still: somebody may have read it on, and brought it back
                    return scan
                self._keep(scan)
        return None

    def _got(self, scan: _Scan) -> bool:
        """Take a scan out of the list; say whether it was there."""
        try:
            self._idle.remove(scan)
            return True
        except ValueError:
            return False


def _from(start: int, n: Length) -> Iterable[int]:
    return count(start) if isinstance(n, Unsized) else range(start, n)
