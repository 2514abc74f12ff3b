"""What to ask next, and what to hand out next: the order of one reader.

Guarantees
----------
- chunks are handed out in plan order, each once, whatever order they complete in; or, where order does not
  matter, as they complete;
- never more than `limit` items are asked for and not handed out, never an index beyond the plan; what
  `back` takes back comes on top;
- the plan is drawn once, no further ahead than the limit; what it raises is its end.

Relies on
---------
- calls from one thread at a time (the dispatcher's lock).

Knows no threads, no clock, no processes, and nothing of what the items are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ..indices import Cursor, as_list

__all__ = ["Chunk", "Window"]


class Chunk:
    """Successive indices of a plan that are evaluated together.

    Attributes
    ----------
    indices : range, array or list
    size : int
        How many there are.
    parcel : Any
        What arrived, None until then.
    asked : bool
        Is a worker expected to deliver it?
    deaths : int
        How many workers have died over it, run alone.
    fatal : bool
        Did its item cost its workers their lives?
    worker : int or None
        Who delivered it.
    """

    __slots__ = ("asked", "deaths", "fatal", "indices", "parcel", "size", "worker")

    def __init__(self, indices: Any) -> None:
        self.indices = indices
        self.size = len(indices)
        self.parcel: Any = None
        self.asked = False
        self.deaths = 0
        self.fatal = False
        self.worker: int | None = None

    def __len__(self) -> int:
        return self.size

    def index(self, position: int) -> Any:
        """Return one of the indices, of an array as a Python number."""
        return as_list(self.indices[position : position + 1])[0]


class Window:
    """The chunks of one reader, from the next to hand out to the last one asked for.

    Parameters
    ----------
    plan : iterable
        The indices to read, in order; drawn once, lazily.
    limit : int
        Most items asked for and not yet handed out; 0: none but those the reader waits for.
    depth : int
        Most chunks drawn and not yet handed out; the pieces of lost ones come on top.
    in_order : bool
        Hand out in plan order, or what has arrived first?

    Attributes
    ----------
    failure : Exception or None
        What the plan raised where it ended.

    Examples
    --------
    >>> window = Window("abc", limit=2, depth=2)
    >>> first, second = window.ask(1), window.ask(1)
    >>> window.ask(1) is None
    True
    >>> second.parcel = "B"; window.ready() is None
    True
    >>> first.parcel = "A"; window.ready() is first
    True
    >>> window.hand_out(first).parcel, window.ask(5).indices
    ('A', ['c'])
    """

    def __init__(self, plan: Iterable[Any], limit: int, depth: int, in_order: bool = True) -> None:
        self._cursor = Cursor(plan)
        self._in_order = in_order
        self._chunks: deque[Chunk] = deque()
        self._items = 0
        self._lost = False
        self._drawn = False
        self.limit = limit
        self.depth = depth
        self.failure: Exception | None = None

    def ask(self, size: int, waiting: bool = False) -> Chunk | None:
        """Return the next chunk to evaluate, of up to `size` items; None where there is none for now.

        A reader that waits is owed at least the item it waits for, whatever the limit.
        """
        if self._lost:
            for chunk in self._chunks:
                if not chunk.asked:
                    chunk.asked = True
                    return chunk
            self._lost = False
        limit = self.limit or int(waiting)
        size = min(size, limit - self._items)
        if self._drawn or size < 1 or len(self._chunks) >= self.depth:
            return None
        try:
            chunk = Chunk(self._cursor.take(size))
        except Exception as error:
            chunk, self.failure = Chunk(()), error
        if not chunk.size:
            self._drawn = True
            return None
        chunk.asked = True
        self._chunks.append(chunk)
        self._items += chunk.size
        return chunk

    def stop(self) -> None:
        """Draw no further."""
        self._drawn = True

    def pending(self) -> int:
        """Return how many chunks are drawn and not handed out."""
        return len(self._chunks)

    def is_full(self) -> bool:
        """Is there nothing to ask for until a chunk is handed out or lost?"""
        return not self._lost and (self._drawn or len(self._chunks) >= self.depth)

    def has_lost(self) -> bool:
        """May there be chunks that nobody is asked for any more?"""
        return self._lost

    def ended(self) -> bool:
        """Has everything been handed out?"""
        return self._drawn and not self._chunks

    def ready(self) -> Chunk | None:
        """Return the chunk that can be handed out now, if there is one."""
        for chunk in self._chunks:
            if chunk.parcel is not None:
                return chunk
            if self._in_order:
                break
        return None

    def hand_out(self, chunk: Chunk) -> Chunk:
        """Give the reader a chunk that is ready."""
        self._chunks.remove(chunk)
        self._items -= chunk.size
        return chunk

    def skipped(self, chunk: Chunk) -> None:
        """A chunk was asked for and not begun: ask for it once more."""
        chunk.asked = False
        self._lost = True

    def again(self, chunk: Chunk) -> None:
        """Ask for a lost chunk once more: one of several items in single ones, which find the culprit."""
        self.skipped(chunk)
        if len(chunk) == 1:
            return
        at = self._chunks.index(chunk)
        del self._chunks[at]
        for offset in reversed(range(len(chunk))):
            self._chunks.insert(at, Chunk(chunk.indices[offset : offset + 1]))

    def back(self, chunk: Chunk) -> None:
        """Take a chunk that was handed out back to the front, to be asked for in single items."""
        self._chunks.appendleft(chunk)
        self._items += len(chunk)
        chunk.parcel = None
        self.again(chunk)

    def starving(self) -> bool:
        """Does the reader wait for a chunk that nobody has been asked for yet?"""
        if not self._chunks:
            return not self._drawn
        return not (self._chunks[0].asked if self._in_order else any(chunk.asked for chunk in self._chunks))

    def arrived(self) -> list[Chunk]:
        """Return the chunks that wait to be handed out, the last one first."""
        return [chunk for chunk in reversed(self._chunks) if chunk.parcel is not None]

    def end(self) -> list[Chunk]:
        """Forget everything that has not been handed out, and return it."""
        left = list(self._chunks)
        self._chunks.clear()
        self._items = 0
        self._drawn = True
        return left
