"""One consumer of a node: which chunks it gets next, and which jobs it sends.

Guarantees
----------
- Consumers share the places for jobs evenly.
- The plan, which may run user code, is drawn without a lock.
- With one worker, nothing is sent before the jobs that the worker skips have returned.

Relies on
---------
- A consumer is read by one thread at a time. Methods whose name begins with an underscore run in a step of
  the dispatcher, under its lock, except `_fill`.
"""

from __future__ import annotations

import math
import os
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING

from .chunking import CHUNK_BYTES
from .protocol import Job, PrefetchError, Unsendable
from .results import Ready
from .window import Chunk, ChunkWindow

if TYPE_CHECKING:
    from .dispatcher import Dispatcher
    from .stages import StagePlan


class InFlight:
    """A job in flight: who wants it, and the items that it has not delivered yet."""

    __slots__ = ("chunk", "consumer", "is_skipped", "is_urgent")

    def __init__(self, consumer: Consumer, chunk: Chunk, is_urgent: bool) -> None:
        self.consumer = consumer
        self.chunk = chunk
        self.is_urgent = is_urgent
        self.is_skipped = False  # the only worker will skip it

    def is_wanted(self) -> bool:
        return not (self.consumer.dropped or self.chunk.dropped)


class Consumer:
    """A consumer's window and its jobs in flight. Kept after its reader is gone until the jobs return.

    It does not refer to the dispatcher, so that a forgotten node ends at once.
    """

    __slots__ = (
        "dropped",
        "epoch",
        "jobs",
        "limit_s",
        "order",
        "skipped",
        "stages",
        "urgent",
        "watches",
        "window",
    )

    def __init__(
        self, window: ChunkWindow, epoch: int, stage: StagePlan | None = None, limit_s: float = math.inf
    ) -> None:
        self.window = window
        self.epoch = epoch
        self.limit_s = limit_s  # how long an item may take
        self.stages = [] if stage is None else [stage]  # a list, which callbacks may hold
        self.jobs: dict[int, InFlight] = {}  # by ticket
        self.urgent = 0  # how many of them are urgent
        self.order = 0  # the last `Backend.order` that its jobs had
        self.skipped = 0  # how many jobs the only worker skips since then
        self.watches: list[weakref.ref[Reader]] = []
        self.dropped = False

    @property
    def stage(self) -> StagePlan | None:
        return self.stages[0] if self.stages else None


def end_stages(stages: list[StagePlan], _: object = None) -> None:
    """Stop the nodes below, which work ahead for a consumer. The garbage collector may call this."""
    while stages:
        stages.pop().close()


class Reader:
    """Reads as one consumer. When it is dropped, the consumer's pending items are cancelled."""

    __slots__ = ("__weakref__", "_dispatcher", "consumer")

    def __init__(self, dispatcher: Dispatcher, consumer: Consumer) -> None:
        self._dispatcher = dispatcher
        self.consumer = consumer

    # ---------------------------------------------------------------- without a lock

    def next(self) -> list[Chunk]:
        """Return the next chunks, with results to open. The list is empty at the end of the plan."""
        dispatcher, window = self._dispatcher, self.consumer.window
        if dispatcher.pid != os.getpid():  # the workers belong to the parent, and the lock may stay held
            raise PrefetchError("prefetch: this iterator was begun before a fork; begin another one")
        drawn: list[Chunk] = []
        begun_ns = 0
        while True:
            turn = dispatcher.turns
            got, draws = dispatcher.step(self._advance, drawn, begun_ns)
            if got is not None:
                self._fill(draws)
                return got
            drawn = self._draw(draws) if draws else []
            begun_ns = begun_ns or perf_counter_ns()
            if not drawn and not window.ended():
                dispatcher.await_events(self.consumer, turn)

    def prepare(self) -> None:
        """Submit as many jobs as possible, without waiting."""
        if self.consumer.stage is not None:
            self.consumer.stage.prepare()
        self._fill(self._dispatcher.step(self._submit, []))

    def limit(self, items: int) -> None:
        """Change how many items may be pending, up to the node's own limit."""
        self.consumer.window.limit = self._dispatcher.limit(items)

    def pending(self) -> int:
        """Return how many items are pending."""
        return self.consumer.window.pending_items()

    def knows_end(self) -> bool:
        """Return whether the end of the plan, or of the sequence, is known."""
        return self.consumer.window.is_drawn

    def plan_has_failed(self) -> bool:
        """Return whether the plan ended with an exception, which was raised."""
        return self.consumer.window.has_failed

    def close(self) -> None:
        """Cancel pending items. Dropping the reader has the same effect."""
        self._dispatcher.drop(self.consumer)

    def ended(self) -> bool:
        """Return whether the node cannot be read any more: it is closed, or a copy in a forked child."""
        return self._dispatcher.ended()

    def _fill(self, draws: int) -> None:
        """Draw `draws` chunks and submit them. Repeat while there is room."""
        dispatcher = self._dispatcher
        while draws:
            draws = dispatcher.step(self._submit, self._draw(draws))

    def _draw(self, chunks: int) -> list[Chunk]:
        """Draw chunks from the plan, without a lock."""
        window = self.consumer.window
        return window.draw(chunks, self._dispatcher.chunking.size_near_end(window.left()))

    # ---------------------------------------------------------------- handing out

    def _advance(self, drawn: list[Chunk], begun_ns: int) -> tuple[list[Chunk] | None, int]:
        """Return the chunks to hand out, or None if none is ready, and how many chunks to draw."""
        dispatcher, window = self._dispatcher, self.consumer.window
        dispatcher.check()
        dispatcher.wanting.discard(self.consumer)
        draws = 0
        chunk = window.ready()
        if chunk is None:
            draws = self._submit(drawn, waiting=True)
            chunk = window.ready()
            if chunk is None:
                return ([], 0) if self._has_ended() else (None, draws)
        elif drawn:
            window.add(drawn)
        if begun_ns:
            dispatcher.counts["waited_ns"] += perf_counter_ns() - begun_ns
        taken = self._taken(chunk)
        if self._refills():
            draws = self._submit([])
        else:
            dispatcher.backend.flush()
        return taken, draws

    def _taken(self, chunk: Chunk) -> list[Chunk]:
        """Take a chunk from the window, and further ready chunks that are small.

        Only those in private memory: a consumer holds few slots at a time, and results that it has not read
        yet no longer count as pending.
        """
        window = self.consumer.window
        taken = [self._hand_out(chunk)]
        if self._dispatcher.chunking.hands_out_runs:
            nbytes = chunk.result.nbytes or 0
            while nbytes < CHUNK_BYTES:
                further = window.ready()
                if further is None or further.result.holds_slot():
                    break
                taken.append(self._hand_out(further))
                nbytes += further.result.nbytes or 0
        return taken

    def _has_ended(self) -> bool:
        window = self.consumer.window
        if not window.ended():
            return False
        failure, window.failure = window.failure, None
        if failure is not None:
            window.has_failed = True
            self._dispatcher.refuse(failure)
        self._dispatcher.forget(self.consumer)
        return True

    def _hand_out(self, chunk: Chunk) -> Chunk:
        try:
            chunk.result.claim()
        except MemoryError as error:  # nothing is lost
            self._dispatcher.refuse(error)
        self.consumer.window.hand_out(chunk)
        self._dispatcher.count_items(len(chunk.indices))
        return chunk

    def _refills(self) -> bool:
        """Return whether to submit more jobs now. While many are pending, submit several jobs at once."""
        pending, depth = self.consumer.window.pending(), self._dispatcher.chunking.depth
        is_due = depth - pending >= depth // 4 or pending <= 2 * self._dispatcher.chunking.workers
        return is_due and not self._dispatcher.is_over()

    # ---------------------------------------------------------------- submitting

    def _submit(self, drawn: list[Chunk], waiting: bool = False) -> int:
        """Submit jobs for the chunks of the window and `drawn`. Return how many more to draw."""
        dispatcher, window = self._dispatcher, self.consumer.window
        if dispatcher.ends():
            return 0  # the consumer gets the error at its next read
        if drawn:
            window.add(drawn)
        dispatcher.sweep()
        dispatcher.wanting.discard(self.consumer)
        backend, chunking = dispatcher.backend, dispatcher.chunking
        if backend.keeps_order and self._waits_for_order(backend.order):
            return 0
        if not window.has_unasked():
            return self._room(waiting)
        try:
            while self._has_place():
                if not backend.has_room():
                    return 0  # jobs in flight will give back their slots
                # Limit the urgent jobs: one more, for an earlier item, would have to wait until they end.
                chunk = window.ask(chunking.size, self.consumer.urgent < 2 * chunking.workers)
                if chunk is None:
                    return 0 if window.has_unasked() else self._room(waiting)
                self._send(chunk)
            if waiting:
                dispatcher.wanting.add(self.consumer)
            return 0
        finally:
            backend.flush()

    def _waits_for_order(self, order: int) -> bool:
        """Return whether the only worker skips jobs of this consumer that have not returned yet.

        Their items come before all others of the consumer.
        """
        if order != self.consumer.order:
            self.consumer.order = order
            for job in self.consumer.jobs.values():
                job.is_skipped = True
            self.consumer.skipped = len(self.consumer.jobs)
        return self.consumer.skipped > 0

    def _room(self, waiting: bool) -> int:
        """Return how many chunks to draw now."""
        dispatcher = self._dispatcher
        room = self.consumer.window.room(dispatcher.chunking.size, self._depth(), waiting)
        if room and not self._has_place():
            if waiting:
                dispatcher.wanting.add(self.consumer)
            return 0
        return min(room, dispatcher.free_places())

    def _depth(self) -> int:
        """Return how many chunks may be pending."""
        return self._dispatcher.chunking.depth

    def _has_place(self) -> bool:
        """Return whether there is a place for another job that no consumer with fewer jobs waits for.

        Without this rule a fast consumer would take every place as soon as it becomes free. A consumer that
        leaves a place to others has jobs in flight, so it goes on when one of these returns.
        """
        if self._dispatcher.free_places() <= 0:
            return False
        wanting = self._dispatcher.wanting
        return not wanting or not any(len(other.jobs) < len(self.consumer.jobs) for other in wanting)

    def _send(self, chunk: Chunk) -> None:
        dispatcher, consumer = self._dispatcher, self.consumer
        # A single worker skips the jobs that must not run before this one.
        is_urgent = chunk.was_asked and not dispatcher.backend.keeps_order
        is_whole = dispatcher.chunking.fixed is not None or dispatcher.chunking.least > 1
        ticket = dispatcher.launch(InFlight(consumer, chunk, is_urgent))
        job = Job(
            *(ticket, consumer.epoch, chunk.indices, is_whole, is_urgent, consumer.limit_s < math.inf),
            *(consumer.order, consumer.stage, chunk.position),
        )
        try:
            dispatcher.backend.submit(job)
        except Unsendable as error:
            dispatcher.finish_job(ticket)
            chunk.result = Ready.failed(error.reason, len(chunk))
