"""Share the workers of one node between its consumers: all that needs the lock.

A node may have any number of consumers: iterators, plain indexing, threads. Each has a window, and all share
the workers. The node has no thread of its own. One waiting consumer receives results for all consumers.

Guarantees
----------
- A job is submitted only within the backend's capacity, so submitting never blocks.
- Consumers share the places for jobs evenly.
- With one worker, nothing is sent before the jobs that the worker skips have returned.
- A finished item waits at most about `2 * LOOK_S` for an unfinished item of the same job.
- Each item is delivered once to every consumer that wants it, or named once by an error.
- A permanent failure (a start hook failed, workers cannot start) reaches every consumer once, then ends it.
- Dropping a consumer cancels its pending work at once, also from the garbage collector.
- After Ctrl-C, or another exception of a signal handler, the next read starts new workers. The exception
  may be raised anywhere. A signal handler may close the node. It may not read the node if it interrupted a
  step: that read is refused.

Relies on
---------
- `Backend.cancel` and `Backend.wake` are safe to call from anywhere. `Backend.receive` and `Job.progress` are
  used by the consumer that receives, without the lock. All other methods of the backend are called under it.
- Methods whose name begins with an underscore run in a step, unless they say otherwise.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import Any, NoReturn, Protocol, TypeVar

from ..core.errors import EndOfSequence, EvaluationError, ItemTimeout, WorkerDied, brief, summary
from .chunking import CHUNK_BYTES, MAX_CHUNK, Chunking
from .clock import current_clock
from .life import Life
from .protocol import Backend, Consumer, Done, Event, Failed, Job, Lost, LowerPlan, PrefetchError, Unsendable
from .results import Ready
from .statistics import Statistics
from .window import Chunk

# How often a waiting consumer looks for finished items of jobs that are still running.
LOOK_S = 0.015
# No single wait is longer, because the system limits timeouts. The consumer waits again after it.
LONGEST_WAIT_S = 86_400.0
CLOSED = "prefetch: the node is closed; restart() starts it anew"

R = TypeVar("R")


class Printer(Protocol):
    """Reports on the node after every so many items."""

    every: int

    def report(self, now: Statistics) -> None: ...


class ReadsItself(RuntimeError):
    """The read would wait for itself. No item is lost, and the node can be read later."""

    def __init__(self) -> None:
        super().__init__(
            "prefetch: an item, a task of its executor or a signal handler reads the node that waits for it;"
            " read it elsewhere"
        )


class _Refused(Exception):
    """Carries an error for the consumer out of a step that ended in order, without an interruption."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


class Scheduler:
    """Shares the workers of a backend between consumers.

    `timeout_s` is how long an item may take, and `retries` how many further workers try an item whose worker
    died.
    """

    def __init__(
        self,
        backend: Backend,
        chunking: Chunking,
        timeout_s: float | None,
        retries: int,
        printer: Printer | None = None,
    ) -> None:
        self.backend = backend
        self.chunking = chunking
        self._pid = os.getpid()
        self._timeout_s = timeout_s
        self._retries = retries
        # Reentrant, so that a step can detect that a signal handler interrupted it in the same thread.
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._receiver: int | None = None  # the thread that receives for all consumers
        self._turns = 0  # how many times events were received
        self._look_at_ns = 0  # when to look for finished items, even if results keep arriving
        self._least_s = math.inf  # the shortest time limit of all consumers
        self._closed = False
        self._failure: Failed | None = None
        self._tickets = count(1)
        self._jobs: dict[int, Job] = {}  # in flight, by ticket
        self._of_several = 0  # how many of them have several items
        self._consumers: dict[weakref.ref[object], Consumer] = {}
        self._wanting: set[Consumer] = set()  # waiting consumers that had no place for a job
        self._dropped: deque[weakref.ref[object]] = deque()
        self._latest = Statistics()
        self._counts = dict.fromkeys((field.name for field in fields(Statistics)), 0)
        self._printer = printer
        self._print_at = 0 if printer is None else printer.every
        self._life = Life(backend, self._lock)  # no other object may refer to it
        try:
            backend.start()
        except BaseException:
            self._life.end()
            raise
        chunking.limit(backend.most_items)

    # ---------------------------------------------------------------- steps

    def step(self, step: Callable[..., R], *arguments: Any) -> R:
        """Run a step under the lock. An interrupted step leaves the state inconsistent, so close the
        node."""
        if self._is_inside():  # possible only in a signal handler or a hook at interpreter exit
            raise PrefetchError(CLOSED) if self._life.over else ReadsItself()
        try:
            with self._lock:
                try:
                    return step(*arguments)
                except _Refused:
                    raise
                except BaseException:
                    self._closed = True  # no other thread may use a state that is half changed
                    raise
        except _Refused as refused:
            reason = refused.reason
        except BaseException:
            self.close()
            raise
        finally:
            if self._closed:
                self._finish_closing()
        try:
            raise reason
        finally:
            del reason  # its traceback refers to this frame, and to the consumer's objects

    def _is_inside(self) -> bool:
        """Return whether the current thread is already inside a step."""
        # There is no public method that answers without raising. Raising could hide an exception of a
        # signal handler. The lock stays with the thread in which the interpreter has ended the node.
        return bool(self._lock._is_owned()) and not self._life.over  # type: ignore[attr-defined]

    def _refuse(self, reason: BaseException) -> NoReturn:
        raise _Refused(reason)

    # ---------------------------------------------------------------- consumers

    def limit_s(self, above_s: float | None) -> float:
        """Return how long an item may take, if a node above allows `above_s` seconds."""
        return self._timeout_s or above_s or math.inf

    def limit(self, items: int | None) -> int:
        """Return how many items may be pending for a consumer that wants at most `items`."""
        most = self.chunking.max_buffered or MAX_CHUNK * max(self.chunking.depth, 1)
        return most if items is None else min(items, most)

    def watch(self, reader: object, consumer: Consumer) -> None:
        """Add a consumer. When its reader is dropped, its pending items are cancelled."""
        self.step(self._watch, reader, consumer)

    def _watch(self, reader: object, consumer: Consumer) -> None:
        # These callbacks run in the garbage collector, at any moment, so they must not lock or wait. The
        # first callback runs no Python code, because Python drops a Ctrl-C that arrives in such code.
        dropped = weakref.ref(reader, self._dropped.append)
        consumer.watches = [
            dropped,
            weakref.ref(reader, partial(_cancel_all, self.backend, consumer.jobs)),
            weakref.ref(reader, partial(_end_stages, consumer.stages)),
        ]
        self._consumers[dropped] = consumer
        if consumer.limit_s < self._least_s:
            self._least_s = consumer.limit_s
            self._wake_receiver()  # it must now look for late items

    def drop(self, consumer: Consumer) -> None:
        """Cancel the pending items of a consumer."""
        watches = consumer.watches
        if self.ended() or not watches:
            return
        _cancel_all(self.backend, consumer.jobs)
        if self._is_inside():
            self._dropped.append(watches[0])
        else:
            self.step(self._forget, consumer)

    def _forget(self, consumer: Consumer) -> None:
        """Forget a consumer, and discard the results that wait for it."""
        if consumer.watches:
            del self._consumers[consumer.watches[0]]
            consumer.watches = []
        consumer.dropped = True
        _end_stages(consumer.stages)
        self._wanting.discard(consumer)
        for chunk in consumer.window.end():
            if chunk.result is not None and not self._ends():
                chunk.result.discard()

    def _sweep(self) -> None:
        """Discard the results of dropped consumers."""
        while self._dropped:
            consumer = self._consumers.get(self._dropped.popleft())
            if consumer is not None:
                self._forget(consumer)

    # ---------------------------------------------------------------- reading

    def next(self, consumer: Consumer, drawn: list[Chunk]) -> tuple[list[Chunk], int]:
        """Return chunks to hand out, and how many to draw. Wait until there is one or the other.

        Neither: the plan has ended. `drawn` are new chunks of the plan.
        """
        return self.awaited(consumer, self._next, consumer, drawn)

    def send(self, consumer: Consumer, drawn: list[Chunk]) -> int:
        """Submit jobs for new chunks, and for those that wait. Return how many more to draw."""
        return self.step(self._send, consumer, drawn)

    def handed_out(self, consumer: Consumer, position: int) -> Chunk | None:
        """Hand out the chunk of a position of the plan, or return None if it has no result yet.

        Call it in a step. The position must be in the window.
        """
        chunk = consumer.window.at(position)
        if chunk is None:
            self._refuse(EndOfSequence("the sequence ends before this index"))
        if chunk.result is None:
            self._send(consumer, [], waiting=True)
            return None
        return self._hand_out(consumer, chunk)

    def _next(self, consumer: Consumer, drawn: list[Chunk]) -> tuple[list[Chunk], int] | None:
        window = consumer.window
        if drawn:
            window.add(drawn)
            drawn.clear()
        if window.ready() is None:
            draws = self._send(consumer, [], waiting=True)
            if window.ready() is None:
                return ([], draws) if draws or self._has_ended(consumer) else None
        taken = self._taken(consumer)
        if self._refills(consumer):
            return taken, self._send(consumer, [])
        self.backend.flush()
        return taken, 0

    def _taken(self, consumer: Consumer) -> list[Chunk]:
        """Take the ready chunk from the window, and further ready chunks that are small.

        Only those in private memory: a consumer holds few slots at a time, and results that it has not read
        yet no longer count as pending.
        """
        taken: list[Chunk] = []
        nbytes = 0
        while (chunk := consumer.window.ready()) is not None:
            if taken and chunk.result.holds_slot():
                break
            nbytes += chunk.result.nbytes or 0
            taken.append(self._hand_out(consumer, chunk))
            if nbytes >= CHUNK_BYTES or not self.chunking.hands_out_runs:
                break
        return taken

    def _hand_out(self, consumer: Consumer, chunk: Chunk) -> Chunk:
        try:
            chunk.result.claim()
        except MemoryError as error:  # nothing is lost
            self._refuse(error)
        consumer.window.hand_out(chunk)
        self._counts["items"] += len(chunk.indices)
        if self._printer is not None and self._counts["items"] >= self._print_at:
            self._print_at = self._counts["items"] + self._printer.every
            self._printer.report(self._statistics())
        return chunk

    def _has_ended(self, consumer: Consumer) -> bool:
        window = consumer.window
        if not window.ended():
            return False
        failure, window.failure = window.failure, None
        if failure is not None:
            window.has_failed = True
            self._refuse(failure)
        self._forget(consumer)
        return True

    # ---------------------------------------------------------------- submitting

    def _refills(self, consumer: Consumer) -> bool:
        """Return whether to submit more jobs now. While many are pending, submit several jobs at once."""
        pending, depth = consumer.window.pending(), self.chunking.depth
        is_due = depth - pending >= depth // 4 or pending <= 2 * self.chunking.workers
        return is_due and self._failure is None and not self._closed

    def _send(self, consumer: Consumer, drawn: list[Chunk], waiting: bool = False) -> int:
        window = consumer.window
        if self._ends():
            return 0  # the consumer gets the error at its next read
        if drawn:
            window.add(drawn)
        self._sweep()
        self._wanting.discard(consumer)
        order = 0
        if self.backend.keeps_order:
            order = self.backend.order  # once, because the worker may raise it at any moment
            if any(job.order < order for job in consumer.jobs.values()):
                return 0  # the worker skips jobs that have not returned yet, whose items come first
        try:
            while window.has_unsent():
                if not self._has_place(consumer, waiting):
                    return 0
                if not self.backend.has_room():
                    return 0  # jobs in flight will give back their slots
                # Limit the urgent jobs: one more, for an earlier item, would have to wait until they end.
                chunk = window.next_to_send(self.chunking.size, consumer.urgent < 2 * self.chunking.workers)
                if chunk is None:
                    return 0
                self._launch(consumer, chunk, order, waiting)
        finally:
            self.backend.flush()
        return self._room(consumer, waiting)

    def _room(self, consumer: Consumer, waiting: bool) -> int:
        """Return how many chunks to draw now."""
        chunking = self.chunking
        depth = chunking.depth
        if chunking.max_buffered is None:
            depth -= -consumer.most_per_item // chunking.size
        room = consumer.window.room(chunking.size, depth, waiting)
        if not room or not self._has_place(consumer, waiting):
            return 0
        return min(room, self.backend.capacity - len(self._jobs))

    def _has_place(self, consumer: Consumer, waiting: bool) -> bool:
        """Return whether there is a place for another job that no consumer with fewer jobs waits for.

        Without this rule a fast consumer would take every place as soon as it becomes free. A consumer that
        leaves a place to others has jobs in flight, so it goes on when one of these returns.
        """
        has_place = len(self._jobs) < self.backend.capacity and not (
            self._wanting and any(len(other.jobs) < len(consumer.jobs) for other in self._wanting)
        )
        if waiting and not has_place:
            self._wanting.add(consumer)
        return has_place

    def _launch(self, consumer: Consumer, chunk: Chunk, order: int, waiting: bool) -> None:
        """Submit a job for a chunk. It is urgent if a consumer waits that gets nothing before it.

        A single worker skips the jobs that must not run before the rest of an earlier one.
        """
        backend, chunking = self.backend, self.chunking
        is_whole = chunking.fixed is not None or chunking.least > 1
        is_urgent = (chunk.sent_before and not backend.keeps_order) or (waiting and not consumer.jobs)
        job = Job(next(self._tickets), consumer, chunk, is_whole, is_urgent, order)
        if len(job.indices) > 1:
            if not self._of_several:
                self._wake_receiver()  # it must now look for finished items
            self._of_several += 1
        self._jobs[job.ticket] = consumer.jobs[job.ticket] = job
        consumer.urgent += is_urgent
        try:
            backend.submit(job)
        except Unsendable as error:
            self._end_job(job)
            chunk.result = Ready.failed(error.reason, len(chunk))

    def _end_job(self, job: Job) -> None:
        """Record that a job is no longer in flight."""
        if self._jobs.pop(job.ticket, None) is not None:
            del job.consumer.jobs[job.ticket]
            job.consumer.urgent -= job.is_urgent
            self._of_several -= len(job.indices) > 1

    # ---------------------------------------------------------------- receiving

    def awaited(self, consumer: Consumer, step: Callable[..., R | None], *arguments: Any) -> R:
        """Repeat a step until it returns something. Receive events in between. Call it without the lock."""
        me, since_ns = threading.get_ident(), 0
        is_nested = self._receiver == me  # in a signal handler, or in an item of an executor
        events: list[Event] | None = None
        try:
            while True:
                found, wait_s, turn = self.step(self._turn, consumer, events, since_ns, step, arguments)
                if found is not None:
                    return found  # type: ignore[no-any-return]
                since_ns = since_ns or perf_counter_ns()
                with current_clock.get() or nullcontext():
                    events = self._await_turn(turn) if wait_s is None else self._received(wait_s)
        except BaseException:
            if self._receiver == me and not is_nested:
                self._receiver = None
                self.close()
            raise

    def _turn(
        self,
        consumer: Consumer,
        events: list[Event] | None,
        since_ns: int,
        step: Callable[..., R | None],
        arguments: tuple[Any, ...],
    ) -> tuple[R | None, float | None, int]:
        """Handle the events, and try a step. Return its result, how long to receive, and the turn.

        `events` is None if this thread did not receive. It does not receive next, if another thread does.
        """
        if events is not None:
            self._handle_all(events)
        self._check()
        self._wanting.discard(consumer)
        found = step(*arguments)
        if found is not None:
            self._counts["waited_ns"] += perf_counter_ns() - since_ns if since_ns else 0
            return found, None, 0
        me = threading.get_ident()
        if self._receiver == me or self.backend.is_worker():
            self._wanting.discard(consumer)
            self._refuse(ReadsItself())
        wait_s = None
        if self._receiver is None:
            wait_s = self._patience_s()
            self._receiver = me
        return None, wait_s, self._turns

    def _patience_s(self) -> float:
        """Return how long to wait for events. Stop the items that are late."""
        wait_s = LOOK_S if self._of_several else LONGEST_WAIT_S
        if self._least_s < math.inf:
            wait_s = min(wait_s, self._least_s)
            for job in list(self._jobs.values()):
                ran_s = None if job.progress is None else job.progress.ran_s()
                if ran_s is not None and ran_s >= job.consumer.limit_s:
                    self.backend.stop(job)
                elif ran_s is not None:
                    wait_s = min(wait_s, job.consumer.limit_s - ran_s)
        return wait_s

    def _received(self, wait_s: float) -> list[Event]:
        """Receive, and look for finished items of jobs that are running. Call it without the lock."""
        events = self.backend.receive(wait_s)
        now_ns = perf_counter_ns()
        if self._of_several and (not events or now_ns > self._look_at_ns):
            self._look_at_ns = now_ns + int(LOOK_S * 1e9)
            for job in list(self._jobs.values()):
                progress = job.progress
                if progress is not None and len(job.indices) > 1:
                    events += job.taken(job.seen)
                    job.seen = progress.finished()
        return events

    def _await_turn(self, turn: int) -> list[Event] | None:
        """Wait until another thread has received. Call it without the lock."""
        with self._lock:
            if self._turns == turn and self._receiver is not None:
                self._arrived.wait(1.0)
        return None

    def _wake_receiver(self) -> None:
        if self._receiver is not None:
            self.backend.wake()

    def _handle_all(self, events: list[Event]) -> None:
        self._sweep()  # results of dropped consumers must not affect the cost of items
        for event in events:
            self._handle(event)
        self.backend.flush()  # there may be places now for jobs that wait in the backend
        self._turns += 1
        self._receiver = None
        self._arrived.notify_all()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Failed):
            self._failure = self._failure or event  # the first failure causes the others
            return
        job = event.job
        is_wanted = job.is_wanted() and job.ticket in self._jobs
        if isinstance(event, Done):
            self._counts["jobs"] += event.is_last
            if is_wanted:
                self._deliver(job, event)
            else:
                event.result.discard()
            if event.is_last:
                self._end_job(job)
            return
        self._end_job(job)
        if not is_wanted:
            return
        # If a worker was ended for an item that it finished just in time, the lost item had only begun.
        if isinstance(event, Lost) and not (event.timed_out and event.ran_s < job.consumer.limit_s):
            self._retry_or_fail(job.consumer, job.chunk, event)
        else:
            job.consumer.window.send_again(job.chunk)

    def _deliver(self, job: Job, event: Done) -> None:
        """Give a chunk its result, and arrange for the missing items."""
        window, chunk, count = job.consumer.window, job.chunk, event.result.count
        chunk.worker = event.worker
        if event.is_last:
            self._counts["worked_ns"] += event.cost_ns
        if not count:
            event.result.discard()  # an empty result may have a slot, too
        elif event.is_last:
            self.chunking.measure(event.cost_ns, event.result.nbytes, count)
        if event.is_end:
            if count:
                chunk.result = event.result
            window.end_at(chunk, count)
        elif not count:
            window.send_again(chunk)
        else:
            rest = window.deliver(chunk, event.result, is_sent=not event.is_last)
            if not event.is_last:
                job.chunk = rest or _NOTHING

    def _retry_or_fail(self, consumer: Consumer, chunk: Chunk, event: Lost) -> None:
        """Retry the first item of a chunk, whose worker was lost, or report the loss."""
        window = consumer.window
        if event.worker is None and len(chunk) > 1:
            window.scatter(chunk)  # a task does not report its current item, so any item may be the cause
            return
        window.isolate(chunk)
        if event.timed_out or chunk.deaths >= self._retries:
            chunk.result = Ready.failed(_death_error(chunk, event, consumer.limit_s))
        else:
            chunk.deaths += 1
            window.send_again(chunk)

    def discard(self, consumer: Consumer, positions: list[int], unwanted: set[int]) -> None:
        """Drop the chunks of a consumer of which no position is wanted any more.

        `unwanted` keeps the positions whose chunks are still wanted, or not drawn.
        """
        self.step(self._discard, consumer, positions, unwanted)

    def _discard(self, consumer: Consumer, positions: list[int], unwanted: set[int]) -> None:
        unwanted.update(positions)
        for position in positions:
            chunk = consumer.window.at(position)
            if chunk is None:
                continue
            whole = set(range(chunk.position, chunk.position + len(chunk)))
            if whole <= unwanted:
                unwanted -= whole
                consumer.window.drop(chunk)
                _cancel(self.backend, [job for job in consumer.jobs.values() if job.chunk is chunk])

    # ---------------------------------------------------------------- figures and end

    def statistics(self) -> Statistics:
        """Return the figures. Inside a step, return the figures of the last call."""
        return self._latest if self._is_inside() else self.step(self._statistics)

    def _statistics(self) -> Statistics:
        self._sweep()
        counts = {**self._counts, "chunk": self.chunking.size, **self.backend.statistics()}
        counts["ready"] = sum(consumer.window.ready_items() for consumer in self._consumers.values())
        counts["in_work"] = sum(len(job.chunk.indices) for job in self._jobs.values())
        self._latest = Statistics(**counts)
        return self._latest

    def is_copy(self) -> bool:
        """Return whether this is a copy in a forked child. Its lock may stay held for ever."""
        return self._pid != os.getpid()

    def ended(self) -> bool:
        """Return whether the node cannot be read any more: it is closed, or a copy in a forked child."""
        return self._closed or self.is_copy()

    def close(self) -> None:
        """End the workers. Consumers that wait now or read later get an error."""
        if self.is_copy():
            return
        self._closed = True
        if self._receiver == threading.get_ident():  # in a signal handler or an item, which returns soon
            self.backend.wake()
        elif not self._is_inside():  # otherwise the step closes the node when it ends
            self._finish_closing()

    def _finish_closing(self) -> None:
        """Wait until no thread receives, and free everything. Call it without the lock."""
        with self._lock:
            while self._receiver is not None:
                if self._receiver == threading.get_ident():
                    return
                self.backend.wake()
                self._arrived.wait(1)
            for consumer in list(self._consumers.values()):
                consumer.window.end()
                _end_stages(consumer.stages)
            for job in self._jobs.values():
                job.progress = None  # it has results, and a reader may keep the job
            self._jobs.clear()
            self.backend.close()
            self._life.forget()
            self._arrived.notify_all()

    def _check(self) -> None:
        """Raise an error if the node has failed or is closed."""
        if self._failure is not None:
            failed = self._failure
            who = "the executor" if failed.worker is None else f"worker {failed.worker}"
            failure = PrefetchError(f"prefetch: {who} {failed.what}: {summary(failed.error)}")
            failure.__cause__ = failed.error
            self._refuse(failure)
        if self._ends():
            self._refuse(PrefetchError(CLOSED))

    def _ends(self) -> bool:
        """Return whether the node is closed, or its scheduler is being collected."""
        return self._closed or bool(self._life.over)


# Stands for the remaining items of a job that has delivered all its items, but has not ended.
_NOTHING = Chunk(())
_NOTHING.dropped = True


def _cancel(backend: Backend, jobs: list[Job]) -> None:
    for job in jobs:
        job.is_cancelled = True
        backend.cancel(job)


def _cancel_all(
    backend: Backend, jobs: dict[int, Job], _: object = None, cancel: Callable[..., None] = _cancel
) -> None:
    # An argument, because the names of this module may be gone when the program ends.
    cancel(backend, list(jobs.values()))


def _end_stages(stages: list[LowerPlan], _: object = None) -> None:
    """Stop the nodes below, which work ahead for a consumer. The garbage collector may call this."""
    while stages:
        stages.pop().close()


def _death_error(chunk: Chunk, event: Lost, limit_s: float) -> EvaluationError:
    index = chunk.index(0)
    who = "a worker of the executor" if event.worker is None else f"worker {event.worker}"
    who += f" (pid {event.pid})" if event.pid else ""
    known: dict[str, Any] = {"index": index, "worker": event.worker}
    item = f"prefetch[{brief(index)}]"
    if event.timed_out:
        late = ItemTimeout(
            f"{item} took longer than {limit_s} s in {who}, which {event.cause} after {event.ran_s:.2f} s",
            **known,
        )
        if event.stack:
            late.add_note(f"Where it was (most recent call last):\n{event.stack}")
        return late
    tries = f", {chunk.deaths + 1} workers in a row" if chunk.deaths else ""
    return WorkerDied(f"{item}: {who} {event.cause} while computing it{tries}{event.hint}", **known)
