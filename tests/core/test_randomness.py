"""Keys, generators and permutations; how they are used is tested with `shuffle` and `random_map`."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqkit.core import randomness
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


def made_for(key: int, index: int) -> np.random.Generator:
    bits = np.random.Philox(key=key, counter=np.array([0, 0, index, 0], np.uint64))
    return np.random.Generator(bits)


def facts(rng: np.random.Generator) -> str:
    return repr((rng.bit_generator.state, rng.bit_generator.seed_seq))


@given(
    st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 2**63 - 1)), min_size=2),
    st.sampled_from(["random", "normal", "bytes"]),
    st.integers(0, 5),
)
def test_a_generator_that_is_used_again_has_the_state_of_a_new_one(
    items: list[tuple[int, int]], method: str, draws: int
) -> None:
    for key, index in items:
        rng, new = item_generator(key, index), made_for(key, index)
        assert facts(rng) == facts(new)
        for each in (rng, new):
            each.integers(9, size=draws, dtype=np.uint32)  # leaves half of a number
            getattr(each, method)(draws)
        assert facts(rng) == facts(new)


def identity(index: int) -> int:
    return id(item_generator(1, index))


def test_a_thread_uses_a_generator_again_that_nothing_refers_to() -> None:
    assert identity(0) == identity(1) == identity(2)


def state(kept: Any) -> str:
    return repr(getattr(kept, "bit_generator", kept).state)


@pytest.mark.parametrize("keep", [lambda rng: rng, lambda rng: rng.bit_generator])
def test_a_generator_that_is_kept_does_not_change(keep: Callable[[Any], Any]) -> None:
    item_generator(1, 9)
    kept = [keep(item_generator(1, index)) for index in range(3)]
    assert [state(each) for each in kept] == [state(made_for(1, index)) for index in range(3)]


def test_a_generator_in_the_traceback_of_an_error_does_not_change() -> None:
    def fail(rng: np.random.Generator) -> None:
        raise ValueError

    errors = []
    for index in range(2):
        try:
            fail(item_generator(1, index))
        except ValueError as error:
            errors.append(error)
    for index, error in enumerate(errors):
        assert error.__traceback__ is not None
        assert error.__traceback__.tb_next is not None
        assert facts(error.__traceback__.tb_next.tb_frame.f_locals["rng"]) == facts(made_for(1, index))


def test_each_thread_has_a_generator_of_its_own() -> None:
    barrier = threading.Barrier(2)

    def draw(index: int) -> int:
        rng = item_generator(1, index)
        barrier.wait()
        return int(rng.bit_generator.random_raw())

    with ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(draw, range(2)))
    assert drawn == [made_for(1, index).bit_generator.random_raw() for index in range(2)]


def test_a_signal_handler_that_draws_while_an_item_is_drawn_changes_nothing() -> None:
    """Run other draws after each line of the function, as a signal handler might."""
    seen = set()

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_name not in ("item_generator", "at"):
            return None
        if event == "line":
            sys.settrace(None)
            seen.add(frame.f_lineno)
            item_generator(7, frame.f_lineno).random(3)
            sys.settrace(trace)
        return trace

    item_generator(1, 0)
    before = sys.gettrace()
    try:
        for index in range(3):
            sys.settrace(trace)
            rng = item_generator(1, index)
            sys.settrace(before)
            assert facts(rng) == facts(made_for(1, index))
            del rng
    finally:
        sys.settrace(before)
    assert len(seen) > 10


def test_without_the_interpreter_lock_each_item_has_a_new_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqkit.core.randomness._HAS_LOCK", False)
    monkeypatch.setattr("seqkit.core.randomness._own.pair", None)
    for index in range(2):
        assert facts(item_generator(1, index)) == facts(made_for(1, index))
    assert randomness._own.pair is None


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
