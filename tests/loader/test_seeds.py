"""Samples draw the same from the global generators for any number of process workers."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from tests.helpers import mostly_stress


class Noise:
    """Draws from the global generators; one sample of the first batch takes longer than the others."""

    def __init__(self) -> None:
        self.slow = True

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        if i == 0:
            for _ in range(200):
                os.sched_yield()
        return np.array([random.random(), np.random.rand()])


def epochs(loader: Any, count: int = 2) -> list[Any]:
    with loader:
        return [np.stack([np.asarray(batch) for batch in loader]) for _ in range(count)]


def noise(**options: Any) -> list[Any]:
    return epochs(sk.DataLoader(Noise(), 2, **{"seed": 3, **options}))


@functools.cache
def noise_of_one(shuffle: bool = False, seed: int = 3) -> Any:
    """What one worker draws."""
    return np.array(noise(num_workers=1, shuffle=shuffle, seed=seed))


WORKERS: dict[str, dict[str, Any]] = {
    "two": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "template": {"num_workers": 2, "multiprocessing_context": "forkserver"},
}


@pytest.mark.parametrize(
    ("options", "shuffle"),
    [*zip(WORKERS.values(), [False, True, True], strict=True)],
    ids=WORKERS,
)
def test_draws_do_not_depend_on_the_workers(options: dict[str, Any], shuffle: bool) -> None:
    before = random.getstate(), np.random.get_state()[1].tobytes()
    one, many = noise_of_one(shuffle), noise(shuffle=shuffle, **options)
    assert np.array_equal(one, many)
    assert len(np.unique(one)) == np.size(one)
    assert not np.isin(one, noise_of_one(seed=4)).any()
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before


class Repeats:
    """A sampler with replacement."""

    def __iter__(self) -> Iterator[int]:
        return iter([5, 5, 5, 5, 1, 1])

    def __len__(self) -> int:
        return 6


def test_batches_of_the_same_keys_draw_different_numbers_and_a_resumed_epoch_the_same() -> None:
    options: dict[str, Any] = {"sampler": Repeats(), "num_workers": 1, "seed": 3}
    (first, _) = epochs(sk.DataLoader(Noise(), 1, **options))
    assert len(np.unique(first)) == first.size
    with sk.DataLoader(Noise(), 1, **options) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        state = loader.state_dict()
    with sk.DataLoader(Noise(), 1, **{**options, "num_workers": 2}) as loader:
        loader.load_state_dict(state)
        assert np.array_equal(first[3:], [np.asarray(batch) for batch in loader])


def seed_worker(worker: int) -> None:
    """The recipe of PyTorch's notes on reproducibility: the seed of the worker for the other libraries."""
    np.random.seed(7)
    random.seed(7)


@pytest.mark.parametrize("options", mostly_stress(*WORKERS.values()))
def test_the_next_batch_draws_its_own_numbers_whatever_worker_init_fn_seeds(options: Any) -> None:
    assert np.array_equal(noise(worker_init_fn=seed_worker, **options), noise_of_one())


def test_the_words_of_worker_init_fn_do_not_change_how_workers_are_used() -> None:
    def hook(worker: int) -> None:
        """Read the list of seeds, for np.random.seed and default_rng."""

    with sk.DataLoader(Noise(), 2, num_workers=2, worker_init_fn=hook) as loader:
        list(loader)
        assert type(loader.view) is type(sk.prefetch(range(3)))


def test_seeds_of_torch_are_those_of_the_worker_info() -> None:
    torch: Any = pytest.importorskip("torch")
    from seqkit.torch import DataLoader

    def seeds(*_: Any) -> Any:
        info = torch.utils.data.get_worker_info()
        return torch.tensor([torch.initial_seed(), info.seed, torch.randint(1 << 60, ())])

    def check(worker: int) -> None:
        assert torch.initial_seed() == torch.utils.data.get_worker_info().seed

    before = torch.get_rng_state()
    found = []
    for options in ({"num_workers": 1}, {"num_workers": 2}):
        view = sk.smap(seeds, range(6))
        found.append(epochs(DataLoader(view, 2, seed=3, worker_init_fn=check, **options)))
    one, two = (np.stack(batches).reshape(-1, 3) for batches in found)
    assert (one[:, 2] == two[:, 2]).all()
    assert len(np.unique(one[:, 2])) == 12
    for numbers in one, two:
        assert (numbers[:, 0] == numbers[:, 1]).all()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "order",
    [{"batch_size": None, "sampler": [3, 1, 2]}, {"sampler": [3, 1, 2]}, {"batch_sampler": [[3, 1], [2]]}],
    ids=str,
)
def test_draws_do_not_depend_on_how_a_sampler_is_read(order: dict[str, Any]) -> None:
    def read(**way: Any) -> list[Any]:
        with sk.DataLoader(Noise(), seed=3, collate_fn=list, **order, **way) as loader:
            return [np.array(batch).tolist() for batch in loader]

    expected = read(num_workers=1)
    assert read(num_workers=2) == read(num_workers=2, persistent_workers=True) == expected
