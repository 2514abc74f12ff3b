"""What is special about `random_split`: every item in just one part, by length, by group, by class."""

import random
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import ExplodingSource
from seqkit.views.random_split import random_split


def lists(parts):
    return [list(part) for part in parts]


@pytest.mark.parametrize("lengths", [[10], [3, 7], [0, 4, 6], [1] * 10, [5, 5, 0]])
def test_parts_have_the_lengths_asked_for_and_every_item_once(lengths):
    parts = random_split(range(10), lengths, seed=0)
    assert [len(part) for part in parts] == lengths
    assert sorted(chain.from_iterable(parts)) == list(range(10))


def test_nothing_splits_into_nothing():
    assert random_split([], [], seed=0) == ()
    assert lists(random_split([], [0, 0], seed=0)) == [[], []]
    assert lists(random_split([], [0.5, 0.5], seed=0)) == [[], []]
    assert lists(random_split([], [0.5, 0.5], seed=0, groups=[])) == [[], []]
    assert lists(random_split([], [0.5, 0.5], seed=0, stratify=[])) == [[], []]
    assert lists(random_split("a", [1.0], seed=0)) == [["a"]]


@pytest.mark.parametrize(
    ("n", "fractions", "lengths"),
    [
        (106, [0.1, 0.2, 0.3, 0.4], [11, 22, 31, 42]),
        (100, [0.29, 0.71], [29, 71]),
        (100, [0.71, 0.29], [71, 29]),
        (10, [1 / 3, 1 / 3, 1 / 3], [4, 3, 3]),
        (3, [0.5, 0.5], [2, 1]),
        (1000, [0.7, 0.2, 0.1], [700, 200, 100]),
        (7, [1.0, 0.0], [7, 0]),
    ],
)
def test_fractions_are_rounded_down_and_the_rest_dealt_in_turn(n, fractions, lengths):
    assert [len(part) for part in random_split(range(n), fractions, seed=1)] == lengths
    assert [len(part) for part in random_split(range(n), np.array(fractions), seed=1)] == lengths


def test_a_fraction_of_0_stays_empty():
    third = 1 / 3
    parts = random_split(range(5), [0.0, third, 0, third, third], seed=0)
    assert [len(part) for part in parts] == [0, 2, 0, 2, 1]


def test_a_seed_determines_the_parts_and_no_global_generator_is_touched():
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first = lists(random_split(range(100), [60, 40], seed=3))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    random.seed(6)
    assert lists(random_split(range(100), [60, 40], seed=3)) == first
    assert lists(random_split(range(100), [60, 40], seed=4)) != first
    assert lists(random_split(range(100), [60, 40])) != lists(random_split(range(100), [60, 40]))


def test_the_parts_of_a_seed_never_change_between_versions():
    first, second = random_split("abcdefgh", [5, 3], seed=0)
    assert "".join(first) + " " + "".join(second) == "fhedc bag"


def test_parts_stay_the_same_in_every_epoch():
    noisy = sk.random_map(lambda x, rng: (x, rng.random()), range(20), seed=0)
    train, _ = random_split(noisy, [0.5, 0.5], seed=0)
    assert [x for x, _ in train] == [x for x, _ in train.at_epoch(1)]
    assert list(train) != list(train.at_epoch(1))


def test_random_items_keep_their_part():
    first, _ = random_split(sk.random_map(lambda i, rng: i, range(8), seed=0), [4, 4], seed=0)
    assert list(first.at_epoch(5)) == list(first)


def test_every_item_is_equally_likely_to_be_in_a_part():
    counts = Counter(x for seed in range(600) for x in random_split(range(20), [5, 15], seed=seed)[0])
    # Binomial(600, 1/4): mean 150, standard deviation 10.6
    assert all(110 < counts[x] < 190 for x in range(20))


def test_a_part_that_is_split_again_with_the_same_seed_is_dealt_out_anew():
    # Of 1000 items the first 500 dealt; then of those the first 250. Independent: half of either half.
    ranks = np.argsort([*random_split(range(1000), [1000], seed=0)[0]])
    half, _ = random_split(range(1000), [500, 500], seed=0)
    quarter, _ = random_split(half, [250, 250], seed=0)
    assert 95 < sum(ranks[x] < 250 for x in quarter) < 155


def test_nothing_is_read():
    parts = random_split(ExplodingSource(range(10)), [0.5, 0.5], seed=0, groups=[0] * 5 + [1] * 5)
    assert [len(part) for part in parts] == [5, 5]


def test_indices_take_as_little_memory_as_the_length_allows():
    for n, size in ((200, 1), (60_000, 2), (100_000, 4)):
        (part,) = random_split(range(n), [n], seed=0)
        assert part._map.itemsize == size
        assert sorted(part) == list(range(n))


# -------------------------------------------------------------------- groups


def random_groups():
    rng = np.random.default_rng(0)
    for number in range(60):
        n = int(rng.integers(1, 80))
        groups = rng.integers(0, rng.integers(1, 20), n)
        fractions = rng.dirichlet([1.0] * int(rng.integers(1, 5)))
        yield number, n, groups.tolist(), fractions.tolist()


@pytest.mark.filterwarnings("ignore:random_split. part .* is empty:UserWarning")
@pytest.mark.parametrize(("seed", "n", "groups", "fractions"), list(random_groups()))
def test_no_group_is_in_two_parts_and_no_part_too_long_by_a_group(seed, n, groups, fractions):
    wanted = [len(part) for part in random_split(range(n), fractions, seed=seed)]
    parts = lists(random_split(range(n), fractions, seed=seed, groups=groups))
    assert sorted(chain.from_iterable(parts)) == list(range(n))
    homes = [{groups[i] for i in part} for part in parts]
    assert sum(map(len, homes)) == len(set(groups))
    for part, length in zip(parts, wanted, strict=True):
        assert len(part) < length + max(Counter(groups).values())
        assert length or not part


def test_lengths_are_met_where_groups_allow_it():
    groups = [g for g in range(50) for _ in range(4)]
    for seed in range(20):
        parts = random_split(range(200), [0.8, 0.1, 0.1], seed=seed, groups=groups)
        assert [len(part) for part in parts] == [160, 20, 20]
    # One group that fits one part only, whatever came before it.
    for seed in range(20):
        parts = random_split(range(100), [80, 20], seed=seed, groups=[0] * 50 + [*range(1, 6)] * 10)
        assert [len(part) for part in parts] == [80, 20]


def test_every_group_is_as_likely_in_a_part_as_the_part_is_long():
    sizes = [1, 2, 3, 4, 5, 6] * 5
    groups = [g for g, size in enumerate(sizes) for _ in range(size)]
    counts = Counter()
    for seed in range(400):
        _, test = random_split(groups, [0.75, 0.25], seed=seed, groups=groups)
        counts.update(set(test))
    shares = [counts[g] / 400 for g in range(len(sizes))]
    assert 0.12 < min(shares) < max(shares) < 0.40


def test_groups_can_be_anything_hashable():
    names = ["ann", "bob", "ann", "eve", "bob", "eve"]
    for groups in (names, np.array(names), tuple(names), sk.smap(str, names), [(name, 1) for name in names]):
        first, second = random_split(names, [2, 4], seed=0, groups=groups)
        assert set(first).isdisjoint(second)
        assert len(first) == 2


# -------------------------------------------------------------------- classes


def random_classes():
    rng = np.random.default_rng(1)
    for number in range(80):
        n = int(rng.integers(1, 60))
        classes = rng.integers(0, rng.integers(1, 12), n)
        cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 5))))
        yield number, n, classes.tolist(), np.diff([0, *cuts, n]).tolist()


@pytest.mark.parametrize(("seed", "n", "classes", "lengths"), list(random_classes()))
def test_every_part_has_its_share_of_every_class_within_one_item_or_two(seed, n, classes, lengths):
    parts = lists(random_split(range(n), lengths, seed=seed, stratify=classes))
    assert [len(part) for part in parts] == lengths
    assert sorted(chain.from_iterable(parts)) == list(range(n))
    totals = Counter(classes)
    for part in parts:
        found = Counter(classes[i] for i in part)
        allowed = n if len(lengths) < 3 else 2 * n
        assert all(abs(found[c] * n - totals[c] * len(part)) < allowed for c in totals)


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7])
def test_a_small_class_is_rounded_to_the_nearest(members):
    classes = [0] * members + [1] * (100 - members)
    _, test = random_split(classes, [0.8, 0.2], seed=0, stratify=classes)
    assert list(test).count(0) == round(members * 0.2)


def test_within_a_class_items_are_assigned_at_random():
    classes = [0] * 30 + [1] * 10
    counts = Counter()
    for seed in range(300):
        first, _ = random_split(range(40), [0.2, 0.8], seed=seed, stratify=classes)
        counts.update(first)
    # 6 of 30 and 2 of 10 each time: mean 60, standard deviation 6.9
    assert all(30 < counts[x] < 90 for x in range(40))


def test_the_order_within_a_stratified_part_is_random():
    classes = [0] * 50 + [1] * 50
    part, _ = random_split(classes, [0.5, 0.5], seed=0, stratify=classes)
    assert 15 < sum(a != b for a, b in pairwise(part)) < 35


def test_a_thousand_classes_are_dealt_out():
    classes = [x // 3 for x in range(3000)]
    parts = random_split(range(3000), [0.5, 0.3, 0.2], seed=0, stratify=classes)
    for part, most in zip(parts, (2, 1, 1), strict=True):
        assert max(Counter(x // 3 for x in part).values()) == most


# -------------------------------------------------------------------- refused
