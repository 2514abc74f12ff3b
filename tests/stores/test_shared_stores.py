"""Stores of several epochs, of several ranks, and of items that are named by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

N = 40


def data() -> sk.View[int]:
    return sk.smap(int, range(N))


def shuffled() -> sk.View[int]:
    return sk.shuffle(data(), seed=0)


def add(x: int, rng: np.random.Generator) -> int:
    return x + int(rng.integers(1000))


def refuse(x: int) -> int:
    raise AssertionError("the item should come from the store")


def test_the_epochs_of_one_view_share_a_store(tmp_path: Path) -> None:
    cached = sk.add_cache(shuffled(), store=tmp_path)
    passes = [list(cached.at_epoch(epoch)) for epoch in range(3)]
    again = sk.add_cache(sk.smap(refuse, shuffled()), store=tmp_path)
    assert [list(again.at_epoch(epoch)) for epoch in range(3)] == passes
    assert len(list(tmp_path.rglob("*.item"))) == 3 * N


def test_a_cache_keeps_the_items_of_its_view_and_of_epoch_0_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(x: int, rng: np.random.Generator) -> int:
        calls.append(x)
        return add(x, rng)

    options: list[dict[str, Any]] = [{"cache_size": 100}, {"cache_size": 0, "store": tmp_path}]
    for each in options:
        cached = sk.add_cache(sk.random_map(counted, data(), seed=0), **each)
        calls.clear()
        assert list(cached) == list(cached.at_epoch(0))
        assert len(calls) == N


def test_ranks_share_a_store_by_key(tmp_path: Path) -> None:
    """With `key` items are found by name, whatever their order."""
    for rank in range(2):
        share = sk.shard(data(), rank, 2, contiguous=False)
        cached = sk.add_cache(share, store=tmp_path, key=range(rank, N, 2).__getitem__)
        assert list(cached) == list(share)
    everything = sk.add_cache(sk.smap(refuse, data()), store=tmp_path, key=lambda i: i)
    assert list(everything) == list(data())


def test_a_sequence_without_a_length_is_refused_where_items_are_named_by_key(tmp_path: Path) -> None:
    unsized = sk.uniter(data)
    assert list(sk.add_cache(unsized, store=tmp_path)) == list(data())
    with pytest.raises(ValueError, match="another plan: order is"):
        sk.add_cache(unsized, store=tmp_path, key=lambda i: N - i)
