"""The slots of a node: equal parts of its segment, which are leased to consumers.

Every job in flight has a slot of its own, as long as there are enough. The slot that was freed last is used
first, because its memory is most likely in the processor's cache.

Guarantees
----------
- a slot is in one place: free, out with a job or its result, leased to a consumer, lent to a forked process
  or a device, or kept by a worker. This object alone knows where;
- a leased slot comes back when the last array, sub-view or memoryview over it is gone, and not before;
- a late release cannot free a newer lease: every lease is a token of its own;
- releasing is safe from any thread, in the garbage collector, at interpreter exit and after a fork,
  because it puts the lease into a queue, in C, and does nothing else.

Relies on
---------
- being called only in the parent, and by one thread at a time (the dispatcher's lock). But the thread that
  receives may call `filled`, `release` and `retire` for jobs in flight, and `restore` and `bury`, beside
  another one: each moves a slot from one container to another in single steps.

Units: sizes and offsets in bytes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol, cast

import numpy as np

from ..codec import Block, address
from .segment import PAGE, Segment

# When so many results in a row leave most of a slot unused, the rest of its pages goes back to the system.
SMALL_IN_A_ROW = 8
SPARE_BYTES = 1 << 20


class Pinner(Protocol):
    """Locks pages for a device that copies from them by itself."""

    def pin(self, address: int, nbytes: int) -> None:
        """Lock memory; from now on the device may copy from it while the program goes on."""

    def unpin(self, address: int) -> None:
        """Unlock what was locked at this address."""

    def fence(self) -> Callable[[], bool]:
        """Return what says whether the copies are over that have been asked for up to now."""


class _Lease(weakref.ref[Block]):
    """A reader's hold on a slot.

    When the array is gone, it goes into a queue itself: what Ctrl-C strikes in a callback, Python drops, and
    so a callback of Python code might lose the slot.
    """

    __slots__ = ("slot",)
    slot: int


_NO_LEASE = _Lease(np.empty(0, np.uint8))
_NO_LEASE.slot = -1


class SlotPool:
    """Where the slots are: the parent's books.

    Parameters
    ----------
    segment : Segment
    count : int
        How many slots there are.
    slot_bytes : int
    offset : int
        Where in the segment the first slot begins.
    pinner : Pinner, optional
        Locks the memory of a slot when it is first leased, and says when it may be used again.
    most_leases : int
        Slots that consumers may hold; further results are copied out.

    Examples
    --------
    >>> pool = SlotPool(Segment.create(2 * PAGE), count=2, slot_bytes=PAGE)
    >>> slot = pool.reserve()
    >>> slot, pool.available()
    (0, 1)
    >>> array = pool.lease(slot, 100)
    >>> pool.leased(), pool.available()
    (1, 1)
    >>> del array
    >>> pool.leased(), pool.available()
    (0, 2)
    """

    def __init__(
        self,
        segment: Segment,
        count: int,
        slot_bytes: int,
        offset: int = 0,
        pinner: Pinner | None = None,
        most_leases: int = 1 << 30,
    ) -> None:
        self.slot_bytes = slot_bytes
        self.most_leases = most_leases
        self.copies = 0  # results that were copied out
        self._segment = segment
        self._offset = offset
        self._pinner = pinner
        self._pinned: dict[int, int] = {}  # how many bytes of a slot are locked
        self._extents = [0] * count  # how many bytes of a slot have pages
        self._small_in_a_row = [0] * count
        # Where the slots are.
        self._free = list(reversed(range(count)))
        self._out: set[int] = set()
        self._leases: dict[int, _Lease] = {}
        self._lent: set[int] = set()
        self._kept: dict[int, int] = {}  # the worker that has memory of a slot
        # Its `put` is written in C and takes no lock: it may be called in the garbage collector.
        self._returned: SimpleQueue[weakref.ref[Block]] = SimpleQueue()
        self._loans: deque[tuple[list[int], Callable[[], bool]]] = deque()

    # ---------------------------------------------------------------- for jobs

    def available(self) -> int:
        """Return how many slots are free."""
        if self._loans or not self._returned.empty():
            self._take_back()
        return len(self._free)

    def reserve(self) -> int:
        """Return a free slot for a job; -1 if there is none."""
        if not self.available():
            return -1
        slot = self._free.pop()
        self._out.add(slot)
        return slot

    def filled(self, slot: int, nbytes: int | None) -> None:
        """A worker has written the first bytes of a slot; None: it died, and nobody knows how many.

        After some small results, the pages of the rest go back to the system.
        """
        extent = self._extents[slot]
        nbytes = self.slot_bytes if nbytes is None else min(nbytes, self.slot_bytes)
        if nbytes + SPARE_BYTES > extent // 2:
            self._extents[slot], self._small_in_a_row[slot] = max(extent, nbytes), 0
            return
        self._small_in_a_row[slot] += 1
        if self._small_in_a_row[slot] >= SMALL_IN_A_ROW and self._pinner is None:
            start = self._offset + slot * self.slot_bytes
            self._segment.punch(start + nbytes, start + -(-extent // PAGE) * PAGE)
            self._extents[slot], self._small_in_a_row[slot] = nbytes, 0

    def release(self, slot: int) -> None:
        """Take back a slot that is out, and that no consumer holds."""
        self._out.remove(slot)
        self._free.append(slot)

    def retire(self, slot: int, worker: int) -> None:
        """Set a slot aside that is out: a worker still has memory of it."""
        self._out.remove(slot)
        self._kept[slot] = worker

    def restore(self, slot: int, worker: int) -> None:
        """Take back a slot of which a worker has no memory any more."""
        if self._kept.get(slot) == worker:
            del self._kept[slot]
            self._free.append(slot)

    def bury(self, worker: int) -> None:
        """Take back what a dead worker kept."""
        for slot in list(self._kept):
            self.restore(slot, worker)

    # ---------------------------------------------------------------- for consumers

    def leased(self) -> int:
        """Return how many slots are leased or lent."""
        self._take_back()
        return len(self._leases) + len(self._lent)

    def kept(self) -> int:
        """Return of how many slots workers have memory."""
        return len(self._kept)

    def block(self, slot: int, size: int) -> Block:
        """Return the first bytes of a slot."""
        return self._segment.block(self._offset + slot * self.slot_bytes, size)

    def lease(self, slot: int, size: int) -> Block:
        """Return the first bytes of a slot; it comes back by itself when the array and its views are gone."""
        block = self.block(slot, size)
        if self._pinner is not None and size > self._pinned.get(slot, 0):
            self._pin(slot, size, address(block), self._pinner)
        self._out.remove(slot)
        lease = _Lease(block, self._returned.put)
        lease.slot = slot
        self._leases[slot] = lease
        return block

    def _pin(self, slot: int, size: int, start: int, pinner: Pinner) -> None:
        """Lock as much of a slot as is used now, which is rarely more than it was."""
        nbytes, is_first = min(-(-size // PAGE) * PAGE, self.slot_bytes), slot not in self._pinned
        if self._pinned.get(slot):
            self._pinned[slot] = 0  # in case that so much more cannot be locked
            pinner.unpin(start)
        pinner.pin(start, nbytes)
        self._pinned[slot] = nbytes
        if is_first:
            self._segment.at_end(partial(pinner.unpin, start))

    def are_all_leased(self) -> bool:
        """Do consumers hold as many slots as they may?"""
        if not self._returned.empty():
            self._take_back()
        return len(self._leases) >= self.most_leases

    def await_release(self, timeout_s: float) -> None:
        """Wait until a lease comes back; called without a lock."""
        # In C from end to end: a Ctrl-C between `get` and `put` would lose the slot.
        leases = iter(partial(self._returned.get, timeout=timeout_s), None)
        with suppress(Empty):
            next(map(self._returned.put, leases))

    def wake(self) -> None:
        """Wake all threads in `await_release`, each of which wakes another one."""
        self._returned.put(_NO_LEASE)

    def count_copy(self) -> None:
        """Count a result that was copied out of its slot."""
        self.copies += 1

    def has_leases(self) -> bool:
        """Is any slot leased? From any thread."""
        return bool(self._leases)

    def lend(self, is_over: Callable[[], bool]) -> None:
        """Use no slot again that is leased now until `is_over()`; from any thread, at any moment."""
        for _, was_over in list(self._loans):
            was_over()  # else nobody may look for long
        self._loans.append((list(self._leases), is_over))

    def give_back(self) -> None:
        """Give back the pages of all slots that nobody holds; none of them will be used again."""
        if not self._leases or self._pinner is not None:
            return  # all of it goes, or nothing may
        self._take_back()
        for slot in range(len(self._extents)):
            if slot not in self._leases and slot not in self._lent:
                start = self._offset + slot * self.slot_bytes
                self._segment.punch(start, start + self.slot_bytes)

    def _take_back(self) -> None:
        while not self._returned.empty():
            try:
                lease = cast(_Lease, self._returned.get_nowait())
            except Empty:
                break  # one that waits, in `await_release`, has it and will put it back
            slot = lease.slot
            if self._leases.get(slot) is lease:
                del self._leases[slot]
                if self._pinner is not None:
                    self._loans.append(([slot], self._pinner.fence()))
                (self._lent.add if self._loans else self._free.append)(slot)
        if self._loans:
            self._end_loans()

    def _end_loans(self) -> None:
        for _ in range(len(self._loans)):
            loan = self._loans.popleft()
            if not loan[1]():
                self._loans.append(loan)
        lent = {slot for slots, _ in list(self._loans) for slot in slots}  # one more may come meanwhile
        for slot in self._lent - lent:
            self._lent.discard(slot)
            self._free.append(slot)
