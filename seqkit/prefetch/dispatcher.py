"""Submit jobs and receive results, between the consumers and the workers of one node.

A node may have any number of consumers: iterators, plain indexing, threads. Each consumer has a window, and
all share the workers. The node has no thread of its own. One waiting consumer receives results for all
consumers.

Guarantees
----------
- A job is submitted only within the backend's capacity, so submitting never blocks.
- A waiting consumer makes progress. Undelivered results of paused consumers are copied out of their slots
  to free them. If every slot is leased or retired, the waiting consumer's job travels without a slot.
- A finished item waits at most about `2 * LOOK_S` for an unfinished item of the same job.
- Each item is delivered once to every consumer that wants it, or named once by an error.
- A permanent failure (a start hook failed, workers cannot start) reaches every consumer once, then ends it.
- The plan, which may run user code, is drawn without a lock.
- Dropping a consumer cancels its pending work at once, also from the garbage collector.
- After Ctrl-C, or another exception of a signal handler, the next read starts new workers. The exception
  may be raised anywhere. A signal handler may close the node. It may not read the node if it interrupted a
  step: that read is refused.

Relies on
---------
- `Backend.cancel` is safe to call from anywhere. Every other method of the backend is called by one thread
  at a time: `receive` and `collect` by the consumer that is `_receiver`, the others under the lock.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import Any, NoReturn, TypeVar

from ..errors import EvaluationError, ItemTimeout, SlotsExhausted, WorkerDied, brief, summary
from .chunking import CHUNK_BYTES, MAX_CHUNK, Chunking
from .life import Life
from .protocol import Backend, Done, Event, Failed, Job, Lost, Unsendable
from .results import Ready
from .statistics import Progress, Statistics, items_per_line
from .window import Chunk, Window

# How often a waiting consumer looks for finished items of jobs that are still running.
LOOK_S = 0.015
# With on_exhausted="block", how long a consumer waits for arrays to be dropped.
PATIENCE_S = 60.0
# No single wait is longer, because the system limits timeouts. The consumer waits again after it.
LONGEST_WAIT_S = 86_400.0
CLOSED = "prefetch: the node is closed; restart() starts it anew"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Options:
    """How a node works ahead, in addition to `Chunking`. `on_exhausted` is "copy", "block" or "raise"."""

    timeout_s: float | None
    retries: int
    on_exhausted: str = "copy"


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


class _Feed:
    """A consumer's window and its jobs in flight. Kept after the consumer is gone until its jobs return."""

    __slots__ = (
        "dropped",
        "ended_early",
        "epoch",
        "number",
        "skipped",
        "tickets",
        "urgent",
        "watches",
        "window",
    )

    def __init__(self, window: Window, epoch: int, number: int) -> None:
        self.window = window
        self.epoch = epoch
        self.number = number  # 0 unless the node has one worker
        self.ended_early = 0  # with one worker: the last job that gave back items
        self.skipped: set[int] = set()  # tickets of the jobs that the worker skips after that job
        self.tickets: set[int] = set()
        self.urgent: set[int] = set()  # tickets of urgent jobs
        self.watches: list[weakref.ref[Reader]] = []
        self.dropped = False


class Reader:
    """One consumer of a node: `next` returns chunks in order. Used by one thread at a time."""

    def __init__(self, dispatcher: Dispatcher, feed: _Feed) -> None:
        self._dispatcher = dispatcher
        self._feed = feed

    def next(self) -> list[Chunk]:
        """Return the next chunks, with results to open. The list is empty at the end of the plan."""
        return self._dispatcher.next(self._feed)

    def prepare(self) -> None:
        """Submit as many jobs as possible, without waiting."""
        self._dispatcher.prepare(self._feed)

    def limit(self, items: int) -> None:
        """Change how many items may be pending, up to the node's own limit."""
        self._feed.window.limit = self._dispatcher.limit(items)

    def pending(self) -> int:
        """Return how many items are pending."""
        return self._feed.window.pending_items()

    def knows_end(self) -> bool:
        """Return whether the end of the plan, or of the sequence, is known."""
        return self._feed.window.is_drawn

    def close(self) -> None:
        """Cancel pending items. Dropping the reader has the same effect."""
        self._dispatcher.drop(self._feed)

    def ended(self) -> bool:
        """Return whether the node cannot be read any more: it is closed, or a copy in a forked child."""
        return self._dispatcher.ended()


class Dispatcher:
    """Shares the workers of a backend between consumers."""

    def __init__(self, backend: Backend, chunking: Chunking, options: Options) -> None:
        self.pid = os.getpid()
        self._backend = backend
        self._chunking = chunking
        self._options = options
        # Reentrant, so that a step can detect that a signal handler interrupted it in the same thread.
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._receiver: int | None = None  # the thread that receives for all consumers
        self._turns = 0  # how many times events were received
        self._look_at_ns = 0  # when to look for finished items, even if results keep arriving
        self._closed = False
        self._failure: Failed | None = None
        self._tickets = count(1)
        self._feed_numbers = count(1)
        self._flying: dict[int, tuple[_Feed, Chunk]] = {}
        self._grouped: set[int] = set()  # tickets of jobs of several items
        self._feeds: dict[weakref.ref[Reader], _Feed] = {}
        self._wanting: set[_Feed] = set()  # feeds of waiting consumers that had no place for a job
        self._dropped: deque[weakref.ref[Reader]] = deque()
        self._latest = Statistics()
        self._counts = dict.fromkeys((field.name for field in fields(Statistics)), 0)
        every = items_per_line()
        self._progress = Progress(every, chunking.workers) if every else None
        self._life = Life(backend, self._lock)  # no other object may refer to it
        try:
            backend.start()
        except BaseException:
            self._life.end()
            raise

    # ---------------------------------------------------------------- steps

    def _step(self, step: Callable[..., R], *arguments: Any) -> R:
        """Run a step under the lock. An interrupted step leaves the state inconsistent, so close the
        node."""
        if self._is_inside():  # possible only in a signal handler or a hook at interpreter exit
            raise RuntimeError(CLOSED) if self._life.over else ReadsItself
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

    def _refuse(self, reason: BaseException) -> NoReturn:
        raise _Refused(reason)

    # ---------------------------------------------------------------- consumers

    def open(
        self, plan: Iterable[Any], epoch: int, limit: int | None = None, in_order: bool = True
    ) -> Reader:
        """Return a reader of a plan. It submits no job before its first `next` or `prepare`."""
        number = next(self._feed_numbers) if self._chunking.workers == 1 else 0
        feed = _Feed(Window(plan, self.limit(limit), in_order), epoch, number)
        reader = Reader(self, feed)
        self._step(self._watch, reader, feed)
        return reader

    def limit(self, items: int | None) -> int:
        """Return how many items may be pending for a consumer that wants at most `items`."""
        most = self._chunking.max_buffered or MAX_CHUNK * max(self._chunking.depth, 1)
        return most if items is None else min(items, most)

    def _watch(self, reader: Reader, feed: _Feed) -> None:
        # These callbacks run in the garbage collector, at any moment, so they must not lock or wait. The
        # first callback runs no Python code, because Python drops a Ctrl-C that arrives in such code.
        dropped = weakref.ref(reader, self._dropped.append)
        feed.watches = [dropped, weakref.ref(reader, partial(_cancel, self._backend, feed.tickets))]
        self._feeds[dropped] = feed

    def drop(self, feed: _Feed) -> None:
        """Cancel the pending items of a consumer."""
        watches = feed.watches
        if self.ended() or not watches:
            return
        _cancel(self._backend, feed.tickets)
        if self._is_inside():
            self._dropped.append(watches[0])
        else:
            self._step(self._end, feed)

    def _end(self, feed: _Feed) -> None:
        """Forget a consumer, and discard the results that wait for it."""
        if feed.watches:
            del self._feeds[feed.watches[0]]
            feed.watches = []
        feed.dropped = True
        self._wanting.discard(feed)
        for chunk in feed.window.end():
            if chunk.result is not None and not (self._closed or self._life.over):
                chunk.result.discard()

    def _sweep(self) -> None:
        """Discard the results of dropped consumers."""
        while self._dropped:
            feed = self._feeds.get(self._dropped.popleft())
            if feed is not None:
                self._end(feed)

    # ---------------------------------------------------------------- reading

    def prepare(self, feed: _Feed) -> None:
        self._fill(feed, self._step(self._submit, feed, []))

    def next(self, feed: _Feed) -> list[Chunk]:
        if self.pid != os.getpid():  # the workers belong to the parent, and the lock may stay held
            raise RuntimeError("prefetch: this iterator was begun before a fork; begin another one")
        drawn: list[Chunk] = []
        begun_ns = blocked_ns = 0
        while True:
            turn = self._turns
            got, draws = self._step(self._advance, feed, drawn, begun_ns)
            if type(got) is list:
                self._fill(feed, draws)
                return got
            drawn = feed.window.draw(draws, self._chunking.size) if draws else []
            begun_ns = begun_ns or perf_counter_ns()
            if isinstance(got, Chunk):
                blocked_ns = self._wait_for_memory(got, blocked_ns)
            elif not drawn and not feed.window.ended():
                self._await(feed, turn)

    def _fill(self, feed: _Feed, draws: int) -> None:
        """Draw `draws` chunks and submit them. Repeat while there is room."""
        while draws:
            draws = self._step(self._submit, feed, feed.window.draw(draws, self._chunking.size))

    def _advance(
        self, feed: _Feed, drawn: list[Chunk], begun_ns: int
    ) -> tuple[list[Chunk] | Chunk | None, int]:
        """Return chunks to hand out (or a chunk that lacks memory, or None), and how many chunks to
        draw."""
        self._check()
        self._wanting.discard(feed)
        window, draws = feed.window, 0
        chunk = window.ready()
        if chunk is None:
            draws = self._submit(feed, drawn, waiting=True)
            chunk = window.ready()
            if chunk is None:
                return ([], 0) if self._has_ended(feed) else (None, draws)
        elif drawn:
            window.add(drawn)
        if self._options.on_exhausted != "copy" and chunk.result.must_copy():
            return chunk, 0
        self._counts["waited_ns"] += perf_counter_ns() - begun_ns if begun_ns else 0
        taken = [self._hand_out(window, chunk)]
        # Also hand out further ready chunks, but only small ones in private memory: a consumer holds few
        # slots at a time, and results that it has not read yet no longer count as pending.
        if self._chunking.hands_out_runs:
            nbytes = chunk.result.nbytes or 0
            while nbytes < CHUNK_BYTES:
                chunk = window.ready()
                if chunk is None or chunk.result.holds_slot():
                    break
                taken.append(self._hand_out(window, chunk))
                nbytes += chunk.result.nbytes or 0
        if self._refills(feed):
            draws = self._submit(feed, [])
        else:
            self._backend.flush()
        return taken, draws

    def _has_ended(self, feed: _Feed) -> bool:
        window = feed.window
        if not window.ended():
            return False
        failure, window.failure = window.failure, None
        if failure is not None:
            self._refuse(failure)
        self._end(feed)
        return True

    def _hand_out(self, window: Window, chunk: Chunk) -> Chunk:
        try:
            chunk.result.claim()
        except MemoryError as error:  # nothing is lost
            self._refuse(error)
        window.hand_out(chunk)
        self._counts["items"] += len(chunk.indices)
        if self._progress is not None and self._progress.is_due(self._counts["items"]):
            self._progress.log(self._statistics())
        return chunk

    def _refills(self, feed: _Feed) -> bool:
        """Return whether to submit more jobs now. While many are pending, submit several jobs at once."""
        pending, depth = feed.window.pending(), self._chunking.depth
        is_due = depth - pending >= depth // 4 or pending <= 2 * self._chunking.workers
        return is_due and self._failure is None and not self._closed

    # ---------------------------------------------------------------- too few free slots

    def _wait_for_memory(self, chunk: Chunk, since_ns: int) -> int:
        """Wait until the consumer drops other results. Return when the wait began."""
        since_ns = since_ns or perf_counter_ns()
        waits = self._options.on_exhausted == "block"
        left_s = PATIENCE_S - (perf_counter_ns() - since_ns) / 1e9
        if waits and left_s > 0:
            self._backend.await_release(left_s)
            return since_ns
        raise SlotsExhausted(
            f"prefetch[{brief(chunk.index(0))}] waits in shared memory, where you hold"
            f" {self.statistics().leased} results already{f' (waited {PATIENCE_S:.0f} s)' if waits else ''}."
            " Drop some, copy what you keep, or set on_exhausted='copy'"
        )

    # ---------------------------------------------------------------- submitting

    def _submit(self, feed: _Feed, drawn: list[Chunk], waiting: bool = False) -> int:
        """Submit jobs for the chunks of a consumer, `drawn` included. Return how many more to draw."""
        if self._life.over:
            return 0  # the consumer gets the error at its next read
        window, chunking = feed.window, self._chunking
        if drawn:
            window.add(drawn)
        if self._dropped:
            self._sweep()
        self._wanting.discard(feed)
        if feed.skipped:
            return 0  # the chunks of the skipped jobs come first, and have not returned yet
        if not window.has_unasked():
            return self._room(feed, waiting)
        try:
            while self._has_place(feed):
                if not (self._backend.has_room() or self._needs_none(feed)):
                    return 0
                # Limit the urgent jobs: one more, for an earlier item, would have to wait until they end.
                chunk = window.ask(chunking.size, len(feed.urgent) < 2 * chunking.workers)
                if chunk is None:
                    return 0 if window.has_unasked() else self._room(feed, waiting)
                self._send(feed, chunk)
            if waiting:
                self._wanting.add(feed)
            return 0
        finally:
            self._backend.flush()

    def _room(self, feed: _Feed, waiting: bool) -> int:
        """Return how many chunks a consumer should draw now."""
        room = feed.window.room(self._chunking.size, self._chunking.depth, waiting)
        if room and not self._has_place(feed):
            if waiting:
                self._wanting.add(feed)
            return 0
        return min(room, self._backend.capacity - len(self._flying))

    def _has_place(self, feed: _Feed) -> bool:
        """Return whether there is a place for another job that no consumer with fewer jobs waits for.

        Without this rule a fast consumer would take every place as soon as it becomes free. A consumer that
        leaves a place to others has jobs in flight, so it goes on when one of these returns.
        """
        if len(self._flying) >= self._backend.capacity:
            return False
        wanting = self._wanting
        return not wanting or not any(len(other.tickets) < len(feed.tickets) for other in wanting)

    def _needs_none(self, feed: _Feed) -> bool:
        """Return whether to submit a job although there is no memory for its result."""
        if not feed.window.starving():
            return False
        # Jobs in flight give their slots back. If no job is in flight, all slots are leased or retired, and
        # the consumer would wait for itself without end. So its result travels without a slot.
        return self._make_room(feed) or not self._flying

    def _make_room(self, wanting: _Feed) -> bool:
        """Copy a waiting result out of its slot: paused consumers first, and the last chunk first."""
        others = [feed for feed in list(self._feeds.values()) if feed is not wanting]
        for feed in [*others, wanting]:
            for chunk in feed.window.arrived():
                if chunk.result.detach():
                    return True
        return False

    def _send(self, feed: _Feed, chunk: Chunk) -> None:
        ticket = next(self._tickets)
        self._flying[ticket] = feed, chunk
        feed.tickets.add(ticket)
        # One worker skips the jobs that must not run before this one. Other consumers need not wait for it.
        is_urgent = chunk.was_asked and (not feed.number or chunk.deaths > 0)
        if is_urgent:
            feed.urgent.add(ticket)
        if len(chunk.indices) > 1:
            if not self._grouped and self._receiver is not None:
                self._backend.wake()  # the receiver must now look for finished items
            self._grouped.add(ticket)
        try:
            is_whole = self._chunking.fixed is not None
            self._backend.submit(
                Job(ticket, feed.epoch, chunk.indices, is_whole, is_urgent, feed.number, feed.ended_early)
            )
        except Unsendable as error:
            self._land(ticket)
            chunk.result = Ready.failed(error.reason, len(chunk))

    # ---------------------------------------------------------------- receiving

    def _await(self, feed: _Feed, turn: int) -> None:
        """Wait until events have arrived since `turn`. Receive for all consumers if no thread does."""
        me = threading.get_ident()
        if self._receiver == me or self._backend.is_worker():
            self._step(self._wanting.discard, feed)
            raise ReadsItself
        try:
            timeout_s = self._step(self._lead, me, turn)
            if timeout_s is not None:
                events = self._backend.receive(timeout_s)
                if self._grouped and (not events or perf_counter_ns() > self._look_at_ns):
                    events += self._backend.collect()
                    self._look_at_ns = perf_counter_ns() + int(LOOK_S * 1e9)
                self._step(self._handle_all, events)
                return
        except BaseException:
            if self._receiver == me:
                self._receiver = None
                self.close()
            raise
        with self._lock:
            if self._turns == turn and self._receiver is not None:
                self._arrived.wait(1.0)

    def _lead(self, me: int, turn: int) -> float | None:
        """Become the receiver, if there is none. Return how long to wait."""
        if self._receiver is not None or self._turns != turn:
            return None
        self._check()
        wait_s = LOOK_S if self._grouped else LONGEST_WAIT_S
        limit_s = self._options.timeout_s
        if limit_s is not None:
            wait_s = min(wait_s, limit_s)
            for ticket, running_s in self._backend.running_s().items():
                if running_s >= limit_s:
                    self._backend.stop(ticket)
                else:
                    wait_s = min(wait_s, limit_s - running_s)
        self._receiver = me
        return wait_s

    def _handle_all(self, events: list[Event]) -> None:
        self._sweep()  # results of dropped consumers must not affect the cost of items
        for event in events:
            self._handle(event)
        self._backend.flush()  # there may be places now for jobs that wait in the backend
        self._turns += 1
        self._receiver = None
        self._arrived.notify_all()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Failed):
            self._failure = self._failure or event  # the first failure causes the others
            return
        flown = self._flying.get(event.ticket)
        if isinstance(event, Done):
            self._counts["jobs"] += event.is_last
            if flown is None or flown[0].dropped or flown[1].dropped:
                event.result.discard()
            else:
                self._deliver(*flown, event)
            if event.is_last:
                self._land(event.ticket)
            return
        self._land(event.ticket)
        if flown is None or flown[0].dropped or flown[1].dropped:
            return
        feed, chunk = flown
        if isinstance(event, Lost) and not self._was_in_time(event):
            self._lose(feed.window, chunk, event)
        else:
            feed.window.take_back(chunk)

    def _was_in_time(self, event: Lost) -> bool:
        """Return whether the worker was ended for an item that it finished just before the timeout.

        The lost item had then only begun.
        """
        return event.timed_out and event.ran_s < (self._options.timeout_s or 0)

    def _deliver(self, feed: _Feed, chunk: Chunk, event: Done) -> None:
        """Give a chunk its result, and arrange for the missing items."""
        window, count = feed.window, event.result.count
        chunk.worker = event.worker
        if feed.number and event.is_last and not event.is_end and count < len(chunk.indices):
            feed.ended_early = event.ticket
            feed.skipped |= feed.tickets
        if event.is_last:
            self._counts["worked_ns"] += event.cost_ns
        if not count:
            event.result.discard()  # an empty result may have a slot, too
        elif event.is_last:
            self._chunking.measure(event.cost_ns, event.result.nbytes, count)
        if event.is_end:
            if count:
                chunk.result = event.result
            window.end_at(chunk, count)
        elif not count:
            window.take_back(chunk)
        else:
            rest = window.deliver(chunk, event.result, is_asked=not event.is_last)
            if not event.is_last:
                self._flying[event.ticket] = feed, rest or _NOTHING

    def _land(self, ticket: int) -> None:
        """Record that a job is no longer in flight."""
        flown = self._flying.pop(ticket, None)
        self._grouped.discard(ticket)
        if flown is not None:
            flown[0].tickets.discard(ticket)
            flown[0].urgent.discard(ticket)
            flown[0].skipped.discard(ticket)

    def _lose(self, window: Window, chunk: Chunk, event: Lost) -> None:
        """Retry the first item of a chunk, whose worker was lost, or report the loss."""
        if event.worker is None and len(chunk) > 1:
            window.scatter(chunk)  # a task does not report its current item, so any item may be the cause
            return
        window.isolate(chunk)
        if event.timed_out or chunk.deaths >= self._options.retries:
            chunk.result = Ready.failed(self._obituary(chunk, event))
            chunk.fatal = True
        else:
            chunk.deaths += 1
            window.take_back(chunk)

    def _obituary(self, chunk: Chunk, event: Lost) -> EvaluationError:
        index = chunk.index(0)
        who = "a worker of the executor" if event.worker is None else f"worker {event.worker}"
        who += f" (pid {event.pid})" if event.pid else ""
        known: dict[str, Any] = {"index": index, "worker": event.worker}
        item = f"prefetch[{brief(index)}]"
        if event.timed_out:
            late = ItemTimeout(
                f"{item} took longer than {self._options.timeout_s} s in {who},"
                f" which {event.cause} after {event.ran_s:.2f} s",
                **known,
            )
            if event.stack:
                late.add_note(f"Where it was (most recent call last):\n{event.stack}")
            return late
        tries = f", {chunk.deaths + 1} workers in a row" if chunk.deaths else ""
        return WorkerDied(f"{item}: {who} {event.cause} while computing it{tries}{event.hint}", **known)

    # ---------------------------------------------------------------- start and close

    def statistics(self) -> Statistics:
        """Return the figures. Inside a step, return the figures of the last call."""
        return self._latest if self._is_inside() else self._step(self._statistics)

    def _statistics(self) -> Statistics:
        self._sweep()
        counts = {**self._counts, "chunk": self._chunking.size, **self._backend.statistics()}
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
            self._backend.wake()
        elif not self._is_inside():  # otherwise the step closes the node when it ends
            self._finish_closing()

    def _finish_closing(self) -> None:
        with self._lock:
            while self._receiver is not None:
                if self._receiver == threading.get_ident():
                    return
                self._backend.wake()
                self._arrived.wait(1)
            for feed in list(self._feeds.values()):
                feed.window.end()
            self._flying.clear()
            self._backend.close()
            self._life.forget()
            self._arrived.notify_all()

    def _check(self) -> None:
        """Raise an error if the node has failed or is closed."""
        if self._failure is not None:
            failed = self._failure
            who = "the executor" if failed.worker is None else f"worker {failed.worker}"
            failure = RuntimeError(f"prefetch: {who} {failed.what}: {summary(failed.error)}")
            failure.__cause__ = failed.error
            self._refuse(failure)
        if self._closed or self._life.over:
            self._refuse(RuntimeError(CLOSED))


# Stands for the remaining items of a job that has delivered all its items, but has not ended.
_NOTHING = Chunk(())
_NOTHING.dropped = True


def _cancel(backend: Backend, tickets: set[int], _: object = None) -> None:
    for ticket in list(tickets):
        backend.cancel(ticket)
