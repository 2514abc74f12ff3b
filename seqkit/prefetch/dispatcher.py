"""Between the readers and the workers of one node: submits, receives, retries, sorts.

Any number of readers (iterators, scans of plain indexing, threads) each have a window on the shared
workers. There is no thread of the node's own: whichever reader waits receives for all of them.

Guarantees
----------
- a job is submitted only within the backend's capacity, so submitting never blocks;
- a waiting reader makes progress: a paused reader's undelivered results give up their slots to it, and
  where every slot is leased or retired its job travels without one;
- an item is lost to nobody: it is delivered, or named by an error, once for every reader that wants it;
- a permanent failure (start hook, workers that cannot start) reaches every reader once, then ends it;
- dropping a reader cancels its pending work at once, also from the garbage collector; Ctrl-C there loses
  nothing but that;
- after Ctrl-C, or another exception of a signal handler, that struck anywhere, the next read starts anew;
- a signal handler that closes or reads the node may strike anywhere, too: a step that has begun is taken to
  its end before the books go, or anybody else sees them.

Relies on
---------
- `Backend.cancel` being safe anywhere; everything else of the backend is called by one thread at a time:
  `receive` by the one reader that is `_receiver`, the rest under the lock.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import Any, TypeVar

from ..errors import EvaluationError, ItemTimeout, SlotsExhausted, WorkerDied, summary
from .protocol import Backend, Done, Event, Failed, Job, Lost, Unjoined
from .results import Carrier, Outcomes, Ready, Unreadable, Unsendable
from .signals import CtrlCHeld
from .statistics import Progress, Statistics, items_per_line
from .window import Chunk, Window

__all__ = ["Dispatcher", "Options", "Reader", "ReadsItself"]

# Chunks are as large as it takes for the reader to get a message in so many nanoseconds, from whichever
# worker: enough that its cost (some ten microseconds) is small, little enough that items keep coming.
MESSAGE_NS = 500_000
CHUNK_BYTES = 256 * 1024
MAX_CHUNK = 4096
# Unless the user says how much is computed ahead: no more bytes than this, as long as every worker has a job;
# and so many chunks, as long as they are small, that a slow item holds the others up for long only.
AHEAD_BYTES = 1 << 30
SMALL_AHEAD_BYTES = 1 << 26
MAX_DEPTH = 64
# With on_exhausted="block", how long a reader waits for arrays to be dropped, and how often it looks: they
# are dropped anywhere, also in the garbage collector, where nobody can be told.
PATIENCE_S = 60.0
LOOK_AGAIN_S = 0.005
# How often a reader looks that waits for another one to receive. It is notified; but a signal handler that
# reads in its thread may be so in its place.
LOOK_UP_S = 1.0
# How long who closes the node, or asks for its figures, waits for a step of another thread: its plan may wait
# for something that comes later, or never.
STEP_S = 0.5
# No single wait is longer, which the system could not count: whoever waits looks again.
LONGEST_WAIT_S = 86_400.0
CLOSED = "prefetch: the node is closed; restart() starts it anew"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Options:
    """How a node works ahead.

    `depth` is the most chunks a reader has pending, `max_buffered` the most items (None: as many as the
    chunks hold); `chunk_size` None means chosen; `timeout_s` None means none. `on_exhausted` says what
    happens to a reader who holds as many results in slots as there may be: "copy", "block" or "raise".
    `message_ns` is how often, in nanoseconds, the reader is to get a message at most.
    """

    workers: int
    depth: int
    max_buffered: int | None
    chunk_size: int | None
    timeout_s: float | None
    retries: int
    on_exhausted: str = "copy"
    message_ns: int = MESSAGE_NS


class ReadsItself(RuntimeError):
    """The node is read where that would wait for itself; nothing is lost, and the reader may go on later."""

    def __init__(self) -> None:
        super().__init__(
            "prefetch: an item, a task of its executor or a signal handler reads the node that waits for it;"
            " read it elsewhere"
        )


class _Told(Carrier):
    """What a reader is to be told, by us and not by a signal handler: the books are in order."""


class _Feed:
    """A reader's window, and its jobs in flight. Outlives the reader until its jobs are back."""

    __slots__ = ("dropped", "epoch", "tickets", "watches", "window")

    def __init__(self, window: Window, epoch: int) -> None:
        self.window = window
        self.epoch = epoch
        self.tickets: set[int] = set()
        self.watches: list[weakref.ref[Reader]] = []
        self.dropped = False


class Reader:
    """One reader of a node: `next` gives chunk after chunk, in order."""

    def __init__(self, dispatcher: Dispatcher, feed: _Feed) -> None:
        self._dispatcher = dispatcher
        self._feed = feed

    def next(self) -> tuple[Chunk, Outcomes] | None:
        """Return the next chunk with its outcomes, or None at the end of the plan."""
        return self._dispatcher.next(self._feed)

    def prepare(self) -> None:
        """Submit what may be submitted, without waiting for anything."""
        self._dispatcher.prepare(self._feed)

    def limit(self, items: int) -> None:
        """Change how many items may be pending, within the node's own limit."""
        self._dispatcher.limit(self._feed, items)

    def stop(self) -> None:
        """Ask for nothing further: the sequence has ended."""
        self._dispatcher.stop(self._feed)

    def close(self) -> None:
        """Cancel what is pending: nobody reads on. Dropping the reader does it too."""
        self._dispatcher.drop(self._feed)

    def ended(self) -> bool:
        """Is the node behind it of no more use?"""
        return self._dispatcher.ended()


class Dispatcher:
    """Shares the workers of a backend between readers."""

    def __init__(self, backend: Backend, options: Options) -> None:
        self.pid = os.getpid()
        self._backend = backend
        self._options = options
        # Reentrant, so that a signal handler may come at any moment: it must not wait for what it struck.
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._receiver: int | None = None  # the thread that receives for all
        self._turns = 0  # how often something was received
        # Is a step under way whose half nobody may see? Only a signal handler can find it so, in the thread
        # that has the lock: were it to read on, it could take away what the step has in its hands.
        self._amid = False
        self._closed = False
        self._late = False  # is it closed but for what a step still needs?
        self._failure: Failed | None = None
        self._tickets = count(1)
        self._flying: dict[int, tuple[_Feed, Chunk]] = {}
        self._feeds: dict[weakref.ref[Reader], _Feed] = {}
        self._wanting: set[_Feed] = set()  # of readers that wait, and had no place for a job
        self._dropped: deque[weakref.ref[Reader]] = deque()
        self._latest = Statistics()
        self._counts = dict.fromkeys((field.name for field in fields(Statistics)), 0)
        self._item_ns: float | None = None
        self._item_bytes = 0.0
        self._chunk = options.chunk_size or 1
        self._depth = options.depth
        every = items_per_line()
        self._progress = Progress(every, options.workers) if every else None
        self._nbytes: int | None = -1  # of the last result
        self._life = _Life(backend, self._lock)  # nothing leads to it from outside
        self._over = self._life.over
        try:
            backend.start()
        except BaseException:
            self._life.end()
            raise

    # ---------------------------------------------------------------- readers

    def open(
        self, plan: Iterable[Any], epoch: int, limit: int | None = None, in_order: bool = True
    ) -> Reader:
        """Return a reader of a plan; it asks for nothing until its first `next` or `prepare`."""
        feed = _Feed(Window(plan, self._limit(limit), self._options.depth, in_order), epoch)
        reader = Reader(self, feed)
        self._whole(self._watch, reader, feed)
        return reader

    def _watch(self, reader: Reader, feed: _Feed) -> None:
        # Callbacks run in the garbage collector at any moment, perhaps inside our own lock: no lock, no wait.
        # What Ctrl-C strikes there, Python drops. So the books are left to one without Python code.
        dropped = weakref.ref(reader, self._dropped.append)
        feed.watches = [dropped, weakref.ref(reader, partial(_cancel, self._backend, feed.tickets))]
        self._feeds[dropped] = feed

    def stop(self, feed: _Feed) -> None:
        self._whole(feed.window.stop)

    def drop(self, feed: _Feed) -> None:
        """Cancel what is pending for a reader."""
        watches = feed.watches
        if self.ended() or not watches:
            return
        if self._is_inside():  # the step may have one of its results in hand
            _cancel(self._backend, feed.tickets)
            self._dropped.append(watches[0])
        else:
            self._whole(self._drop, feed)

    def _drop(self, feed: _Feed) -> None:
        _cancel(self._backend, feed.tickets)
        self._end(feed)

    def _end(self, feed: _Feed) -> None:
        """Forget a reader, and give back what waits for it."""
        if feed.watches:
            del self._feeds[feed.watches[0]]
            feed.watches = []
        feed.dropped = True
        self._wanting.discard(feed)
        for chunk in feed.window.end():
            if chunk.parcel is not None and not (self._closed or self._over):
                chunk.parcel.discard()

    def limit(self, feed: _Feed, items: int) -> None:
        self._whole(setattr, feed.window, "limit", self._limit(items))

    def _limit(self, items: int | None) -> int:
        most = self._options.max_buffered or MAX_CHUNK * self._options.depth
        return most if items is None else min(items, most)

    def prepare(self, feed: _Feed) -> None:
        if not self._is_inside():  # else the first `next` does it
            self._whole(self._prepare, feed)

    def _prepare(self, feed: _Feed) -> None:
        self._check()
        self._fill(feed)

    def _whole(self, step: Callable[..., R], *arguments: Any) -> R:
        """Take a step wholly, or give the node up: what strikes from outside may leave half of it."""
        try:
            with self._lock:
                amid, self._amid = self._amid, True
                try:
                    result = step(*arguments)
                except BaseException as struck:
                    self._note(struck)
                    raise
                finally:
                    self._amid = amid
        except BaseException as struck:
            error = self._reason(struck)
        else:
            self._close_late()
            return result
        try:
            raise error
        finally:
            del error  # whose traceback leads here, and to what the reader has

    def _note(self, struck: BaseException) -> None:
        """Let nobody else in, who would find the books half written, if a step did not end by itself."""
        self._closed = self._closed or not isinstance(struck, _Told)

    def _reason(self, struck: BaseException) -> BaseException:
        """Return what to tell a reader; give the node up if it is not by us."""
        if not isinstance(struck, _Told):
            self._lose()
            return struck
        self._close_late()
        return struck.reason

    def next(self, feed: _Feed) -> tuple[Chunk, Outcomes] | None:
        if self.pid != os.getpid():  # the workers are the parent's, and the lock may be held for ever
            raise RuntimeError("prefetch: this iterator was begun before a fork; begin another one")
        while True:
            try:  # as `_whole` does, whose call would cost a fiftieth of all
                chunk = self._next_chunk(feed)
            except BaseException as struck:
                reason = self._reason(struck)
                break
            if self._late:
                self._close_late()
            if chunk is None:
                return None
            try:
                outcomes = chunk.parcel.open()
            except (Unreadable, Unjoined) as error:
                outcomes = self._whole(self._unreadable, feed, chunk, error)
            if outcomes is None:
                continue
            if beyond := chunk.size - len(outcomes.values):  # the sequence has ended
                self._whole(self._uncount, beyond)
            if self._progress is not None and self._progress.is_due(self._counts["items"]):
                self._progress.log(self.statistics())
            return chunk, outcomes
        try:
            raise reason
        finally:
            del reason  # as there

    def _next_chunk(self, feed: _Feed) -> Chunk | None:
        begun = blocked_since = 0
        while True:
            with self._lock:
                if self._amid:
                    raise _Told(ReadsItself())
                self._amid = True
                try:
                    self._check()
                    turn = self._turns
                    chunk = feed.window.ready()
                    if chunk is None:
                        self._fill(feed, waiting=True)
                        self._check()  # once more: a signal handler, or the plan, may have closed the node
                        chunk = feed.window.ready()
                    blocked = chunk is not None and self._is_exhausted(chunk, blocked_since)
                    if chunk is not None and not blocked:
                        self._counts["waited_ns"] += perf_counter_ns() - begun if begun else 0
                        return self._hand_out(feed, chunk)
                    if feed.window.ended():
                        failure, feed.window.failure = feed.window.failure, None
                        if failure is not None:
                            raise _Told(failure)
                        self._end(feed)
                        return None
                    if blocked:  # it wants memory, not a place
                        self._wanting.discard(feed)
                    begun = begun or perf_counter_ns()
                    blocked_since = (blocked_since or perf_counter_ns()) if blocked else 0
                    patience = LOOK_AGAIN_S if blocked else None
                    reading = threading.get_ident()
                    if self._receiver == reading or self._backend.is_worker():
                        raise _Told(ReadsItself())
                    if leads := self._receiver is None:
                        # From here on a signal handler that closes the node leaves it to us.
                        self._receiver = reading
                        if self._closed:  # one was here before
                            self._step_back()
                            continue
                        timeout = self._expire(patience)
                except BaseException as struck:
                    self._wanting.discard(feed)
                    self._note(struck)
                    raise
                finally:
                    self._amid = False
            if leads:
                self._receive(timeout)
            else:
                self._follow(feed, turn, patience)

    def _is_exhausted(self, chunk: Chunk, since_ns: int) -> bool:
        """Must the reader let go of other results before this one, which it would share memory with?"""
        policy = self._options.on_exhausted
        if policy == "copy" or not chunk.parcel.must_copy():
            return False
        waited_s = (perf_counter_ns() - since_ns) / 1e9 if since_ns else 0.0
        if policy == "block" and waited_s < PATIENCE_S:
            return True
        held = self._backend.statistics()["leased"]
        why = (
            f"prefetch[{chunk.index(0)}] waits in shared memory, of which {held} results are held already;"
            " drop some, copy what is to be kept, or let on_exhausted='copy' do so"
        )
        raise _Told(SlotsExhausted(why + f" (waited {waited_s:.0f} s)" * (policy == "block")))

    def _hand_out(self, feed: _Feed, chunk: Chunk) -> Chunk:
        try:
            chunk.parcel.claim()
        except MemoryError as error:  # nothing is lost
            raise _Told(error) from None
        feed.window.hand_out(chunk)
        self._wanting.discard(feed)
        self._counts["items"] += chunk.size
        # The workers go on while the reader works. Several jobs at once, where many are pending anyhow.
        pending, depth = feed.window.pending(), self._depth
        if depth - pending >= depth // 4 or pending <= 2 * self._options.workers:
            self._fill(feed)
        else:
            self._backend.flush()  # for one that has not yet sent all it has
        return chunk

    def _unreadable(self, feed: _Feed, chunk: Chunk, error: Unreadable | Unjoined) -> Outcomes | None:
        """A result that cannot be decoded: find the item that is at fault, and make it its outcome."""
        if len(chunk) == 1 and isinstance(error, Unreadable):
            return Outcomes([None], {0: error.reason})
        feed.window.back(chunk)
        self._uncount(len(chunk))
        return None

    def _uncount(self, items: int) -> None:
        self._counts["items"] -= items

    # ---------------------------------------------------------------- submitting

    def _fill(self, feed: _Feed, waiting: bool = False) -> None:
        self._sweep()
        window = feed.window
        window.depth = self._depth
        self._wanting.discard(feed)
        try:
            if not window.is_full():
                self._submit_all(feed, window, waiting)
        finally:
            self._backend.flush()

    def _submit_all(self, feed: _Feed, window: Window, waiting: bool) -> None:
        while self._has_a_place(feed):
            if not self._backend.ready() and not (window.starving() and self._make_room(feed)):
                # Slots come back from jobs in flight. Where there are none, all slots are leased or
                # retired, and a reader that waits for itself would wait for ever.
                needed = window.starving() and not self._flying
                if not needed:
                    return
            self._amid = False  # for the plan, which may read the node itself
            chunk = window.ask(self._chunk, waiting)
            self._amid = True
            if chunk is None:
                if window.has_lost():  # meanwhile: the plan has read the node, and events came
                    continue
                return
            if self._closed or len(self._flying) >= self._backend.capacity:  # by now
                window.skipped(chunk)
                return
            self._send(feed, chunk)
        if waiting:
            self._wanting.add(feed)

    def _has_a_place(self, feed: _Feed) -> bool:
        """Is there a place for another job, and nobody waits for one who has fewer jobs than this reader?

        Else who reads fast would take every place as it becomes free. Who leaves one to others has jobs in
        flight, so that something comes that it goes on with.
        """
        if len(self._flying) >= self._backend.capacity:
            return False
        wanting = self._wanting
        return not wanting or not any(len(other.tickets) < len(feed.tickets) for other in wanting)

    def _make_room(self, wanting: _Feed) -> bool:
        """Copy a waiting result out of its slot: a paused reader's first, the farthest one first."""
        others = [feed for feed in list(self._feeds.values()) if feed is not wanting]
        for feed in [*others, wanting]:
            for chunk in feed.window.arrived():
                if chunk.parcel.detach():
                    return True
        return False

    def _send(self, feed: _Feed, chunk: Chunk) -> None:
        ticket = next(self._tickets)
        self._flying[ticket] = feed, chunk
        feed.tickets.add(ticket)
        try:
            self._backend.submit(Job(ticket, feed.epoch, chunk.indices))
        except Unsendable as error:
            self._landed(ticket)
            failures = dict.fromkeys(range(chunk.size), error.reason)
            chunk.parcel = Ready(Outcomes([None] * chunk.size, failures))

    # ---------------------------------------------------------------- receiving

    def _receive(self, timeout: float | None) -> None:
        """Receive for all readers; the others wait."""
        events = self._backend.receive(timeout)
        with self._lock:
            self._amid = True
            try:
                self._sweep()  # what nobody waits for any more says nothing about the cost of items
                for event in events:
                    self._handle(event)
                self._turns += 1
                self._step_back()
            except BaseException as struck:
                self._note(struck)
                raise
            finally:
                self._amid = False

    def _follow(self, feed: _Feed, turn: int, patience_s: float | None) -> None:
        """Wait for the one that receives."""
        if self._is_inside():  # others would get the lock in the middle of the step
            self._wanting.discard(feed)
            raise _Told(ReadsItself())
        with self._lock:
            if self._turns == turn and self._receiver is not None:
                self._arrived.wait(patience_s or LOOK_UP_S)

    def _step_back(self) -> None:
        """Receive no more."""
        self._receiver = None
        self._arrived.notify_all()
        if self._closed:
            self._abandon()

    def _lose(self) -> None:
        """Give the node up: Ctrl-C may have hit anywhere, and have lost what somebody waits for."""
        with self._lock:
            self._closed = True
            if self._receiver == threading.get_ident():
                self._step_back()
        self.close()

    def _expire(self, patience_s: float | None = None) -> float | None:
        """Stop jobs that ran too long; return for how many seconds there is nothing to be done about time."""
        limit = self._options.timeout_s
        if limit is None:
            return patience_s
        left = min(limit, LONGEST_WAIT_S if patience_s is None else patience_s)
        for ticket, running_s in self._backend.running_s().items():
            if running_s >= limit:
                self._backend.stop(ticket)
            else:
                left = min(left, limit - running_s)
        return left

    def _handle(self, event: Event) -> None:
        if isinstance(event, Done):
            self._counts["jobs"] += 1
            landed = self._landed(event.ticket)
            if landed is None:
                event.parcel.discard()
                return
            _, chunk = landed
            chunk.parcel, chunk.worker = event.parcel, event.worker
            self._measure(event, chunk.size)
        elif isinstance(event, Failed):
            self._failure = self._failure or event  # the first one is the reason of the others
        elif (landed := self._landed(event.ticket)) is not None:
            if isinstance(event, Lost):
                self._lost(*landed, event)
            else:
                landed[0].window.skipped(landed[1])

    def _landed(self, ticket: int) -> tuple[_Feed, Chunk] | None:
        """Note that a job is no longer in flight; return whose it was, if anybody still wants it."""
        flown = self._flying.pop(ticket, None)
        if flown is None:
            return None
        flown[0].tickets.discard(ticket)
        return None if flown[0].dropped else flown

    def _lost(self, feed: _Feed, chunk: Chunk, event: Lost) -> None:
        if len(chunk) == 1:
            if event.timed_out or chunk.deaths >= self._options.retries:
                chunk.parcel = Ready(Outcomes([None], {0: self._obituary(chunk, event)}))
                chunk.fatal = True
                return
            chunk.deaths += 1
        feed.window.again(chunk)

    def _obituary(self, chunk: Chunk, event: Lost) -> EvaluationError:
        index = chunk.index(0)
        who = "a worker of the executor" if event.worker is None else f"worker {event.worker}"
        who += f" (pid {event.pid})" if event.pid else ""
        known: dict[str, Any] = {"index": index, "worker": event.worker}
        if event.timed_out:
            return ItemTimeout(
                f"prefetch[{index}] took longer than {self._options.timeout_s} s in {who},"
                f" which {event.cause} after {event.ran_s:.2f} s",
                **known,
            )
        tries = f", {chunk.deaths + 1} workers in turn" if chunk.deaths else ""
        return WorkerDied(f"prefetch[{index}]: {who} {event.cause} while computing it{tries}", **known)

    def _measure(self, event: Done, count: int) -> None:
        """Adapt to what items cost how large a chunk is, and how many are pending."""
        self._counts["worked_ns"] += event.cost_ns
        nbytes = event.parcel.nbytes
        if nbytes != self._nbytes and self._options.max_buffered is None:
            self._nbytes = nbytes
            self._depth = self._depth_for(nbytes)
        if self._options.chunk_size is not None:
            return
        item_ns = event.cost_ns / count
        self._item_ns = item_ns if self._item_ns is None else 0.5 * (self._item_ns + item_ns)
        self._item_bytes = max((nbytes or 0) / count, 0.5 * self._item_bytes)
        chunk_ns = self._options.message_ns * self._options.workers
        size = min(chunk_ns / max(self._item_ns, 1), CHUNK_BYTES / max(self._item_bytes, 1), MAX_CHUNK)
        if self._options.max_buffered is not None:
            size = min(size, self._options.max_buffered / (2 * self._options.workers))
        self._chunk = max(1, min(int(size), 8 * self._chunk))

    def _depth_for(self, nbytes: int | None) -> int:
        """Return how many chunks of so many bytes may be pending."""
        depth, most = self._options.depth, AHEAD_BYTES // max(nbytes or 1, 1)
        if nbytes is not None:
            depth = max(depth, min(SMALL_AHEAD_BYTES // max(nbytes, 1), MAX_DEPTH))
        return min(depth, max(most, self._options.workers))

    # ---------------------------------------------------------------- the node's life

    def statistics(self) -> Statistics:
        """Return the figures; those of the last time amid a step, where nothing is given back."""
        if not self._is_inside():
            self._patiently(self._whole, self._statistics)
        elif not self._amid:
            self._whole(self._statistics)
        return self._latest

    def _statistics(self) -> None:
        self._sweep()
        counts = {**self._counts, "chunk": self._chunk, **self._backend.statistics()}
        self._latest = Statistics(**counts)

    def ended(self) -> bool:
        """Is it of no more use: closed, or a copy in a forked child?"""
        return self._closed or self.pid != os.getpid()

    def close(self) -> None:
        """End the workers; readers that wait or come later are told."""
        if self.pid != os.getpid():
            return
        self._closed = True
        if self._receiver == threading.get_ident():  # from a signal handler or an item: the end is near
            self._backend.wake()
            return
        self._late = True  # who takes a step closes at its end
        if not self._is_inside():
            self._patiently(self._close)

    def _close(self) -> None:
        while self._receiver is not None:
            self._backend.wake()
            self._arrived.wait(1)
        self._abandon()
        self._arrived.notify_all()
        self._late = False

    def _patiently(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call something under the lock, which this thread has not, unless a step of another one lasts."""
        is_ours: bool | None = None
        try:
            if is_ours := self._lock.acquire(timeout=STEP_S):
                call(*arguments)
        finally:
            if is_ours is not False:
                try:
                    self._lock.release()
                except RuntimeError:  # a signal handler raised before it was ours
                    if is_ours:
                        raise
        if is_ours:
            self._close_late()

    def _is_inside(self) -> bool:
        """Is it from within a step of ours that this is called: by a signal handler, or the plan?"""
        # Conditions ask their locks the same. No public question answers without raising, which could hide an
        # exception of a signal handler.
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def _close_late(self) -> None:
        """Close, if that was put off until the step at hand was over."""
        if self._late and not self._is_inside():
            self.close()

    def _abandon(self) -> None:
        """End the workers, and let go of every result that nobody has."""
        for feed in list(self._feeds.values()):
            feed.window.end()
        self._flying.clear()
        self._backend.close()
        self._life.forget()

    def _check(self) -> None:
        if self._failure is not None:
            failed = self._failure
            who = "the executor" if failed.worker is None else f"worker {failed.worker}"
            failure = RuntimeError(f"prefetch: {who} {failed.what}: {summary(failed.error)}")
            failure.__cause__ = failed.error
            raise _Told(failure)
        if self._closed or self._over:
            raise _Told(RuntimeError(CLOSED))

    def _sweep(self) -> None:
        """Give back what dropped readers left behind."""
        while self._dropped:
            feed = self._feeds.get(self._dropped.popleft())
            if feed is not None:
                self._end(feed)


def _cancel(backend: Backend, tickets: set[int], _: object = None) -> None:
    for ticket in list(tickets):
        backend.cancel(ticket)


class _Life:
    """Ends a backend that nobody reads any more: with the dispatcher it goes, or at the interpreter's exit.

    What `weakref.finalize` is to call lives as long as what it is called for. But functions of the pipeline,
    which the backend has, may lead back to the node: neither would ever go.
    """

    _pid: int | None = None  # of the process that is to end it

    def __init__(self, backend: Backend, lock: threading.RLock) -> None:
        self._backend = backend
        self._lock = lock
        # Not empty where nobody is to read any more: finalisers and hooks at the interpreter's exit may try.
        self.over: list[object] = []
        # The callback comes before any `__del__` of what goes with this.
        _lives[weakref.ref(self, _lives.pop)] = weakref.ref(self, self.over.append)
        self._pid = os.getpid()

    def end(self) -> None:
        if self._pid is None or self._pid != os.getpid():
            return
        with CtrlCHeld():  # which Python drops in the garbage collector, where nobody would try again
            # At exit a daemon thread may still be reading: it is to stay where it is from now on.
            self._lock.acquire(timeout=1)
            self.over.append(True)
            self._backend.close()
            self.forget()

    def forget(self) -> None:
        """The backend is closed."""
        self._pid = None

    __del__ = end


_lives: dict[weakref.ref[_Life], weakref.ref[_Life]] = {}


@atexit.register
def _end_all() -> None:
    """End what still lives at the interpreter's exit: the node that was started last comes first."""
    for life in reversed(list(_lives)):
        try:
            if (alive := life()) is not None:
                alive.end()
        except BaseException:  # the others are to end, too
            sys.excepthook(*sys.exc_info())
