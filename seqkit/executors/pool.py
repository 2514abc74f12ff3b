"""The backend of an executor: every job is a task of a `concurrent.futures.Executor`, wherever that runs it.

A task names the pipeline by a key. A process that does not know the key says so, and the task is sent again,
with the pipeline; the first tasks have it with them. An engine may have a store: then the pipeline is put
there, and what tasks have with them is how to get it.

Guarantees
----------
- threads of this process evaluate the pipeline itself; other processes what was pickled when the node
  started;
- whatever an item raises becomes the outcome of that item; a task that comes to grief otherwise (its process
  died, its machine went away) is `Lost`, to be tried again;
- an executor that takes no more tasks, cannot do them or has ended, ends the node, which says why;
- no more tasks are under way than were asked for, as far as the executor says what is;
- the executor stays the user's: it is never shut down, and what it has not begun is cancelled, also when the
  interpreter ends;
- within a task of its own executor a node does not wait, see `is_within`.

Relies on
---------
- the executor completing every future, or telling that it will not: an engine by `has_ended`, a pool of the
  standard library by `_broken`;
- everything but `cancel`, `receive` and `wake` being called under the dispatcher's lock, until the
  interpreter ends;
- its processes having this version of seqkit.
"""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import sys
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from time import monotonic, perf_counter_ns
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import Policy, errstate, seterr, summary
from ..prefetch.codec import dumps_plain
from ..prefetch.errors import record
from ..prefetch.evaluate import NEVER_NS, Collector, Evaluator, Sink
from ..prefetch.pickling import dumps_by_value
from ..prefetch.protocol import Done, Event, Failed, Job, Lost, Skipped, Unsendable, drained
from ..prefetch.results import EncodedResult, Ready, Record, Result, encoded_item, private
from ..view import View
from .engines import Engine

__all__ = ["TASK_NS", "Executors", "evaluate", "is_within", "shares_objects"]

# As `MESSAGE_NS` of the dispatcher: tasks go through queues and connections of the executor's own.
TASK_NS = 5_000_000
# So many pipelines a process of an executor keeps; nobody tells it which nodes have gone.
MOST_KEPT = 8
# How often a reader that waits looks whether the executor has ended.
LOOK_S = 1.0
# How long it may take a thread pool to note a thread that it has begun.
NOTED_S = 0.1
# How long closing waits for the tasks that threads of this process are at.
GRACE_S = 0.5


class _Desk:
    """What waits, what is under way and what has come, for futures that call back: without the pipeline."""

    def __init__(self, executor: Executor) -> None:
        self._executor = weakref.ref(executor)
        self.is_closed = False
        self.waiting: deque[int] = deque()  # tickets of tasks to be sent
        self.returned: deque[int] = deque()  # tickets of tasks that need the pipeline with them
        self.futures: dict[int, Future[Any]] = {}
        self.tickets: dict[Future[Any], int] = {}
        self.arrived: SimpleQueue[Future[Any] | Failed | Skipped | None] = SimpleQueue()
        # Tickets that nobody waits for. Who drops a reader appends to it and does nothing else: that may be
        # the garbage collector, a future has a lock, and what Ctrl-C strikes in a finaliser is lost.
        self.unwanted: deque[int] = deque()
        self.too_late: set[int] = set()  # those of them that were under way

    def completed(self, ticket: int, _: object) -> None:
        """Take a future that is done or cancelled, in whatever thread; some executors name another one."""
        future = self.futures.get(ticket)
        if future in self.tickets:  # else it is closed, and nobody would take it out
            self.arrived.put(future)
        self.cancel_unwanted()

    def cancel_unwanted(self) -> None:
        # All are taken first: a future that is cancelled calls back, and so on within one another.
        tickets = []
        with suppress(IndexError):
            while True:
                tickets.append(self.unwanted.popleft())
        for ticket in tickets:
            self._cancel(ticket)

    def _cancel(self, ticket: int) -> None:
        for tickets in (self.waiting, self.returned):
            with suppress(ValueError):
                tickets.remove(ticket)
                self.arrived.put(Skipped(ticket))
                return
        future = self.futures.get(ticket)
        if future is not None and not self._cancels(future):
            self.too_late.add(ticket)
            if ticket not in self.futures:  # it has come meanwhile
                self.too_late.discard(ticket)

    def clear(self) -> None:
        """Cancel everything, and forget it."""
        self.is_closed = True
        for known in (self.waiting, self.returned, self.unwanted, self.tickets, self.too_late):
            known.clear()
        for ticket, future in list(self.futures.items()):
            self._cancels(future)
            self.futures.pop(ticket, None)  # not before: whom Ctrl-C strikes here may close once more

    def _cancels(self, future: Future[Any]) -> bool:
        """Cancel a future, and say whether that could be: there are some that refuse by an exception.

        Not those of a pool that breaks: it tells one after the other, stumbles over the first that is
        cancelled, and then never ends its other processes.
        """
        if _broken(self._executor()):
            return False
        try:
            return future.cancel()
        except Exception:
            return False


def _broken(executor: Executor | None) -> Any:
    """Return why a pool of the standard library cannot go on, if so."""
    processes = sys.modules.get("concurrent.futures.process")  # which is not imported for this
    pools = (ThreadPoolExecutor, getattr(processes, "ProcessPoolExecutor", ThreadPoolExecutor))
    return isinstance(executor, pools) and getattr(executor, "_broken", False)


class Executors:
    """Evaluates jobs as tasks of an executor.

    Parameters
    ----------
    pipeline : View
    executor : Executor
    workers : int
        How many workers it has, about.
    most : int
        Most tasks under way.
    capacity : int
        Most jobs in flight.
    budget_ns : int
        How long a task of several items may take.
    """

    def __init__(
        self,
        pipeline: View[Any],
        executor: Executor,
        workers: int,
        most: int,
        capacity: int,
        budget_ns: int = NEVER_NS,
    ) -> None:
        self._budget_ns = budget_ns
        self._pipeline = pipeline
        self._executor = executor
        self._engine = executor if isinstance(executor, Engine) else None
        self._workers = workers
        self._most = most
        self.capacity = capacity
        self._pid = os.getpid()
        self._key = uuid4().hex
        self._ours: _Pipeline | None = None  # for threads of this process
        self._shipment: bytes | Callable[[], bytes] = b""  # for others
        self._shipped = 0  # how often
        self._carriers: set[int] = set()  # tickets of tasks under way that have the pipeline with them
        self._jobs: dict[int, tuple[int, Any, int]] = {}  # epoch, indices and budget in ns, by ticket
        self._desk = _Desk(executor)
        self._nbytes = 0
        self._look_at_s = 0.0  # when to look next whether the executor has ended

    def start(self) -> None:
        self._context = copy_context()  # as threads of the node's own have it
        _of_here[self._key] = self._executor
        if shares_objects(self._executor):
            self._ours = _Pipeline(self._pipeline, seterr(), self._executor)
        else:
            shipment = _shipment(self._pipeline)
            self._shipment = shipment if self._engine is None else self._engine.put(shipment)
        _living.add(self)
        _end_before(type(self._executor))

    # ---------------------------------------------------------------- jobs

    def has_room(self) -> bool:
        return True

    def submit(self, job: Job) -> None:
        try:
            indices = job.indices if self._ours is not None else dumps_by_value(job.indices)
        except Exception as error:
            raise Unsendable(error) from None
        self._jobs[job.ticket] = job.epoch, indices, NEVER_NS if job.is_whole else self._budget_ns
        self._desk.waiting.append(job.ticket)

    def flush(self) -> None:
        """Send what may be under way."""
        desk = self._desk
        desk.cancel_unwanted()
        if not desk.waiting and not desk.returned:
            return
        room = self._most
        if room < self.capacity:
            room -= sum(not future.done() for future in list(desk.futures.values()))
        while room > 0 and self._send_next():
            room -= 1

    def _send_next(self) -> bool:
        """Make a task of the next job; say whether there was one, and the executor has taken it."""
        desk, is_carrier = self._desk, self._shipped < self._workers  # who is first has nobody to learn from
        if desk.is_closed:
            return False
        try:
            if desk.returned and len(self._carriers) < self._workers:
                ticket, is_carrier = desk.returned.popleft(), True
            else:
                ticket = desk.waiting.popleft()
        except IndexError:
            return False
        try:
            future = self._executor.submit(*self._task(ticket, is_carrier))
        except Exception as error:  # it is shut down, or broken
            desk.arrived.put(Failed(None, error, "takes no more tasks"))
            return False
        desk.futures[ticket] = future
        desk.tickets[future] = ticket
        future.add_done_callback(partial(desk.completed, ticket))
        return True

    def _task(self, ticket: int, is_carrier: bool) -> tuple[Any, ...]:
        job = self._jobs[ticket]
        if self._ours is not None:
            return self._context.copy().run, evaluate_here, self._ours, *job
        if not is_carrier:
            return evaluate, self._key, None, *job
        self._shipped += 1
        self._carriers.add(ticket)
        return evaluate, self._key, self._shipment, *job

    def await_release(self, timeout_s: float) -> None:
        raise AssertionError("there are no slots")

    def collect(self) -> list[Event]:
        return []  # a task delivers when it is done

    def cancel(self, ticket: int) -> None:
        self._desk.unwanted.append(ticket)

    # ---------------------------------------------------------------- results

    def receive(self, timeout: float | None) -> list[Event]:
        self._desk.cancel_unwanted()
        arrived = drained(self._desk.arrived, LOOK_S if timeout is None else min(timeout, LOOK_S))
        if monotonic() >= self._look_at_s:
            self._look_at_s = monotonic() + LOOK_S
            if (ended := self._ended()) is not None:
                arrived += drained(self._desk.arrived, 0)  # what came before
                if not arrived:
                    return [Failed(None, ended, "takes no more tasks")]
        events = [self._event(one) if isinstance(one, Future) else one for one in arrived]
        for event in events:
            if isinstance(event, Done | Lost | Skipped):
                self._jobs.pop(event.ticket, None)
        return [event for event in events if event is not None]

    def _ended(self) -> Exception | None:
        """Say why nothing comes any more, if the executor knows."""
        if self._engine is not None:
            return RuntimeError("it has been shut down") if self._engine.has_ended() else None
        broken = _broken(self._executor)
        return BrokenExecutor(broken) if broken else None

    def _event(self, future: Future[Any]) -> Event | None:
        """Say what became of a task; None if it is to be sent once more."""
        desk = self._desk
        ticket = desk.tickets.pop(future, None)
        if ticket is None:  # closed by the interpreter's exit, while a daemon thread reads
            return None
        desk.futures.pop(ticket, None)
        self._carriers.discard(ticket)
        is_unwanted = ticket in desk.too_late
        desk.too_late.discard(ticket)
        event = self._outcome(ticket, future)
        if event is None and is_unwanted:
            return Skipped(ticket)
        if event is None:
            desk.returned.append(ticket)
        return event

    def _outcome(self, ticket: int, future: Future[Any]) -> Event | None:
        """Say what became of a task; None if its process does not know the pipeline."""
        if future.cancelled():
            return Skipped(ticket)
        error = future.exception()
        if isinstance(error, _UNFIT):
            return Failed(None, error, "cannot do its tasks")
        if isinstance(error, BrokenExecutor) and self._ended() is not None:
            return Failed(None, error, "takes no more tasks")
        if error is not None:
            return Lost(ticket, None, 0, f"was lost ({summary(error)})", 0.0)
        result = future.result()
        if result is None:
            return None
        if isinstance(result, Record):
            return Failed(None, result.rebuild(), "cannot do its tasks")
        items, cost_ns, is_end = result
        unpacked = self._unpacked(*items) if isinstance(items, tuple) else items
        return Done(ticket, unpacked, cost_ns, None, is_end=is_end)

    def _unpacked(self, table: bytes, payload: bytes, memory: bytes) -> EncodedResult:
        self._nbytes += len(payload) + len(memory)
        block = private(len(memory))
        block[:] = np.frombuffer(memory, np.uint8)
        return EncodedResult(table, payload, block)

    # ---------------------------------------------------------------- time, waking, the end

    def running_s(self) -> dict[int, float]:
        return {}

    def stop(self, ticket: int) -> None:
        raise AssertionError("a task of an executor cannot be stopped")

    def is_worker(self) -> bool:
        return is_within(self._executor)

    def wake(self) -> None:
        self._desk.arrived.put(None)

    def statistics(self) -> dict[str, int]:
        return {"nbytes": self._nbytes}

    def withdraw(self) -> None:
        """Cancel what has not begun, and tell who reads on that nothing more comes: the interpreter ends."""
        if self._pid == os.getpid():  # the locks of futures may be held in a fork for ever
            ends = RuntimeError("the interpreter ends")
            self._desk.arrived.put(Failed(None, ends, "takes no more tasks"))
            self._desk.clear()

    def close(self) -> None:
        at_work = [future for future in list(self._desk.futures.values()) if future.running()]
        self._desk.clear()
        if self._ours is not None:
            if not self.is_worker():
                concurrent.futures.wait(at_work, GRACE_S)
            self._ours.forget()  # tasks that are cancelled stay in the executor's queue for a while
        self._shipment = b""
        _of_here.pop(self._key, None)
        self._jobs.clear()
        drained(self._desk.arrived, 0)  # nobody wants them any more
        _living.discard(self)


# What is raised where a task cannot even be begun: what it is made of is not to be had there.
_UNFIT = (ImportError, AttributeError, pickle.PicklingError)

_living: weakref.WeakSet[Executors] = weakref.WeakSet()
_ended_before: set[str] = set()


def _end_before(kind: type[Executor]) -> None:
    """Have nodes withdraw their tasks before executors of this kind, at the interpreter's end, do them all.

    Those of the standard library do so before it comes to `atexit`. What was registered last is called first.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is not None and kind.__module__ not in _ended_before:
        _ended_before.add(kind.__module__)
        with suppress(RuntimeError):  # it has begun to end
            register(_withdraw_all)


def _withdraw_all() -> None:
    for backend in list(_living):
        backend.withdraw()


def shares_objects(executor: Executor) -> bool:
    """Are its workers threads of this process, which need no copy of anything?"""
    interpreters = getattr(concurrent.futures, "InterpreterPoolExecutor", ())  # a thread pool, too
    return isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, interpreters)


def _shipment(pipeline: View[Any]) -> bytes:
    try:
        return dumps_by_value((pipeline, seterr()), protocol=5)
    except Exception as error:
        raise TypeError(
            f"prefetch: {pipeline!r} cannot be shipped to an executor: {type(error).__name__}: {error}."
            " Use a ThreadPoolExecutor or method='thread', or make it picklable"
        ) from error


# -------------------------------------------------------------------- where the tasks run


class _Pipeline:
    """A pipeline in a process that evaluates it: every thread has an evaluator of its own."""

    def __init__(self, view: View[Any], errors: Policy, executor: Executor | None = None) -> None:
        self._view: View[Any] | None = view
        self._errors = errors
        self._executor = weakref.ref(executor) if executor is not None else lambda: None
        self._thread = threading.local()

    def evaluator(self) -> Evaluator:
        thread = self._thread.__dict__
        if "evaluator" not in thread:
            if self._view is None:
                raise RuntimeError("the node is closed")
            thread["evaluator"] = Evaluator(self._view)
        return thread["evaluator"]  # type: ignore[no-any-return]

    def run(self, epoch: int, indices: Any, sink: Sink, budget_ns: int) -> bool:
        """Evaluate items into a sink; return whether the sequence has ended."""
        evaluator = self.evaluator()
        before, _doing.executor = _doing.executor, self._executor()
        try:
            with errstate(self._errors):
                is_end = evaluator.run(epoch, indices, sink, budget_ns)
        finally:
            _doing.executor = before
        evaluator.leave_if_forked()
        return is_end

    def forget(self) -> None:
        """Let go of the view, but for the threads that are at it."""
        self._view = None
        self._thread = threading.local()


class _Doing(threading.local):
    executor: Executor | None = None  # whose task this thread is at


_doing = _Doing()
# The executors of nodes that were started here, whose tasks may run here, too; by key.
_of_here: weakref.WeakValueDictionary[str, Executor] = weakref.WeakValueDictionary()
_kept: dict[str, _Pipeline] = {}  # what has come from other processes, what was used last at the end


def is_within(executor: Executor) -> bool:
    """Is it in a task of this executor that this is asked?

    Who waits for another one there may do so for ever: all of its workers may be at tasks that wait.
    """
    return _doing.executor == executor or _is_a_thread_of(executor)


def _is_a_thread_of(executor: Executor) -> bool:
    """Is this one of an executor's threads, at a task of the user's own?"""
    if not isinstance(executor, ThreadPoolExecutor):
        return False
    thread, lock = threading.current_thread(), executor._shutdown_lock
    is_noted = thread in executor._threads
    if is_noted or not thread.name.startswith(f"{executor._thread_name_prefix}_"):
        return is_noted
    # It is noted under this lock, and may have begun before. In the garbage collector the lock may be ours.
    if lock.acquire(timeout=NOTED_S):
        lock.release()
    return thread in executor._threads


def evaluate_here(pipeline: _Pipeline, epoch: int, indices: Any, budget_ns: int) -> tuple[Result, int, bool]:
    """Evaluate a job in the consumer's process; return result, nanoseconds, and has the sequence ended?"""
    begun, sink = perf_counter_ns(), Collector()
    is_end = pipeline.run(epoch, indices, sink, budget_ns)
    return Ready.sized(sink.outcomes), perf_counter_ns() - begun, is_end


def evaluate(
    key: str, shipment: bytes | Callable[[], bytes] | None, epoch: int, indices: bytes, budget_ns: int
) -> Any:
    """Evaluate a job in another process than the consumer's.

    Returns the packed items, nanoseconds taken, and whether the sequence has ended; None if the pipeline is
    needed; a `Record` if that cannot be unpickled.
    """
    begun = perf_counter_ns()
    try:
        pipeline = _kept.get(key) or _received(key, shipment)
    except BaseException as error:
        return Record.of(error)
    if pipeline is None:
        return None
    _keep(key, pipeline)
    try:
        wanted = pickle.loads(indices)
    except BaseException as error:
        raise RuntimeError(summary(error)) from None  # plain, so that it can be sent: the task is lost
    packer = _Packer(pipeline.evaluator())
    is_end = pipeline.run(epoch, wanted, packer, budget_ns)
    return packer.packed(), perf_counter_ns() - begun, is_end


class _Packer:
    """The sink that packs items for another process, each as it is when it is finished."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._table = array("q")
        self._payload = bytearray()
        self._memory = bytearray()

    def put(self, value: Any) -> bool:
        return self._add(value, False)

    def fail(self, error: BaseException) -> bool:
        return self._add(record(error, self._evaluator.keyed), True)

    def _add(self, value: Any, is_failed: bool) -> bool:
        is_failed, (form, tail, moved, _, _) = encoded_item(
            value, is_failed, dumps_plain, None, len(self._memory)
        )
        self._evaluator.leave_if_forked()
        start = len(self._payload)
        self._payload += tail
        self._table.extend((start << 3 | is_failed << 2 | form, len(self._payload)))
        for offset, buffer in moved:
            self._memory += bytes(offset - len(self._memory))
            self._memory += buffer
        return True

    def packed(self) -> tuple[bytes, bytes, bytes]:
        return self._table.tobytes(), bytes(self._payload), bytes(self._memory)


def _received(key: str, shipment: bytes | Callable[[], bytes] | None) -> _Pipeline | None:
    if shipment is None:
        return None
    view, errors = pickle.loads(shipment() if callable(shipment) else shipment)
    return _Pipeline(view, errors, _of_here.get(key))


def _keep(key: str, pipeline: _Pipeline) -> None:
    if next(reversed(_kept), None) != key:
        _kept.pop(key, None)
        _kept[key] = pipeline
    for old in list(_kept)[:-MOST_KEPT]:
        _kept.pop(old, None)
