"""What is special about `switch` and `case`: what counts as a choice, and which lengths fit together."""

import pickle

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.failing import by_index, by_iteration
from seqkit.testing.sources import UnsizedSource
from seqkit.views.cycle import cycle
from seqkit.views.repeat import repeat
from seqkit.views.switch import case, switch


@pytest.mark.parametrize(
    "condition",
    [
        [True, False, True, False],
        [1, 0, 5, 0],
        [2.5, 0.0, -1, None],
        ["yes", "", "no", ""],
        [[0], [], (0,), {}],
        np.array([True, False, True, False]),
        np.array([3, 0, -1, 0]),
        [np.True_, np.False_, np.float32(1), np.int8(0)],
    ],
    ids=repr,
)
def test_anything_true_selects_the_first_sequence(condition):
    view = switch(condition, "abcd", "ABCD")
    assert list(view) == list("aBcD")
    assert [view[i] for i in range(4)] == list("aBcD")
    assert view._getmany([3, 0]) == ["D", "a"]


def test_a_condition_that_is_neither_true_nor_false_is_an_error_of_its_item():
    view = switch([1, np.zeros(2), 0], "abc", "ABC")
    for read in (lambda: view[1], lambda: view._getmany([0, 1])):
        with pytest.raises(EvaluationError, match=r"switch\[1\] failed in condition: ValueError: ") as caught:
            read()
        assert isinstance(caught.value.__cause__, ValueError)
    found = by_iteration(iter(view))
    assert (found[0], found[2]) == ("a", "C")


@pytest.mark.parametrize(
    "selector", [[1, 0, 2, 1], [1, 0, -1, 1], np.array([1, 0, 2, 1], np.uint8)], ids=repr
)
def test_the_selector_counts_the_sequences_as_indices_do(selector):
    view = case(selector, "abcd", "ABCD", range(4))
    assert list(view) == ["A", "b", 2, "D"]
    assert [view[i] for i in range(4)] == ["A", "b", 2, "D"]
    assert list(view._getmany(np.array([2, 2, 0]))) == [2, 2, "A"]


@pytest.mark.parametrize("selector", [[True, False], np.array([True, False])], ids=repr)
def test_a_bool_selects_by_switch_only(selector):
    with pytest.raises(EvaluationError, match="a bool is not an index"):
        case(selector, "ab", "AB")[0]
    assert list(switch(selector, "ab", "AB")) == ["a", "B"]


@pytest.mark.parametrize("bad", [2, -3, 100])
def test_a_selector_out_of_range_is_an_index_error_and_not_the_end(bad):
    view = case([0, bad, 1], "abc", "ABC")
    message = rf"case: selector\[1\] is {bad}, outside \[-2, 2\)"
    with pytest.raises(IndexError, match=message):
        view[1]
    with pytest.raises(IndexError, match=message):
        list(view)
    with pytest.raises(IndexError, match=message):
        view._getmany([0, 1])
    iterator = iter(view)
    assert next(iterator) == "a"
    with pytest.raises(IndexError, match=message):
        next(iterator)
    assert list(iterator) == ["C"]


@pytest.mark.parametrize("bad", ["1", 1.0, None, [1]], ids=repr)
def test_a_selector_that_is_no_int_is_an_error_of_its_item(bad):
    view = case([0, bad], "ab", "AB")
    with pytest.raises(EvaluationError, match=r"case\[1\] failed in selector: TypeError"):
        view[1]
    assert view[0] == "a"


def test_errors_of_the_sequences_never_shorten_an_iteration():
    class Unreadable:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            raise IndexError("lost")

    view = switch([True, False], Unreadable(), [1, 2])
    assert len(by_iteration(iter(view))) == 2
    with pytest.raises(EvaluationError, match="IndexError: lost"):
        list(view)
    assert list(case([0, 1, 0], repeat("a"), [1, 2, 3])) == ["a", 2, "a"]


def test_iteration_continues_after_errors_of_selector_and_sequences():
    view = case(FailingSource([0, 1, 0, 1, 1], {1}), FailingSource("abcde", {2, 3}), "ABCDE")
    expected = by_index(view)
    assert by_iteration(iter(view)) == expected
    assert by_iteration(view._iter([4, 2, 1, 0])) == [expected[i] for i in (4, 2, 1, 0)]
    assert [i for i, item in enumerate(expected) if not isinstance(item, str)] == [1, 2]


def test_errors_have_the_path_to_the_selected_item():
    inverse = sk.smap(lambda x: 1 / x, [1, 0])
    view = switch([0, 0], "ab", inverse)
    for read in (lambda: view[1], lambda: list(view)):
        with pytest.raises(EvaluationError) as caught:
            read()
        assert caught.value.path == ((view, 1), (inverse, 1))


def test_a_selector_that_raises_stop_iteration_does_not_end_the_view_in_passthrough_mode():
    view = switch([1, 1, 1], FailingSource("abc", {1}, StopIteration), "ABC")
    with sk.errstate("passthrough"), pytest.raises(RuntimeError, match="generator raised StopIteration"):
        list(view)


def test_only_the_selected_sequence_is_read():
    first, second = CountingSource("abc"), CountingSource("ABC")
    view = switch([1, 0, 1], first, second)
    assert list(view) == list("aBc")
    assert (first.reads, second.reads) == ({0: 1, 2: 1}, {1: 1})
    assert list(switch([0, 0], ExplodingSource("ab"), "AB")) == ["A", "B"]


def test_the_selector_is_read_once_per_item():
    for read in (list, lambda view: view[1], lambda view: view._getmany([0, 2, 1])):
        condition = CountingSource([1, 0, 1])
        read(switch(condition, "abc", "ABC"))
        assert set(condition.reads.values()) == {1}


def test_different_lengths_are_refused_even_beside_endless_sequences():
    with pytest.raises(ValueError, match="switch: the sequences must have one length, got 2, 3"):
        switch([1, 0], "abc", repeat(0))
    with pytest.raises(ValueError, match="case: the sequences must have one length, got 3, 2"):
        case(cycle([0, 1]), "abc", "ab")


def test_sequences_without_a_length_take_that_of_the_others():
    assert list(switch(cycle([1, 0]), "abc", repeat("-"))) == ["a", "-", "c"]
    assert list(case([0, 1, 1], repeat("-"), cycle("xy"))) == ["-", "y", "x"]
    assert list(switch([1, 0, 1], UnsizedSource("abcd"), "ABC")) == ["a", "B", "c"]


def test_without_lengths_of_sequences_the_length_is_that_of_the_selector():
    endless = switch(cycle([1, 0]), repeat("x"), cycle("abc"))
    assert list(endless[:6]) == ["x", "b", "x", "a", "x", "c"]
    with pytest.raises(TypeError, match="switch has no length: it never ends"):
        len(endless)
    ending = case(UnsizedSource([0, 1, 0]), repeat("x"), cycle("abc"))
    assert list(ending) == ["x", "b", "x"]
    with pytest.raises(TypeError, match="its end is only known once it is reached"):
        len(ending)
    with pytest.raises(IndexError, match="the sequence ends before index 3"):
        ending[3]


def test_a_selected_sequence_that_ends_too_soon_is_an_error_and_not_the_end():
    sized = switch([1, 1, 0], UnsizedSource("a"), "ABC")
    unsized = switch(UnsizedSource([1, 1, 0]), UnsizedSource("a"), repeat("C"))
    for view in (sized, unsized):
        assert view[0] == "a"
        assert view[2] == "C"
        iterator = iter(view)
        assert next(iterator) == "a"
        with pytest.raises(IndexError, match="the sequence ends before index 1"):
            next(iterator)
        assert list(iterator) == ["C"]


def test_a_selector_that_ends_too_soon_is_an_error_too():
    view = switch(UnsizedSource([1]), "ab", "AB")
    assert view[0] == "a"
    with pytest.raises(ValueError, match="switch: the selector ends before item 1"):
        list(view)


def test_assignment_goes_to_the_selected_sequence():
    first, second, third = [1, 2, 3], [10, 20, 30], [100, 200, 300]
    view = case([0, 2, -2], first, second, third)
    view[0] = "a"
    view[1:] = "bc"
    assert (first, second, third) == (["a", 2, 3], [10, 20, "c"], [100, "b", 300])
    switch([True, False, True], first, second)[-2:] = "yz"
    assert (first, second) == (["a", 2, "z"], [10, "y", "c"])
    with pytest.raises(TypeError, match="smap does not support assignment"):
        switch([1], sk.smap(str, [1]), [2])[0] = 3


def test_one_list_of_sequences_is_taken_as_by_concatenate():
    assert list(case([0, 1], ["ab", [1, 2]])) == list(case([0, 1], "ab", [1, 2])) == ["a", 2]


def test_a_batch_reads_each_selected_array_with_one_index():
    evens, odds = np.arange(0, 20, 2), np.arange(1, 21, 2)
    view = sk.batch(switch([i % 3 for i in range(10)], odds, evens), 4)
    assert view[0] == [0, 3, 5, 6]


def test_views_that_select_pickle_and_follow_epochs():
    view = switch([1, 0, 1, 0] * 4, sk.shuffle(range(16), seed=0), sk.shuffle(range(16), seed=1))
    assert list(pickle.loads(pickle.dumps(view))) == list(view)
    assert list(view.at_epoch(1)) != list(view)
    assert type(view.at_epoch(1)) is type(view)


class Ahead(sk.View):
    """A view that reads ahead, and notes the plans that it is given."""

    _reads_ahead = True

    def __init__(self, source):
        super().__init__((sk.view(source),))
        self.plans = []

    def _get(self, i):
        self.plans.append(i)
        return self._sources[0]._get(i)

    def _iter(self, plan):
        self.plans.append(list(plan))
        return self._sources[0]._iter(plan)

    def _rebuild(self, sources):
        return Ahead(*sources)


def test_a_failing_selector_fails_its_own_item_if_a_sequence_reads_ahead():
    view = case(FailingSource([0, 1, 0, 5, 1], {1}), Ahead("abcde"), "ABCDE")
    found = by_iteration(iter(view))
    assert [item for item in found if isinstance(item, str)] == ["a", "c", "E"]
    assert [item.kind for item in found if not isinstance(item, str)] == [EvaluationError, IndexError]
