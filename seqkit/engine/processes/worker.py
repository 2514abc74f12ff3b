"""A worker process: takes jobs from a pipe, writes their items into slots, and dies with its parent.

Guarantees
----------
- Any exception of an item, `SystemExit` and `KeyboardInterrupt` included, becomes the outcome of that item.
- A value that cannot be pickled fails only its own item. The error gives the reason.
- Memory of a slot that outlives its item is detected. The slot is then not used again before this worker
  ends, and the worker's functions get ordinary memory.
- When the parent is gone, the worker ends too, even in the middle of an item. Only the parent handles
  Ctrl-C.

Relies on
---------
- The worker is single-threaded except for the thread that watches the parent, so `seqkit.empty` needs no
  lock.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import termios
import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns
from typing import Any

from ...core.view import View
from ...core.worker import evaluating
from ..clock import current_clock
from ..codec import Block
from ..errors import record
from ..evaluate import Evaluator
from ..generators import generators, state
from ..hooks import leave_fork
from ..seeding import Seeding, seed_item_of
from ..stages import limit_below
from . import linux
from .block import GROUP_BYTES, JobBlock, Writer, to_file, unpack
from .segment import Segment
from .wire import JOB, RESULT, Control, Flag, Kind, Spec

# Items that take less are quick, and items that take more are slow. Between them nothing changes.
QUICK_NS = 100_000
SLOW_NS = 400_000


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The file descriptors that a worker inherits.

    They are: the shared pipes of jobs, urgent jobs and results; the parent's pidfd, which makes the worker
    end with the parent; and the segment.
    """

    jobs: int
    urgent: int
    results: int
    parent: int
    segment: int


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The data that all workers of a node share."""

    spec: Spec
    pipeline: View[Any]
    segment: Segment
    fds: Descriptors


class Worker:
    """The state of one worker process."""

    def __init__(self, number: int, setup: WorkerSetup, seeding: Seeding) -> None:
        self.number = number
        self._pid = os.getpid()
        self.spec, pipeline, fds = setup.spec, setup.pipeline, setup.fds
        self.settings = self.spec.settings
        self.layout = self.spec.layout
        self.seeding = seeding
        self.fds = fds
        self.segment = setup.segment
        self.control = Control(self.segment, self.layout)
        limit_below(pipeline, self.settings.workers, self.settings.timeout_s)
        item_seed = self.settings.item_seed
        begin_item = None if item_seed is None else partial(seed_item_of, item_seed, seeding.initial)
        self.evaluator = Evaluator(pipeline, begin_item)
        self._blocks: dict[int, JobBlock] = {}  # by slot
        self._arenas: dict[int, Block] = {}  # the memory of the slots again, for user code
        self._retains = False  # whether user code has kept memory of a slot; it gets no more then
        self._files: list[tuple[JobBlock, int, int]] = []  # by ticket: the parent may still read them
        self._scheduling = Scheduling()
        # Generators whose states are as in the parent, until the end of the first job.
        known = self.spec.generators
        held = generators(pipeline) if known else {}
        self._alike = {key: one for key, one in held.items() if key in known}
        self._arrivals = select.epoll()
        for pipe in (fds.jobs, fds.urgent):  # exclusive: a job wakes one idle worker, not all
            self._arrivals.register(pipe, select.EPOLLIN | linux.EPOLLEXCLUSIVE)

    def serve(self) -> None:
        """Run jobs until there are no more."""
        while len(message := self._next_job()) == JOB.size and not self.control.closing:
            ticket, slot, how, packing, a, b, c, epoch, order = JOB.unpack(message)
            self._close_files()
            begun, block = monotonic_ns(), self._blocks.get(slot) or self._block(slot)
            self.control.claim(self.number, ticket, begun)
            if block.belongs_to(ticket) and order >= self.control.order:
                block.begin(self.number, begun)
                try:
                    indices = unpack(block, packing, a, b, c, self.settings.pid)
                except BaseException as error:  # a key decides how it is unpickled
                    self._refuse(ticket, slot, error, b)
                else:
                    self._do(ticket, slot, block, epoch, indices, bool(how & 1), bool(how & 2))
            else:
                tell(self.fds, self.number, Kind.SKIPPED, ticket)
            self.control.finish(self.number)

    def _block(self, slot: int) -> JobBlock:
        block = self._blocks[slot] = JobBlock(self._memory(slot))
        self._arenas[slot] = self._memory(slot)
        return block

    def _memory(self, slot: int) -> Block:
        return self.segment.block(self.layout.slot_at(slot), self.layout.slot_bytes)

    def _writer(self, slot: int, items: int, is_whole: bool = False) -> Writer:
        limit = self.layout.slot_bytes if is_whole else GROUP_BYTES
        return Writer(self._blocks[slot], items, self._arenas[slot], self._record, limit)

    def _record(self, error: BaseException) -> Any:
        return record(error, self.evaluator.keyed)

    def _refuse(self, ticket: int, slot: int, error: BaseException, items: int) -> None:
        """Report that the indices of a job cannot be read: each of its items fails."""
        writer = self._writer(slot, items)
        count = 1
        while writer.fail(error):
            count += 1
        self._deliver(ticket, slot, writer, count, is_end=False, begun_ns=monotonic_ns())

    def _do(
        self,
        ticket: int,
        slot: int,
        block: JobBlock,
        epoch: int,
        indices: Any,
        is_whole: bool,
        is_timed: bool,
    ) -> None:
        """Run a job and deliver its items."""
        begun_ns, writer = monotonic_ns(), self._writer(slot, len(indices), is_whole)
        current_clock.set(block if is_timed else None)
        if epoch != self.seeding.epoch and self.settings.item_seed is None:
            self.seeding.begin(epoch)
        if len(indices) == 1:
            # Only the item of a single-item job may use memory of the slot. In a longer job, an item might
            # write to it again during the next item.
            with evaluating(None if self._retains else writer.allocate):
                is_end = self.evaluator.run(epoch, indices, writer)
        else:
            began = partial(block.words.__setitem__, 2) if is_timed else None
            goes_on = self._none_is_urgent if is_whole else None
            is_end = self.evaluator.run(epoch, indices, writer, self.spec.budget_ns, began, goes_on=goes_on)
        current_clock.set(None)
        if os.getpid() != self._pid:
            leave_fork()
        if self._alike:
            self._report_alike()
        count = block.finished() + bool(writer.overflow)
        if self.settings.workers == 1 and count < len(indices) and not is_end:
            self.control.reorder()  # before the parent knows that items are left
        self._deliver(ticket, slot, writer, count, is_end, begun_ns)

    def _report_alike(self) -> None:
        """Report a generator that the first job has drawn from as all workers would."""
        for key, held in self._alike.items():
            if state(held) != key[1]:
                tell(self.fds, self.number, Kind.ALIKE, items=self.spec.generators.index(key))
        self._alike.clear()

    def _none_is_urgent(self) -> bool:
        return fcntl.ioctl(self.fds.urgent, termios.FIONREAD, bytes(4)) == bytes(4)

    def _next_job(self) -> bytes:
        """Wait for a job. Return no bytes when there are no more jobs."""
        while True:
            for pipe in (self.fds.urgent, self.fds.jobs):
                with suppress(BlockingIOError):
                    message = os.read(pipe, JOB.size)
                    if pipe == self.fds.jobs and self.settings.workers == 1 and not self._none_is_urgent():
                        # The urgent job was sent between the two looks, and before this one. Skip this one.
                        self.control.reorder()
                    return message
            self._arrivals.poll()

    # ---------------------------------------------------------------- delivering

    def _deliver(
        self, ticket: int, slot: int, writer: Writer, count: int, is_end: bool, begun_ns: int
    ) -> None:
        file = -1
        is_retained = writer.allocated and self._is_retained(slot, writer)
        # User code may write to memory that it retains, while it computes the next item.
        if writer.overflow or (is_retained and writer.buffers):
            try:
                file = to_file(writer.contents())
                self._files.append((self._blocks[slot], ticket, file))
            except (OSError, MemoryError) as error:  # out of memory or descriptors
                writer.replace_last(error)
        flags = Flag.HAS_ARRAYS * bool(writer.buffers) | Flag.RETAINED * is_retained | Flag.IS_END * is_end
        cost_ns = monotonic_ns() - begun_ns
        if count:
            self._scheduling.adapt(cost_ns // count)
        tell(self.fds, self.number, Kind.DONE, ticket, count, writer.used, cost_ns, file, flags)
        writer.forget()

    def _close_files(self) -> None:
        """Close the files that the parent has read."""
        for file in self._files[:]:
            block, ticket, fd = file
            if block.was_read(ticket):
                os.close(fd)
                self._files.remove(file)

    def _is_retained(self, slot: int, writer: Writer) -> bool:
        """Return whether user code still holds memory of a slot that is about to be sent."""
        arena = weakref.ref(self._arenas[slot])
        self._arenas[slot] = writer.arena = self._memory(slot)
        if arena() is not None:
            gc.collect(1)  # a saved exception is a cycle
        is_retained = arena() is not None
        self._retains = self._retains or is_retained
        return is_retained


class Scheduling:
    """How the scheduler treats this process, adapted to the cost of items.

    The scheduler expects the writer of a pipe to wait for an answer, and gives the writer's processor to the
    process that it wakes. A consumer of quick items would hand out a third fewer of them while a processor
    is idle (`python -m benchmarks transport`). So workers of quick items run under `SCHED_BATCH`.
    Beside busy processes it would halve the rate of items that wait, so other workers do not.
    """

    def __init__(self) -> None:
        self._is_batch = False

    def adapt(self, item_ns: int) -> None:
        """Change the policy if items have become quick, or slow."""
        if item_ns < QUICK_NS and not self._is_batch:
            self._set(is_batch=True)
        elif item_ns > SLOW_NS and self._is_batch:
            self._set(is_batch=False)

    def _set(self, is_batch: bool) -> None:
        before, after = (os.SCHED_OTHER, os.SCHED_BATCH) if is_batch else (os.SCHED_BATCH, os.SCHED_OTHER)
        self._is_batch = is_batch
        with suppress(OSError):  # a sandbox may forbid it
            if os.sched_getscheduler(0) == before:  # not a policy that the user has chosen
                os.sched_setscheduler(0, after, os.sched_param(0))


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
