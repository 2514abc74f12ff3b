"""Keys, generators and permutations; how they are used is tested with `shuffle` and `random_map`."""

from __future__ import annotations

import pickle
from itertools import pairwise, product

import numpy as np
import pytest

from seqkit.core.randomness import Permutation, as_seed, item_generator, node_key


def test_keys_never_change_between_versions() -> None:
    assert node_key("shuffle", 0, 0, 0) == 268498571601751006486875910997693391323
    assert node_key("random_map", 7, 3, "noise") == 230644356122480565271893544151269720827


def test_every_part_of_a_key_counts() -> None:
    parts = product(["shuffle", "random_map"], [0, 1, 10**20], [0, 1], [0, 1, "0", "1", ""])
    keys = {node_key(*part) for part in parts}
    assert len(keys) == 60
    assert all(0 <= key < 2**128 for key in keys)


def test_seed_and_epoch_are_not_added() -> None:
    keys = [node_key("shuffle", seed, epoch, 0) for seed in range(30) for epoch in range(30)]
    assert len(set(keys)) == 900


def test_neighbouring_keys_share_no_more_bits_than_chance() -> None:
    keys = [node_key("shuffle", 0, epoch, 0) for epoch in range(500)]
    shared = [128 - (a ^ b).bit_count() for a, b in pairwise(keys)]
    assert 62 < sum(shared) / len(shared) < 66


def test_a_seed_drawn_from_the_system_is_another_each_time() -> None:
    assert len({as_seed(None, "shuffle: seed") for _ in range(100)}) == 100


def test_seeds_may_be_numpy_ints_and_of_any_size() -> None:
    assert as_seed(np.uint64(2**64 - 1), "x") == 2**64 - 1
    assert as_seed(10**40, "x") == 10**40


def test_an_items_generator_is_its_own_and_always_the_same() -> None:
    key = node_key("random_map", 0, 0, 0)
    first = item_generator(key, 5).bit_generator.random_raw(1000)
    assert first.tolist() == item_generator(key, 5).bit_generator.random_raw(1000).tolist()
    others = [item_generator(key, i).bit_generator.random_raw(1000) for i in (4, 6, 5 + 2**40)]
    seen = np.concatenate([first, *others])
    assert len(np.unique(seen)) == 4000


@pytest.mark.parametrize("n", [0, 1, 2, 65_535, 65_536, 10**12])
def test_a_permutation_is_its_length_and_key(n: int) -> None:
    permutation = Permutation(n, key=3)
    places = range(min(n, 50))
    wanted = permutation.many(places).tolist()
    again = pickle.loads(pickle.dumps(permutation))
    assert again.many(places).tolist() == wanted == [permutation.one(i) for i in places]


def test_different_keys_are_different_permutations() -> None:
    for n in (1000, 10**6):
        rows = {tuple(Permutation(n, key).many(range(20)).tolist()) for key in range(50)}
        assert len(rows) == 50
