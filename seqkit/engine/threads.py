"""The backend of threads: workers that take jobs from one queue and share the pipeline's objects.

Guarantees
----------
- Any exception of an item, `SystemExit` included, becomes the outcome of that item. The thread goes on.
- A worker without a job does not refer to the pipeline, because the pipeline's functions may refer to the
  node. So an unused node is collected, and its threads end.
- Workers have the context variables, and the modes of torch, of the thread that started them.
- Closing waits for workers, but not for long. A thread cannot be killed, so a thread that is stuck in user
  code stays behind as a daemon. It ends when that code returns.
- At most as many threads are stuck and replaced at once as there are workers. The next time-out ends the
  node.

Relies on
---------
- Views are safe to read from many threads.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from time import monotonic, monotonic_ns, perf_counter_ns
from typing import Any

from ..core.view import View
from ..core.worker import WorkerInfo, get_worker_info, leave_worker, set_worker_info
from . import stacks
from .clock import current_clock
from .evaluate import NEVER_NS, Collector, Evaluator
from .hooks import call_hook
from .protocol import Backend, Done, Event, Failed, Job, Lost, Skipped, drained
from .results import Outcomes, Ready
from .settings import Settings
from .signals import CtrlCHeld
from .stages import leave
from .torch_modes import Modes, current_modes, in_modes

# How long closing waits for all workers together. Without any wait, a daemon thread might run C++ code when
# the interpreter ends. That crashes the process (before Python 3.14).
GRACE_S = 0.5


class _Run:
    """The progress of a job that a worker has begun."""

    def __init__(self, thread: threading.Thread, info: WorkerInfo, job: Job) -> None:
        self.thread = thread
        self.info = info
        self.worker = info.id
        self.job = job
        self.sink = Collector()
        self.cost_ns = 0
        self.is_end = False
        self.item_ns = monotonic_ns()  # when the current item began, later if it has waited
        self._stood_ns = 0  # since when it waits for a node below

    def began(self, now_ns: int) -> None:
        self.item_ns = now_ns

    def __enter__(self) -> None:
        self._stood_ns = monotonic_ns()

    def __exit__(self, *_: object) -> None:
        self.item_ns += monotonic_ns() - self._stood_ns  # first: a consumer may look in between
        self._stood_ns = 0

    def ran_s(self) -> float:
        """Return how long the current item has run, without the time that it waited for other nodes."""
        return ((self._stood_ns or monotonic_ns()) - self.item_ns) / 1e9

    def finished(self) -> int:
        return len(self.sink.outcomes.values)

    def take(self, first: int, stop: int) -> Ready:
        outcomes = self.sink.outcomes
        failures = {at - first: error for at, error in outcomes.failures.copy().items() if first <= at < stop}
        return Ready.sized(Outcomes(outcomes.values[first:stop], failures))


class _WorkerState(threading.local):
    """The state of one worker thread. Other threads see the defaults."""

    is_worker = False
    info: WorkerInfo | None
    evaluator: Evaluator


# Threads of closed nodes that were still at an item.
_ending: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def await_ending(within_s: float) -> None:
    """Wait for the threads of closed nodes. Each of them is waited for once."""
    deadline = monotonic() + within_s
    with suppress(LookupError):  # there are no more, perhaps because another thread waits for them
        while thread := _ending.pop():
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))


def await_threads(threads: list[threading.Thread], within_s: float) -> None:
    """Wait for threads of a node that is being closed, not for the calling one."""
    deadline = monotonic() + within_s
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                _ending.add(thread)


class _Shared:
    """The state that the threads of a node share with its backend."""

    def __init__(
        self,
        pipeline: View[Any],
        hook: Callable[..., Any] | None,
        budget_ns: int,
        keeps_order: bool,
    ) -> None:
        self.pipeline = pipeline
        self.hook = hook
        self.budget_ns = budget_ns
        # A place in the queue is not tied to a job: the worker takes the first urgent job, or else the first
        # other job.
        self.queue: SimpleQueue[_Shared] = SimpleQueue()
        self.urgent_jobs: deque[Job] = deque()
        self.other_jobs: deque[Job] = deque()
        self.events: SimpleQueue[_Run | Event | None] = SimpleQueue()
        # By ticket. The thread that removes an entry decides. If the worker removes it, the job is done. If
        # `stop` removes it, the worker is abandoned.
        self.running: dict[int, _Run] = {}
        self.closed = False
        self.keeps_order = keeps_order
        self.order = 0
        self.local = _WorkerState()

    def reorder(self) -> None:
        """Let the only worker skip the jobs that wait now. Called by who removed the running job."""
        self.order += self.keeps_order

    def put(self, job: Job) -> None:
        (self.urgent_jobs if job.is_urgent else self.other_jobs).append(job)
        self.queue.put(self)

    def none_is_urgent(self) -> bool:
        return not self.urgent_jobs

    def next_job(self) -> Job:
        """Return the next job. Call it once for each entry of the queue."""
        try:
            return self.urgent_jobs.popleft()
        except IndexError:
            return self.other_jobs.popleft()


class _Worker:
    """One thread. It gets the shared state again with every job, and drops it between jobs."""

    def __init__(self, shared: _Shared, info: WorkerInfo, context: Context, modes: Modes) -> None:
        self.info = info
        self._modes = modes
        self._queue = shared.queue
        self._first: _Shared | None = shared
        self.thread = threading.Thread(
            target=context.run, args=(self._work,), name=f"seqkit-{info.id}", daemon=True
        )
        self.thread.start()

    def _work(self) -> None:
        with in_modes(self._modes):
            goes_on = self._begin()
            while goes_on:
                shared = self._queue.get()
                goes_on = not shared.closed and self._do(shared, shared.next_job())
                del shared
            leave_worker()

    def _begin(self) -> bool:
        """Become a worker; return whether there are jobs for it."""
        shared, self._first = self._first, None
        assert shared is not None
        set_worker_info(self.info)
        shared.local.is_worker = True
        try:
            call_hook(shared.hook, self.info.id)
        except BaseException as error:
            shared.events.put(Failed(self.info.id, error))
            return False
        shared.local.info = get_worker_info()  # the hook may have added references to the node
        set_worker_info(None)
        shared.local.evaluator = Evaluator(shared.pipeline)
        return True

    def _do(self, shared: _Shared, job: Job) -> bool:
        """Run a job. Return whether the worker goes on."""
        if shared.closed or job.is_cancelled or (not job.is_urgent and job.order < shared.order):
            shared.events.put(Skipped(job))
            return True
        run = shared.running[job.ticket] = job.progress = _Run(self.thread, self.info, job)
        self._evaluate(shared, run)
        if shared.running.pop(job.ticket, None) is None or shared.closed:
            return False  # the worker was abandoned and perhaps replaced, or the node is closed
        if run.finished() < len(job.indices) and not run.is_end:
            shared.reorder()
        shared.events.put(run)
        return True

    def _evaluate(self, shared: _Shared, run: _Run) -> None:
        begun, job, evaluator = perf_counter_ns(), run.job, shared.local.evaluator
        consumer, stage = job.consumer, job.consumer.stage
        current_clock.set(run)
        set_worker_info(shared.local.info)
        begin = None if stage is None else stage.items(job.chunk.position)
        goes_on = shared.none_is_urgent if job.is_whole else None
        run.is_end = evaluator.run(
            consumer.epoch, job.indices, run.sink, shared.budget_ns, run.began, begin, goes_on
        )
        leave()
        current_clock.set(None)
        set_worker_info(None)
        run.cost_ns = perf_counter_ns() - begun


class Threads(Backend):
    """Evaluate jobs in threads of this process.

    A job whose items take longer than `budget_ns` ends early. The settings have a seed.
    """

    def __init__(self, pipeline: View[Any], settings: Settings, budget_ns: int = NEVER_NS) -> None:
        self.keeps_order = settings.workers == 1
        self._shared = _Shared(pipeline, settings.start_hook, budget_ns, self.keeps_order)
        self._infos = [settings.info(number, "thread") for number in settings.numbers]
        self.capacity, _ = settings.slot_counts()
        self._workers: dict[int, _Worker] = {}
        self._stuck: list[threading.Thread] = []  # abandoned, and perhaps still running
        self._restarts = 0

    def start(self) -> None:
        # A thread starts with an empty context, but the error policy must hold in workers, too.
        self._context, self._modes = copy_context(), current_modes()
        for info in self._infos:
            self._launch(info)

    def _launch(self, info: WorkerInfo) -> None:
        # Closing waits only for the workers in `_workers`. A worker that is missing there could run its
        # first instruction after the interpreter's end, which crashes the process.
        with CtrlCHeld():
            self._workers[info.id] = _Worker(self._shared, info, self._context.copy(), self._modes)

    @property
    def order(self) -> int:
        return self._shared.order

    def submit(self, job: Job) -> None:
        self._shared.put(job)

    def receive(self, timeout_s: float) -> list[Event]:
        return [
            self._done(it) if isinstance(it, _Run) else it for it in drained(self._shared.events, timeout_s)
        ]

    def _done(self, run: _Run) -> Done:
        result = run.take(run.job.delivered, run.finished())
        run.job.progress = None
        return Done(run.job, result, run.cost_ns, run.worker, is_end=run.is_end)

    def stop(self, job: Job) -> None:
        run = self._shared.running.pop(job.ticket, None)
        if run is None:
            return  # the job ended before this call
        events = self._shared.events
        for event in job.taken(run.finished()):
            events.put(event)
        job.progress = None
        stack = stacks.of_thread(run.thread.ident)
        events.put(Lost(job, run.worker, 0, "was abandoned", run.ran_s(), timed_out=True, stack=stack))
        self._shared.reorder()
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        try:
            if len(self._stuck) == len(self._infos):
                raise RuntimeError(
                    f"{len(self._stuck)} abandoned threads still run items that timed out, and no more are"
                    " abandoned. Give what these items wait for a time limit, or use method='process'"
                )
            self._stuck.append(run.thread)
            self._launch(run.info)
            self._restarts += 1
        except (RuntimeError, MemoryError) as error:  # or too many threads, or no memory for a stack
            events.put(Failed(run.worker, error))

    def is_worker(self) -> bool:
        return self._shared.local.is_worker

    def wake(self) -> None:
        self._shared.events.put(None)

    def tasks(self) -> list[str]:
        return [f"self/task/{worker.thread.native_id}" for worker in self._workers.values()]

    def statistics(self) -> dict[str, int]:
        return {"restarts": self._restarts}

    def close(self) -> None:
        self._shared.closed = True  # may be set already, if Ctrl-C interrupted the first call
        for _ in self._infos:
            self._shared.queue.put(self._shared)
        await_threads([worker.thread for worker in self._workers.values()], GRACE_S)
        self._workers.clear()
        drained(self._shared.events, 0)  # discard the events
