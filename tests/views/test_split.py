"""What is special about `split`: where it cuts, and what a part is."""

from array import array
from itertools import pairwise

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import ExplodingSource, NarrowSource
from seqkit.views.split import split

from ..helpers import FailsAt


@pytest.mark.parametrize("n", range(13))
def test_a_number_of_cuts_makes_equal_parts_or_is_refused(n):
    items = list(range(n))
    for cuts in range(15):
        parts = cuts + 1
        if n % parts:
            with pytest.raises(ValueError, match=f"equal parts, got {cuts} for a sequence of length {n}"):
                split(items, cuts)
        else:
            found = list(split(items, cuts))
            assert found == [items[i * n // parts : (i + 1) * n // parts] for i in range(parts)]


def test_cut_points_are_where_slices_meet():
    letters = "abcdef"
    for cuts in ([2], [0], [6], [1, 1], [0, 3, 3, 6], [-2], [1, -1], [-4, -2], [2, 100], [-100, 2]):
        bounds = [None, *cuts, None]
        expected = [letters[a:b] for a, b in pairwise(bounds)]
        assert list(split(letters, cuts)) == expected
        assert list(split(letters, np.array(cuts))) == expected
        assert list(split(letters, iter(cuts))) == expected
    assert list(split(letters, [])) == [letters]


@pytest.mark.parametrize("cuts", [[2, 1], [-1, 2], [0, 3, 2, 5], [9, 8]])
def test_cut_points_out_of_order_are_refused(cuts):
    with pytest.raises(
        ValueError, match=r"edges must be in ascending order, got .* for a sequence of length 4"
    ):
        split("abcd", cuts)


def test_ranges_are_slices_and_may_overlap_and_leave_gaps():
    letters = "abcd"
    ranges = [(0, 3), (2, 4), (3, 1), (-2, 4), (7, 9), (4, 4), (1, 100), (-9, -3), (2, 2)]
    expected = [letters[start:stop] for start, stop in ranges]
    assert list(split(letters, ranges)) == expected
    assert list(split(letters, np.array(ranges))) == expected
    assert list(split(letters, map(list, ranges))) == expected


def test_an_empty_sequence_and_no_edges_are_legal():
    assert list(split([], 0)) == [[]]
    assert list(split([], 2)) == [[], [], []]
    assert list(split([], [])) == [[]]
    assert list(split([], [0, 5, 9])) == [[], [], [], []]
    assert list(split([], [(0, 3)])) == [[]]
    assert list(split("ab", np.zeros((0, 2), int))) == ["ab"]


@pytest.mark.parametrize(
    "source", ["abcd", b"abcd", [1, 2, 3, 4], (1, 2, 3, 4), range(4), bytearray(4), array("i", range(4))]
)
def test_a_part_is_the_slice_of_what_can_be_sliced(source):
    parts = split(source, [1, 3])
    assert list(parts) == [source[:1], source[1:3], source[3:]]
    assert type(parts[1]) is type(source)


def test_a_part_of_an_array_is_a_window_on_it():
    table = np.zeros((4, 2))
    part = split(table, 1)[1]
    part += 1
    assert table.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]
    assert isinstance(split(np.ma.array([1, 2], mask=[True, False]), 1)[0], np.ma.MaskedArray)


@pytest.mark.parametrize("make", [sk.view, NarrowSource, lambda items: sk.smap(str.upper, items)])
def test_a_part_of_anything_else_is_a_view_and_reads_nothing(make):
    source = make("abcd") if make is NarrowSource else make(NarrowSource("abcd"))
    parts = split(source, [1])
    assert all(isinstance(part, sk.View) for part in parts)
    assert [x.lower() for x in parts[1]] == ["b", "c", "d"]
    assert parts[1][-1].lower() == "d"
    assert [len(part) for part in split(ExplodingSource("abcd"), 3)] == [1, 1, 1, 1]


def test_assignment_is_one_to_one():
    items = [1, 2, 3, 4, 5]
    parts = split(items, [2, -1])
    parts[1] = iter("xy")
    assert items == [1, 2, "x", "y", 5]
    parts[::2] = [[0, 0], (9,)]
    assert items == [0, 0, "x", "y", 9]
    for value in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"split: assigned {len(value)} values"):
            parts[0] = value
    assert items == [0, 0, "x", "y", 9]


def test_assignment_goes_through_views_where_they_can_be_written():
    items = [1, 2, 3, 4]
    split(sk.view(items)[::-1], 1)[0] = "dc"
    assert items == [1, 2, "c", "d"]
    with pytest.raises(TypeError, match="smap does not support assignment"):
        split(sk.smap(abs, items), 1)[0] = [1, 2]
    with pytest.raises(TypeError, match="source: str does not support assignment"):
        split("abcd", 1)[0] = "xy"


def test_an_item_that_fails_is_located_through_its_part():
    parts = sk.smap(list, split(sk.smap(FailsAt(2), range(4)), 1))
    assert parts[0] == [0, 1]
    with pytest.raises(sk.EvaluationError, match=r"path: smap\[1\] → split\[1\] → smap\[2\]") as caught:
        parts[1]
    assert repr(caught.value.__cause__) == "ValueError('bad 2')"


def test_a_source_that_refuses_to_be_cut_is_named():
    class Torn(np.ndarray):
        def __getitem__(self, key):
            raise OSError("torn")

    with pytest.raises(sk.EvaluationError, match=r"split\[1\] failed: OSError: torn"):
        split(np.zeros(4).view(Torn), 1)[1]


def test_its_repr_shows_the_edges():
    assert repr(split("abcd", [1, 2])) == "split(<str of 4>, [1, 2])"
