"""Every case of the registry obeys every law: exhaustively on small sources, by Hypothesis on others."""

from __future__ import annotations

import gc
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.testing import check_view
from seqkit.testing.reading import pick
from seqkit.testing.subject import close, expect, forms, refused
from tests import strategies

from .registry import CASES, Case


def slow_start(case: Case) -> bool:
    # `tests/engine/test_stages.py` has more nodes of nodes.
    nested = "fork of a prefetch fork", "thread of a prefetch fork"
    return any(word in case.name for word in ("spawn", "forkserver", *nested))


# Workers that are not forked, or forked by workers, cost the most, and differ only in how they start.
every_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.start_methods] * slow_start(case))
        for case in CASES
    ],
)
every_random_case = pytest.mark.parametrize(
    "case", [case for case in CASES if case.reads != "ahead"], ids=lambda case: case.name
)


def some_sizes(case: Case) -> set[int]:
    """Return no items, and so few that a batch of three is short."""
    return {min(case.sizes), 4 if 4 in case.sizes else max(case.sizes)}


def check(case: Case, n: int) -> None:
    check_view(
        case.build,
        case.model,
        case.items([i * 3 + 10 for i in range(n)]),
        reads=case.reads,
        writes=case.writes,
        length_reads=case.length_reads,
        dumps=pickle.dumps,
    )


@every_case
def test_every_law_holds_on_small_sources(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases take turns with the other kinds of sources than lists."""
    turn = CASES.index(case)

    def some_forms(items: list[Any]) -> list[Any]:
        plain, *others = forms(items)
        return [plain, others[turn % len(others)]]

    monkeypatch.setattr("seqkit.testing.check.forms", some_forms)
    for n in sorted(some_sizes(case)):
        check(case, n)


@pytest.mark.stress
@every_case
def test_every_law_holds_on_sources_of_all_kinds_and_sizes(case: Case) -> None:
    for n in case.sizes:
        check(case, n)


@contextmanager
def nothing_left() -> Iterator[None]:
    """A block that leaves nothing to the garbage collector."""
    gc.disable()
    gc.freeze()  # whatever else there is
    try:
        yield
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()


@every_case
def test_an_iterator_that_is_dropped_leaves_nothing_to_the_garbage_collector(case: Case) -> None:
    n = max(case.sizes)
    view = case.build(case.items([i * 3 + 10 for i in range(n)]))
    try:
        for drawn in (1, n):
            deque(islice(view, drawn), maxlen=0)  # what is made once, is made now
            with nothing_left():
                deque(islice(view, drawn), maxlen=0)
    finally:
        close(view)


class Failing:
    """A source of which every fourth item fails."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        if i % 4 == 2:
            raise ValueError(i)
        return self.items[i]


def failures(view: Any, n: int) -> int:
    failed = 0
    for i in range(n):
        try:
            view[i]
        except IndexError:
            pass
        except sk.EvaluationError:
            failed += 1
    return failed


class Interrupting(Failing):
    """A source that is interrupted when item `at` is read for the first time."""

    def __init__(self, items: list[Any], at: int) -> None:
        super().__init__(items)
        self.at = at

    def __getitem__(self, i: int) -> Any:
        if i == self.at:
            self.at = -1
            raise KeyboardInterrupt
        return self.items[i]


LAYS: list[Callable[[Any], Any]] = [
    lambda view: view,
    lambda view: sk.smap(lambda x: x, view),
    lambda view: sk.smap(lambda x: x, sk.smap(lambda x: x, view)),
    lambda view: sk.window(view, 2, last="keep"),
]


@every_random_case
def test_an_interrupted_iterator_is_over_and_says_so(case: Case) -> None:
    n = max(case.sizes)
    items = case.items([i * 3 + 10 for i in range(n)])
    for lay, at in product(LAYS, range(n)):
        expected = list(lay(case.model(list(items))))
        source = Interrupting(items, at)
        view = lay(case.build(source if at % 2 else sk.smap(lambda x: x, source)))
        if not view._reads_ahead:  # an interrupt in a worker is an error of its item
            _expect_end(view, expected, at)
        close(view)


def _expect_end(view: sk.View[Any], expected: list[Any], at: int) -> None:
    """Expect the first items of an iterator, an interrupt, and then no silent end."""
    found: list[Any] = []
    try:
        items = iter(view)  # which may read items, to find the length
    except KeyboardInterrupt:
        items = iter(view)
    try:
        while True:
            found.append(next(items))
    except StopIteration:
        expect("the items without an interrupt", found, expected)
        return
    except KeyboardInterrupt:
        pass
    expect(f"the items before an interrupt at item {at}", found, expected[: len(found)])
    for _ in range(2):
        refused("an iterator after an interrupt", RuntimeError, next, items)


BY_INDEX = (
    "smap/gather repeats/shuffle/batch 3/split/window/add_cache/add_cache on disk"
    "/prefetch inline/prefetch thread/prefetch process, fork"
)


@pytest.mark.parametrize("name", BY_INDEX.split("/"))
def test_items_that_fail_leave_nothing_to_the_garbage_collector(name: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    view = case.build(Failing(list(range(8))))
    try:
        failures(view, 8)  # what is made once, is made now
        with nothing_left():
            assert failures(view, 8)
    finally:
        close(view)


quick = settings(
    max_examples=3, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@every_random_case
@quick
@given(data=st.data())
def test_random_sources_are_read_like_lists(case: Case, data: st.DataObject) -> None:
    read_random_source(case, data)


@pytest.mark.stress
@every_random_case
@settings(quick, max_examples=100, derandomize=False)
@given(data=st.data())
def test_many_random_sources_are_read_like_lists(case: Case, data: st.DataObject) -> None:
    read_random_source(case, data)


def read_random_source(case: Case, data: st.DataObject) -> None:
    most = 40 if max(case.sizes) else 0
    items = case.items(data.draw(st.lists(st.integers(-99, 99), max_size=most)))
    source = data.draw(st.sampled_from(list(forms(items))))
    view, expected = case.build(source), list(case.model(list(items)))
    try:
        _read(view, expected, data)
    finally:
        close(view)


def _read(view: Any, expected: list[Any], data: st.DataObject) -> None:
    n = len(expected)
    expect("list(view)", list(view), expected)
    if n:
        i = data.draw(strategies.indices(n))
        expect(f"view[{i}]", view[i], expected[i])
    first = data.draw(strategies.selections(n))
    once, wanted = view[first], pick(expected, first)
    expect(f"list(view[{first!r}])", list(once), wanted)
    second = data.draw(strategies.selections(len(wanted)))
    expect(f"list(view[{first!r}][{second!r}])", list(once[second]), pick(wanted, second))
    batch = data.draw(strategies.index_batches(n))
    expect(f"view._getmany({batch!r})", list(view._getmany(batch)), [expected[i] for i in batch])
    plan = data.draw(strategies.plans(n))
    expect("the items of a plan", list(view._iter(plan)), [expected[i] for i in plan])
