"""What is special about `mix`: whose turn it is, in exact proportion and at any index."""

import pickle
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.failing import Failure, by_iteration
from seqkit.views.epochs import epochs
from seqkit.views.mix import Schedule, mix
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


@pytest.mark.parametrize(("seed", "lengths", "weights"), list(lengths_and_weights()))
def test_it_ends_with_the_last_while_the_others_start_anew(seed, lengths, weights):
    lengths = [n + 1 for n in lengths]
    sources = [[(which, j) for j in range(n)] for which, n in enumerate(lengths)]
    view = mix(sources, weights, seed, stop="last")
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    assert len(view) == max(-int(-n // share) for n, share in zip(lengths, shares, strict=True))
    found = list(view)
    assert found == [view[i] for i in range(len(view))]
    for which, n in enumerate(lengths):
        mine = [j for number, j in found if number == which]
        assert len(mine) >= n
        assert mine == [j % n for j in range(len(mine))]


def test_sequences_that_start_anew_are_keyed_for_their_next_epoch():
    order = sk.shuffle(range(5), seed=0)
    for stop, n in (("last", 34), ("cycle", 34)):
        view = mix([["x"] * 17, order], seed=1, stop=stop)
        found = [x for x in islice(view, n) if x != "x"]
        assert found == list(islice(epochs(order), 17))
    again = mix([["x"] * 17, order], seed=1, stop="last").at_epoch(1)
    assert [x for x in again if x != "x"] == list(epochs(order)[20:37])


def test_sequences_of_another_length_in_another_epoch_make_a_mixture_of_another_length():
    noisy = sk.random_map(lambda x, rng: int(rng.integers(2)), range(9), seed=0)
    view = mix([sk.filter(bool, noisy), range(100, 140)], [1, 2], seed=0)
    for epoch in range(5):
        keyed = view.at_epoch(epoch)
        assert list(keyed) == [keyed[i] for i in range(len(keyed))]
        assert len(keyed) == 3 * len(sk.filter(bool, noisy).at_epoch(epoch))


def test_cycling_never_ends():
    view = mix(["ab", "xyz", repeat(0)], [2, 1, 1], seed=0, stop="cycle")
    found = list(islice(view, 4000))
    assert found == [view[i] for i in range(4000)] == list(view[:4000])
    assert [x for x in found if x in ("a", "b")] == ["a", "b"] * 1000
    assert [x for x in found if x in ("x", "y", "z")] == (["x", "y", "z"] * 334)[:1000]
    assert view[10**15] in [*"abxyz", 0]
    with pytest.raises(TypeError, match="mix has no length"):
        len(view)


def test_endless_sequences_end_nothing():
    assert len(mix(["abc", Naturals()], seed=0)) == 6
    for stop in ("last", "cycle"):
        view = mix(["abc", Naturals()], seed=0, stop=stop)
        assert [x for x in islice(view, 12) if isinstance(x, str)] == list("abcabc")
    endless = mix([Naturals(), repeat("-")], [1, 2], seed=0)
    assert sorted(x for x in islice(endless, 9) if x != "-") == [0, 1, 2]


def test_empty_sequences_end_it_at_once_or_are_refused():
    assert list(mix(["", "abc"], seed=0)) == []
    assert list(mix([[], []], seed=0, stop="last")) == []
    for stop, sources in (
        ("last", ["", "abc"]),
        ("cycle", ["", "abc"]),
        ("cycle", [""]),
        ("last", [[], repeat(0)]),
    ):
        with pytest.raises(ValueError, match="mix: an empty sequence"):
            mix(sources, seed=0, stop=stop)


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
    view = mix([[0], first], seed=0, stop="last")
    view[0] = view[1] = "x"
    assert list(view[:2]) == ["x", "x"]


def test_its_repr_shows_the_weights_as_small_numbers():
    view = mix(["ab", "cd"], [0.75, 0.25], seed=2)
    assert repr(view) == "mix([<str of 2>, <str of 2>], weights=[3, 1], seed=2)"
    assert repr(view.at_epoch(1)) == "mix([<str of 2>, <str of 2>], weights=[3, 1], seed=2, epoch=1)"
    assert repr(mix(["a"] * 9, seed=0)).endswith("…], weights=[1, 1, 1, 1, 1, …], seed=0)")


def test_a_weight_may_be_one_in_16384():
    assert len(mix(["a", "b" * 99999], [1, 16382.9999999])) == 16384
