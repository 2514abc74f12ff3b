"""The backend of processes: jobs go through two pipes, records return through a third, items lie in slots.

Guarantees
----------
- Workers pull jobs. Any idle worker takes the next job, without the parent's help.
- One wait covers results, worker deaths and `wake`. Only finished items of jobs that are still running are
  looked for at intervals (`Job.taken`).
- A worker that dies loses at most the job it had. The job is reported as `Lost`, and the worker is
  replaced.
- A job that was taken and never claimed is revoked before it is sent again. So two workers never write to
  one slot.
- A worker cannot block the parent.
- The number of descriptors is constant: 11, plus 1 for every worker, 2 for a pickled pipeline, and 2 for a
  template.
- After `close`, no process, descriptor or name is left. Leased memory stays valid.

Relies on
---------
- Only the parent writes jobs, in ticket order. So the jobs in a pipe are always the last jobs that were
  sent.
- Linux: memfd, pidfd.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import struct
import termios
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy.random  # noqa: F401  a worker forked while another thread imports it would deadlock

from ...core import units
from ...core.errors import seterr
from ...core.tracebacks import warn
from ...core.view import View
from .. import stacks
from ..generators import generators
from ..protocol import Backend, Done, Event, Failed, Job, Lost, Skipped
from ..resources import native_threads
from ..results import HEADER_BYTES, EncodedResult, Ready, Result, SlotResult, private
from ..settings import Settings
from ..signals import CtrlCHeld
from ..torch_modes import current_modes
from . import linux, user_forks
from .block import JobBlock, Packing, from_file, most_items, pack
from .interpreter import require_streams
from .segment import PAGE, Segment
from .slots import SlotPool
from .team import MOST_DEATHS, Death, Team, WorkerHandle, starting
from .wire import ERROR_BYTES, JOB, RESULT, URGENT, Control, Flag, Kind, SegmentLayout, Spec
from .worker import Descriptors, WorkerSetup

# How long workers may take to end when the node is closed. After that they are killed, even if they are
# computing an item.
GRACE_S = 0.25
# How long to wait until a worker sees that its job was revoked, or the parent sees that a job was claimed.
VISIBLE_S = 0.001
# How long to wait for a worker to end whose files are already closed.
END_S = 1.0
SLOT_BYTES_MAX = 1 << 30
READ_BYTES = 1 << 16


class _Sent:
    """A job in a slot: its block, and how far its worker is."""

    __slots__ = ("_taken_end", "block", "items", "slot")

    def __init__(self, slot: int, block: JobBlock, items: int) -> None:
        self.slot = slot
        self.block = block
        self.items = items
        self._taken_end = 0  # where the data of the items that were taken ends

    @property
    def worker(self) -> int:
        return self.block.worker()

    def ran_s(self) -> float | None:
        return self.block.ran_s()

    def finished(self) -> int:
        return self.block.finished()

    def take(self, first: int, stop: int) -> Result:
        result = self.copy(first, stop, self.block.used())
        # Not what is used now: the next item may lie there already, and not be finished.
        self._taken_end = max(self._taken_end, self.block.end_of(first, stop))
        return result

    def copy(self, first: int, stop: int, used: int) -> Result:
        """Return items in private memory. `used` is the size of the block up to their end."""
        try:
            memory = private(used)
        except MemoryError as error:
            return Ready.failed(error, stop - first)
        table = min(HEADER_BYTES + 16 * self.items, used)
        for part in slice(table), slice(max(table, self._taken_end), used):
            memory[part] = self.block.memory[part]
        return EncodedResult(memory, first, stop, self.nbytes(used))

    def nbytes(self, used: int) -> int:
        """Return the size of the items in a block that is used up to `used`."""
        return max(0, used - HEADER_BYTES - 16 * self.items)


class Processes(Backend):
    """Evaluate jobs in worker processes.

    Parameters
    ----------
    pipeline : View
    settings : Settings
        With a seed. The context None checks whether forking is safe.
    budget_ns : int
        How long a job of several items may take.
    said : set of str, optional
        The warnings that the node has given, which its next workers do not give again. A warning that a
        filter turns into an exception would otherwise end the workers at the same item for ever.
    """

    def __init__(
        self,
        pipeline: View[Any],
        settings: Settings,
        budget_ns: int,
        said: set[str] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._budget_ns = budget_ns
        self.capacity, self._slots = settings.slot_counts()
        self.keeps_order = settings.workers == 1
        self.misses = 0
        self.nbytes = 0
        self.restarts = 0
        self._said: set[str] = set() if said is None else said
        self._pid = os.getpid()
        self._fds: dict[str, int] = {}
        self._team: Team | None = None
        self._sent: dict[int, Job] = {}  # by ticket, in the order of sending
        self._events: list[Event] = []
        self._unread = b""  # the beginning of an incomplete record
        self._unsent: dict[int, Job] = {}
        self._files: dict[int, int] = {}  # with the indices that do not fit their slots, by ticket
        self._records: tuple[list[bytes], list[bytes]] = [], []  # unsent records: jobs, and urgent jobs
        # Held while jobs are noted and written, so that `_orphans` sees both or neither. Reentrant, because
        # a signal handler may read the node.
        self._sending = threading.RLock()
        self._closed = False
        self._ended = False
        self._final: dict[str, int] = {}
        self._segment: Segment | None = None
        self._poll = select.poll()
        user_forks.living.add(weakref.ref(self, user_forks.living.discard))

    # ---------------------------------------------------------------- starting

    def start(self) -> None:
        require_streams()
        with CtrlCHeld():  # an interruption could lose descriptors that are not stored yet
            self._make_pipes()
            self._make_segment()
        settings = replace(self._settings, pid=self._pid, pinner=None)  # a pinner may not travel
        held = tuple(generators(self._pipeline))
        self._spec = Spec(
            settings, self._layout, self._budget_ns, native_threads(), seterr(), current_modes(), held
        )
        self._poll.register(self._fds["results_r"], select.POLLIN)
        self._poll.register(self._fds["wake_r"], select.POLLIN)
        assert self._segment is not None
        names = "jobs_r", "urgent_r", "results_w", "pidfd"
        jobs, urgent, results, own = map(self._fds.__getitem__, names)
        inherited = Descriptors(jobs, urgent, results, own, self._segment.fd)
        setup = WorkerSetup(self._spec, self._pipeline, self._segment, inherited)
        self._team = Team(setup, settings.context, self._poll, self._isolate)
        self._team.start()

    def _make_pipes(self) -> None:
        for name in ("jobs", "urgent", "results"):
            self._fds[f"{name}_r"], self._fds[f"{name}_w"] = os.pipe()
        self._fds["wake_r"], self._fds["wake_w"] = linux.make_wake()
        self._fds["pidfd"] = linux.pidfd_open(self._pid)
        for name in ("jobs_r", "urgent_r", "results_r"):
            os.set_blocking(self._fds[name], False)
        # The jobs in flight must fit the pipe, so that no write blocks. A write that does not fit the rest
        # of a page begins another page, and a page is not free before it is read completely. So only one
        # page of records is sure to fit in two pages.
        pages = fcntl.fcntl(self._fds["jobs_w"], fcntl.F_GETPIPE_SZ) // PAGE
        self.capacity = min(self.capacity, max(1, pages // 2 * (PAGE // JOB.size)))

    def _make_segment(self) -> None:
        workers, slots = self._settings.workers, self._slots
        slot_bytes, is_limited = self._slot_bytes(slots), False
        while True:
            self._layout = SegmentLayout(self._settings.numbers.stop, slots, slot_bytes)
            try:
                self._segment = Segment.create(self._layout.size)
                break
            except OSError:  # a limit of address space or file size
                if slot_bytes == PAGE:
                    raise
                # The first time, leave most of what is left to the user's own data.
                slot_bytes = max(slot_bytes >> (1 if is_limited else 3) & -PAGE, PAGE)
                is_limited = True
        self._control = Control(self._segment, self._layout)
        self._blocks: dict[int, JobBlock] = {}  # by slot
        self.pool = SlotPool(
            self._segment,
            slots,
            slot_bytes,
            self._layout.slots_at,
            self._settings.pinner,
            spare=2 * workers,
        )
        self.most_items = most_items(slot_bytes)

    def _slot_bytes(self, slots: int) -> int:
        """Return the size of a slot. Pages that are not written cost only address space."""
        if self._settings.shm_size is None:
            most = min(os.sysconf("SC_PHYS_PAGES") * PAGE // 4, SLOT_BYTES_MAX)
        else:
            most = self._settings.shm_size // slots
        return max(most & -PAGE, PAGE)

    def _block(self, slot: int) -> JobBlock:
        block = self._blocks.get(slot)
        if block is None:
            block = self._blocks[slot] = JobBlock(self.pool.block(slot, self._layout.slot_bytes))
        return block

    def _isolate(self) -> None:
        """Close the parent's pipe ends in a forked worker. Otherwise the pipes would never report their
        end."""
        # The numbers may soon stand for other files, which a fork by user code must not close.
        user_forks.living.discard(weakref.ref(self))
        names = "jobs_w", "urgent_w", "results_r", "wake_r", "wake_w"
        for fd in [*map(self._fds.__getitem__, names), *self._files.values()]:
            os.close(fd)

    @property
    def _handles(self) -> dict[int, WorkerHandle]:
        return self._team.handles if self._team is not None else {}

    # ---------------------------------------------------------------- jobs

    def has_room(self) -> bool:
        return self.pool.available() > 0

    def submit(self, job: Job) -> None:
        slot = self.pool.reserve()
        try:
            block = self._block(slot)
            packed = pack(job.indices, block)
        except BaseException:
            self.pool.release(slot)
            raise
        if packed[0] == Packing.FILE:
            self._files[job.ticket] = packed[3]
        block.assign(job.ticket)
        job.progress = _Sent(slot, block, len(job.indices))
        self._unsent[job.ticket] = job
        flags = job.is_whole | job.is_timed << 1
        order = URGENT if job.is_urgent else job.order
        record = JOB.pack(job.ticket, slot, flags, *packed, job.consumer.epoch, order)
        self._records[job.is_urgent].append(record)  # last, because a job must be noted before it is sent

    def flush(self) -> None:
        """Send the submitted jobs. Use one write per worker, because each write wakes one idle worker."""
        if not any(self._records):
            return
        (records, urgent), self._records = self._records, ([], [])
        with self._sending:
            self._sent.update(self._unsent)
            self._unsent.clear()
            self._write(self._fds["urgent_w"], urgent)
            self._write(self._fds["jobs_w"], records)

    def _write(self, fd: int, records: list[bytes]) -> None:
        size = min(-(-len(records) // self._settings.workers), select.PIPE_BUF // JOB.size)
        for first in range(0, len(records), size or 1):
            os.write(fd, b"".join(records[first : first + size]))

    def cancel(self, job: Job) -> None:
        sent = job.progress
        if sent is not None and not self._closed:  # as in a forked child, which must not write there
            sent.block.cancel(job.ticket)  # has no effect if another job has the slot by now

    @property
    def order(self) -> int:
        return self._control.order

    # ---------------------------------------------------------------- results

    def receive(self, timeout_s: float) -> list[Event]:
        assert self._team is not None
        timeout_s = self._team.patience_s(timeout_s)
        wait_ms = 0 if self._events else int(timeout_s * 1000) + 1  # `stop` may have found events
        for fd, _ in self._poll.poll(wait_ms):
            if fd == self._fds["wake_r"]:
                linux.clear(fd)
            else:
                self._team.notice(fd)
        self._read()  # before the deaths: includes results that a worker delivered before it died
        if not self._closed:  # the interpreter's exit closes it while a daemon thread reads
            # After reading, because messages may have waited for a long time.
            for handle, death in self._team.dead():
                self._handle_death(handle, death)
            self._events += self._team.start_missing()
        events, self._events = self._events, []
        return events

    def _read(self) -> None:
        """Read all records that have arrived."""
        count = READ_BYTES
        while count == READ_BYTES:  # a shorter read means that the pipe is empty
            try:
                data = os.read(self._fds["results_r"], READ_BYTES)
            except BlockingIOError:
                break
            count, data, at = len(data), self._unread + data, 0
            while len(data) - at >= RESULT.size:
                self._note(RESULT.unpack_from(data, at))
                at += RESULT.size
            self._unread = data[at:]

    def _note(self, record: tuple[int, ...]) -> None:
        ticket, worker, kind, number, *rest = record
        if kind == Kind.DONE:
            self._finish(ticket, worker, number, *rest)
        elif kind == Kind.SKIPPED:
            self._skip(ticket)
        elif kind == Kind.FAILED:
            handle = self._handles[worker]
            handle.deaths = MOST_DEATHS  # its successor would fail, too
            assert self._segment is not None
            data = os.pread(self._segment.fd, number, self._layout.error_at(worker))
            self._events.append(Failed(worker, pickle.loads(data).rebuild()))
        elif kind == Kind.ALIKE:
            self._warn_of_generator(self._spec.generators[number][0])
        else:
            handle = self._handles[worker]
            if handle.state == "starting":
                handle.state = "ready"
            handle.pid = number  # the template's message may not have arrived yet

    def _finish(
        self, ticket: int, worker: int, count: int, used: int, cost_ns: int, file: int, flags: int
    ) -> None:
        """Accept the items of a job that is over. Their arrays lie in its slot or in a file."""
        job = self._sent[ticket]
        sent, first = job.progress, job.delivered
        self.nbytes += used
        if file >= 0:
            result = self._from_file(job, worker, count, used, file)
            if result is None:
                return
        elif flags & Flag.HAS_ARRAYS and not flags & Flag.RETAINED and self.pool.park(sent.slot):
            result = SlotResult(self.pool, sent.slot, used, first, count, sent.nbytes(used))
        else:
            result = sent.copy(first, count, used)
        is_parked = result.holds_slot()
        if flags & Flag.RETAINED:
            self.pool.retire(sent.slot, worker)
        self._end_job(job, frees=not (is_parked or flags & Flag.RETAINED))
        self._events.append(Done(job, result, cost_ns, worker, is_end=bool(flags & Flag.IS_END)))

    def _from_file(self, job: Job, worker: int, count: int, used: int, file: int) -> Result | None:
        """Return the items of a file of a worker. Return None, and report the job, if it is gone."""
        handle, left = self._handles[worker], count - job.delivered
        self._miss(used if count == 1 else 0)
        try:
            memory = from_file(handle.pid, file, used)
            return EncodedResult(memory, job.delivered, count, job.progress.nbytes(used))
        except (OSError, MemoryError) as error:
            # The file of a worker that is dying may disappear before the worker does.
            if not handle.has_ended(END_S if isinstance(error, FileNotFoundError) else 0.0):
                return Ready.failed(error, left)  # out of memory or descriptors, or no /proc
        self._end_job(job)
        number = None if left > 1 else worker  # it may have been at any item of the job
        self._events.append(Lost(job, number, handle.pid, "ended before its result was read", 0.0))
        return None

    def _skip(self, ticket: int) -> None:
        job = self._sent.get(ticket)
        if job is not None:  # otherwise the job was cancelled and sent again long ago
            self._end_job(job)
            self._events.append(Skipped(job))

    def _end_job(self, job: Job, frees: bool = True) -> None:
        """Remove a job that is no longer in flight, and free its slot."""
        sent, job.progress = job.progress, None
        del self._sent[job.ticket]
        sent.block.mark_read(job.ticket)
        self._close_file(job.ticket)
        if frees:
            self.pool.release(sent.slot)

    def _close_file(self, ticket: int) -> None:
        if (file := self._files.pop(ticket, -1)) >= 0:
            os.close(file)

    def _miss(self, nbytes: int) -> None:
        """Count a result that came in a file. Warn the first time that a single item does not fit a slot.

        `nbytes` is the size of a result of one item, and otherwise 0: other items may have filled the slot.
        """
        slot_bytes = self._layout.slot_bytes
        self.misses += self._settings.shm_size != 0
        if nbytes > slot_bytes and self._settings.shm_size != 0 and "slot" not in self._said:
            pages = -(-nbytes // PAGE)  # of a slot
            mib = -(-self._layout.slots * pages * PAGE // (1 << 20))
            self._said.add("slot")
            warn(
                f"prefetch: an item of {units.size(nbytes)} does not fit a slot of {units.size(slot_bytes)}"
                " and came in a file of its own, which takes longer. Set at least"
                f" shm_size={mib} << 20 ({mib} MiB)",
                RuntimeWarning,
            )

    def _warn_of_generator(self, way: str) -> None:
        if "generator" not in self._said:
            self._said.add("generator")
            warn(
                f"prefetch: a random generator draws the same numbers in every worker: {way}. Each process"
                " worker has a copy of it. Use sk.random_map(f, items), which calls f(item, rng) with a"
                " generator for each item.",
                RuntimeWarning,
            )

    # ---------------------------------------------------------------- deaths

    def _handle_death(self, handle: WorkerHandle, death: Death) -> None:
        """Report the job of a dead worker, and have the worker replaced."""
        assert self._team is not None
        has_worked = bool(self._control.claimed(handle.number)[1])
        self._report_job(handle, death)
        if self.keeps_order:
            self._control.reorder()  # before the next worker takes a job
        self.restarts += self._team.replace(handle, death, has_worked)

    def _report_job(self, handle: WorkerHandle, death: Death) -> None:
        number = handle.number
        ticket = self._control.claimed(number)[0]
        job = self._sent.get(ticket)
        if job is None:
            self._send_back_orphans()
        elif handle.stopped not in (0, ticket):
            self._skip(ticket)  # the worker was killed for its previous job, and had just begun this one
        else:
            self._events += job.taken(job.progress.finished())
            ran_s = job.progress.ran_s() or 0.0
            self._end_job(job)
            cause = "was killed" if handle.stopped else death.cause
            stopped = bool(handle.stopped)
            self._events.append(
                Lost(job, number, handle.pid, cause, ran_s, stopped, death.hint, handle.stack)
            )
        self._control.clear_claim(number)
        self.pool.free_retained(number)

    def _send_back_orphans(self) -> None:
        """Find the job of a worker that died after taking it and before claiming it, if there is one."""
        os.sched_yield()  # lets living workers claim a job or deliver a result
        self._read()
        orphans = self._orphans()
        if not orphans:
            return
        # The lost job is one of these. Another of these may belong to a living worker that takes very long
        # to claim it. Revoke all of them. Either that worker sees that its job is revoked, or this thread
        # sees that the job was claimed before.
        for ticket in orphans:
            self._sent[ticket].progress.block.revoke()
        time.sleep(VISIBLE_S)
        lost = set(orphans).intersection(self._orphans())
        self._read()  # last: a job that was claimed and delivered in between also looked like an orphan
        for ticket in lost:
            self._skip(ticket)

    def _orphans(self) -> list[int]:
        """Return the jobs that are neither in the pipe nor claimed."""
        taken: list[int] = []
        with self._sending:
            for is_urgent, pipe in enumerate(("jobs_r", "urgent_r")):
                # The unread jobs of a pipe are the last jobs that were sent through it.
                unread = fcntl.ioctl(self._fds[pipe], termios.FIONREAD, bytes(4))
                sent = [ticket for ticket, job in self._sent.items() if job.is_urgent == is_urgent]
                taken += sent[: len(sent) - struct.unpack("i", unread)[0] // JOB.size]
        claims = {self._control.claimed(handle.number)[0] for handle in self._handles.values()}
        return [ticket for ticket in taken if ticket not in claims]

    # ---------------------------------------------------------------- time, wake up and close

    def stop(self, job: Job) -> None:
        self._read()  # a job that is done, but whose result was not read yet, is not late
        for handle in self._handles.values():
            # A worker that died unseen, while the consumer was busy, was not too slow.
            is_at_it = self._control.claimed(handle.number)[0] == job.ticket and not handle.stopped
            if job.progress is not None and is_at_it and not handle.has_ended(0):
                handle.stopped, handle.stack = job.ticket, self._stack(handle)
                handle.kill()

    def _stack(self, handle: WorkerHandle) -> str:
        assert self._segment is not None
        place = self._layout.error_at(handle.number)
        return stacks.of_process(handle.pidfd, self._segment.fd, place, ERROR_BYTES)

    def wake(self) -> None:
        linux.wake(self._fds["wake_w"])

    def tasks(self) -> list[str]:
        return [str(handle.pid) for handle in self._handles.values() if handle.pid]

    def statistics(self) -> dict[str, int]:
        return self._final if self._closed else self._counts()

    def _counts(self) -> dict[str, int]:
        return {
            "restarts": self.restarts,
            "copies": self.pool.copies,
            "misses": self.misses,
            "nbytes": self.nbytes,
            "slots": self._layout.slots,
            "slot_bytes": self._layout.slot_bytes,
            "leased": self.pool.leased(),
            "retired": self.pool.retained(),
            "pickled": self._team.pickled_bytes() if self._team is not None else 0,
        }

    def close(self) -> None:
        if self._ended or self._pid != os.getpid():
            return
        try:
            if not self._closed:
                self._begin_to_close()
                if self._team is not None:
                    self._team.wait(GRACE_S)
        finally:  # also after a second Ctrl-C, which ends the wait
            with CtrlCHeld():  # a Ctrl-C before this block leaves the rest to the next call
                self._end()

    def _begin_to_close(self) -> None:
        """Let idle workers end."""
        self._closed = True
        if self._team is not None:  # the team is created last, so everything else exists
            self._final = self._counts()
            self._control.close()
        with CtrlCHeld():
            for name in {"jobs_w", "urgent_w"} & self._fds.keys():
                os.close(self._fds.pop(name))  # a worker that waits for a job reads the end of the pipe

    def _end(self) -> None:
        """Kill the remaining workers, and free all resources."""
        if self._team is not None:
            self._team.end()
            self._team = None
            # From here on only leased arrays keep the memory mapped.
            del self.pool, self._control
            self._blocks.clear()
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        for fds in (self._files, self._fds):
            while fds:  # a thread that forks may add and remove a descriptor in the meantime
                os.close(fds.popitem()[1])
        # Last: until here, a new fork must close the remaining descriptors.
        user_forks.living.discard(weakref.ref(self))
        self._ended = True

    # ---------------------------------------------------------------- forks by user code

    def forks_now(self) -> bool:
        """Return whether this thread is forking a worker of this backend, which is no fork by user code."""
        return self._team is not None and self._team is starting.team

    def lend(self, is_over: Callable[[], bool]) -> None:
        """Before a fork, lend the leased slots to the child until the child has ended."""
        with suppress(AttributeError):  # the backend is closed, perhaps at this moment
            self.pool.lend(is_over)

    def has_leases(self) -> bool:
        """Return whether consumers hold arrays in slots."""
        return hasattr(self, "pool") and self.pool.has_leases()

    def forget(self) -> None:
        """Close the engine's descriptors in a child forked by user code, so that pipes report their end."""
        fds = [*self._fds.values(), *self._files.values()]
        if self._segment is not None:
            fds.append(self._segment.fd)
            self._segment.fd = -1
        for fd in fds:
            with suppress(OSError):
                os.close(fd)
        if self._team is not None:
            self._team.forget()
        self._fds.clear()
        self._files.clear()
        self._sent.clear()  # the slots belong to the parent, so there is nothing to cancel here
        self._unsent.clear()
        self._closed = True
        # A fork of the child must not close descriptors that have these numbers by then.
        user_forks.living.discard(weakref.ref(self))
