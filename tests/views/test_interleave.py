"""What is special about `interleave`: whose turn it is, also where sequences end or never do."""

from itertools import islice
from random import Random

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.failing import by_index, by_iteration
from seqkit.testing.sources import UnsizedSource
from seqkit.views.arange import arange
from seqkit.views.cycle import cycle
from seqkit.views.interleave import interleave
from seqkit.views.repeat import repeat


def in_turn(lists):
    """Return the items in turn, by the plainest loop there is."""
    longest = max(map(len, lists), default=0)
    return [items[r] for r in range(longest) for items in lists if r < len(items)]


def labelled(lengths):
    """Return sequences of these lengths in which every item tells its place."""
    return [[(which, r) for r in range(n)] for which, n in enumerate(lengths)]


def random_lengths():
    random = Random(0)
    for number in range(60):
        yield [random.choice([0, 1, 1, 2, 3, 5, 8, 13]) for _ in range(number % 9)]


@pytest.mark.parametrize("lengths", list(random_lengths()), ids=str)
def test_items_come_in_turn_and_exhausted_sequences_drop_out(lengths):
    expected = in_turn(labelled(lengths))
    view = interleave(*labelled(lengths))
    assert len(view) == len(expected)
    assert list(view) == expected
    assert [view[i] for i in range(len(view))] == expected
    assert list(view._getmany(range(len(view)))) == expected
    assert list(reversed(view)) == expected[::-1]
    for start in range(len(view)):
        assert list(view[start : start + 4]) == expected[start : start + 4]


def test_no_sequences_at_all_make_an_empty_view():
    view = interleave()
    assert len(view) == 0
    assert list(view) == []


def test_endless_sequences_are_indexed_by_arithmetic_behind_those_that_end():
    view = interleave("abc", repeat(0), range(1), cycle([1, 2]))
    expected = ["a", 0, 0, 1, "b", 0, 2, "c", 0, 1, 0, 2, 0, 1, 0, 2]
    assert [view[i] for i in range(16)] == expected
    assert list(islice(view, 16)) == expected
    assert list(view[3:16:2]) == expected[3::2]
    assert view[10 + 2 * 10**12] == 0
    assert view[11 + 2 * 10**12] == 2
    with pytest.raises(TypeError, match="interleave has no length: it never ends"):
        len(view)
    assert list(view[2:].head(5)) == expected[2:7]


def test_assignment_goes_to_the_sequence_whose_turn_it_is():
    first, second = [1, 2, 3], [10]
    view = interleave(first, second)
    view[1] = "b"
    view[-2:] = ["y", "z"]
    assert (first, second) == ([1, "y", "z"], ["b"])
    endless = interleave(first, cycle(second))
    endless[5] = "B"
    endless[2:5:2] = "YZ"
    assert (first, second) == ([1, "Y", "Z"], ["B"])


def test_sequences_that_end_anywhere_take_turns_until_they_end():
    for lists in (["ab", "xyz"], ["abcd", "x"], ["", "xy"], ["abc", ""], ["", ""]):
        for sources in ([UnsizedSource(lists[0]), lists[1]], [lists[0], UnsizedSource(lists[1])]):
            view, expected = interleave(*sources), list(interleave(*lists))
            assert list(view) == expected
            assert [view[i] for i in reversed(range(len(expected)))] == expected[::-1]
            assert list(view.head(9)) == expected
            with pytest.raises(IndexError):
                view[len(expected)]


def test_a_sequence_that_ends_anywhere_is_read_once_by_iteration_and_by_index_in_order():
    for read in (list, lambda view: [view[i] for i in range(5)]):
        first, second = sk.uniter(iter("abc")), sk.uniter(iter("xy"))  # which cannot be read twice
        assert read(interleave(first, second)) == ["a", "x", "b", "y", "c"]


def test_an_unknown_end_and_items_that_fail_are_told_apart():
    failing = FailingSource(range(3), {1, 2})
    unsized = UnsizedSource([0, 1, 2, 3])
    view = interleave(sk.smap(failing.__getitem__, UnsizedSource(range(3))), unsized)
    found = by_iteration(iter(view))
    assert [item for item in found if isinstance(item, int)] == [0, 0, 1, 2, 3]
    assert len(found) == 7


def test_a_failing_item_fails_alone():
    sources = [FailingSource(range(n), failing) for n, failing in ((4, {1, 2}), (2, {0, 1}), (3, {2}))]
    view = interleave(*sources)
    expected = by_index(view)
    assert by_iteration(iter(view)) == expected
    assert by_iteration(view._iter(range(2, 8))) == expected[2:8]
    assert [i for i, item in enumerate(expected) if not isinstance(item, int)] == [1, 3, 4, 6, 7]


def test_only_the_sequence_whose_turn_it_is_is_read():
    sources = [CountingSource("ab"), ExplodingSource("c")]
    assert interleave(*sources)[2] == "b"
    assert sources[0].reads == {1: 1}


def test_a_batch_asks_every_sequence_once():
    class Asked(sk.View):
        def __init__(self, n):
            super().__init__((), n)
            self.batches = []

        def _get(self, i):
            return i

        def _getmany(self, indices):
            self.batches.append(list(indices))
            return self.batches[-1]

    first, second = Asked(6), Asked(2)
    assert list(interleave(first, second)._getmany(np.array([7, 0, 3, 2, 0]))) == [5, 0, 1, 1, 0]
    assert (first.batches, second.batches) == ([[5, 0, 1, 0]], [[1]])


@pytest.mark.parametrize("plan", [range(9), range(2, 7), range(8, -1, -1), [3, 3, 0, 8]], ids=str)
def test_sequences_that_are_read_ahead_learn_their_share_of_every_plan(plan):
    letters, numbers = sk.prefetch("abcdef", 0), sk.prefetch(range(3), 0)
    with letters, numbers:
        view = interleave(letters, numbers)
        assert [str(item) for item in view._iter(plan)] == ["a0b1c2def"[i] for i in plan]


def test_thousands_of_sequences_of_all_lengths_stay_small():
    lengths = list(range(1, 2001))
    view = interleave(*map(arange, lengths))
    assert len(view) == sum(lengths)
    assert view[0] == 0
    assert view[-1] == 1999
    assert list(view[-4:]) == [1997, 1998, 1998, 1999]
    assert list(view[2000 + 1999 - 1 :][:3]) == [1, 2, 2]


def test_its_repr_shows_the_sequences():
    assert repr(interleave("ab", [1])) == "interleave(<str of 2>, <list of 1>)"


LISTS = [[[1, 2], [3]], ([1, 2], range(2)), [np.arange(2), sk.view("ab")], ["ab", (1, 2)], ["ab", "cd"]]


@pytest.mark.parametrize("given", LISTS, ids=repr)
def test_a_list_of_sequences_is_taken_as_by_other_joining_functions(given):
    assert list(interleave(given)) == list(interleave(*given))
    assert len(interleave(given)) == len(sk.concatenate(given))
    assert len(interleave(sk.view(given))) == 2


def test_a_list_of_samples_is_one_sequence():
    for samples in ([1, 2], [(1, "a"), (2, "b")], [{"x": 1}, {"x": 2}], [None], []):
        assert list(interleave(samples)) == samples


def test_joining_functions_agree_about_lists_of_sequences():
    a, b = [1, 2], [3, 4]
    for join in (sk.concatenate, sk.collate, sk.mix):
        assert len(join([a, b])) > 0
        with pytest.raises(TypeError):
            join(a, b)
