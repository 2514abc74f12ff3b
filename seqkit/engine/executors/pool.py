"""The backend for an executor: each job is a task of a `concurrent.futures.Executor`.

A task names the pipeline by a key. The first tasks of a node carry the pickled pipeline, and each process
that receives the pipeline keeps it. A process that does not know the key returns None. The task is then
sent again, with the pipeline. An engine with a store keeps the pipeline there, and tasks carry a function
that loads it.

Guarantees
----------
- Threads of this process evaluate the pipeline itself. Other processes evaluate a copy, which was pickled
  when the node started.
- An exception of an item is the outcome of that item. A task that fails in another way is `Lost`, and is
  retried.
- An executor that is broken, is shut down or cannot run tasks ends the node. The error names the reason.
- At most as many tasks are in flight as the user asks for.
- The user's executor is never shut down. Tasks that have not begun are cancelled when the node is closed,
  and at interpreter exit.
- A node that is read inside a task of its own executor evaluates items in place, see `is_within`.

Relies on
---------
- The executor completes every future, unless it reports that it has ended.
- `start`, `submit`, `flush` and `close` are called under the scheduler's lock.
- All processes of the executor have the same version of seqkit.
"""

from __future__ import annotations

import concurrent.futures
import math
import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ...core.errors import Policy, errstate, seterr, summary
from ...core.view import View
from ...core.worker import get_worker_info
from ..culprits import pickling_error
from ..errors import record
from ..evaluate import NEVER_NS, Collector, Evaluator, Sink
from ..hooks import call_hook
from ..pickling import ByValue, dumps_by_value
from ..processes.block import JobBlock, Writer
from ..protocol import Backend, Done, Event, Failed, Job, Lost, Skipped, Unsendable, drained
from ..results import HEADER_BYTES, EncodedResult, Ready, Record, Result, private
from ..seeding import seed_item_of
from ..settings import Settings
from ..stages import limit_below
from ..torch_modes import Modes, current_modes, in_modes
from . import ManagedExecutor, workers_of

# How many bytes of pickled pipelines a process of an executor keeps. It always keeps the newest pipeline.
MAX_KEPT_BYTES = 256 << 20
# How often a waiting consumer checks whether the executor has ended.
CHECK_S = 1.0
# A task raises these if it cannot begin, because seqkit is not installed there or has another version.
CANNOT_BEGIN = (ImportError, AttributeError, pickle.PicklingError)
REFUSED = "takes no more tasks"


# -------------------------------------------------------------------- in the process that sends tasks


@dataclass(slots=True)
class Task:
    """What the executor gets for a job, and its future once it was submitted."""

    indices: Any
    future: Future[Any] | None = None


class TaskQueue:
    """The tasks of a node. Futures refer to it, so it must not refer to the pipeline."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.tasks: dict[Job, Task] = {}  # of the jobs that have not yet produced an event
        self.waiting: deque[Job] = deque()
        self.under_way: set[Job] = set()
        self.arrived: SimpleQueue[Job | Failed | None] = SimpleQueue()
        self._unwanted: deque[Job] = deque()

    def add(self, job: Job, task: Task) -> None:
        self.tasks[job] = task
        (self.waiting.appendleft if job.is_urgent else self.waiting.append)(job)

    def next(self) -> Job | None:
        """Remove and return the next waiting job. Move cancelled jobs to `arrived`."""
        with suppress(IndexError):  # no job waits, or another thread has closed the queue
            while (job := self.waiting.popleft()).is_cancelled:
                self.arrived.put(job)
            return job
        return None

    def cancel(self, job: Job) -> None:
        # The garbage collector may call this method, and cancelling a future takes a lock. So cancel later.
        self._unwanted.append(job)

    def cancel_unwanted(self) -> None:
        # Remove all jobs first: a cancelled future calls `completed`, which calls this method again.
        jobs = []
        with suppress(IndexError):
            while True:
                jobs.append(self._unwanted.popleft())
        for job in jobs:
            if (task := self.tasks.get(job)) is not None:
                self._cancel(task)

    def _cancel(self, task: Task) -> None:
        # A broken pool completes its futures itself. Before Python 3.13 its thread dies at a cancelled
        # future, and leaves its processes behind.
        if task.future is not None and not is_broken(self._executor):
            with suppress(Exception):  # Parsl's futures raise NotImplementedError
                task.future.cancel()

    def completed(self, job: Job, _: object) -> None:
        """Accept a completed task. A future calls this method, in any thread."""
        self.under_way.discard(job)
        self.arrived.put(job)
        # The last iterator may have been dropped. Then no other call would cancel its tasks.
        self.cancel_unwanted()

    def clear(self) -> None:
        """Cancel and forget all tasks."""
        self.waiting.clear()
        for task in list(self.tasks.values()):
            self._cancel(task)
            task.future = None  # the result may still arrive, and must not be kept
        self.tasks.clear()


class PipelineMessage(NamedTuple):
    """A pipeline for a process, with the keys of nodes that were closed before."""

    data: bytes | Callable[[], bytes]
    closed: tuple[str, ...]


class ExecutorBackend(Backend):
    """Evaluate jobs as tasks of an executor.

    Parameters
    ----------
    pipeline : View
    settings : Settings
        With the approximate number of workers of the executor. A start hook is called in each process before
        its first item, and needs processes that have a `WorkerInfo`.
    executor : Executor
    budget_ns : int
        How long a task of several items may take.
    """

    def __init__(
        self,
        pipeline: View[Any],
        settings: Settings,
        executor: Executor,
        budget_ns: int = NEVER_NS,
    ) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._executor = executor
        self._managed = executor if isinstance(executor, ManagedExecutor) else None
        self.capacity, _ = settings.slot_counts()
        is_limited = settings.nworkers is not None and settings.workers < (workers_of(executor) or math.inf)
        self._most = settings.workers if is_limited else self.capacity  # tasks in flight
        # A single worker would run later tasks before the items that a task gives back.
        self._budget_ns = budget_ns if settings.workers > 1 else NEVER_NS
        self._pid = os.getpid()
        self._key = f"{_name(executor)}:{uuid4().hex}"
        self._shared: _Pipeline | None = None  # for threads of this process
        self._pickled: bytes | Callable[[], bytes] = b""  # for other processes
        # How many of the next tasks carry the pipeline; each process needs it.
        self._to_send = settings.workers
        self._queue = TaskQueue(executor)
        self._nbytes = 0

    def start(self) -> None:
        modes = current_modes()
        if shares_objects(self._executor):
            self._shared = _Pipeline(self._pipeline, seterr(), modes, self._key)
        else:
            settings = self._settings
            hook, seed = settings.start_hook, settings.item_seed
            content = self._pipeline, seterr(), modes, hook, seed, settings.workers
            pickled = _pickled(self._pipeline, content)
            self._pickled = pickled if self._managed is None else self._managed.put(pickled)
        _started.add(self)

    # ---------------------------------------------------------------- jobs

    def submit(self, job: Job) -> None:
        try:
            indices = job.indices if self._shared is not None else dumps_by_value(job.indices)
        except Exception as error:
            raise Unsendable(error) from None
        self._queue.add(job, Task(indices))

    def flush(self) -> None:
        """Send waiting tasks, up to the limit of tasks in flight."""
        queue = self._queue
        queue.cancel_unwanted()
        while len(queue.under_way) < self._most and (job := queue.next()) is not None:
            try:
                task = queue.tasks[job]
                task.future = future = self._submitted(job, task.indices)
            except Exception as error:  # the executor is shut down or broken
                queue.arrived.put(Failed(None, self._why_ended(error), REFUSED))
                return
            queue.under_way.add(job)
            future.add_done_callback(partial(queue.completed, job))

    def _submitted(self, job: Job, indices: Any) -> Future[Any]:
        """Submit a task to the executor, with the pipeline if a process lacks the pipeline."""
        submit, budget_ns = self._executor.submit, NEVER_NS if job.is_whole else self._budget_ns
        if self._shared is not None:
            return submit(evaluate_here, self._shared, job.consumer.epoch, indices, budget_ns)
        sent = PipelineMessage(self._pickled, tuple(_closed)) if self._to_send else None
        self._to_send = max(0, self._to_send - 1)
        return submit(evaluate, self._key, sent, job.consumer.epoch, indices, budget_ns)

    def cancel(self, job: Job) -> None:
        self._queue.cancel(job)

    # ---------------------------------------------------------------- results

    def receive(self, timeout_s: float) -> list[Event]:
        self._queue.cancel_unwanted()
        arrived = drained(self._queue.arrived, min(timeout_s, CHECK_S))
        if not arrived and (ended := self._ended()) is not None:
            return [Failed(None, ended, REFUSED)]
        events = [self._event(item) if isinstance(item, Job) else item for item in arrived]
        return [event for event in events if event is not None]

    def _ended(self) -> Exception | None:
        """Return the reason why no further task will complete, if the executor reports one."""
        if self._managed is not None:
            return self._managed.ended()
        broken = is_broken(self._executor)
        return BrokenExecutor(broken) if broken else None

    def _why_ended(self, error: BaseException) -> BaseException:
        """Return the executor's own reason for an error, if it has one."""
        return (self._managed and self._managed.ended()) or error

    def _event(self, job: Job) -> Event | None:
        """Return the outcome of a job, or None if the job is sent again."""
        task = self._queue.tasks.get(job)
        if task is None:  # the node was closed
            return None
        event = self._outcome(job, task.future)
        if event is None:
            # Send the pipeline with one task at a time. The process that receives it returns no further
            # tasks.
            self._to_send = max(1, self._to_send)
            task.future = None
            self._queue.waiting.appendleft(job)
            return None
        self._queue.tasks.pop(job, None)
        return event

    def _outcome(self, job: Job, future: Future[Any] | None) -> Event | None:
        """Return the outcome of a task, or None if its process does not have the pipeline."""
        if future is None or future.cancelled():
            return Skipped(job)
        error = future.exception()
        if error is not None:
            return self._loss(job, error)
        result = future.result()
        if result is None:
            return None
        if isinstance(result, Record):
            worker = result.about
            what = "cannot do its tasks" if worker is None else "could not start"
            return Failed(worker, result.rebuild(), what)
        items, cost_ns, is_end = result
        unpacked = self._unpacked(*items) if isinstance(items, tuple) else items
        return Done(job, unpacked, cost_ns, None, is_end=is_end)

    def _loss(self, job: Job, error: BaseException) -> Event:
        if isinstance(error, CANNOT_BEGIN):
            return Failed(None, error, "cannot do its tasks")
        if isinstance(error, BrokenExecutor):
            return Failed(None, self._why_ended(error), REFUSED)
        return Lost(job, None, 0, f"was lost ({summary(error)})", 0.0)

    def _unpacked(self, packed: bytes, count: int) -> EncodedResult:
        self._nbytes += len(packed)
        block = private(len(packed))
        block[:] = np.frombuffer(packed, np.uint8)
        return EncodedResult(block, 0, count, len(packed))

    # ---------------------------------------------------------------- wake up and close

    def is_worker(self) -> bool:
        return is_within(self._executor)

    def wake(self) -> None:
        self._queue.arrived.put(None)

    def statistics(self) -> dict[str, int]:
        return {"nbytes": self._nbytes}

    def withdraw(self) -> None:
        """Cancel tasks at interpreter exit, and end the iterators that other threads still read."""
        if self._pid == os.getpid():  # in a forked child, the locks of futures may never be released
            self.close()
            self._queue.arrived.put(Failed(None, RuntimeError("the interpreter ends"), REFUSED))

    def close(self) -> None:
        self._queue.clear()
        if self._managed is not None:
            self._managed.release()
        if self._shared is not None:
            self._shared.forget()  # cancelled tasks may stay in the executor's queue for a while
        self._pickled = b""
        _closed.append(self._key)
        _pipelines.pop(self._key, None)  # for an executor that runs tasks in this process
        drained(self._queue.arrived, 0)
        _started.discard(self)


def is_broken(executor: Executor) -> str | bool:
    """Return why a pool of the standard library completes no further task, or False."""
    has_flag = isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor)
    return has_flag and executor._broken  # type: ignore[attr-defined]


def shares_objects(executor: Executor) -> bool:
    """Return whether tasks run in threads of this process."""
    interpreters = getattr(concurrent.futures, "InterpreterPoolExecutor", ())  # a ThreadPoolExecutor too
    return isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, interpreters)


def _pickled(pipeline: View[Any], content: Any) -> bytes:
    try:
        return dumps_by_value(content, protocol=5)
    except Exception as error:
        raise pickling_error(pipeline, error, ByValue) from error


_started: weakref.WeakSet[ExecutorBackend] = weakref.WeakSet()
# Keys of nodes that were closed in this process. They are sent with the next pipelines: that is when the
# receiver needs memory.
_closed: deque[str] = deque(maxlen=256)


def _withdraw_all() -> None:
    for backend in list(_started):
        backend.withdraw()


# At interpreter exit the pools of the standard library complete all of their tasks, before `atexit` hooks
# run. Hooks run in reverse order of registration, so this hook runs before the hooks of the pools.
with suppress(AttributeError, RuntimeError):  # the function is private; the interpreter may be ending
    threading._register_atexit(_withdraw_all)  # type: ignore[attr-defined]


# -------------------------------------------------------------------- in the process that runs tasks


class _Pipeline:
    """A pipeline that this process evaluates. Each thread has its own evaluator."""

    def __init__(
        self,
        view: View[Any],
        errors: Policy,
        modes: Modes,
        key: str,
        nbytes: int = 0,
        begin_item: Callable[[Any, int, Any], None] | None = None,
    ) -> None:
        self._view: View[Any] | None = view
        self._errors = errors
        self._modes = modes
        self._begin_item = begin_item
        self._executor = key.rpartition(":")[0]
        self._thread = threading.local()
        self.nbytes = nbytes

    def evaluator(self) -> Evaluator:
        thread = self._thread.__dict__
        if "evaluator" not in thread:
            if self._view is None:
                raise RuntimeError("the node is closed")
            thread["evaluator"] = Evaluator(self._view, self._begin_item)
        return thread["evaluator"]  # type: ignore[no-any-return]

    def run(self, epoch: int, indices: Any, sink: Sink, budget_ns: int) -> bool:
        """Evaluate items into a sink. Return whether the sequence has ended."""
        evaluator = self.evaluator()
        before, _current.executor = _current.executor, self._executor
        try:
            with errstate(self._errors), in_modes(self._modes):
                is_end = evaluator.run(epoch, indices, sink, budget_ns)
        finally:
            _current.executor = before
        return is_end

    def forget(self) -> None:
        """Drop the view. Threads that are evaluating it keep it until they finish."""
        self._view = None
        self._thread = threading.local()


class _Current(threading.local):
    executor = ""  # the name of the executor whose task runs in this thread


_current = _Current()
_THIS_PROCESS = uuid4().hex
_pipelines: dict[str, _Pipeline] = {}  # from other processes, by key


def _name(executor: Executor) -> str:
    return f"{_THIS_PROCESS}:{id(executor)}"


def is_within(executor: Executor) -> bool:
    """Return whether the current thread runs a task of this executor.

    Such a thread must not wait for another task: if every worker ran a waiting task, they would deadlock.
    """
    if isinstance(executor, ManagedExecutor):
        return executor.is_inside_task()
    if isinstance(executor, ThreadPoolExecutor):
        thread = threading.current_thread()
        if thread not in executor._threads and thread.name.startswith(f"{executor._thread_name_prefix}_"):
            with executor._shutdown_lock:  # the pool holds it until a thread that it has started is listed
                pass
        return thread in executor._threads
    return _current.executor == _name(executor)


def evaluate_here(pipeline: _Pipeline, epoch: int, indices: Any, budget_ns: int) -> tuple[Result, int, bool]:
    """Evaluate a job in a thread of this process. See `evaluate` for the returned values."""
    begun, sink = perf_counter_ns(), Collector()
    is_end = pipeline.run(epoch, indices, sink, budget_ns)
    return Ready.sized(sink.outcomes), perf_counter_ns() - begun, is_end


def evaluate(key: str, sent: PipelineMessage | None, epoch: int, indices: bytes, budget_ns: int) -> Any:
    """Evaluate a job in a process of an executor.

    Returns a tuple of the packed items, the nanoseconds taken, and whether the sequence has ended. Returns
    None if this process does not have the pipeline, and a `Record` of the exception if the pipeline cannot
    be unpickled.
    """
    begun = perf_counter_ns()
    try:
        pipeline = _pipelines.get(key) or _received(key, sent)
    except BaseException as error:
        info = get_worker_info()
        return Record.of(error, None if info is None else info.id)
    if pipeline is None:
        return None
    try:
        wanted = pickle.loads(indices)
    except BaseException as error:
        raise RuntimeError(summary(error)) from None  # the exception itself may not be picklable
    evaluator = pipeline.evaluator()
    block = JobBlock(private(HEADER_BYTES + 16 * len(wanted)))  # for the table; the items lie behind it
    block.assign(0)  # no item is finished
    writer = Writer(
        block, len(wanted), block.memory, lambda error: record(error, evaluator.keyed), limit=None
    )
    is_end = pipeline.run(epoch, wanted, writer, budget_ns)
    return (b"".join(writer.contents()), block.finished()), perf_counter_ns() - begun, is_end


def _received(key: str, sent: PipelineMessage | None) -> _Pipeline | None:
    """Unpickle a pipeline and keep it. Drop pipelines of closed nodes, and the oldest above the limit."""
    if sent is None:
        return None
    for closed in sent.closed:
        _pipelines.pop(closed, None)
    data = sent.data() if callable(sent.data) else sent.data
    view, errors, modes, hook, seed, processes = pickle.loads(data)
    limit_below(view, processes, None)
    begin_item = None
    if (info := get_worker_info()) is not None:
        call_hook(hook, info.id)
        if seed is not None:
            begin_item = partial(seed_item_of, seed, info.seed >> 1)
    pipeline = _pipelines[key] = _Pipeline(view, errors, modes, key, len(data), begin_item)
    excess = sum(kept.nbytes for kept in _pipelines.values()) - MAX_KEPT_BYTES
    for name, kept in list(_pipelines.items()):
        if excess > 0 and kept is not pipeline:
            _pipelines.pop(name, None)
            excess -= kept.nbytes
    return pipeline
