"""The backend over an executor: each job is a task of a `concurrent.futures.Executor`.

A task names the pipeline by a key. The first tasks of a node carry the pickled pipeline, and a process keeps
it. A process that does not know the key returns None: then the task is sent again, with the pipeline. An
engine with a store keeps the pipeline there, and tasks carry the way to load it.

Guarantees
----------
- threads of this process evaluate the pipeline itself; other processes evaluate a copy, pickled when the node
  started;
- an exception of an item is the outcome of that item; a task that fails in another way is `Lost`, and is
  retried;
- an executor that is broken, is shut down or cannot run tasks ends the node, with an error that says why;
- no more tasks are under way than `most`;
- the user's executor is never shut down; tasks that have not begun are cancelled when the node is closed, and
  at interpreter exit;
- a node that is read inside a task of its own executor evaluates items in place, see `is_within`.

Relies on
---------
- every future being completed, unless the executor says that it has ended;
- `start`, `submit`, `flush` and `close` being called under the dispatcher's lock;
- the same version of seqkit in all processes of the executor.
"""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ..context import get_worker_info
from ..errors import Policy, errstate, seterr, summary
from ..prefetch.errors import record_failures
from ..prefetch.evaluate import Evaluator, Settle
from ..prefetch.hooks import call_hook
from ..prefetch.pickling import dumps_by_value
from ..prefetch.protocol import Done, Event, Failed, Job, Lost, Parcel, Skipped, drained
from ..prefetch.results import Memory, Outcomes, Ready, Record, Unsendable, framed, private
from ..prefetch.snapshot import snapshots
from ..view import View
from . import Engine

__all__ = ["TASK_NS", "ExecutorBackend", "evaluate", "is_within"]

# The time between messages that chunks aim at, as `MESSAGE_NS` of the dispatcher. A task costs more than a
# message to a worker of the engine's own.
TASK_NS = 5_000_000
# How many bytes of pickled pipelines a process of an executor keeps. It always keeps the newest one.
MAX_KEPT_BYTES = 256 << 20
# How often a waiting reader checks whether the executor has ended.
CHECK_S = 1.0
# What a task raises that cannot even begin, because seqkit is not installed there or is another version.
CANNOT_BEGIN = (ImportError, AttributeError, pickle.PicklingError)
REFUSED = "takes no more tasks"


# -------------------------------------------------------------------- where tasks are sent from


@dataclass(eq=False, slots=True)
class Task:
    """A job that waits, is under way or has come back."""

    ticket: int
    epoch: int
    indices: Any
    future: Future[Any] | None = None
    is_unwanted: bool = False
    is_alone: bool = False  # no other task was under way


class TaskQueue:
    """The tasks of a node. Futures refer to it, so it must not refer to the pipeline."""

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}  # those that have not yet led to an event, by ticket
        self.waiting: deque[Task] = deque()
        self.under_way: set[Task] = set()
        self.arrived: SimpleQueue[Task | Failed | None] = SimpleQueue()
        self._unwanted: deque[int] = deque()

    def add(self, task: Task) -> None:
        self.tasks[task.ticket] = task
        self.waiting.append(task)

    def next(self) -> Task | None:
        """Take the next task that waits. Report those that are unwanted as they are."""
        with suppress(IndexError):  # nothing waits, or another thread has closed the queue
            while (task := self.waiting.popleft()).is_unwanted:
                self.arrived.put(task)
            return task
        return None

    def cancel(self, ticket: int) -> None:
        # The garbage collector may call this, and a future has a lock. So it is cancelled later.
        self._unwanted.append(ticket)

    def cancel_unwanted(self) -> None:
        # Take all tickets first: a future that is cancelled calls `completed`, which comes here again.
        tickets = []
        with suppress(IndexError):
            while True:
                tickets.append(self._unwanted.popleft())
        for ticket in tickets:
            task = self.tasks.get(ticket)
            if task is not None:
                task.is_unwanted = True
                _cancel(task)

    def completed(self, task: Task, _: object) -> None:
        """Take a task back. A future calls this, in any thread."""
        self.under_way.discard(task)
        self.arrived.put(task)
        # The last iterator may have been dropped. Then its tasks are cancelled here and nowhere else.
        self.cancel_unwanted()

    def clear(self) -> None:
        """Cancel and forget all tasks."""
        self.waiting.clear()
        for task in list(self.tasks.values()):
            _cancel(task)
            task.future = None  # the result may still come, and is not to be kept
        self.tasks.clear()


def _cancel(task: Task) -> None:
    if task.future is not None:
        with suppress(Exception):  # Parsl's futures raise NotImplementedError
            task.future.cancel()


class Shipment(NamedTuple):
    """A pipeline on its way to a process, with the keys of nodes that were closed before."""

    pickled: bytes | Callable[[], bytes]
    closed: tuple[str, ...]


class ExecutorBackend:
    """Evaluates jobs as tasks of an executor.

    Parameters
    ----------
    pipeline : View
    executor : Executor
    workers : int
        About how many workers the executor has.
    most : int
        Most tasks under way.
    capacity : int
        Most jobs in flight.
    hook : callable, optional
        Called in each process before its first item. Needs an engine whose processes have a `WorkerInfo`.
    """

    def __init__(
        self,
        pipeline: View[Any],
        executor: Executor,
        workers: int,
        most: int,
        capacity: int,
        hook: Callable[..., Any] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._executor = executor
        self._engine = executor if isinstance(executor, Engine) else None
        self._most = most
        self.capacity = capacity
        self._hook = hook
        self._pid = os.getpid()
        self._key = f"{_name(executor)}:{uuid4().hex}"
        self._shared: _Pipeline | None = None  # for threads of this process
        self._pickled: bytes | Callable[[], bytes] = b""  # for other processes
        self._classes: list[type] = []  # pickled with the pipeline; instances come back by name
        self._to_ship = workers  # how many of the next tasks carry the pipeline
        self._suspects = 0  # tasks that a broken pool has lost, and that are sent one at a time
        self._queue = TaskQueue()
        self._nbytes = 0

    def start(self) -> None:
        if _shares_objects(self._executor):
            self._shared = _Pipeline(self._pipeline, seterr(), self._key)
        else:
            content = self._pipeline, seterr(), self._hook
            pickled = _pickled(self._pipeline, content, self._classes)
            self._pickled = pickled if self._engine is None else self._engine.put(pickled)
        _started.add(self)

    # ---------------------------------------------------------------- jobs

    def ready(self) -> bool:
        return True

    def submit(self, job: Job) -> None:
        try:
            indices = job.indices if self._shared is not None else dumps_by_value(job.indices)
        except Exception as error:
            raise Unsendable(error) from None
        self._queue.add(Task(job.ticket, job.epoch, indices))

    def flush(self) -> None:
        """Send the tasks that may be under way."""
        queue = self._queue
        queue.cancel_unwanted()
        most = 1 if self._suspects else self._most
        while len(queue.under_way) < most and (task := queue.next()) is not None:
            task.is_alone = most == 1
            try:
                task.future = self._submitted(task)
            except Exception as error:  # it is shut down, or broken
                queue.arrived.put(Failed(None, error, REFUSED))
                return
            queue.under_way.add(task)
            task.future.add_done_callback(partial(queue.completed, task))

    def _submitted(self, task: Task) -> Future[Any]:
        """Hand a task to the executor, with the pipeline if a process lacks it."""
        submit = self._executor.submit
        if self._shared is not None:
            return submit(evaluate_here, self._shared, task.epoch, task.indices)
        shipment = Shipment(self._pickled, tuple(_closed)) if self._to_ship else None
        self._to_ship = max(0, self._to_ship - 1)
        return submit(evaluate, self._key, task.epoch, task.indices, shipment)

    def joint(self, jobs: int) -> None:
        return None  # workers share no memory

    def cancel(self, ticket: int) -> None:
        self._queue.cancel(ticket)

    # ---------------------------------------------------------------- results

    def receive(self, timeout: float | None) -> list[Event]:
        self._queue.cancel_unwanted()
        arrived = drained(self._queue.arrived, CHECK_S if timeout is None else min(timeout, CHECK_S))
        if not arrived and (ended := self._ended()) is not None:
            return [Failed(None, ended, REFUSED)]
        events = [self._event(item) if isinstance(item, Task) else item for item in arrived]
        return [event for event in events if event is not None]

    def _ended(self) -> Exception | None:
        """Return why no task will complete any more, if the executor says so."""
        if self._engine is not None:
            return RuntimeError("it has been shut down") if self._engine.has_ended() else None
        # A pool that breaks may leave futures as they are, see `SpawnPool.has_ended`.
        has_flag = isinstance(self._executor, ThreadPoolExecutor | ProcessPoolExecutor)
        broken = has_flag and self._executor._broken  # type: ignore[attr-defined]
        return BrokenExecutor(broken) if broken else None

    def _event(self, task: Task) -> Event | None:
        """Return the outcome of a task, or None if it is sent again."""
        if task.ticket not in self._queue.tasks:  # the node was closed
            return None
        event = self._outcome(task)
        if event is None:
            # One task with the pipeline at a time: the process that gets it returns no further tasks.
            self._to_ship = max(1, self._to_ship)
            task.future = None
            self._queue.waiting.appendleft(task)
            return None
        if task.is_alone and self._suspects:
            self._suspects -= 1
        self._queue.tasks.pop(task.ticket, None)
        return event

    def _outcome(self, task: Task) -> Event | None:
        """Return the outcome of a task, or None if its process does not have the pipeline."""
        future = task.future
        if future is None or future.cancelled():
            return Skipped(task.ticket)
        error = future.exception()
        if error is not None:
            return self._loss(task, error)
        result = future.result()
        if result is None:
            return None
        if isinstance(result, Record):
            worker = result.about
            what = "cannot do its tasks" if worker is None else "could not start"
            return Failed(worker, result.rebuild(), what)
        parcel, cost_ns = result
        unpacked = self._unpacked(*parcel) if isinstance(parcel, tuple) else parcel
        return Done(task.ticket, unpacked, cost_ns, None)

    def _loss(self, task: Task, error: BaseException) -> Event:
        if isinstance(error, CANNOT_BEGIN):
            return Failed(None, error, "cannot do its tasks")
        if isinstance(error, BrokenExecutor):
            if self._engine is None or not self._engine.recovers:
                return Failed(None, error, REFUSED)
            if not task.is_alone:  # another task may be to blame
                self._suspects += 1
                return Skipped(task.ticket)
        return Lost(task.ticket, None, 0, f"was lost ({summary(error)})", 0.0)

    def _unpacked(self, frame: bytes, head: int) -> Memory:
        self._nbytes += len(frame)
        block = private(len(frame))
        block[:] = np.frombuffer(frame, np.uint8)
        return Memory(block, head, len(frame))

    # ---------------------------------------------------------------- time, waking, the end

    def running_s(self) -> dict[int, float]:
        return {}

    def stop(self, ticket: int) -> None:
        raise AssertionError("a task of an executor cannot be stopped")

    def is_worker(self) -> bool:
        return is_within(self._executor)

    def wake(self) -> None:
        self._queue.arrived.put(None)

    def statistics(self) -> dict[str, int]:
        return {"nbytes": self._nbytes}

    def withdraw(self) -> None:
        """Cancel tasks at interpreter exit, and end the iterators that other threads still read."""
        if self._pid == os.getpid():  # in a forked child, locks of futures may be held for ever
            self.close()
            self._queue.arrived.put(Failed(None, RuntimeError("the interpreter ends"), REFUSED))

    def close(self) -> None:
        self._queue.clear()
        if self._engine is not None:
            self._engine.release()
        if self._shared is not None:
            self._shared.forget()  # cancelled tasks may stay in the executor's queue for a while
        self._pickled = b""
        self._classes = []
        _closed.append(self._key)
        _pipelines.pop(self._key, None)  # where the executor runs tasks in this process
        drained(self._queue.arrived, 0)
        _started.discard(self)


def _shares_objects(executor: Executor) -> bool:
    """Return whether tasks run in threads of this process."""
    interpreters = getattr(concurrent.futures, "InterpreterPoolExecutor", ())  # a subclass
    return isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, interpreters)


def _pickled(pipeline: View[Any], content: Any, sent: list[type]) -> bytes:
    try:
        return dumps_by_value(content, protocol=5, sent=sent)
    except Exception as error:
        raise TypeError(
            f"prefetch: {pipeline!r} cannot be shipped to an executor: {type(error).__name__}: {error}."
            " Use a ThreadPoolExecutor or method='thread', or make it picklable"
        ) from error


_started: weakref.WeakSet[ExecutorBackend] = weakref.WeakSet()
# Keys of nodes that were closed in this process. They travel with the next pipelines, when memory is needed.
_closed: deque[str] = deque(maxlen=256)


def _withdraw_all() -> None:
    for backend in list(_started):
        backend.withdraw()


# At interpreter exit the pools of the standard library complete all of their tasks, before `atexit` hooks are
# called. This hook is called before theirs: the last one that is registered comes first.
with suppress(AttributeError, RuntimeError):  # it is private; the interpreter may be ending
    threading._register_atexit(_withdraw_all)  # type: ignore[attr-defined]


# -------------------------------------------------------------------- where tasks run


class _Pipeline:
    """A pipeline that this process evaluates. Each thread has an evaluator of its own."""

    def __init__(self, view: View[Any], errors: Policy, key: str, nbytes: int = 0) -> None:
        self._view: View[Any] | None = view
        self._errors = errors
        self._executor = key.rpartition(":")[0]
        self._thread = threading.local()
        self.nbytes = nbytes

    def evaluator(self) -> Evaluator:
        thread = self._thread.__dict__
        if "evaluator" not in thread:
            if self._view is None:
                raise RuntimeError("the node is closed")
            thread["evaluator"] = Evaluator(self._view)
        return thread["evaluator"]  # type: ignore[no-any-return]

    def run(self, epoch: int, indices: Any, settle: Settle = iter) -> Outcomes:
        evaluator = self.evaluator()
        before, _current.executor = _current.executor, self._executor
        try:
            with errstate(self._errors):
                outcomes = evaluator.run(epoch, indices, settle)
        finally:
            _current.executor = before
        evaluator.leave_if_forked()
        return outcomes

    def forget(self) -> None:
        """Drop the view. Threads that evaluate it keep it until they are done."""
        self._view = None
        self._thread = threading.local()


class _Current(threading.local):
    executor = ""  # the name of the executor whose task this thread runs


_current = _Current()
_THIS_PROCESS = uuid4().hex
_pipelines: dict[str, _Pipeline] = {}  # from other processes, by key


def _name(executor: Executor) -> str:
    return f"{_THIS_PROCESS}:{id(executor)}"


def is_within(executor: Executor) -> bool:
    """Return whether the current thread runs a task of this executor.

    There, waiting for another task could be a deadlock: each worker may run a task that waits.
    """
    if isinstance(executor, Engine):
        return executor.is_inside_task()
    if isinstance(executor, ThreadPoolExecutor):
        # By name: a thread may run its first task before the pool knows the thread.
        return threading.current_thread().name.startswith(f"{executor._thread_name_prefix}_")
    return _current.executor == _name(executor)


def evaluate_here(pipeline: _Pipeline, epoch: int, indices: Any) -> tuple[Parcel, int]:
    """Evaluate a job in a thread of this process. Return the outcomes, and the nanoseconds that it took."""
    begun = perf_counter_ns()
    outcomes = pipeline.run(epoch, indices)
    return Ready.sized(outcomes), perf_counter_ns() - begun


def evaluate(key: str, epoch: int, indices: bytes, shipment: Shipment | None) -> Any:
    """Evaluate a job in a process of an executor.

    Returns the outcomes as a frame with its head, and the nanoseconds that it took; None if this process does
    not have the pipeline; a `Record` of the exception if the pipeline cannot be unpickled.
    """
    begun = perf_counter_ns()
    try:
        pipeline = _pipelines.get(key) or _received(key, shipment)
    except BaseException as error:
        info = get_worker_info()
        return Record.of(error, None if info is None else info.id)
    if pipeline is None:
        return None
    try:
        wanted = pickle.loads(indices)
    except BaseException as error:
        raise RuntimeError(summary(error)) from None  # the exception itself may not be picklable
    outcomes = pipeline.run(epoch, wanted, _settled if len(wanted) > 1 else iter)
    evaluator = pipeline.evaluator()
    record_failures(outcomes, evaluator.keyed)
    frame = framed(outcomes)
    evaluator.leave_if_forked()
    return (b"".join(frame.stream(None)), frame.head), perf_counter_ns() - begun


def _received(key: str, shipment: Shipment | None) -> _Pipeline | None:
    """Unpickle a pipeline and keep it. Drop those of closed nodes, and the oldest ones above the limit."""
    if shipment is None:
        return None
    for closed in shipment.closed:
        _pipelines.pop(closed, None)
    data = shipment.pickled() if callable(shipment.pickled) else shipment.pickled
    view, errors, hook = pickle.loads(data)
    if (info := get_worker_info()) is not None:
        call_hook(hook, info.id)
    pipeline = _pipelines[key] = _Pipeline(view, errors, key, len(data))
    excess = sum(kept.nbytes for kept in _pipelines.values()) - MAX_KEPT_BYTES
    for name, kept in list(_pipelines.items()):
        if excess > 0 and kept is not pipeline:
            _pipelines.pop(name, None)
            excess -= kept.nbytes
    return pipeline


def _settled(items: Iterator[Any]) -> Iterator[Any]:
    return snapshots(items, lambda shape, dtype: None)
