"""`smap`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import seqkit as sk
from seqkit.testing import FailingSource, UnsizedSource
from seqkit.testing.failing import Failure, by_iteration
from seqkit.testing.sources import TwoArgumentsError

from ..helpers import FailsAt, Naturals, agree_after_errors, past_errors

errors = pytest.mark.parametrize(
    "error", [ValueError, IndexError, StopIteration, KeyError, TwoArgumentsError]
)


def test_sequences_of_different_lengths_are_refused_by_default() -> None:
    with pytest.raises(ValueError, match="smap: the sequences must have one length"):
        sk.smap(max, [1, 2, 3], [1])
    with pytest.raises(ValueError, match="smap: zip"):
        sk.smap(max, [1], [2], zip="longest")  # type: ignore[call-overload]


def test_the_shortest_sequence_sets_the_length_that_iteration_has() -> None:
    view = sk.smap(max, [1, 5, 9], [7], zip="shortest")
    assert (len(view), list(view)) == (1, [7])
    with pytest.raises(IndexError):
        view[1]


def test_an_unbounded_sequence_goes_along_with_one_that_ends() -> None:
    view = sk.smap(pow, [3, 4], Naturals())
    assert (len(view), list(view)) == (2, [1, 4])
    assert sk.smap(pow, Naturals(), Naturals())[3] == 27


def test_a_sequence_of_unknown_length_must_last_as_long_as_the_others() -> None:
    assert list(sk.smap(max, [1, 5], UnsizedSource([4, 4]))) == [4, 5]
    found = by_iteration(iter(sk.smap(max, [1, 5, 9], UnsizedSource([4, 4]))))
    assert found[:2] == [4, 5]
    assert found[2].kind is ValueError


def test_results_are_not_kept() -> None:
    calls: list[int] = []
    view = sk.smap(calls.append, [1, 2])
    view[0], view[0], list(view)
    assert calls == [1, 1, 1, 2]


def test_functions_of_a_chain_are_called_from_the_inside_out() -> None:
    view = sk.smap(str, sk.smap(abs, sk.smap(lambda x: x - 5, [1, 9])))
    assert list(view) == ["4", "4"]
    assert view.__getitems__([1]) == ["4"]


def test_a_chain_of_maps_is_one_loop_over_the_source() -> None:
    source = sk.view([1, 2])
    view: Any = source
    for f in (abs, float, str):
        view = sk.smap(f, view)
    assert view._chain == ((abs, float, str), source)


def test_in_a_chain_of_several_sequences_each_failing_item_fails_alone() -> None:
    for failing in range(5):
        parts = [FailsAt(*[2, 3] * (failing == k)) for k in range(5)]
        first, second = FailingSource(range(5), [0]), sk.smap(parts[0], range(5))
        view = sk.smap(parts[1], first, second)
        view = sk.smap(parts[2], sk.smap(parts[3], view, FailingSource(range(5), [4])))
        view = sk.smap(parts[4], view, view)
        found = agree_after_errors(view)
        assert [i for i, item in enumerate(found) if isinstance(item, Failure)] == [0, 2, 3, 4]


def test_an_error_in_a_chain_of_several_sequences_names_the_map_and_its_inputs() -> None:
    inner = sk.smap(FailsAt(), range(5), "abcde")
    failing = sk.smap(FailsAt(3), inner, "vwxyz")
    outer = sk.smap(FailsAt(), "fghij", failing)
    reads = [lambda: outer[3], lambda: list(outer), lambda: outer.__getitems__([1, 3])]
    for read in reads:
        with pytest.raises(sk.EvaluationError, match=r"smap\[3\] failed: ValueError: bad 3") as caught:
            read()
        assert (caught.value.view, caught.value.index) == (failing, 3)
        assert caught.value.inputs() == [(3, "y")]
    with pytest.raises(sk.EvaluationError) as caught:
        outer[3]
    assert [(view._name, i) for view, i in caught.value.path] == [("smap", 3), ("zip", 3), ("smap", 3)]


@errors
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_in_a_chain_each_failing_item_fails_alone(layers: int, error: Callable[[str], Exception]) -> None:
    for bad in ([0], [3], [0, 1], [2, 3], [0, 1, 2, 3], [1, 3]):
        for failing_layer in range(layers):
            view = sk.view(range(4))
            for layer in range(layers):
                view = sk.smap(FailsAt(*bad, error=error) if layer == failing_layer else FailsAt(), view)
            found = agree_after_errors(view)
            assert [i for i, item in enumerate(found) if isinstance(item, Failure)] == bad
            assert {item.kind for item in found if isinstance(item, Failure)} == {sk.EvaluationError}


def test_iteration_names_the_items_that_indexing_names() -> None:
    source = FailingSource(range(12), [2, 3, 7])
    inner = sk.smap(FailsAt(0, 3, 8, 9), source)
    outer = sk.smap(FailsAt(1, 9), inner)
    by_index, by_iteration = [], []
    for i in range(12):
        try:
            outer[i]
        except sk.EvaluationError as error:
            by_index.append((error.view, error.index))
    iterator = iter(outer)
    while len(by_iteration) < len(by_index):
        try:
            next(iterator)
        except sk.EvaluationError as error:
            by_iteration.append((error.view, error.index))
    assert by_iteration == by_index
    assert [index for _, index in by_index] == [0, 1, 2, 3, 7, 8, 9]


def test_iteration_names_items_in_the_indices_of_the_map_below_a_shuffle() -> None:
    numbers = sk.smap(FailsAt(4, 9), range(20))
    named = []
    for outcome in past_errors(iter(sk.shuffle(numbers, seed=3))):
        if isinstance(outcome, sk.EvaluationError):
            named.append(outcome.index)
    assert sorted(named) == [4, 9]


def test_the_end_of_another_sequence_that_a_function_meets_is_an_error() -> None:
    other = sk.view(UnsizedSource("ab"))
    view = sk.smap(lambda i: other[i], UnsizedSource([0, 5, 1]))
    found = by_iteration(iter(view))
    assert found[0] == "a"
    assert found[1].kind is sk.EvaluationError
    assert found[2] == "b"
    with sk.errstate("passthrough"):
        assert [getattr(item, "kind", item) for item in by_iteration(iter(view))] == ["a", IndexError, "b"]


def test_an_error_of_another_view_that_a_function_reads_passes_unchanged() -> None:
    broken = sk.smap(FailsAt(1), range(3))
    with pytest.raises(sk.EvaluationError) as caught:
        sk.smap(lambda i: broken[i], range(3))[1]
    assert caught.value.view is broken


def test_iterators_have_no_throw_method() -> None:
    assert not hasattr(iter(sk.smap(abs, [1])), "throw")


def test_an_iterator_that_is_dropped_half_way_leaves_quietly() -> None:
    iterator = iter(sk.smap(abs, sk.smap(abs, range(5))))
    next(iterator)
    del iterator


def test_functions_without_a_name_are_shown_by_their_class() -> None:
    assert repr(sk.smap(FailsAt(), [1])) == "smap(FailsAt, <list of 1>)"


# -------------------------------------------------------------------- many items at once


def test_a_function_that_exits_in_a_worker_does_not_shift_the_indices_in_later_errors() -> None:
    def f(i: int) -> int:
        if i == 1:
            sys.exit(1)
        return FailsAt(2)(i)

    with sk.prefetch(sk.smap(f, range(9)), 1, "thread", chunk_size=4) as node:
        found = past_errors(iter(node))
    assert [item for item in found if isinstance(item, int)] == [0, *range(3, 9)]
    assert (found[2].index, found[2].message) == (2, "smap[2] failed: ValueError: bad 2")


def test_the_shortest_may_be_a_sequence_of_unknown_length() -> None:
    for first, second in (
        ("abc", UnsizedSource("xy")),
        (UnsizedSource("ab"), "xyz"),
        ("ab", UnsizedSource("xyz")),
    ):
        view = sk.smap(str.__add__, first, second, zip="shortest")
        assert list(view) == ["ax", "by"]
        assert (view[1], view[0]) == ("by", "ax")
        with pytest.raises(IndexError):
            view[2]
        assert list(sk.batch(view, 3)) == [["ax", "by"]]
    assert list(sk.smap(max, Naturals(), UnsizedSource([4, 4]), zip="shortest")) == [4, 4]
