"""Share the workers of one node between its consumers: jobs in flight, events, and the end.

A node may have any number of consumers (`consumer.py`): iterators, plain indexing, threads. Each has a
window, and all share the workers. The node has no thread of its own. One waiting consumer receives results
for all consumers.

Guarantees
----------
- A job is submitted only within the backend's capacity, so submitting never blocks.
- A finished item waits at most about `2 * LOOK_S` for an unfinished item of the same job.
- Each item is delivered once to every consumer that wants it, or named once by an error.
- A permanent failure (a start hook failed, workers cannot start) reaches every consumer once, then ends it.
- Dropping a consumer cancels its pending work at once, also from the garbage collector.
- After Ctrl-C, or another exception of a signal handler, the next read starts new workers. The exception
  may be raised anywhere. A signal handler may close the node. It may not read the node if it interrupted a
  step: that read is refused.

Relies on
---------
- `Backend.cancel` and `Backend.wake` are safe to call from anywhere. `receive` and `collect` are called by
  the consumer that receives, without the lock. All other methods of the backend are called under the lock.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from ..core.errors import EvaluationError, ItemTimeout, WorkerDied, brief, summary
from .chunking import MAX_CHUNK, Chunking
from .clock import current_clock
from .consumer import Consumer, InFlight, Reader, end_stages
from .life import Life
from .protocol import Backend, Done, Event, Failed, Lost, PrefetchError
from .results import Ready
from .statistics import Statistics
from .window import Chunk, ChunkWindow

if TYPE_CHECKING:
    from .stages import StagePlan

# How often a waiting consumer looks for finished items of jobs that are still running.
LOOK_S = 0.015
# No single wait is longer, because the system limits timeouts. The consumer waits again after it.
LONGEST_WAIT_S = 86_400.0
CLOSED = "prefetch: the node is closed; restart() starts it anew"

R = TypeVar("R")
SomeReader = TypeVar("SomeReader", bound=Reader)


@dataclass(frozen=True, slots=True)
class FaultLimits:
    """How a node works ahead, in addition to `Chunking`."""

    timeout_s: float | None
    retries: int


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


class Dispatcher:
    """Shares the workers of a backend between consumers."""

    def __init__(
        self, backend: Backend, chunking: Chunking, options: FaultLimits, printer: Printer | None = None
    ) -> None:
        self.pid = os.getpid()
        self.backend = backend
        self.chunking = chunking
        self._options = options
        # Reentrant, so that a step can detect that a signal handler interrupted it in the same thread.
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._receiver: int | None = None  # the thread that receives for all consumers
        self.turns = 0  # how many times events were received
        self._look_at_ns = 0  # when to look for finished items, even if results keep arriving
        self._least_s = math.inf  # the shortest time limit of all consumers
        self._closed = False
        self._failure: Failed | None = None
        self._tickets = count(1)
        self.in_flight: dict[int, InFlight] = {}  # by ticket
        self._grouped: set[int] = set()  # tickets of jobs of several items
        self._consumers: dict[weakref.ref[Reader], Consumer] = {}
        self.wanting: set[Consumer] = set()  # waiting consumers that had no place for a job
        self._dropped: deque[weakref.ref[Reader]] = deque()
        self._latest = Statistics()
        self.counts = dict.fromkeys((field.name for field in fields(Statistics)), 0)
        self.printer = printer
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
            raise PrefetchError(CLOSED) if self._life.over else ReadsItself
        try:
            with self._lock:
                try:
                    return step(*arguments)
                except _Refused:
                    raise
                except BaseException:
                    self._closed = True  # no other thread may go on with what is half done
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

    def refuse(self, reason: BaseException) -> NoReturn:
        raise _Refused(reason)

    # ---------------------------------------------------------------- consumers

    def open(
        self,
        plan: Iterable[Any],
        epoch: int,
        limit: int | None = None,
        in_order: bool = True,
        stage: StagePlan | None = None,
        cut: Callable[[Any], int] | None = None,
        kind: type[SomeReader] = Reader,  # type: ignore[assignment]
        timeout_s: float | None = None,
    ) -> SomeReader:
        """Return a reader of a plan. It submits no job before its first `next` or `prepare`.

        `timeout_s` is the time limit of its items if the node has none.
        """
        window = ChunkWindow(plan, self.limit(limit), in_order, None if self.chunking.fixed else cut)
        limit_s = self._options.timeout_s or timeout_s or math.inf
        reader = kind(self, Consumer(window, epoch, stage, limit_s))
        self.step(self._watch, reader)
        return reader

    def limit(self, items: int | None) -> int:
        """Return how many items may be pending for a consumer that wants at most `items`."""
        most = self.chunking.max_buffered or MAX_CHUNK * max(self.chunking.depth, 1)
        return most if items is None else min(items, most)

    def _watch(self, reader: Reader) -> None:
        # These callbacks run in the garbage collector, at any moment, so they must not lock or wait. The
        # first callback runs no Python code, because Python drops a Ctrl-C that arrives in such code.
        consumer = reader.consumer
        dropped = weakref.ref(reader, self._dropped.append)
        consumer.watches = [
            dropped,
            weakref.ref(reader, partial(_cancel, self.backend, consumer.jobs)),
            weakref.ref(reader, partial(end_stages, consumer.stages)),
        ]
        self._consumers[dropped] = consumer
        if consumer.limit_s < self._least_s:
            self._least_s = consumer.limit_s
            if self._receiver is not None:
                self.backend.wake()  # it must now look for late items

    def drop(self, consumer: Consumer) -> None:
        """Cancel the pending items of a consumer."""
        watches = consumer.watches
        if self.ended() or not watches:
            return
        _cancel(self.backend, consumer.jobs)
        if self._is_inside():
            self._dropped.append(watches[0])
        else:
            self.step(self.forget, consumer)

    def forget(self, consumer: Consumer) -> None:
        """Forget a consumer, and discard the results that wait for it."""
        if consumer.watches:
            del self._consumers[consumer.watches[0]]
            consumer.watches = []
        consumer.dropped = True
        end_stages(consumer.stages)
        self.wanting.discard(consumer)
        for chunk in consumer.window.end():
            if chunk.result is not None and not self.ends():
                chunk.result.discard()

    def sweep(self) -> None:
        """Discard the results of dropped consumers."""
        while self._dropped:
            consumer = self._consumers.get(self._dropped.popleft())
            if consumer is not None:
                self.forget(consumer)

    def count_items(self, items: int) -> None:
        """Count items that are handed out."""
        self.counts["items"] += items
        if self.printer is not None and self.counts["items"] >= self._print_at:
            self._print_at = self.counts["items"] + self.printer.every
            self.printer.report(self._statistics())

    # ---------------------------------------------------------------- jobs in flight

    def free_places(self) -> int:
        """Return how many more jobs may be submitted now."""
        return self.backend.capacity - len(self.in_flight)

    def launch(self, job: InFlight) -> int:
        """Record a job as being in flight. Return its ticket."""
        ticket = next(self._tickets)
        self.in_flight[ticket] = job.consumer.jobs[ticket] = job
        job.consumer.urgent += job.is_urgent
        if len(job.chunk.indices) > 1:
            if not self._grouped and self._receiver is not None:
                self.backend.wake()  # the receiver must now look for finished items
            self._grouped.add(ticket)
        return ticket

    def finish_job(self, ticket: int) -> None:
        """Record that a job is no longer in flight."""
        job = self.in_flight.pop(ticket, None)
        self._grouped.discard(ticket)
        if job is not None:
            consumer = job.consumer
            del consumer.jobs[ticket]
            consumer.urgent -= job.is_urgent
            consumer.skipped -= job.is_skipped

    # ---------------------------------------------------------------- receiving

    def await_events(self, consumer: Consumer, turn: int) -> None:
        """Wait until events have arrived since `turn`. Receive for all consumers if no thread does."""
        clock = current_clock()
        if clock is None:
            self._await_events(consumer, turn)
            return
        clock.stand()
        try:
            self._await_events(consumer, turn)
        finally:
            clock.go_on()

    def _await_events(self, consumer: Consumer, turn: int) -> None:
        me = threading.get_ident()
        if self._receiver == me or self.backend.is_worker():
            self.step(self.wanting.discard, consumer)
            raise ReadsItself
        try:
            timeout_s = self.step(self._lead, me, turn)
            if timeout_s is not None:
                events = self.backend.receive(timeout_s)
                if self._grouped and (not events or perf_counter_ns() > self._look_at_ns):
                    events += self.backend.collect()
                    self._look_at_ns = perf_counter_ns() + int(LOOK_S * 1e9)
                self.step(self._handle_all, events)
                return
        except BaseException:
            if self._receiver == me:
                self._receiver = None
                self.close()
            raise
        with self._lock:
            if self.turns == turn and self._receiver is not None:
                self._arrived.wait(1.0)

    def _lead(self, me: int, turn: int) -> float | None:
        """Become the receiver, if there is none. Return how long to wait."""
        if self._receiver is not None or self.turns != turn:
            return None
        self.check()
        wait_s = LOOK_S if self._grouped else LONGEST_WAIT_S
        if self._least_s < math.inf:
            wait_s = min(wait_s, self._least_s)
            for ticket, ran_s in self.backend.running_s().items():
                job = self.in_flight.get(ticket)
                if job is not None and ran_s >= job.consumer.limit_s:
                    self.backend.stop(ticket)
                elif job is not None:
                    wait_s = min(wait_s, job.consumer.limit_s - ran_s)
        self._receiver = me
        return wait_s

    def _handle_all(self, events: list[Event]) -> None:
        self.sweep()  # results of dropped consumers must not affect the cost of items
        for event in events:
            self._handle(event)
        self.backend.flush()  # there may be places now for jobs that wait in the backend
        self.turns += 1
        self._receiver = None
        self._arrived.notify_all()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Failed):
            self._failure = self._failure or event  # the first failure causes the others
            return
        job = self.in_flight.get(event.ticket)
        if isinstance(event, Done):
            self.counts["jobs"] += event.is_last
            if job is None or not job.is_wanted():
                event.result.discard()
            else:
                self._deliver(job, event)
            if event.is_last:
                self.finish_job(event.ticket)
            return
        self.finish_job(event.ticket)
        if job is None or not job.is_wanted():
            return
        # If a worker was ended for an item that it finished just in time, the lost item had only begun.
        if isinstance(event, Lost) and not (event.timed_out and event.ran_s < job.consumer.limit_s):
            self._retry_or_fail(job.consumer, job.chunk, event)
        else:
            job.consumer.window.take_back(job.chunk)

    def _deliver(self, job: InFlight, event: Done) -> None:
        """Give a chunk its result, and arrange for the missing items."""
        window, chunk, count = job.consumer.window, job.chunk, event.result.count
        chunk.worker = event.worker
        if event.is_last:
            self.counts["worked_ns"] += event.cost_ns
        if not count:
            event.result.discard()  # an empty result may have a slot, too
        elif event.is_last:
            self.chunking.measure(event.cost_ns, event.result.nbytes, count)
        if event.is_end:
            if count:
                chunk.result = event.result
            window.end_at(chunk, count)
        elif not count:
            window.take_back(chunk)
        else:
            rest = window.deliver(chunk, event.result, is_asked=not event.is_last)
            if not event.is_last:
                job.chunk = rest or _NOTHING

    def _retry_or_fail(self, consumer: Consumer, chunk: Chunk, event: Lost) -> None:
        """Retry the first item of a chunk, whose worker was lost, or report the loss."""
        window = consumer.window
        if event.worker is None and len(chunk) > 1:
            window.scatter(chunk)  # a task does not report its current item, so any item may be the cause
            return
        window.isolate(chunk)
        if event.timed_out or chunk.deaths >= self._options.retries:
            chunk.result = Ready.failed(_death_error(chunk, event, consumer.limit_s))
        else:
            chunk.deaths += 1
            window.take_back(chunk)

    # ---------------------------------------------------------------- start and close

    def statistics(self) -> Statistics:
        """Return the figures. Inside a step, return the figures of the last call."""
        return self._latest if self._is_inside() else self.step(self._statistics)

    def _statistics(self) -> Statistics:
        self.sweep()
        counts = {**self.counts, "chunk": self.chunking.size, **self.backend.statistics()}
        counts["ready"] = sum(consumer.window.ready_items() for consumer in self._consumers.values())
        counts["in_work"] = sum(len(job.chunk.indices) for job in self.in_flight.values())
        self._latest = Statistics(**counts)
        return self._latest

    def ended(self) -> bool:
        """Return whether the node cannot be read any more: it is closed, or a copy in a forked child."""
        return self._closed or self.pid != os.getpid()

    def close(self) -> None:
        """End the workers. Consumers that wait now or read later get an error."""
        if self.pid != os.getpid():
            return
        self._closed = True
        if self._receiver == threading.get_ident():  # in a signal handler or an item, which returns soon
            self.backend.wake()
        elif not self._is_inside():  # otherwise the step closes the node when it ends
            self._finish_closing()

    def _finish_closing(self) -> None:
        with self._lock:
            while self._receiver is not None:
                if self._receiver == threading.get_ident():
                    return
                self.backend.wake()
                self._arrived.wait(1)
            for consumer in list(self._consumers.values()):
                consumer.window.end()
                end_stages(consumer.stages)
            self.in_flight.clear()
            self.backend.close()
            self._life.forget()
            self._arrived.notify_all()

    def check(self) -> None:
        """Raise an error if the node has failed or is closed."""
        if self._failure is not None:
            failed = self._failure
            who = "the executor" if failed.worker is None else f"worker {failed.worker}"
            failure = PrefetchError(f"prefetch: {who} {failed.what}: {summary(failed.error)}")
            failure.__cause__ = failed.error
            self.refuse(failure)
        if self.ends():
            self.refuse(PrefetchError(CLOSED))

    def ends(self) -> bool:
        """Return whether the node is closed, or its dispatcher is being collected."""
        return self._closed or bool(self._life.over)

    def is_over(self) -> bool:
        """Return whether no further job can be evaluated."""
        return self._failure is not None or self._closed


# Stands for the remaining items of a job that has delivered all its items, but has not ended.
_NOTHING = Chunk(())
_NOTHING.dropped = True


def _cancel(backend: Backend, jobs: dict[int, InFlight], _: object = None) -> None:
    for ticket in list(jobs):
        backend.cancel(ticket)


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
