"""The slots of a node: equal parts of its segment, which are leased to consumers.

Every job in flight has its own slot. The slot that was freed last is used first, because its memory is most
likely in the processor's cache.

Guarantees
----------
- A slot is in exactly one place. It is free, out with a job, parked with a result that was not read, leased
  to a consumer, lent to a forked process or a device, or retained by a worker. Only this object knows where.
- Jobs in flight give back their slots or leave `spare` others. So a slot becomes free for the next job,
  whatever consumers hold.
- A leased slot is freed when the last array, sub-view or memoryview over it is gone, and not before.
- A late release cannot free a newer lease, because every lease is a separate token.
- Releasing is safe from any thread, in the garbage collector, at interpreter exit and after a fork. It only
  puts the lease into a queue, in C.

Relies on
---------
- This object is used only in the parent, and by one thread at a time (the scheduler's lock). There is one
  exception: the thread that receives may call `park`, `release`, `retire` and `free_retained` at the same
  time as another thread. Each of these moves slots from one container to another in single steps.

Units: sizes and offsets in bytes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Protocol, cast

from ..codec import Block, address
from .segment import PAGE, Segment


class Pinner(Protocol):
    """Locks pages for a device that copies from them asynchronously."""

    def pin(self, address: int, nbytes: int) -> None:
        """Lock memory. From now on the device may copy from it asynchronously."""

    def unpin(self, address: int) -> None:
        """Unlock the memory that was locked at this address."""

    def fence(self) -> Callable[[], bool]:
        """Return a function that reports whether the copies requested so far have finished."""


class _Lease(weakref.ref[Block]):
    """A consumer's hold on a slot.

    When the array is gone, the lease puts itself into a queue. This must not be a callback in Python code:
    Python drops a Ctrl-C that arrives in a callback, and the slot could be lost.
    """

    __slots__ = ("slot",)
    slot: int


class SlotPool:
    """Records the place of every slot, in the parent.

    Parameters
    ----------
    segment : Segment
    count : int
        Number of slots.
    slot_bytes : int
    offset : int
        Offset of the first slot in the segment.
    pinner : Pinner, optional
        Locks the memory of a slot at its first lease, and reports when the slot may be used again.
    spare : int
        How many slots must be left for jobs. If fewer are, results are copied out.

    Examples
    --------
    >>> pool = SlotPool(Segment.create(2 * PAGE), count=2, slot_bytes=PAGE)
    >>> slot = pool.reserve()
    >>> slot, pool.available()
    (0, 1)
    >>> pool.park(slot)
    True
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
        spare: int = 1,
    ) -> None:
        self.slot_bytes = slot_bytes
        self.copies = 0  # results that were copied out for lack of slots
        self._spare = spare
        self._segment = segment
        self._offset = offset
        self._pinner = pinner
        self._pinned: dict[int, int] = {}  # number of locked bytes of a slot
        # The places of the slots.
        self._free = list(reversed(range(count)))
        self._out: set[int] = set()
        self._parked: set[int] = set()
        self._leases: dict[int, _Lease] = {}
        self._lent: set[int] = set()
        self._retained: dict[int, int] = {}  # the worker that still holds memory of a slot
        # Its `put` is written in C and takes no lock, so the garbage collector may call it.
        self._returned: SimpleQueue[weakref.ref[Block]] = SimpleQueue()
        self._loans: deque[tuple[list[int], Callable[[], bool]]] = deque()

    # ---------------------------------------------------------------- for jobs

    def available(self) -> int:
        """Return how many slots are free."""
        if self._loans or not self._returned.empty():
            self._take_back()
        return len(self._free)

    def reserve(self) -> int:
        """Return a free slot for a job. Call `available` first."""
        slot = self._free.pop()
        self._out.add(slot)
        return slot

    def park(self, slot: int) -> bool:
        """Let a result stay in its slot until it is read. Return False if it must be copied out."""
        # Slots that were given back and not counted yet count as taken. The next job counts them.
        if len(self._free) < self._spare:
            self.copies += 1
            return False
        self._parked.add(slot)
        self._out.remove(slot)
        return True

    def release(self, slot: int) -> None:
        """Free the slot of a job, or of a result that will not be read."""
        (self._parked if slot in self._parked else self._out).remove(slot)
        self._free.append(slot)

    def retire(self, slot: int, worker: int) -> None:
        """Keep a slot out of use until a worker ends, because its functions still hold memory of it."""
        self._out.remove(slot)
        self._retained[slot] = worker

    def free_retained(self, worker: int) -> None:
        """Free the slots that a dead worker retained."""
        for slot, owner in list(self._retained.items()):
            if owner == worker:
                del self._retained[slot]
                self._free.append(slot)

    # ---------------------------------------------------------------- for consumers

    def leased(self) -> int:
        """Return how many slots are leased or lent."""
        self._take_back()
        return len(self._leases) + len(self._lent)

    def retained(self) -> int:
        """Return how many slots are out of use because workers hold memory of them."""
        return len(self._retained)

    def block(self, slot: int, size: int) -> Block:
        """Return the first bytes of a slot."""
        return self._segment.block(self._offset + slot * self.slot_bytes, size)

    def lease(self, slot: int, size: int) -> Block:
        """Return the first bytes of a slot. The slot is freed when the array and its views are gone."""
        block = self.block(slot, size)
        if self._pinner is not None and size > self._pinned.get(slot, 0):
            self._pin(slot, size, address(block), self._pinner)
        self._parked.remove(slot)
        lease = _Lease(block, self._returned.put)
        lease.slot = slot
        self._leases[slot] = lease
        return block

    def _pin(self, slot: int, size: int, start: int, pinner: Pinner) -> None:
        """Lock the used part of a slot. It is rarely larger than the part that is already locked."""
        nbytes, is_first = min(-(-size // PAGE) * PAGE, self.slot_bytes), slot not in self._pinned
        if self._pinned.get(slot):
            self._pinned[slot] = 0  # in case locking the larger part fails
            pinner.unpin(start)
        pinner.pin(start, nbytes)
        self._pinned[slot] = nbytes
        if is_first:
            self._segment.at_end(partial(pinner.unpin, start))

    def has_leases(self) -> bool:
        """Return whether any slot is leased. Callable from any thread."""
        return bool(self._leases)

    def lend(self, is_over: Callable[[], bool]) -> None:
        """Do not reuse the slots that are leased now until `is_over()`. Callable at any time, from any
        thread."""
        for _, was_over in list(self._loans):
            was_over()  # otherwise a loan might not be checked for a long time
        self._loans.append((list(self._leases), is_over))

    def _take_back(self) -> None:
        while not self._returned.empty():
            lease = cast(_Lease, self._returned.get_nowait())
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
        lent = {slot for slots, _ in list(self._loans) for slot in slots}  # copied: `lend` may add a loan
        for slot in self._lent - lent:
            self._lent.discard(slot)
            self._free.append(slot)
