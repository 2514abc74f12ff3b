"""The shared-memory pool: one anonymous segment, cut into slots that are leased to readers.

A job in flight has a slot reserved, but which one is decided by the worker, when it first has something to
write: the lowest free one. So a reader that keeps up has its results in a few slots that stay in the
processor's cache, however many are reserved; and only those ever have pages.

Guarantees
----------
- a slot is with one owner at a time: free, taken by a worker, out with a result, leased to a reader, lent to
  a forked process, or retired;
- taking a slot waits for nobody, also where another process is stopped or killed in the middle of it;
- a worker whose job has a slot reserved finds one;
- a leased slot comes back when the last array, sub-view or memoryview over it is gone, and not before;
- a late release cannot free a newer lease: every lease is a token of its own;
- releasing is safe from any thread, in the garbage collector, at interpreter exit and after a fork,
  because it puts the lease into a queue, in C, and does nothing else;
- nothing is ever visible in /dev/shm, and the memory is gone with the last process that maps it.

Relies on
---------
- the methods of a `SlotPool` being called only in the parent, and from one thread at a time (the dispatcher's
  lock); but for `arrived`, `unreserve`, `recover`, and `release` or `retire` of what the dispatcher has
  not seen: these the thread that receives calls beside another one. So `recover` looks at nothing but the
  map, and books are kept in an order in which no slot is ever counted as available that is not;
- workers calling nothing but `FreeMap.take`, `take_this` and `put_back`;
- record locks being of a process, and ending with it: a worker opens and closes its segment once.

Units: sizes and offsets in bytes.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol, cast

import numpy as np

from ..codec import Block, address
from . import linux

__all__ = ["PAGE", "FreeMap", "Pinner", "Segment", "SlotPool", "State"]

PAGE = mmap.PAGESIZE
PARENT = -2  # as an owner of slots


class Segment:
    """Anonymous memory shared with the processes that hold its descriptor.

    `memfd_create` memory is not bounded by the size of /dev/shm, and pages exist only where they were
    written, so a segment may be generously large.
    """

    fd = -1

    def __init__(self, fd: int, size: int, *, private: bool = False, new: bool = False) -> None:
        self.fd = fd  # ours to close, whatever comes
        self.size = size
        if new:
            os.ftruncate(fd, size)
        flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
        self._map = mmap.mmap(fd, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        linux.dont_dump(self._map)  # a core dump would touch every page of it

    @classmethod
    def create(cls, size: int, name: str = "seqkit") -> Segment:
        return cls(linux.memfd_create(name), size, new=True)

    def block(self, offset: int, size: int) -> Block:
        """Return the bytes at an offset as an array; the mapping lives as long as it or its views do."""
        return np.frombuffer(self._map, np.uint8, size, offset)

    def punch(self, start: int, stop: int) -> None:
        """Give the pages that lie wholly between two offsets back to the system; they read as zeros then."""
        start, stop = -(-start // PAGE) * PAGE, stop // PAGE * PAGE
        if start < stop:
            with suppress(OSError):  # locked pages stay
                self._map.madvise(linux.MADV_REMOVE, start, stop - start)

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something called before the memory goes, when nobody has a block of it any more."""
        pid = os.getpid()
        weakref.finalize(self._map, lambda: call() if os.getpid() == pid else None).atexit = False

    def close(self) -> None:
        """Give the descriptor back; blocks stay valid. Dropping the segment does it too."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close


class FreeMap:
    """Which slots are free, for all processes to see: a word for each, 0 or its owner's number plus one.

    The word goes from 0 to an owner under a record lock on its own bytes, which is tried and never waited
    for; from an owner to the parent or to 0 it goes by a plain write of whoever has the slot. A second
    word says how many bytes of the slot have pages; it is written by whoever has the slot.

    Parameters
    ----------
    segment : Segment
    count : int
    offset : int
        Where in the segment the words begin; there are two of 8 bytes for each slot.

    Examples
    --------
    >>> free = FreeMap(Segment.create(PAGE), count=2)
    >>> free.take(7), free.take(8), free.take(9)
    (0, 1, None)
    >>> free.taken_by(8)
    [1]
    >>> free.put_back(0); free.take(9)
    0
    """

    def __init__(self, segment: Segment, count: int, offset: int = 0) -> None:
        self._segment = segment
        self._offset = offset
        words = segment.block(offset, 16 * count).view(np.int64).data
        self._owners, self.extents = words[:count], words[count:]

    def __len__(self) -> int:
        return len(self._owners)

    def take(self, owner: int) -> int | None:
        """Return the lowest free slot, which belongs to `owner` from now on; None where none is free."""
        for slot, taken in enumerate(self._owners):
            if not taken and self.take_this(slot, owner):
                return slot
        return None

    def take_this(self, slot: int, owner: int) -> bool:
        """Take one certain slot if it is free; say whether it was."""
        fd, at = self._segment.fd, self._offset + 8 * slot
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 8, at)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False  # somebody is just taking it
            raise
        try:
            if self._owners[slot]:
                return False
            self._owners[slot] = owner + 1
            return True
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN, 8, at)

    def hand_over(self, slot: int) -> None:
        """The parent has a slot from now on: it is not among what its taker may die with."""
        self._owners[slot] = PARENT + 1

    def put_back(self, slot: int) -> None:
        """Make a slot free, which the caller has."""
        self._owners[slot] = 0

    def forget(self) -> None:
        """In a child that user code forked: leave the words alone, which are the parent's."""
        self._owners = memoryview(bytearray(self._owners)).cast("q")

    def taken_by(self, owner: int) -> list[int]:
        """Return the slots that `owner` took, and that it has neither put back nor handed over."""
        return [slot for slot, word in enumerate(self._owners) if word == owner + 1]


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


class State(IntEnum):
    """Who has a slot, as the parent knows."""

    FREE = 0  # or taken by a worker that has not delivered yet
    OUT = 1  # a result in it waits to be handed out
    LEASED = 2  # a reader holds arrays over it
    LENT = 3  # its lease is back, but a process forked meanwhile, or a device, may still read it
    RETIRED = 4  # a worker kept memory of it beyond the item


FREE, OUT, LEASED, LENT, RETIRED = State  # for Python 3.11 takes 80 ns to find a member of an enum


class SlotPool:
    """Which slots of `slot_bytes` each are with whom: the parent's books.

    Parameters
    ----------
    segment : Segment
    free : FreeMap
    slot_bytes : int
    offset : int
        Where in the segment the first slot begins.
    pinner : Pinner, optional
        Locks the memory of a slot when it is first leased, and says when it may be used again.
    most_leases : int
        Slots that consumers may hold; further results are copied out.

    Examples
    --------
    >>> segment = Segment.create(3 * PAGE)
    >>> pool = SlotPool(segment, FreeMap(segment, count=2, offset=2 * PAGE), slot_bytes=PAGE)
    >>> pool.reserve(), pool.available()
    (True, 1)
    >>> slot = pool.free.take(owner=0)  # in a worker
    >>> pool.arrived(slot)
    >>> array = pool.lease(slot, 100)
    >>> pool.count(State.LEASED), pool.available()
    (1, 1)
    >>> del array
    >>> pool.available()
    2
    """

    def __init__(
        self,
        segment: Segment,
        free: FreeMap,
        slot_bytes: int,
        offset: int = 0,
        pinner: Pinner | None = None,
        most_leases: int = 1 << 30,
    ) -> None:
        self.most_leases = most_leases
        self.copies = 0
        self._pinner = pinner
        self._pinned: dict[int, int] = {}  # how many bytes of a slot are locked
        self.slot_bytes = slot_bytes
        self.free = free
        self._segment = segment
        self._offset = offset
        self._states = [FREE] * len(free)
        self._counts = [len(free), 0, 0, 0, 0]  # by state
        self._reserved = 0
        # Its `put` is written in C and takes no lock: it may be called in the garbage collector.
        self._returned: SimpleQueue[weakref.ref[Block]] = SimpleQueue()
        self._leases: dict[int, _Lease] = {}
        self._loans: deque[tuple[list[int], Callable[[], bool]]] = deque()

    # ---------------------------------------------------------------- for jobs

    def available(self) -> int:
        """Return how many slots can be reserved now."""
        if self._loans or not self._returned.empty():
            self._take_back()
        return self._counts[FREE] - self._reserved

    def reserve(self) -> bool:
        """Set a free slot aside for a job, whichever its worker will take; say whether there was one."""
        if self.available() <= 0:  # below 0 for the moment in which another thread books an arrival
            return False
        self._reserved += 1
        return True

    def arrived(self, slot: int) -> None:
        """A job is back, and its worker took this slot."""
        self._expect(slot, FREE)
        self._become(slot, OUT)
        self.free.hand_over(slot)
        self._reserved -= 1  # last: a thread that reserves meanwhile must not see its slot as free

    def unreserve(self) -> None:
        """A job is back, or lost, without having needed its slot."""
        self._reserved -= 1

    def recover(self, owner: int) -> None:
        """Free the slots that a worker took and died with."""
        for slot in self.free.taken_by(owner):
            self.free.extents[slot] = self.slot_bytes  # nobody knows how much of it was written
            self.free.put_back(slot)

    # ---------------------------------------------------------------- for readers

    def count(self, state: State) -> int:
        """Return how many slots are in a state."""
        self._take_back()
        return self._counts[state]

    def block(self, slot: int, size: int | None = None) -> Block:
        """Return the memory of a slot, or its first `size` bytes."""
        size = self.slot_bytes if size is None else size
        return self._segment.block(self._offset + slot * self.slot_bytes, size)

    def lease(self, slot: int, size: int) -> Block:
        """Return the first bytes of a slot; it comes back by itself when the array and its views are gone."""
        self._expect(slot, OUT)
        block = self.block(slot, size)
        if self._pinner is not None and size > self._pinned.get(slot, 0):
            self._pin(slot, size, address(block), self._pinner)
        self._become(slot, LEASED)
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
        return self.count(LEASED) >= self.most_leases

    def await_release(self, timeout_s: float) -> None:
        """Wait until a lease comes back; called without a lock."""
        # In C from end to end: a Ctrl-C between `get` and `put` would lose the slot.
        leases = iter(partial(self._returned.get, timeout=timeout_s), None)
        with suppress(Empty):
            next(map(self._returned.put, leases))

    def count_copy(self) -> None:
        """Count a result that was copied out of its slot."""
        self.copies += 1

    def has_leases(self) -> bool:
        """Is any slot leased? From any thread."""
        return self._counts[LEASED] > 0

    def give_back(self) -> None:
        """Give back the pages of all slots that nobody holds; none of them will be used again."""
        if not self.has_leases() or self._pinner is not None:
            return  # all of it goes, or nothing may
        self._take_back()
        for slot, state in enumerate(self._states):
            if state not in (LEASED, LENT):
                start = self._offset + slot * self.slot_bytes
                self._segment.punch(start, start + self.slot_bytes)

    def lend(self, is_over: Callable[[], bool]) -> None:
        """Use no slot again that is leased now until `is_over()`; from any thread, at any moment."""
        leased = [slot for slot, state in enumerate(self._states) if state is LEASED]
        self._loans.append((leased, is_over))

    def release(self, slot: int) -> None:
        """Take back a slot that no reader holds."""
        self._expect(slot, OUT)
        self._reuse(slot)

    def retire(self, slot: int) -> None:
        """Set a slot aside: somebody still has memory of it."""
        self._expect(slot, OUT)
        self._become(slot, RETIRED)

    def restore(self, slot: int) -> None:
        """Take back a retired slot."""
        self._expect(slot, RETIRED)
        self._reuse(slot)

    def has_retired(self) -> bool:
        """Is any slot set aside?"""
        return self._counts[RETIRED] > 0

    def retired(self) -> list[int]:
        """Return the slots that are set aside."""
        return [slot for slot, state in enumerate(self._states) if state is RETIRED]

    def _take_back(self) -> None:
        while not self._returned.empty():
            try:
                lease = cast(_Lease, self._returned.get_nowait())
            except Empty:
                break  # one that waits, in `await_release`, has it and will put it back
            slot = lease.slot
            if self._leases.get(slot) is lease:
                del self._leases[slot]
                self._become(slot, LENT)
                if self._pinner is not None:
                    self._loans.append(([slot], self._pinner.fence()))
                if not self._loans:
                    self._reuse(slot)
        if self._loans:
            self._end_loans()

    def _end_loans(self) -> None:
        for _ in range(len(self._loans)):
            loan = self._loans.popleft()
            if not loan[1]():
                self._loans.append(loan)
        lent = {slot for slots, _ in list(self._loans) for slot in slots}  # one more may come meanwhile
        for slot, state in enumerate(self._states):
            if state is LENT and slot not in lent:
                self._reuse(slot)

    def _reuse(self, slot: int) -> None:
        self._become(slot, FREE)
        self.free.put_back(slot)

    def _become(self, slot: int, state: State) -> None:
        self._counts[self._states[slot]] -= 1
        self._counts[state] += 1
        self._states[slot] = state

    def _expect(self, slot: int, state: State) -> None:
        if self._states[slot] is not state:
            raise AssertionError(f"slot {slot} is {self._states[slot].name}, expected {state.name}")
