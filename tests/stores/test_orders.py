"""A store belongs to one order of items: the same order reads what is there, another one is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

N = 40
Make = Callable[[], sk.View[Any]]


def data() -> sk.View[int]:
    return sk.smap(int, range(N))


def shuffled(seed: int = 0) -> sk.View[int]:
    return sk.shuffle(data(), seed=seed)


def part(k: int, seed: int = 0) -> sk.View[int]:
    return sk.random_split(data(), [0.5, 0.5], seed=seed)[k]


def share(rank: int, source: Make = data, **options: Any) -> sk.View[int]:
    return sk.shard(source(), rank, 4, **options)


def longer() -> sk.View[int]:
    return sk.view(range(N + 1))


def sums(rank: int) -> sk.View[int]:
    return sk.smap(sum, sk.batch(share(rank), 2))


def long_indices(k: int) -> sk.View[int]:
    return sk.gather(range(10**6), np.r_[np.arange(5000), k])


def drawn(seed: int) -> sk.View[int]:
    return sk.random_map(add, data(), seed=seed)


def ranks(make: Callable[..., sk.View[int]], **options: Any) -> dict[str, Make]:
    return {f"rank {rank}": partial(make, rank, **options) for rank in range(4)}


# Orders of equal length. Each is built twice: the store is its own, and no other's.
ORDERS: dict[str, dict[str, Make]] = {
    "shares": ranks(share),
    "shares of a shuffle": {
        **ranks(share, source=shuffled),
        "other seed": partial(share, 0, partial(shuffled, 1)),
        "no shuffle": partial(share, 0),
        "other world": lambda: sk.shard(shuffled(), 0, 2)[:10],
    },
    "padded shares": ranks(share, source=longer, even="pad"),
    "shortened shares": ranks(share, source=longer, even="drop"),
    "contiguous shares": {
        **ranks(share, contiguous=True),
        "by turns": partial(share, 0, contiguous=False),
    },
    "maps above shares": ranks(sums),
    "parts": {f"{k}, {seed}": partial(part, k, seed) for k in (0, 1) for seed in (0, 1)},
    "slices": {
        "first": lambda: data()[:20],
        "last": lambda: data()[20:],
        "even": lambda: data()[::2],
        "odd": lambda: data()[1::2],
        "backwards": lambda: data()[:20][::-1],
        "shuffled": lambda: shuffled()[:20],
        "rest of the shuffle": lambda: shuffled()[20:],
        "head": lambda: sk.shuffle(data()[:20], seed=0),
    },
    "index arrays": {
        "one": lambda: sk.gather(data(), [3, 1, 2]),
        "another": lambda: sk.gather(data(), [1, 3, 2]),
        "one that differs at the end": lambda: sk.gather(data(), [3, 1, 5]),
    },
    "long index arrays": {f"differs at {k}": partial(long_indices, k) for k in (1, 2, 3)},
    "epochs": {f"epoch {epoch}": partial(shuffled().at_epoch, epoch) for epoch in range(3)},
    "seeds": {f"seed {seed}": partial(shuffled, seed) for seed in range(3)},
    "random maps": {f"seed {seed}": partial(drawn, seed) for seed in range(3)},
    "several epochs": {
        "two": lambda: sk.epochs(shuffled(), 2),
        "repeated": lambda: sk.cycle(shuffled(), 2 * N),
    },
    "sequences together": {
        "one after the other": lambda: sk.concatenate([data(), range(N)]),
        "by turns": lambda: sk.interleave([data(), range(N)]),
    },
}


def add(x: int, rng: np.random.Generator) -> int:
    return x + int(rng.integers(1000))


def refuse(x: int) -> int:
    raise AssertionError("the item should come from the store")


@pytest.mark.parametrize("group", ORDERS)
def test_a_store_belongs_to_one_order(group: str, tmp_path: Path) -> None:
    views = {name: make() for name, make in ORDERS[group].items()}
    assert len({len(view) for view in views.values()}) == 1
    for name, view in views.items():
        items = list(view)
        assert list(sk.add_cache(view, store=tmp_path / name)) == items
        again = sk.add_cache(sk.smap(refuse, ORDERS[group][name]()), store=tmp_path / name)
        assert list(again) == items
        for other, wrong in views.items():
            if other != name:
                with pytest.raises(ValueError, match="another order"):
                    sk.add_cache(wrong, store=tmp_path / name)


def test_the_type_of_the_indices_does_not_matter(tmp_path: Path) -> None:
    for indices in ([3, 1, 2], np.array([3, 1, 2], np.int32), np.array([3, 1, 2], np.uint8)):
        assert list(sk.add_cache(sk.gather(data(), indices), store=tmp_path)) == [3, 1, 2]


def test_the_epochs_of_one_view_share_a_store(tmp_path: Path) -> None:
    cached = sk.add_cache(shuffled(), store=tmp_path)
    passes = [list(cached.at_epoch(epoch)) for epoch in range(3)]
    again = sk.add_cache(shuffled(), store=tmp_path)
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
    with pytest.raises(ValueError, match="another order"):
        sk.add_cache(unsized, store=tmp_path, key=lambda i: N - i)
