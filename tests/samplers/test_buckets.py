"""Batches of similar length: every sample once, within what was promised."""

from __future__ import annotations

import itertools
import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.loader import DataLoader
from seqkit.samplers import (
    BatchSampler,
    BudgetBatchSampler,
    ConstWidthBucket,
    DistributedSampler,
    ExpWidthBucket,
    FixedBucketSampler,
    LinearWidthBucket,
    ShardedSampler,
    SortedBucketSampler,
    TokenBudgetBatchSampler,
    fixed_buckets,
)

from ..helpers import for_each

SCHEMES = [ConstWidthBucket(), LinearWidthBucket(), ExpWidthBucket(), ExpWidthBucket(1.0), ExpWidthBucket(3)]
every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(1, 100, 300)
PAIRS = RANDOM.integers(1, 60, (300, 2))


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


# -------------------------------------------------------------------- schemes


@every_scheme
@given(least=st.integers(1, 50), spread=st.integers(0, 400), count=st.integers(1, 60))
def test_bucket_keys_ascend_and_reach_the_greatest_length(scheme, least, spread, count):
    keys = scheme(least + spread, least, count)
    assert all(type(key) is int for key in keys)
    assert keys == sorted(set(keys))
    assert keys[0] >= least
    assert keys[-1] == least + spread
    assert len(keys) <= count


@every_scheme
def test_keys_of_tuples_are_keys_of_each_part(scheme):
    first, second = scheme(100, 1, 5), scheme(40, 8, 5)
    assert scheme((100, 40), (1, 8), 5) == list(zip(first, second, strict=True))


def test_keys_are_those_of_the_formulas():
    assert ConstWidthBucket()(103, 4, 10) == list(range(13, 104, 10))
    growth = 2 * (200 - 10 - 8) / (8 * 9)
    ends = [round(10 + growth * i * (i + 1) / 2 + i) for i in range(1, 9)]
    assert LinearWidthBucket()(200, 10, 8) == ends
    first = 190 * 0.1 / (1.1**8 - 1)
    assert ExpWidthBucket(1.1)(200, 10, 8) == [round(10 + first * (1.1**i - 1) / 0.1) for i in range(1, 9)]
    assert ExpWidthBucket(1.0)(101, 1, 4) == [26, 51, 76, 101]


def test_thousands_of_buckets_overflow_nothing():
    assert ExpWidthBucket(2.0)(100, 1, 5000) == ExpWidthBucket(2.0)(100, 1, 1000)


@pytest.mark.parametrize(
    ("step", "error"), [(0.9, ValueError), (math.nan, ValueError), (math.inf, ValueError), ("2", TypeError)]
)
def test_a_step_is_a_number_of_at_least_1(step, error):
    with pytest.raises(error, match="ExpWidthBucket: bucket_len_step"):
        ExpWidthBucket(step)


@every_scheme
def test_a_scheme_needs_a_number_of_buckets(scheme):
    with pytest.raises(ValueError, match="num_buckets must be a positive int, got 0"):
        scheme(10, 1, 0)


# -------------------------------------------------------------------- fixed buckets


@for_each("lengths", [LENGTHS, PAIRS])
@for_each("options", [{}, {"ratio": 0.5}, {"use_average_length": True}])
@for_each("shuffle", [False, True])
@for_each("num_buckets", [1, 10, 100, 5000])
@for_each("scheme", SCHEMES[:3])
def test_every_sample_is_in_one_batch(lengths, options, shuffle, num_buckets, scheme):
    sampler = FixedBucketSampler(
        lengths, 8, num_buckets, shuffle=shuffle, bucket_scheme=scheme, seed=0, **options
    )
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert sorted(flat(batches)) == list(range(len(lengths)))
    assert all(type(i) is int for i in flat(batches))


def test_a_sample_is_in_the_bucket_that_pads_it_least():
    keys = [(10, 10), (5, 20), (20, 20), (4, 4)]
    lengths = np.array([(5, 10), (5, 15), (1, 1), (4, 5), (11, 1), (10, 9)])
    sampler = FixedBucketSampler(lengths, 10, bucket_keys=keys)
    assert sampler.bucket_keys == [(4, 4), (5, 20), (10, 10), (20, 20)]
    assert list(sampler) == [[4], [0, 3, 5], [1], [2]]


def test_the_longest_come_first():
    sampler = FixedBucketSampler([3, 9, 2, 8, 4, 1], 2, bucket_keys=[4, 9])
    assert list(sampler) == [[1, 3], [0, 2], [4, 5]]


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda keys: [np.int64(key) for key in keys]])
def test_keys_may_be_ints_of_numpy(kind):
    sampler = FixedBucketSampler(LENGTHS.tolist(), 8, bucket_keys=kind([100, 50, 50]))
    assert sampler.bucket_keys == [50, 100]
    assert sampler.batch_sizes == {50: 8, 100: 8}


def test_two_buckets_of_eight_make_two_batches():
    assert len(FixedBucketSampler(range(1, 17), 8, num_buckets=2)) == 2


def test_short_buckets_have_larger_batches():
    sampler = FixedBucketSampler([1, 5, 10, 40], 8, bucket_keys=[1, 5, 10, 40], ratio=0.5)
    assert sampler.batch_sizes == {1: 160, 5: 32, 10: 16, 40: 8}
    pairs = FixedBucketSampler([(1, 3), (30, 10)], 8, bucket_keys=[(1, 3), (30, 10)], ratio=1.0)
    assert pairs.batch_sizes == {(1, 3): 80, (30, 10): 8}


def test_a_ratio_without_effect_is_refused():
    with pytest.raises(ValueError, match=r"FixedBucketSampler: ratio=0\.5 has no effect"):
        FixedBucketSampler([5, 9, 6], 8, bucket_keys=[6, 9], ratio=0.5)
    with pytest.raises(ValueError, match=r"ratio=1 has no effect"):
        FixedBucketSampler([1, 9], 8, bucket_keys=[1, 9], ratio=1, batch_sizes={1: 8})
    assert FixedBucketSampler([5, 9, 6], 8, bucket_keys=[6, 9], ratio=1).batch_sizes == {6: 12, 9: 8}
    assert len(FixedBucketSampler([5, 5, 5], 2, ratio=0.5)) == 2  # one bucket
    assert len(FixedBucketSampler([], 2, ratio=0.5)) == 0


def test_the_ratio_is_of_the_greatest_bucket_that_is_not_empty():
    sampler = FixedBucketSampler([1, 5], 8, bucket_keys=[1, 5, 1000], ratio=1)
    assert sampler.batch_sizes == {1: 40, 5: 8}


def test_by_average_length_a_batch_has_so_many_elements():
    sampler = FixedBucketSampler([2, 4, 100, 300], 120, bucket_keys=[4, 300], use_average_length=True)
    assert sampler.batch_sizes == {4: int(120 / (3 + 1)), 300: 1}


def test_batch_sizes_can_be_given():
    sampler = FixedBucketSampler(LENGTHS, 8, bucket_keys=[20, 50, 100, 1000], batch_sizes={20: 40, 1000: 1})
    assert sampler.batch_sizes == {20: 40, 50: 8, 100: 8}
    assert max(len(batch) for batch in sampler) == 40


def test_shuffled_epochs_differ_come_back_and_stay_in_their_buckets():
    sampler = FixedBucketSampler(LENGTHS, 8, 5, shuffle=True, seed=0)
    first, second = list(sampler), list(sampler)
    assert first != second
    assert sorted(map(sorted, first)) != sorted(map(sorted, second))  # samples change their batches
    bucket = np.searchsorted(sampler.bucket_keys, LENGTHS)
    assert all(len({bucket[i] for i in batch}) == 1 for batch in first)
    order = [bucket[batch[0]] for batch in first]
    assert order != sorted(order, reverse=True)
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(FixedBucketSampler(LENGTHS, 8, 5, shuffle=True, seed=1)) != first


def test_short_batches_can_be_discarded():
    sampler = FixedBucketSampler(LENGTHS, 8, 5, last="discard")
    assert {len(batch) for batch in sampler} == {8}
    assert len(list(sampler)) == len(sampler)
    keys = np.searchsorted(sampler.bucket_keys, LENGTHS)
    assert len(sampler) == sum(np.bincount(keys) // 8)


def test_stats_describe_the_buckets():
    assert FixedBucketSampler([3, 9, 2, 8, 4], 2, bucket_keys=[5, 7, 9]).stats() == (
        "FixedBucketSampler: 5 samples, 3 batches\n"
        "key 5: 3 samples, 2 per batch\n"
        "key 9: 2 samples, 2 per batch"
    )


@pytest.mark.parametrize("keys", [None, [5], []])
def test_no_samples_make_no_batches(keys):
    sampler = FixedBucketSampler([], 8, bucket_keys=keys, num_shards=2)
    assert [len(sampler), list(sampler)] == [0, []]


@for_each(
    ("options", "error", "message"),
    [
        ({"bucket_keys": [3, 5]}, ValueError, r"got 9 for sample 1; the keys are \[3, 5\]"),
        ({"lengths": [3, -1]}, ValueError, "lengths must be at least 0, got -1 at position 1"),
        ({"lengths": [3.5, math.nan]}, ValueError, "lengths must be at least 0, got nan at position 1"),
        (
            {"lengths": [(1, 2), (3, -1)]},
            ValueError,
            r"lengths must be at least 0, got \(3, -1\) at position 1",
        ),
        ({"lengths": [(1, 2), (3,)]}, TypeError, "lengths must be numbers, or tuples of so many"),
        ({"lengths": ["1"]}, TypeError, r"lengths must be numbers, .* got \['1'\]"),
        ({"lengths": [True]}, TypeError, "lengths must be numbers"),
        ({"lengths": 5}, TypeError, "lengths must be numbers"),
        ({"bucket_keys": [(9, 9)]}, ValueError, "bucket_keys must have 1 number.s. each"),
        ({"bucket_keys": [-1, 9]}, ValueError, "bucket_keys must be at least 0, got -1"),
        ({"batch_size": 0}, ValueError, "must be a positive int"),
        ({"batch_size": True}, TypeError, "must be a positive int"),
        ({"num_buckets": 0}, ValueError, "num_buckets must be a positive int, got 0"),
        ({"ratio": -0.5}, ValueError, "ratio must be a number of at least 0, got -0.5"),
        ({"ratio": "1"}, TypeError, "ratio must be a number of at least 0, got '1'"),
        ({"shuffle": 1}, TypeError, "shuffle must be a bool"),
        ({"use_average_length": 1}, TypeError, "use_average_length must be a bool"),
        ({"bucket_scheme": 5}, TypeError, "bucket_scheme must be callable, got 5"),
        ({"bucket_scheme": 0}, TypeError, "bucket_scheme must be callable, got 0"),
        ({"batch_sizes": {44: 2}}, ValueError, "batch_sizes must be for bucket keys, got 44"),
        ({"batch_sizes": {9: 0}}, ValueError, "batch_sizes must be a positive int"),
        ({"last": "pad"}, ValueError, "last must be 'keep' or 'discard', got 'pad'"),
        ({"num_shards": -1}, ValueError, "num_shards must be an int of at least 0, got -1"),
        ({"last_group": "keep"}, ValueError, "last_group must be 'overlap', 'discard' or 'fewer'"),
        ({"seed": -1}, ValueError, "seed must be an int of at least 0"),
    ],
)
def test_fixed_bucket_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"FixedBucketSampler: .*{message}"):
        FixedBucketSampler(**{"lengths": [3, 9], "batch_size": 2, **options})


# -------------------------------------------------------------------- shards


def samplers_in_shards(num_shards, last_group):
    common = {"num_shards": num_shards, "last_group": last_group, "seed": 0, "shuffle": True}
    return [
        FixedBucketSampler(LENGTHS, 8, 5, **common),
        SortedBucketSampler(LENGTHS, 7, 3, **common),
        TokenBudgetBatchSampler(LENGTHS, 500, **common),
    ]


@for_each("num_shards", [1, 2, 3, 7, 1000])
@for_each("last_group", ["overlap", "discard", "fewer"])
@for_each("which", range(3))
def test_groups_have_as_many_batches_as_there_are_shards(num_shards, last_group, which):
    single = list(samplers_in_shards(0, last_group)[which])
    sampler = samplers_in_shards(num_shards, last_group)[which]
    groups = list(sampler)
    count, rest = divmod(len(single), num_shards)
    assert len(sampler) == len(groups) == count + (rest > 0 and last_group != "discard")
    assert groups[:count] == [single[i * num_shards : (i + 1) * num_shards] for i in range(count)]
    if rest and last_group == "overlap":
        assert len(groups[-1]) == num_shards
        assert groups[-1][-rest:] == single[-rest:]
        if count:
            assert groups[-1] == single[-num_shards:]
    if rest and last_group == "fewer":
        assert groups[-1] == single[-rest:]


def test_more_shards_than_batches_lose_nothing():
    single = list(FixedBucketSampler([1, 2, 3, 4], 2))
    (group,) = FixedBucketSampler([1, 2, 3, 4], 2, num_shards=10)
    assert len(group) == 10
    assert {tuple(batch) for batch in group} == {tuple(batch) for batch in single}
    assert sum(map(len, group)) >= 4
    assert list(FixedBucketSampler([1, 2, 3, 4], 2, num_shards=10, last_group="fewer")) == [single]
    assert list(FixedBucketSampler([1, 2, 3, 4], 2, num_shards=10, last_group="discard")) == []


def test_batches_can_be_shared_between_processes():
    whole = FixedBucketSampler(LENGTHS, 8, 5, shuffle=True, seed=0)
    shares = [ShardedSampler(FixedBucketSampler(LENGTHS, 8, 5, shuffle=True, seed=0), 3, r) for r in range(3)]
    assert {i for share in shares for i in flat(share)} == set(flat(whole))


def test_a_loader_reads_in_buckets():
    loader = DataLoader(LENGTHS, batch_sampler=FixedBucketSampler(LENGTHS, 8, 5, shuffle=True, seed=0))
    assert sorted(np.concatenate(list(loader)).tolist()) == sorted(LENGTHS.tolist())


# -------------------------------------------------------------------- sorted buckets


@for_each("n", [0, 1, 9, 10, 11, 37])
@for_each("k", [1, 3, 4])
@for_each("mult", [1, 1.5, 2.6, 100])
@for_each("shuffle", [False, True])
def test_runs_are_partitioned_and_the_length_is_what_is_given(n, k, mult, shuffle):
    keys = LENGTHS[:n].tolist()
    sampler = SortedBucketSampler(keys, k, mult, shuffle=shuffle, seed=0)
    batches = list(sampler)
    assert len(sampler) == len(batches)
    assert sorted(flat(batches)) == list(range(n))
    assert all(type(i) is int for i in flat(batches))
    assert all(keys[a] >= keys[b] for batch in batches for a, b in itertools.pairwise(batch))


def test_a_run_is_sorted_and_cut():
    keys = [5, 1, 4, 2, 3, 9, 8, 7, 6, 0]
    assert list(SortedBucketSampler(keys, 2, 2.5)) == [[0, 2], [4, 3], [1], [5, 6], [7, 8], [9]]
    assert list(SortedBucketSampler(keys, 2, 2.5, reverse=False))[:3] == [[1, 3], [4, 2], [0]]
    assert len(SortedBucketSampler(keys, 2, 2.5)) == 6  # and not ceil(10 / 2)


def test_shuffled_runs_differ_from_epoch_to_epoch():
    sampler = SortedBucketSampler(LENGTHS, 8, 4, shuffle=True, seed=0)
    first, second = list(sampler), list(sampler)
    assert sorted(map(sorted, first)) != sorted(map(sorted, second))
    tops = [LENGTHS[batch].max() for batch in first[:4]]
    assert any(
        [LENGTHS[batch].max() for batch in first[i : i + 4]] != sorted(tops, reverse=True)
        for i in range(0, 32, 4)
    )
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_keys_of_a_run_may_be_of_any_kind():
    assert list(SortedBucketSampler(["b", "c", "a"], 2)) == [[1, 0], [2]]
    assert list(SortedBucketSampler([(1, 2), (1, 3), (0, 9)], 2, reverse=False)) == [[2, 0], [1]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sort_keys": 5}, TypeError, "sort_keys should be a sequence or an array, but got 5"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive int"),
        ({"mult": 0.5}, ValueError, "mult must be a number of at least 1, got 0.5"),
        ({"mult": True}, TypeError, "mult must be a number of at least 1, got True"),
        ({"reverse": 1}, TypeError, "reverse must be a bool"),
        ({"shuffle": 1}, TypeError, "shuffle must be a bool"),
    ],
)
def test_sorted_bucket_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"SortedBucketSampler: {message}"):
        SortedBucketSampler(**{"sort_keys": [1, 2], "batch_size": 2, **options})


# -------------------------------------------------------------------- budgets


@given(
    lengths=st.lists(st.integers(1, 30), max_size=60),
    max_tokens=st.one_of(st.none(), st.integers(30, 200)),
    max_samples=st.integers(1, 20),
    multiple=st.integers(1, 5),
    sort=st.booleans(),
    shuffle=st.booleans(),
)
def test_batches_are_a_partition_within_the_budget(lengths, max_tokens, max_samples, multiple, sort, shuffle):
    sampler = TokenBudgetBatchSampler(
        lengths, max_tokens, max_samples, multiple, sort=sort, shuffle=shuffle, seed=0
    )
    for _ in range(2):
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert sorted(flat(batches)) == list(range(len(lengths)))
        for batch in batches:
            assert 1 <= len(batch) <= max_samples
            assert len(batch) * max(lengths[i] for i in batch) <= (max_tokens or math.inf)
            assert len(batch) % multiple == 0 or len(batch) < multiple


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=40), max_tokens=st.integers(30, 99))
def test_a_batch_ends_only_where_the_next_sample_exceeds_the_budget(lengths, max_tokens):
    batches = list(TokenBudgetBatchSampler(lengths, max_tokens, sort=False))
    assert flat(batches) == list(range(len(lengths)))
    for batch, after in itertools.pairwise(batches):
        assert (len(batch) + 1) * max(lengths[i] for i in [*batch, after[0]]) > max_tokens


@pytest.mark.parametrize("sort", [False, True])
def test_an_oversize_sample_is_refused_or_alone(sort):
    lengths = [3, 50, 4, 60, 2, 2]
    with pytest.raises(ValueError, match=r"at most max_tokens=12, got 50 for sample 1\. With oversize"):
        TokenBudgetBatchSampler(lengths, 12, sort=sort)
    batches = list(TokenBudgetBatchSampler(lengths, 12, sort=sort, oversize="alone"))
    assert [1] in batches
    assert [3] in batches
    assert sorted(flat(batches)) == list(range(6))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 12 for batch in batches)


def test_a_sample_of_just_the_budget_fits():
    assert list(TokenBudgetBatchSampler([12, 6, 6], 12)) == [[1, 2], [0]]


def test_of_tuples_the_greatest_length_counts():
    assert list(TokenBudgetBatchSampler([(1, 6), (6, 2), (1, 1)], 12, sort=False)) == [[0, 1], [2]]


def test_sorted_batches_pad_less():
    def padded(sort):
        batches = TokenBudgetBatchSampler(LENGTHS, 800, sort=sort)
        return sum(len(batch) * LENGTHS[batch].max() for batch in batches)

    assert LENGTHS.sum() <= padded(True) < 1.1 * LENGTHS.sum() < padded(False)


def test_a_shuffled_budget_changes_batches_and_their_order():
    lengths = np.repeat([1, 2, 3], 30)
    sampler = TokenBudgetBatchSampler(lengths, 12, shuffle=True, seed=0)
    first, second = list(sampler), list(sampler)
    assert sorted(map(sorted, first)) != sorted(map(sorted, second))
    longest = [lengths[batch].max() for batch in first]
    assert longest != sorted(longest)
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_neighbours_stay_together_when_their_batches_are_shuffled():
    plain = list(TokenBudgetBatchSampler(LENGTHS, 800, sort=False))
    shuffled = list(TokenBudgetBatchSampler(LENGTHS, 800, sort=False, shuffle=True, seed=0))
    assert plain != shuffled
    assert sorted(plain) == sorted(shuffled)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_tokens": None}, ValueError, "max_tokens or max_samples must be given"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be a number of tokens or seconds above 0"),
        ({"max_tokens": "9"}, TypeError, "max_tokens must be a number of tokens or seconds above 0"),
        ({"max_samples": -1}, ValueError, "max_samples must be a positive int, got -1"),
        ({"multiple": 0}, ValueError, "multiple must be a positive int, got 0"),
        ({"lengths": [-1]}, ValueError, "lengths must be at least 0, got -1 at position 0"),
        ({"oversize": "own"}, ValueError, "oversize must be 'error' or 'alone', got 'own'"),
        ({"sort": 1}, TypeError, "sort must be a bool"),
        ({"shuffle": 1}, TypeError, "shuffle must be a bool"),
    ],
)
def test_token_budget_batch_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"TokenBudgetBatchSampler: {message}"):
        TokenBudgetBatchSampler(**{"lengths": [3, 4], "max_tokens": 9, **options})


# -------------------------------------------------------------------- seconds, and samples of length 0


def test_a_shuffled_bucket_is_drawn_once_an_epoch():
    n, drawn = 200_000, []
    sampler = FixedBucketSampler(np.ones(n, int), 16, shuffle=True, seed=0)
    permuted = fixed_buckets._shuffled
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixed_buckets, "_shuffled", lambda *given: (drawn.append(1), permuted(*given))[1])
        for epoch in range(2):
            assert sorted(chain(*sampler)) == list(range(n))
            assert len(drawn) == epoch + 1


SECONDS = [1.5, 0, 2.5, 3.0, 0.25, 0, 12.75]


@for_each("lengths", [SECONDS, np.array(SECONDS, np.float32), [0, 0, 3, 5]])
@for_each("scheme", [ConstWidthBucket(), LinearWidthBucket(), ExpWidthBucket(1.5)])
@for_each("options", [{}, {"ratio": 2}, {"use_average_length": True}])
def test_lengths_in_seconds_and_of_0_are_bucketed(lengths, scheme, options):
    sampler = FixedBucketSampler(lengths, 2, 3, bucket_scheme=scheme, **options)
    assert sorted(chain(*sampler)) == list(range(len(lengths)))
    keys = sampler.bucket_keys
    assert keys == sorted(keys)
    assert keys[-1] == max(lengths)
    for batch in sampler:
        longest = max(lengths[i] for i in batch)
        assert any(longest <= key for key in keys)
    assert "samples" in sampler.stats()


def test_samples_of_length_0_fill_batches_of_batch_size():
    assert list(FixedBucketSampler([0, 0, 0], 2)) == [[0, 1], [2]]
    sampler = FixedBucketSampler([0, 0, 0, 4], 2, bucket_keys=[0, 4], ratio=3, seed=0)
    assert sampler.batch_sizes == {0: 2, 4: 6}
    sampler = FixedBucketSampler([0, 0, 0, 4], 8, bucket_keys=[0, 4], use_average_length=True)
    assert sampler.batch_sizes == {0: 8, 4: 2}


def test_schemes_of_floats_are_not_rounded():
    assert ConstWidthBucket()(1.0, 0.0, 4) == [0.25, 0.5, 0.75, 1.0]
    assert ExpWidthBucket(2)(15.0, 0.0, 4) == pytest.approx([1, 3, 7, 15])
    assert LinearWidthBucket()(10.0, 0.0, 4) == pytest.approx([1, 3, 6, 10])
    assert ConstWidthBucket()(2.5, 2.5, 3) == [2.5]
    assert ConstWidthBucket()((1.0, 4.5), (0.0, 0.5), 2) == [(0.5, 2.5), (1.0, 4.5)]


def test_budgets_in_seconds_hold_samples_of_length_0():
    assert list(TokenBudgetBatchSampler(SECONDS, 5.5, oversize="alone")) == [[1, 5, 4], [0, 2], [3], [6]]
    assert list(TokenBudgetBatchSampler([0, 0, 0, 1], 2, 2)) == [[0, 1], [2, 3]]
    assert list(BudgetBatchSampler(range(4), SECONDS, 5.5)) == [[0, 1], [2], [3]]
    assert list(BudgetBatchSampler(range(4), np.array(SECONDS), 5.5)) == [[0, 1], [2], [3]]
    with pytest.raises(ValueError, match=r"at most max_tokens=5.5, got 12.75 for sample 6"):
        TokenBudgetBatchSampler(SECONDS, 5.5)
    for length, error in ((math.nan, ValueError), (-1, ValueError), ("3", TypeError), (True, TypeError)):
        with pytest.raises(error, match="BudgetBatchSampler: lengths must be"):
            list(BudgetBatchSampler(range(2), [1, length], 5))


# -------------------------------------------------------------------- states and budgets


def test_a_ratio_besides_the_average_length_is_refused():
    with pytest.raises(ValueError, match=r"ratio=0\.5 has no effect .*without use_average_length"):
        FixedBucketSampler([2, 4], 12, 1, ratio=0.5, use_average_length=True)
    assert FixedBucketSampler([2, 4], 12, 1, use_average_length=True).batch_sizes == {4: 3}


@given(
    lengths=st.lists(st.integers(1, 30), max_size=60),
    max_tokens=st.one_of(st.none(), st.integers(30, 200)),
    max_samples=st.integers(1, 20),
)
def test_a_budget_over_a_sampler_cuts_as_early_as_it_must(lengths, max_tokens, max_samples):
    batches = list(BudgetBatchSampler(range(len(lengths)), lengths, max_tokens, max_samples))
    known = TokenBudgetBatchSampler(lengths, max_tokens, max_samples, sort=False)
    assert batches == list(known)


def test_a_budget_over_a_sampler_reads_keys_lazily():
    keys = iter(["a", "bb", "cccc", "d"])
    sampler = BudgetBatchSampler(keys, len, max_tokens=4)
    batches = iter(sampler)
    assert next(batches) == ["a", "bb"]
    assert next(keys) == "d"
    with pytest.raises(TypeError, match="BudgetBatchSampler has no length"):
        len(sampler)


def test_an_oversize_key_is_refused_or_alone():
    with pytest.raises(ValueError, match=r"at most max_tokens=4, got 9\.0 for sample 1"):
        list(BudgetBatchSampler([0, 1], [3, 9], 4))
    assert list(BudgetBatchSampler([0, 1, 0], [3, 9], 4, oversize="alone")) == [[0], [1], [0]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "max_tokens or max_samples must be given"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be a number of tokens or seconds above 0"),
        ({"max_samples": "2"}, TypeError, "max_samples must be a positive int, got '2'"),
        ({"max_tokens": 3, "oversize": "drop"}, ValueError, "oversize must be 'error' or 'alone'"),
        ({"max_tokens": 3, "lengths": 5}, TypeError, "lengths: a sequence needs .i. and usually len"),
        ({"max_tokens": 3, "sampler": 5}, TypeError, "sampler should be an iterable of indices"),
    ],
)
def test_budget_batch_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"BudgetBatchSampler: {message}"):
        BudgetBatchSampler(**{"sampler": [0], "lengths": [1], **options})


# -------------------------------------------------------------------- budgets and processes


def test_budgets_over_a_share_are_refused_and_shares_of_budgets_are_even():
    for share in (
        DistributedSampler(200, 2, 0),
        ShardedSampler(range(200), 2, 0),
        BatchSampler(DistributedSampler(200, 2, 0), 2),
        sk.shard(range(200), 0, 2),
    ):
        with pytest.raises(ValueError, match=r"BudgetBatchSampler: sampler is the share .*ShardedSampler\("):
            BudgetBatchSampler(share, LENGTHS, 500)
    assert list(BudgetBatchSampler(DistributedSampler(4, 1, 0, False), LENGTHS, max_samples=4)) == [
        [0, 1, 2, 3]
    ]
    for even in ("pad", "drop"):
        shares = [
            list(
                ShardedSampler(
                    BudgetBatchSampler(sk.shuffle(range(200), seed=0), LENGTHS, 500), 2, rank, even=even
                )
            )
            for rank in range(2)
        ]
        assert len(shares[0]) == len(shares[1]) > 10
