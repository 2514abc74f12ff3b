"""The window of one consumer, compared with a plain loop over the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqkit.core.indices import Translated
from seqkit.engine.results import Outcomes, Ready
from seqkit.engine.window import Chunk, ChunkWindow


class CountedPlan:
    """A plan that tells how far it was drawn, and may be drawn once only."""

    def __init__(self, n: int, fails: bool = False) -> None:
        self.n = n
        self.fails = fails
        self.drawn = 0
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        assert self.passes == 1, "a second pass over the plan"
        for i in range(self.n):
            self.drawn += 1
            yield i
        if self.fails:
            raise LookupError("the plan breaks here")


def result(chunk: Chunk, count: int | None = None) -> Ready:
    """Return a result whose values are the first indices of a chunk."""
    return Ready(Outcomes(list(chunk.indices[:count])))


def draw(window: ChunkWindow, size: int, depth: int = 99, waiting: bool = False) -> None:
    window.add(window.draw(window.room(size, depth, waiting), size))


def ask(window: ChunkWindow, size: int, depth: int = 99, waiting: bool = False) -> Chunk | None:
    """Draw one chunk if there is none left to ask for, and ask for the next one."""
    if not window.has_unsent():
        window.add(window.draw(min(1, window.room(size, depth, waiting)), size))
    return window.next_to_send(size)


def asked(window: ChunkWindow, *sizes: int) -> list[Chunk]:
    """Ask for chunks of some sizes."""
    chunks = [ask(window, size) for size in sizes]
    assert None not in chunks
    return chunks  # type: ignore[return-value]


def hand_out(window: ChunkWindow) -> Chunk:
    chunk = window.ready()
    assert chunk is not None
    window.hand_out(chunk)
    assert chunk.result.outcomes.values == list(chunk.indices)
    return chunk


def indices(chunks: list[Chunk | None]) -> list[Any]:
    return [chunk and list(chunk.indices) for chunk in chunks]


class Driver:
    """A window with workers and a consumer played by the test; checks every guarantee at every step."""

    def __init__(self, n: int, limit: int, in_order: bool = True) -> None:
        self.plan = CountedPlan(n)
        self.window = ChunkWindow(self.plan, limit, in_order)
        self.in_order = in_order
        self.flying: list[Chunk] = []
        self.arrived: set[int] = set()
        self.handed: list[int] = []

    def next_to_send(self, size: int, depth: int = 6, waiting: bool = False) -> None:
        before, limit = self.plan.drawn, self.window.limit or int(waiting)
        draw(self.window, size, depth, waiting)
        if self.plan.drawn > before:
            assert self.plan.drawn - len(self.handed) <= limit
            assert self.window.pending() <= depth
        while (chunk := self.window.next_to_send(size)) is not None:
            assert 1 <= len(chunk) <= size
            assert chunk.sent
            assert chunk.result is None
            assert not any(chunk is other for other in self.flying)
            self.flying.append(chunk)
        assert not self.window.has_unsent()

    def deliver(self, chunk: Chunk, count: int, is_last: bool) -> None:
        """Deliver the first items of a job, which is over or goes on."""
        self.flying.remove(chunk)
        self.arrived.update(chunk.indices[:count])
        rest = self.window.deliver(chunk, result(chunk, count), is_sent=not is_last)
        assert len(chunk) == count
        if rest is not None and not is_last:
            self.flying.append(rest)

    def lose(self, chunk: Chunk) -> None:
        """The worker of a job died at its first item."""
        self.flying.remove(chunk)
        first = chunk.index(0)
        self.window.isolate(chunk)
        assert list(chunk.indices) == [first]
        self.window.send_again(chunk)

    def skip(self, chunk: Chunk) -> None:
        self.flying.remove(chunk)
        self.window.send_again(chunk)

    def hand_out(self) -> None:
        chunk = hand_out(self.window)
        self.arrived.difference_update(chunk.indices)
        self.handed.extend(chunk.indices)

    # What must hold.

    def check(self) -> None:
        window = self.window
        pending = self.plan.drawn - len(self.handed)
        assert window.pending_items() == pending
        flying = {i for chunk in self.flying for i in chunk.indices}
        assert sum(map(len, self.flying)) == len(flying)
        assert len(set(self.handed)) == len(self.handed)
        assert window.has_unsent() == (len(flying) + len(self.arrived) < pending)
        if self.in_order:
            following = len(self.handed)
            assert self.handed == list(range(following))
            assert (window.ready() is not None) == (following in self.arrived)
        else:
            assert (window.ready() is not None) == bool(self.arrived)
        if pending:
            assert not window.ended()

    def key(self) -> tuple[Any, ...]:
        """Return what the window's future depends on."""
        flying = {id(chunk) for chunk in self.flying}
        return (
            tuple(self.handed),
            self.plan.drawn,
            self.window.is_drawn,
            self.window.limit,
            tuple((tuple(c.indices), id(c) in flying, c.result is not None) for c in self.window._chunks),
        )


def moves(driver: Driver, losses: int) -> list[tuple[Any, ...]]:
    """Return everything that can happen next; jobs are named by their place, so moves can be replayed."""
    possible: list[tuple[Any, ...]] = [("ask", 1, False), ("ask", 2, False), ("ask", 2, True)]
    for place, chunk in enumerate(driver.flying):
        possible += [("deliver", place, count, True) for count in range(1, len(chunk) + 1)]
        possible += [("deliver", place, count, False) for count in range(1, len(chunk))]
        if losses:
            possible += [("lose", place), ("skip", place)]
    if driver.window.ready():
        possible.append(("hand out",))
    return possible


def apply(driver: Driver, move: tuple[Any, ...]) -> None:
    match move:
        case ("ask", size, waiting):
            driver.next_to_send(size, depth=3, waiting=waiting)
        case ("deliver", place, count, is_last):
            driver.deliver(driver.flying[place], count, is_last)
        case ("lose", place):
            driver.lose(driver.flying[place])
        case ("skip", place):
            driver.skip(driver.flying[place])
        case ("hand out",):
            driver.hand_out()
    driver.check()


def finish(driver: Driver) -> None:
    """Whatever happened before, a consumer that waits gets everything: nothing is lost, nothing stuck."""
    for _ in range(200):
        while driver.window.ready():
            driver.hand_out()
        if driver.window.ended():
            break
        driver.next_to_send(2, waiting=True)
        if driver.flying:
            last = driver.flying[-1]  # the last first, the hardest order
            driver.deliver(last, len(last), is_last=True)
    assert sorted(driver.handed) == list(range(driver.plan.n))
    assert driver.window.ended()
    assert driver.window.pending_items() == 0


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize(("limit", "in_order"), [(0, True), (1, True), (2, True), (3, True), (3, False)])
def test_every_interleaving_hands_out_the_plan(n: int, limit: int, in_order: bool) -> None:
    seen = set()
    histories: list[list[tuple[Any, ...]]] = [[]]
    while histories:
        history = histories.pop()
        driver = Driver(n, limit, in_order)
        for move in history:
            apply(driver, move)
        losses = 1 - sum(move[0] in ("lose", "skip") for move in history)
        key = driver.key(), losses
        if key in seen:
            continue
        seen.add(key)
        histories += [[*history, move] for move in moves(driver, losses)]
        finish(driver)
    assert len(seen) > n


class WindowMachine(RuleBasedStateMachine):
    """Random histories of a larger window: any order, any sizes, changing limits, many losses."""

    @initialize(n=st.integers(0, 40), limit=st.integers(0, 12), in_order=st.booleans())
    def begin(self, n: int, limit: int, in_order: bool) -> None:
        self.driver = Driver(n, limit, in_order)

    @rule(size=st.integers(1, 8), depth=st.integers(1, 6), waiting=st.booleans())
    def next_to_send(self, size: int, depth: int, waiting: bool) -> None:
        self.driver.next_to_send(size, depth, waiting)

    @rule(limit=st.integers(0, 12))
    def change_the_limit(self, limit: int) -> None:
        self.driver.window.limit = limit

    @precondition(lambda self: self.driver.flying)
    @rule(data=st.data(), is_last=st.booleans())
    def deliver(self, data: st.DataObject, is_last: bool) -> None:
        chunk = data.draw(st.sampled_from(self.driver.flying))
        count = data.draw(st.integers(1, len(chunk)))
        self.driver.deliver(chunk, count, is_last or count == len(chunk))

    @precondition(lambda self: self.driver.flying)
    @rule(data=st.data(), is_begun=st.booleans())
    def lose(self, data: st.DataObject, is_begun: bool) -> None:
        chunk = data.draw(st.sampled_from(self.driver.flying))
        (self.driver.lose if is_begun else self.driver.skip)(chunk)

    @precondition(lambda self: self.driver.window.ready())
    @rule()
    def hand_out(self) -> None:
        self.driver.hand_out()

    @invariant()
    def guarantees_hold(self) -> None:
        if hasattr(self, "driver"):
            self.driver.check()

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            finish(self.driver)


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# -------------------------------------------------------------------- asking


@pytest.mark.parametrize("waiting", [False, True])
def test_with_a_limit_of_0_only_the_item_that_the_consumer_waits_for_is_asked_for(waiting: bool) -> None:
    window = ChunkWindow(range(9), limit=0)
    chunks = [ask(window, 8, waiting=waiting) for _ in range(3)]
    assert indices(chunks) == [[0] if waiting else None, None, None]


def test_raising_the_limit_lets_more_be_asked_for_at_once() -> None:
    window = ChunkWindow(range(9), limit=1)
    assert ask(window, 5)
    assert ask(window, 5) is None
    window.limit = 4
    assert indices([ask(window, 5)]) == [[1, 2, 3]]


def test_depth_counts_chunks_and_limit_counts_items() -> None:
    window = ChunkWindow(range(99), limit=99)
    assert window.room(3, depth=2) == 2
    draw(window, 3, depth=2)
    assert window.room(3, depth=2) == 0
    assert window.room(3, depth=1) == 0  # the depth may shrink below what is pending
    window = ChunkWindow(range(99), limit=7)
    assert window.room(3, depth=9) == 3
    assert indices(window.draw(3, 3)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_drawn_chunk_is_asked_for_in_chunks_of_the_size_of_now() -> None:
    window = ChunkWindow(range(10), limit=10)
    window.add(window.draw(1, 8))
    assert indices([window.next_to_send(3), window.next_to_send(1), window.next_to_send(9)]) == [
        [0, 1, 2],
        [3],
        [4, 5, 6, 7],
    ]
    assert window.next_to_send(1) is None
    assert window.pending_items() == 8


def test_a_drawn_chunk_is_pending_only_after_it_is_added() -> None:
    window = ChunkWindow(range(4), limit=4)
    drawn = window.draw(2, 2)
    assert (window.pending(), window.has_unsent(), window.next_to_send(2)) == (0, False, None)
    window.add(drawn)
    assert (window.pending(), window.pending_items()) == (2, 4)


def test_a_chunk_drawn_while_the_window_ends_is_dropped() -> None:
    window = ChunkWindow(range(4), limit=4)
    drawn = window.draw(2, 2)
    window.end()
    window.add(drawn)
    assert window.ended()
    assert not window.has_unsent()


def test_a_window_of_an_empty_plan_ends_when_the_plan_was_asked() -> None:
    window = ChunkWindow((), limit=2)
    assert not window.ended()
    assert ask(window, 1) is None
    assert window.ended()


@pytest.mark.parametrize(
    ("plan", "kind"),
    [
        (range(20, 3, -3), range),
        (np.array([5, 2, 2, 9, 0, 7], np.uint16), np.ndarray),
        (["a", ("b", 1), "c", "d"], list),
        (CountedPlan(7), list),
        (Translated(range(70), lambda block: np.asarray(block) * 2), np.ndarray),
        (Translated(range(70), lambda block: [2 * i for i in block]), np.ndarray),
        (Translated(range(70), lambda block: block), range),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 50])
def test_a_plan_of_any_kind_is_cut_into_pieces_of_its_kind(plan: Any, kind: type, size: int) -> None:
    expected = list(plan) if not isinstance(plan, CountedPlan) else list(range(7))
    window = ChunkWindow(plan if not isinstance(plan, CountedPlan) else CountedPlan(7), limit=50)
    drawn: list[Any] = []
    while (chunk := ask(window, size)) is not None:
        rest = window.deliver(chunk, result(chunk, 1))
        for piece in (chunk, rest):
            if piece is not None:
                assert isinstance(piece.indices, kind)
                assert 1 <= len(piece) <= size
        drawn.extend(hand_out(window).indices)
    assert drawn == expected


def test_an_index_of_a_chunk_is_a_python_number() -> None:
    chunk = Chunk(np.array([4, 7], np.uint8))
    assert [type(chunk.index(1)), chunk.index(1)] == [int, 7]


def test_an_endless_plan_is_drawn_no_further_than_the_limit() -> None:
    drawn = []

    def plan() -> Iterator[int]:
        i = 0
        while True:
            drawn.append(i)
            yield i
            i += 1

    window = ChunkWindow(plan(), limit=5)
    while ask(window, 3):
        pass
    assert drawn == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_a_plan_that_raises_ends_there_and_keeps_the_error(n: int, size: int) -> None:
    window = ChunkWindow(CountedPlan(n, fails=True), limit=6)
    handed: list[int] = []
    while (chunk := ask(window, size)) is not None:
        window.deliver(chunk, result(chunk))
        handed.extend(hand_out(window).indices)
    assert handed == list(range(n))
    assert window.ended()
    assert isinstance(window.failure, LookupError)


def test_several_chunks_drawn_before_a_plan_raises_are_kept() -> None:
    window = ChunkWindow(CountedPlan(5, fails=True), limit=9)
    assert indices(window.draw(9, 2)) == [[0, 1], [2, 3], [4]]
    assert isinstance(window.failure, LookupError)
    assert window.is_drawn


def test_ctrl_c_in_a_plan_passes_through_and_ends_it() -> None:
    def plan() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    window = ChunkWindow(plan(), limit=6)
    with pytest.raises(KeyboardInterrupt):
        window.draw(3, 1)
    assert window.is_drawn
    assert isinstance(window.failure, KeyboardInterrupt)


# -------------------------------------------------------------------- results


def test_the_rest_of_a_job_that_ended_early_comes_before_later_items() -> None:
    window = ChunkWindow(range(12), limit=12)
    first, second = asked(window, 4, 4)
    rest = window.deliver(first, result(first, 3))
    assert rest is not None
    assert indices([first, rest]) == [[0, 1, 2], [3]]
    assert not rest.sent
    assert window.has_unsent()
    assert hand_out(window) is first
    assert window.next_to_send(4) is rest
    window.deliver(second, result(second))
    assert window.ready() is None
    window.deliver(rest, result(rest))
    assert [hand_out(window), hand_out(window)] == [rest, second]


def test_the_rest_of_a_job_that_still_runs_is_not_asked_for_again() -> None:
    window = ChunkWindow(range(12), limit=12)
    (chunk,) = asked(window, 6)
    pieces = []
    while chunk is not None:
        pieces.append(chunk)
        chunk = window.deliver(chunk, result(chunk, 2), is_sent=True)
        assert not window.has_unsent()
    assert indices(pieces) == [[0, 1], [2, 3], [4, 5]]
    assert [hand_out(window) for _ in pieces] == pieces


def test_the_chunk_of_a_dead_worker_is_cut_after_its_current_item() -> None:
    window = ChunkWindow(range(7), limit=7)
    first, second, third = asked(window, 2, 3, 2)
    second.deaths = 1
    window.isolate(second)
    window.send_again(second)
    for chunk in (first, third):
        window.deliver(chunk, result(chunk))
    hand_out(window)
    assert indices([window.next_to_send(5), window.next_to_send(5)]) == [[2], [3, 4]]
    assert second.deaths == 1
    assert [chunk.deaths for chunk in window._chunks] == [1, 0, 0]


def test_a_chunk_whose_failing_item_is_unknown_is_sent_item_by_item() -> None:
    window = ChunkWindow(range(7), limit=7)
    first, second, third = asked(window, 2, 3, 2)
    window.scatter(second)
    again = [window.next_to_send(5) for _ in range(4)]
    assert indices(again[:3]) == [[2], [3], [4]]
    assert again[3] is None
    for chunk in (first, *again[:3], third):
        assert chunk is not None
        window.deliver(chunk, result(chunk))
    assert [i for _ in range(5) for i in hand_out(window).indices] == list(range(7))
    assert window.pending() == 0


def test_a_chunk_that_was_not_begun_is_asked_for_again_as_it_is() -> None:
    window = ChunkWindow(range(6), limit=6)
    chunk, _ = asked(window, 3, 3)
    window.send_again(chunk)
    assert window.next_to_send(3) is chunk
    assert indices([chunk]) == [[0, 1, 2]]


def test_an_unstarted_chunk_that_is_now_too_long_is_sent_in_parts() -> None:
    window = ChunkWindow(range(6), limit=6)
    chunk, later = asked(window, 4, 2)
    window.send_again(chunk)
    assert indices([window.next_to_send(3), window.next_to_send(3), later]) == [[0, 1, 2], [3], [4, 5]]


def test_end_returns_what_was_not_handed_out_and_forgets_it() -> None:
    window = ChunkWindow(range(9), limit=6)
    first, second = asked(window, 2, 2)
    assert window.end() == [first, second]
    assert first.dropped
    assert window.ended()
    assert not window.ready()
    assert window.pending_items() == 0
    assert ask(window, 1, waiting=True) is None
    window.send_again(first)  # its job is skipped only now
    assert not window.has_unsent()
    assert window.end() == []


def test_out_of_order_arrived_items_are_delivered_first() -> None:
    window = ChunkWindow(range(7), limit=4, in_order=False)
    chunks = asked(window, 1, 1, 1, 1)
    assert ask(window, 1) is None
    assert window.ready() is None
    for at in (2, 1):
        window.deliver(chunks[at], result(chunks[at]))
    assert indices([hand_out(window), hand_out(window)]) == [[1], [2]]
    assert window.ready() is None
    more = asked(window, 1, 1)
    assert indices([*more]) == [[4], [5]]
    window.send_again(chunks[0])
    for chunk in (chunks[3], *more):
        window.deliver(chunk, result(chunk))
        hand_out(window)
    assert window.next_to_send(1) is chunks[0]


# -------------------------------------------------------------------- sequences that end


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_end_of_the_sequence_drops_everything_behind_it(count: int) -> None:
    window = ChunkWindow(range(99), limit=20)
    first, ending, after = asked(window, 4, 4, 4)
    window.add(window.draw(1, 4))
    if count:
        ending.result = result(ending, count)
    window.end_at(ending, count)
    assert after.dropped
    assert ending.dropped == (count == 0)
    assert not window.has_unsent()
    assert window.room(4, depth=9) == 0
    assert window.pending_items() == 4 + count
    window.deliver(first, result(first))
    while window.ready():
        hand_out(window)
    assert window.ended()
    assert window.pending_items() == 0


@pytest.mark.parametrize("in_order", [True, False])
def test_items_before_the_end_are_sent_again_after_their_worker_died(in_order: bool) -> None:
    window = ChunkWindow(range(99), limit=20, in_order=in_order)
    first, ending = asked(window, 4, 4)
    window.isolate(first)
    window.send_again(first)
    ending.result = result(ending, 2)
    window.end_at(ending, 2)
    again = [window.next_to_send(4), window.next_to_send(4)]
    assert indices(again) == [[0], [1, 2, 3]]
    for chunk in again:
        assert chunk is not None
        window.deliver(chunk, result(chunk))
    handed = sorted(i for _ in range(3) for i in hand_out(window).indices)
    assert handed == list(range(6))
    assert window.ended()


def test_out_of_order_running_jobs_find_the_end_themselves() -> None:
    window = ChunkWindow(range(99), limit=20, in_order=False)
    first, ending, after = asked(window, 4, 4, 4)
    window.add(window.draw(1, 4))
    window.end_at(ending, 0)
    assert ending.dropped
    assert not window.has_unsent()
    assert [first.dropped, after.dropped] == [False, False]
    window.deliver(after, result(after))
    assert hand_out(window) is after
    window.end_at(first, 0)
    assert window.ended()


def test_a_chunk_drawn_while_the_end_arrives_is_dropped() -> None:
    window = ChunkWindow(range(99), limit=20)
    (chunk,) = asked(window, 4)
    drawn = window.draw(1, 4)
    window.end_at(chunk, 0)
    window.add(drawn)
    assert window.ended()
    assert window.pending_items() == 0


def test_a_position_has_no_chunk_once_its_chunk_is_gone() -> None:
    window = ChunkWindow(range(6), limit=6)
    first, second, third = asked(window, 2, 2, 2)
    assert [window.at(i) for i in range(6)] == [first, first, second, second, third, third]
    window.drop(second)
    assert [window.at(i) for i in range(7)] == [first, first, None, None, third, third, None]
