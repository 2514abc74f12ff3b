"""Samples draw the same from the global generators for any number of process workers."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import get_worker_info
from seqkit.loader.bound import seeds


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
    one, many = noise(num_workers=1, shuffle=shuffle), noise(shuffle=shuffle, **options)
    assert np.array_equal(one, many)
    assert len(np.unique(one)) == np.size(one)
    assert not np.isin(one, noise(num_workers=1, seed=4)).any()
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


def test_a_library_that_worker_init_fn_seeds_keeps_its_state() -> None:
    (first, _) = noise(num_workers=1, worker_init_fn=lambda worker: np.random.seed(7))
    assert first[..., 1].ravel().tolist() == np.random.RandomState(7).rand(12).tolist()
    assert np.array_equal(first[..., 0], noise(num_workers=1)[0][..., 0])


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


# -------------------------------------------------------------------- PyTorch's recipe


def seed_worker(worker: int) -> None:
    """The recipe of PyTorch's notes on reproducibility."""
    import torch

    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


class Recipe:
    def __call__(self, worker: int) -> None:
        seed_worker(worker)


def indirect(worker: int) -> None:
    seed_worker(worker)


RECIPES: dict[str, Any] = {
    "function": seed_worker,
    "object": Recipe(),
    "partial": functools.partial(seed_worker),
    "lambda": lambda worker: np.random.seed(worker),
    "indirect": indirect,
    "method": Recipe().__call__,
}
BOUND: dict[str, dict[str, Any]] = {
    "two": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "template": {"num_workers": 2, "multiprocessing_context": "forkserver"},
    "sampler": {"num_workers": 2, "sampler": [*range(11, -1, -1)]},
    "order": {"num_workers": 2, "shuffle": True, "prefetch_factor": 1},
}


class Drawn(Noise):
    def __getitem__(self, i: int) -> Any:
        info = sk.get_worker_info()
        assert info is not None
        return np.array([*super().__getitem__(i), info.id, info.num_workers])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            options, id=name, marks=[pytest.mark.stress] * (name == "template")
        )  # imports torch anew
        for name, options in BOUND.items()
    ],
)
def test_the_recipe_of_pytorch_gives_the_same_numbers_in_each_run(options: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    from seqkit.torch import DataLoader

    runs = [epochs(DataLoader(Drawn(), 2, seed=3, worker_init_fn=seed_worker, **options)) for _ in range(2)]
    assert np.array_equal(*runs)
    first, second = runs[0]
    assert first.shape == (6, 2, 4)
    workers = options["num_workers"]
    assert (np.arange(6) % workers == first[..., 2].T).all()  # as in PyTorch
    assert (first[..., 3] == workers).all()
    draws = np.concatenate([first[..., :2].ravel(), second[..., :2].ravel()])
    assert len(np.unique(draws)) == draws.size  # each worker and each epoch draws others


@pytest.mark.parametrize("recipe", RECIPES)
def test_functions_that_seed_are_recognised(recipe: str) -> None:
    assert seeds(RECIPES[recipe])


def test_a_function_that_seeds_binds_batches_to_workers() -> None:
    pytest.importorskip("torch")
    loader = sk.DataLoader(Drawn(), 2, seed=3, worker_init_fn=RECIPES["partial"], num_workers=2)
    for epoch in epochs(loader):
        assert (np.arange(6) % 2 == epoch[..., 2].T).all()


@pytest.mark.parametrize("hook", [None, print, lambda worker: None, Noise.__len__])
def test_other_functions_leave_it_to_any_worker_to_compute_a_batch(hook: Any) -> None:
    assert not seeds(hook)


def test_an_error_of_a_bound_batch_names_its_worker_and_the_next_batch_follows() -> None:
    def read(i: int) -> int:
        return i if i != 3 else 1 // 0

    options: dict[str, Any] = {"num_workers": 2, "worker_init_fn": lambda worker: random.seed(worker)}
    with sk.DataLoader(sk.smap(read, range(6)), None, **options) as loader:
        assert len(loader) == 6
        batches = iter(loader)
        assert [next(batches) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(sk.EvaluationError) as caught:
            next(batches)
        assert caught.value.worker == 1
        state = loader.state_dict()
        assert list(batches) == [4, 5]
        assert [loader.view[i] for i in (5, 0)] == [5, 0]
        assert "bound" in str(sk.profile(loader.view[4:]))
    with sk.DataLoader(sk.smap(read, range(6)), None, **options) as loader:
        loader.load_state_dict(state)
        assert list(loader) == [4, 5]
    with pytest.raises(RuntimeError, match="closed"):
        iter(loader)


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


# -------------------------------------------------------------------- data sets that shuffle themselves


class Shuffles:
    """Draws its order when its iteration begins, and numbers with each sample."""

    def __iter__(self) -> Iterator[Any]:
        order = list(range(20))
        random.shuffle(order)
        for i in order:
            yield np.array([i, np.random.rand()])


class ShufflesAtOnce:
    def __iter__(self) -> Iterator[Any]:
        return iter([np.array([i, 0.0]) for i in np.random.permutation(20)])


class ShufflesParts(Shuffles):
    parts = 3

    def split(self, part: int, parts: int) -> Iterator[Any]:
        order = list(range(part, 20, parts))
        random.shuffle(order)
        for i in order:
            yield np.array([i, np.random.rand()])


class Dies(Shuffles):
    """Kills its worker once."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __iter__(self) -> Iterator[Any]:
        for number, sample in enumerate(super().__iter__()):
            if number == 11 and not self.marker.exists():
                self.marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield sample


def augmented(sample: Any) -> Any:
    return np.append(sample, random.random())


@pytest.mark.parametrize("transform", [None, augmented])
@pytest.mark.parametrize("read", [1, 4])
@pytest.mark.parametrize("dataset", [Shuffles(), ShufflesAtOnce(), ShufflesParts()])
def test_a_resumed_epoch_draws_what_is_left_of_it(dataset: Any, read: int, transform: Any) -> None:
    def loader(workers: int) -> Any:
        return sk.DataLoader(dataset, 3, num_workers=workers, seed=3, transform=transform)

    with loader(2) as whole:
        batches = iter(whole)
        before = [next(batches) for _ in range(read)]
        state = whole.state_dict()
        rest = list(batches)
    with loader(1) as resumed:
        resumed.load_state_dict(state)
        found = list(resumed)
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in rest]
    assert sorted(np.concatenate(before + found)[:, 0]) == list(range(20))


def test_a_worker_that_dies_loses_nothing_of_an_order_that_the_data_set_draws(tmp_path: Path) -> None:
    with sk.DataLoader(Dies(tmp_path / "died"), 3, num_workers=1, seed=3) as loader:
        died = [batch.tolist() for batch in loader]
    with sk.DataLoader(Shuffles(), 3, num_workers=1, seed=3) as loader:
        assert [batch.tolist() for batch in loader] == died


class ShufflesByEpoch:
    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return iter(np.random.default_rng(self.epoch).permutation(20))


ELSEWHERE: list[dict[str, Any]] = [
    {},
    {"num_workers": 2, "method": "thread"},
    {"iterable_split": "reader"},
    {"iterable_split": "reader", "num_workers": 2},
    {"iterable_split": "none"},
]


def resume(dataset: Any, options: dict[str, Any]) -> None:
    """Read a loader for two batches, and another one that goes on there."""
    with sk.DataLoader(dataset, 3, seed=3, transform=augmented, **options) as loader:
        list(islice(loader, 2))
        state = loader.state_dict()
    with sk.DataLoader(dataset, 3, seed=3, transform=augmented, **options) as loader:
        loader.load_state_dict(state)
        assert len(list(loader)) == 5


@pytest.mark.parametrize("options", [*ELSEWHERE, {"num_workers": 2}], ids=str)
def test_an_order_that_follows_from_the_epoch_is_resumed(options: Any) -> None:
    resume(ShufflesByEpoch(), options)


class DrawsInWorker:
    """Makes a generator in its worker, when it is needed."""

    rng: Any = None

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> int:
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.default_rng(0 if info is None else info.id)
        return int(self.rng.integers(1000))


def test_a_data_set_that_makes_generators_in_workers_gets_the_same_batches_in_each_run() -> None:
    def read() -> list[Any]:
        with sk.DataLoader(DrawsInWorker(), 1, num_workers=2) as loader:
            return [batch.tolist() for batch in loader]

    one, other = np.random.default_rng(0), np.random.default_rng(1)
    expected = [[int(rng.integers(1000))] for _ in range(4) for rng in (one, other)]
    assert read() == expected


class Opens:
    def __init__(self) -> None:
        self.rng, self.file = np.random.default_rng(0), open(__file__, "rb")  # noqa: SIM115

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return int(self.rng.integers(9))


def renew(worker: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.rng = np.random.default_rng(worker)


def test_what_worker_init_fn_makes_anew_is_not_warned_of() -> None:
    opens, options = Opens(), {"worker_init_fn": renew, "multiprocessing_context": "fork"}
    with opens.file, sk.DataLoader[Any](opens, 2, num_workers=2, **options) as loader:
        assert len(list(loader)) == 2


class Parted:
    part: int = 0

    def __iter__(self) -> Any:
        return iter(range(self.part, 8, 2))


def set_part(worker: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.part = worker


def test_parts_that_worker_init_fn_chooses_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="worker_init_fn may choose the part of the data set"):
        sk.DataLoader(Parted(), 2, num_workers=2, worker_init_fn=set_part)
    options: Any = {"iterable_split": "workers", "worker_init_fn": set_part}
    with sk.DataLoader(Parted(), 2, num_workers=2, **options) as loader:
        assert sorted(i for batch in loader for i in batch.tolist()) == list(range(8))


class Named:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> Any:
        process = multiprocessing.current_process()
        parent = multiprocessing.parent_process()
        return process.name, process._identity, parent is not None and parent.is_alive()


def test_multiprocessing_knows_that_a_worker_is_no_main_process() -> None:
    with sk.DataLoader(Named(), None, num_workers=1) as loader:
        assert list(loader) == [("seqkit-worker-0", (1,), True)] * 2
    assert multiprocessing.current_process().name == "MainProcess"
