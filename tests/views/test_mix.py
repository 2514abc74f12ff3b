"""What is special about `mix`: whose turn it is, in exact proportion and at any index."""

import pickle
from fractions import Fraction
from itertools import chain, islice, pairwise

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.failing import Failure, by_iteration
from seqkit.views.bases.order_digest import order_digest
from seqkit.views.epochs import epochs
from seqkit.views.mix.mix import mix
from seqkit.views.mix.schedule import Schedule, in_stages
from seqkit.views.mix.shares import Shares
from seqkit.views.repeat import repeat

from ..helpers import Naturals, agree_after_errors


def turns_of(view, n):
    return view._turns.many(range(n))[0]


def random_shares():
    rng = np.random.default_rng(0)
    for number in range(60):
        k = int(rng.integers(1, 10))
        shares = rng.integers(1, (3, 30, 900)[number % 3], k)
        yield number, tuple((shares // np.gcd.reduce(shares)).tolist())
    yield 0, (1,)
    yield 1, (1,) * 50
    yield 2, (1999, 1)
    yield 3, (1, 1, 1, 997)


# -------------------------------------------------------------------- turns


@pytest.mark.parametrize(("key", "shares"), list(random_shares()))
def test_up_to_any_index_every_share_is_met_within_one_item(key, shares):
    turns, period = Schedule(shares, key), sum(shares)
    n = 2 * turns.block + 7
    which, ranks = turns.many(range(n))
    index = np.arange(1, n + 1)
    for number, share in enumerate(shares):
        had = np.cumsum(which == number)
        assert (np.abs(had * period - share * index) < period).all()
        assert (ranks[which == number] == np.arange(had[-1])).all()


@pytest.mark.parametrize(("key", "shares"), list(random_shares())[::6])
def test_all_ways_to_ask_whose_turn_it_is_agree(key, shares):
    turns = Schedule(shares, key)
    n = 2 * turns.block + 7
    which, ranks = turns.many(range(n))
    for i in (*range(0, n, 97), turns.block - 1, turns.block, n - 1):
        assert turns.at(i) == (which[i], ranks[i])
        assert turns.before(i) == [int((which[:i] == number).sum()) for number in range(len(shares))]
    assert list(turns.each(3, n)) == which[3:].tolist()
    assert list(turns.each(n, n)) == []
    assert list(islice(turns.each(turns.block, float("inf")), 5)) == which[:5].tolist()
    scattered = np.array([5, 0, n - 1, 5], np.uint32)
    assert [column.tolist() for column in turns.many(scattered)] == [
        which[scattered].tolist(),
        ranks[scattered].tolist(),
    ]


def test_far_indices_cost_no_more():
    turns = Schedule((3, 1), key=5)
    far = turns.block * 10**12
    assert turns.at(far + 2) == (turns.at(2)[0], turns.at(2)[1] + far * (3, 1)[turns.at(2)[0]] // 4)
    assert turns.before(far) == [far * 3 // 4, far // 4]


def test_keys_give_other_turns_of_the_same_shares():
    orders = {tuple(Schedule((7, 2, 1), key).many(range(100))[0].tolist()) for key in range(20)}
    assert len(orders) == 20


def test_every_turn_falls_to_every_sequence_as_often_as_its_share():
    shares, keys = (5, 3, 2), 400
    counts = np.zeros((3, 40))
    for key in range(keys):
        which = Schedule(shares, key).many(range(500, 540))[0]
        for number in range(3):
            counts[number] += which == number
    # Not just on the whole: no place in the rhythm belongs to one of them.
    for number, share in enumerate(shares):
        found = counts[number].reshape(4, 10).mean(axis=1) / keys
        assert np.allclose(found, share / 10, atol=0.02)
    assert counts[1:].max() / keys < 0.75


def test_with_equal_shares_rounds_are_random_permutations():
    firsts = np.zeros(3)
    for key in range(300):
        which = Schedule((1, 1, 1), key).many(range(30))[0]
        rounds = which.reshape(10, 3)
        assert (np.sort(rounds, axis=1) == [0, 1, 2]).all()
        firsts += np.bincount(rounds[:, 0], minlength=3)
    assert np.allclose(firsts / 3000, 1 / 3, atol=0.05)


def test_the_turns_of_a_key_never_change_between_versions():
    assert "".join(map(str, Schedule((3, 2, 1), key=7).many(range(24))[0])) == "100120012010100201010210"


# -------------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        (None, (1, 1, 1)),
        ([2, 4, 6], (1, 2, 3)),
        ([0.7, 0.2, 0.1], (7, 2, 1)),
        ((0.5, 0.25, 0.25), (2, 1, 1)),
        (np.array([0.1, 0.2, 0.7], np.float32), (1, 2, 7)),
        (np.array([10, 20, 30]), (1, 2, 3)),
        ([Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)], (1, 1, 1)),
        ([1 / 3, 1 / 3, 1 / 3], (1, 1, 1)),
        ([1 / 3, 1 / 6, 1 / 2], (2, 1, 3)),
        (iter([1e-4, 1, 1]), (1, 10000, 10000)),
    ],
)
def test_weights_are_ratios_as_they_are_written(weights, shares):
    assert mix(["a", "b", "c"], weights, seed=0)._turns.shares == shares


@pytest.mark.parametrize(
    "weights", [[123456, 98765], [0.1234567, 0.5, 0.3765433], [1, 2**0.5, 3**0.5, 5**0.5]]
)
def test_odd_weights_are_met_within_parts_in_ten_thousand(weights):
    shares = np.array(mix([repeat(0)] * len(weights), weights, seed=0)._turns.shares)
    assert shares.sum() <= 2**14 + len(weights)
    assert np.abs(shares / shares.sum() / (np.array(weights) / sum(weights)) - 1).max() < 2e-4


# -------------------------------------------------------------------- ends


def lengths_and_weights():
    rng = np.random.default_rng(2)
    for number in range(40):
        k = int(rng.integers(1, 5))
        yield number, rng.integers(0, 30, k).tolist(), rng.integers(1, 9, k).tolist()


@pytest.mark.parametrize(("seed", "lengths", "weights"), list(lengths_and_weights()))
def test_it_ends_with_the_first_that_would_run_out(seed, lengths, weights):
    sources = [[(which, j) for j in range(n)] for which, n in enumerate(lengths)]
    view = mix(sources, weights, seed)
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    assert len(view) == min(int(n / share) for n, share in zip(lengths, shares, strict=True))
    found = list(view)
    for which, share in enumerate(shares):
        mine = [j for number, j in found if number == which]
        assert mine == list(range(len(mine)))
        assert abs(len(mine) - share * len(view)) < 1
    assert any(share * (len(view) + 1) > n for n, share in zip(lengths, shares, strict=True))


def test_a_sequence_that_starts_again_has_another_order_in_each_pass():
    order = sk.shuffle(range(5), seed=0)
    for passes, n in ((None, 34), (4, 34)):
        view = mix([["x"] * 17, epochs(order, passes)], seed=1)
        assert len(view) == n
        assert [x for x in view if x != "x"] == list(islice(epochs(order), 17))
    assert [x for x in view.at_epoch(1) if x != "x"] == list(epochs(order)[20:37])


def test_sequences_of_another_length_in_another_epoch_make_a_mixture_of_another_length():
    noisy = sk.random_map(lambda x, rng: int(rng.integers(2)), range(9), seed=0)
    view = mix([sk.filter(bool, noisy), range(100, 140)], [1, 2], seed=0)
    for epoch in range(5):
        keyed = view.at_epoch(epoch)
        assert list(keyed) == [keyed[i] for i in range(len(keyed))]
        assert len(keyed) == 3 * len(sk.filter(bool, noisy).at_epoch(epoch))


def test_sequences_that_all_start_again_never_end():
    view = mix([epochs("ab"), epochs("xyz"), repeat(0)], [2, 1, 1], seed=0)
    found = list(islice(view, 4000))
    assert found == [view[i] for i in range(4000)] == list(view[:4000])
    assert [x for x in found if x in ("a", "b")] == ["a", "b"] * 1000
    assert [x for x in found if x in ("x", "y", "z")] == (["x", "y", "z"] * 334)[:1000]
    assert view[10**15] in [*"abxyz", 0]
    with pytest.raises(TypeError, match="mix has no length"):
        len(view)


def test_endless_sequences_end_nothing():
    assert len(mix(["abc", Naturals()], seed=0)) == 6
    endless = mix([Naturals(), repeat("-")], [1, 2], seed=0)
    assert sorted(x for x in islice(endless, 9) if x != "-") == [0, 1, 2]


def test_empty_sequences_end_it_at_once():
    assert list(mix(["", "abc"], seed=0)) == []


# -------------------------------------------------------------------- randomness


def test_the_turns_depend_on_seed_epoch_and_place_only():
    view = mix(["a" * 50, "b" * 50], seed=3)
    assert list(view) == list(mix([["a"] * 50, ["b"] * 50], seed=3)) == list(view.at_epoch(0))
    assert list(view.at_epoch(2)) != list(view)
    assert list(view.at_epoch(2)) == list(view.at_epoch(1).at_epoch(2))
    assert list(mix(["a" * 50, "b" * 50], seed=4)) != list(view)
    salted = mix([sk.shuffle("a" * 50, 0), "b" * 50], seed=3)
    assert list(salted) != list(view)
    named = [mix([s, "b" * 50], seed=3, name="m") for s in ("a" * 50, sk.shuffle("a" * 50, 0))]
    assert list(named[0]) == list(named[1])
    assert list(mix(["a" * 50, "b" * 50])) != list(mix(["a" * 50, "b" * 50]))


def test_what_is_random_beneath_and_above_is_keyed_too():
    order = sk.shuffle(range(10), seed=0)
    view = sk.shuffle(mix([order, ["x"] * 10], seed=0), seed=0)
    assert view._random_count == 3
    mixed = mix([order, ["x"] * 10], seed=0).at_epoch(2)
    assert [x for x in mixed if x != "x"] == list(order.at_epoch(2))


# -------------------------------------------------------------------- reading


def test_only_the_sequence_whose_turn_it_is_is_read():
    source = CountingSource("ab")
    view = mix([source, ExplodingSource("cd")], [1000, 1], seed=0)
    first = next(i for i in range(9) if view._turns.at(i)[0] == 0)
    assert view[first] == "a"
    assert source.reads == {0: 1}


def test_building_makes_no_table_and_pickles_carry_none():
    view = mix(["ab", "cd"], [1, 2], seed=0)
    assert len(view) == 3
    assert "_table" not in vars(view._turns)
    small = len(pickle.dumps(view))
    list(view)
    assert len(pickle.dumps(view)) == small
    assert list(pickle.loads(pickle.dumps(view))) == list(view)


def test_each_sequence_streams_through_its_own_iterator():
    class Streams(sk.View):
        def __init__(self, n):
            super().__init__((), n)
            self.plans = []

        def _get(self, i):
            return i

        def _iter(self, plan):
            self.plans.append(plan)
            return iter(plan)

        def _getmany(self, indices):
            self.plans.append(list(indices))
            return list(indices)

    one, other = Streams(30), Streams(10)
    view = mix([one, other], [3, 1], seed=0)
    list(view)
    assert (one.plans, other.plans) == ([range(30)], [range(10)])
    list(view[8:20])
    assert (one.plans[1], other.plans[1]) == (range(6, 15), range(2, 5))
    sk.batch(view, 8)[1]
    assert (one.plans[2], other.plans[2]) == ([6, 7, 8, 9, 10, 11], [2, 3])


@pytest.mark.parametrize(
    "plan", [range(9), range(2, 7), range(8, -1, -1), [3, 3, 0, 8], np.array([5, 1])], ids=str
)
def test_sequences_that_are_read_ahead_learn_their_part_of_every_plan(plan):
    expected = list(mix(["abcdef", range(3)], [2, 1], seed=0))
    with sk.prefetch("abcdef", 0) as letters, sk.prefetch(range(3), 0) as numbers:
        view = mix([letters, numbers], [2, 1], seed=0)
        assert list(view._iter(plan)) == [expected[i] for i in plan]


def test_a_failing_item_fails_alone():
    view = mix([FailingSource(range(6), {1, 2}), FailingSource(range(3), {0})], [2, 1], seed=0)
    found = agree_after_errors(view)
    assert sum(isinstance(item, Failure) for item in found) == 3
    assert by_iteration(view._iter(range(2, 8))) == found[2:8]
    with pytest.raises(sk.EvaluationError, match=r"path: mix\[\d\] → source\["):
        [view[i] for i in range(9)]


def test_a_sequence_that_fails_for_good_ends_it_after_the_error():
    node = sk.prefetch(range(1000), 2, max_buffered=4)
    items = iter(mix([node, range(1000)], seed=0))
    assert next(items) == next(items) == 0
    node.close()
    found = by_iteration(items)
    assert [item.cause for item in found if isinstance(item, Failure)] == [
        "PrefetchError('prefetch: the node is closed; restart() starts it anew')"
    ]
    assert isinstance(found[-1], Failure) or found[-1] < 20


def test_writing_goes_to_the_sequence_whose_turn_it_is():
    first, second = [0, 0, 0, 0], [0, 0]
    view = mix([first, second], [2, 1], seed=0)
    view[:] = range(6)
    assert sorted(first + second) == list(range(6))
    assert list(view) == list(range(6))
    view = mix([epochs([0]), first], seed=0)
    view[0] = view[1] = "x"
    assert list(view[:2]) == ["x", "x"]


def test_its_repr_shows_the_weights_as_small_numbers():
    view = mix(["ab", "cd"], [0.75, 0.25], seed=2)
    assert repr(view) == "mix([<str of 2>, <str of 2>], weights=[3, 1], seed=2)"
    assert repr(view.at_epoch(1)) == "mix([<str of 2>, <str of 2>], weights=[3, 1], seed=2, epoch=1)"
    assert repr(mix(["a"] * 9, seed=0)).endswith("…], weights=[1, 1, 1, 1, 1, 1, ...], seed=0)")


def test_a_weight_may_be_one_in_16384():
    assert len(mix(["a", "b" * 99999], [1, 16382.9999999])) == 16384


# -------------------------------------------------------------------- stages


def random_stages():
    rng = np.random.default_rng(4)
    for number in range(40):
        k = int(rng.integers(1, 7))
        starts = (0, *sorted({*rng.integers(1, 2000, int(rng.integers(1, 4))).tolist()}))
        stages = rng.integers(0, (4, 30, 900)[number % 3], (len(starts), k))
        stages[stages.sum(axis=1) == 0, 0] = 1
        yield number, Shares(starts, tuple(map(tuple, stages.tolist())))


@pytest.mark.parametrize(("key", "shares"), list(random_stages()))
def test_shares_that_change_are_met_within_one_item_at_every_index(key, shares):
    turns = in_stages(shares, key)
    n = shares.starts[-1] + 1500
    which, ranks = turns.many(range(n))
    for number in range(len(shares.shares[0])):
        had = np.cumsum(which == number)
        assert (ranks[which == number] == np.arange(had[-1])).all()
        for index in {*range(0, n, 67), *shares.starts, n - 1}:
            assert abs(had[index] - shares.ideal(number, index + 1)) < 1


@pytest.mark.parametrize(("key", "shares"), list(random_stages())[::8])
def test_all_ways_to_ask_for_the_turns_of_stages_agree(key, shares):
    turns = in_stages(shares, key)
    n = shares.starts[-1] + 1500
    which, ranks = turns.many(range(n))
    for i in (*range(0, n, 97), *shares.starts, n - 1):
        assert turns.at(i) == (which[i], ranks[i])
        assert turns.before(i) == np.bincount(which[:i], minlength=len(shares.shares[0])).tolist()
    assert list(turns.each(3, n)) == which[3:].tolist()
    assert list(islice(turns.each(n, float("inf")), 5)) == turns.many(range(n, n + 5))[0].tolist()


def test_one_stage_is_the_same_as_no_stages():
    sources = [range(90), range(100, 130)]
    assert list(mix(sources, {0: [3, 1]}, seed=0)) == list(mix(sources, [3, 1], seed=0))


def test_positions_are_carried_over_from_stage_to_stage():
    view = mix([range(100), range(100, 200)], {0: [9, 1], 40: [1, 1], 60: [0, 1]}, seed=0)
    for which in (0, 1):
        mine = [x % 100 for x in view if x // 100 == which]
        assert mine == [*range(len(mine))]
    first, second, third = list(view[:40]), list(view[40:60]), list(view[60:])
    assert sum(x < 100 for x in first) == 36
    assert sum(x < 100 for x in second) == 10
    assert min(third) == 114
    assert len(third) == 86
    assert view[10**2] == list(view)[100]


def test_stages_end_where_their_shares_end():
    for lengths in ([50, 9], [9, 50], [7, 7]):
        sources = [[(which, j) for j in range(n)] for which, n in enumerate(lengths)]
        shares = Shares((0, 12), ((3, 1), (1, 3)))
        met = [[shares.ideal(which, i) for i in range(200)] for which in (0, 1)]
        first = mix(sources, {0: [3, 1], 12: [1, 3]}, seed=1)
        assert len(first) == max(i for i in range(200) if all(met[w][i] <= lengths[w] for w in (0, 1)))


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({1: [1, 1]}, ValueError, "stages of weights must be in ascending order, from 0 on, got \\[1\\]"),
        ({0: [1, 1], 9: [1, 1], 5: [1, 1]}, ValueError, "in ascending order"),
        ({}, ValueError, "from 0 on, got \\[\\]"),
        ({0: [1, 1], -3: [1, 1]}, ValueError, "a stage of weights must be an int of at least 0, got -3"),
        ({0: [1, 1], 2.5: [1, 1]}, TypeError, "a stage of weights must be an int"),
        ({0: [1, 1], 5: [1]}, ValueError, "weights must be as many as the sequences, 2, got 1"),
        ({0: [0, 0]}, ValueError, "a weight of each stage must be above 0, got only zeros"),
        ({0: [1, -1]}, ValueError, "a weight must be at least 0, got -1"),
        ({"a": 1, "b": 2}, TypeError, "weights"),
    ],
)
def test_stages_that_make_no_sense_are_refused(weights, error, message):
    with pytest.raises(error, match=f"mix: .*{message}"):
        mix(["ab", "cd"], weights, seed=0)


def test_a_sequence_without_a_share_to_the_end_cannot_be_read_whole():
    with pytest.raises(ValueError, match="with stop='all' each last weight must be above 0"):
        mix(["ab", "cd"], {0: [1, 1], 2: [1, 0]}, seed=0, stop="all")


# -------------------------------------------------------------------- stop="all"


@pytest.mark.parametrize(("seed", "lengths", "weights"), list(lengths_and_weights()))
def test_all_items_are_read_once(seed, lengths, weights):
    sources = [[(which, j) for j in range(n)] for which, n in enumerate(lengths)]
    view = mix(sources, weights, seed, stop="all")
    found = list(view)
    assert len(view) == len(found) == sum(lengths)
    assert [view[i] for i in range(len(view))] == found
    for which, n in enumerate(lengths):
        assert [j for number, j in found if number == which] == [*range(n)]


@pytest.mark.parametrize(("seed", "lengths", "weights"), list(lengths_and_weights()))
def test_between_two_ends_all_that_is_left_has_its_share(seed, lengths, weights):
    found = list(mix([[which] * n for which, n in enumerate(lengths)], weights, seed, stop="all"))
    ends = sorted(len(found) - found[::-1].index(which) for which in {*found})
    for start, stop in pairwise([0, *ends]):
        left = {*found[start:]}
        for which in left:
            share = Fraction(weights[which], sum(weights[w] for w in left))
            for i in range(start, stop):
                assert abs(found[start : i + 1].count(which) - share * (i + 1 - start)) < 1


def test_all_of_stages_reads_each_item_once():
    view = mix([range(30), range(100, 150)], {0: [1, 0], 20: [1, 3]}, seed=0, stop="all")
    assert sorted(view) == [*range(30), *range(100, 150)]
    assert max(view[:20]) == 19
    view = mix([range(5), range(100, 150)], {0: [1, 0], 20: [1, 3]}, seed=0, stop="all")
    assert list(view) == [*range(5), *range(100, 150)]


def test_all_with_an_endless_sequence_never_ends():
    view = mix(["abc", Naturals()], seed=0, stop="all")
    assert [x for x in islice(view, 40) if isinstance(x, str)] == ["a", "b", "c"]
    assert view[10**6] == 10**6 - 3


# -------------------------------------------------------------------- sizes


def sized_sources(seed, k=3, n=200):
    rng = np.random.default_rng(seed)
    sizes = [np.maximum(rng.lognormal(4, 1, n), 1).astype(int) for _ in range(k)]
    return [[(which, j) for j in range(n)] for which in range(k)], sizes


@pytest.mark.parametrize("weights", [[50, *[1] * 7], [9, 9, *[1] * 6], [20, 8, 5, 3, 2, 1, 1, 1]])
def test_a_sequence_is_at_most_its_own_item_ahead_of_its_share(weights):
    rng = np.random.default_rng(0)
    sizes = [rng.integers(50, 101, 300) for _ in weights]
    had, due = np.zeros(8), np.zeros(8)
    for which, j in mix([[(w, j) for j in range(300)] for w in range(8)], weights, seed=0, sizes=sizes):
        due += np.array(weights) / sum(weights) * sizes[which][j]
        had[which] += sizes[which][j]
        assert had[which] - due[which] < sizes[which][j]
        assert (due - had).max() < 100


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weights", [[1, 1, 1], [8, 3, 1], {0: [9, 1, 0], 60: [1, 1, 2]}])
def test_shares_of_tokens_are_met_within_one_item_at_every_index(seed, weights):
    sources, sizes = sized_sources(seed)
    view = mix(sources, weights, seed, sizes=sizes)
    stages = weights if isinstance(weights, dict) else {0: weights}
    most, had, due = max(size.max() for size in sizes), np.zeros(3), np.zeros(3)
    for i, (which, j) in enumerate(view):
        shares = np.array(stages[max(start for start in stages if start <= i)])
        due += shares / shares.sum() * sizes[which][j]
        had[which] += sizes[which][j]
        assert np.abs(had - due).max() <= most
    for which in range(3):
        mine = [j for number, j in view if number == which]
        assert mine == [*range(len(mine))]
    assert any((np.array([sum(number == which for number, _ in view) for which in range(3)])) == 200)
    assert [view[i] for i in range(len(view))] == list(view)


def test_all_items_with_sizes_are_read_once():
    sources, sizes = sized_sources(0, n=50)
    view = mix(sources, [8, 3, 1], seed=0, sizes=sizes, stop="all")
    assert sorted(view) == sorted(chain.from_iterable(sources))
    assert len(view) == 150


def test_sizes_follow_the_epoch_like_their_sequences():
    _, (lengths, others) = sized_sources(0, k=2, n=60)
    texts, more = lengths.tolist(), (-others).tolist()
    view = mix([sk.shuffle(texts, seed=1), more], [1, 1], seed=0, sizes=[sk.shuffle(lengths, seed=1), others])
    for epoch in range(3):
        had = due = 0
        for size in view.at_epoch(epoch):
            due += abs(size) / 2
            had += max(size, 0)
            assert abs(had - due) <= max(lengths.max(), others.max())


def test_packs_of_one_capacity_are_mixed_by_tokens_without_sizes():
    lengths = sized_sources(1, k=2, n=300)[1]
    packs = [sk.bins(each, 400, long="clip") for each in lengths]
    marked = [sk.smap(lambda rows, which=which: (which, rows), packs[which]) for which in (0, 1)]
    tokens = np.zeros(2)
    for which, rows in mix(marked, [3, 1], seed=0)[:40]:
        tokens[which] += (rows[:, 2] - rows[:, 1]).sum()
    assert abs(tokens[0] / tokens.sum() - 0.75) < 0.05


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ([[1, 1]], ValueError, "sizes must be as many as the sequences, 2, got 1"),
        ([[1, 1], [1, 0]], ValueError, "sizes must be ints of at least 1 for each sequence"),
        ([[1, 1], [1.5, 1]], ValueError, "sizes must be ints of at least 1 for each sequence"),
        ([[1, 1], [1]], ValueError, "sizes must be as many as the items of a sequence, 2, got 1"),
        (3, TypeError, "sizes must be an iterable"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, error, message):
    with pytest.raises(error, match=f"mix: {message}"):
        len(mix(["ab", "cd"], seed=0, sizes=sizes))


# -------------------------------------------------------------------- names


def noisy(n, seed=0):
    return sk.random_map(lambda x, rng: (x, int(rng.integers(10**9))), sk.shuffle(range(n), seed), seed)


def test_a_child_draws_the_same_numbers_wherever_it_stands():
    def children(*names):
        return {name: sk.smap(lambda item, name=name: (name, item), noisy(30)) for name in names}

    alone = mix(children("web", "books"), seed=0, stop="all")
    inserted = mix(children("code", "web", "talk", "books"), seed=0, stop="all")
    for epoch in (0, 2):
        for name in ("web", "books"):
            own = [item for key, item in alone.at_epoch(epoch) if key == name]
            assert own == [item for key, item in inserted.at_epoch(epoch) if key == name]
        kinds = [[x for key, x in inserted.at_epoch(epoch) if key == name] for name in ("code", "web")]
        assert kinds[0] != kinds[1]
        assert sorted(x for x, _ in kinds[0]) == sorted(x for x, _ in kinds[1])


def test_every_kind_of_random_view_depends_on_the_name():
    numbers = sk.view(range(200))
    child = sk.epochs(sk.smap(abs, sk.shuffle_buffer(sk.shuffle_groups(numbers, 10, seed=1), 20, seed=2)), 2)
    found = [list(mix({name: child}, seed=0, stop="all")) for name in ("a", "b", "a")]
    assert found[0] == found[2] != found[1]
    assert sorted(found[0]) == sorted(child)
    assert found[0][:200] != found[0][200:]
    packed = [sk.bins([1] * 200, 3, long="split", seed=0)]
    one, other = (next(iter(mix({name: packed[0]}, seed=0))) for name in "ab")
    assert one.tolist() != other.tolist()


def test_pairs_within_a_named_child_stay_pairs():
    pair = sk.collate([sk.shuffle(range(50), seed=3), sk.shuffle(range(50), seed=3)])
    assert all(x == y for x, y in mix({"a": pair, "b": pair}, seed=0))


def test_a_node_below_a_named_child_keeps_its_workers():
    with sk.prefetch(noisy(20), 2, "thread") as node:
        assert sorted(x for x, _ in mix({"a": node}, seed=0)) == [*range(20)]
        assert mix({"a": node}, seed=0)._sources[0].engine is node.engine


def test_weights_and_sizes_go_by_name():
    children = {"web": range(90), "books": range(100, 130)}
    expected = list(mix(children, [3, 1], seed=0))
    assert list(mix(children, {"books": 1, "web": 3}, seed=0)) == expected
    assert list(mix(children, {0: {"books": 1, "web": 3}}, seed=0)) == expected
    sizes = {"books": [2] * 30, "web": [1] * 90}
    by_name = mix(children, {"books": 1, "web": 1}, seed=0, sizes=sizes)
    assert list(by_name) == list(mix(children, [1, 1], seed=0, sizes=[[1] * 90, [2] * 30]))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: mix({1: "ab"}), TypeError, "names of sequences must be strings, got 1"),
        (
            lambda: mix({"a": "ab"}, {"b": 1}),
            ValueError,
            r"weights must name the sequences \['a'\], got",
        ),
        (lambda: mix({"a": "ab"}, {0: {"b": 1}}), ValueError, "weights must name the sequences"),
        (lambda: mix({"a": "ab"}, sizes={}), ValueError, "sizes must name the sequences"),
        (lambda: mix({}), ValueError, "at least one sequence"),
    ],
)
def test_names_that_do_not_fit_are_refused(build, error, message):
    with pytest.raises(error, match=f"mix: {message}"):
        build()


def test_mixtures_by_stages_sizes_and_names_pickle_and_have_fingerprints():
    sources, sizes = sized_sources(0, n=30)
    views = [
        mix(sources, {0: [9, 1, 0], 20: [1, 1, 1]}, seed=0),
        mix(sources, {0: [9, 1, 0], 21: [1, 1, 1]}, seed=0),
        mix(sources, seed=0, sizes=sizes),
        mix(sources, seed=0, sizes=sizes[::-1]),
        mix(sources, seed=0, stop="all"),
        mix(dict(zip("abc", sources, strict=True)), seed=0, stop="all"),
    ]
    for view in views:
        assert list(pickle.loads(pickle.dumps(view))) == list(view)
    assert len({order_digest(view) for view in views}) == 5  # a name without random views changes nothing
    assert repr(views[0]).endswith("<list of 30>], weights={0: [9, 1, 0], 20: [1, 1, 1]}, seed=0)")
    assert repr(views[2]).endswith("weights=[1, 1, 1], seed=0, sizes=…)")
    assert repr(views[4]).endswith("weights=[1, 1, 1], seed=0, stop='all')")
