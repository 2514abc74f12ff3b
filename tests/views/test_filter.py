"""What is special about `filter`: one scan, when it is needed, and the indices that it finds."""

import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import count

import cloudpickle
import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.sources import UnsizedSource

from ..helpers import FailsAt, Naturals, past_errors


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


def test_after_the_scan_only_what_is_asked_for_is_read():
    source = CountingSource(range(100))
    view = sk.filter(is_even, source)
    assert len(view) == 50
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
    received._predicate = None
    assert list(received) == [0, 2, 4]


def test_a_filter_of_a_sequence_without_length_has_none():
    view = sk.filter(is_even, UnsizedSource(range(7)))
    assert list(view) == [0, 2, 4, 6]
    assert [view[i] for i in range(4)] == [0, 2, 4, 6]
    with pytest.raises(TypeError, match="filter has no length"):
        len(view)
    with pytest.raises(IndexError):
        view[4]


@pytest.mark.parametrize("error", [ValueError, IndexError, StopIteration, KeyError])
def test_a_failing_function_is_reported_with_the_index_in_the_sequence(error):
    view = sk.filter(FailsAt(13, error=error), [11, 12, 13])
    for need in (len, list, lambda v: v[0]):
        with pytest.raises(
            sk.EvaluationError, match=r"filter\[2\] failed in predicate, for item 2 of the sequence"
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


def test_the_indices_of_a_filter_of_a_filter_are_those_of_the_inner_one():
    view = sk.filter(lambda x: x % 3 == 0, sk.filter(is_even, range(30)))
    assert list(view) == [0, 6, 12, 18, 24]
    assert view.indices.tolist() == [0, 3, 6, 9, 12]
    assert list(view[1:]) == [6, 12, 18, 24]


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


# -------------------------------------------------------------------- iterating while scanning


class Endless:
    """0, 1, 2, … without `len` and without end."""

    def __getitem__(self, i):
        return i


ENDLESS = [lambda: sk.uniter(itertools.count), Endless, Naturals, lambda: sk.cycle(range(10))]


def first(items, n):
    return list(itertools.islice(items, n))


@pytest.mark.parametrize("make", ENDLESS)
def test_a_filter_of_an_endless_sequence_streams(make):
    view = sk.filter(lambda x: x % 2, make())
    assert first(view, 4) == [1, 3, 5, 7]
    assert first(sk.smap(str, view), 2) == ["1", "3"]
    assert first(sk.random_map(lambda x, rng: x, view, 0), 2) == [1, 3]
    assert first(sk.batch(sk.smap(abs, view), 2), 2) == [[1, 3], [5, 7]]
    assert first(sk.window(view, 2), 2) == [[1, 3], [3, 5]]
    assert first(sk.filter(lambda x: x % 3 == 0, view), 2) == [3, 9]
    assert first(sk.debug(sk.monitor_throughput(view), lambda i, x: None), 2) == [1, 3]
    assert 7 in view
    assert view.index(5) == 2


@pytest.mark.parametrize("make", ENDLESS)
def test_items_and_bounded_slices_of_a_filter_of_an_endless_sequence_are_read_on_demand(make):
    view = sk.filter(lambda x: x % 2, make())
    assert [view[3], view[np.int64(4)], view[0]] == [7, 9, 1]
    assert list(view[1:4:2]) == [3, 7]
    assert list(view[0:0]) == []
    assert list(view.head(2)) == [1, 3]
    with pytest.raises(ValueError, match="head: n must be an int of at least 0"):
        view.head(-1)
    assert list(sk.smap(str, view).head(1)) == ["1"]
    above = sk.filter(lambda x: x > 1, sk.smap(abs, view))
    assert (above[1], list(above[:2])) == (5, [3, 5])
    odd = sk.smap(str, view)
    assert (odd[1], list(odd[1:3])) == ("3", ["3", "5"])
    assert (sk.batch(view, 2)[1], sk.window(view, 2)[1]) == ([5, 7], [3, 5])


def test_a_filter_of_an_unbounded_sequence_is_unbounded():
    view = sk.filter(is_even, Naturals())
    with pytest.raises(TypeError, match="filter has no length"):
        len(view)
    with pytest.raises(TypeError, match="filter: a sequence without a length cannot be scanned"):
        view.indices
    with sk.prefetch(view, 2) as ahead:
        assert first(ahead, 3) == [0, 2, 4]
    source = CountingSource(range(10))
    part = sk.filter(is_even, sk.cycle(source))[1:8:3]
    assert (len(part), source.reads) == (3, {})
    assert (list(part), part[-1]) == ([2, 8, 4], 4)
    failing = sk.filter(FailsAt(4), Naturals())
    with pytest.raises(sk.EvaluationError, match="in predicate, for item 4") as caught:
        failing[3]
    assert caught.value.inputs() == []
    assert [failing[i] for i in (0, 2, 4)] == [1, 3, 5]  # as in a loop, the item that fails has a place


def test_first_items_of_a_random_sequence_satisfy_the_predicate_in_each_epoch():
    view = sk.filter(is_even, sk.shuffle(range(40), seed=0))
    part = view.head(5)
    for epoch in range(3):
        assert list(part.at_epoch(epoch)) == list(view.at_epoch(epoch))[:5]


def test_a_loop_reads_only_as_far_as_it_goes():
    source, pred = CountingSource(range(10)), Counted(is_even)
    items = iter(sk.filter(pred, source))
    assert [next(items), next(items)] == [0, 2]
    assert pred.calls == [0, 1, 2]
    assert sum(source.reads.values()) == 3


EVALUATED_ONCE = {
    "for": lambda v: [x for x in v],  # noqa: C416
    "list": list,
    "tuple": tuple,
    "unpacked": lambda v: [*v],
    "sorted": sorted,
    "list of a map": lambda v: list(sk.smap(abs, v)),
    "list of batches": lambda v: [x for batch in list(sk.batch(v, 2)) for x in batch],
    "list of a filter": lambda v: list(sk.filter(lambda x: True, v)),
    "length while an iterator waits": lambda v: (lambda items: [len(v), *items][1:])(iter(v)),
    "length of the rest": lambda v: (lambda items: [next(items), *items, len(v)][:-1])(iter(v)),
    "max": lambda v: [max(v), *v][1:],
}


@pytest.mark.parametrize("read", EVALUATED_ONCE.values(), ids=EVALUATED_ONCE)
def test_every_item_is_evaluated_once(read):
    source, pred = CountingSource(range(10)), Counted(is_even)
    view = sk.filter(pred, source)
    assert list(read(view)) == [0, 2, 4, 6, 8]
    assert pred.calls == list(range(10))
    most = 2 if read is EVALUATED_ONCE["max"] else 1
    assert set(source.reads.values()) <= {1, most}


def test_a_completed_loop_is_the_scan():
    pred = Counted(is_even)
    view = sk.filter(pred, range(6))
    for _ in view:
        pass
    assert (len(view), list(view[::-1]), view.indices.tolist()) == (3, [4, 2, 0], [0, 2, 4])
    assert list(pickle.loads(pickle.dumps(sk.filter(abs, range(3))))) == [1, 2]
    assert len(pred.calls) == 6


def test_what_an_abandoned_loop_has_asked_is_not_asked_again():
    pred = Counted(is_even)
    view = sk.filter(pred, range(6))
    next(iter(view))
    assert len(view) == 3
    assert pred.calls == [0, 1, 2, 3, 4, 5]


def test_a_loop_continues_after_an_error_and_keeps_nothing():
    pred = Counted(FailsAt(3))
    view = sk.filter(pred, range(1, 6))
    found = past_errors(iter(view))
    assert [x if isinstance(x, int) else type(x) for x in found] == [1, 2, sk.EvaluationError, 4, 5]
    assert found[2].index == 2
    with pytest.raises(sk.EvaluationError, match="in predicate, for item 2"):
        len(view)
    broken = sk.filter(is_even, FailingSource(range(6), {0, 2}))
    kinds = [type(x) for x in past_errors(iter(broken))]
    assert kinds == [sk.EvaluationError, sk.EvaluationError, int]


@pytest.mark.parametrize("error", [StopIteration, IndexError])
def test_no_error_of_the_predicate_ends_a_loop_silently(error):
    found = past_errors(iter(sk.filter(FailsAt(3, error=error), range(1, 6))))
    assert [x for x in found if isinstance(x, int)] == [1, 2, 4, 5]
    assert len(found) == 5


def test_a_loop_that_begins_after_the_scan_does_not_scan_again():
    pred = Counted(is_even)
    view = sk.filter(pred, range(6))
    items = iter(view)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(len, view).result(20) == 3
    assert list(items) == [0, 2, 4]
    assert len(pred.calls) == 6


def test_threads_that_iterate_together_all_see_all_items():
    together = threading.Barrier(4)
    view = sk.filter(is_even, range(300))

    def read(number):
        together.wait(20)
        return list(view) if number % 2 else [x for x in view]  # noqa: C416

    with ThreadPoolExecutor(4) as pool:
        assert all(items == list(range(0, 300, 2)) for items in pool.map(read, range(4)))


def test_threads_that_read_an_unknown_sequence_by_index_agree():
    view = sk.filter(is_even, sk.uniter(lambda: iter(range(100))))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda i: view[i % 50], range(200))) == [i % 50 * 2 for i in range(200)]


@pytest.mark.parametrize("method", ["thread", "process"])
@pytest.mark.parametrize("make", [lambda items: items, lambda items: sk.uniter(lambda: items, size=20)])
def test_workers_above_get_the_items(method, make):
    view = sk.filter(is_even, make(list(range(20))))
    for above in (view, sk.batch(view, 3), sk.shuffle(view, seed=0)):
        with sk.prefetch(above, 2, method) as ahead:
            assert list(ahead) == list(above)
    with sk.prefetch(sk.filter(is_even, make(list(range(20)))), 2, method) as ahead:
        assert ahead[-1] == 18


def test_an_error_far_into_an_endless_sequence_is_located_without_a_scan():
    inner = sk.smap(FailsAt(3), sk.uniter(itertools.count))
    items = iter(sk.smap(abs, sk.filter(is_even, inner)))
    assert [next(items), next(items)] == [0, 2]
    with pytest.raises(sk.EvaluationError, match=r"smap\[3\] failed: ValueError: bad 3"):
        next(items)
    assert next(items) == 4


def test_items_are_gathered_while_their_indices_are_filtered():
    pred = Counted(is_even)
    items = iter(sk.gather(range(100, 200), sk.filter(pred, range(100))))
    assert [next(items), next(items)] == [100, 102]
    assert pred.calls == [0, 1, 2]


# -------------------------------------------------------------------- the first items


def every_third(calls):
    def predicate(x):
        calls.append(x)
        return x % 3 == 0

    return predicate


def spread(x):
    return [x] * (x % 3)


# A view of the first items, those items, and the items of the source that it needs.
HEADS = {
    "filter": (lambda x: x.head(2), [0, 3], 4),
    "of nothing": (lambda x: x.head(0), [], 0),
    "of a head": (lambda x: x.head(9).head(2), [0, 3], 4),
    "longer than a head": (lambda x: x.head(2).head(9), [0, 3], 4),
    "longer than all": (lambda x: x.head(99), [*range(0, 30, 3)], 30),
    "map": (lambda x: sk.smap(str, x).head(2), ["0", "3"], 4),
    "maps": (lambda x: sk.smap(str, sk.smap(abs, x)).head(2), ["0", "3"], 4),
    "deep maps": (lambda x: reduce(lambda v, _: sk.smap(abs, v), range(600), x).head(2), [0, 3], 4),
    "random map": (lambda x: sk.random_map(lambda i, rng: i, x, 0).head(2), [0, 3], 4),
    "batches": (lambda x: sk.batch(x, 2).head(2), [[0, 3], [6, 9]], 10),
    "batches of maps": (lambda x: sk.batch(sk.smap(abs, x), 2).head(1), [[0, 3]], 4),
    "flatten": (lambda x: sk.flatten(sk.smap(lambda i: [i, i], x)).head(3), [0, 0, 3], 4),
    "filter of a filter": (lambda x: sk.filter(bool, x).head(2), [3, 6], 7),
    "filter of a head": (lambda x: sk.filter(bool, x.head(2)).head(1), [3], 4),
    "slice of a head": (lambda x: x.head(5)[3:], [9, 12], 13),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("unsized", [False, True])
def test_the_first_items_are_scanned_for_as_far_as_they_need_it(name, unsized):
    make, expected, needed = HEADS[name]
    if unsized and name == "longer than all":
        return

    def fresh(calls):
        return make(sk.filter(every_third(calls), sk.uniter(count) if unsized else range(30)))

    for read in (list, lambda view: [*view], lambda view: [view[i] for i in range(len(expected))]):
        calls = []
        view = fresh(calls)
        assert not calls or "slice" in name
        assert read(view) == expected
        assert max(calls, default=-1) == needed - 1
        if read is list and not unsized and name not in ("filter of a filter", "slice of a head"):
            assert calls == list(range(needed))
        calls.clear()
        assert (len(view), list(view), view[-1:][:]._n) == (len(expected), expected, min(1, len(expected)))
        assert max(calls, default=-1) < needed
    calls.clear()
    assert next(iter(fresh(calls)), None) == (expected or [None])[0]
    assert list(pickle.loads(cloudpickle.dumps(fresh(calls)))) == expected


def test_the_first_items_follow_the_epoch():
    draws = sk.random_map(lambda x, rng: int(rng.integers(9)), range(50), seed=0)
    for view in (sk.filter(lambda x: x % 2, draws), sk.flatten(sk.smap(spread, draws))):
        first = view.head(5)
        for epoch in (0, 3, 1, 0):
            assert list(first.at_epoch(epoch)) == list(view.at_epoch(epoch))[:5]
            assert [first.at_epoch(epoch)[i] for i in range(5)] == list(view.at_epoch(epoch))[:5]


def test_first_items_that_fail_are_raised_and_the_others_follow():
    def fails(x):
        if x == 1:
            raise ValueError(x)
        return x % 2 == 0

    items = iter(sk.filter(fails, range(20)).head(3))
    assert next(items) == 0
    with pytest.raises(sk.EvaluationError, match="in predicate, for item 1 of the sequence"):
        next(items)
    assert list(items) == [2, 4]


def test_the_first_items_of_batches_read_no_other_batch():
    for n, expected, most in ((0, [], 0), (1, [0], 1), (3, [0, 1, 2], 2), (4, [0, 1, 2, 3], 2), (6, None, 3)):
        source = CountingSource([[0, 1], [2, 3], [4]])
        view = sk.unbatch(source, 2).head(n)
        assert source.reads.total() == 0
        assert list(view) == ([0, 1, 2, 3, 4] if expected is None else expected)
        assert source.reads.total() <= most + (expected is None)


def test_a_predicate_that_remembers_loses_nothing_when_a_loop_is_left():
    seen = set()
    view = sk.filter(lambda text: not (text in seen or seen.add(text)), ["a", "b", "a", "c", "b", "d"])
    assert next(iter(view)) == "a"
    early, late = iter(view), iter(view)
    assert [next(early), next(late), next(early)] == ["a", "a", "b"]
    assert list(view.head(2)) == ["a", "b"]
    assert list(view) == list(view) == ["a", "b", "c", "d"]
    assert [*early] == ["c", "d"]
