"""Results of worker processes that lie in slots: in one of their own, or in one that several share.

Guarantees
----------
- a slot goes back to the pool once: when nobody wants its result, or when the reader's last array is gone;
- a slot that jobs share stays with them until all of them are over; where they did not agree on what lies
  where in it, `Joint.is_intact` says so;
- a result that holds no array, or is copied out, gives its slot back at once.

Relies on
---------
- being called under the dispatcher's lock, but for `open`, and by the thread that receives: `Joint.wrote`,
  `Joint.drop`, and `discard` of what the dispatcher has not seen.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..codec import Block, address
from ..results import Outcomes, concatenated, opened, private
from .slots import SlotPool, State

__all__ = ["InJoint", "InSlot", "Joint"]


class Slots(Protocol):
    """The slots of a node."""

    pool: SlotPool
    most_leases: int
    copies: int


class InSlot:
    """A result in its slot, but for the tail of its frame where that came along."""

    def __init__(self, slots: Slots, slot: int, head: int, end: int, buffers: int, tail: bytes) -> None:
        self._slots = slots
        self._slot = slot
        self._head = head
        self.nbytes = head if tail else end
        self._buffers = buffers
        self._tail = tail
        self._block: Block | None = None

    def must_copy(self) -> bool:
        if self._block is not None or not self._buffers:
            return False
        return _all_leased(self._slots)

    def claim(self) -> None:
        if self._block is not None:
            return
        pool = self._slots.pool
        if not self._buffers:
            # Nothing but a pickle: read from a copy of it, and the slot is free at once.
            self._block = pool.block(self._slot, self.nbytes)[self._head :].copy()
            self._head = 0
            self.discard()
        elif not self.must_copy() or not self.detach():
            self._block = pool.lease(self._slot, self.nbytes)
            self._slot = -1

    def open(self) -> Outcomes:
        assert self._block is not None
        block, self._block = self._block, None
        if self._tail:
            return opened(self._tail, 0, block)
        return opened(block, self._head)

    def detach(self) -> bool:
        if self._block is not None:
            return False
        self._block = _copied_out(self._slots, self._slot, self.nbytes)
        if self._block is None:
            return False
        self.discard()
        return True

    def discard(self) -> None:
        slot, self._slot = self._slot, -1
        if slot >= 0:
            self._slots.pool.release(slot)


def _all_leased(slots: Slots) -> bool:
    """Do readers hold as many slots as they may?"""
    return slots.pool.count(State.LEASED) >= slots.most_leases


def _copied_out(slots: Slots, slot: int, nbytes: int) -> Block | None:
    """Return a copy of what a slot holds, counted; None where there is no memory for it."""
    try:
        block = private(nbytes)
    except MemoryError:
        return None
    block[:] = slots.pool.block(slot, nbytes)
    slots.copies += 1
    return block


class Joint:
    """A slot that the jobs for the pieces of one batch share: each writes its rows of every array."""

    def __init__(self, slots: Slots, slot: int, jobs: int) -> None:
        self.slot = slot
        self.nbytes = 0  # how much of it is used
        self.outlived = False
        self._slots = slots
        self._left = [slot]  # until it is given back or leased
        self._users: list[None] = [None] * jobs
        self._logs: set[int] = set()
        self.block: Block | None = None

    def wrote(self, nbytes: int, log: int) -> int:
        """A job is over that wrote its rows of arrays up to `nbytes`; `log` stands for which and where.

        Returns by how much more of the slot is used now.
        """
        more = max(0, nbytes - self.nbytes)
        self.nbytes += more
        if nbytes:
            self._logs.add(log)
        return more

    def is_intact(self) -> bool:
        # Who asked for other arrays than the rest may have written over their rows.
        return len(self._logs) <= 1

    def drop(self) -> None:
        """One of the jobs needs the slot no more."""
        self._users.pop()
        if not self._users:
            self._give_back()

    def _give_back(self) -> None:
        try:
            slot = self._left.pop()  # once, whoever comes first
        except IndexError:
            return
        pool = self._slots.pool
        self._note_extent()
        (pool.retire if self.outlived else pool.release)(slot)

    def _note_extent(self) -> None:
        extents = self._slots.pool.free.extents
        extents[self.slot] = max(extents[self.slot], self.nbytes)

    def must_copy(self) -> bool:
        if not self._left or not self.nbytes:
            return False
        return _all_leased(self._slots)

    def claim(self) -> None:
        if self._left and self.nbytes and not (self.must_copy() and self.detach()):
            self.block = self._slots.pool.lease(self.slot, self.nbytes)
            self._note_extent()
            self._left.clear()

    def detach(self) -> bool:
        if not self._left:
            return False
        self.block = _copied_out(self._slots, self.slot, self.nbytes)
        if self.block is None:
            return False
        self._give_back()
        return True

    def unite(self, arrays: list[Any]) -> Any:
        if self.block is None or not self._adjoin(arrays):
            return concatenated(arrays)
        start = address(arrays[0]) - address(self.block)
        rows = sum(map(len, arrays))
        stop = start + sum(array.nbytes for array in arrays)
        return self.block[start:stop].view(arrays[0].dtype).reshape(rows, *arrays[0].shape[1:])

    def _adjoin(self, arrays: list[Any]) -> bool:
        """Do they lie in the slot, one behind the other, as rows of one array?"""
        assert self.block is not None
        first = arrays[0]
        at = address(first)
        if not address(self.block) <= at < address(self.block) + self.nbytes:
            return False
        for array in arrays:
            alike = array.dtype == first.dtype and array.shape[1:] == first.shape[1:]
            if not (alike and type(array) is np.ndarray and array.flags.c_contiguous):
                return False
            if address(array) != at:
                return False
            at += array.nbytes
        return True

    def forget(self) -> None:
        self.block = None


class InJoint:
    """The result of a job whose arrays lie in a slot that it shares."""

    def __init__(self, joint: Joint, frame: Block | bytes) -> None:
        self._joint = joint
        self._frame = frame
        self._held = True
        self.nbytes = len(frame)

    def must_copy(self) -> bool:
        return self._joint.must_copy()

    def claim(self) -> None:
        self._joint.claim()
        self.discard()

    def open(self) -> Outcomes:
        return opened(self._frame, 0, self._joint.block)

    def detach(self) -> bool:
        return self._joint.detach()

    def discard(self) -> None:
        if self._held:
            self._held = False
            self._joint.drop()
