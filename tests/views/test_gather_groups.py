"""What is special about `gather_groups`: groups of indices and of rows, checked when they are read."""

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, FailingSource, UnsizedSource
from seqkit.testing.failing import Failure, by_index, by_iteration
from seqkit.views.gather_groups import gather_groups

WORDS = ["alpha", "be", "gamma", "d"]


@pytest.mark.parametrize(
    "groups",
    [
        [[0, 3], [1], []],
        [(0, 3), (1,), ()],
        [np.array([0, 3], np.uint8), np.array([1]), np.empty(0)],
        sk.smap(list, [(0, 3), (1,), ()]),
    ],
)
def test_groups_of_indices_are_sequences_of_any_kind(groups):
    assert list(gather_groups(WORDS, groups)) == [["alpha", "d"], ["be"], []]


def test_rows_of_an_array_of_groups_are_groups():
    assert list(gather_groups("abcd", np.array([[0, 3], [2, 1]]))) == [["a", "d"], ["c", "b"]]
    assert list(gather_groups(WORDS, np.array([[[0, 1, 3], [2, 0, 2]]]))) == [["lp", "ga"]]


def test_rows_cut_arrays_lists_and_the_values_of_dicts():
    documents = [
        {"tokens": np.arange(5), "mask": [1, 2, 3, 4, 5]},
        {"tokens": np.arange(3), "mask": [6, 7, 8]},
    ]
    (first, second), (third,) = gather_groups(documents, [[(0, 1, 3), (1, 0, 3)], [(0, 3, 5)]])
    assert (first["tokens"].tolist(), first["mask"]) == ([1, 2], [2, 3])
    assert (second["tokens"].tolist(), second["mask"]) == ([0, 1, 2], [6, 7, 8])
    assert (third["tokens"].tolist(), third["mask"]) == ([3, 4], [4, 5])


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([0, 4], r"groups\[1\] has index 4, outside \[0, 4\)"),
        ([-1], r"groups\[1\] has index -1, outside \[0, 4\)"),
        ([(4, 0, 1)], r"groups\[1\] has index 4, outside \[0, 4\)"),
    ],
)
def test_an_index_out_of_range_fails_when_it_is_read(group, message):
    for source in (WORDS, sk.prefetch(WORDS, 0)):
        view = gather_groups(source, [[0], group, [3]])
        assert view[2] == ["d"]
        with pytest.raises(IndexError, match=message):
            view[1]
        found = by_iteration(iter(view))
        assert [found[0], found[2]] == [["alpha"], ["d"]]
        assert isinstance(found[1], Failure)


@pytest.mark.parametrize("group", [[0.5], [(0, 1)], ["ab"], [[0], [1, 2]], 3, None, [True], [[(0, 1, 2)]]])
def test_a_group_of_other_things_is_refused_when_it_is_read(group):
    with pytest.raises(
        TypeError, match=r"gather_groups: groups\[0\] must be ints or rows \(index, start, stop\)"
    ):
        gather_groups(WORDS, [group])[0]


def test_an_item_that_is_too_short_for_its_row_is_an_error():
    view = gather_groups(WORDS, [[(0, 0, 5)], [(1, 0, 3)]])
    assert view[0] == ["alpha"]
    with pytest.raises(
        sk.EvaluationError, match=r"gather_groups\[1\].*an item of length 2 has no part \[0:3\]"
    ):
        view[1]


def test_the_items_of_a_group_are_read_at_once():
    calls = []

    class Batched:
        def __len__(self):
            return 9

        def __getitem__(self, i):
            raise AssertionError

        def __getitems__(self, indices):
            calls.append(indices)
            return list(indices)

    assert gather_groups(Batched(), [[3, 1, 3], [2]])[0] == [3, 1, 3]
    assert calls == [[3, 1, 3]]


def test_groups_of_an_unknown_number_are_iterated():
    view = gather_groups("abc", sk.uniter(lambda: iter([[0, 1], [2]])))
    assert list(view) == [["a", "b"], ["c"]]
    with pytest.raises(TypeError, match="has no length"):
        len(view)


def test_a_sequence_may_be_endless_but_needs_a_length():
    assert gather_groups(sk.cycle("ab"), [[0, 10**9 + 1]])[0] == ["a", "b"]
    with pytest.raises(TypeError, match="gather_groups: the sequence needs a length"):
        gather_groups(UnsizedSource("ab"), [[0]])


def test_a_sampler_of_batches_gives_the_groups():
    sampler = sk.TokenBudgetBatchSampler([3, 9, 2, 8, 4], max_tokens=12)
    assert list(gather_groups("abcde", sampler)) == [["c", "a", "e"], ["d"], ["b"]]
    with pytest.raises(TypeError, match="BudgetBatchSampler are only known when it is iterated"):
        gather_groups("abc", sk.BudgetBatchSampler(range(3), [1, 2, 3], max_tokens=3))


def test_groups_follow_the_epoch_and_the_orders_of_the_sequence_are_kept():
    order = sk.shuffle(range(6), seed=0)
    view = gather_groups(order, sk.batch(sk.shuffle(range(6), seed=1), 2))
    later = view.at_epoch(1)
    assert list(later) == [
        [order[i] for i in group] for group in sk.batch(sk.shuffle(range(6), 1), 2).at_epoch(1)
    ]
    assert list(view[:2].at_epoch(1)) == list(view[:2])


@pytest.mark.parametrize("plan", [range(3), range(2, -1, -1), [1, 1, 0], np.array([2, 0])], ids=str)
def test_a_prefetch_below_learns_the_items_of_every_plan(plan):
    groups = [[4, 0], [], [(1, 0, 1), (3, 1, 2)]]
    items = ["ab", "cd", "ef", "gh", "ij"]
    expected = list(gather_groups(items, groups))
    with sk.prefetch(items, 2, "thread") as ahead:
        assert list(gather_groups(ahead, groups)._iter(plan)) == [expected[i] for i in plan]


def test_a_prefetch_below_reads_the_items_of_the_groups_only():
    source = CountingSource(range(100))
    with sk.prefetch(source, 1, "thread") as ahead:
        assert list(gather_groups(ahead, [[70, 3], [5]])) == [[70, 3], [5]]
    assert source.reads == {70: 1, 3: 1, 5: 1}


def test_a_failing_item_fails_its_group_alone():
    groups = [[0, 1], [2, 3], [4], [3, 1]]
    for make in (lambda s: s, lambda s: sk.prefetch(s, 0)):
        view = gather_groups(make(FailingSource(range(5), {1, 3})), groups)
        for found in (by_index(view), by_iteration(iter(view))):
            assert [isinstance(item, Failure) for item in found] == [True, True, False, True]
            assert found[2] == [4]


def test_a_group_has_no_columns():
    rows = sk.collate(x=[1, 2])
    with pytest.raises(TypeError, match="no named columns"):
        gather_groups(rows, [[0]]).select("x")
    assert list(gather_groups(rows.select("x"), [[1, 0]])) == [[2, 1]]


def test_groups_cannot_be_assigned():
    with pytest.raises(TypeError, match="gather_groups does not support assignment"):
        gather_groups([1, 2], [[0]])[0] = [5]
