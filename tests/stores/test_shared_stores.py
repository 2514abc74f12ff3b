"""Stores of several epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

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
