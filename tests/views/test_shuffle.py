"""`shuffle`: orders that are random, complete, and the same for ever."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.randomness import Permutation
from seqkit.testing import UnsizedSource

from ..helpers import Naturals

# -------------------------------------------------------------------- arguments


def test_a_sequence_without_length_cannot_be_shuffled() -> None:
    with pytest.raises(TypeError, match="shuffle: the sequence"):
        sk.shuffle(Naturals())
    with pytest.raises(TypeError, match="its end is only known once it is reached"):
        sk.shuffle(UnsizedSource("ab"))


def test_a_sequence_too_long_for_64_bits_cannot_be_shuffled() -> None:
    class Long(Naturals):
        def __init__(self) -> None:
            sk.View.__init__(self, (), 2**63)

    with pytest.raises(ValueError, match="shuffle: the sequence"):
        sk.shuffle(Long())


# -------------------------------------------------------------------- the same for ever


@pytest.mark.parametrize(
    ("n", "seed", "epoch", "order"),
    [
        (10, 0, 0, [9, 7, 3, 0, 6, 5, 8, 1, 4, 2]),
        (10, 1, 0, [4, 2, 8, 7, 6, 1, 0, 9, 3, 5]),
        (10, 0, 1, [6, 9, 0, 8, 5, 2, 7, 4, 1, 3]),
        (65_535, 0, 0, [33971, 29916, 5799, 20867]),
        (65_536, 0, 0, [3776, 16155, 48198, 18707]),
        (10**12, 0, 0, [656480342013, 652046931468, 199798054937, 103560460831]),
        (2**63 - 1, 7, 3, [8938935310697048692, 2531520798153480882, 6379718861608497114]),
    ],
)
def test_orders_never_change_between_versions(n: int, seed: int, epoch: int, order: list[int]) -> None:
    view = sk.shuffle(range(n), seed=seed, epoch=epoch)
    assert [view[i] for i in range(len(order))] == order
    assert list(view[: len(order)]) == order


def test_seed_none_draws_a_seed_once_and_keeps_it() -> None:
    view = sk.shuffle(range(1000))
    assert list(view) == list(view) == list(pickle.loads(pickle.dumps(view)))
    assert list(view) != list(sk.shuffle(range(1000)))


def test_the_global_generators_are_left_alone() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    list(sk.random_map(lambda x, rng: rng.normal(), sk.shuffle(range(100), seed=0), seed=0))
    list(sk.shuffle(range(10**6))[:100])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]


# -------------------------------------------------------------------- seeds, epochs, places


def order(**options: Any) -> list[int]:
    return list(sk.shuffle(range(1000), **options))


def test_seeds_and_epochs_give_different_orders_and_cannot_stand_for_each_other() -> None:
    orders = {tuple(order(seed=seed, epoch=epoch)) for seed in range(6) for epoch in range(6)}
    assert len(orders) == 36


def test_at_epoch_is_the_order_of_that_epoch_from_any_epoch() -> None:
    view = sk.shuffle(range(1000), seed=3)
    assert list(view.at_epoch(5)) == order(seed=3, epoch=5)
    assert list(view.at_epoch(5).at_epoch(0)) == list(view)
    assert list(view.at_epoch(0)) == list(view)


def test_two_shuffles_of_one_seed_in_one_pipeline_differ() -> None:
    once = sk.shuffle(range(1000), seed=0)
    again = [once[i] for i in sk.shuffle(range(1000), seed=0)]
    assert list(sk.shuffle(once, seed=0)) != again


def test_views_without_randomness_do_not_change_the_order() -> None:
    plain = sk.shuffle(range(1000), seed=0)
    mapped = sk.shuffle(sk.smap(lambda x: x, sk.batch(range(1000), 1)), seed=0)
    assert [row[0] for row in mapped] == list(plain)


def test_a_name_replaces_the_position_in_the_pipeline_as_salt() -> None:
    base = sk.shuffle(range(1000), seed=1)
    named = sk.shuffle(base, seed=0, name="outer")
    assert [base[:].index(x) for x in named[:5]] == order(seed=0, name="outer")[:5]
    assert order(seed=0, name="a") != order(seed=0, name="b") != order(seed=0)


def test_a_slice_of_a_shuffle_is_part_of_the_same_order() -> None:
    whole = order(seed=2)
    assert list(sk.shuffle(range(1000), seed=2)[100:900:7]) == whole[100:900:7]


# -------------------------------------------------------------------- permutations


def is_permutation(permutation: Permutation) -> bool:
    found = permutation.many(range(permutation.n))
    return np.array_equal(np.sort(found), np.arange(permutation.n))


def test_every_length_up_to_2000_is_permuted() -> None:
    assert all(is_permutation(Permutation(n, key=n * 7 + 1)) for n in range(2001))


@pytest.mark.parametrize("n", [*range(65_533, 65_540), 65_793, 70_001, 131_071, 131_073, 262_144])
def test_lengths_around_the_end_of_the_table_are_permuted(n: int) -> None:
    permutation = Permutation(n, key=5)
    assert is_permutation(permutation)
    places = [0, 1, n // 2, n - 2, n - 1]
    assert [permutation.one(i) for i in places] == permutation.many(places).tolist()


@pytest.mark.parametrize("n", [2**16, 10**9, 2**40 + 3, 2**62 + 1, 2**63 - 1])
def test_large_permutations_are_the_same_one_by_one_and_many_at_once(n: int) -> None:
    permutation = Permutation(n, key=99)
    places = [0, 1, 2, n // 3, n // 2, n - 2, n - 1, *range(5000, 5100)]
    found = permutation.many(np.array(places))
    assert found.tolist() == [permutation.one(i) for i in places]
    assert len(set(found.tolist())) == len(places)
    assert found.min() >= 0
    assert int(found.max()) < n


@pytest.mark.parametrize("run", [range(1), range(4090, 4100), range(100, 8300), range(199_990, 200_000)])
def test_short_runs_come_out_of_whole_blocks(run: range) -> None:
    permutation = Permutation(200_000, key=4)
    assert permutation.many(run).tolist() == [permutation.one(i) for i in run]
    assert permutation.many(run).tolist() == permutation.many(list(run)).tolist()


def test_changing_a_returned_block_does_not_change_the_permutation() -> None:
    permutation = Permutation(100_000, key=4)
    first = permutation.many(range(10))
    wanted = first.tolist()
    first[:] = 0
    assert permutation.many(range(10)).tolist() == wanted


def test_a_shuffle_pickles_small_after_use_too() -> None:
    for n in (60_000, 10**9):
        view = sk.shuffle(range(n), seed=0)
        view[5]
        list(view[:5])
        assert len(pickle.dumps(view)) < 1000


# -------------------------------------------------------------------- uniformity


def tables(n: int, keys: range) -> Iterator[np.ndarray[Any, Any]]:
    for key in keys:
        # Keys as nodes have them: hashed, not 0, 1, 2.
        yield np.array(sk.shuffle(range(n), seed=key)._permutation.many(range(n)))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("n", "seeds"), [(5, 12_000), (10, 4000), (100, 600), (1000, 120)])
def test_positions_and_neighbours_are_uniform(n: int, seeds: int) -> None:
    positions, neighbours = np.zeros((n, n)), np.zeros((n, n))
    chi_positions, chi_neighbours, blocks = 0.0, 0.0, max(1, 1000 // n**2 * 4)
    for block in range(blocks):
        positions[:], neighbours[:] = 0, 0
        size = seeds // blocks
        for table in tables(n, range(block * size, (block + 1) * size)):
            np.add.at(positions, (np.arange(n), table), 1)
            np.add.at(neighbours, (table[:-1], table[1:]), 1)
        expected = size / n
        chi_positions += ((positions - expected) ** 2 / expected).sum() / (n * (n - 1)) / blocks
        off_diagonal = neighbours[~np.eye(n, dtype=bool)]
        chi_neighbours += ((off_diagonal - expected) ** 2 / expected).sum() / (n - 1) ** 2 / blocks
    assert 0.9 < chi_positions < 1.1
    assert 0.9 < chi_neighbours < 1.1


@pytest.mark.parametrize("n", [65_537, 100_000, 300_000])
def test_the_cipher_spreads_positions_and_neighbours_evenly(n: int) -> None:
    bins = 64
    for seed in range(3):
        table = sk.shuffle(range(n), seed=seed)._permutation.many(range(n))  # type: ignore[attr-defined]
        cells = table * bins // n
        for pairs in ((np.arange(n) * bins // n, cells), (cells[:-1], cells[1:]), (cells[:-2], cells[2:])):
            counts = np.zeros((bins, bins))
            np.add.at(counts, pairs, 1)
            expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum()
            chi = ((counts - expected) ** 2 / expected).sum() / (bins - 1) ** 2
            assert 0.9 < chi < 1.1


def test_epochs_of_one_seed_are_independent() -> None:
    n, epochs = 50, 400
    view = sk.shuffle(range(n), seed=0)
    counts = np.zeros((n, n))
    for epoch in range(epochs):
        one, other = view.at_epoch(epoch), view.at_epoch(epoch + 1)
        np.add.at(counts, (np.array(list(one)), np.array(list(other))), 1)
    expected = epochs / n
    assert 0.9 < ((counts - expected) ** 2 / expected).sum() / (n * (n - 1)) < 1.1
