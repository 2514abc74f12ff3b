"""`kfold` and `time_split`: the parts of a cross-validation."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk


@given(st.integers(2, 60), st.data())
def test_each_item_is_in_one_fold_and_in_all_other_training_sets(n: int, data: st.DataObject) -> None:
    k, seed = data.draw(st.integers(2, n)), data.draw(st.none() | st.integers(0, 5))
    folds = sk.kfold(range(n), k, seed)
    assert sorted(x for _, test in folds for x in test) == list(range(n))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(n))
    lengths = [len(test) for _, test in folds]
    assert lengths == [n // k + (i < n % k) for i in range(k)]


def test_folds_without_a_seed_are_runs_and_with_one_they_are_drawn() -> None:
    assert [list(test) for _, test in sk.kfold("abcde", 2)] == [["a", "b", "c"], ["d", "e"]]
    drawn = [list(test) for _, test in sk.kfold(range(1000), 2, seed=0)]
    assert drawn == [list(test) for _, test in sk.kfold(range(1000), 2, seed=0)]
    assert drawn != [list(test) for _, test in sk.kfold(range(1000), 2, seed=1)]
    assert 200 < sum(x < 500 for x in drawn[0]) < 300


@pytest.mark.parametrize("seed", [None, 3])
def test_folds_are_the_same_in_every_epoch_whatever_is_shuffled_below(seed: int | None) -> None:
    order = sk.shuffle(range(30), seed=1)
    for train, test in sk.kfold(order, 3, seed):
        assert list(train) == list(train.at_epoch(5))
        assert list(test) == list(test.at_epoch(5))
        shuffled = sk.shuffle(train, seed=2)
        assert list(shuffled) != list(shuffled.at_epoch(1))
        assert sorted(shuffled.at_epoch(1)) == sorted(train)


def test_folds_of_a_large_sequence_need_no_memory() -> None:
    n = 10**12
    train, test = sk.kfold(range(n), 10, seed=0)[3]
    assert (len(train), len(test)) == (9 * n // 10, n // 10)
    assert test[7] not in train[:100]


@pytest.mark.parametrize("k", [1, 4])
def test_a_number_of_folds_that_makes_no_sense_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="kfold: k must be"):
        sk.kfold("abc", k)


# -------------------------------------------------------------------- times


# Each time occurs up to three times, so that no part is empty.
some_times = st.lists(st.integers(0, 90), min_size=8, max_size=30, unique=True).flatmap(
    lambda times: st.permutations([t for t in times for _ in range(1 + t % 3)])
)


@given(some_times, st.integers(1, 3), st.integers(0, 9))
def test_training_items_come_before_test_items_by_at_least_the_gap(
    times: list[int], k: int, gap: int
) -> None:
    pairs = sk.time_split(range(len(times)), times, k, gap=gap)
    assert len(pairs) == k
    tested = [i for _, test in pairs for i in test]
    assert len({*tested}) == len(tested)
    for past, test in pairs:
        first = min(times[i] for i in test)
        assert sorted(past) == [i for i, t in enumerate(times) if t < first and t <= first - gap]
        assert [times[i] for i in test] == sorted(times[i] for i in test)
    untested = {*range(len(times))} - {*tested}
    assert max(times[i] for i in untested) < min(times[i] for i in tested)


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        (np.datetime64("2026-01-01") + np.arange(8), np.timedelta64(2, "D")),
        (np.datetime64("2026-01-01", "ns") + np.arange(8) * np.timedelta64(1, "D"), np.timedelta64(2, "D")),
        (np.datetime64("2026-01-01") + np.arange(8), np.timedelta64(48 * 3600 * 10**9, "ns")),
        ([date(2026, 1, 1) + timedelta(i) for i in range(8)], timedelta(2)),
        (np.arange(8) * 0.5, 1.0),
    ],
    ids=["numpy", "nanoseconds", "gap in nanoseconds", "dates", "floats"],
)
def test_times_may_be_dates_or_numbers(times: Any, gap: Any) -> None:
    pairs = sk.time_split("abcdefgh", times, 1, gap=gap)
    assert ["".join(part) for part in pairs[0]] == ["abc", "efgh"]


@pytest.mark.parametrize(
    ("times", "k", "gap", "message"),
    [
        ([1, 2], 1, None, "one for each of 3 items, got 2"),
        ([1.0, float("nan"), 2.0], 1, None, "must not be missing, got nan"),
        ([1, 2, 3], 0, None, "k must be a positive int"),
        ([1, 2, 3], 3, None, "k must leave a time for each of 4 parts"),
        ([1, 1, 1], 1, None, "k must leave a time for each of 2 parts"),
        ([1, 2, 3], 1, -1, "gap must be at least 0, got -1"),
    ],
)
def test_times_that_cannot_be_split_are_refused(times: Any, k: int, gap: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"time_split: .*{message}"):
        sk.time_split("abc", times, k, gap=gap)
