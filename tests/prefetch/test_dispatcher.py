"""The dispatcher over a backend that does what the test says, when it says so."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.prefetch import dispatcher
from seqkit.prefetch.dispatcher import (
    AHEAD_BYTES,
    CHUNK_BYTES,
    MAX_CHUNK,
    MAX_DEPTH,
    MESSAGE_NS,
    SMALL_AHEAD_BYTES,
    Dispatcher,
    Options,
    Reader,
)
from seqkit.prefetch.protocol import Done, Event, Failed, Job, Lost, Skipped
from seqkit.prefetch.results import Outcomes, Ready, Unreadable, Unsendable


class Parcel:
    """A result in one of the fake's slots; tells what is done with it."""

    def __init__(self, fake: Fake, job: Job, outcomes: Outcomes, nbytes: int, in_slot: bool) -> None:
        self.fake = fake
        self.job = job
        self.outcomes = outcomes
        self.nbytes = nbytes
        self.in_slot = in_slot
        self.fate = "waits"

    def _leave(self, fate: str) -> None:
        assert self.fate == "waits"
        self.fate = fate
        self.fake.free += self.in_slot
        self.in_slot = False

    def must_copy(self) -> bool:
        return False

    def claim(self) -> None:
        if self.fate == "detached":
            return
        if self.in_slot and self.fake.leases_stay:
            self.fate = "leased"
        else:
            self._leave("claimed")

    def open(self) -> Outcomes:
        assert self.fate in ("claimed", "leased", "detached")
        if isinstance(self.outcomes, Exception):
            raise Unreadable(self.outcomes)
        return self.outcomes

    def detach(self) -> bool:
        if not self.in_slot or self.fate != "waits":
            return False
        self._leave("detached")
        self.fake.detached.append(list(self.job.indices))
        return True

    def discard(self) -> None:
        if self.fate != "detached":
            self._leave("discarded")
        self.fake.discarded.append(list(self.job.indices))


class Fake:
    """A backend in the hands of the test.

    `when_idle` is called where `receive` would wait for ever; it may deliver. With `blocks`, `receive`
    really waits, for another thread to deliver.
    """

    def __init__(self, capacity: int = 4, slots: int = 99, blocks: bool = False) -> None:
        self.capacity = capacity
        self.free = slots
        self.leases_stay = False
        self.blocks = blocks
        self.when_idle: Callable[[], Any] = self.deliver_next
        self.jobs: dict[int, Job] = {}
        self.slotted: set[int] = set()
        self.submitted: list[Any] = []
        self.cancelled: list[int] = []
        self.stopped: list[int] = []
        self.detached: list[Any] = []
        self.discarded: list[Any] = []
        self.timeouts: list[float | None] = []
        self.refused: dict[Any, Exception] = {}
        self.running: dict[int, float] = {}
        self.closed = False
        self.started = 0
        self.events: deque[Event] = deque()
        self.changed = threading.Condition()
        self.awake = False
        self.receiving = threading.Event()

    # What the dispatcher calls.

    def start(self) -> None:
        self.started += 1

    def ready(self) -> bool:
        return self.free > 0

    def joint(self, jobs: int) -> None:
        return None

    def flush(self) -> None:
        pass

    def submit(self, job: Job) -> None:
        for index, error in self.refused.items():
            if index in job.indices:
                raise Unsendable(error)
        assert len(self.jobs) < self.capacity
        assert not self.closed
        self.submitted.append(list(job.indices))
        self.jobs[job.ticket] = job
        if self.free:
            self.free -= 1
            self.slotted.add(job.ticket)
        with self.changed:
            self.changed.notify_all()

    def receive(self, timeout: float | None) -> list[Event]:
        self.timeouts.append(timeout)
        with self.changed:
            if self.blocks:
                self.receiving.set()
                self.changed.wait_for(lambda: self.events or self.awake)
                self.receiving.clear()
                self.awake = False
        if not self.blocks and not self.events:
            self.when_idle()
        events = list(self.events)
        self.events.clear()
        return events

    def cancel(self, ticket: int) -> None:
        self.cancelled.append(ticket)

    def running_s(self) -> dict[int, float]:
        return self.running

    def is_worker(self) -> bool:
        return False

    def stop(self, ticket: int) -> None:
        self.stopped.append(ticket)

    def wake(self) -> None:
        with self.changed:
            self.awake = True
            self.changed.notify_all()

    def statistics(self) -> dict[str, int]:
        return {"slots": 99, "restarts": 7}

    def close(self) -> None:
        self.closed = True

    # What the test calls.

    def _event(self, event: Event) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def deliver(self, ticket: int, outcomes: Any = None, cost_ns: int = 1000, nbytes: int = 0) -> Parcel:
        job = self.jobs.pop(ticket)
        if outcomes is None:
            outcomes = Outcomes([f"<{i}>" for i in job.indices])
        parcel = Parcel(self, job, outcomes, nbytes, ticket in self.slotted)
        self._event(Done(ticket, parcel, cost_ns, 0))
        return parcel

    def deliver_next(self) -> None:
        self.deliver(next(iter(self.jobs)))

    def deliver_all(self) -> None:
        for ticket in sorted(self.jobs):
            self.deliver(ticket)

    def lose(self, ticket: int, timed_out: bool = False) -> None:
        del self.jobs[ticket]
        self.free += ticket in self.slotted
        self._event(Lost(ticket, 1, 4711, "was killed by signal 9 (SIGKILL)", 2.0625, timed_out))

    def skip(self, ticket: int) -> None:
        del self.jobs[ticket]
        self.free += ticket in self.slotted
        self._event(Skipped(ticket))

    def ticket_of(self, index: Any) -> int:
        return next(ticket for ticket, job in self.jobs.items() if index in list(job.indices))


def a_node(fake: Fake, **options: Any) -> Dispatcher:
    known: dict[str, Any] = {
        "workers": 2,
        "depth": 4,
        "max_buffered": None,
        "chunk_size": 1,
        "timeout_s": None,
        "retries": 1,
    }
    return Dispatcher(fake, Options(**known | options))


def take(reader: Reader) -> list[Any]:
    arrived = reader.next()
    return [] if arrived is None else arrived[1].values


def rest(reader: Reader) -> list[Any]:
    values = []
    while (arrived := reader.next()) is not None:
        values += arrived[1].values
    return values


def named(indices: Any) -> list[str]:
    return [f"<{i}>" for i in indices]


# -------------------------------------------------------------------- sharing


def test_who_reads_fast_leaves_room_for_the_jobs_of_who_waits() -> None:
    fake = Fake(capacity=4, blocks=True)
    node = a_node(fake)
    fast, slow = node.open(range(100), -1), node.open(range(100, 200), -1)
    found: list[Any] = []
    reading, waiting = (threading.Thread(target=lambda r=r: found.append(take(r))) for r in (fast, slow))
    reading.start()
    assert fake.receiving.wait(20)
    assert fake.submitted == [[0], [1], [2], [3]]
    waiting.start()
    until(lambda: slow._feed in node._wanting)
    fake.deliver(fake.ticket_of(0))
    reading.join()
    until(lambda: len(fake.submitted) == 5)
    assert fake.submitted[4:] == [[100]]
    fake.deliver(fake.ticket_of(100))
    waiting.join()
    assert found == [["<0>"], ["<100>"]]


def test_who_was_told_does_not_want_a_place_any_more() -> None:
    fake = Fake(capacity=2)
    node = a_node(fake)
    first, other = node.open(range(50), -1), node.open(range(100, 150), -1)
    first.prepare()

    def read_within() -> None:
        fake.when_idle = fake.deliver_next
        with pytest.raises(RuntimeError, match="reads the node that waits for it"):
            other.next()

    fake.when_idle = read_within
    assert take(first) == ["<0>"]
    assert not node._wanting
    assert rest(first) == named(range(1, 50))


def test_what_a_plan_loses_by_reading_the_node_is_asked_for_again() -> None:
    fake = Fake()
    node = a_node(fake)
    inner = node.open(range(100, 103), -1)

    def plan() -> Iterator[int]:
        yield 0
        fake.skip(fake.ticket_of(0))
        assert take(inner) == ["<100>"]

    reader = node.open(plan(), -1)
    assert rest(reader) == ["<0>"]


def test_who_waits_for_memory_leaves_the_places_to_others() -> None:
    fake = Fake(capacity=2)
    node = a_node(fake, on_exhausted="block")
    blocked, other = node.open(range(9), -1), node.open(range(100, 109), -1)
    other.prepare()
    fake.leases_stay = True
    fake.when_idle = fake.deliver_all
    looked: list[int] = []

    def exhausted(chunk: Any, since_ns: int) -> bool:
        looked.append(len(node._wanting))
        return len(looked) < 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "_is_exhausted", exhausted)
        assert take(blocked) == ["<0>"]
    assert looked[1:] == [0, 0, 0]


def test_who_reads_single_items_takes_no_more_than_the_place_of_one() -> None:
    fake = Fake(capacity=6)
    node = a_node(fake, depth=6)
    single, many = node.open([7], -1, limit=0), node.open(range(100, 200), -1)
    many.prepare()
    assert take(many) == ["<100>"]
    assert take(single) == ["<7>"]
    for i in range(101, 150):
        assert take(many) == [f"<{i}>"]
        assert len(fake.jobs) == 6


def test_more_readers_than_places_have_one_each_in_turn() -> None:
    fake = Fake(capacity=2)
    node = a_node(fake)
    readers = [node.open(range(first, first + 5), -1) for first in range(0, 50, 10)]
    for reader in readers:
        reader.prepare()
    assert [rest(reader) for reader in readers] == [
        named(range(first, first + 5)) for first in range(0, 50, 10)
    ]


# -------------------------------------------------------------------- order


def test_nothing_is_asked_for_before_somebody_reads() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    assert (fake.started, fake.submitted) == (1, [])
    reader.prepare()
    assert fake.submitted == [[0], [1], [2], [3]]
    assert fake.timeouts == []


@settings(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_items_come_in_plan_order_whatever_order_jobs_come_back_in(
    random: Any, capacity: int, depth: int, chunk: int
) -> None:
    fake = Fake(capacity)
    fake.when_idle = lambda: fake.deliver(random.choice(sorted(fake.jobs)))
    plan = random.sample(range(100), 30)
    node = a_node(fake, depth=depth, chunk_size=chunk)
    assert rest(node.open(plan, -1)) == named(plan)
    assert Counter(i for job in fake.submitted for i in job) == Counter(plan)


def test_no_more_is_in_flight_than_the_backend_can_take_and_the_reader_may_have() -> None:
    fake = Fake(capacity=3)
    node = a_node(fake, depth=9)
    node.open(range(99), -1).prepare()
    assert len(fake.submitted) == 3
    fake = Fake(capacity=9)
    node = a_node(fake, max_buffered=2)
    node.open(range(99), -1).prepare()
    assert len(fake.submitted) == 2


def test_workers_go_on_while_the_reader_works() -> None:
    fake = Fake(capacity=2)
    reader = a_node(fake, depth=2).open(range(9), -1)
    assert take(reader) == ["<0>"]
    assert fake.submitted == [[0], [1], [2]]  # sent before the reader had its item


def test_the_epoch_travels_with_every_job() -> None:
    fake = Fake()
    node = a_node(fake)
    node.open(range(1), 7).prepare()
    node.open(range(1), -1).prepare()
    assert [job.epoch for job in fake.jobs.values()] == [7, -1]
    assert sorted(fake.jobs) == [1, 2]


def test_a_limit_of_0_asks_only_for_what_the_reader_waits_for() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4).open(range(9), -1, limit=0)
    reader.prepare()
    assert fake.submitted == []
    assert take(reader) == ["<0>"]
    assert fake.submitted == [[0]]
    reader.limit(3)
    reader.prepare()
    assert fake.submitted == [[0], [1, 2, 3]]


# -------------------------------------------------------------------- several readers


def test_readers_share_the_workers_and_each_gets_its_own_plan() -> None:
    fake = Fake(capacity=5)
    node = a_node(fake)
    readers = [node.open(range(start, start + 10), -1) for start in (0, 100, 200)]
    seen: list[list[Any]] = [[], [], []]
    for turn in range(10):
        for which, reader in enumerate(readers):
            if turn % (which + 1) == 0:
                seen[which] += take(reader)
    for which, reader in enumerate(readers):
        seen[which] += rest(reader)
    assert seen == [named(range(start, start + 10)) for start in (0, 100, 200)]
    assert fake.free == 99


def test_one_reader_receives_what_another_waits_for() -> None:
    fake = Fake()
    node = a_node(fake)
    first, second = node.open(range(1), -1), node.open(range(10, 11), -1)
    first.prepare()
    second.prepare()
    fake.when_idle = fake.deliver_all
    assert take(second) == ["<10>"]
    fake.when_idle = lambda: pytest.fail("its result is there already")
    assert take(first) == ["<0>"]


def test_a_paused_reader_gives_up_its_slots_the_farthest_first() -> None:
    fake = Fake(capacity=4, slots=3)
    node = a_node(fake)
    paused, wanting = node.open(range(3), -1), node.open(range(10, 12), -1)
    paused.prepare()
    assert fake.free == 0
    fake.when_idle = fake.deliver_all
    assert take(wanting) == ["<10>"]
    assert fake.detached == [[2]]  # one slot is enough, and the last item is read last
    assert rest(wanting) == ["<11>"]
    assert rest(paused) == named(range(3))
    assert fake.free == 3


def arrive(node: Dispatcher, fake: Fake, *tickets: int) -> None:
    """Let results come in that nobody is handed yet."""
    for ticket in tickets:
        fake.deliver(ticket)
    node._receive(None)


def test_a_paused_reader_gives_up_its_slots_before_the_one_that_reads() -> None:
    fake = Fake(capacity=4, slots=3)
    node = a_node(fake)
    paused, wanting = node.open(range(1), -1), node.open(range(10, 12), -1)
    paused.prepare()
    wanting.prepare()
    arrive(node, fake, 1, 3)  # item 0 of the paused one, and item 11
    fake.lose(2)
    fake.free = 0
    assert take(wanting) == ["<10>"]
    assert fake.detached == [[0]]


def test_a_reader_without_a_slot_waits_for_jobs_of_others_rather_than_sending_without() -> None:
    fake = Fake(capacity=4, slots=1)
    node = a_node(fake)
    first, second = node.open(range(1), -1), node.open(range(10, 11), -1)
    first.prepare()
    second.prepare()
    assert fake.submitted == [[0]]
    assert take(second) == ["<10>"]
    assert fake.slotted == {1, 2}


def test_a_reader_that_has_a_result_is_sent_nothing_further_without_a_slot() -> None:
    fake = Fake(capacity=4, slots=1)
    node = a_node(fake)
    reader = node.open(range(3), -1)
    reader.prepare()
    arrive(node, fake, 1)
    reader.prepare()
    assert fake.submitted == [[0]]
    assert rest(reader) == named(range(3))
    assert fake.slotted == {1, 2, 3}


def test_a_reader_that_waits_gives_up_its_own_slots_too() -> None:
    fake = Fake(capacity=4, slots=2)
    node = a_node(fake)
    reader = node.open(range(5), -1)
    reader.prepare()
    assert fake.submitted == [[0], [1]]
    fake.deliver(2)
    fake.lose(1)
    fake.free = 0  # somebody else got that slot
    assert take(reader) == ["<0>"]
    assert fake.detached == [[1]]


def test_with_every_slot_leased_jobs_travel_without_one_at_a_time() -> None:
    fake = Fake(capacity=4, slots=2)
    fake.leases_stay = True
    reader = a_node(fake).open(range(6), -1)
    assert rest(reader) == named(range(6))
    assert len(fake.slotted) == 2
    assert fake.free == 0


def test_with_slots_short_nobody_is_sent_ahead_without_one() -> None:
    fake = Fake(capacity=4, slots=0)
    reader = a_node(fake).open(range(3), -1)
    reader.prepare()
    assert fake.submitted == [[0]]  # without it nothing would ever come back
    assert take(reader) == ["<0>"]
    assert len(fake.jobs) == 1


# -------------------------------------------------------------------- losses


def test_a_lost_item_is_tried_again_and_delivered_in_its_place() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(4), -1)
    reader.prepare()
    fake.lose(2)
    assert rest(reader) == named(range(4))
    assert fake.submitted.count([1]) == 2


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_an_item_that_kills_worker_after_worker_is_reported_and_costs_no_other(retries: int) -> None:
    fake = Fake()

    def deliver() -> None:
        ticket = min(fake.jobs)
        fake.lose(ticket) if 2 in fake.jobs[ticket].indices else fake.deliver(ticket)

    fake.when_idle = deliver
    reader = a_node(fake, retries=retries).open(np.arange(4), -1)
    outcomes = [arrived[1] for arrived in iter(reader.next, None)]
    assert [o.values for o in outcomes] == [["<0>"], ["<1>"], [None], ["<3>"]]
    error = outcomes[2].failures[0]
    assert type(error) is sk.WorkerDied
    assert (error.index, error.worker) == (2, 1)
    assert type(error.index) is int
    tries = f", {retries + 1} workers in turn" if retries else ""
    assert error.message == (
        f"prefetch[2]: worker 1 (pid 4711) was killed by signal 9 (SIGKILL) while computing it{tries}"
    )
    assert fake.submitted.count([2]) == retries + 1


def test_a_lost_chunk_is_sent_again_in_single_items_which_find_the_culprit() -> None:
    fake = Fake()

    def deliver() -> None:
        ticket = min(fake.jobs)
        fake.lose(ticket) if 5 in fake.jobs[ticket].indices else fake.deliver(ticket)

    fake.when_idle = deliver
    reader = a_node(fake, chunk_size=4, retries=0).open(range(12), -1)
    arrived = list(iter(reader.next, None))
    assert [list(chunk.indices) for chunk, _ in arrived] == [
        [0, 1, 2, 3],
        *([i] for i in range(4, 8)),
        [8, 9, 10, 11],
    ]
    assert [v for _, outcomes in arrived for v in outcomes.values] == [
        None if i == 5 else f"<{i}>" for i in range(12)
    ]
    assert type(arrived[2][1].failures[0]) is sk.WorkerDied


def test_an_item_that_takes_too_long_is_stopped_and_not_tried_again() -> None:
    fake = Fake()
    reader = a_node(fake, timeout_s=2.0, retries=5).open(range(3), -1)
    reader.prepare()
    fake.running = {1: 0.5, 2: 1.5}

    def second_wait() -> None:
        assert fake.stopped == []
        fake.running = {1: 2.0, 2: 2.5}
        fake.when_idle = third_wait

    def third_wait() -> None:
        assert fake.stopped == [1, 2]
        fake.running = {3: 0.25}
        fake.lose(1, timed_out=True)
        fake.when_idle = fake.deliver_next

    fake.when_idle = second_wait
    arrived = reader.next()
    assert arrived is not None
    error = arrived[1].failures[0]
    assert type(error) is sk.ItemTimeout
    assert error.message == (
        "prefetch[0] took longer than 2.0 s in worker 1 (pid 4711),"
        " which was killed by signal 9 (SIGKILL) after 2.06 s"
    )
    assert (error.index, error.worker) == (0, 1)
    assert rest(reader) == named((1, 2))
    assert fake.timeouts[:3] == [0.5, 2.0, 1.75]
    assert fake.submitted.count([0]) == 1


def test_without_a_timeout_nobody_watches_the_clock() -> None:
    fake = Fake()
    fake.running = {1: 1e9}
    assert rest(a_node(fake).open(range(3), -1)) == named(range(3))
    assert set(fake.timeouts) == {None}
    assert fake.stopped == []


# -------------------------------------------------------------------- what cannot be read or sent


def test_a_chunk_that_cannot_be_decoded_is_read_again_in_single_items() -> None:
    fake = Fake()

    def deliver() -> None:
        ticket = min(fake.jobs)
        broken = 2 in fake.jobs[ticket].indices
        fake.deliver(ticket, ValueError("unreadable") if broken else None)

    fake.when_idle = deliver
    node = a_node(fake, chunk_size=3)
    arrived = list(iter(node.open(range(6), -1).next, None))
    assert [list(chunk.indices) for chunk, _ in arrived] == [[0], [1], [2], [3, 4, 5]]
    assert str(arrived[2][1].failures[0]) == "unreadable"
    assert [o.values for _, o in arrived] == [["<0>"], ["<1>"], [None], ["<3>", "<4>", "<5>"]]
    assert node.statistics().items == 6
    assert fake.free == 99


def test_indices_that_cannot_be_sent_fail_in_their_place() -> None:
    fake = Fake()
    fake.refused = {"b": ValueError("too large")}
    reader = a_node(fake, chunk_size=2).open(iter("xyabzw"), -1)
    arrived = list(iter(reader.next, None))
    assert [o.values for _, o in arrived] == [["<x>", "<y>"], [None, None], ["<z>", "<w>"]]
    assert {str(error) for error in arrived[1][1].failures.values()} == {"too large"}
    assert len(arrived[1][1].failures) == 2


def test_a_plan_that_reads_the_node_itself_takes_up_no_more_than_there_is() -> None:
    fake = Fake(capacity=4)
    node = a_node(fake)
    others: list[Reader] = []

    def plan() -> Iterator[int]:
        for i in range(6):
            others.append(node.open(range(100, 200), -1))
            others[-1].prepare()
            yield i

    arrived = list(iter(node.open(plan(), -1).next, None))
    assert [(o.values, o.failures) for _, o in arrived] == [([f"<{i}>"], {}) for i in range(6)]


def test_a_result_whose_memory_cannot_be_had_is_not_lost() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(3), -1)
    assert take(reader) == ["<0>"]
    fake.deliver_all()
    claim, Parcel.claim = Parcel.claim, raising  # type: ignore[method-assign]
    try:
        with pytest.raises(MemoryError):
            reader.next()
    finally:
        Parcel.claim = claim  # type: ignore[method-assign]
    assert rest(reader) == ["<1>", "<2>"]


def raising(self: Parcel) -> None:
    raise MemoryError


def test_indices_that_cannot_be_sent_take_up_no_capacity() -> None:
    fake = Fake(capacity=2)
    fake.refused = dict.fromkeys(range(0, 20, 2), ValueError("no"))
    arrived = list(iter(a_node(fake).open(range(20), -1).next, None))
    assert [bool(outcomes.failures) for _, outcomes in arrived] == [True, False] * 10


# -------------------------------------------------------------------- plans that break


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("chunk", [1, 3])
def test_a_plan_that_raises_does_so_behind_its_last_item_and_ends(n: int, chunk: int) -> None:
    def plan() -> Iterator[int]:
        yield from range(n)
        raise LookupError("no more plan")

    fake = Fake()
    reader = a_node(fake, chunk_size=chunk).open(plan(), -1)
    values = []
    while len(values) < n:
        values += take(reader)
    assert values == named(range(n))
    with pytest.raises(LookupError, match="no more plan"):
        reader.next()
    assert reader.next() is None
    assert not fake.closed


# -------------------------------------------------------------------- readers that are dropped


def of_which_two_arrived(fake: Fake, count: int) -> tuple[Reader, Reader]:
    """Return a reader of some items, the first two of which wait for it, and another one of two items."""
    node = a_node(fake)
    reader, other = node.open(range(count), -1), node.open(range(10, 12), -1)
    reader.prepare()
    arrive(node, fake, 1, 2)
    return reader, other


def test_a_dropped_reader_cancels_its_pending_jobs_at_once() -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(9), -1), node.open(range(100, 102), -1)
    assert take(reader) == ["<0>"]
    assert fake.cancelled == []
    del reader
    assert sorted(fake.cancelled) == [2, 3, 4, 5]
    assert rest(other) == named((100, 101))


def test_late_results_of_a_dropped_reader_are_discarded_and_measure_nothing() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=None)
    reader = node.open(range(9), -1)
    reader.prepare()
    del reader
    other = node.open(range(100, 104), -1)
    fake.when_idle = lambda: fake.deliver(
        min(fake.jobs), cost_ns=10**9 if fake.submitted[min(fake.jobs) - 1][0] >= 100 else 1
    )
    assert rest(other) == named(range(100, 104))
    assert fake.discarded == [[0], [1], [2], [3]]
    assert node.statistics().chunk == 1  # jobs that were skipped are no sign of quick items
    assert fake.free == 99


def test_results_that_wait_for_a_dropped_reader_are_given_back_before_others_are_copied_out() -> None:
    fake = Fake(capacity=4, slots=2)
    node = a_node(fake)
    dropped, wanting = node.open(range(2), -1), node.open(range(10, 11), -1)
    dropped.prepare()
    for ticket in sorted(fake.jobs):
        fake.deliver(ticket)
    del dropped
    assert rest(wanting) == ["<10>"]
    assert fake.detached == []
    assert sorted(fake.discarded) == [[0], [1]]
    assert fake.free == 2


def test_results_that_nobody_was_handed_are_given_back_when_their_reader_is_dropped() -> None:
    fake = Fake(capacity=4, slots=2)
    dropped, wanting = of_which_two_arrived(fake, 2)
    del dropped
    wanting.prepare()
    assert rest(wanting) == named((10, 11))
    assert sorted(fake.discarded) == [[0], [1]]
    assert fake.detached == []
    assert fake.cancelled == []
    assert fake.free == 2


def test_a_reader_dropped_while_another_receives_spoils_no_measurement() -> None:
    fake = Fake(capacity=3)
    node = a_node(fake, chunk_size=None)
    readers = [node.open(range(3), -1)]
    readers[0].prepare()
    other = node.open(range(100, 102), -1)

    def drop_and_skip() -> None:
        readers.clear()
        for ticket in (1, 2, 3):
            fake.deliver(ticket, cost_ns=1)
        fake.when_idle = lambda: fake.deliver(min(fake.jobs), cost_ns=10**9)

    fake.when_idle = drop_and_skip
    assert rest(other) == named((100, 101))
    assert fake.submitted[3:] == [[100], [101]]


def test_lost_jobs_of_a_dropped_reader_are_forgotten() -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(2), -1), node.open(range(10, 12), -1)
    reader.prepare()
    del reader
    fake.lose(1)
    fake.lose(2)
    assert rest(other) == named((10, 11))
    assert fake.submitted == [[0], [1], [10], [11]]


def test_a_reader_in_a_garbage_cycle_cancels_when_it_is_collected() -> None:
    fake = Fake()
    node = a_node(fake)
    reader: Any = node.open(range(9), -1)
    reader.prepare()
    cycle = [reader]
    cycle.append(cycle)
    del reader, cycle
    gc.collect()
    assert sorted(fake.cancelled) == [1, 2, 3, 4]


def test_a_reader_that_is_closed_cancels_its_pending_jobs_and_gives_back_what_waits_for_it() -> None:
    fake = Fake(capacity=4, slots=4)
    reader, other = of_which_two_arrived(fake, 4)
    reader.close()
    assert sorted(fake.cancelled) == [3, 4]
    assert sorted(fake.discarded) == [[0], [1]]
    reader.close()
    del reader
    assert sorted(fake.cancelled) == [3, 4]
    assert rest(other) == named((10, 11))


def test_ctrl_c_that_strikes_where_python_drops_it_loses_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    swallowed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: swallowed.append(raised.exc_type))
    fake = Fake(capacity=4, slots=4)
    monkeypatch.setattr(fake, "cancel", interrupted)
    dropped, other = of_which_two_arrived(fake, 4)
    del dropped
    assert swallowed == [KeyboardInterrupt]
    assert rest(other) == named((10, 11))
    assert sorted(fake.discarded) == [[0], [1], [2], [3]]
    assert fake.free == 4


def test_a_finished_reader_cancels_nothing() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(3), -1)
    assert rest(reader) == named(range(3))
    assert reader.next() is None
    del reader
    assert fake.cancelled == []


# -------------------------------------------------------------------- the end of a node


def test_closing_is_idempotent_ends_the_backend_and_tells_readers() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    assert take(reader) == ["<0>"]
    assert not reader.ended()
    node.close()
    node.close()
    assert fake.closed
    assert reader.ended()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="prefetch: the node is closed; restart"):
            reader.next()
    with pytest.raises(RuntimeError, match="closed"):
        reader.prepare()
    assert node.statistics().items == 1


def test_a_forgotten_node_closes_its_backend() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    reader.prepare()
    del node
    assert not fake.closed  # the reader still needs it
    del reader
    gc.collect()
    assert fake.closed


def test_a_backend_that_cannot_start_is_closed() -> None:
    fake = Fake()

    def start() -> None:
        raise OSError("no more descriptors")

    fake.start = start  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no more descriptors"):
        a_node(fake)
    assert fake.closed


def test_a_permanent_failure_reaches_every_reader_and_the_first_reason_counts() -> None:
    fake = Fake()
    node = a_node(fake)
    readers = [node.open(range(9), -1) for _ in range(3)]
    fake.when_idle = lambda: fake.events.extend(
        [Failed(1, ValueError("the hook")), Failed(0, RuntimeError("it exited"))]
    )
    for reader in readers:
        with pytest.raises(RuntimeError, match="worker 1 could not start: ValueError: the hook") as info:
            reader.next()
        assert type(info.value.__cause__) is ValueError
    fake.events.append(Failed(0, RuntimeError("it exited")))
    with pytest.raises(RuntimeError, match="the hook"):
        node.open(range(1), -1).prepare()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, OSError])
def test_an_interruption_while_receiving_closes_the_node(interruption: type[BaseException]) -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(9), -1), node.open(range(9), -1)
    assert take(reader) == ["<0>"]

    def interrupt() -> None:
        raise interruption

    fake.when_idle = interrupt
    with pytest.raises(interruption):
        reader.next()
    assert fake.closed
    assert node.ended()
    with pytest.raises(RuntimeError, match="closed"):
        other.next()


def test_an_interruption_between_two_events_closes_the_node() -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(2), -1), node.open(range(10, 12), -1)
    reader.prepare()
    other.prepare()
    handle, handled = node._handle, []

    def interrupted(event: Event) -> None:
        if handled:
            raise KeyboardInterrupt
        handled.append(event)
        handle(event)

    node._handle = interrupted  # type: ignore[method-assign]
    fake.when_idle = fake.deliver_all
    with pytest.raises(KeyboardInterrupt):
        reader.next()
    assert node.ended()
    with pytest.raises(RuntimeError, match="closed"):  # rather than waiting for the lost event
        other.next()


@pytest.mark.parametrize("strikes", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("where", ["submit", "flush", "receive", "ready", "cancel"])
def test_what_strikes_from_outside_closes_the_node(strikes: type[BaseException], where: str) -> None:
    fake = Fake(capacity=2)
    node = a_node(fake)
    reader, other = node.open(range(9), -1), node.open(range(9), -1)
    other.prepare()

    def struck(*_: Any) -> NoReturn:
        delattr(fake, where)
        raise strikes("as a signal handler does")

    setattr(fake, where, struck)
    with pytest.raises(strikes, match="as a signal handler does"):
        (other.close if where == "cancel" else reader.next)()
    assert node.ended()
    assert fake.closed
    with pytest.raises(RuntimeError, match="the node is closed"):  # rather than waiting for what was lost
        other.next()


@pytest.mark.parametrize("strikes", [KeyboardInterrupt, TimeoutError])
def test_what_strikes_before_anything_is_received_leaves_nobody_waiting(
    strikes: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)

    def struck(self: Dispatcher, timeout: float | None) -> NoReturn:
        raise strikes

    monkeypatch.setattr(Dispatcher, "_receive", struck)
    with pytest.raises(strikes):
        reader.next()
    assert node.ended()
    assert fake.closed


def test_what_a_reader_is_told_keeps_nothing_alive() -> None:
    class Held:
        pass

    def closed() -> weakref.ref[Held]:
        held, node = Held(), a_node(Fake())
        reader = node.open(range(9), -1)
        node.close()
        try:
            reader.next()
        except RuntimeError:
            return weakref.ref(held)
        raise AssertionError

    gc.disable()
    try:
        assert closed()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("closes", [False, True])
def test_a_signal_handler_before_the_wait_reads_nothing_and_may_close(closes: bool) -> None:
    fake = Fake(capacity=9)
    node = a_node(fake)
    reader, other = node.open(range(3), -1), node.open(range(3), -1)
    fake.when_idle = fake.deliver_all

    def struck() -> bool:  # when the reader has seen that nothing is there, and is about to wait
        del fake.is_worker
        with pytest.raises(RuntimeError, match="a signal handler reads the node that waits for it"):
            other.next()
        if closes:
            node.close()
            fake.when_idle = lambda: pytest.fail("waits for a node that is closed")
        return False

    fake.is_worker = struck  # type: ignore[method-assign]
    if closes:
        with pytest.raises(RuntimeError, match="the node is closed"):
            reader.next()
    else:
        assert rest(reader) == rest(other) == ["<0>", "<1>", "<2>"]


@pytest.mark.parametrize("capacity", [1, 4])
def test_a_signal_handler_that_reads_while_a_job_is_sent_is_told(capacity: int) -> None:
    fake = Fake(capacity=capacity)
    node = a_node(fake)
    reader, other = node.open(range(3), -1), node.open(range(3), -1)
    submit = fake.submit

    def struck(job: Job) -> None:
        fake.submit = submit  # type: ignore[method-assign]
        other.prepare()
        with pytest.raises(RuntimeError, match="a signal handler reads the node that waits for it"):
            other.next()
        submit(job)

    fake.submit = struck  # type: ignore[method-assign]
    assert rest(reader) == rest(other) == ["<0>", "<1>", "<2>"]


def test_statistics_within_a_step_give_nothing_back() -> None:
    fake = Fake(capacity=9)
    node = a_node(fake, max_buffered=4)
    reader, dropped = node.open(range(6), -1), [node.open(range(6), -1)]
    reader.prepare()
    dropped[0].prepare()
    fake.deliver_all()
    assert take(reader) == ["<0>"]
    submit, before = fake.submit, node.statistics()

    def struck(job: Job) -> None:
        fake.submit = submit  # type: ignore[method-assign]
        dropped.clear()
        assert node.statistics() == before
        assert fake.discarded == []
        submit(job)

    fake.submit = struck  # type: ignore[method-assign]
    assert rest(reader) == ["<1>", "<2>", "<3>", "<4>", "<5>"]
    assert not dropped
    assert sorted(fake.discarded) == [[0], [1], [2], [3]]


def test_a_plan_that_reads_the_node_does_not_wait_for_another_reader_in_the_middle_of_things() -> None:
    fake = Fake(capacity=9, blocks=True)
    node = a_node(fake)
    told: list[str] = []

    def keys() -> Iterator[int]:
        yield 1
        with pytest.raises(RuntimeError) as info:
            node.open(range(5, 9), -1).next()
        told.append(str(info.value))
        yield 2

    beside = threading.Thread(target=lambda: in_threads(node.open(range(3), -1).next))
    beside.start()
    until(fake.receiving.is_set)
    reader = node.open(keys(), -1)
    reader.prepare()
    assert told == [str(dispatcher.ReadsItself())]
    assert fake.submitted[-1] == [2]
    node.close()
    beside.join()


def test_ctrl_c_while_a_job_is_sent_tells_other_readers_the_same_as_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    reader, other = node.open(range(3), -1), node.open(range(3), -1)
    told: list[str] = []

    def read() -> None:
        with pytest.raises(RuntimeError) as info:
            other.next()
        told.append(str(info.value))

    def struck(job: Job) -> NoReturn:
        raise KeyboardInterrupt

    lose, beside = Dispatcher._lose, threading.Thread(target=read)

    def lose_late(self: Dispatcher) -> None:
        if not beside.ident:  # the lock is free
            beside.start()
            until(lambda: told or fake.receiving.is_set())
        lose(self)

    monkeypatch.setattr(Dispatcher, "_lose", lose_late)
    monkeypatch.setattr(fake, "submit", struck)
    with pytest.raises(KeyboardInterrupt):
        reader.next()
    beside.join()
    assert told == [dispatcher.CLOSED]


def test_statistics_may_be_asked_for_when_the_interpreter_has_ended_the_node() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    take(reader)
    fake.deliver_all()
    node._life.end()
    del reader
    assert node.statistics().items == 1


def test_hooks_that_read_when_the_interpreter_has_ended_the_node_are_told() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    node._life.end()
    assert fake.closed
    with pytest.raises(RuntimeError, match="the node is closed"):
        reader.next()


def test_who_closes_the_node_or_asks_for_figures_does_not_wait_for_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "STEP_S", 0.01)
    fake, asked, told = Fake(capacity=9), threading.Event(), threading.Event()
    node = a_node(fake, depth=9)
    drawn = []

    def plan() -> Iterator[int]:
        for x in range(8):
            if x == 3:
                asked.set()
                told.wait()
            drawn.append(x)
            yield x

    reader = node.open(plan(), -1)
    closed: list[BaseException] = []

    def read() -> None:
        try:
            while reader.next() is not None:
                pass
        except RuntimeError as error:
            closed.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    asked.wait()
    assert node.statistics().items == 0  # the figures of the last time
    node.close()
    assert not fake.closed
    told.set()
    reading.join()
    assert [str(error) for error in closed] == [dispatcher.CLOSED]
    assert fake.closed
    assert drawn == [0, 1, 2, 3]
    assert node.statistics().jobs == 0


def test_a_node_may_be_closed_by_a_signal_handler_while_it_receives() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    fake.when_idle = node.close  # as a handler runs: in the receiving thread
    with pytest.raises(RuntimeError, match="closed"):
        reader.next()
    assert fake.closed


def test_a_node_may_be_closed_by_a_signal_handler_while_it_submits() -> None:
    fake = Fake()
    node = a_node(fake)
    submit = fake.submit

    def submit_and_close(job: Job) -> None:
        submit(job)
        node.close()  # as a handler runs: in the middle of things, with the lock held

    fake.submit = submit_and_close  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="closed"):  # and not an early end
        node.open(range(9), -1).next()
    assert fake.closed
    assert node.ended()


def test_an_item_that_reads_the_node_that_computes_it_is_told_so_and_costs_nothing_else() -> None:
    fake = Fake()
    node = a_node(fake)
    refusals = []

    def evaluate() -> None:
        if not refusals:
            with pytest.raises(RuntimeError, match="reads the node that waits for it") as info:
                node.open(range(5, 6), -1).next()
            refusals.append(info.value)
        fake.deliver_next()

    fake.when_idle = evaluate
    assert rest(node.open(range(3), -1)) == named(range(3))
    assert len(refusals) == 1


def test_a_reader_from_before_a_fork_refuses_in_the_child() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    reader.prepare()
    pid = os.fork()
    if pid == 0:
        try:
            reader.next()
        except RuntimeError as error:
            node.close()
            os._exit(0 if "before a fork" in str(error) and reader.ended() and not fake.closed else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert take(reader) == ["<0>"]


# -------------------------------------------------------------------- the size of chunks


def settle(node: Dispatcher, fake: Fake, cost_ns: int, nbytes: int, items: int = 3000) -> int:
    """Read items of a constant cost; return the chunk size that results."""
    fake.when_idle = lambda: fake.deliver(
        min(fake.jobs),
        cost_ns=cost_ns * len(fake.jobs[min(fake.jobs)].indices),
        nbytes=nbytes * len(fake.jobs[min(fake.jobs)].indices),
    )
    reader = node.open(range(items), -1)
    assert rest(reader) == named(range(items))
    return node.statistics().chunk


@pytest.mark.parametrize(
    ("cost_ns", "nbytes", "chunk"),
    [
        (10**6, 0, 1),
        (2 * MESSAGE_NS // 10, 0, 10),
        (2 * MESSAGE_NS // 100, 100, 100),
        (100, CHUNK_BYTES // 50, 50),
        (100, 10 * CHUNK_BYTES, 1),
        (1, 0, MAX_CHUNK),
    ],
)
def test_chunks_hold_a_measured_amount_of_work_and_bytes(cost_ns: int, nbytes: int, chunk: int) -> None:
    fake = Fake()
    assert settle(a_node(fake, chunk_size=None), fake, cost_ns, nbytes) == chunk


def test_chunks_grow_step_by_step_and_shrink_at_once() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=None)
    settle(node, fake, 1, 0)
    sizes = [len(job) for job in fake.submitted]
    assert max(b / a for a, b in pairwise(sizes)) <= 8
    reader = node.open(range(9), -1)
    fake.when_idle = lambda: fake.deliver(min(fake.jobs), cost_ns=10**10)
    assert take(reader)
    assert node.statistics().chunk == 1


@pytest.mark.parametrize("max_buffered", [1, 4, 10, 100])
def test_a_bound_on_items_bounds_chunks_too(max_buffered: int) -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=None, max_buffered=max_buffered)
    chunk = settle(node, fake, 1, 0, items=300)
    assert chunk == max(1, max_buffered // 4)  # a chunk in work and one waiting, for each of two workers
    pending = max(sum(map(len, fake.submitted[i : i + 4])) for i in range(len(fake.submitted) - 4))
    assert pending <= max_buffered or max_buffered < 4


@pytest.mark.parametrize(
    ("options", "nbytes", "ahead"),
    [
        ({}, 0, MAX_DEPTH),  # small results wait in numbers, that a slow one does not hold the workers up
        ({}, SMALL_AHEAD_BYTES // 10, 10),
        ({}, SMALL_AHEAD_BYTES, 4),
        ({}, AHEAD_BYTES // 3, 3),
        ({}, AHEAD_BYTES, 2),  # one for each worker
        ({"max_buffered": 4}, 0, 4),  # as the user says
        ({"max_buffered": 4}, AHEAD_BYTES, 4),
    ],
)
def test_how_much_is_computed_ahead_depends_on_its_size(
    options: dict[str, Any], nbytes: int, ahead: int
) -> None:
    fake = Fake()
    reader = a_node(fake, **options).open(range(500), -1)
    fake.when_idle = lambda: fake.deliver(min(fake.jobs), nbytes=nbytes)
    for _ in range(10):
        take(reader)
    slow = min(fake.jobs)

    def all_but_the_slow_one() -> None:
        others = [ticket for ticket in fake.jobs if ticket != slow]
        fake.deliver(min(others, default=slow), nbytes=nbytes)

    fake.when_idle = all_but_the_slow_one
    assert take(reader) == named([10])
    # Sent are several at once, where many are pending.
    assert ahead - ahead // 4 <= max(i for job in fake.submitted for i in job) - 10 <= ahead


def test_a_fixed_chunk_size_stays() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=7)
    settle(node, fake, 1, 0, items=70)
    assert {len(job) for job in fake.submitted} == {7}


# -------------------------------------------------------------------- several threads


def until(condition: Callable[[], Any]) -> None:
    """Wait for another thread to come to a place where it waits itself (pytest's time-out bounds it)."""
    while not condition():
        os.sched_yield()


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


def test_threads_wait_for_one_of_them_who_receives_for_all() -> None:
    fake = Fake(capacity=6, blocks=True)
    node = a_node(fake, depth=2)
    plans = [range(start, start + 50) for start in (0, 100, 200, 300)]
    left = sum(map(len, plans))

    def work() -> None:
        for _ in range(left):
            with fake.changed:
                fake.changed.wait_for(lambda: fake.jobs)
            fake.deliver(max(fake.jobs))

    *read, _ = in_threads(*[lambda plan=plan: rest(node.open(plan, -1)) for plan in plans], work)
    assert read == [named(plan) for plan in plans]
    assert fake.free == 99
    assert node.statistics().items == 200


def waiting_readers(node: Dispatcher, fake: Fake, then: Callable[[], None]) -> list[Any]:
    """Let three threads wait for a node, one receiving and two behind it; do something; see what they get."""

    def act() -> None:
        until(lambda: fake.receiving.is_set() and len(node._arrived._waiters) == 2)  # type: ignore[attr-defined]
        then()

    plans = (range(1), range(10, 11), range(20, 21))
    *results, _ = in_threads(*[lambda plan=plan: rest(node.open(plan, -1)) for plan in plans], act)
    return results


def test_closing_wakes_every_thread_that_waits() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    results = waiting_readers(node, fake, node.close)
    assert [str(error) for error in results] == ["prefetch: the node is closed; restart() starts it anew"] * 3
    assert fake.closed


def test_a_failure_wakes_every_thread_that_waits() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    results = waiting_readers(node, fake, lambda: fake._event(Failed(2, ValueError("the hook"))))
    assert [str(error) for error in results] == [
        "prefetch: worker 2 could not start: ValueError: the hook"
    ] * 3


def test_when_the_receiving_thread_has_its_item_another_takes_over() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    receivers = []

    def deliver_to_the_receiver() -> None:
        for waiting in (1, 0, 0):
            receivers.append(node._receiver)
            fake.deliver(owners[node._receiver])
            if len(receivers) < 3:
                until(
                    lambda waiting=waiting: (
                        fake.receiving.is_set()
                        and node._receiver not in receivers
                        and len(node._arrived._waiters) == waiting  # type: ignore[attr-defined]
                    )
                )

    owners: dict[Any, int] = {}
    submit = fake.submit

    def owned(job: Job) -> None:
        owners[threading.get_ident()] = job.ticket
        submit(job)

    fake.submit = owned  # type: ignore[method-assign]
    results = waiting_readers(node, fake, deliver_to_the_receiver)
    assert sorted(map(str, results)) == ["['<0>']", "['<10>']", "['<20>']"]
    assert len(set(receivers)) == 3


def test_an_interruption_of_the_receiving_thread_tells_the_others() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    receive = fake.receive

    def interrupted(timeout: float | None) -> list[Event]:
        receive(timeout)
        raise KeyboardInterrupt

    fake.receive = interrupted  # type: ignore[method-assign]
    results = waiting_readers(node, fake, fake.wake)
    assert Counter(map(type, results)) == {KeyboardInterrupt: 1, RuntimeError: 2}
    assert fake.closed


def test_a_job_that_nobody_began_is_sent_again_as_it_was_and_counts_as_no_try() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=2, retries=0)
    reader = node.open(range(4), -1)
    reader.prepare()
    fake.skip(1)
    assert rest(reader) == named(range(4))
    assert sorted(fake.submitted) == [[0, 1], [0, 1], [2, 3]]


# -------------------------------------------------------------------- statistics


def test_a_reader_that_blocks_has_patience_from_when_it_could_have_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    must_copy = True
    monkeypatch.setattr(dispatcher, "perf_counter_ns", lambda: int(1 + now_s * 1e9))
    monkeypatch.setattr(Parcel, "must_copy", lambda self: must_copy)
    fake = Fake()
    monkeypatch.setattr(fake, "statistics", lambda: {"leased": 3})
    reader = a_node(fake, on_exhausted="block").open(range(3), -1)

    def slow() -> None:
        nonlocal now_s
        now_s += 1.5 * dispatcher.PATIENCE_S
        fake.deliver_all()
        fake.when_idle = dropped

    def dropped() -> None:
        nonlocal now_s, must_copy
        now_s += 0.5 * dispatcher.PATIENCE_S
        must_copy = False

    fake.when_idle = slow
    assert take(reader) == named([0])
    must_copy = True

    def kept() -> None:
        nonlocal now_s
        now_s += 0.5 * dispatcher.PATIENCE_S

    fake.when_idle = kept
    with pytest.raises(sk.SlotsExhausted, match=r"\(waited 60 s\)"):
        reader.next()


def test_statistics_count_items_jobs_and_work_beside_what_the_backend_knows() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=2)
    reader = node.open(range(5), -1)
    reader.prepare()
    fake.lose(1)
    fake.when_idle = lambda: fake.deliver(min(fake.jobs), cost_ns=100, nbytes=10)
    assert rest(reader) == named(range(5))
    seen = node.statistics()
    assert (seen.items, seen.jobs) == (5, 4)
    assert seen.worked_ns == 400
    assert (seen.chunk, seen.slots, seen.restarts) == (2, 99, 7)
    assert seen.waited_ns > 0
    with pytest.raises(AttributeError):
        seen.items = 3  # type: ignore[misc]


def test_results_that_are_objects_already_need_no_claim() -> None:
    parcel = Ready(Outcomes([1]))
    parcel.claim()
    assert parcel.detach() is False
    assert parcel.open().values == [1]
    parcel.discard()
    assert parcel.nbytes == 0
