"""What is special about `epochs`: pass e is `at_epoch(e)`, and there is no seam between passes."""

import threading
from itertools import islice

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, FailingSource
from seqkit.testing.failing import Failure
from seqkit.views.epochs import epochs

from ..helpers import agree_after_errors


def train():
    return sk.random_map(lambda x, rng: (x, rng.random()), sk.shuffle(range(7), seed=3), seed=4)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_pass_e_is_the_sequence_at_epoch_e(n):
    view = epochs(train(), n)
    expected = [item for e in range(n) for item in train_at(e)]
    assert len(view) == 7 * n
    assert list(view) == [view[i] for i in range(7 * n)] == expected
    assert list(view._getmany(range(7 * n))) == expected
    assert list(reversed(view)) == expected[::-1]


def train_at(e, view=train()):  # noqa: B008
    return list(view.at_epoch(e))


def test_without_end_every_epoch_can_be_read_at_once():
    view = epochs(train())
    assert list(islice(view, 20)) == [item for e in range(3) for item in train_at(e)][:20]
    assert view[7 * 10**9 + 3] == train_at(10**9)[3]
    assert list(view[30:40]) == [*train_at(4)[2:], *train_at(5)[:5]]
    with pytest.raises(TypeError, match="epochs has no length"):
        len(view)


def test_a_shuffle_has_another_order_in_every_pass():
    view = epochs(sk.shuffle("abcdef", 1), 3)
    for e in range(3):
        assert list(view[6 * e : 6 * e + 6]) == list(sk.shuffle("abcdef", seed=1, epoch=e))
    assert len({tuple(view[6 * e : 6 * e + 6]) for e in range(3)}) == 3


def test_without_random_views_all_passes_are_equal():
    assert list(epochs("ab", 3)) == list("ababab")
    assert epochs("ab").at_epoch(5)[0] == "a"


@pytest.mark.parametrize(
    "plan", [range(3, 30), range(2, 33, 3), range(34, -1, -5), [0, 34, 7, 7], np.array([8, 6])], ids=str
)
@pytest.mark.parametrize("ahead", [False, True])
def test_every_plan_is_followed_across_passes(plan, ahead):
    expected = [train_at(i // 7)[i % 7] for i in plan]
    source = train()
    with sk.prefetch(source, 2) as node:
        view = epochs(node if ahead else source, 5)
        assert list(view._iter(plan)) == expected
        assert list(view._getmany(plan)) == expected


def test_a_node_above_works_ahead_into_the_next_pass():
    reached = threading.Event()

    def see(x):
        if x == (0, 1):
            reached.set()
        return x

    passes = sk.collate([epochs(sk.shuffle(range(4), seed=0), 2), [0] * 4 + [1] * 4])
    order = list(sk.shuffle(range(4), seed=0).at_epoch(1))
    named = sk.smap(lambda pair: see((order.index(pair[0]), pair[1])), passes)
    with sk.prefetch(named, 1, max_buffered=3, chunk_size=1) as node:
        items = iter(node)
        for _ in range(3):
            next(items)
        assert reached.wait(20)  # with one item of the first pass still to come
        assert len(list(items)) == 5


@pytest.mark.parametrize("method", ["thread", "process"])
def test_workers_compute_the_same_passes(method):
    with sk.prefetch(sk.batch(epochs(train()), 4), 2, method) as node:
        found = [item for batch in islice(node, 9) for item in batch]
    assert found == [item for e in range(6) for item in train_at(e)][:36]


def test_items_are_read_when_they_are_asked_for():
    source = CountingSource(range(5))
    view = epochs(sk.shuffle(source, 0))
    assert not source.reads
    view[12], view[3]
    assert sum(source.reads.values()) == 2


def test_the_view_of_the_last_pass_is_kept():
    view = epochs(train())
    assert view._source(5) is view._source(5)


def test_at_epoch_of_a_bounded_view_continues_after_its_passes():
    view = epochs(train(), 2)
    assert list(view.at_epoch(0)) == list(view)
    assert list(view.at_epoch(3)) == [*train_at(6), *train_at(7)]
    assert list(view.at_epoch(3).at_epoch(1)) == [*train_at(2), *train_at(3)]
    assert (
        repr(epochs(sk.shuffle("ab", 0), 2).at_epoch(3)) == "epochs(shuffle(<str of 2>, seed=0), 2, first=6)"
    )


def test_at_epoch_of_an_unbounded_view_starts_at_that_epoch():
    view = epochs(train())
    assert list(islice(view.at_epoch(4), 8)) == [*train_at(4), train_at(5)[0]]
    assert list(islice(view.at_epoch(4).at_epoch(1), 7)) == train_at(1)


def test_passes_of_passes_are_all_different():
    view = epochs(epochs(train(), 2), 2)
    assert list(view) == [item for e in range(4) for item in train_at(e)]


def test_a_failing_item_fails_alone_in_every_pass():
    view = epochs(sk.shuffle(FailingSource(range(4), {1}), 0), 3)
    found = agree_after_errors(view)
    assert sum(isinstance(item, Failure) for item in found) == 3


def test_errors_name_the_item_of_the_passes():
    view = epochs(sk.shuffle(FailingSource(range(4), range(4)), 0), 3)
    with pytest.raises(sk.EvaluationError, match=r"path: epochs\[9\] → shuffle\[1\] → source\["):
        view[9]


def test_passes_of_unequal_length_are_an_error_and_not_a_shift():
    noisy = sk.random_map(lambda x, rng: rng.integers(2), range(9), seed=0)
    view = epochs(sk.filter(bool, noisy), 4)
    lengths = [len(sk.filter(bool, noisy).at_epoch(e)) for e in range(4)]
    other = next(e for e in range(4) if lengths[e] != lengths[0])
    message = rf"pass {other} has {lengths[other]} items, expected {lengths[0]}"
    with pytest.raises(sk.EvaluationError, match=message):
        view[other * lengths[0]]
    with pytest.raises(sk.EvaluationError, match=message):
        list(view)
    for outcome, e in zip(agree_after_errors(view), np.repeat(range(4), lengths[0]), strict=True):
        assert isinstance(outcome, Failure) == (lengths[e] != lengths[0])


def test_writing_goes_to_the_place_in_that_pass():
    items = [1, 2, 3]
    view = epochs(sk.shuffle(items, 0), 2)
    view[4] = "x"
    assert items[sk.shuffle(range(3), 0, 1)[1]] == "x"


def test_empty_sequences_are_legal_where_they_end():
    assert list(epochs([], 3)) == []
    assert list(epochs(sk.shuffle([], 0), 3)) == []
    assert epochs([], 0)._getmany([]) == []
    with pytest.raises(ValueError, match="epochs: the sequence is empty, so n must be an int"):
        epochs([])
