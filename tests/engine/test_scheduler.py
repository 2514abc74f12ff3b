"""How the scheduler asks, waits and hands out, over the `Fake` backend."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.engine import scheduler
from seqkit.engine.chunking import CHUNK_BYTES
from seqkit.engine.reader import Reader, opened
from seqkit.engine.scheduler import CLOSED, LONGEST_WAIT_S, LOOK_S, ReadsItself

from .fake import Fake, a_node, a_node_of_chunks, arrive, in_threads, named, parts, rest, take
from .traces import until

# -------------------------------------------------------------------- order


def test_no_job_is_sent_before_a_consumer_reads() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(9), -1)
    assert fake.submitted == []
    reader.prepare()
    assert fake.submitted == [[0], [1], [2], [3]]
    assert fake.timeouts == []


@settings(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_items_arrive_in_plan_order_in_any_order_of_jobs(
    random: Any, capacity: int, depth: int, size: int
) -> None:
    fake = Fake(capacity)
    troubles = 30

    def do_something() -> None:
        nonlocal troubles
        troubles -= 1
        ticket = random.choice(sorted(fake.jobs))
        left = len(fake.left[ticket])
        match random.randrange(6) if troubles > 0 else None:
            case 0:
                fake.skip(ticket)
            case 1:
                fake.deliver(ticket, random.randint(0, left))
            case 2 | 3 if left:
                fake.deliver(ticket, random.randint(1, left), is_last=False)
            case _:
                fake.deliver(ticket)

    fake.when_idle = do_something
    plan = random.sample(range(100), 30)
    node = a_node_of_chunks(fake, size, depth=depth)
    assert rest(node.open(plan, -1)) == named(plan)
    assert node.statistics().items == 30
    assert fake.free == 99 - len(fake.slotted & fake.jobs.keys())  # those that run still


def test_jobs_in_flight_are_limited_by_backend_and_consumer() -> None:
    fake = Fake(capacity=3)
    reader = a_node(fake, depth=9).open(range(99), -1)
    reader.prepare()
    assert len(fake.submitted) == 3
    fake = Fake(capacity=9)
    reader = a_node(fake, max_buffered=2).open(range(99), -1)
    reader.prepare()
    assert len(fake.submitted) == 2


def test_workers_go_on_while_the_reader_works() -> None:
    fake = Fake(capacity=2)
    reader = a_node(fake, depth=2).open(range(9), -1)
    assert take(reader) == ["<0>"]
    assert fake.submitted == [[0], [1], [2]]  # sent before the reader had its item


@pytest.mark.parametrize("chunk_size", [None, 1])
def test_a_job_has_its_epoch_and_is_done_as_a_whole_where_the_user_chose_its_size(
    chunk_size: int | None,
) -> None:
    fake = Fake()
    node = a_node(fake, workers=2, chunk_size=chunk_size)
    for reader in (node.open([5], 7), node.open([5], -1)):
        reader.prepare()
    assert [(job.consumer.epoch, job.indices) for job in fake.jobs.values()] == [(7, [5]), (-1, [5])]
    assert {job.is_whole for job in fake.jobs.values()} == {chunk_size is not None}


def test_with_a_limit_of_0_only_the_awaited_item_is_sent() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4).open(range(9), -1, limit=0)
    reader.prepare()
    assert fake.submitted == []
    assert take(reader) == ["<0>"]
    assert fake.submitted == [[0]]
    reader.limit(3)
    reader.prepare()
    assert fake.submitted == [[0], [1, 2, 3]]
    assert reader.pending() == 3


def test_all_arrived_items_are_delivered_in_one_step() -> None:
    fake = Fake(private=True)
    fake.when_idle = fake.deliver_all
    reader = a_node(fake, chunk_size=2).open(range(9), -1)
    assert [take(reader), take(reader)] == [named(range(8)), ["<8>"]]


def test_few_large_results_in_private_memory_are_handed_out_at_once() -> None:
    fake = Fake(private=True)
    fake.item_bytes = CHUNK_BYTES // 2
    reader = a_node(fake, workers=2, depth=4).open(range(4), -1)
    reader.prepare()
    fake.deliver_all()
    assert [take(reader), take(reader), take(reader)] == [["<0>", "<1>"], ["<2>", "<3>"], []]


@pytest.mark.parametrize(("private", "max_buffered"), [(False, None), (True, 4)])
def test_results_in_slots_are_handed_out_one_at_a_time_and_so_is_a_bounded_number(
    private: bool, max_buffered: int | None
) -> None:
    fake = Fake(private=private)
    fake.when_idle = fake.deliver_all
    reader = a_node(fake, max_buffered=max_buffered).open(range(3), -1)
    assert [take(reader), take(reader), take(reader)] == [["<0>"], ["<1>"], ["<2>"]]


def test_items_behind_the_end_of_the_sequence_are_discarded() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=4)
    reader, other = node.open(range(99), -1), node.open("abcd", -1)
    reader.prepare()
    fake.deliver(3)
    fake.deliver(2, 2, is_end=True)
    assert rest(reader) == named(range(6))
    assert reader.pending() == 0
    assert rest(other) == named("abcd")
    assert fake.discarded == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert fake.free == 99


# -------------------------------------------------------------------- items of jobs that are not over


def test_items_of_a_running_job_are_delivered_and_not_sent_again() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4, max_buffered=4).open(range(4), -1)
    reader.prepare()
    for count in (1, 2):
        fake.deliver(1, count, is_last=False)
    assert [take(reader), take(reader)] == [["<0>"], ["<1>", "<2>"]]
    assert take(reader) == ["<3>"]
    assert fake.submitted == [[0, 1, 2, 3]]


def test_the_rest_of_a_job_that_ended_early_is_sent_first_in_smaller_chunks() -> None:
    fake = Fake(capacity=2)
    node = a_node_of_chunks(fake, 4, workers=2)
    reader = node.open(range(12), -1)
    reader.prepare()
    node.chunking.size = 2
    fake.deliver(1, 1, cost_ns=500_000)
    assert take(reader) == ["<0>"]
    assert fake.submitted == [[0, 1, 2, 3], [4, 5, 6, 7], [1, 2]]
    assert rest(reader) == named(range(1, 12))
    assert Counter(i for job in fake.submitted for i in job) == Counter([*range(12), 1, 2, 3])


def test_the_rest_of_a_job_that_ended_early_is_urgent_and_few_urgent_jobs_are_in_flight() -> None:
    fake = Fake(capacity=9)
    node = a_node_of_chunks(fake, 6, workers=2, depth=6)
    reader = node.open(range(36), -1)
    reader.prepare()
    assert not any(job.is_urgent for job in fake.jobs.values())
    node.chunking.size = 1
    fake.deliver(1, 1, cost_ns=10**9)
    assert take(reader) == ["<0>"]
    assert [job.indices for job in fake.jobs.values() if job.is_urgent] == [
        range(i, i + 1) for i in (1, 2, 3, 4)
    ]
    assert rest(reader) == named(range(1, 36))
    assert not any(len(job.indices) > 1 for job in fake.jobs.values() if job.is_urgent)


def test_with_one_worker_jobs_are_sent_with_the_order_of_the_worker_that_the_consumer_knows() -> None:
    fake = Fake(capacity=8, keeps_order=True)
    node = a_node_of_chunks(fake, 4, depth=2)
    reader, other = node.open(range(12), -1), node.open(range(8), -1)
    reader.prepare()
    other.prepare()
    assert [job.order for job in fake.jobs.values()] == [0, 0, 0, 0]
    fake.order = 1
    fake.deliver(1, 2)
    fake.skip(2)
    assert take(reader) == ["<0>", "<1>"]
    assert [(job.indices, job.order) for job in fake.jobs.values() if job.order] == [
        (range(2, 4), 1),
        (range(4, 8), 1),
        (range(8, 12), 1),
    ]
    other.prepare()  # its jobs are skipped too, and have not returned
    assert sum(job.order == 0 for job in fake.jobs.values()) == 2
    fake.skip(3)
    other.prepare()
    assert sum(job.order == 0 for job in fake.jobs.values()) == 1
    fake.skip(4)
    assert rest(reader) == named(range(2, 12))
    assert rest(other) == named(range(8))


def test_with_one_worker_nothing_is_sent_until_all_skipped_jobs_have_returned() -> None:
    fake = Fake(capacity=8, keeps_order=True)
    node = a_node_of_chunks(fake, 4, depth=4)
    reader = node.open(range(40), -1)
    reader.prepare()
    assert fake.submitted == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    fake.order = 1
    fake.deliver(1, 2)
    fake.skip(2)
    fake.skip(3)
    assert take(reader) == ["<0>", "<1>"]
    reader.prepare()
    assert len(fake.submitted) == 4
    fake.skip(4)
    assert rest(reader) == named(range(2, 40))
    assert [i for job in fake.submitted[4:] for i in job] == list(range(2, 40))


def test_with_one_worker_the_items_after_a_lost_one_are_sent_again_in_order() -> None:
    fake = Fake(keeps_order=True)
    reader = a_node_of_chunks(fake, 2, depth=3).open(range(8), -1)
    reader.prepare()
    assert fake.submitted == [[0, 1], [2, 3], [4, 5]]
    fake.order = 1
    fake.lose(1)
    fake.skip(2)
    fake.skip(3)
    assert rest(reader) == named(range(8))
    assert [i for job in fake.submitted[3:] for i in job] == list(range(8))


def test_a_consumer_that_waits_for_its_only_job_is_served_first() -> None:
    fake = Fake()
    node = a_node(fake)
    ahead, single = node.open(range(9), -1, limit=3), node.open([7], -1, limit=0)
    ahead.prepare()
    assert take(single) == ["<7>"]
    assert fake.urgent == [7]


def test_lost_and_skipped_items_are_urgent() -> None:
    fake = Fake()
    reader = a_node(fake, workers=2).open(range(4), -1)
    reader.prepare()
    fake.skip(1)
    fake.lose(2)
    assert rest(reader) == named(range(4))
    assert fake.urgent == [0, 1]


def test_a_job_that_ends_without_items_gives_back_its_slot_and_the_rest() -> None:
    fake = Fake()
    node = a_node_of_chunks(fake, 4)
    reader = node.open(range(4), -1)
    reader.prepare()
    fake.deliver(1, 2, is_last=False)
    assert take(reader) == ["<0>", "<1>"]
    fake.deliver(1, 0)
    assert rest(reader) == ["<2>", "<3>"]
    assert fake.submitted == [[0, 1, 2, 3], [2, 3]]
    assert fake.free == 99


def test_a_job_at_the_end_of_the_sequence_gives_back_its_slot() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4).open(range(4), -1)
    fake.when_idle = lambda: fake.deliver(1, 0, is_end=True)
    assert take(reader) == []
    assert fake.free == 99


@pytest.mark.parametrize("end", ["done", "lost", "skipped", "timed out"])
@pytest.mark.parametrize("is_handed_out", [True, False])
def test_the_end_of_a_job_whose_items_have_all_arrived_is_ignored(end: str, is_handed_out: bool) -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4, retries=0, timeout_s=1.0).open(range(8), -1)
    reader.prepare()
    fake.deliver(1, is_last=False)
    taken = take(reader) if is_handed_out else []
    match end:
        case "done":
            fake.deliver(1, 0)
        case "lost":
            fake.lose(1)
        case "skipped":
            fake.skip(1)
        case "timed out":
            fake.lose(1, timed_out=True)
    found = list(parts(reader))
    assert taken + [value for _, outcomes in found for value in outcomes.values] == named(range(8))
    assert not any(outcomes.failures for _, outcomes in found)
    assert fake.submitted == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert fake.free == 99


def test_late_items_of_a_dropped_reader_are_discarded() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=4)
    reader, other = node.open(range(4), -1), node.open(range(10, 14), -1)
    reader.prepare()
    fake.deliver(1, 1, is_last=False)
    arrive(node)
    reader.close()
    fake.deliver(1, 1, is_last=False)
    fake.deliver(1)
    assert rest(other) == named(range(10, 14))
    assert fake.discarded == [[0], [1], [2, 3]]
    assert fake.free == 99


# -------------------------------------------------------------------- looking at jobs that run


def test_a_waiting_consumer_polls_for_finished_items() -> None:
    fake = Fake()
    fake.when_idle = lambda: None

    fake.when_looked_at = lambda _: fake.looks // 2  # what was finished at the last look is delivered
    reader = a_node(fake, chunk_size=4).open(range(4), -1)
    assert [take(reader), fake.looks] == [["<0>"], 3]
    assert [take(reader), fake.looks] == [["<1>"], 5]
    assert fake.timeouts == [LOOK_S] * 5


def test_a_waiting_consumer_polls_while_results_arrive_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(scheduler, "perf_counter_ns", lambda: int(1 + now_s * 1e9))
    fake = Fake(capacity=2)
    node = a_node(fake, chunk_size=4)
    reader, other = node.open(range(4), -1), node.open(range(10, 999), -1)
    reader.prepare()
    looked_s = []

    def others_are_quick() -> None:
        nonlocal now_s
        now_s += LOOK_S / 5
        fake.deliver(max(fake.jobs))

    def finished(ticket: int) -> int:
        if ticket == 1:
            looked_s.append(now_s)
        return 3 if ticket == 1 and len(looked_s) >= 2 else 0

    fake.when_idle, fake.when_looked_at = others_are_quick, finished
    while len(looked_s) < 3:
        take(other)
    assert all(0.9 * LOOK_S < later - earlier < 1.5 * LOOK_S for earlier, later in pairwise(looked_s))
    fake.when_idle = lambda: pytest.fail("its items are there")
    assert take(reader) == named(range(3))


def test_a_waiting_consumer_wakes_up_for_the_first_job_of_several_items() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake, chunk_size=2)
    single, many = node.open([7], -1), node.open(range(10, 14), -1)
    looked = threading.Event()

    def finished(_: int) -> int:
        if not looked.is_set():
            looked.set()
            fake.deliver(fake.ticket_of(7))
        return 0

    fake.when_looked_at = finished

    def act() -> None:
        assert until(fake.receiving.is_set)
        many.prepare()

    assert in_threads(lambda: take(single), act) == [["<7>"], None]
    assert fake.timeouts[0] == LONGEST_WAIT_S
    assert looked.is_set()


def test_a_waiting_consumer_wakes_up_for_the_first_time_limit() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    unlimited, readers = node.open([7], -1), []

    def act() -> None:
        assert until(fake.receiving.is_set)
        readers.append(node.open([8], -1, timeout_s=5.0))
        until(lambda: len(fake.timeouts) == 2, 5)
        fake.deliver(fake.ticket_of(7))

    assert in_threads(lambda: take(unlimited), act) == [["<7>"], None]
    assert fake.timeouts == [LONGEST_WAIT_S, 5.0]


def test_jobs_of_one_item_are_not_polled() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(2), -1)

    def idle() -> None:
        fake.when_idle = fake.deliver_next

    fake.when_idle = idle
    assert rest(reader) == ["<0>", "<1>"]
    assert set(fake.timeouts) == {LONGEST_WAIT_S}
    assert fake.looks == 0


# -------------------------------------------------------------------- several readers


def test_consumers_share_the_workers_and_each_gets_its_own_plan() -> None:
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


def test_one_consumer_receives_the_results_of_another() -> None:
    fake = Fake()
    node = a_node(fake)
    first, second = node.open(range(1), -1), node.open(range(10, 11), -1)
    first.prepare()
    second.prepare()
    fake.when_idle = fake.deliver_all
    assert take(second) == ["<10>"]
    fake.when_idle = lambda: pytest.fail("its result is there already")
    assert take(first) == ["<0>"]


def test_a_fast_consumer_leaves_room_for_jobs_of_a_waiting_one() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    fast, slow = node.open(range(100), -1), node.open(range(100, 200), -1)

    def act() -> None:
        assert until(fake.receiving.is_set)
        assert fake.submitted == [[0], [1], [2], [3]]
        late.start()
        assert until(lambda: slow.consumer in node._wanting)
        fake.deliver(1)
        assert until(lambda: len(fake.submitted) == 5)
        assert fake.submitted[4] == [100]
        fake.deliver(5)

    found: list[Any] = []
    late = threading.Thread(target=lambda: found.append(take(slow)))
    assert in_threads(lambda: take(fast), act) == [["<0>"], None]
    late.join()
    assert found == [["<100>"]]


def test_a_consumer_of_single_items_takes_one_place() -> None:
    fake = Fake(capacity=6)
    node = a_node(fake, depth=6)
    single, many = node.open([7], -1, limit=0), node.open(range(100, 200), -1)
    many.prepare()
    assert take(many) == ["<100>"]
    assert take(single) == ["<7>"]
    for i in range(101, 150):
        assert take(many) == [f"<{i}>"]
        assert len(fake.jobs) == 6


def test_with_more_consumers_than_places_each_gets_one_in_turn() -> None:
    node = a_node(Fake(capacity=2))
    plans = [range(first, first + 5) for first in range(0, 50, 10)]
    readers = [node.open(plan, -1) for plan in plans]
    for reader in readers:
        reader.prepare()
    assert [rest(reader) for reader in readers] == [named(plan) for plan in plans]


def test_a_consumer_whose_wait_was_refused_gives_up_its_claim_to_a_place() -> None:
    fake = Fake(capacity=2)
    node = a_node(fake)
    first, other = node.open(range(50), -1), node.open(range(100, 150), -1)

    def read_within() -> None:  # as an item does that is evaluated here
        fake.when_idle = fake.deliver_next
        with pytest.raises(ReadsItself):
            other.next()

    fake.when_idle = read_within
    assert take(first) == ["<0>"]
    assert not node._wanting
    assert take(first) == ["<1>"]
    assert len(fake.jobs) == 2


# -------------------------------------------------------------------- slots run short


def test_a_reader_that_has_a_result_is_sent_nothing_further_without_a_slot() -> None:
    fake = Fake(capacity=4, slots=1)
    node = a_node(fake)
    reader = node.open(range(3), -1)
    reader.prepare()
    fake.deliver(1)
    arrive(node)
    reader.prepare()
    assert fake.submitted == [[0]]
    assert rest(reader) == named(range(3))
    assert fake.slotted == {1, 2, 3}


def test_a_result_is_kept_if_there_is_no_memory_for_its_copy() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(3), -1)
    fake.memory_is_short = True
    with pytest.raises(MemoryError):
        reader.next()
    fake.memory_is_short = False
    assert rest(reader) == named(range(3))


@pytest.mark.parametrize("step", range(4))
def test_a_node_that_is_closed_between_two_steps_says_so(step: int) -> None:
    fake = Fake()
    node = a_node(fake)
    steps, run = iter(range(99)), node.step

    def closing(function: Any, *arguments: Any) -> Any:
        result = run(function, *arguments)
        if next(steps) == step:
            node.close()
        return result

    def read() -> list[Any]:
        reader = node.open(range(9), -1)
        reader.prepare()
        return rest(reader)

    node.step = closing  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="the node is closed"):
        read()
    assert fake.closed


# -------------------------------------------------------------------- losses


def test_a_lost_item_is_tried_again_and_delivered_in_its_place() -> None:
    fake = Fake()
    reader = a_node(fake).open(range(4), -1)
    reader.prepare()
    fake.lose(2)
    assert rest(reader) == named(range(4))
    assert fake.submitted.count([1]) == 2


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("chunk_size", [1, 4])
def test_an_item_that_kills_every_worker_is_named_and_others_arrive(retries: int, chunk_size: int) -> None:
    fake = Fake()
    fake.when_idle = fake.kill_at(2)
    reader = a_node(fake, retries=retries, chunk_size=chunk_size).open(np.arange(8), -1)
    found = list(parts(reader))
    assert [value for _, outcomes in found for value in outcomes.values if value] == named(
        [0, 1, *range(3, 8)]
    )
    ((indices, failures),) = [
        (indices, outcomes.failures) for indices, outcomes in found if outcomes.failures
    ]
    assert indices == [2]
    error = failures[0]
    assert type(error) is sk.WorkerDied
    assert (error.index, type(error.index), error.worker) == (2, int, 1)
    tries = f", {retries + 1} workers in a row" if retries else ""
    assert error.message == (
        f"prefetch[2]: worker 1 (pid 4711) was killed by signal 9 (SIGKILL) while computing it{tries}"
    )
    asked = Counter(i for job in fake.submitted for i in job)
    assert asked[2] == retries + 1
    assert asked[0] == asked[1] == asked[7] == 1


def test_only_undelivered_items_of_a_lost_job_run_again() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4).open(range(4), -1)
    reader.prepare()
    fake.deliver(1, 2, is_last=False)
    fake.lose(1)
    assert rest(reader) == named(range(4))
    assert fake.submitted == [[0, 1, 2, 3], [2], [3]]


def test_a_lost_job_that_had_not_started_is_sent_again_and_costs_no_retry() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=2, retries=0).open(range(4), -1)
    reader.prepare()
    fake.skip(1)
    assert rest(reader) == named(range(4))
    assert fake.submitted == [[0, 1], [2, 3], [0, 1]]


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
    error = opened(reader.next()[0]).failures[0]
    assert type(error) is sk.ItemTimeout
    assert error.message == (
        "prefetch[0] took longer than 2.0 s in worker 1 (pid 4711),"
        " which was killed by signal 9 (SIGKILL) after 2.06 s"
    )
    assert (error.index, error.worker) == (0, 1)
    assert rest(reader) == named((1, 2))
    assert fake.timeouts[:3] == [0.5, 2.0, 1.75]
    assert fake.submitted.count([0]) == 1


def test_of_several_items_only_the_one_that_takes_too_long_is_named() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=4, timeout_s=2.0).open(range(4), -1)
    reader.prepare()
    fake.running = {1: 3.0}

    def stopped() -> None:
        assert fake.stopped == [1]
        fake.running = {}
        fake.deliver(1, 1, is_last=False)
        fake.lose(1, timed_out=True)
        fake.when_idle = fake.deliver_next

    fake.when_idle = stopped
    found = list(parts(reader))
    assert [indices for indices, _ in found] == [[0], [1], [2, 3]]
    assert [type(error) for _, outcomes in found for error in outcomes.failures.values()] == [sk.ItemTimeout]
    assert fake.timeouts[0] == LOOK_S
    assert fake.submitted == [[0, 1, 2, 3], [2, 3]]


def test_a_worker_stopped_just_after_an_item_does_not_fail_the_next_item() -> None:
    fake = Fake()
    reader = a_node(fake, chunk_size=3, timeout_s=2.0, retries=0).open(range(3), -1)
    reader.prepare()
    fake.deliver(1, 1, is_last=False)
    fake.lose(1, ran_s=0.001, timed_out=True)
    assert rest(reader) == named(range(3))
    assert fake.submitted == [[0, 1, 2], [1, 2]]


def test_without_a_timeout_no_worker_is_stopped() -> None:
    fake = Fake()
    fake.running = {1: 1e9}
    assert rest(a_node(fake).open(range(3), -1)) == named(range(3))
    assert set(fake.timeouts) == {LONGEST_WAIT_S}
    assert fake.stopped == []


# -------------------------------------------------------------------- indices that cannot be sent


def test_indices_that_cannot_be_sent_fail_in_their_place() -> None:
    fake = Fake()
    fake.refused = {"b": ValueError("too large")}
    found = list(parts(a_node(fake, chunk_size=2).open(iter("xyabzw"), -1)))
    assert [outcomes.values for _, outcomes in found] == [["<x>", "<y>"], [None, None], ["<z>", "<w>"]]
    assert {at: str(error) for at, error in found[1][1].failures.items()} == {0: "too large", 1: "too large"}


def test_indices_that_cannot_be_sent_take_up_no_capacity() -> None:
    fake = Fake(capacity=2)
    fake.refused = dict.fromkeys(range(0, 20, 2), ValueError("no"))
    found = parts(a_node(fake).open(range(20), -1))
    assert [bool(outcomes.failures) for _, outcomes in found] == [True, False] * 10


# -------------------------------------------------------------------- plans


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("chunk_size", [1, 3])
def test_a_plan_that_raises_does_so_after_its_last_item_and_ends(n: int, chunk_size: int) -> None:
    def plan() -> Iterator[int]:
        yield from range(n)
        raise LookupError("no more plan")

    fake = Fake()
    reader = a_node(fake, chunk_size=chunk_size).open(plan(), -1)
    values = []
    while len(values) < n:
        values += take(reader)
    assert values == named(range(n))
    with pytest.raises(LookupError, match="no more plan"):
        reader.next()
    assert reader.next() == []
    assert not fake.closed


def test_a_plan_may_read_the_node() -> None:
    fake = Fake()
    node = a_node(fake)
    inner = node.open(range(100, 103), -1)

    def plan() -> Iterator[int]:
        yield 0
        fake.skip(fake.ticket_of(0))  # the inner one notices, and the outer one asks again
        assert take(inner) == ["<100>"]
        yield 1

    reader = node.open(plan(), -1, limit=1)
    reader.prepare()
    reader.limit(2)
    assert rest(reader) == ["<0>", "<1>"]


def test_a_plan_that_blocks_stops_its_own_reader_only() -> None:
    fake = Fake(capacity=9)
    node = a_node(fake)
    asked, told = threading.Event(), threading.Event()

    def plan() -> Iterator[int]:
        yield 0
        asked.set()
        told.wait()
        yield 1

    blocked, other = node.open(plan(), -1), node.open(range(10, 20), -1)

    def read_other() -> list[Any]:
        asked.wait()
        try:
            assert node.statistics().items == 0
            return rest(other)
        finally:
            told.set()

    assert in_threads(lambda: rest(blocked), read_other) == [["<0>", "<1>"], named(range(10, 20))]


def test_closing_waits_for_no_plan() -> None:
    fake = Fake(capacity=9)
    node = a_node(fake)
    asked, told = threading.Event(), threading.Event()

    def plan() -> Iterator[int]:
        yield 0
        asked.set()
        told.wait()
        yield 1

    reader = node.open(plan(), -1)

    def close() -> None:
        asked.wait()
        node.close()
        assert fake.closed
        told.set()

    error, _ = in_threads(lambda: rest(reader), close)
    assert str(error) == CLOSED
    assert fake.submitted == []


# -------------------------------------------------------------------- readers that are dropped


def of_which_two_arrived(fake: Fake, count: int) -> tuple[Reader, Reader]:
    """Return a reader of some items, the first two of which wait for it, and another one of two items."""
    node = a_node(fake)
    reader, other = node.open(range(count), -1), node.open(range(10, 12), -1)
    reader.prepare()
    fake.deliver(1)
    fake.deliver(2)
    arrive(node)
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
    readers = [node.open(range(9), -1)]
    readers[0].prepare()
    other = node.open(range(100, 104), -1)

    def drop() -> None:  # while another one receives
        readers.clear()
        for ticket in range(1, 5):
            fake.deliver(ticket, cost_ns=1)
        fake.when_idle = lambda: fake.deliver(min(fake.jobs), cost_ns=10**9)

    fake.when_idle = drop
    assert rest(other) == named(range(100, 104))
    assert fake.discarded == [[0], [1], [2], [3]]
    assert node.statistics().chunk == 1  # jobs that were skipped are no sign of quick items
    assert fake.free == 99


def test_undelivered_results_of_a_dropped_reader_are_released_first() -> None:
    fake = Fake(capacity=4, slots=2)
    dropped, wanting = of_which_two_arrived(fake, 2)
    del dropped
    wanting.prepare()
    assert rest(wanting) == named((10, 11))
    assert sorted(fake.discarded) == [[0], [1]]
    assert fake.cancelled == []
    assert fake.free == 2


def test_lost_jobs_of_a_dropped_reader_are_forgotten() -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(2), -1), node.open(range(10, 12), -1)
    reader.prepare()
    del reader
    fake.lose(1)
    fake.skip(2)
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


def test_ctrl_c_while_a_dropped_consumer_cancels_its_jobs_loses_no_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    assert reader.next() == []
    del reader
    assert fake.cancelled == []


# -------------------------------------------------------------------- several threads


def test_one_thread_receives_for_all_waiting_threads() -> None:
    fake = Fake(capacity=6, blocks=True)
    node = a_node(fake, depth=2)
    plans = [range(start, start + 50) for start in (0, 100, 200, 300)]

    def work() -> None:
        for _ in range(sum(map(len, plans))):
            with fake.changed:
                fake.changed.wait_for(lambda: fake.jobs)
            fake.deliver(max(fake.jobs))

    *read, _ = in_threads(*[lambda plan=plan: rest(node.open(plan, -1)) for plan in plans], work)
    assert read == [named(plan) for plan in plans]
    assert fake.free == 99
    assert node.statistics().items == 200


# -------------------------------------------------------------------- statistics


def test_statistics_count_items_jobs_and_work_beside_what_the_backend_knows() -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=2)
    reader = node.open(range(5), -1)
    reader.prepare()
    fake.lose(1)
    fake.deliver(2, 1, is_last=False)
    fake.when_idle = lambda: fake.deliver(min(fake.jobs), cost_ns=100)
    assert rest(reader) == named(range(5))
    seen = node.statistics()
    assert (seen.items, seen.jobs, seen.worked_ns) == (5, 4, 400)
    assert (seen.chunk, seen.slots, seen.restarts) == (2, 99, 7)
    assert seen.waited_ns > 0
    with pytest.raises(AttributeError):
        seen.items = 3  # type: ignore[misc]
