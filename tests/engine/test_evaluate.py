"""The evaluation of a job: each outcome goes to its own item, and jobs end where they should."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.core.indices import UNKNOWN
from seqkit.engine import evaluate
from seqkit.engine.evaluate import Collector, Evaluator
from seqkit.engine.results import Outcomes


class Items:
    """Stands in for a pipeline; goes on behind an error, like every view's iterator."""

    _name = "Items"
    _n: Any = 100
    _known = None  # so that a single item is iterated too
    _reads_groups = False
    _sources = ()

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


@pytest.mark.parametrize("items", [[1, 2, 3, 4], [BAD, BAD, BAD, BAD]], ids=["values", "errors"])
def test_a_job_ends_after_an_item_that_takes_long(items: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr(evaluate, "monotonic_ns", lambda: next(clock))
    began: list[int] = []
    outcomes, _ = run(Items(*items), 4, budget_ns=25, began=began.append)
    assert len(outcomes.values) == 3
    assert began[:2] == [10, 20]  # each item begins when the one before it ends


@pytest.mark.parametrize(("lengths", "finished"), [([9], 5), ([3, 6], 3), ([1, 8], 5)])
def test_a_job_over_its_budget_goes_on_as_long_again_in_the_same_file(
    lengths: list[int], finished: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sk.flatten([list(range(n)) for n in lengths], lengths)
    assert len(files) == 9
    clock = iter([0, 1, 2, 30, 59, 60, 61] if lengths[0] > 1 else [0, 9, 10, 11, 30, 60])
    monkeypatch.setattr(evaluate, "monotonic_ns", lambda: next(clock))
    outcomes, _ = run(files, 9, budget_ns=25)
    assert len(outcomes.values) == finished


def test_missing_items_of_an_iteration_fail_unless_its_length_is_unknown() -> None:
    outcomes, is_end = run(Items(1, BAD), 4)
    assert (outcomes.values, is_end) == ([1, None, None, None], False)
    assert str(outcomes.failures[3]) == "Items: its iteration ended 2 items early"
    unsized = Items(1, BAD)
    unsized._n = UNKNOWN
    assert run(unsized, 4) == (Outcomes([1, None], {1: BAD}), True)


def test_missing_items_are_reported_up_to_the_room_for_them() -> None:
    outcomes, _ = run(Items(1), 10, Room(3))
    assert (len(outcomes.values), sorted(outcomes.failures)) == (3, [1, 2])


def test_an_iterator_that_always_fails_is_given_up() -> None:
    assert run(SimpleNamespace(_iter=lambda indices: 1 // 0), 3)[0].values == [None] * 3


def test_a_view_continues_after_its_errors() -> None:
    outcomes, _ = run(sk.smap(lambda x: 1 // x, [1, 0, 0, 1]), 4)
    assert outcomes.values == [1, None, None, 1]
    assert [type(error.__cause__) for error in outcomes.failures.values()] == [ZeroDivisionError] * 2
