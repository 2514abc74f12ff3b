"""A worker process: takes jobs from a pipe, writes results into cells and slots, and dies with its parent.

Guarantees
----------
- whatever an item raises, `SystemExit` and `KeyboardInterrupt` included, becomes the outcome of that item;
- a value that cannot be pickled costs its own item only, and the error says why;
- an item is complete in shared memory before it counts as finished, and before the next one begins;
- memory of a slot that outlives its item is noticed: the slot is then not used again until that memory is
  gone;
- when the parent is gone, so is the worker, even in the middle of an item; Ctrl-C is for the parent alone.

Relies on
---------
- being single-threaded but for the watch on the parent, so that `seqkit.empty` needs no lock.
"""

from __future__ import annotations

import gc
import math
import os
import pickle
import select
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns, sleep
from typing import Any

import numpy as np

from ...context import evaluating
from ...view import View
from ..codec import INLINE_BYTES, Block, aligned, dumps_plain
from ..errors import record
from ..evaluate import NEVER_NS, Evaluator
from ..hooks import Seeding
from ..results import Entry, encoded_item
from . import linux
from .slots import PAGE, FreeMap, Segment
from .wire import HEADER_WORDS, JOB, RESULT, Cell, Control, Flag, Kind, Packing, Spec, cells_of, unpack

__all__ = ["Descriptors", "Worker", "tell", "write_all"]

# How often a worker looks for the slot that is reserved for its job. It is there; but between looking and
# taking, another worker may have taken it while a second one came free.
MOST_TRIES = 1000
# When a worker has had nothing to do for so long, it gives the pages of free slots back to the system; and
# when so many results in a row left most of a slot unused, the pages of the rest.
IDLE_S = 1.0
SMALL_IN_A_ROW = 8
SPARE_BYTES = 1 << 20
# A job of several items ends when it has so many bytes.
GROUP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What a worker inherits.

    The shared pipes of jobs and results, its own pipe for what does not fit a slot, the segment; and, to
    end with the parent: its pidfd, and the reading end of a pipe that nobody but the parent can write to.
    """

    jobs: int
    results: int
    bulk: int
    segment: int
    parent: int
    tether: int


class Writer:
    """Writes the items of one job into its cell and slot, each as soon as it is finished.

    The slot is taken when memory is first needed: a small result never needs any. What does not fit the
    slot is kept aside and ends the job; everything then goes through the worker's own pipe, in the layout
    that a larger slot would have had.
    """

    def __init__(self, worker: Worker, cell: Cell, items: int, takes_slot: bool) -> None:
        self._worker = worker
        self._takes_slot = takes_slot
        self._words = cell.words
        self._payload = cell.payload(items)
        self._payload_bytes, self._payload_used = len(self._payload), 0
        self._most = cell.most_items(items)
        self._largest = 0
        self.slot = -1
        self.block: Block | None = None
        self.used = 0
        self.buffers = 0
        self.beside: list[tuple[int, Any]] = []  # what did not fit, by offset
        self.allocated = False  # has user code had memory of the slot?
        self.put, self._enter = self._numbers_first(cell.words, cell.doubles)

    def open(self) -> Block:
        """Return the memory of the slot; of no bytes where there is none."""
        if self.block is None:
            self.slot, self.block = self._worker.take_slot(self._takes_slot)
            self._words[3] = self.slot + 1
        return self.block

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """Return an array in the slot, or None where that gains nothing or cannot be."""
        nbytes = dtype.itemsize * math.prod(shape)
        at = aligned(self.used)
        if nbytes < INLINE_BYTES or dtype.hasobject or at + nbytes > len(block := self.open()):
            return None
        self.used, self.allocated = at + nbytes, True
        return block[at : self.used].view(dtype).reshape(shape)

    def _numbers_first(self, words: Any, doubles: Any) -> tuple[Callable[[Any], bool], Callable[..., bool]]:
        """Return `put` and a function that enters an item into the table. Closures cost half of methods."""
        count, at, most, encode = 0, HEADER_WORDS, self._most, self._encode

        def put(value: Any) -> bool:
            nonlocal count, at
            kind = type(value)
            if kind is int:
                try:
                    words[at + 1] = value
                except ValueError:  # beyond 64 bits
                    return encode(value)
                words[at] = Entry.INT
            elif kind is float:
                doubles[at + 1] = value
                words[at] = Entry.FLOAT
            else:
                return encode(value)
            count += 1
            at += 2
            words[1] = count
            return count < most

        def enter(code: int, end: int, is_published: bool) -> bool:
            nonlocal count, at
            words[at], words[at + 1] = code, end
            count += 1
            at += 2
            if is_published:
                words[1] = count
            return count < most

        return put, enter

    def fail(self, error: BaseException) -> bool:
        """Write the error of the next item."""
        return self._encode(record(error, self._worker.evaluator.keyed), True)

    def _encode(self, value: Any, is_failed: bool = False) -> bool:
        is_failed, (form, tail, moved, end, buffers) = encoded_item(
            value, is_failed, dumps_plain, self.block, self.used
        )
        self._worker.evaluator.leave_if_forked()
        before, start = self.used, self._payload_used
        if moved or end > before:
            for offset, buffer in moved:
                self._place(offset, buffer)
            self.used = max(before, end)
        self.buffers += buffers
        if len(tail) <= self._payload_bytes - start:
            self._payload_used = end = start + len(tail)
            self._payload[start:end] = tail
            self._words[5] = end
        else:
            start, end = self.used, self.used + len(tail)
            self._place(start, memoryview(tail))
            self.used, self.buffers = end, self.buffers + 1
            start, end = start + Entry.IN_MEMORY, end + Entry.IN_MEMORY
        # What does not fit the slot must not be seen before it is sent.
        is_inside = not self.beside
        if is_inside:
            self._words[4] = self.used
        more = self._enter(start << 3 | is_failed << 2 | form, end, is_inside)
        self._largest = max(self._largest, self.used - before)
        return more and is_inside and self._has_room()

    def _place(self, offset: int, buffer: memoryview) -> None:
        block, end = self.open(), offset + buffer.nbytes
        if end > len(block) or self.beside:
            self.beside.append((offset, buffer))
        else:
            block[offset:end] = np.frombuffer(buffer, np.uint8)

    def _has_room(self) -> bool:
        """Is there room for another item like the largest so far, and is it not yet time to deliver?"""
        if self.used + self._payload_used > GROUP_BYTES:
            return False
        return self.block is None or aligned(self.used) + self._largest <= len(self.block)

    def stream(self) -> list[Any]:
        """Return the parts of the slot, and what did not fit it, in order."""
        parts: list[Any] = []
        position = self.beside[0][0] if self.beside else self.used
        if position and self.block is not None:
            within = min(position, len(self.block))
            parts += [self.block[:within].tobytes(), bytes(position - within)]
        else:
            parts.append(bytes(position))
        for offset, buffer in self.beside:
            parts += [bytes(offset - position), buffer]
            position = offset + buffer.nbytes
        return parts


class Worker:
    """The state of one worker process."""

    def __init__(
        self,
        number: int,
        spec: Spec,
        fds: Descriptors,
        segment: Segment,
        pipeline: View[Any],
        seeding: Seeding,
    ) -> None:
        self.number = number
        self.spec = spec
        self.seeding = seeding
        self.layout = spec.layout
        self.fds = fds
        self.segment = segment
        self.control = Control(segment, spec.layout)
        self._cells = cells_of(segment, spec.layout)
        self.free = FreeMap(segment, spec.layout.slots, spec.layout.free_map_at)
        self.evaluator = Evaluator(pipeline)
        self._kept: dict[int, weakref.ref[Block]] = {}
        self._small_in_a_row: dict[int, int] = {}  # by slot
        self._arrivals = select.epoll()
        # Exclusive: a job wakes one idle worker, not all.
        self._arrivals.register(fds.jobs, select.EPOLLIN | linux.EPOLLEXCLUSIVE)

    def serve(self) -> None:
        """Take jobs until there will be no more."""
        while len(message := self._next_job()) == JOB.size and not self.control.closing:
            ticket, number, takes_slot, is_whole, packing, a, b, c, epoch = JOB.unpack(message)
            begun, cell = monotonic_ns(), self._cells[number]
            self.control.claim(self.number, ticket, begun)
            if cell.belongs_to(ticket):
                indices = self._indices(cell, packing, a, b, c)
                cell.words[2] = begun
                self._do(ticket, cell, epoch, indices, bool(takes_slot), bool(is_whole))
            else:
                tell(self.fds, self.number, Kind.SKIPPED, ticket)
            self.control.finish(self.number)

    def _indices(self, cell: Cell, packing: int, a: int, b: int, c: int) -> range | list[Any]:
        if packing == Packing.RANGE:
            return range(a, b, c)
        if packing == Packing.FILE:
            with open(f"/proc/{self.spec.parent}/fd/{b}", "rb") as file:
                file.seek(0)
                return list(pickle.loads(file.read(a)))
        return unpack(packing, a, cell.indices())

    def _do(
        self, ticket: int, cell: Cell, epoch: int, indices: Any, takes_slot: bool, is_whole: bool
    ) -> None:
        begun_ns, writer = monotonic_ns(), Writer(self, cell, len(indices), takes_slot)
        if epoch != self.seeding.epoch:
            self.seeding.begin(epoch)
        if len(indices) == 1:
            # Memory of the slot is for the item of a job of one: of several, one might use it again for the
            # next.
            with evaluating(writer.allocate):
                is_end = self.evaluator.run(epoch, indices, writer)
        else:
            budget_ns = NEVER_NS if is_whole else self.spec.budget_ns
            began = partial(cell.words.__setitem__, 2) if self.spec.is_timed else None
            is_end = self.evaluator.run(epoch, indices, writer, budget_ns, began)
        self.evaluator.leave_if_forked()
        self._deliver(ticket, cell, writer, is_end, begun_ns)

    def _next_job(self) -> bytes:
        """Wait for a job; of no bytes when there will be none."""
        while True:
            try:
                return os.read(self.fds.jobs, JOB.size)
            except BlockingIOError:
                if not self._arrivals.poll(IDLE_S):
                    self._give_back()
                    self._arrivals.poll()

    # ---------------------------------------------------------------- slots

    def take_slot(self, is_reserved: bool) -> tuple[int, Block]:
        """Take the slot that is reserved for the job; -1 and no memory where there is none."""
        for number in range(MOST_TRIES * is_reserved):
            slot = self.free.take(self.number)
            if slot is not None:
                return slot, self._slot(slot)
            # Others took, and the parent freed, in between; or an idle worker gives memory back.
            sleep(0.0001 if number > 100 else 0)
        return -1, self.segment.block(0, 0)

    def _slot(self, slot: int) -> Block:
        size = self.layout.slot_bytes
        return self.segment.block(self.layout.slots_at + slot * size, size)

    def _give_back(self) -> None:
        """Give the memory of free slots back to the system; one at a time, as others may want them."""
        for slot, extent in enumerate(self.free.extents):
            if extent and self.free.take_this(slot, self.number):
                self._shrink(slot, 0)
                self.free.put_back(slot)

    def _shrink(self, slot: int, nbytes: int) -> None:
        if not self.spec.gives_back:
            return
        start = self.layout.slots_at + slot * self.layout.slot_bytes
        # The last page too, of which only the beginning was written.
        self.segment.punch(start + nbytes, start + -(-self.free.extents[slot] // PAGE) * PAGE)
        self.free.extents[slot] = nbytes

    def _trim(self, slot: int, used: int) -> None:
        """Note how much of a slot a result used; after some small ones, give the rest back."""
        extent = self.free.extents[slot]
        if used + SPARE_BYTES > extent // 2:
            self.free.extents[slot] = max(extent, used)
            self._small_in_a_row.pop(slot, None)
            return
        self._small_in_a_row[slot] = self._small_in_a_row.get(slot, 0) + 1
        if self._small_in_a_row[slot] == SMALL_IN_A_ROW:
            self._shrink(slot, used)
            del self._small_in_a_row[slot]

    # ---------------------------------------------------------------- delivering

    def _deliver(self, ticket: int, cell: Cell, writer: Writer, is_end: bool, begun_ns: int) -> None:
        kind, stream, used, slot = Kind.DONE, [], writer.used, writer.slot
        flags = (Flag.HAS_ARRAYS if writer.buffers else 0) | (Flag.IS_END if is_end else 0)
        count = cell.finished()
        if writer.beside:
            kind, count, stream = Kind.STREAM, count + 1, writer.stream()
        if slot >= 0:
            self._trim(slot, min(used, self.layout.slot_bytes))
            if writer.allocated and self._survives(writer):
                flags |= Flag.SURVIVES
                if writer.buffers and kind == Kind.DONE:
                    # User code may write there again while the next item is evaluated.
                    kind, stream = Kind.STREAM, [self._slot(slot)[:used].tobytes()]
        cost_ns = monotonic_ns() - begun_ns
        tell(self.fds, self.number, kind, ticket, count, used, cost_ns, slot, flags)
        for part in stream:
            write_all(self.fds.bulk, part)
        writer.beside.clear()  # for the writer itself, in a cycle, stays until it is collected

    def _survives(self, writer: Writer) -> bool:
        """Does user code still hold memory of a slot that is about to be handed over?"""
        control, kept, slot, pid = self.control, self._kept, writer.slot, os.getpid()

        def gone(_: Any) -> None:
            if os.getpid() == pid:  # and not in a process that an item forked
                kept.pop(slot, None)
                control.let_go(slot)

        assert writer.block is not None
        reference = weakref.ref(writer.block, gone)
        kept[slot] = reference
        control.keep(slot, self.number)
        writer.block = None
        return _outlives(reference)


def _outlives(block: weakref.ref[Any]) -> bool:
    """Does memory outlive its item? In a cycle, as every saved exception is one, it only seems to."""
    if block() is not None:
        gc.collect(1)
    return block() is not None


def tell(
    fds: Descriptors,
    worker: int,
    kind: int,
    ticket: int = 0,
    items: int = 0,
    nbytes: int = 0,
    cost_ns: int = 0,
    slot: int = -1,
    flags: int = 0,
) -> None:
    """Send the parent a record."""
    os.write(fds.results, RESULT.pack(ticket, worker, kind, items, nbytes, cost_ns, slot, flags))


def write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(fd, view) :]
