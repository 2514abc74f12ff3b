"""The backend of threads: workers that pull jobs from one queue and share the pipeline's objects.

Guarantees
----------
- whatever an item raises, `SystemExit` included, becomes the outcome of that item; the thread goes on;
- a worker that has no job leads to no pipeline, whose functions may lead back to the node: a forgotten node
  is collected and its threads end;
- closing waits for workers, but not for long: a thread cannot be killed, so one that is stuck in user code is
  left behind as a daemon and ends when that code returns.

Relies on
---------
- views being safe to read from many threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from time import monotonic, perf_counter_ns
from typing import Any

from ..context import WorkerInfo, get_worker_info, set_worker_info
from ..view import View
from .evaluate import Evaluator
from .hooks import call_hook
from .protocol import Done, Event, Failed, Job, Lost, Skipped, drained
from .results import Ready
from .signals import CtrlCHeld

__all__ = ["Threads"]

# How long closing waits for all workers together. Not to wait at all would be risky: a daemon thread that is
# in C++ code when the interpreter ends takes the whole process down (before Python 3.14).
GRACE_S = 0.5


class _Here(threading.local):
    """What a thread of the node has to itself, and who asks from another one sees as it is here."""

    is_worker = False
    info: WorkerInfo | None
    evaluator: Evaluator


class _Shared:
    """What the threads of a node have in common with its backend."""

    def __init__(self, pipeline: View[Any], hook: Callable[..., Any] | None) -> None:
        self.pipeline = pipeline
        self.hook = hook
        self.jobs: SimpleQueue[tuple[_Shared, Job] | None] = SimpleQueue()
        self.events: SimpleQueue[Event | None] = SimpleQueue()
        self.cancelled: set[int] = set()
        # Who is at a job, and since when. Whoever takes an entry out decides: the worker, that the job is
        # done; `stop`, that the worker is given up.
        self.running: dict[int, tuple[_Worker, float]] = {}
        self.closed = False
        self.here = _Here()


class _Worker:
    """One thread. It gets what it shares with others anew with every job, and has nothing between two."""

    def __init__(self, shared: _Shared, info: WorkerInfo, context: Context) -> None:
        self.info = info
        self._jobs = shared.jobs
        self._first: _Shared | None = shared
        self.thread = threading.Thread(
            target=context.run, args=(self._work,), name=f"seqkit-{info.id}", daemon=True
        )
        self.thread.start()

    def _work(self) -> None:
        goes_on = self._begin()
        while goes_on and (task := self._jobs.get()) is not None:
            goes_on = self._do(*task)
            del task

    def _begin(self) -> bool:
        """Become a worker; say whether there are jobs for it."""
        shared, self._first = self._first, None
        assert shared is not None
        set_worker_info(self.info)
        shared.here.is_worker = True
        try:
            call_hook(shared.hook, self.info.id)
        except BaseException as error:
            shared.events.put(Failed(self.info.id, error))
            return False
        shared.here.info = get_worker_info()  # the hook may have said more, that leads back to the node
        set_worker_info(None)
        shared.here.evaluator = Evaluator(shared.pipeline)
        return True

    def _do(self, shared: _Shared, job: Job) -> bool:
        """Do a job; say whether there may be another one."""
        if shared.closed or job.ticket in shared.cancelled:
            shared.events.put(Skipped(job.ticket))
            return True
        shared.running[job.ticket] = self, monotonic()
        event = self._evaluate(shared.here, job)
        if shared.running.pop(job.ticket, None) is None or shared.closed:
            return False  # given up: another has this place, or nobody
        shared.events.put(event)
        return True

    def _evaluate(self, here: _Here, job: Job) -> Done:
        begun = perf_counter_ns()
        set_worker_info(here.info)
        outcomes = here.evaluator.run(job.epoch, job.indices)
        here.evaluator.leave_if_forked()
        set_worker_info(None)
        cost_ns = perf_counter_ns() - begun
        return Done(job.ticket, Ready.sized(outcomes), cost_ns, self.info.id)


class Threads:
    """Evaluates jobs in `infos`-many threads of this process."""

    def __init__(
        self,
        pipeline: View[Any],
        infos: list[WorkerInfo],
        hook: Callable[..., Any] | None,
        capacity: int,
    ) -> None:
        self._shared = _Shared(pipeline, hook)
        self._infos = infos
        self.capacity = capacity
        self._workers: dict[int, _Worker] = {}
        self._restarts = 0

    def start(self) -> None:
        # A thread starts with an empty context; the error policy is to hold in workers too.
        self._context = copy_context()
        for info in self._infos:
            self._launch(info)

    def _launch(self, info: WorkerInfo) -> None:
        # Closing waits for those it knows. One that ran its first instruction when the interpreter has ended
        # would take the process down.
        with CtrlCHeld():
            self._workers[info.id] = _Worker(self._shared, info, self._context.copy())

    def ready(self) -> bool:
        return True

    def submit(self, job: Job) -> None:
        self._shared.jobs.put((self._shared, job))

    def flush(self) -> None:
        pass  # they do already

    def joint(self, jobs: int) -> None:
        return None  # results are ordinary objects

    def receive(self, timeout: float | None) -> list[Event]:
        received = drained(self._shared.events, timeout)
        for event in received:
            if not isinstance(event, Failed):
                self._shared.cancelled.discard(event.ticket)
        return received

    def cancel(self, ticket: int) -> None:
        self._shared.cancelled.add(ticket)

    def running_s(self) -> dict[int, float]:
        now = monotonic()
        return {ticket: now - begun for ticket, (_, begun) in self._shared.running.copy().items()}

    def stop(self, ticket: int) -> None:
        stopped = self._shared.running.pop(ticket, None)
        if stopped is None:
            return  # it was done meanwhile
        worker, begun = stopped
        number = worker.info.id
        self._shared.events.put(Lost(ticket, number, 0, "was abandoned", monotonic() - begun, True))
        try:
            self._launch(worker.info)
            self._restarts += 1
        except (RuntimeError, MemoryError) as error:  # there are too many, or there is no room for its stack
            self._shared.events.put(Failed(number, error))

    def is_worker(self) -> bool:
        return self._shared.here.is_worker

    def wake(self) -> None:
        self._shared.events.put(None)

    def statistics(self) -> dict[str, int]:
        return {"restarts": self._restarts}

    def close(self) -> None:
        self._shared.closed = True  # perhaps once more: Ctrl-C may have struck the first time
        for _ in self._infos:
            self._shared.jobs.put(None)
        deadline = monotonic() + GRACE_S
        for worker in self._workers.values():
            if worker.thread is not threading.current_thread():
                worker.thread.join(max(0.0, deadline - monotonic()))
        self._workers.clear()
        drained(self._shared.events, 0)  # nobody wants them any more
