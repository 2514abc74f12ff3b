"""What is special about `flatten`: offsets of any lengths, known or found out by one scan."""

import pickle
from collections import Counter

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.failing import Failure, by_index, by_iteration
from seqkit.testing.sources import UnsizedSource
from seqkit.views.flatten import flatten

from .helpers import FailsAt, Interrupted, Naturals, agree_after_errors, costs_one_item, says

NESTED = [["a", "b"], [], ("c",), "de", [], np.array(["f"]), sk.view("gh")[::-1], []]
FLAT = list("abcdefhg")


def test_the_items_of_every_kind_of_sequence_follow_each_other():
    view = flatten(NESTED)
    assert len(view) == 8
    assert list(view) == [view[i] for i in range(8)] == FLAT
    assert list(view[5:1:-1]) == FLAT[5:1:-1]
    assert list(view._getmany([7, 0, 0, 3])) == ["g", "a", "a", "d"]


@pytest.mark.parametrize("nested", [[], [[]], [[], [], []]])
def test_nothing_and_empty_sequences_make_an_empty_view(nested):
    assert list(flatten(nested)) == []
    assert len(flatten(nested, [0] * len(nested))) == 0


def test_batches_and_windows_are_undone():
    for n in range(8):
        assert list(flatten(sk.batch(range(n), 3))) == list(range(n))
    assert list(flatten(flatten([[[1], [2, 3]], [], [[4]]]))) == [1, 2, 3, 4]


@pytest.mark.parametrize("lengths", [[2, 0, 1, 2, 0, 1, 2, 0], np.array([2, 0, 1, 2, 0, 1, 2, 0], np.uint8)])
def test_known_lengths_save_the_scan(lengths):
    source = CountingSource(NESTED)
    view = flatten(source, lengths)
    assert len(view) == 8
    assert not source.reads
    assert view[2] == "c"
    assert source.reads == {2: 1}
    assert list(flatten(NESTED, iter(lengths))) == FLAT


def test_the_scan_waits_until_it_is_needed_and_is_done_once():
    source = CountingSource(NESTED)
    view = flatten(source)
    outer = flatten(sk.view(view), [1] * 8)
    assert not source.reads
    assert "length not known yet" in sk.explain(view)
    assert len(view) == 8
    assert source.reads == Counter(range(8))
    assert len(view) == len(outer) == 8
    assert source.reads == Counter(range(8))
    assert len(pickle.loads(pickle.dumps(view))._found.get(None)) == 8


def test_in_order_every_sequence_is_read_once_and_empty_ones_never():
    source = CountingSource(NESTED)
    view = flatten(source, [2, 0, 1, 2, 0, 1, 2, 0])
    for read in (list, lambda v: list(reversed(v)), lambda v: list(v[1:]), lambda v: sk.batch(v, 100)[0]):
        source.reads.clear()
        read(view)
        assert source.reads == Counter([0, 2, 3, 5, 6])
    source.reads.clear()
    assert list(view[3:6]) == ["d", "e", "f"]
    assert source.reads == Counter([3, 5])


def test_a_shuffle_above_reads_what_it_must():
    source = CountingSource(NESTED)
    view = sk.shuffle(flatten(source, [2, 0, 1, 2, 0, 1, 2, 0]), seed=0)
    assert sorted(view) == sorted(FLAT)
    assert sum(source.reads.values()) <= 8


@pytest.mark.parametrize("lengths", [[2, 2], [3, 1], [1, 2]])
def test_a_sequence_of_another_length_fails_for_its_items(lengths):
    view = flatten([[1, 2], [3]], lengths)
    bad = [which for which, size in enumerate([2, 1]) if lengths[which] != size]
    found = by_index(view)
    assert len(found) == sum(lengths)
    assert by_iteration(iter(view)) == found
    for i, item in enumerate(found):
        which = 0 if i < lengths[0] else 1
        assert isinstance(item, Failure) == (which in bad)
    with pytest.raises(
        sk.EvaluationError, match=f"ValueError: flatten: sequence {bad[0]} has .* items, expected"
    ):
        list(view)


@pytest.mark.parametrize("failing", [{0}, {1}, {2, 3}, {0, 1, 2, 3, 4}], ids=str)
def test_a_sequence_that_fails_fails_its_own_items_only(failing):
    rows = [[1, 2, 3], [], [4], [5, 6], [7]]
    view = flatten(FailingSource(rows, failing), [3, 0, 1, 2, 1])
    found = agree_after_errors(view)
    expected = [None if which in failing else item for which, row in enumerate(rows) for item in row]
    assert [None if isinstance(item, Failure) else item for item in found] == expected


@pytest.mark.parametrize("at", [0, 1, 3])
def test_an_interrupt_loses_only_its_item_and_shifts_none(at):
    view = flatten(Interrupted(sk.view(["aa", "bbb", "c", "dd"]), at), [2, 3, 1, 2])
    for plan in (range(8), [7, 6, 0, 1, 2, 5]):
        assert costs_one_item(view, plan)


def test_a_failing_item_fails_alone():
    inner = sk.smap(FailsAt(2), [1, 2, 3])
    view = flatten([inner, [4]])
    assert [isinstance(item, Failure) for item in agree_after_errors(view)] == [False, True, False, False]
    with pytest.raises(sk.EvaluationError, match=r"smap\[1\] failed: ValueError: bad 2"):
        view[1]


@pytest.mark.parametrize("bad", [5, iter([1]), None])
def test_what_has_no_length_fails_the_scan_with_its_index(bad):
    view = flatten([[1], bad])
    with pytest.raises(
        sk.EvaluationError, match=r"flatten\[1\] failed measuring item 1 of the sequence: TypeError"
    ):
        len(view)


def test_a_sequence_without_length_is_scanned_to_its_end():
    view = flatten(UnsizedSource([[1, 2], [], [3]]))
    assert list(view) == [1, 2, 3]
    assert view[-1] == 3
    assert list(flatten(UnsizedSource([[1, 2], [], [3]]), [2, 0])) == [1, 2]


def test_lengths_for_missing_sequences_are_errors_and_not_the_end():
    view = flatten(UnsizedSource(["ab", "c"]), [2, 1, 2])
    assert len(view) == 5
    found = agree_after_errors(view)
    assert found[:3] == ["a", "b", "c"]
    assert all(item.kind is sk.EvaluationError for item in found[3:])
    assert list(sk.smap(str, view[:3])) == ["a", "b", "c"]
    with pytest.raises(sk.EvaluationError, match=r"flatten\[3\] failed: EndOfSequence"):
        view._getmany([0, 3])


def test_known_lengths_give_an_endless_sequence_an_end():
    view = flatten(sk.smap(lambda x: [x] * x, Naturals()), [0, 1, 2, 3])
    assert list(view) == [1, 2, 2, 3, 3, 3]


def test_lengths_that_are_a_view_follow_a_shuffle_from_epoch_to_epoch():
    files, sizes = ["a", "bc", "def", ""], [1, 2, 3, 0]
    source = CountingSource(files)
    view = flatten(sk.shuffle(source, seed=0), sk.shuffle(sizes, seed=0))
    for epoch in range(4):
        keyed = view.at_epoch(epoch)
        assert len(keyed) == 6
        assert not source.reads
        assert "".join(keyed) == "".join(sk.shuffle(files, seed=0, epoch=epoch))
        source.reads.clear()
    assert repr(view) == "flatten(shuffle(<CountingSource of 4>, seed=0), shuffle(<list of 4>, seed=0))"


def test_lengths_that_are_a_view_are_read_when_they_are_needed():
    view = flatten(["ab"], sk.view(ExplodingSource([2])))
    with pytest.raises(sk.EvaluationError, match="item 0 was read"):
        len(view)
    for bad, kind in ((-1, ValueError), ("2", TypeError)):
        with pytest.raises(sk.EvaluationError, match=r"flatten: lengths\[0\] must be") as caught:
            len(flatten(["ab"], sk.view([bad])))
        assert type(caught.value.__cause__) is kind


@pytest.mark.parametrize("method", ["inline", "thread"])
def test_a_prefetch_below_receives_the_plan(method):
    source = CountingSource([[x] * (x % 3) for x in range(20)])
    expected = [x for x in range(20) for _ in range(x % 3)]
    with sk.prefetch(source, 2, method) as ahead:
        view = flatten(ahead, [x % 3 for x in range(20)])
        for plan in (range(len(expected)), range(3, 9), range(18, -1, -2), [3, 3, 4, 0], np.array([1, 0])):
            source.reads.clear()
            assert list(view._iter(plan)) == [expected[i] for i in plan]
            assert not any(source.reads[x] for x in range(0, 20, 3))


def test_unfit_arguments_are_refused():
    with says(ValueError, "flatten: lengths must be as many as the sequences, 2, got 1"):
        flatten(["a", "b"], [1])
    with says(ValueError, "flatten: lengths[1] must be an int of at least 0, got -1"):
        flatten(["a", "b"], [1, -1])
    with says(TypeError, "flatten: lengths[0] must be an int of at least 0, got 1.0"):
        flatten(["a"], [1.0])
    for lengths in (3, "12"):
        with pytest.raises(TypeError, match="flatten: lengths must be a sequence of ints, got"):
            flatten(["a"], lengths)
    with pytest.raises(TypeError, match="flatten: lengths must be a sequence with a length, got"):
        flatten(["a"], Naturals())
    with says(TypeError, "flatten: a sequence that never ends needs lengths, got None"):
        flatten(sk.smap(str, Naturals()))
    with says(TypeError, "flatten does not support assignment"):
        flatten([[1]])[0] = 2
