"""The evaluation of a job: each outcome goes to its own item, and jobs end where they should."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.core.lengths import UNKNOWN
from seqkit.engine import evaluate
from seqkit.engine.evaluate import Collector, Evaluator
from seqkit.engine.results import Outcomes


class Items:
    """Stands in for a pipeline; goes on behind an error, like every view's iterator."""

    _name = "Items"
    _n: Any = 100
    _known = None  # so that a single item is iterated too

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.drawn = 0

    def _iter(self, indices: Any) -> Iterator[Any]:
        return self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.drawn == len(self.items):
            raise StopIteration
        item = self.items[self.drawn]
        self.drawn += 1
        if isinstance(item, BaseException):
            raise item
        return item


class Room(Collector):
    """A sink with room for so many items."""

    def __init__(self, room: int) -> None:
        super().__init__()
        put, fail, values = self.put, self.fail, self.outcomes.values
        self.put = lambda value: put(value) and len(values) < room
        self.fail = lambda error: fail(error) and len(values) < room


def run(pipeline: Any, count: int, sink: Any = None, **options: Any) -> tuple[Outcomes, bool]:
    sink = sink or Collector()
    is_end = Evaluator(pipeline).run(-1, range(count), sink, **options)
    return sink.outcomes, is_end


BAD, WORSE = ValueError("bad"), SystemExit(1)
outcomes_of_items = st.lists(st.integers(0, 9) | st.just(BAD) | st.just(WORSE), max_size=20)


@given(items=outcomes_of_items, count=st.integers(0, 20))
def test_a_failing_item_affects_no_other_item(items: list[Any], count: int) -> None:
    count = min(count, len(items))
    source = Items(*items)
    outcomes, is_end = run(source, count)
    assert source.drawn == count
    assert outcomes.values == [None if isinstance(i, BaseException) else i for i in items[:count]]
    assert outcomes.failures == {at: i for at, i in enumerate(items[:count]) if isinstance(i, BaseException)}
    assert not is_end


@given(items=outcomes_of_items.filter(bool), room=st.integers(1, 20))
def test_no_more_items_are_drawn_than_there_is_room_for(items: list[Any], room: int) -> None:
    source = Items(*items)
    outcomes, _ = run(source, len(items), Room(room))
    assert source.drawn == len(outcomes.values) == min(room, len(items))


def ticking(times: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(times)
    monkeypatch.setattr(evaluate, "monotonic_ns", lambda: next(clock))


@pytest.mark.parametrize("items", [[1, 2, 3, 4], [BAD, BAD, BAD, BAD]], ids=["values", "errors"])
def test_a_job_ends_after_its_budget_unless_it_goes_on(
    items: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for answers, finished in [(None, 3), ([False], 3), ([True], 4)]:
        ticking(range(0, 100, 10), monkeypatch)
        began: list[int] = []
        goes_on = None if answers is None else answers.pop
        outcomes, _ = run(Items(*items), 4, budget_ns=25, began=began.append, goes_on=goes_on)
        assert len(outcomes.values) == finished
        assert began[:2] == [10, 20]  # each item begins when the one before it ends
        assert not answers
    ticking(range(0, 100, 10), monkeypatch)
    answers = [False, True, True]  # asked once in each budget
    assert len(run(Items(*items, 5, 6, 7, 8), 8, budget_ns=15, goes_on=answers.pop)[0].values) == 6


@pytest.mark.parametrize("first", [1, BAD], ids=["value", "error"])
def test_a_job_whose_first_item_takes_long_goes_on_for_as_long_again(
    first: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times, finished in [((0, 30, 31, 59, 60), 4), ((0, 30, 60), 2), ((0, 10, 30), 2)]:
        ticking(times, monkeypatch)
        outcomes, _ = run(Items(first, *range(8)), 9, budget_ns=25)
        assert len(outcomes.values) == finished
    ticking((0, 30), monkeypatch)  # another reader waits
    assert len(run(Items(first, 1), 2, budget_ns=25, goes_on=lambda: False)[0].values) == 1


def test_missing_items_of_an_iteration_fail_unless_its_length_is_unknown() -> None:
    outcomes, is_end = run(Items(1, BAD), 4)
    assert (outcomes.values, is_end) == ([1, None, None, None], False)
    texts = [str(outcomes.failures[i]) for i in (2, 3)]
    assert texts == [f"Items: its iteration ended {missing} items early" for missing in (2, 1)]
    assert [*run(Items(1), 10, Room(3))[0].failures] == [1, 2]
    unsized = Items(1, BAD)
    unsized._n = UNKNOWN
    assert run(unsized, 4) == (Outcomes([1, None], {1: BAD}), True)


def test_a_view_continues_after_its_errors() -> None:
    outcomes, _ = run(sk.smap(lambda x: 1 // x, [1, 0, 0, 1]), 4)
    assert outcomes.values == [1, None, None, 1]
    assert [type(error.__cause__) for error in outcomes.failures.values()] == [ZeroDivisionError] * 2
    outcomes, _ = run(sk.smap(lambda x: sys.exit(x) if x == 1 else x, range(4)), 4)  # no error of an iterator
    assert (outcomes.values, [*outcomes.failures]) == ([0, None, 2, 3], [1])
    broken: Any = SimpleNamespace(_known=None, _iter=lambda indices: 1 // 0)
    assert run(broken, 3)[0].values == [None] * 3


def test_a_stop_iteration_is_the_error_of_its_item() -> None:
    def item(i: int) -> int:
        if i == 1:
            raise StopIteration("mine")
        return i

    for count in (2, 4):
        with sk.errstate("passthrough"):
            outcomes, is_end = run(sk.smap(item, range(4)), count)
        assert (outcomes.values, is_end) == ([0, None, 2, 3][:count], False)
        assert repr(outcomes.failures[1]) == "StopIteration('mine')"


def test_the_pipeline_is_keyed_for_the_epoch_of_each_job() -> None:
    order = sk.shuffle(range(9), seed=0)
    evaluator = Evaluator(order)
    for epoch in (-1, 3, 3, -1, 0):
        sink = Collector()
        evaluator.run(epoch, range(9), sink)
        assert sink.outcomes.values == list(order if epoch == -1 else order.at_epoch(epoch))
