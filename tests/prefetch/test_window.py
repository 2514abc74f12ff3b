"""The window of one reader, held against a plain loop over the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqkit.indices import Translated
from seqkit.prefetch.window import Chunk, Window


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


class Driver:
    """A window with workers and a reader played by the test; checks every promise at every step."""

    def __init__(self, n: int, limit: int, depth: int) -> None:
        self.plan = CountedPlan(n)
        self.window = Window(self.plan, limit, depth)
        self.flying: list[Chunk] = []
        self.arrived: set[int] = set()
        self.handed: list[int] = []
        self.returned = 0  # items that `back` put on top of the limit

    # What the machine and the exhaustive search do.

    def ask(self, size: int, waiting: bool = False) -> Chunk | None:
        before, limit = self.plan.drawn, self.window.limit or int(waiting)
        chunk = self.window.ask(size, waiting)
        if chunk is not None:
            assert len(chunk) >= 1
            assert chunk.asked
            assert chunk.parcel is None
            assert not any(chunk is other for other in self.flying)
            self.flying.append(chunk)
        if self.plan.drawn > before:
            assert chunk is not None
            assert len(chunk) <= size
            assert self.pending() <= limit
            assert len(self.window._chunks) <= self.window.depth
        return chunk

    def complete(self, chunk: Chunk) -> None:
        self.flying.remove(chunk)
        self.arrived.update(chunk.indices)
        chunk.parcel = list(chunk.indices)

    def lose(self, chunk: Chunk) -> None:
        self.flying.remove(chunk)
        self.window.again(chunk)

    def hand_out(self) -> Chunk:
        chunk = self.window.hand_out(self.window.ready())
        assert chunk.parcel == chunk.indices
        self.arrived.difference_update(chunk.indices)
        self.handed.extend(chunk.indices)
        return chunk

    def back(self, chunk: Chunk) -> None:
        del self.handed[-len(chunk) :]
        self.window.back(chunk)

    # What must hold.

    def pending(self) -> int:
        return self.plan.drawn - len(self.handed)

    def next_index(self) -> int:
        return len(self.handed)

    def check(self) -> None:
        window = self.window
        assert self.handed == list(range(len(self.handed)))
        assert bool(window.ready()) == (self.next_index() in self.arrived)
        flying = {i for chunk in self.flying for i in chunk.indices}
        assert sum(map(len, self.flying)) == len(flying)
        if self.pending():
            assert window.starving() == (self.next_index() not in flying | self.arrived)
            assert not window.ended()
        assert [i for chunk in window.arrived()[::-1] for i in chunk.indices] == sorted(self.arrived)

    def key(self) -> tuple[Any, ...]:
        """What the window's future depends on."""
        flying = {id(chunk) for chunk in self.flying}
        return (
            len(self.handed),
            self.plan.drawn,
            self.window._drawn,
            self.window.limit,
            tuple((tuple(c.indices), id(c) in flying, c.parcel is not None) for c in self.window._chunks),
        )


def moves(driver: Driver, losses: int, limits: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Everything that can happen next; jobs are named by their place, so that moves can be replayed."""
    possible: list[tuple[Any, ...]] = [("ask", 1, False), ("ask", 2, False), ("ask", 2, True)]
    for place in range(len(driver.flying)):
        possible.append(("complete", place))
        if losses:
            possible.append(("lose", place))
    if driver.window.ready():
        possible.append(("hand out",))
        if losses:
            possible.append(("hand out, then back",))
    possible += [("limit", limit) for limit in limits if limit != driver.window.limit]
    return possible


def apply(driver: Driver, move: tuple[Any, ...]) -> None:
    match move:
        case ("ask", size, waiting):
            driver.ask(size, waiting)
        case ("complete", place):
            driver.complete(driver.flying[place])
        case ("lose", place):
            driver.lose(driver.flying[place])
        case ("hand out",):
            driver.hand_out()
        case ("hand out, then back",):
            driver.back(driver.hand_out())
        case ("limit", limit):
            driver.window.limit = limit
    driver.check()


def finish(driver: Driver) -> None:
    """Whatever happened before, a reader that waits gets everything: nothing is lost, nothing stuck."""
    for _ in range(100):
        while driver.window.ready():
            driver.hand_out()
        if driver.window.ended():
            break
        asked = driver.ask(2, waiting=True)
        if driver.flying:
            driver.complete(driver.flying[-1])  # the last first, the hardest order
        else:
            assert asked is None
            assert driver.window.ended()
    assert driver.handed == list(range(driver.plan.n))
    assert driver.window.ended()
    assert not driver.window.starving()


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize(("limit", "depth"), [(0, 1), (1, 1), (2, 1), (2, 2), (3, 2), (4, 4)])
def test_every_interleaving_hands_out_the_plan(n: int, limit: int, depth: int) -> None:
    seen = set()
    pending: list[list[tuple[Any, ...]]] = [[]]
    while pending:
        history = pending.pop()
        driver = Driver(n, limit, depth)
        for move in history:
            apply(driver, move)
        losses = 3 - sum(move[0] in ("lose", "hand out, then back") for move in history)
        limits = () if any(move[0] == "limit" for move in history) else (0, limit)
        key = driver.key(), losses, limits
        if key in seen:
            continue
        seen.add(key)
        pending += [[*history, move] for move in moves(driver, losses, limits)]
        finish(driver)
    assert len(seen) > n


class WindowMachine(RuleBasedStateMachine):
    """Random histories of a larger window: any order, any sizes, changing limits, many losses."""

    @initialize(n=st.integers(0, 40), limit=st.integers(0, 12), depth=st.integers(1, 6))
    def begin(self, n: int, limit: int, depth: int) -> None:
        self.driver = Driver(n, limit, depth)

    @rule(size=st.integers(1, 8), waiting=st.booleans())
    def ask(self, size: int, waiting: bool) -> None:
        self.driver.ask(size, waiting)

    @rule(limit=st.integers(0, 12))
    def change_the_limit(self, limit: int) -> None:
        self.driver.window.limit = limit

    @precondition(lambda self: self.driver.flying)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        self.driver.complete(data.draw(st.sampled_from(self.driver.flying)))

    @precondition(lambda self: self.driver.flying)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.driver.lose(data.draw(st.sampled_from(self.driver.flying)))

    @precondition(lambda self: self.driver.window.ready())
    @rule(back=st.sampled_from([False, False, True]))
    def hand_out(self, back: bool) -> None:
        chunk = self.driver.hand_out()
        if back:
            self.driver.back(chunk)

    @invariant()
    def promises_hold(self) -> None:
        if hasattr(self, "driver"):
            self.driver.check()

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            finish(self.driver)


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def chunks_of(window: Window, size: int) -> list[list[Any]]:
    """Ask, complete and hand out in lockstep until the end."""
    pieces = []
    while (chunk := window.ask(size, waiting=True)) is not None:
        chunk.parcel = "done"
        pieces.append(list(window.hand_out(window.ready()).indices))
    return pieces


def test_a_lost_chunk_of_several_items_comes_back_as_single_ones_in_its_place() -> None:
    window = Window(range(7), limit=7, depth=3)
    first, second, third = window.ask(2), window.ask(3), window.ask(2)
    assert first
    assert second
    assert third
    window.again(second)
    first.parcel = third.parcel = "done"
    assert window.hand_out(window.ready()) is first
    assert not window.ready()
    singles = [window.ask(5) for _ in range(3)]
    assert [chunk and list(chunk.indices) for chunk in singles] == [[2], [3], [4]]
    for chunk in singles:
        assert chunk
        chunk.parcel = "done"
    assert [list(window.hand_out(window.ready()).indices) for _ in range(4)] == [[2], [3], [4], [5, 6]]


def test_a_lost_chunk_of_one_item_is_asked_for_again_as_it_is() -> None:
    window = Window(range(3), limit=3, depth=3)
    chunk = window.ask(1)
    assert chunk
    chunk.deaths += 1
    window.again(chunk)
    assert window.starving()
    assert window.ask(1) is chunk
    assert chunk.deaths == 1


def test_a_chunk_taken_back_comes_before_everything_else_in_single_items() -> None:
    window = Window(range(6), limit=4, depth=2)
    first = window.ask(2)
    assert first
    first.parcel = "unreadable"
    assert window.hand_out(window.ready()) is first
    second = window.ask(4)
    assert second
    window.back(first)
    assert [list(chunk.indices) for chunk in map(window.ask, (4, 4)) if chunk] == [[0], [1]]
    assert window.ask(1) is None  # six items are pending, limit and more
    assert first.parcel is None


@pytest.mark.parametrize("waiting", [False, True])
def test_with_limit_0_only_the_item_a_reader_waits_for_is_asked_for(waiting: bool) -> None:
    window = Window(range(9), limit=0, depth=4)
    asked = [window.ask(8, waiting) for _ in range(3)]
    assert [chunk and list(chunk.indices) for chunk in asked] == [[0] if waiting else None, None, None]


def test_raising_the_limit_lets_more_be_asked_for_at_once() -> None:
    window = Window(range(9), limit=1, depth=4)
    assert window.ask(5)
    assert window.ask(5) is None
    window.limit = 4
    more = window.ask(5)
    assert more
    assert list(more.indices) == [1, 2, 3]


def test_depth_counts_chunks_and_limit_counts_items() -> None:
    window = Window(range(99), limit=99, depth=2)
    assert window.ask(3)
    assert window.ask(3)
    assert window.ask(3) is None


def test_end_returns_what_was_not_handed_out_and_forgets_it() -> None:
    window = Window(range(9), limit=6, depth=3)
    first, second = window.ask(2), window.ask(2)
    assert window.end() == [first, second]
    assert window.ended()
    assert not window.starving()
    assert not window.ready()
    assert window.ask(1, waiting=True) is None
    assert window.end() == []


def test_a_window_without_a_pending_chunk_starves_until_the_plan_has_ended() -> None:
    window = Window((), limit=2, depth=2)
    assert window.starving()
    assert not window.ended()
    assert window.ask(1) is None
    assert window.ended()
    assert not window.starving()


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
    window = Window(plan if not isinstance(plan, CountedPlan) else CountedPlan(7), limit=50, depth=2)
    drawn: list[Any] = []
    while (chunk := window.ask(size)) is not None:
        assert isinstance(chunk.indices, kind)
        assert 1 <= len(chunk) <= size
        chunk.parcel = "done"
        drawn.extend(window.hand_out(window.ready()).indices)
    assert drawn == expected


def test_an_endless_plan_is_drawn_no_further_than_the_limit() -> None:
    drawn = []

    def plan() -> Iterator[int]:
        i = 0
        while True:
            drawn.append(i)
            yield i
            i += 1

    window = Window(plan(), limit=5, depth=9)
    while window.ask(3):
        pass
    assert drawn == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_a_plan_that_raises_ends_there_and_keeps_the_error(n: int, size: int) -> None:
    window = Window(CountedPlan(n, fails=True), limit=6, depth=6)
    assert [i for piece in chunks_of(window, size) for i in piece] == list(range(n))
    assert window.ended()
    assert isinstance(window.failure, LookupError)


def test_ctrl_c_in_a_plan_passes_through() -> None:
    def plan() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    window = Window(plan(), limit=6, depth=6)
    with pytest.raises(KeyboardInterrupt):
        window.ask(2)


def test_where_order_does_not_matter_what_has_arrived_is_handed_out_first() -> None:
    window = Window(range(7), limit=4, depth=4, in_order=False)
    chunks = [window.ask(1) for _ in range(4)]
    assert window.ask(1) is None
    assert window.ready() is None
    assert not window.starving()
    chunks[2].parcel = chunks[1].parcel = "there"  # type: ignore[union-attr]
    assert [list(window.hand_out(window.ready()).indices) for _ in range(2)] == [[1], [2]]
    assert window.ready() is None
    more = [window.ask(1), window.ask(1)]
    assert [list(chunk.indices) for chunk in more if chunk] == [[4], [5]]
    window.again(chunks[0])  # type: ignore[arg-type]
    assert not window.starving()  # others are on their way
    for chunk in (chunks[3], *more):
        chunk.parcel = "there"  # type: ignore[union-attr]
        window.hand_out(window.ready())
    assert window.starving()
    assert window.ask(1) is chunks[0]
