"""What is special about `filter`: one scan, when it is needed, and the indices that it finds."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.sources import UnsizedSource

from .helpers import FailsAt, Naturals, says


def is_even(x):
    return x % 2 == 0


class Counted:
    """A function that remembers what it was called with."""

    def __init__(self, f):
        self.f = f
        self.calls = []

    def __call__(self, x):
        self.calls.append(x)
        return self.f(x)


def test_the_items_for_which_it_is_true_keep_their_order_and_indices():
    view = sk.filter(is_even, [3, 4, 8, 1, 6])
    assert list(view) == [4, 8, 6]
    assert view.indices.tolist() == [1, 2, 4]
    assert list(sk.filter(str.isupper, "aBcD")) == ["B", "D"]


@pytest.mark.parametrize("yes", [1, "x", np.True_, [0], np.array([2])])
@pytest.mark.parametrize("no", [0, "", np.False_, [], None])
def test_what_the_function_returns_counts_as_true_or_false(yes, no):
    assert list(sk.filter({"a": yes, "b": no}.get, "aba")) == ["a", "a"]


def test_nothing_is_evaluated_before_it_is_needed():
    view = sk.filter(is_even, ExplodingSource([1, 2]))
    assert repr(view) == "filter(is_even, <ExplodingSource of 2>)"
    again = sk.filter(is_even, sk.view(view))
    pickle.loads(pickle.dumps(again))
    assert "length not known yet" in sk.explain(again)
    with pytest.raises(sk.EvaluationError, match="item 0 was read"):
        len(again)


@pytest.mark.parametrize(
    "need", [len, list, lambda v: v[0], lambda v: v[-1:], lambda v: v.indices, np.asarray]
)
def test_the_first_need_scans_and_later_ones_do_not(need):
    pred = Counted(is_even)
    view = sk.filter(pred, range(6))
    assert not pred.calls
    need(view)
    assert pred.calls == [0, 1, 2, 3, 4, 5]
    need(view)
    assert list(view[::-1]) == [4, 2, 0]
    assert len(pred.calls) == 6


def test_an_eager_scan_is_finished_when_the_view_is_returned():
    source = CountingSource(range(4))
    view = sk.filter(is_even, source, eager=True)
    assert source.reads == dict.fromkeys(range(4), 1)
    assert len(view) == 2
    assert sum(source.reads.values()) == 4


def test_after_the_scan_only_what_is_asked_for_is_read():
    source = CountingSource(range(100))
    view = sk.filter(is_even, source, eager=True)
    source.reads.clear()
    assert view[-1] == 98
    assert list(view[10:12]) == [20, 22]
    assert list(sk.batch(view, 4)[1]) == [8, 10, 12, 14]
    assert source.reads == dict.fromkeys([98, 20, 22, 8, 10, 12, 14], 1)


@pytest.mark.parametrize(("n", "kind"), [(0, "u1"), (256, "u1"), (257, "u2"), (65_536, "u2"), (65_537, "u4")])
def test_indices_take_as_little_memory_as_the_length_allows(n, kind):
    view = sk.filter(lambda x: x >= n - 2, range(n))
    assert view.indices.dtype == kind
    assert list(view) == list(range(n))[-2:]
    with pytest.raises(ValueError, match="read-only"):
        view.indices[:] = 0


def test_small_indices_do_not_overflow_on_their_way_down():
    nested = sk.concatenate([range(100), sk.concatenate([sk.smap(abs, range(100, 200)), range(200, 256)])])
    view = sk.filter(is_even, sk.shuffle(sk.batch(nested, 1, collate_fn=sum), seed=0))
    assert sorted(view) == list(range(0, 256, 2))
    for above in (sk.batch(view, 7), sk.batch(sk.concatenate([range(200), view]), 9)[-15:]):
        assert {x for row in above for x in row} >= set(range(0, 256, 2))


def test_threads_that_need_it_together_share_one_scan():
    pred, together = Counted(is_even), threading.Barrier(4)
    view = sk.filter(pred, range(500))

    def read(_):
        together.wait(20)
        return view[7], len(view)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(read, range(4))) == {(14, 250)}
    assert len(pred.calls) == 500


def test_a_prefetch_node_beneath_does_the_scan_in_its_workers():
    def where(x):
        return x, threading.get_ident()

    workers = set()

    def pred(item):
        workers.add(item[1])
        return is_even(item[0])

    with sk.prefetch(sk.smap(where, range(50)), 2) as ahead:
        view = sk.filter(pred, ahead)
        assert [x for x, _ in view] == list(range(0, 50, 2))
    assert threading.get_ident() not in workers


def test_a_scan_in_processes_gives_the_same_items():
    with sk.prefetch(sk.smap(lambda x: x * 3, range(40)), 2, "process") as ahead:
        assert list(sk.filter(is_even, ahead)) == [x * 3 for x in range(0, 40, 2)]


def test_a_prefetch_above_sends_the_indices_and_not_the_function():
    pred = Counted(is_even)
    with sk.prefetch(sk.filter(pred, range(40)), 2, "process") as ahead:
        assert list(ahead) == list(range(0, 40, 2))
    assert pred.calls == list(range(40))


def test_a_pickle_has_the_indices_once_they_are_known():
    view = sk.filter(is_even, range(6))
    len(view)
    received = pickle.loads(pickle.dumps(view))
    received._pred = None
    assert list(received) == [0, 2, 4]


def test_progress_is_reported_after_every_item():
    told = []
    view = sk.filter(is_even, range(3), progress=lambda done, total: told.append((done, total)))
    assert told == []
    len(view)
    assert told == [(1, 3), (2, 3), (3, 3)]
    len(sk.filter(is_even, UnsizedSource(range(2)), progress=lambda done, total: told.append((done, total))))
    assert told[3:] == [(1, None), (2, None)]


def test_copies_report_no_progress():
    told = []
    view = sk.filter(is_even, range(4), progress=told.append)
    assert list(copy.copy(view)) == list(copy.deepcopy(view)) == [0, 2]
    assert not told


def test_a_scan_that_progress_interrupted_starts_again():
    pred = Counted(is_even)

    def progress(done, total):
        if len(pred.calls) == 2:
            raise TimeoutError("enough")

    view = sk.filter(pred, range(4), progress=progress)
    with says(TimeoutError, "enough"):
        len(view)
    assert len(view) == 2
    assert pred.calls == [0, 1, 0, 1, 2, 3]


def test_the_end_of_a_sequence_without_length_is_found():
    view = sk.filter(is_even, UnsizedSource(range(7)))
    assert list(view) == [0, 2, 4, 6]
    assert len(view) == 4
    assert view[-1] == 6
    with pytest.raises(IndexError):
        view[4]


@pytest.mark.parametrize("error", [ValueError, IndexError, StopIteration, KeyError])
def test_a_failing_function_is_reported_with_the_index_in_the_sequence(error):
    view = sk.filter(FailsAt(13, error=error), [11, 12, 13])
    for need in (len, list, lambda v: v[0]):
        with pytest.raises(
            sk.EvaluationError, match=r"filter\[2\] failed in pred, for item 2 of the sequence"
        ) as caught:
            need(view)
        assert caught.value.view is view
        assert caught.value.index == 2
        assert type(caught.value.__cause__) is error
    with sk.errstate("passthrough"), pytest.raises(error, match="bad 13"):
        len(view)


def test_an_item_that_cannot_be_read_is_reported_as_such():
    with pytest.raises(sk.EvaluationError, match=r"source\[1\] failed: ValueError: item 1"):
        len(sk.filter(is_even, FailingSource([2, 3], {1})))


def test_a_filter_of_a_filter_is_one_selection():
    view = sk.filter(lambda x: x % 3 == 0, sk.filter(is_even, range(30)))
    assert list(view) == [0, 6, 12, 18, 24]
    assert view.indices.tolist() == [0, 3, 6, 9, 12]
    assert repr(view[1:]) == "gather(<range of 30>, <4 indices>)"


def test_indices_select_from_other_sequences_too():
    labels, images = ["cat", "dog", "cat"], ["A", "B", "C"]
    assert list(sk.gather(images, sk.filter("cat".__eq__, labels).indices)) == ["A", "C"]


def test_writing_goes_through_and_changes_no_selection():
    items = [1, 2, 3, 4]
    view = sk.filter(is_even, items)
    view[:] = [5, 7]
    assert items == [1, 5, 3, 7]
    assert list(view) == [5, 7]


def test_what_is_random_beneath_is_scanned_anew_in_every_epoch():
    order = sk.shuffle(range(20), seed=0)
    view = sk.filter(is_even, order)
    for epoch in (0, 1, 5):
        assert list(view.at_epoch(epoch)) == [x for x in order.at_epoch(epoch) if is_even(x)]
    fixed = sk.filter(is_even, range(20))
    assert fixed.at_epoch(3) is fixed


def test_unfit_arguments_are_refused():
    with says(TypeError, "filter: pred must be callable, got None"):
        sk.filter(None, [1])
    with says(TypeError, "filter: progress must be callable or None, got True"):
        sk.filter(is_even, [1], progress=True)
    with says(TypeError, "filter: the sequence needs an end, and has none: it never ends"):
        sk.filter(is_even, Naturals())
    with pytest.raises(TypeError, match=r"^filter: a sequence needs \[i\]"):
        sk.filter(is_even, 5)


def test_eager_must_be_a_bool():
    with says(TypeError, "filter: eager must be a bool, got 'no'"):
        sk.filter(abs, [1], eager="no")
