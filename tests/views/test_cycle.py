"""What is special about `cycle`: lengths without end, empty sources, writing modulo the period."""

from itertools import islice

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, FailingSource
from seqkit.testing.failing import by_iteration
from seqkit.testing.reading import some_slices
from seqkit.views.cycle import cycle

LONG = 67


def test_without_limit_it_has_no_length_and_no_end():
    view = cycle("abc")
    assert list(islice(view, 8)) == list("abcabcab")
    assert view[10**15 + 1] == "bca"[10**15 % 3]
    with pytest.raises(TypeError, match="cycle has no length: it never ends"):
        len(view)
    with pytest.raises(TypeError, match="never ends"):
        reversed(view)
    with pytest.raises(IndexError, match="negative index -1 needs a length: it never ends"):
        view[-1]


def test_bounded_slices_of_an_endless_one_are_those_of_a_long_list():
    view, long = cycle("abc"), list("abc" * 20)
    for key in some_slices(9, 10_000):
        start, stop, step = key.start, key.stop, 1 if key.step is None else key.step
        negative = any(bound is not None and bound < 0 for bound in (start, stop))
        if stop is None and step == 1 and not negative:
            assert list(islice(view[key], 5)) == long[key][:5]
        elif negative or (stop is None and step > 1) or (start is None and step < 0):
            with pytest.raises(IndexError, match="length"):
                view[key]
        else:
            assert list(view[key]) == long[key]


def test_empty_and_backward_slices_of_an_endless_one_are_right():
    view = cycle([0, 1, 2])
    assert list(view[5:2]) == []
    assert len(view[5:2]) == 0
    assert list(view[7:1:-2]) == [1, 2, 0]
    assert list(view[4::-1]) == [1, 0, 2, 1, 0]
    assert list(view[2:9][::-3]) == [2, 2, 2]


def test_a_limit_of_zero_is_empty_for_every_source():
    for source in ([], [1, 2]):
        view = cycle(source, 0)
        assert len(view) == 0
        assert list(view) == []
        assert view._getmany([]) == []
        with pytest.raises(IndexError):
            view[0]


@pytest.mark.parametrize("limit", [None, 1, 5])
def test_an_empty_source_that_would_have_to_give_items_is_refused(limit):
    with pytest.raises(ValueError, match="cycle: the sequence is empty, so limit must be 0"):
        cycle([], limit)


@pytest.mark.parametrize("limit", range(8))
def test_the_limit_is_its_length_whether_it_cuts_a_pass_or_not(limit):
    view = cycle("abc", limit)
    assert len(view) == limit
    assert list(view) == list("abcabcabc"[:limit])
    assert list(reversed(view)) == list("abcabcabc"[:limit])[::-1]


def test_assignment_goes_to_the_item_of_the_source_with_a_limit_or_without():
    source = [0, 1, 2]
    cycle(source)[7] = "one"
    cycle(source, 9)[-1] = "two"
    assert source == [0, "one", "two"]
    cycle(source)[2:5] = "xyz"
    assert source == ["y", "z", "x"]


@pytest.mark.parametrize("period", [2, LONG])
def test_passes_of_any_length_read_every_item_once_each(period):
    source = CountingSource(range(period))
    view = cycle(source, 2 * period + 1)
    assert list(view) == [*range(period), *range(period), 0]
    assert source.reads == {i: 2 + (i == 0) for i in range(period)}
    assert list(view[period - 1 : period + 2]) == [period - 1, 0, 1]


@pytest.mark.parametrize("period", [3, LONG])
def test_iteration_continues_after_failing_items_in_every_pass(period):
    view = cycle(FailingSource(range(period), {1}), 3 * period)
    outcomes = by_iteration(iter(view))
    assert len(outcomes) == 3 * period
    assert [i % period for i, item in enumerate(outcomes) if item != i % period] == [1, 1, 1]


def test_a_prefetch_beneath_is_iterated_once_and_not_once_per_pass():
    plans = []

    class Watched(sk.View):
        _reads_ahead = True

        def __init__(self):
            super().__init__((), LONG)

        def _get(self, i):
            return i

        def _iter(self, plan):
            plans.append(plan)
            return super()._iter(plan)

    view = cycle(Watched(), 3 * LONG)
    assert list(view) == [*range(LONG)] * 3
    assert len(plans) == 1
    assert list(plans[0]) == [*range(LONG)] * 3


def test_batches_of_an_array_are_read_with_one_slice_within_a_pass_and_one_index_across():
    table = np.arange(10).reshape(5, 2)
    rows = sk.batch(cycle(table), 3, collate_fn=np.stack)
    assert rows[0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert rows[1].tolist() == [[6, 7], [8, 9], [0, 1]]
    assert cycle(table)._getmany(np.array([4, 5, 255], np.uint8)).tolist() == [[8, 9], [0, 1], [0, 1]]


def test_small_index_types_do_not_overflow_over_long_periods():
    view = cycle(np.arange(1000), 2000)
    assert list(view._getmany(np.array([3, 200], np.uint8))) == [3, 200]
