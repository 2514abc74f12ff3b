"""The backend of processes: jobs out through one pipe, records back through another, results in slots.

Guarantees
----------
- workers pull: any idle worker takes the next job, without the parent's help;
- nothing polls at intervals: one wait covers results, worker deaths and `wake`;
- a worker that dies costs at most the job it had, and that is reported as `Lost`; it is replaced;
- a job that may be in two hands is given a fresh ticket and a fresh slot, so no two workers ever write one
  slot whose result is used;
- a constant number of descriptors: 7, and 2 for every worker;
- after `close`, no process, descriptor or name is left; leased memory lives on by itself.

Relies on
---------
- the parent alone writing jobs, in ticket order, so what is queued is always the last that was sent;
- Linux: memfd, pidfd, eventfd.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import secrets
import select
import struct
import termios
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, monotonic_ns
from typing import Any

import numpy as np

from ..errors import seterr
from ..view import View
from .backend import Done, Event, Failed, Job, Lost
from .codec import ALIGNMENT, Block, address, decode
from .launch import Child, Fork, ForkServer, Launcher, Shipment, Spawn
from .outcome import Outcomes
from .slots import PAGE, Segment, SlotPool, State
from .wire import CELL_BYTES, JOB, RESULT, Control, Kind, Layout, Spec, pack
from .worker import Descriptors

__all__ = ["Processes"]

# How long a worker that has nothing to do may take to leave when the node is closed, and how long one that
# computes may go on; then it is killed.
GRACE_S = 0.25
# How long a job that nobody seems to have is given to turn up with a living worker.
SETTLE_S = 0.1
SLOT_BYTES_MAX = 1 << 30


# -------------------------------------------------------------------- parcels


@dataclass(slots=True)
class _Memory:
    """A result in private memory: it came through a pipe, or was copied out of its slot."""

    block: Block
    head: int
    nbytes: int

    def claim(self) -> None:
        pass

    def open(self) -> Outcomes:
        return _outcomes(self.block, self.head)

    def detach(self) -> bool:
        return False

    def discard(self) -> None:
        pass


class _InSlot:
    """A result in its slot."""

    def __init__(self, backend: Processes, slot: int, head: int, end: int, survives: bool) -> None:
        self._backend = backend
        self._slot = slot
        self._head = head
        self.nbytes = end
        self._survives = survives
        self._block: Block | None = None

    def claim(self) -> None:
        if self._block is not None:
            return
        pool = self._backend.pool
        block = pool.block(self._slot, self.nbytes)
        if not self._survives and not _placed(block, self._head):
            # Nothing but a pickle: read from a copy of it, and the slot is free at once.
            self._block = block[self._head :].copy()
            self._head = 0
            self.discard()
        elif self._survives or pool.count(State.LEASED) >= self._backend.most_leases:
            self.detach()
        else:
            self._block = pool.lease(self._slot, self.nbytes)

    def open(self) -> Outcomes:
        assert self._block is not None
        block, self._block = self._block, None
        return _outcomes(block, self._head)

    def detach(self) -> bool:
        if self._block is not None:
            return False
        self._block = _private(self.nbytes)
        self._block[:] = self._backend.pool.block(self._slot, self.nbytes)
        self._backend.copies += 1
        self.discard()
        return True

    def discard(self) -> None:
        if self._survives:
            self._backend.pool.retire(self._slot)
        else:
            self._backend.pool.release(self._slot)


def _private(size: int) -> Block:
    """Return memory of our own, aligned like a slot."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    skip = -address(block) % ALIGNMENT
    return block[skip : skip + size]


def _placed(block: Block, head: int) -> int:
    return int(block[head : head + 8].view(np.int64)[0])


def _outcomes(block: Block, head: int) -> Outcomes:
    return Outcomes(*decode(block, head, len(block)))


# -------------------------------------------------------------------- the backend


@dataclass(slots=True)
class _Employee:
    """A worker as the parent sees it."""

    number: int
    child: Child
    bulk: int
    ready: bool = False


@dataclass(slots=True)
class _Sent:
    """A job in flight: its place in memory, and whether it was given up."""

    slot: int
    cell: int


class Processes:
    """Evaluates jobs in worker processes.

    Parameters
    ----------
    pipeline : View
    workers : int
    context : "fork", "forkserver" or "spawn"
    hook : callable or None
        Called in every worker before its first item.
    capacity : int
        Most jobs in flight.
    most_leases : int
        Most slots that readers may hold; beyond, results are copied out.
    shm_bytes : int or None
        Bytes of all slots together; 0 for no slots, None for as much as the machine's memory.
    native_threads : int
        Threads of BLAS and OpenMP in a worker; 0 leaves them alone.
    """

    def __init__(
        self,
        pipeline: View[Any],
        workers: int,
        context: str,
        hook: Callable[..., Any] | None,
        capacity: int,
        most_leases: int,
        shm_bytes: int | None,
        native_threads: int,
    ) -> None:
        self._pipeline = pipeline
        self._context = context
        self._native_threads = native_threads
        self._wanted_capacity = capacity
        self._workers = workers
        self._hook = hook
        self._shm_bytes = shm_bytes
        self.most_leases = most_leases
        self.capacity = capacity
        self.copies = 0
        self.misses = 0
        self._pid = os.getpid()
        self._fds: dict[str, int] = {}
        self._team: dict[int, _Employee] = {}  # by pidfd
        self._sent: dict[int, _Sent] = {}  # by ticket, in the order of sending
        self._limbo: dict[int, _Sent] = {}  # lost jobs that a living worker may yet deliver
        self._timed_out: set[int] = set()
        self._events: list[Event] = []
        self._closed = False
        self._final: dict[str, int] | None = None
        self._segment: Segment | None = None
        self._launcher: Launcher | None = None
        self._poll = select.poll()
        _living.add(self)

    # ---------------------------------------------------------------- starting

    def start(self) -> None:
        jobs_out, jobs_in = os.pipe()
        self._fds.update(jobs=jobs_out, send=jobs_in)
        results_out, results_in = os.pipe()
        self._fds.update(receive=results_out, results=results_in)
        self._fds["wake"] = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fds["self"] = os.pidfd_open(self._pid)
        os.set_blocking(results_out, False)
        # A pipe may hold no more than a page; what is in flight must fit, so that nobody blocks in a write.
        records = fcntl.fcntl(jobs_in, fcntl.F_GETPIPE_SZ) // JOB.size
        self.capacity = min(self._wanted_capacity, records)
        self._make_segment()
        self._spec = Spec(
            self._layout,
            self._workers,
            secrets.randbits(64),
            self._native_threads,
            seterr(),
            self._hook,
        )
        self._cells = list(range(self.capacity))
        self._launcher = self._make_launcher(self._context)
        self._poll.register(self._fds["receive"], select.POLLIN)
        self._poll.register(self._fds["wake"], select.POLLIN)
        for number in range(self._workers):
            self._employ(number, self._launcher)

    def _make_segment(self) -> None:
        slots = self.capacity + self.most_leases
        slot_bytes = self._slot_bytes(slots)
        while True:
            self._layout = Layout(self._workers, self.capacity, slots if slot_bytes else 0, slot_bytes)
            try:
                self._segment = Segment.create(self._layout.size)
                break
            except OSError:  # a limit on address space or file size: slots need not be that large
                slot_bytes = slot_bytes // 2 // PAGE * PAGE
                if self._shm_bytes is not None or not slot_bytes:
                    raise
        self._control = Control(self._segment, self._layout)
        self.pool = SlotPool(self._segment, self._layout.slots, slot_bytes, self._layout.slots_at)

    def _slot_bytes(self, slots: int) -> int:
        if self._shm_bytes is None:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return min(memory // slots, SLOT_BYTES_MAX) // PAGE * PAGE
        return self._shm_bytes // slots // PAGE * PAGE

    def _make_launcher(self, context: str) -> Launcher:
        assert self._segment is not None
        if context == "fork":
            return Fork(self._spec, self._pipeline, self._segment, self._isolate)
        shipment = Shipment(self._spec, self._pipeline)
        return (Spawn if context == "spawn" else ForkServer)(shipment, self._native_threads)

    def _employ(self, number: int, launcher: Launcher) -> None:
        assert self._segment is not None
        bulk_out, bulk_in = os.pipe()
        try:
            fds = Descriptors(
                self._fds["jobs"], self._fds["results"], bulk_in, self._segment.fd, self._fds["self"]
            )
            self._fds["bulk"] = bulk_out  # for a forked child to close
            with _launching(self):
                child = launcher.launch(number, fds)
        except BaseException:
            os.close(bulk_out)
            raise
        finally:
            os.close(bulk_in)
            self._fds.pop("bulk", None)
        self._team[child.pidfd] = _Employee(number, child, bulk_out)
        self._poll.register(child.pidfd, select.POLLIN)

    def _isolate(self) -> None:
        """In a forked worker: close the parent's ends, without which a pipe has no end."""
        for name in ("send", "receive", "wake", "bulk"):
            os.close(self._fds[name])
        for employee in self._team.values():
            os.close(employee.bulk)
            os.close(employee.child.pidfd)

    # ---------------------------------------------------------------- jobs

    def ready(self) -> bool:
        if not self._layout.slots:
            return True
        for slot in self.pool.retired():
            if not self._control.is_kept(slot):
                self.pool.restore(slot)
        return self.pool.available() > 0

    def submit(self, job: Job) -> None:
        if not self._cells:
            self._settle_limbo()
        cell = self._cells.pop()
        offset = self._layout.cells_at + cell * CELL_BYTES
        try:
            packed = pack(job.indices, self._segment.block(offset, CELL_BYTES))  # type: ignore[union-attr]
        except BaseException:
            self._cells.append(cell)
            raise
        slot = self.pool.acquire()
        slot = -1 if slot is None else slot
        self._control.cancel(cell, 0)
        self._sent[job.ticket] = _Sent(slot, cell)
        os.write(self._fds["send"], JOB.pack(job.ticket, slot, cell, *packed, job.epoch))

    def cancel(self, ticket: int) -> None:
        sent = self._sent.get(ticket)
        if sent is not None and not self._closed:
            self._control.cancel(sent.cell, ticket)

    # ---------------------------------------------------------------- results

    def receive(self, timeout: float | None) -> list[Event]:
        self._read_records()
        if not self._events:
            wait_ms = None if timeout is None else max(0, int(timeout * 1000) + 1)
            dead = []
            for fd, _ in self._poll.poll(wait_ms):
                if fd == self._fds["wake"]:
                    os.eventfd_read(fd)
                elif fd in self._team:
                    dead.append(fd)
            self._read_records()  # what a worker delivered before it died
            for fd in dead:
                self._bury(fd)
        events, self._events = self._events, []
        return events

    def _read_records(self) -> None:
        while True:
            try:
                data = os.read(self._fds["receive"], 64 * RESULT.size)
            except BlockingIOError:
                return
            for record in RESULT.iter_unpack(data):
                self._note(*record)

    def _note(
        self, ticket: int, worker: int, kind: int, head: int, end: int, cost: int, survives: int, _: int
    ) -> None:
        employee = next((e for e in self._team.values() if e.number == worker), None)
        if kind == Kind.READY:
            if employee is not None:
                employee.ready = True
            return
        block = self._read_bulk(employee, end) if kind != Kind.SLOT else None
        if kind == Kind.FAILED:
            if block is not None:
                self._events.append(Failed(pickle.loads(block.data).rebuild()))
            return
        sent = self._sent.pop(ticket, None)
        if sent is None:
            self._discard_late(ticket, bool(survives))
            return
        if kind == Kind.PIPE:
            self.misses += self._layout.slots > 0
            self._free(sent, bool(survives))
            if block is None:  # it died while it sent: the job is lost, `_bury` will not find it any more
                self._events.append(self._obituary(ticket, employee))
                return
            self._events.append(Done(ticket, _Memory(block, head, end), cost, worker))
            return
        self._cells.append(sent.cell)
        parcel = _InSlot(self, sent.slot, head, end, bool(survives))
        self._events.append(Done(ticket, parcel, cost, worker))

    def _free(self, sent: _Sent, survives: bool = False) -> None:
        self._cells.append(sent.cell)
        if sent.slot >= 0:
            (self.pool.retire if survives else self.pool.release)(sent.slot)

    def _read_bulk(self, employee: _Employee | None, size: int) -> Block | None:
        """Read what a worker streams; None if it dies before the end."""
        if employee is None:
            return None
        block = _private(size)
        rest = block.data
        while len(rest):
            count = os.readv(employee.bulk, [rest])
            if not count:
                return None
            rest = rest[count:]
        return block

    # ---------------------------------------------------------------- deaths

    def _bury(self, pidfd: int) -> None:
        """A worker is gone: report what it had, and replace it."""
        employee = self._team.pop(pidfd)
        self._poll.unregister(pidfd)
        cause = employee.child.cause()
        os.close(pidfd)
        os.close(employee.bulk)
        if not employee.ready:
            self._events.append(
                Failed(
                    RuntimeError(f"worker {employee.number} (pid {employee.child.pid}) {cause} at its start")
                )
            )
            return
        ticket = self._had(employee.number)
        if ticket is not None:
            self._events.append(self._lost(ticket, employee, cause))
        self._control.claim(employee.number, 0, 0)
        self._employ(employee.number, self._replacement_launcher())

    def _lost(self, ticket: int, employee: _Employee, cause: str) -> Lost:
        sent = self._sent.pop(ticket)
        if self._control.claimed(employee.number)[0] == ticket:
            self._free(sent)
        else:
            self._limbo[ticket] = sent
        timed_out = ticket in self._timed_out
        self._timed_out.discard(ticket)
        return Lost(ticket, employee.number, employee.child.pid, cause, timed_out)

    def _obituary(self, ticket: int, employee: _Employee | None) -> Lost:
        number, pid = (employee.number, employee.child.pid) if employee else (-1, 0)
        return Lost(ticket, number, pid, "ended while it sent its result")

    def _had(self, number: int) -> int | None:
        """Return the job a dead worker had: the one it claimed, or the one that nobody has."""
        claimed, _ = self._control.claimed(number)
        if claimed in self._sent:
            return claimed
        # It may have died between taking a job and claiming it. What is still in the pipe are the last
        # jobs sent; of the others, each is claimed by a living worker, or about to be, or was the dead one's.
        deadline = monotonic() + SETTLE_S
        while True:
            orphans = self._unclaimed()
            if not orphans or monotonic() > deadline:
                return orphans[0] if orphans else None
            self._read_records()
            os.sched_yield()

    def _unclaimed(self) -> list[int]:
        queued = struct.unpack("i", fcntl.ioctl(self._fds["jobs"], termios.FIONREAD, bytes(4)))[0] // JOB.size
        taken = list(self._sent)[: len(self._sent) - queued]
        claims = {self._control.claimed(e.number)[0] for e in self._team.values()}
        return [ticket for ticket in taken if ticket not in claims]

    def _discard_late(self, ticket: int, survives: bool) -> None:
        """A job that was thought lost was only slow to be claimed: its result is not wanted any more."""
        sent = self._limbo.pop(ticket, None)
        if sent is not None:
            self._free(sent, survives)

    def _settle_limbo(self) -> None:
        """Take back cells of lost jobs that no living worker is at."""
        claims = {self._control.claimed(e.number)[0] for e in self._team.values()}
        for ticket in [ticket for ticket in self._limbo if ticket not in claims]:
            self._free(self._limbo.pop(ticket))

    def _replacement_launcher(self) -> Launcher:
        """Return who launches now: with threads about, a fork could copy a lock that is held for ever."""
        assert self._launcher is not None
        if isinstance(self._launcher, Fork) and threading.active_count() > 1:
            try:
                self._launcher = self._make_launcher("forkserver")
            except TypeError:
                pass  # it cannot be shipped, so forking is the only way
        return self._launcher

    # ---------------------------------------------------------------- time, waking, the end

    def running_s(self) -> dict[int, float]:
        now = monotonic_ns()
        claims = [self._control.claimed(e.number) for e in self._team.values()]
        return {ticket: (now - begun) / 1e9 for ticket, begun in claims if ticket in self._sent}

    def stop(self, ticket: int) -> None:
        for employee in self._team.values():
            if self._control.claimed(employee.number)[0] == ticket:
                self._timed_out.add(ticket)
                employee.child.kill()

    def wake(self) -> None:
        os.eventfd_write(self._fds["wake"], 1)

    def statistics(self) -> dict[str, int]:
        if self._final is not None:
            return self._final
        return {
            "copies": self.copies,
            "misses": self.misses,
            "slots": self._layout.slots,
            "slot_bytes": self._layout.slot_bytes,
            "leased": self.pool.count(State.LEASED),
            "retired": self.pool.count(State.RETIRED),
        }

    def close(self) -> None:
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        _living.discard(self)
        if self._segment is not None:
            self._final = self.statistics()
            self._control.close()
        if "send" in self._fds:
            os.close(self._fds.pop("send"))  # who waits for a job reads the end of the pipe
        self._dismiss()
        if self._launcher is not None:
            self._launcher.close()
        if self._segment is not None:
            self._segment.close()
            # From here on only leased arrays keep the memory mapped.
            del self.pool, self._control
        self._segment = self._launcher = None
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def _dismiss(self) -> None:
        """Wait for the workers to leave, and kill those that do not."""
        deadline = monotonic() + GRACE_S
        waiting = select.poll()
        for pidfd in self._team:
            waiting.register(pidfd, select.POLLIN)
        left = set(self._team)
        while left and (rest := deadline - monotonic()) > 0:
            for pidfd, _ in waiting.poll(rest * 1000):
                waiting.unregister(pidfd)
                left.discard(pidfd)
        for pidfd, employee in self._team.items():
            if pidfd in left:
                employee.child.kill()
            employee.child.cause()
            os.close(pidfd)
            os.close(employee.bulk)
        self._team.clear()

    def forget(self) -> None:
        """In a child that user code forked: close the engine's descriptors, so that they can end."""
        fds = [*self._fds.values()]
        for employee in self._team.values():
            fds += [employee.bulk, employee.child.pidfd]
        if self._segment is not None:
            fds.append(self._segment.fd)
        for fd in fds:
            try:
                os.close(fd)
            except OSError:
                pass
        self._fds.clear()
        self._team.clear()
        self._closed = True


# -------------------------------------------------------------------- forks that are not ours

_living: weakref.WeakSet[Processes] = weakref.WeakSet()
_at_launch: Processes | None = None


class _launching:  # noqa: N801 - used as a function
    """Marks the node that forks a worker of its own, which keeps some of the descriptors."""

    def __init__(self, backend: Processes) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        global _at_launch
        _at_launch = self._backend

    def __exit__(self, *_: object) -> None:
        global _at_launch
        _at_launch = None


def _after_fork_in_child() -> None:
    for backend in list(_living):
        if backend is not _at_launch:
            backend.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
