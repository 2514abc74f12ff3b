"""What is special about `repeat`: one value, which is shared state."""

import copy
import pickle
from itertools import islice

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing.reading import some_slices
from seqkit.views.repeat import repeat


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_any_number_of_times_is_legal(times):
    view = repeat("x", times)
    assert len(view) == times
    assert list(view) == ["x"] * times
    for key in some_slices(times, 10_000):
        assert list(view[key]) == (["x"] * times)[key]
        assert len(view[key]) == len(range(times)[key])


def test_without_times_it_never_ends():
    view = repeat(7)
    assert view[10**15] == 7
    assert list(islice(view, 4)) == [7] * 4
    with pytest.raises(TypeError, match=r"repeat\(7\) has no length: it never ends"):
        len(view)
    with pytest.raises(IndexError, match="negative index -1 needs a length"):
        view[-1]


def test_slices_of_an_endless_one_are_as_long_as_the_range_they_stand_for():
    view = repeat(1)
    assert len(view[0:10:3]) == 4
    assert list(view[0:1]) == [1]
    assert list(view[5:2]) == []
    assert len(view[9:0:-4]) == 3
    assert list(view[3:].head(2)) == [1, 1]


def test_assigning_to_one_item_assigns_to_all():
    view = repeat(0, 3)
    part, picked = view[1:], view[[0, 0]]
    view[-1] = 5
    assert list(view) == [5, 5, 5]
    assert list(part) == [5, 5]
    part[0] = 6
    assert list(view) == list(repeat(6, 3))
    assert list(picked) == [6, 6]


def test_slices_keep_what_is_assigned_last():
    view = repeat(0)
    view[:3] = [1, 2, 3]
    assert view[0] == view[100] == 3
    with pytest.raises(ValueError, match="repeat: assigned 2 values to a slice of 3 items"):
        view[:3] = [1, 2]
    assert view[0] == 3


def test_assignment_out_of_range_is_refused():
    view = repeat(0, 2)
    with pytest.raises(IndexError, match="repeat: index 2 out of range for length 2"):
        view[2] = 1
    assert list(view) == [0, 0]


def test_a_copy_does_not_share_the_value():
    view = repeat(0, 2)
    copies = [pickle.loads(pickle.dumps(view)), copy.deepcopy(view), copy.copy(view)]
    view[0] = 1
    assert [list(other) for other in copies] == [[0, 0]] * 3


def test_another_epoch_shares_the_value_beside_random_nodes():
    labels = repeat("old", 3)
    pairs = sk.collate([sk.shuffle(range(3), seed=0), labels]).at_epoch(1)
    labels[0] = "new"
    assert {label for _, label in pairs} == {"new"}


def test_the_value_is_not_copied():
    value = [1]
    view = repeat(value, 2)
    assert view[0] is view[1] is next(iter(view)) is view._getmany([0])[0] is value


def test_unfit_times_are_refused():
    with pytest.raises(ValueError, match="repeat: times must be an int of at least 0 or None, got -1"):
        repeat(0, -1)
    for times in (1.0, "2", True):
        with pytest.raises(TypeError, match="repeat: times must be an int of at least 0"):
            repeat(0, times)


def test_its_repr_is_one_short_line_for_any_value():
    assert repr(repeat("a", 3)) == "repeat('a', 3)"
    assert repr(repeat(None)) == "repeat(None)"
    for value in (np.zeros((50, 50)), "x" * 1000, {i: [i] * 50 for i in range(100)}):
        text = repr(repeat(value, 3))
        assert len(text) < 200
        assert "\n" not in text
