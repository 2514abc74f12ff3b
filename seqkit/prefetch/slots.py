"""The shared-memory pool: one anonymous segment, cut into slots that are leased to readers.

Guarantees
----------
- a slot is with one owner at a time: free, out with a job, leased to a reader, lent to a forked process,
  or retired;
- a leased slot comes back when the last array, sub-view or memoryview over it is gone, and not before;
- a late release cannot free a newer lease: every hand-over counts up the slot's generation;
- releasing is safe from any thread, in the garbage collector, at interpreter exit and after a fork,
  because it appends to a deque and does nothing else;
- nothing is ever visible in /dev/shm, and the memory is gone with the last process that maps it.

Relies on
---------
- `acquire`, `lease`, `release`, `retire` being called from one thread at a time (the dispatcher's lock).

Units: sizes and offsets in bytes.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum

import numpy as np

from .codec import Block

__all__ = ["PAGE", "Segment", "SlotPool", "State"]

PAGE = mmap.PAGESIZE


class Segment:
    """Anonymous memory shared with the processes that hold its descriptor.

    `memfd_create` memory is not bounded by the size of /dev/shm, and pages exist only where they were
    written, so a segment may be generously large.
    """

    def __init__(self, fd: int, size: int, *, private: bool = False) -> None:
        self.fd = fd
        self.size = size
        flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
        self._map = mmap.mmap(fd, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)

    @classmethod
    def create(cls, size: int, name: str = "seqkit") -> Segment:
        fd = os.memfd_create(name)
        try:
            os.ftruncate(fd, size)
            return cls(fd, size)
        except BaseException:
            os.close(fd)
            raise

    def block(self, offset: int, size: int) -> Block:
        """Return the bytes at an offset as an array; the mapping lives as long as it or its views do."""
        return np.frombuffer(self._map, np.uint8, size, offset)

    def close(self) -> None:
        """Give the descriptor back; blocks stay valid."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class State(Enum):
    """Who has a slot."""

    FREE = "free"
    OUT = "out"  # a worker may write into it, or its result waits to be handed out
    LEASED = "leased"  # a reader holds arrays over it
    LENT = "lent"  # its lease is back, but a process forked meanwhile may still see it
    RETIRED = "retired"  # a worker kept memory of it beyond the item


class SlotPool:
    """Which of `count` slots of `slot_bytes` each is with whom.

    Parameters
    ----------
    segment : Segment
    count, slot_bytes : int
    offset : int
        Where in the segment the first slot begins.

    Examples
    --------
    >>> pool = SlotPool(Segment.create(2 * PAGE), count=2, slot_bytes=PAGE)
    >>> slot = pool.acquire()
    >>> array = pool.lease(slot, 100)
    >>> pool.count(State.LEASED), pool.available()
    (1, 1)
    >>> del array
    >>> pool.available()
    2
    """

    def __init__(self, segment: Segment, count: int, slot_bytes: int, offset: int = 0) -> None:
        self.slot_bytes = slot_bytes
        self._segment = segment
        self._offset = offset
        self._states = [State.FREE] * count
        self._counts = Counter({State.FREE: count})
        self._generations = [0] * count
        # The slot that came back last is used first: its pages exist and are warm.
        self._free = list(range(count))[::-1]
        self._returned: deque[tuple[int, int]] = deque()
        self._leases: dict[tuple[int, int], weakref.ref[Block]] = {}
        self._loans: deque[tuple[list[int], Callable[[], bool]]] = deque()

    def available(self) -> int:
        """Return how many slots can be acquired now."""
        self._take_back()
        return len(self._free)

    def count(self, state: State) -> int:
        """Return how many slots are in a state."""
        self._take_back()
        return self._counts[state]

    def acquire(self) -> int | None:
        """Return a free slot for a job, or None."""
        self._take_back()
        if not self._free:
            return None
        slot = self._free.pop()
        self._become(slot, State.OUT)
        return slot

    def block(self, slot: int, size: int | None = None) -> Block:
        """Return the memory of a slot, or its first `size` bytes."""
        size = self.slot_bytes if size is None else size
        return self._segment.block(self._offset + slot * self.slot_bytes, size)

    def lease(self, slot: int, size: int) -> Block:
        """Return the first bytes of a slot; it comes back by itself when the array and its views are gone."""
        self._expect(slot, State.OUT)
        self._become(slot, State.LEASED)
        block, lease = self.block(slot, size), (slot, self._generations[slot])
        returned = self._returned
        self._leases[lease] = weakref.ref(block, lambda _: returned.append(lease))
        return block

    def has_leases(self) -> bool:
        """Is any slot leased? From any thread."""
        return self._counts[State.LEASED] > 0

    def lend(self, is_over: Callable[[], bool]) -> None:
        """Use no slot again that is leased now until `is_over()`; from any thread."""
        leased = [slot for slot, state in enumerate(self._states) if state is State.LEASED]
        self._loans.append((leased, is_over))

    def release(self, slot: int) -> None:
        """Take back a slot that no reader holds."""
        self._expect(slot, State.OUT)
        self._reuse(slot)

    def retire(self, slot: int) -> None:
        """Set a slot aside: somebody still has memory of it."""
        self._expect(slot, State.OUT)
        self._become(slot, State.RETIRED)

    def restore(self, slot: int) -> None:
        """Take back a retired slot."""
        self._expect(slot, State.RETIRED)
        self._reuse(slot)

    def retired(self) -> list[int]:
        """Return the slots that are set aside."""
        if not self._counts[State.RETIRED]:
            return []
        return [slot for slot, state in enumerate(self._states) if state is State.RETIRED]

    def _take_back(self) -> None:
        while self._returned:
            slot, generation = lease = self._returned.popleft()
            self._leases.pop(lease, None)
            if self._generations[slot] == generation:
                self._become(slot, State.LENT)
                if not self._loans:
                    self._reuse(slot)
        if self._loans:
            self._end_loans()

    def _end_loans(self) -> None:
        for _ in range(len(self._loans)):
            loan = self._loans.popleft()
            if not loan[1]():
                self._loans.append(loan)
        lent = {slot for slots, _ in self._loans for slot in slots}
        for slot, state in enumerate(self._states):
            if state is State.LENT and slot not in lent:
                self._reuse(slot)

    def _reuse(self, slot: int) -> None:
        self._become(slot, State.FREE)
        self._free.append(slot)

    def _become(self, slot: int, state: State) -> None:
        self._counts[self._states[slot]] -= 1
        self._counts[state] += 1
        self._states[slot] = state
        self._generations[slot] += 1

    def _expect(self, slot: int, state: State) -> None:
        if self._states[slot] is not state:
            raise AssertionError(f"slot {slot} is {self._states[slot].value}, expected {state.value}")
