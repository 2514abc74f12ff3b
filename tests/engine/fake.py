"""A backend that does what the test says, when it says so, and what tests over it have in common."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from seqkit.engine.chunking import Chunking
from seqkit.engine.protocol import Backend, Consumer, Done, Event, Job, Lost, Skipped, Unsendable
from seqkit.engine.reader import Reader, opened
from seqkit.engine.results import Outcomes, Result
from seqkit.engine.scheduler import Scheduler
from seqkit.engine.window import Chunk, ChunkWindow

__all__ = [
    "Fake",
    "a_job",
    "a_node",
    "a_node_of_chunks",
    "arrive",
    "in_threads",
    "named",
    "parts",
    "rest",
    "take",
]


class FakeResult(Result):
    """A result, perhaps in one of the fake's slots, which notes what is done with it."""

    def __init__(self, fake: Fake, indices: list[Any], in_slot: bool) -> None:
        self.fake = fake
        self.indices = indices
        self.in_slot = in_slot
        self.is_over = False  # claimed or discarded
        self.count = len(indices)
        self.nbytes = fake.item_bytes * len(indices)

    def _leave_slot(self, *, is_leased: bool = False) -> None:
        self.fake.free += self.in_slot and not is_leased
        self.in_slot = False

    def open(self) -> Outcomes:
        assert self.is_over
        return Outcomes([f"<{i}>" for i in self.indices])

    def holds_slot(self) -> bool:
        return self.in_slot

    def claim(self) -> None:
        assert not self.is_over
        if self.fake.memory_is_short:
            raise MemoryError
        self.is_over = True
        self._leave_slot(is_leased=self.fake.leases_stay)

    def discard(self) -> None:
        assert not self.is_over
        self.is_over = True
        self.fake.discarded.append(self.indices)
        self._leave_slot()


class FakeProgress:
    """How far the worker of a job is, as the test says."""

    worker = 1

    def __init__(self, fake: Fake, job: Job) -> None:
        self.fake = fake
        self.job = job

    def finished(self) -> int:
        self.fake.looks += 1
        return self.fake.when_looked_at(self.job.ticket)

    def take(self, first: int, stop: int) -> Result:
        return self.fake.taken(self.job.ticket, stop - first)

    def ran_s(self) -> float | None:
        return self.fake.running.get(self.job.ticket)


class Fake(Backend):
    """A backend in the hands of the test.

    `when_idle` is called where `receive` would wait; it may deliver. With `blocks`, `receive` really waits,
    for another thread to deliver. `when_looked_at` returns how many items of a running job are finished. A
    `private` one has no slots, and needs none.
    """

    order = 0

    def __init__(
        self,
        capacity: int = 4,
        slots: int = 99,
        *,
        private: bool = False,
        blocks: bool = False,
        keeps_order: bool = False,
    ) -> None:
        self.capacity = capacity
        self.keeps_order = keeps_order
        self.most_items = sys.maxsize
        self.free = slots
        self.private = private
        self.blocks = blocks
        self.when_idle: Callable[[], Any] = self.deliver_next
        self.when_looked_at: Callable[[int], int] = lambda _: 0
        self.leases_stay = self.memory_is_short = False
        self.item_bytes = 0
        self.refused: dict[Any, Exception] = {}
        self.running: dict[int, float] = {}
        # What happened.
        self.jobs: dict[int, Job] = {}
        self.left: dict[int, list[Any]] = {}  # what was not delivered yet, by ticket
        self.slotted: set[int] = set()
        self.submitted: list[Any] = []
        self.urgent: list[Any] = []  # indices of urgent jobs
        self.cancelled: list[int] = []
        self.stopped: list[int] = []
        self.discarded: list[Any] = []
        self.timeouts: list[float | None] = []
        self.looks = 0
        self.closed = False
        self.events: list[Event] = []
        self.changed = threading.Condition()
        self.awake = False
        self.receiving = threading.Event()

    # What the scheduler calls.

    def start(self) -> None:
        pass

    def has_room(self) -> bool:
        return self.free > 0

    def submit(self, job: Job) -> None:
        for index, error in self.refused.items():
            if index in job.indices:
                raise Unsendable(error)
        assert len(self.jobs) < self.capacity
        assert not self.closed
        with self.changed:
            self.submitted.append(list(job.indices))
            self.urgent += list(job.indices) * job.is_urgent
            self.jobs[job.ticket] = job
            self.left[job.ticket] = list(job.indices)
            job.progress = FakeProgress(self, job)
            if self.free and not self.private:
                self.free -= 1
                self.slotted.add(job.ticket)
            self.changed.notify_all()

    def receive(self, timeout_s: float) -> list[Event]:
        self.timeouts.append(timeout_s)
        with self.changed:
            if self.blocks:
                self.receiving.set()
                self.changed.wait_for(lambda: self.events or self.awake)
                self.receiving.clear()
                self.awake = False
        if not self.blocks and not self.events:
            self.when_idle()
        return self.take_events()

    def cancel(self, job: Job) -> None:
        self.cancelled.append(job.ticket)

    def stop(self, job: Job) -> None:
        self.stopped.append(job.ticket)

    def wake(self) -> None:
        with self.changed:
            self.awake = True
            self.changed.notify_all()

    def statistics(self) -> dict[str, int]:
        return {"slots": 99, "leased": 3, "restarts": 7}

    def close(self) -> None:
        self.closed = True

    # What the test calls.

    def send(self, *events: Event) -> None:
        with self.changed:
            self.events += events
            self.changed.notify_all()

    def take_events(self) -> list[Event]:
        with self.changed:
            events, self.events = self.events, []
        return events

    def deliver(
        self,
        ticket: int,
        count: int | None = None,
        *,
        is_last: bool = True,
        is_end: bool = False,
        cost_ns: int = 1000,
    ) -> None:
        """Deliver the next items of a job, by default all of them."""
        job, count = self.jobs[ticket], len(self.left[ticket]) if count is None else count
        result = self.taken(ticket, count)
        job.delivered += count
        if is_last:
            result.in_slot = self._is_over(ticket)
        self.send(Done(job, result, cost_ns, 0, is_last, is_end))

    def taken(self, ticket: int, count: int) -> FakeResult:
        left = self.left[ticket]
        indices, self.left[ticket] = left[:count], left[count:]
        return FakeResult(self, indices, in_slot=False)

    def _is_over(self, ticket: int) -> bool:
        """Forget a job; return whether it had a slot."""
        self.jobs.pop(ticket).progress = None
        del self.left[ticket]
        return ticket in self.slotted

    def deliver_next(self) -> None:
        self.deliver(min(self.jobs))

    def deliver_all(self) -> None:
        for ticket in sorted(self.jobs):
            self.deliver(ticket)

    def lose(self, ticket: int, ran_s: float = 2.0625, timed_out: bool = False) -> None:
        job = self.jobs[ticket]
        self.free += self._is_over(ticket)
        self.send(Lost(job, 1, 4711, "was killed by signal 9 (SIGKILL)", ran_s, timed_out))

    def skip(self, ticket: int) -> None:
        job = self.jobs[ticket]
        self.free += self._is_over(ticket)
        self.send(Skipped(job))

    def ticket_of(self, index: Any) -> int:
        return next(ticket for ticket, left in self.left.items() if index in left)

    def kill_at(self, index: Any) -> Callable[[], None]:
        """Return what lets jobs be done in order, where an item costs the worker that comes to it."""

        def deliver() -> None:
            ticket = min(self.jobs)
            left = self.left[ticket]
            if index not in left:
                self.deliver(ticket)
            else:
                if before := left.index(index):
                    self.deliver(ticket, before, is_last=False)
                self.lose(ticket)

        return deliver


def a_job(ticket: int, indices: Any, epoch: Any = -1, **options: Any) -> Job:
    """Return a job of a consumer of its own."""
    return Job(ticket, Consumer(ChunkWindow((), 1), epoch), Chunk(indices), **options)


class Node(Scheduler):
    """A node over a fake, which opens readers."""

    def open(self, plan: Any, epoch: Any, **options: Any) -> Reader:
        return Reader(self, plan, epoch, **options)


def a_node(
    fake: Fake,
    *,
    workers: int = 1,
    depth: int | None = None,
    max_buffered: int | None = None,
    chunk_size: int | None = 1,
    timeout_s: float | None = None,
    retries: int = 1,
) -> Node:
    chunking = Chunking(workers, max_buffered, chunk_size)
    chunking.depth = depth or chunking.depth
    return Node(fake, chunking, timeout_s, retries)


def a_node_of_chunks(fake: Fake, size: int, **options: Any) -> Node:
    """Return a node whose chunks have some size now, which adapts."""
    node = a_node(fake, chunk_size=None, **options)
    node.chunking.size = size
    return node


def take(reader: Reader) -> list[Any]:
    return [value for chunk in reader.next() for value in opened(chunk).values]


def parts(reader: Reader) -> Iterator[tuple[list[Any], Outcomes]]:
    """Read everything; yield the indices and the outcomes of each chunk."""
    while chunks := reader.next():
        for chunk in chunks:
            yield list(chunk.indices), opened(chunk)


def rest(reader: Reader) -> list[Any]:
    return [value for _, outcomes in parts(reader) for value in outcomes.values]


def named(indices: Any) -> list[str]:
    return [f"<{i}>" for i in indices]


def arrive(node: Scheduler) -> None:
    """Let what was sent come in, though nobody reads."""
    node.step(node._handle_all, node.backend.take_events())  # type: ignore[attr-defined]


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Run functions side by side; return their results or exceptions."""
    results: list[Any] = [None] * len(functions)

    def run(which: int) -> None:
        try:
            results[which] = functions[which]()
        except BaseException as error:
            results[which] = error

    threads = [threading.Thread(target=run, args=(which,)) for which in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
