"""A number for each draw: random numbers of its own, wherever the draw is computed."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.samplers import (
    BatchSampler,
    DistributedSampler,
    InfiniteSampler,
    NumberedSampler,
    RandomSampler,
    ShardedSampler,
    WeightedRandomSampler,
)
from seqkit.samplers.base import Sampler

N = 7
WAYS: dict[str, dict[str, Any]] = {
    "in process": {},
    "threads": {"num_workers": 2, "method": "thread"},
    "processes": {"num_workers": 2, "method": "process"},
}


def samples() -> Any:
    return sk.random_map(lambda i, rng: np.array([i, rng.random()]), sk.cycle(range(N)), seed=1)


def sampler() -> NumberedSampler:
    return NumberedSampler(WeightedRandomSampler(range(1, N + 1), 40, seed=0), N)


def rows(batches: Any) -> list[list[float]]:
    return [row.tolist() for batch in batches for row in batch]


def expected(epoch: int = 0) -> list[list[float]]:
    epoch_of = samples().at_epoch(epoch)
    return [epoch_of[key].tolist() for key in sampler().at_epoch(epoch)]


def test_keys_name_the_index_and_the_draw() -> None:
    numbered = NumberedSampler([2, 0, 2, 6], "x" * N)
    assert list(numbered) == [2, 0 + N, 2 + 2 * N, 6 + 3 * N]
    assert len(numbered) == 4
    assert [key % N for key in sampler()] == list(WeightedRandomSampler(range(1, N + 1), 40, seed=0))
    assert max(Counter(sampler()).values()) == 1


def test_an_order_that_must_be_iterated_is_numbered_too() -> None:
    endless = NumberedSampler(InfiniteSampler(range(3)), 3)
    assert endless.at_epoch(0) is None
    assert list(itertools.islice(endless, 7)) == [0, 4, 8, 9, 13, 17, 18]
    with pytest.raises(TypeError):
        len(endless)


def test_draws_of_an_index_have_numbers_of_their_own() -> None:
    assert len({number for _, number in expected()}) == 40
    same = sk.random_map(lambda i, rng: (i, rng.random()), range(N), seed=1)
    plain = WeightedRandomSampler(range(1, N + 1), 40, seed=0)
    assert len({number for _, number in (same[i] for i in plain)}) <= N


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batched", [False, True])
def test_draws_are_the_same_wherever_they_are_computed(way: str, batched: bool) -> None:
    given = (
        {"batch_sampler": BatchSampler(sampler(), 6)} if batched else {"sampler": sampler(), "batch_size": 6}
    )
    loader = sk.DataLoader(samples(), **given, **WAYS[way])
    assert [rows(loader), rows(loader)] == [expected(), expected(1)]


@pytest.mark.parametrize("way", WAYS)
def test_draws_are_the_same_after_a_resume(way: str) -> None:
    def loader() -> sk.DataLoader[Any]:
        return sk.DataLoader(samples(), 6, sampler=sampler(), **WAYS[way])

    first, second = loader(), loader()
    read = rows(itertools.islice(iter(first), 3))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert read + rows(second) == expected()


def test_draws_are_the_same_for_any_number_of_ranks() -> None:
    shares = [
        rows(sk.DataLoader(samples(), 5, sampler=ShardedSampler(sampler(), 4, rank))) for rank in range(4)
    ]
    assert [shares[k % 4][k // 4] for k in range(40)] == expected()


def test_draws_are_the_same_under_the_loader_of_torch() -> None:
    data = pytest.importorskip("torch.utils.data")
    read = list(data.DataLoader(samples(), batch_size=None, sampler=sampler(), num_workers=2))
    assert [row.tolist() for row in read] == expected()


@pytest.mark.parametrize("share", [DistributedSampler(9, 2, 0), sk.shard(range(9), 0, 2)])
def test_draws_are_numbered_before_they_are_dealt_out(share: Any) -> None:
    with pytest.raises(ValueError, match=r"Number the draws before .*ShardedSampler\(NumberedSampler"):
        NumberedSampler(share, 9)
    assert list(NumberedSampler(DistributedSampler(2, 1, 0, shuffle=False), 2)) == [0, 3]


def test_numbered_sampler_refuses_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="NumberedSampler: sampler should be an iterable"):
        NumberedSampler(3, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NumberedSampler: data_source"):
        NumberedSampler([1], -1)


def test_a_numbered_sampler_shares_the_epochs_of_its_sampler() -> None:
    inner = RandomSampler(N, seed=0)
    numbered: Sampler = NumberedSampler(inner, N)
    assert [key % N for key in numbered] == list(inner.at_epoch(0))
    assert [numbered.epoch, inner.epoch] == [1, 1]
    numbered.set_epoch(5)
    assert inner.epoch == 5
    gathered = sk.gather(samples(), numbered)
    assert len({number for _, number in gathered.at_epoch(3)}) == N
