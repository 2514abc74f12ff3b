"""The backend of coroutines: one loop in one thread, and tasks that take one item after another.

Guarantees
----------
- At most as many coroutines run at once as there are workers. A slow one delays no other.
- Items of the source are read in a second thread, in plan order, so reading a file does not block the loop.
- Any exception of an item, `CancelledError` and `SystemExit` included, becomes the outcome of that item.
- An item that takes too long is cancelled. If the loop is blocked as long as an item may take, the node ends.
- Idle threads and tasks do not refer to the pipeline, because its functions may refer to the node. So an
  unused node is collected, and its threads end.
- Closing cancels the coroutines, and waits a few seconds for them. It names those that go on.

Relies on
---------
- The pipeline has `View._coroutines`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import copy_context
from queue import SimpleQueue
from time import monotonic_ns
from typing import Any, cast

from ..core.awaiting import Begin, awaited, open_in_loop, sleep_in_loop
from ..core.tracebacks import warn
from ..core.view import View
from . import stacks
from .evaluate import Collector, Evaluator
from .protocol import Backend, Done, Event, Failed, Job, Lost, Skipped, drained
from .results import Outcomes, Ready
from .settings import Settings
from .stages import leave
from .threads import GRACE_S, await_threads

# How long closing waits for coroutines that were cancelled.
CANCEL_S = 5.0
# How often the loop measures how late it is.
BEAT_S = 0.05


def result_of(awaitable: Any) -> Any:
    """Return the result of an awaitable, from a loop of its own. The caller may be in another loop.

    >>> result_of(asyncio.sleep(0, "done"))
    'done'
    """
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, awaited(awaitable)).result()


class _Begun(View[Begin]):
    """The items of a view that are still to be awaited: functions that begin to compute them."""

    def __init__(self, source: View[Any]) -> None:
        super().__init__((source,), source._known)
        begin = source._coroutines()
        assert begin is not None, "`prefetch` has checked it"
        self._begin = begin

    def _get(self, i: int) -> Begin:
        return self._begin(i)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Begin]:
        return _Begun(sources[0])


class _Waiting:
    """The progress of a job, which has one item, from when its coroutine begins."""

    def __init__(self, job: Job, begin: Begin) -> None:
        self.job = job
        self.begin = begin
        self.outcomes = Outcomes()
        self.cost_ns = 0

    def start(self, worker: int) -> None:
        self.worker = worker
        self.task = cast("asyncio.Task[None]", asyncio.current_task())
        self._begun_ns = monotonic_ns()
        self.job.progress = self

    def finish(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.cost_ns = monotonic_ns() - self._begun_ns

    def ran_s(self) -> float:
        return (monotonic_ns() - self._begun_ns) / 1e9


class _Loop:
    """The two threads of a node, and their state. Methods that are coroutines run in the loop."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self._loop = asyncio.new_event_loop()
        self.jobs: SimpleQueue[tuple[Evaluator, Job] | None] = SimpleQueue()
        self.events: SimpleQueue[_Waiting | Event | None] = SimpleQueue()
        # By ticket. Who removes an entry decides: its task, when the item is finished, or `stop`.
        self.running: dict[int, _Waiting] = {}
        self.local = threading.local()
        self._ready: deque[_Waiting] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._is_woken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._stuck: set[asyncio.Task[None]] = set()  # cancelled, and perhaps still running
        self._closing = asyncio.Event()
        self._handles: dict[int, tuple[Any, asyncio.Future[Any]]] = {}  # by the function that opens
        self.late_ns = 0  # how late the loop was at most
        self.left: list[str] = []  # the stacks of coroutines that went on after the end
        self.threads = [self._thread(self._run, "seqkit-loop"), self._thread(self._read, "seqkit-read")]
        for thread in self.threads:
            thread.start()

    def _thread(self, function: Callable[[], None], name: str) -> threading.Thread:
        """Return a daemon thread that has the context variables of this thread, such as the error policy."""
        return threading.Thread(target=copy_context().run, args=(function,), name=name, daemon=True)

    # ---------------------------------------------------------------- the thread that reads sources

    def _read(self) -> None:
        self.local.is_worker = True
        while (entry := self.jobs.get()) is not None:
            self._begin(*entry)
            del entry

    def _begin(self, evaluator: Evaluator, job: Job) -> None:
        """Read the source of an item, and hand it over to the loop."""
        if job.is_cancelled:
            self.events.put(Skipped(job))
            return
        stage, sink = job.consumer.stage, Collector()
        begin = None if stage is None else stage.items(job.chunk.position)
        is_end = evaluator.run(job.consumer.epoch, job.indices, sink, begin_planned=begin)
        leave()
        if is_end or sink.outcomes.failures:
            self.events.put(Done(job, Ready(sink.outcomes), 0, None, is_end=is_end))
            return
        self._ready.append(_Waiting(job, sink.outcomes.values[0]))
        if not self._is_woken:
            self._is_woken = True
            self.call(self._wake)

    def call(self, function: Any, *arguments: Any) -> None:
        """Call a function in the loop, unless it has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _wake(self) -> None:
        self._is_woken = False  # first: the other thread may add an item at any moment
        for _ in range(min(len(self._ready), len(self._idle))):
            idle = self._idle.popleft()
            if not idle.done():  # its task was cancelled
                idle.set_result(None)

    # ---------------------------------------------------------------- the loop

    def _run(self) -> None:
        self.local.is_worker = True
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        async with AsyncExitStack() as self._ends:
            open_in_loop.set(self._open)
            sleep_in_loop.set(asyncio.sleep)
            for number in self._numbers:
                self._launch(number)
            self._beat(self._loop.time())
            await self._closing.wait()
            self.running.clear()
            for task in self._tasks:
                task.cancel()
            _, left = await asyncio.wait(self._tasks, timeout=CANCEL_S)
            self.left = [stacks.of_coroutine(task.get_coro()) for task in left]

    async def _open(self, open_fn: Callable[[], Any]) -> Any:
        """Return the handle that a function opens: of the first call, unless that failed."""
        _, opening = self._handles.get(id(open_fn), (None, None))
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
            opening = asyncio.ensure_future(self._opened(open_fn))
            self._handles[id(open_fn)] = open_fn, opening
        return await asyncio.shield(opening)  # an item that is cancelled does not cancel it

    async def _opened(self, open_fn: Callable[[], Any]) -> Any:
        handle = open_fn()
        if isinstance(handle, AbstractAsyncContextManager):
            return await self._ends.enter_async_context(handle)
        if callable(close := getattr(handle, "close", None)):
            self._ends.callback(close)
        return handle

    def _beat(self, due_s: float) -> None:
        now_s = self._loop.time()
        self.late_ns = max(self.late_ns, int(1e9 * (now_s - due_s)))
        self._loop.call_later(BEAT_S, self._beat, now_s + BEAT_S)

    def _launch(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._work(number), name=f"seqkit-{number}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, number: int) -> None:
        goes_on = True
        while goes_on:
            while not self._ready:
                idle = self._loop.create_future()
                self._idle.append(idle)
                await idle
            goes_on = await self._do(self._ready.popleft(), number)

    async def _do(self, run: _Waiting, number: int) -> bool:
        """Await an item. Return whether the task goes on: it was not abandoned."""
        job = run.job
        if job.is_cancelled:
            self.events.put(Skipped(job))
            return True
        run.start(number)
        self.running[job.ticket] = run
        try:
            run.finish(Outcomes([await run.begin()]))
        except BaseException as error:
            run.finish(Outcomes([None], {0: error}))
        if self.running.pop(job.ticket, None) is None:
            return False
        self.events.put(run)
        return True

    def abandon(self, run: _Waiting, answer: concurrent.futures.Future[str]) -> None:
        """Cancel the task of an item, and let another one take its place. Answer with its stack."""
        answer.set_result(stacks.of_coroutine(run.task.get_coro()))
        run.task.cancel()
        self._stuck = {task for task in self._stuck if not task.done()} | {run.task}
        if len(self._stuck) > len(self._numbers):
            error = RuntimeError(
                f"{len(self._stuck)} items that timed out go on although they were cancelled, and no more are"
                " abandoned. Let them end after CancelledError"
            )
            self.events.put(Failed(run.worker, error))
        self._launch(run.worker)

    def close(self) -> None:
        self.jobs.put(None)
        self.call(self._closing.set)
        await_threads(self.threads[:1], CANCEL_S + GRACE_S)
        await_threads(self.threads[1:], GRACE_S)


class Coroutines(Backend):
    """Evaluate items as coroutines in the loop of one thread. The settings have a seed."""

    most_items = 1

    def __init__(self, pipeline: View[Any], settings: Settings) -> None:
        self._evaluator = Evaluator(_Begun(pipeline))
        self._numbers = settings.numbers
        self.capacity, _ = settings.slot_counts()
        self._loop: _Loop | None = None
        self._restarts = 0

    def start(self) -> None:
        self._loop = _Loop(self._numbers)

    @property
    def loop(self) -> _Loop:
        assert self._loop is not None, "not started"
        return self._loop

    def submit(self, job: Job) -> None:
        self.loop.jobs.put((self._evaluator, job))

    def receive(self, timeout_s: float) -> list[Event]:
        return [
            self._done(it) if isinstance(it, _Waiting) else it for it in drained(self.loop.events, timeout_s)
        ]

    def _done(self, run: _Waiting) -> Done:
        run.job.progress = None
        return Done(run.job, Ready.sized(run.outcomes), run.cost_ns, run.worker)

    def stop(self, job: Job) -> None:
        loop = self.loop
        run = loop.running.pop(job.ticket, None)
        if run is None:
            return  # the item was finished before this call
        job.progress = None
        answer: concurrent.futures.Future[str] = concurrent.futures.Future()
        loop.call(loop.abandon, run, answer)
        try:
            stack = answer.result(job.consumer.limit_s)
        except concurrent.futures.TimeoutError:
            error = RuntimeError(f"a coroutine blocks the loop for more than {job.consumer.limit_s} s")
            error.add_note(f"Where it is (most recent call last):\n{stacks.of_thread(loop.threads[0].ident)}")
            loop.events.put(Failed(run.worker, error, "cannot go on"))
        else:
            self._restarts += 1
            ran_s = run.ran_s()
            loop.events.put(Lost(job, run.worker, 0, "was cancelled", ran_s, timed_out=True, stack=stack))

    def is_worker(self) -> bool:
        return self._loop is not None and getattr(self._loop.local, "is_worker", False)

    def wake(self) -> None:
        if self._loop is not None:
            self._loop.events.put(None)

    def tasks(self) -> list[str]:
        return [f"self/task/{thread.native_id}" for thread in self.loop.threads]

    def statistics(self) -> dict[str, int]:
        return {"restarts": self._restarts, "late_ns": self.loop.late_ns}

    def close(self) -> None:
        if self._loop is None:
            return
        self._loop.close()
        left, self._loop.left = self._loop.left, []
        if left:
            warn(
                f"prefetch: {len(left)} coroutines go on {CANCEL_S:.0f} s after they were cancelled:\n"
                + "\n".join(left),
                RuntimeWarning,
            )
        drained(self._loop.events, 0)  # discard the events
