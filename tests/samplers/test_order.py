"""Samplers: every `iter` one epoch, exact lengths, reproducible."""

from __future__ import annotations

import copy
import itertools
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.samplers import (
    BatchSampler,
    BudgetBatchSampler,
    DistributedSampler,
    FilterSampler,
    FixedBucketSampler,
    InfiniteSampler,
    IntervalSampler,
    NumberedSampler,
    RandomSampler,
    SequentialSampler,
    ShardedSampler,
    SortedBucketSampler,
    SortedSampler,
    SplitSampler,
    SubsetRandomSampler,
    TokenBudgetBatchSampler,
    WeightedRandomSampler,
)
from seqkit.samplers.base import Sampler, order_of

from ..helpers import for_each


class Unsized:
    def __iter__(self):
        return iter([3, 1, 2])


@pytest.mark.parametrize("n", [0, 1, 7])
def test_sequential_sampler_counts_from_0(n):
    for source in (n, "x" * n, np.zeros((n, 2)), np.int64(n)):
        sampler = SequentialSampler(source)
        assert list(sampler) == list(sampler) == list(range(n))
        assert len(sampler) == n


def test_sequential_follows_a_growing_source():
    data = [1]
    sampler = SequentialSampler(data)
    data.append(2)
    assert len(sampler) == 2
    assert list(sampler) == [0, 1]


@pytest.mark.parametrize("sampler", [SequentialSampler, RandomSampler])
@pytest.mark.parametrize(
    ("source", "error"), [(-1, ValueError), (1.5, TypeError), (None, TypeError), (True, TypeError)]
)
def test_a_source_without_length_is_refused(sampler, source, error):
    with pytest.raises(error, match="data_source"):
        sampler(source)


def test_sequential_begins_at_start():
    assert list(SequentialSampler(3, start=4)) == [4, 5, 6]
    assert len(SequentialSampler(3, start=4)) == 3
    assert SequentialSampler(10**12, 5).order[10**11] == 10**11 + 5


@pytest.mark.parametrize("indices", [[4, 0, 4], np.array([4, 0, 4], np.uint8), (4, 0, 4)])
def test_sequential_length_is_that_of_given_indices(indices):
    sampler = SequentialSampler(5, indices=indices)
    assert list(sampler) == [4, 0, 4]
    assert len(sampler) == 3
    assert all(type(i) is int for i in sampler)
    assert len(list(BatchSampler(sampler, 2))) == len(BatchSampler(sampler, 2)) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, -1), ValueError, "start must be an int of at least 0, got -1"),
        ((3, True), TypeError, "start must be an int of at least 0, got True"),
        (("abc", 1), ValueError, "start=1 needs a number as data_source"),
        ((3, 1, [0]), ValueError, "start=1 needs a number as data_source"),
        ((3, 0, {1, 2}), TypeError, "indices should be a sequence or an array, but got {1, 2}"),
    ],
)
def test_sequential_sampler_refuses_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=f"SequentialSampler: {message}"):
        SequentialSampler(*arguments)


# -------------------------------------------------------------------- random


@pytest.mark.parametrize("n", [0, 1, 5, 1000, 70_000])
def test_without_replacement_each_index_occurs_once(n):
    sampler = RandomSampler(n, seed=0)
    found = list(sampler)
    assert len(sampler) == n
    assert sorted(found) == list(range(n))
    assert all(type(i) is int for i in found)


def test_epochs_differ_and_come_back():
    sampler = RandomSampler(50, seed=3)
    first, second, third = list(sampler), list(sampler), list(sampler)
    assert first != second != third != first
    assert sampler.epoch == 3
    sampler.set_epoch(1)
    assert [list(sampler), list(sampler)] == [second, third]


def test_an_epoch_begins_at_the_first_index():
    sampler = RandomSampler(50, seed=3)
    first, second = list(sampler), list(sampler)
    sampler.set_epoch(0)
    unused, late, early = iter(sampler), iter(sampler), iter(sampler)
    assert sampler.epoch == 0
    assert [next(early), next(late)] == [first[0], second[0]]
    assert [list(early), list(late)] == [first[1:], second[1:]]
    assert sampler.epoch == 2
    sampler.set_epoch(0)
    assert list(unused) == first


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_of_torch_reads_each_epoch_once(workers):
    data = pytest.importorskip("torch.utils.data")
    batches = BatchSampler(RandomSampler(20, seed=3), 5)
    loader = data.DataLoader(range(20), batch_sampler=batches, num_workers=workers)
    found = [[batch.tolist() for batch in loader] for _ in range(2)]
    assert found == [list(batches.at_epoch(0)), list(batches.at_epoch(1))]


def test_the_order_follows_from_the_seed():
    for replacement in (False, True):
        a, b = (RandomSampler(50, replacement, seed=3) for _ in range(2))
        assert [list(a), list(a)] == [list(b), list(b)]
        assert list(RandomSampler(50, replacement, seed=4)) != list(RandomSampler(50, replacement, seed=3))


def test_without_a_seed_two_samplers_differ_and_each_is_reproducible():
    a, b = RandomSampler(50), RandomSampler(50)
    first = list(a)
    assert first != list(b)
    a.set_epoch(0)
    assert list(a) == first
    assert list(RandomSampler(50, seed=a.seed)) == first


def test_the_order_is_that_of_shuffle():
    sampler = RandomSampler(50, seed=3)
    order = sk.shuffle(range(50), seed=3)
    assert list(sampler) == list(order)
    assert list(sampler) == list(order.at_epoch(1))


@pytest.mark.parametrize("num_samples", [1, 4, 5, 6, 10, 13])
def test_more_samples_than_indices_are_whole_permutations_and_a_part(num_samples):
    sampler = RandomSampler(5, num_samples=num_samples, seed=0)
    found = list(sampler)
    assert len(sampler) == len(found) == num_samples
    rounds = [found[start : start + 5] for start in range(0, num_samples, 5)]
    assert all(len(set(each)) == len(each) for each in rounds)
    assert all(sorted(each) == list(range(5)) for each in rounds[:-1])


def test_the_rounds_of_an_epoch_differ():
    found = list(RandomSampler(50, num_samples=150, seed=0))
    assert found[:50] != found[50:100] != found[100:] != found[:50]


@pytest.mark.parametrize("num_samples", [None, 1, 1024, 1025, 5000])
def test_with_replacement_every_draw_is_from_all(num_samples):
    sampler = RandomSampler(10, replacement=True, num_samples=num_samples, seed=0)
    found = list(sampler)
    assert len(sampler) == len(found) == (10 if num_samples is None else num_samples)
    assert set(found) <= set(range(10))
    assert all(type(i) is int for i in found)
    if num_samples == 5000:
        counts = np.bincount(found)
        assert counts.min() > 400
        assert counts.max() < 600
        assert list(sampler) != found


def test_a_huge_source_needs_no_memory():
    sampler = RandomSampler(10**12, seed=0)
    first = list(itertools.islice(sampler, 100))
    assert len(set(first)) == 100
    assert len(sampler) == 10**12


def test_random_follows_a_growing_source():
    data = [1, 2]
    sampler = RandomSampler(data, seed=0)
    data.append(3)
    assert len(sampler) == 3
    assert sorted(sampler) == [0, 1, 2]


@pytest.mark.parametrize("replacement", [False, True])
def test_an_empty_source_gives_nothing(replacement):
    assert list(RandomSampler(0, replacement)) == []
    with pytest.raises(ValueError, match="data_source is empty"):
        RandomSampler([], replacement, num_samples=3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"replacement": 1}, TypeError, "replacement must be a bool, got 1"),
        ({"replacement": "no"}, TypeError, "replacement must be a bool"),
        ({"num_samples": 0}, ValueError, "num_samples must be a positive int or None, got 0"),
        ({"num_samples": -1}, ValueError, "num_samples must be a positive int or None, got -1"),
        ({"num_samples": 2.5}, TypeError, "num_samples must be a positive int or None, got 2.5"),
        ({"num_samples": True}, TypeError, "num_samples must be a positive int or None, got True"),
        ({"seed": -1}, ValueError, "RandomSampler: seed must be an int of at least 0"),
        ({"seed": "x"}, TypeError, "RandomSampler: seed must be an int of at least 0"),
    ],
)
def test_random_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=message):
        RandomSampler(5, **options)


@pytest.mark.parametrize(("epoch", "error"), [(-1, ValueError), (1.5, TypeError), (None, TypeError)])
def test_an_epoch_is_an_int_of_at_least_0(epoch, error):
    with pytest.raises(error, match="RandomSampler: epoch must be an int of at least 0"):
        RandomSampler(5).set_epoch(epoch)


def test_numpy_counts_are_ints():
    assert len(RandomSampler(np.int32(5), num_samples=np.int64(7))) == 7


def test_the_global_generators_are_left_alone():
    np.random.seed(0)
    expected = np.random.rand()
    np.random.seed(0)
    for sampler in (RandomSampler(9), RandomSampler(9, True), SubsetRandomSampler([1, 2])):
        list(sampler)
    assert np.random.rand() == expected


# -------------------------------------------------------------------- subset


@pytest.mark.parametrize(
    "indices", [[], [7], [5, 5, 1, 9], range(0, 20, 3), np.array([4, 2], np.uint8), (3, 1)]
)
def test_subset_gives_its_indices_in_random_order(indices):
    sampler = SubsetRandomSampler(indices, seed=0)
    found = list(sampler)
    assert len(sampler) == len(indices)
    assert sorted(found) == sorted(indices)
    assert all(type(i) is int for i in found)


def test_subset_takes_keys_of_any_kind():
    assert sorted(SubsetRandomSampler(["b", "a"])) == ["a", "b"]


def test_subset_epochs_differ_and_come_back():
    sampler = SubsetRandomSampler(range(100, 150), seed=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_subset_leaves_its_indices_alone():
    indices = [3, 1, 2]
    list(SubsetRandomSampler(indices))
    assert indices == [3, 1, 2]


@pytest.mark.parametrize("indices", [5, iter([1]), {1, 2}])
def test_subset_refuses_what_it_cannot_index(indices):
    with pytest.raises(TypeError):
        SubsetRandomSampler(indices)


# -------------------------------------------------------------------- weighted


def test_weights_are_frequencies():
    weights = [0.5, 0, 1, 2.5]
    for some in (weights, np.array(weights), tuple(weights), np.array(weights, np.float32)):
        found = list(WeightedRandomSampler(some, 40_000, seed=0))
        assert all(type(i) is int for i in found)
        counts = np.bincount(found, minlength=4)
        assert counts[1] == 0
        np.testing.assert_allclose(counts, [5000, 0, 10_000, 25_000], rtol=0.05)


@pytest.mark.parametrize("num_samples", [1, 1023, 1024, 1025, 5000])
def test_weighted_length_is_exact(num_samples):
    sampler = WeightedRandomSampler([1, 2], num_samples, seed=0)
    assert len(sampler) == len(list(sampler)) == num_samples


@pytest.mark.parametrize("replacement", [True, False])
def test_weighted_epochs_differ_and_come_back(replacement):
    sampler = WeightedRandomSampler(np.arange(100), 50, replacement, seed=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(WeightedRandomSampler(np.arange(100), 50, replacement, seed=2)) != first


def test_without_replacement_weighted_indices_occur_once():
    weights = np.arange(50) % 5
    for num_samples in (1, 7, 40):
        sampler = WeightedRandomSampler(weights, num_samples, replacement=False, seed=0)
        found = list(sampler)
        assert len(found) == len(set(found)) == len(sampler) == num_samples
        assert all(weights[i] > 0 for i in found)
        assert all(type(i) is int for i in found)


def test_without_replacement_heavy_indices_come_first():
    sampler = WeightedRandomSampler([1, 2, 1], 2, replacement=False, seed=0)
    firsts = np.bincount([next(iter(sampler)) for _ in range(2000)])
    np.testing.assert_allclose(firsts, [500, 1000, 500], rtol=0.15)
    # Of two in three: 1 - P(first and second are the light ones) = 1 - 2 * (1/4 * 1/3).
    held = np.mean([1 in list(sampler) for _ in range(2000)])
    assert held == pytest.approx(5 / 6, abs=0.04)


@pytest.mark.parametrize("weights", [[1e308] * 10, [5e-324, 5e-324], [1e-300, 1e300, 0]])
def test_extreme_weights_overflow_nothing(weights):
    most = sum(weight > 0 for weight in weights)
    assert sorted(WeightedRandomSampler(weights, most, replacement=False)) == list(range(most))
    assert set(WeightedRandomSampler(weights, 2000, seed=0)) <= set(range(most))


@pytest.mark.parametrize("point", [1 - 2**-53, 0.0])
def test_a_draw_at_either_end_is_of_an_index_with_weight(point, monkeypatch):
    class Extreme:
        def random(self, size):
            return np.full(size, point)

    monkeypatch.setattr("seqkit.views.random_map.item_generator", lambda key, block: Extreme())
    for weights in ([0, 1, 0], [0, 3, 0.1, 0], [0, 0.1, 0.2, 0.7, 0]):
        drawable = np.flatnonzero(weights)
        assert list(WeightedRandomSampler(weights, 1)) == [drawable[-1] if point else drawable[0]]


@pytest.mark.stress
def test_more_weights_than_torch_can_have():
    n = 2**24 + 10
    weights = np.zeros(n, np.float32)
    weights[-2:] = 1
    assert set(WeightedRandomSampler(weights, 100, seed=0)) == {n - 2, n - 1}
    assert set(WeightedRandomSampler(weights, 2, replacement=False)) == {n - 2, n - 1}


@pytest.mark.parametrize(
    ("weights", "options", "error", "message"),
    [
        ([1, -1.0, -2], {}, ValueError, "weights must be at least 0, got -1.0 at position 1"),
        ([1, np.nan], {}, ValueError, "weights must be at least 0, got nan at position 1"),
        ([np.inf, 1], {}, ValueError, "weights must be at least 0, got inf at position 0"),
        ([0, 0], {}, ValueError, r"at least one weight must be above 0, got \[0, 0\]"),
        ([], {}, ValueError, "at least one weight must be above 0"),
        ([[1, 2]], {}, ValueError, "weights must be one-dimensional, got 2 dimensions"),
        (3, {}, TypeError, "weights must be numbers"),
        ("abc", {}, TypeError, "weights must be numbers, .* got 'abc'"),
        ([1, None], {"num_samples": 1.5}, TypeError, "num_samples must be a positive int, got 1.5"),
        ([1], {"num_samples": 0}, ValueError, "num_samples must be a positive int, got 0"),
        ([1], {"num_samples": True}, TypeError, "num_samples must be a positive int, got True"),
        ([1], {"replacement": 1}, TypeError, "replacement must be a bool"),
        ([1, 0, 1], {"replacement": False}, ValueError, "num_samples=3 .* only 2 weights are above 0"),
        ([1], {"seed": -1}, ValueError, "seed must be an int of at least 0"),
    ],
)
def test_weighted_random_sampler_refuses_wrong_arguments(weights, options, error, message):
    with pytest.raises(error, match=f"WeightedRandomSampler: {message}"):
        WeightedRandomSampler(weights, **{"num_samples": 3, **options})


def test_weights_are_copied():
    weights = np.array([1.0, 3.0])
    sampler = WeightedRandomSampler(weights, 5, seed=0)
    first = list(sampler)
    assert weights.tolist() == [1, 3]
    weights[:] = 0
    sampler.set_epoch(0)
    assert list(sampler) == first


# -------------------------------------------------------------------- sorted, interval, filter


@pytest.mark.parametrize("kind", [list, tuple, np.array])
@given(keys=st.lists(st.integers(-3, 3), max_size=20), reverse=st.booleans())
def test_sorted_is_stable_in_both_directions(kind, keys, reverse):
    sampler = SortedSampler(kind(keys), reverse)
    assert list(sampler) == sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
    assert len(sampler) == len(keys)
    assert all(type(i) is int for i in sampler)


def test_sorted_takes_keys_of_any_kind():
    assert list(SortedSampler([(2, "a"), (1, "c"), (1, "b")])) == [2, 1, 0]
    assert list(SortedSampler(np.array([[2, 1], [1, 3]]))) == [1, 0]
    assert list(SortedSampler(np.array([3, 1, 2], np.uint8), reverse=True)) == [0, 2, 1]


NAN = float("nan")


@pytest.mark.parametrize(
    "keys",
    [
        [3, NAN, 1, 2],
        [3.0, NAN, 1.0, 2.0],
        [np.int64(3), np.float32(NAN), True, 2.0],
        np.array([3, NAN, 1, 2], object),
        np.array(["2020-03-01", "NaT", "2020-01-01", "2020-02-01"], "M8[D]"),
    ],
    ids=repr,
)
def test_nan_is_the_greatest_key_whatever_the_other_keys_are(keys):
    assert list(SortedSampler(keys)) == [2, 3, 0, 1]
    assert list(SortedSampler(keys, reverse=True)) == [1, 0, 3, 2]


def test_keys_that_compare_with_nothing_are_refused():
    pandas = pytest.importorskip("pandas")
    dates = pandas.to_datetime(["2020-03-01", None, "2020-01-01"])
    for missing in (
        list(dates),
        pandas.Series(dates),
        [Decimal(3), Decimal("NaN"), Decimal(1)],
        [1, None],
    ):
        with pytest.raises(TypeError, match=r"keys .*got .* at position 1"):
            SortedSampler(missing)
    with pytest.raises(TypeError):
        SortedSampler([1, pandas.NA])


def test_sorted_sampler_refuses_wrong_arguments():
    with pytest.raises(TypeError, match=r"SortedSampler: keys .*got 5"):
        SortedSampler(5)
    with pytest.raises(TypeError, match=r"SortedSampler: reverse .*got 'no'"):
        SortedSampler([1], "no")


@pytest.mark.parametrize("n", [0, 1, 2, 7, 12])
@pytest.mark.parametrize("interval", [1, 2, 3, 7, 20])
def test_interval_length_is_exact_in_both_modes(n, interval):
    once = IntervalSampler(n, interval, rollover=False)
    assert list(once) == list(range(0, n, interval))
    assert len(once) == len(list(once))
    every = IntervalSampler(n, interval)
    assert list(every) == [i for first in range(interval) for i in range(first, n, interval)]
    assert len(every) == n


def test_interval_follows_a_growing_source():
    data = [0] * 3
    sampler = IntervalSampler(data, 2)
    data.append(0)
    assert list(sampler) == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, 2), ValueError, "length .* must be an int of at least 0, got -1"),
        ((5, 0), ValueError, "interval must be a positive int, got 0"),
        ((5, 2.0), TypeError, "interval must be a positive int, got 2.0"),
        ((5, 2, 1), TypeError, "rollover must be a bool, got 1"),
    ],
)
def test_interval_sampler_refuses_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=f"IntervalSampler: {message}"):
        IntervalSampler(*arguments)


def test_filter_calls_its_function_once_per_sample():
    seen = []

    def even(sample):
        seen.append(sample)
        return np.bool_(sample % 2 == 0)

    sampler = FilterSampler(even, np.arange(10, 16))
    assert list(sampler) == list(sampler) == [0, 2, 4]
    assert len(sampler) == 3
    assert seen == list(range(10, 16))
    assert all(type(i) is int for i in sampler)


def test_filter_of_nothing_is_empty():
    assert list(FilterSampler(bool, [])) == list(FilterSampler(bool, [0, 0])) == []


def test_filter_sampler_refuses_wrong_arguments():
    with pytest.raises(TypeError, match="FilterSampler: predicate must be callable, got 5"):
        FilterSampler(5, [1])
    with pytest.raises(TypeError, match="FilterSampler"):
        FilterSampler(bool, 5)


# -------------------------------------------------------------------- endless


def test_infinite_gives_epoch_after_epoch():
    sampler = InfiniteSampler(RandomSampler(5, seed=0))
    found = list(itertools.islice(sampler, 15))
    reference = RandomSampler(5, seed=0)
    assert found == [*reference, *reference, *reference]


def test_a_new_pass_of_infinite_begins_an_epoch():
    sampler = InfiniteSampler(RandomSampler(5, seed=0))
    list(itertools.islice(sampler, 7))
    reference = RandomSampler(5, seed=0)
    reference.set_epoch(2)
    assert list(itertools.islice(sampler, 5)) == list(reference)


@pytest.mark.parametrize("state", [None, 5, {}, {"epoch": 1}, [("epoch", 0), ("seed", 1)]], ids=repr)
def test_a_wrong_state_is_refused_and_changes_nothing(state):
    sampler = RandomSampler(5, seed=3)
    with pytest.raises(TypeError, match="RandomSampler: a state"):
        sampler.load_state_dict(state)
    assert sampler.state_dict() == {"epoch": 0, "seed": 3}


def test_infinite_sampler_with_resume_continues_where_it_ended():
    expected = list(itertools.islice(InfiniteSampler(RandomSampler(5, seed=0)), 20))
    sampler = InfiniteSampler(RandomSampler(5, seed=0), resume=True)
    found = list(itertools.islice(sampler, 7))
    copied = pickle.loads(pickle.dumps(sampler))
    fresh = InfiniteSampler(RandomSampler(5, seed=0), resume=True)
    fresh.load_state_dict(sampler.state_dict())
    for each in (sampler, copied, fresh):
        assert found + list(itertools.islice(each, 3)) + list(itertools.islice(each, 10)) == expected


def test_infinite_sampler_continues_after_a_complete_epoch():
    sampler = InfiniteSampler([1, 2], resume=True)
    assert list(itertools.islice(sampler, 2)) == [1, 2]
    assert list(itertools.islice(sampler, 3)) == [1, 2, 1]
    sampler.set_epoch(0)
    assert next(iter(sampler)) == 1


def test_infinite_has_no_length():
    sampler = InfiniteSampler([1])
    with pytest.raises(TypeError):
        len(sampler)
    with pytest.raises(TypeError):
        len(BatchSampler(sampler, 2))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_infinite_can_be_copied(duplicate):
    sampler = InfiniteSampler(RandomSampler(5, seed=0))
    list(itertools.islice(sampler, 2))
    again = duplicate(sampler)
    sampler.set_epoch(4)
    expected = list(itertools.islice(sampler, 9))
    again.set_epoch(4)
    assert list(itertools.islice(again, 9)) == expected


def test_batches_of_an_endless_sampler_reach_across_epochs():
    batches = BatchSampler(InfiniteSampler(range(3)), 2)
    assert list(itertools.islice(batches, 3)) == [[0, 1], [2, 0], [1, 2]]


def test_infinite_sampler_refuses_empty_epochs_and_wrong_arguments():
    with pytest.raises(ValueError, match="InfiniteSampler: epoch 0 of its sampler is empty"):
        next(iter(InfiniteSampler([])))
    with pytest.raises(ValueError, match=r"InfiniteSampler: epoch 1 .* is empty"):
        list(InfiniteSampler(iter([1])))
    with pytest.raises(TypeError, match="InfiniteSampler: sampler should be an iterable"):
        InfiniteSampler(5)
    with pytest.raises(TypeError, match="InfiniteSampler: resume must be a bool"):
        InfiniteSampler([1], 1)


# -------------------------------------------------------------------- batches


@for_each("n", range(8))
@for_each("k", [1, 2, 3, 10])
@for_each("drop_last", [False, True])
def test_batches_are_successive_indices(n, k, drop_last):
    sampler = BatchSampler(range(n), k, drop_last)
    expected = [list(range(i, min(i + k, n))) for i in range(0, n, k)]
    if drop_last:
        expected = [each for each in expected if len(each) == k]
    assert list(sampler) == list(sampler) == expected
    assert len(sampler) == len(expected)


def test_any_iterable_will_do():
    assert list(BatchSampler(Unsized(), 2)) == [[3, 1], [2]]
    with pytest.raises(TypeError):
        len(BatchSampler(Unsized(), 2))
    assert list(BatchSampler(sk.shuffle(range(4), seed=0), 4)) == [list(sk.shuffle(range(4), seed=0))]


def test_an_endless_sampler_is_drawn_lazily():
    drawn = []

    def endless():
        for i in itertools.count():
            drawn.append(i)
            yield i

    batches = iter(BatchSampler(endless(), 3))
    assert drawn == []
    assert next(batches) == [0, 1, 2]
    assert drawn == [0, 1, 2]


def test_batches_of_a_random_sampler_change_with_its_epochs():
    sampler = BatchSampler(RandomSampler(20, seed=0), 5)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True, None, "2", np.True_])
def test_a_batch_size_is_a_positive_int(batch_size):
    with pytest.raises((TypeError, ValueError), match=r"BatchSampler: batch_size .*got"):
        BatchSampler(range(3), batch_size)


def test_batches_refuse_what_is_no_sampler_or_flag():
    with pytest.raises(TypeError, match="drop_last must be a bool, got 1"):
        BatchSampler(range(3), 2, 1)
    with pytest.raises(TypeError, match=r"BatchSampler: sampler .*got 5"):
        BatchSampler(5, 2)


@for_each("n", range(8))
@for_each("k", [1, 2, 3, 10])
def test_with_rollover_batches_run_through_the_epochs(n, k):
    sampler = BatchSampler(range(n), k, last="rollover")
    found = []
    for _ in range(6):
        expected = len(sampler)
        batches = []
        for each in sampler:
            assert len(sampler) == expected  # as long as the epoch lasts
            batches.append(each)
        assert len(batches) == expected
        found += batches
    stream = list(range(n)) * 6
    assert found == [stream[i : i + k] for i in range(0, len(stream) - k + 1, k)]


def test_with_rollover_the_remainder_comes_first():
    sampler = BatchSampler(range(10), 4, last="rollover")
    assert list(sampler) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(sampler) == [[8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]]


def test_the_first_epoch_with_rollover_may_be_empty():
    sampler = BatchSampler(range(3), 4, last="rollover")
    assert [len(sampler), list(sampler)] == [0, []]
    assert [len(sampler), list(sampler)] == [1, [[0, 1, 2, 0]]]


@pytest.mark.parametrize("read", [1, 2])
def test_the_batches_of_an_epoch_do_not_depend_on_the_one_before(read):
    sampler = BatchSampler(range(10), 4, last="rollover")
    list(sampler)
    epoch = iter(sampler)
    for _ in range(read):
        next(epoch)
    assert len(sampler) == 3
    del epoch
    assert len(sampler) == 2
    assert list(sampler) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_rollover_is_a_function_of_the_epoch():
    order = RandomSampler(10, seed=0)
    batches = sk.batch(sk.epochs(order.order), 4)
    for epoch in (3, 0, 10**9):
        sampler = BatchSampler(RandomSampler(10, seed=0), 4, last="rollover")
        sampler.set_epoch(epoch)
        expected = [batches[i] for i in range(epoch * 10 // 4, (epoch + 1) * 10 // 4)]
        assert [len(sampler), list(sampler.at_epoch(epoch)), list(sampler)] == [
            len(expected),
            expected,
            expected,
        ]
    kept = BatchSampler(sk.shuffle(range(10), seed=0)[:5], 2, last="rollover")
    found = itertools.chain(*kept, *kept)
    assert sorted(found) == sorted([*sk.shuffle(range(10), seed=0)[:5]] * 2)


def test_rollover_needs_a_known_order():
    for sampler in (Unsized(), iter([1]), InfiniteSampler([1])):
        with pytest.raises(ValueError, match="rollover' needs a sampler whose order is known before"):
            BatchSampler(sampler, 2, last="rollover")
    with pytest.raises(TypeError, match="the indices of BatchSampler are only known when it is iterated"):
        sk.gather("abc", BatchSampler(range(3), 2, last="rollover"))


class Drawn:
    """A sampler of whose order nothing is known beforehand."""

    def __init__(self, sampler):
        self.sampler = sampler
        self.state_dict, self.load_state_dict = sampler.state_dict, sampler.load_state_dict

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


def test_last_discard_is_the_same_as_drop_last():
    assert BatchSampler(range(5), 2, True).last == BatchSampler(range(5), 2, last="discard").last == "discard"
    assert list(BatchSampler(range(5), 2, last="discard")) == [[0, 1], [2, 3]]
    assert list(BatchSampler(range(5), 2, True, last="discard")) == [[0, 1], [2, 3]]
    assert list(BatchSampler(range(5), 2, last="keep")) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (5, [[0, 1, 2], [3, 4, 0]]),
        (6, [[0, 1, 2], [3, 4, 5]]),
        (1, [[0, 0, 0]]),
        (0, []),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_last_batch_is_completed_with_the_first_indices(n, expected, known):
    source = range(n) if known else InOrder(n)
    sampler = BatchSampler(source, 3, last="pad")
    assert list(sampler) == expected
    assert len(sampler) == len(expected)
    if known:
        assert [list(batch) for batch in sampler.at_epoch(0)] == expected


class InOrder:
    """A plain iterable of indices."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_an_unknown_last_is_refused_at_once():
    with pytest.raises(ValueError, match=r"last .*got 'fill'"):
        BatchSampler(range(4), 2, last="fill")
    with pytest.raises(ValueError, match="drop_last=True means last='discard', got last='keep'"):
        BatchSampler(range(4), 2, True, last="keep")


def test_batches_of_an_iterator_lose_no_index():
    assert list(BatchSampler((c for c in "abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]


def test_an_iterator_that_starts_again_at_iter_is_iterated_once_an_epoch():
    class Restarting:
        def __iter__(self):
            self.position = 0
            return self

        def __next__(self):
            self.position += 1
            if self.position > 5:
                raise StopIteration
            return self.position

    sampler = BatchSampler(Restarting(), 2)
    assert [list(sampler), list(sampler)] == [[[1, 2], [3, 4], [5]]] * 2


def test_a_batch_sampler_has_the_epochs_of_its_sampler():
    inner = RandomSampler(9, seed=0)
    sampler = BatchSampler(inner, 2)
    inner.set_epoch(5)
    assert sampler.epoch == 5
    list(sampler)
    assert [sampler.epoch, inner.epoch] == [6, 6]
    plain = BatchSampler([1], 1)
    list(plain)
    assert plain.epoch == 1


@pytest.mark.parametrize("kind", ["random", "distributed", "weighted"])
def test_samplers_of_torch_work_inside_those_of_seqkit(kind):
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    make = {
        "random": lambda: data.RandomSampler(range(12), generator=torch.Generator().manual_seed(3)),
        "distributed": lambda: data.DistributedSampler(range(12), 1, 0),
        "weighted": lambda: data.WeightedRandomSampler(
            [1.0] * 12, 12, generator=torch.Generator().manual_seed(3)
        ),
    }[kind]
    expected = [int(i) for i in make()]
    assert list(itertools.chain(*BatchSampler(make(), 5))) == expected
    assert len(BatchSampler(make(), 5)) == 3
    shares = [list(ShardedSampler(make(), 3, rank)) for rank in range(3)]
    assert [shares[k % 3][k // 3] for k in range(12)] == expected
    assert list(itertools.chain(*BudgetBatchSampler(make(), [1] * 12, 5))) == expected
    assert list(itertools.islice(InfiniteSampler(make()), 12)) == expected
    assert [key % 12 for key in NumberedSampler(make(), 12)] == expected


def test_the_epoch_of_a_sampler_of_torch_is_set_through_those_of_seqkit():
    data = pytest.importorskip("torch.utils.data")
    inner = data.DistributedSampler(range(12), 2, 0)
    outer = BatchSampler(inner, 3)
    outer.set_epoch(4)
    assert inner.epoch == 4
    assert list(itertools.chain(*outer)) == list(inner)


# -------------------------------------------------------------------- all

SAMPLERS = [
    lambda: SequentialSampler(5),
    lambda: SequentialSampler(5, indices=[3, 1]),
    lambda: RandomSampler(50, seed=1),
    lambda: RandomSampler(50, True, 70, seed=1),
    lambda: RandomSampler(20, False, 70, seed=1),
    lambda: RandomSampler(70_000, False, 70_100, seed=1),
    lambda: SubsetRandomSampler(range(9), seed=1),
    lambda: SubsetRandomSampler(np.arange(9), seed=1),
    lambda: WeightedRandomSampler(np.arange(9), 2000, seed=1),
    lambda: WeightedRandomSampler(np.arange(9), 5, False, seed=1),
    lambda: SortedSampler([3, 1, 2]),
    lambda: IntervalSampler(10, 3),
    lambda: FilterSampler(bool, [0, 1, 2, 0]),
    lambda: SplitSampler(20, 3, 2, True, 2, seed=1),
    lambda: DistributedSampler(50, 3, 1, seed=1),
    lambda: ShardedSampler(BatchSampler(RandomSampler(50, seed=1), 4), 3, 1),
    lambda: BatchSampler(RandomSampler(50, seed=1), 4),
    lambda: BatchSampler(RandomSampler(50, seed=1), 4, True),
    lambda: BatchSampler(RandomSampler(50, seed=1), 4, last="rollover"),
    lambda: ShardedSampler(BatchSampler(RandomSampler(50, seed=1), 4, last="rollover"), 3, 1, even=None),
    lambda: NumberedSampler(RandomSampler(50, seed=1), 50),
    lambda: FixedBucketSampler(range(1, 40), 4, 3, shuffle=True, num_shards=2, seed=1),
    lambda: SortedBucketSampler(list(range(40)), 4, 2.5, shuffle=True, seed=1),
    lambda: TokenBudgetBatchSampler([i // 3 + 1 for i in range(40)], 30, shuffle=True, seed=1),
]
UNORDERED = [
    lambda: BatchSampler(Drawn(RandomSampler(50, seed=1)), 4),
    lambda: ShardedSampler(BatchSampler(Drawn(RandomSampler(50, seed=1)), 4), 3, 1, even=None),
]


def _name(make):
    return type(make()).__name__


every_sampler = pytest.mark.parametrize("make", SAMPLERS + UNORDERED, ids=_name)
every_order = pytest.mark.parametrize("make", SAMPLERS, ids=_name)


@every_sampler
def test_samplers_pickle_with_their_epoch(make):
    sampler = make()
    list(sampler)
    copied = pickle.loads(pickle.dumps(sampler))
    assert list(copied) == list(sampler)


@every_sampler
def test_a_state_is_that_of_the_next_epoch(make):
    sampler, again = make(), make()
    list(sampler)
    again.load_state_dict(sampler.state_dict())
    assert again.epoch == sampler.epoch == 1
    assert list(again) == list(sampler)


@every_sampler
def test_epochs_are_counted_and_lengths_exact(make):
    sampler = make()
    for epoch in range(3):
        assert sampler.epoch == epoch
        expected = len(sampler)
        assert len(list(sampler)) == expected
    with pytest.raises(ValueError, match="epoch must be an int of at least 0, got -1"):
        sampler.set_epoch(-1)


@every_order
def test_an_order_is_what_the_epoch_gives(make):
    sampler = make()
    for epoch in (0, 3, 1):
        order = sampler.at_epoch(epoch)
        sampler.set_epoch(epoch)
        assert len(order) == len(sampler)
        expected = list(sampler)
        assert list(order) == expected
        assert list(order[2:]) == expected[2:]
        assert [order[i] for i in range(min(len(order), 5))] == expected[:5]


@pytest.mark.parametrize("make", UNORDERED, ids=_name)
def test_a_sampler_whose_indices_are_only_known_by_drawing_has_no_order(make):
    assert make().at_epoch(0) is None
    assert order_of(make(), 0) is None


@every_sampler
def test_the_global_generators_are_not_used(make):
    np.random.seed(0)
    expected = np.random.rand()
    np.random.seed(0)
    list(make())
    assert np.random.rand() == expected


def test_the_order_of_a_huge_random_epoch_takes_no_memory():
    order = RandomSampler(10**12, seed=0).order
    sampler = RandomSampler(10**12, seed=0)
    assert list(itertools.islice(order[5:], 3)) == list(itertools.islice(sampler, 5, 8))


def test_many_rounds_are_drawn_as_they_are_read():
    sampler = RandomSampler(1000, num_samples=10**9, seed=0)
    assert len(sampler) == 10**9
    found = list(itertools.islice(sampler, 2500))
    assert sorted(found[1000:2000]) == list(range(1000))


def test_sequences_are_their_own_order_and_iterators_have_none():
    assert list(order_of([3, 1], 7)) == [3, 1]
    assert list(order_of(range(4), 7)) == list(range(4))
    for sampler in (iter([1]), {1, 2}, {"a": 1}, Unsized()):
        assert order_of(sampler, 0) is None


def test_a_class_with_its_own_iter_has_no_order():
    class Backwards(SequentialSampler):
        def __iter__(self):
            return iter(range(len(self))[::-1])

    sampler = BatchSampler(Backwards(3), 2)
    assert sampler.at_epoch(0) is None
    assert list(sampler) == [[2, 1], [0]]


def test_a_class_without_order_gets_an_error_that_names_the_missing_method():
    with pytest.raises(NotImplementedError, match="Sampler must define order, a view of indices"):
        list(Sampler())


def test_an_order_of_a_subclass_may_depend_on_the_epoch_that_is_read():
    class Counting(Sampler):
        @property
        def order(self):
            return sk.view([self.epoch])

    sampler = Counting()
    assert [list(sampler), list(sampler)] == [[0], [1]]


def test_two_passes_at_once_are_independent():
    sampler = RandomSampler(20, seed=0)
    expected = [list(sampler), list(sampler)]
    sampler.set_epoch(0)
    a, b = iter(sampler), iter(sampler)
    assert [list(each) for each in zip(*zip(a, b, strict=True), strict=True)] == expected


# -------------------------------------------------------------------- repr


@pytest.mark.parametrize(
    ("sampler", "text"),
    [
        (RandomSampler([5, 6, 7], seed=3), "RandomSampler(seed=3, len=3)"),
        (SequentialSampler(4, start=2), "SequentialSampler(data_source=4, start=2, len=4)"),
        (
            BatchSampler(RandomSampler(10, seed=1), 3, drop_last=True),
            "BatchSampler(sampler=RandomSampler(data_source=10, seed=1, len=10), batch_size=3,"
            " drop_last=True, last='discard', len=3)",
        ),
        (
            WeightedRandomSampler([1, 2], 5, seed=1),
            "WeightedRandomSampler(num_samples=5, seed=1, len=5)",
        ),
        (InfiniteSampler(sk.view([1, 2])), "InfiniteSampler()"),
        (
            TokenBudgetBatchSampler([3, 4], 4, seed=0),
            "TokenBudgetBatchSampler(max_tokens=4, seed=0, len=2)",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_text_of_a_sampler_shows_its_arguments_and_length(sampler, text):
    assert repr(sampler) == text


def test_the_text_of_a_sampler_shows_its_epoch():
    sampler = RandomSampler(3, seed=0)
    list(sampler)
    assert repr(sampler) == "RandomSampler(data_source=3, seed=0, len=3, epoch=1)"


def test_the_text_of_a_sampler_never_fails():
    class Broken(Sampler):
        @property
        def order(self):
            raise OSError("gone")

    assert repr(Broken()) == "Broken()"
