"""A worker process: takes jobs from a pipe, writes results into cells and slots, and dies with its parent.

Guarantees
----------
- Any exception of an item, `SystemExit` and `KeyboardInterrupt` included, becomes the outcome of that item.
- A value that cannot be pickled fails only its own item. The error gives the reason.
- An item is complete in shared memory before it counts as finished, and before the next item begins.
- Memory of a slot that outlives its item is detected. The slot is then not used again until that memory is
  gone.
- When the parent is gone, the worker ends too, even in the middle of an item. Only the parent handles
  Ctrl-C.

Relies on
---------
- The worker is single-threaded except for the thread that watches the parent, so `seqkit.empty` needs no
  lock.
"""

from __future__ import annotations

import gc
import math
import os
import pickle
import select
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns
from typing import Any

import numpy as np

from ...context import evaluating
from ...view import View
from ..codec import INLINE_BYTES, Block, aligned, dumps_plain
from ..errors import record
from ..evaluate import NEVER_NS, Evaluator
from ..protocol import PlanOrder
from ..results import Entry, encoded_item
from ..seeding import Seeding
from . import linux
from .segment import Segment
from .wire import (
    HEADER_WORDS,
    JOB,
    RESULT,
    Cell,
    Control,
    Flag,
    Kind,
    Packing,
    Spec,
    cells_of,
    from_file,
    to_file,
    unpack,
)

# A job of several items ends when its results reach this size.
GROUP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The file descriptors that a worker inherits.

    They are: the shared pipes of jobs, urgent jobs and results; the parent's pidfd; the reading end of a
    pipe that only the parent can write to; and the segment. The pidfd and the reading end make the worker
    end with the parent.
    """

    jobs: int
    urgent: int
    results: int
    parent: int
    tether: int
    segment: int


class Writer:
    """Write the items of one job into its cell and slot, each item as soon as it is finished.

    Data that does not fit the slot is kept in `beside` and ends the job. Then the contents of the slot and
    this data go into a file, with the layout of a larger slot.
    """

    def __init__(self, worker: Worker, cell: Cell, items: int, slot: Block) -> None:
        self._worker = worker
        self._words = cell.words
        self._payload = cell.payload(items)
        self._payload_bytes, self._payload_used = len(self._payload), 0
        self._most = cell.most_items(items)
        self._largest = 0
        self.block = slot
        self.used = 0
        self.buffers = 0
        self.beside: list[tuple[int, Any]] = []  # data that did not fit the slot, by offset
        self.allocated = False  # whether user code got memory of the slot
        self.put, self._enter = self._numbers_first(cell.words, cell.doubles)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """Return an array in the slot, or None if the array is too small or does not fit."""
        nbytes = dtype.itemsize * math.prod(shape)
        at = aligned(self.used)
        if nbytes < INLINE_BYTES or dtype.hasobject or at + nbytes > len(self.block):
            return None
        self.used, self.allocated = at + nbytes, True
        return self.block[at : self.used].view(dtype).reshape(shape)

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
            self._words[4] = end
        else:
            start, end = self.used, self.used + len(tail)
            self._place(start, memoryview(tail))
            self.used, self.buffers = end, self.buffers + 1
            start, end = start + Entry.IN_MEMORY, end + Entry.IN_MEMORY
        # Data that does not fit the slot must not be visible before it is sent.
        is_inside = not self.beside
        if is_inside:
            self._words[3] = self.used
        more = self._enter(start << 3 | is_failed << 2 | form, end, is_inside)
        self._largest = max(self._largest, self.used - before)
        return more and is_inside and self._has_room()

    def _place(self, offset: int, buffer: memoryview) -> None:
        end = offset + buffer.nbytes
        if end > len(self.block) or self.beside:
            self.beside.append((offset, buffer))
        else:
            self.block[offset:end] = np.frombuffer(buffer, np.uint8)

    def _has_room(self) -> bool:
        """Return whether the largest item so far would fit once more, and the job is below
        `GROUP_BYTES`."""
        if self.used + self._payload_used > GROUP_BYTES:
            return False
        return not self._largest or aligned(self.used) + self._largest <= len(self.block)

    def contents(self) -> list[Any]:
        """Return the parts of the slot, and then the data that did not fit it, in order."""
        position = self.beside[0][0] if self.beside else self.used
        within = min(position, len(self.block))
        parts: list[Any] = [self.block[:within].data, bytes(position - within)]
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
        self.evaluator = Evaluator(pipeline, seeding.begin_item if spec.seeds_items else None)
        self._blocks = {-1: segment.block(0, 0)}  # memory by slot
        self._kept: dict[int, weakref.ref[Block]] = {}  # memory of slots that outlived its item
        self._let_go: deque[int] = deque()  # slots whose memory user code no longer holds
        self._order = PlanOrder()
        self._files: list[tuple[Cell, int, int]] = []  # by cell and ticket: the parent may still read them
        self._arrivals = select.epoll()
        self._urgent_seen = 0
        for pipe in (fds.jobs, fds.urgent):  # exclusive: a job wakes one idle worker, not all
            self._arrivals.register(pipe, select.EPOLLIN | linux.EPOLLEXCLUSIVE)

    def serve(self) -> None:
        """Run jobs until there are no more."""
        while len(message := self._next_job()) == JOB.size and not self.control.closing:
            ticket, number, slot, is_whole, packing, a, b, c, epoch, consumer, known = JOB.unpack(message)
            self._close_files()
            begun, cell = monotonic_ns(), self._cells[number]
            self.control.claim(self.number, ticket, begun)
            if cell.belongs_to(ticket) and not self._order.skips(consumer, known):
                indices = self._indices(cell, packing, a, b, c)
                cell.words[2] = begun
                if not self._do(ticket, cell, epoch, indices, slot, bool(is_whole)):
                    self._order.ended_early(consumer, ticket)
            else:
                tell(self.fds, self.number, Kind.SKIPPED, ticket)
            self.control.finish(self.number)

    def _indices(self, cell: Cell, packing: int, a: int, b: int, c: int) -> range | list[Any]:
        if packing == Packing.RANGE:
            return range(a, b, c)
        if packing == Packing.FILE:
            return list(pickle.loads(from_file(self.spec.parent, b, a).data))
        return unpack(packing, a, cell.indices())

    def _do(self, ticket: int, cell: Cell, epoch: int, indices: Any, slot: int, is_whole: bool) -> bool:
        """Run a job and deliver its items. Return whether it is done: no item is left of those that exist."""
        begun_ns, writer = monotonic_ns(), Writer(self, cell, len(indices), self._memory(slot))
        if epoch != self.seeding.epoch and not self.spec.seeds_items:
            self.seeding.begin(epoch)
        if len(indices) == 1:
            # Only the item of a single-item job may use memory of the slot. In a longer job, an item might
            # write to it again during the next item.
            with evaluating(writer.allocate):
                is_end = self.evaluator.run(epoch, indices, writer)
        else:
            budget_ns = NEVER_NS if is_whole else self.spec.budget_ns
            began = partial(cell.words.__setitem__, 2) if self.spec.is_timed else None
            is_end = self.evaluator.run(epoch, indices, writer, budget_ns, began)
        self.evaluator.leave_if_forked()
        count = cell.finished() + bool(writer.beside)
        self._deliver(ticket, cell, slot, writer, count, is_end, begun_ns)
        return is_end or count == len(indices)

    def _next_job(self) -> bytes:
        """Wait for a job. Return no bytes when there are no more jobs."""
        while True:
            sent = self.control.urgent
            if sent != self._urgent_seen:
                with suppress(BlockingIOError):
                    return os.read(self.fds.urgent, JOB.size)
                self._urgent_seen = sent
            try:
                return os.read(self.fds.jobs, JOB.size)
            except BlockingIOError:
                self._arrivals.poll()

    def _memory(self, slot: int) -> Block:
        """Return the memory of a slot, or an empty block if there is no slot."""
        block = self._blocks.get(slot)
        if block is None:
            size = self.layout.slot_bytes
            block = self.segment.block(self.layout.slots_at + slot * size, size)
            self._blocks[slot] = block
        return block

    # ---------------------------------------------------------------- delivering

    def _deliver(
        self, ticket: int, cell: Cell, slot: int, writer: Writer, count: int, is_end: bool, begun_ns: int
    ) -> None:
        flags, file = (Flag.HAS_ARRAYS if writer.buffers else 0) | (Flag.IS_END if is_end else 0), -1
        survives = writer.allocated and self._survives(slot, writer)
        if survives:
            flags |= Flag.SURVIVES
        # User code may write to memory that survives, while it computes the next item.
        if writer.beside or (survives and writer.buffers):
            file = to_file(writer.contents())
            self._files.append((cell, ticket, file))
        cost_ns = monotonic_ns() - begun_ns
        tell(self.fds, self.number, Kind.DONE, ticket, count, writer.used, cost_ns, file, flags)
        # The writer is part of a cycle. It stays until it is collected, and must not keep memory alive.
        writer.beside.clear()
        writer.block = self._memory(-1)
        while self._let_go:
            tell(self.fds, self.number, Kind.LET_GO, items=self._let_go.popleft())

    def _close_files(self) -> None:
        """Close the files that the parent has read."""
        for file in self._files[:]:
            cell, ticket, fd = file
            if cell.is_over(ticket):
                os.close(fd)
                self._files.remove(file)

    def _survives(self, slot: int, writer: Writer) -> bool:
        """Return whether user code still holds memory of a slot that is about to be sent."""
        reference = weakref.ref(writer.block)
        del self._blocks[slot]
        writer.block = self._memory(slot)
        if not _outlives(reference):
            return False

        def gone(_: Any) -> None:
            self._let_go.append(slot)

        block = reference()
        if block is not None:
            self._kept[slot] = weakref.ref(block, gone)
        return block is not None


def _outlives(block: weakref.ref[Any]) -> bool:
    """Return whether memory outlives its item. Collect garbage first: a saved exception is a cycle."""
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
    file: int = -1,
    flags: int = 0,
) -> None:
    """Send the parent a record."""
    os.write(fds.results, RESULT.pack(ticket, worker, kind, items, nbytes, cost_ns, file, flags))
