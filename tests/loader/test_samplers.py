"""Samplers: every `iter` one epoch, exact lengths, reproducible."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import seqkit as sk
from seqkit.loader import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler


class Unsized:
    def __iter__(self):
        return iter([3, 1, 2])


@pytest.mark.parametrize("n", [0, 1, 7])
def test_sequential_counts(n):
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


def test_an_epoch_begins_at_iter_not_at_the_first_index():
    sampler = RandomSampler(50, seed=3)
    first, second = list(sampler), list(sampler)
    sampler.set_epoch(0)
    early, late = iter(sampler), iter(sampler)
    assert sampler.epoch == 2
    assert list(late) == second
    assert list(early) == first


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
        ({"replacement": 1}, TypeError, "replacement should be a boolean value, but got replacement=1"),
        ({"replacement": "no"}, TypeError, "replacement should be a boolean value"),
        ({"num_samples": 0}, ValueError, "num_samples must be a positive int, got 0"),
        ({"num_samples": -1}, ValueError, "num_samples must be a positive int, got -1"),
        ({"num_samples": 2.5}, TypeError, "num_samples must be a positive int, got 2.5"),
        ({"num_samples": True}, TypeError, "num_samples must be a positive int, got True"),
        ({"seed": -1}, ValueError, "RandomSampler: seed must be an int of at least 0"),
        ({"seed": "x"}, TypeError, "RandomSampler: seed must be an int of at least 0"),
    ],
)
def test_random_refuses(options, error, message):
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


# -------------------------------------------------------------------- batches


@pytest.mark.parametrize("n", range(8))
@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("drop_last", [False, True])
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
    with pytest.raises(
        ValueError, match="BatchSampler: batch_size should be a positive integer value, but got"
    ):
        BatchSampler(range(3), batch_size)


def test_batches_refuse_what_is_no_sampler_or_flag():
    with pytest.raises(ValueError, match="drop_last should be a boolean value, but got 1"):
        BatchSampler(range(3), 2, 1)
    with pytest.raises(TypeError, match="BatchSampler: sampler should be an iterable of indices, but got 5"):
        BatchSampler(5, 2)


# -------------------------------------------------------------------- all


@pytest.mark.parametrize(
    "sampler",
    [
        SequentialSampler(5),
        RandomSampler(50, seed=1),
        RandomSampler(50, True, 70, seed=1),
        SubsetRandomSampler(range(9), seed=1),
        BatchSampler(RandomSampler(50, seed=1), 4),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_samplers_pickle_with_their_epoch(sampler):
    list(sampler)
    copy = pickle.loads(pickle.dumps(sampler))
    assert list(copy) == list(sampler)


def test_two_passes_at_once_are_independent():
    sampler = RandomSampler(20, seed=0)
    expected = [list(sampler), list(sampler)]
    sampler.set_epoch(0)
    a, b = iter(sampler), iter(sampler)
    assert [list(each) for each in zip(*zip(a, b, strict=True), strict=True)] == expected
