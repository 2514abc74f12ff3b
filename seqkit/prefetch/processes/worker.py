"""A worker process: takes jobs from a pipe, writes results into slots, and dies with its parent.

Guarantees
----------
- whatever an item raises, `SystemExit` and `KeyboardInterrupt` included, becomes the outcome of that item;
- a value that cannot be pickled costs its own item only, and the error says why;
- a result is complete in its slot before its record is written;
- memory of a slot that outlives its item is noticed: the slot is then not used again until it is gone;
- when the parent is gone, so is the worker, even in the middle of an item; Ctrl-C is the parent's affair.

Relies on
---------
- being single-threaded but for the watch on the parent, so that `seqkit.empty` needs no lock.
"""

from __future__ import annotations

import fcntl
import gc
import math
import os
import pickle
import select
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns, sleep
from typing import Any, cast
from zlib import crc32

import numpy as np
import threadpoolctl

from ...context import Allocator, evaluating, flush_streams, leave_process, set_worker_info
from ...errors import Policy, seterr
from ...view import View
from ..classes import refer_to_reader
from ..codec import INLINE_BYTES, Block, Frame, aligned, decode
from ..errors import record_failures
from ..evaluate import Evaluator, Settle
from ..hooks import Seeding, call_hook, worker_info
from ..results import Outcomes, Record, framed
from ..snapshot import snapshots
from .slots import PAGE, FreeMap, Segment
from .wire import FOLLOWED, JOB, RESULT, SHARED, Control, Kind, Spec, cell_blocks, unpack

__all__ = ["Descriptors", "boot", "leave", "main"]

# How often a worker looks for the slot that is reserved for its job. It is there; but between looking and
# taking, another worker may have taken it while a second one came free.
MOST_TRIES = 1000
# When a worker has had nothing to do for so long, it gives the pages of free slots back to the system; and
# when so many results in a row left most of a slot unused, the pages of the rest.
IDLE_S = 1.0
SMALL_IN_A_ROW = 8
SPARE_BYTES = 1 << 20


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


class Arena:
    """Hands out the memory of one slot to the item that is being evaluated.

    The slot is taken when memory is first needed: a small result never needs any.
    """

    __slots__ = ("_take", "block", "slot", "used")

    def __init__(self, take: Callable[[], tuple[int, Block]]) -> None:
        self._take = take
        self.slot = -1
        self.block: Block | None = None
        self.used = 0

    def open(self) -> Block:
        """Return the memory; of no bytes where there is none."""
        if self.block is None:
            self.slot, self.block = self._take()
        return self.block

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """Return an array in the slot, or None where that gains nothing or cannot be."""
        nbytes = dtype.itemsize * math.prod(shape)
        at = aligned(self.used)
        if nbytes < INLINE_BYTES or dtype.hasobject or at + nbytes > len(block := self.open()):
            return None
        self.used = at + nbytes
        return block[at : self.used].view(dtype).reshape(shape)


class JointArena:
    """Hands out the memory of a slot that the pieces of a batch share: of every array, this piece's rows.

    All pieces have to ask for the same arrays in the same order, of which `log` is to convince the parent.
    """

    def __init__(self, block: Block) -> None:
        self.block: Block | None = block
        self.used = 0
        self.log = 0

    def __call__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        return None  # an item's own arrays are nobody's rows

    def in_rows(self, first: int, count: int, total: int) -> Allocator:
        def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
            if not shape or shape[0] != count or dtype.hasobject or self.block is None:
                return None
            row = dtype.itemsize * math.prod(shape[1:])
            at = aligned(self.used)
            end = at + total * row
            if total * row < INLINE_BYTES or end > len(self.block):
                return None
            self.used = end
            self.log = crc32(f"{at} {shape[1:]} {dtype.str}".encode(), self.log)
            start = at + first * row
            return self.block[start : start + count * row].view(dtype).reshape(shape)

        return allocate


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
        self.seeding = seeding
        self.layout = spec.layout
        self.small_bytes = spec.small_bytes
        self.gives_back = spec.gives_back
        self.fds = fds
        self.segment = segment
        self.control = Control(segment, spec.layout)
        self._cells = cell_blocks(segment, spec.layout)
        self.free = FreeMap(segment, spec.layout.slots, spec.layout.free_map_at)
        self.evaluator = Evaluator(pipeline)
        self._kept: dict[int, weakref.ref[Block]] = {}
        self._small_in_a_row: dict[int, int] = {}  # by slot
        self._arrivals = select.epoll()
        # Exclusive: a job wakes one idle worker, not all.
        self._arrivals.register(fds.jobs, select.EPOLLIN | select.EPOLLEXCLUSIVE)

    def serve(self) -> None:
        """Take jobs until there will be no more."""
        while len(message := self._next_job()) == JOB.size and not self.control.closing:
            ticket, slot, cell, packing, a, b, c, epoch = JOB.unpack(message)
            begun = monotonic_ns()
            self.control.claim(self.number, ticket, begun)
            if not self.control.is_assigned(cell, ticket):
                tell(self.fds, self.number, Kind.SKIPPED, ticket)
                self.control.finish(self.number)
                continue
            indices = unpack((packing, a, b, c), self._cells[cell])
            if slot >= SHARED:
                self._serve_piece(ticket, epoch, indices, slot - SHARED, begun)
            else:
                arena = Arena(self._take if slot else self._take_none)
                if len(indices) == 1:
                    with evaluating(arena.allocate):
                        outcomes = self._outcomes(epoch, indices)
                else:
                    outcomes = self._outcomes(epoch, indices, partial(snapshots, allocate=arena.allocate))
                self._deliver(ticket, arena, outcomes, begun)
            self.control.finish(self.number)

    def _serve_piece(self, ticket: int, epoch: int, indices: Any, slot: int, begun: int) -> None:
        """Evaluate a piece of a batch whose slot others write, too: nothing else may be written there."""
        arena = JointArena(self._slot(slot))
        with evaluating(arena):
            outcomes = self._outcomes(epoch, indices)
        kind, head, end, small, stream = self._piece(outcomes, arena)
        # From here on nobody but user code may hold memory of the slot, or it would seem to survive.
        outcomes.values.clear()
        arena.block, block = None, weakref.ref(arena.block)
        if arena.used and _outlives(block):
            kind, small, stream = Kind.OUTLIVED, b"", ()
        cost = monotonic_ns() - begun
        tell(self.fds, self.number, kind, ticket, head, end, cost, arena.used, arena.log, small)
        for part in stream:
            _write_all(self.fds.bulk, part)

    def _piece(self, outcomes: Outcomes, arena: JointArena) -> tuple[int, int, int, bytes, Iterable[Any]]:
        """Return how a piece travels, its head and end, and its bytes: those with the record, and others."""
        frame = self._encode(outcomes, arena.block, arena.used)
        if frame.moved:  # part of it lies elsewhere: all of it goes through the pipe
            frame = self._encode(outcomes, None, 0)
            stream = frame.stream(None)
            return Kind.PIPE, frame.head, frame.end, b"", [b"".join(stream)] if arena.used else stream
        size = len(frame.tail)
        if size > self.small_bytes:
            return Kind.JOINT_PIPE, 0, size, b"", [frame.tail]
        return Kind.JOINT, 0, size, frame.tail, ()

    def _next_job(self) -> bytes:
        """Wait for a job; of no bytes when there will be none."""
        while True:
            try:
                return os.read(self.fds.jobs, JOB.size)
            except BlockingIOError:
                if not self._arrivals.poll(IDLE_S):
                    self._give_back()
                    self._arrivals.poll()

    def _give_back(self) -> None:
        """Give the memory of free slots back to the system; one at a time, as others may want them."""
        for slot, extent in enumerate(self.free.extents):
            if extent and self.free.take_this(slot, self.number):
                self._shrink(slot, 0)
                self.free.put_back(slot)

    def _shrink(self, slot: int, nbytes: int) -> None:
        if not self.gives_back:
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

    def _take(self) -> tuple[int, Block]:
        """Take the slot that is reserved for the job."""
        for number in range(MOST_TRIES):
            slot = self.free.take(self.number)
            if slot is not None:
                return slot, self._slot(slot)
            # Others took, and the parent freed, behind our back; or an idle worker gives memory back.
            sleep(0.0001 if number > 100 else 0)
        return self._take_none()

    def _take_none(self) -> tuple[int, Block]:
        return -1, self.segment.block(0, 0)

    def _slot(self, slot: int) -> Block:
        size = self.layout.slot_bytes
        return self.segment.block(self.layout.slots_at + slot * size, size)

    def _outcomes(self, epoch: int, indices: Any, settle: Settle = iter) -> Outcomes:
        if epoch != self.seeding.epoch:
            self.seeding.begin(epoch)
        outcomes = self.evaluator.run(epoch, indices, settle)
        if outcomes.failures:
            record_failures(outcomes, self.evaluator.keyed)
        return outcomes

    # ---------------------------------------------------------------- encoding

    def _encode(self, outcomes: Outcomes, block: Block | None, used: int) -> Frame:
        frame = framed(outcomes, block, used)
        self.evaluator.leave_if_forked()
        return frame

    # ---------------------------------------------------------------- delivering

    def _deliver(self, ticket: int, arena: Arena, outcomes: Outcomes, begun: int) -> None:
        frame = self._encode(outcomes, arena.block, arena.used)
        # From here on nobody but user code may hold memory of the slot, or it would seem to survive.
        outcomes.values.clear()
        head, end, used, placed, tail = frame.head, frame.end, arena.used, frame.placed, frame.tail
        is_short = len(tail) <= self.small_bytes
        fills = head if is_short else end
        stream: Iterable[Any] = ()
        if is_short and not placed:
            kind, head, end = Kind.SMALL, 0, len(tail)
        elif fills <= len(arena.open()):
            kind = Kind.SPLIT if is_short else Kind.SLOT
            frame.write(arena.open(), tail=not is_short)
        else:
            kind = Kind.PIPE
            stream = [b"".join(frame.stream(arena.block))] if used else frame.stream(None)
        del frame
        is_there = kind in (Kind.SPLIT, Kind.SLOT)
        if arena.slot >= 0:
            self._trim(arena.slot, fills if is_there else used)
        survives = used > 0 and self._survives(arena)
        if survives and is_there:
            # Whoever kept the memory may write to it again while the next item is evaluated.
            kind, is_there = Kind.PIPE, False
            stream = [self._slot(arena.slot)[:head].tobytes(), tail]
        cost = monotonic_ns() - begun
        more, small = placed if is_there else survives, tail if kind in FOLLOWED else b""
        tell(self.fds, self.number, kind, ticket, head, end, cost, arena.slot, more, small)
        for part in stream:
            _write_all(self.fds.bulk, part)

    def _survives(self, arena: Arena) -> bool:
        """Does user code still hold memory of a slot that is about to be handed over?"""
        control, kept, slot, pid = self.control, self._kept, arena.slot, os.getpid()

        def gone(_: Any) -> None:
            if os.getpid() == pid:  # and not in a process that an item forked
                kept.pop(slot, None)
                control.let_go(slot)

        assert arena.block is not None
        reference = weakref.ref(arena.block, gone)
        kept[slot] = reference
        control.keep(slot, self.number)
        arena.block = None
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
    head: int = 0,
    end: int = 0,
    cost: int = 0,
    slot: int = -1,
    more: int = 0,
    small: bytes = b"",
) -> None:
    """Send the parent a record, and a small frame with it."""
    os.write(fds.results, RESULT.pack(ticket, worker, kind, head, end, cost, slot, more) + small)


def _write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(fd, view) :]


# -------------------------------------------------------------------- the life of a worker


def main(
    number: int,
    spec: Spec,
    fds: Descriptors,
    segment: Segment,
    pipeline: View[Any],
    libraries: threadpoolctl.ThreadpoolController | None = None,
    forked: bool = True,
) -> None:
    """Be worker `number` until the parent closes the node, or is gone.

    `libraries` are those of this process that have thread pools, if somebody knows them already. Who is
    `forked` has the parent's main module.
    """
    _settle(fds)
    if forked:
        refer_to_reader()
    with (libraries or threadpoolctl.ThreadpoolController()).limit(limits=spec.native_threads or None):
        try:
            info = worker_info(number, spec.num_workers, spec.seed, "process")
            seeding = Seeding(info.seed, partial(Control(segment, spec.layout).count, number))
            set_worker_info(info)
            seterr(cast(Policy, spec.errors))
            call_hook(spec.hook, number)
        except BaseException as error:
            report_failure(number, fds, error)
            return
        try:
            tell(fds, number, Kind.READY)
            Worker(number, spec, fds, segment, pipeline, seeding).serve()
            leave_process()
        except BrokenPipeError:
            pass  # the parent is gone


def report_failure(number: int, fds: Descriptors, error: BaseException) -> None:
    """Tell the parent that this worker cannot start."""
    data = pickle.dumps(Record.of(error))
    try:
        tell(fds, number, Kind.FAILED, end=len(data))
        _write_all(fds.bulk, data)
    except BrokenPipeError:
        pass


def _settle(fds: Descriptors) -> None:
    """Make a process a worker: no handlers of the parent's, no life without it."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # What was inherited by fork stays out of the collector's way, so that its pages stay shared.
    gc.freeze()
    _tie(fds.tether)
    _stand_back()

    def watch() -> None:
        poll = select.poll()
        poll.register(fds.parent, select.POLLIN)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    # A descriptor reaches its end only once every inherited copy is closed; a pidfd tells at once.
    threading.Thread(target=watch, name="seqkit-watch", daemon=True).start()


def _stand_back() -> None:
    """Have the scheduler not interrupt the reader whenever a job wakes this process.

    It thinks that who writes into a pipe is about to wait for an answer, and lets the one that it wakes have
    the processor at once: the reader would hand out a third fewer small items, while a processor idles
    (`python -m tests.benchmarks transport`). The share of processor time stays what it was.
    """
    with suppress(OSError, AttributeError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _tie(tether: int) -> None:
    """Have the kernel kill this process when the other end of a pipe is closed.

    No thread of ours can, where an item computes for long without giving up the interpreter lock.
    """
    try:
        # Whom to signal belongs to an open file, which workers share until they open it anew.
        own = os.open(f"/proc/self/fd/{tether}", os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    except OSError:
        pass  # no /proc: the watch has to do


def leave() -> None:
    """End the process without what the parent's interpreter would do at its exit."""
    flush_streams()
    os._exit(0)


def boot(
    number: int,
    frame: Sequence[int],
    fds: Sequence[int],
    libraries: threadpoolctl.ThreadpoolController | None = None,
) -> None:
    """Become a worker in a fresh interpreter: unpack the shipment, then `main`.

    `frame` is its head and end; its descriptor is the first of `fds`. `libraries` are those with thread pools
    that are loaded by now.
    """
    shipped, *rest = fds
    loaded = len(sys.modules)
    descriptors = Descriptors(*rest)
    head, end = frame
    for fd in fds:
        os.set_inheritable(fd, False)  # what an item starts may live longer than the node
    try:
        shipment = Segment(shipped, end, private=True)
        spec, pipeline = decode(shipment.block(0, end), head, end)
        segment = Segment(descriptors.segment, spec.layout.size)
    except BaseException as error:
        report_failure(number, descriptors, error)
    else:
        known = libraries if len(sys.modules) == loaded else None
        main(number, spec, descriptors, segment, pipeline, known, forked=False)
    leave()
