"""Programs that were written for PyTorch's loader: their samplers, ranks and attributes, without warnings."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.samplers import BatchSampler, DistributedSampler, InfiniteSampler

from .ways import WAYS

torch = pytest.importorskip("torch")

from seqkit.torch import DataLoader  # noqa: E402

data = torch.utils.data
every_way = pytest.mark.parametrize("way", WAYS)
frameworks = pytest.mark.frameworks


def plain(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


def through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))


# -------------------------------------------------------------------- samplers of others


class Stateful(data.DistributedSampler):  # type: ignore[misc, name-defined]
    """The protocol of torchdata's `StatefulDistributedSampler`: its state skips indices of the next epoch."""

    yielded = 0
    next_yielded: int | None = None

    def __iter__(self) -> Iterator[int]:
        self.yielded = 0
        if self.next_yielded is not None:
            self.yielded, self.next_yielded = self.next_yielded, None
        for i in list(super().__iter__())[self.yielded :]:
            self.yielded += 1
            yield i

    def state_dict(self) -> dict[str, int]:
        return {"yielded": self.yielded}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next_yielded = state["yielded"]


def of_torchdata() -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader.sampler")
    return module.StatefulDistributedSampler


@every_way
@pytest.mark.parametrize("read", [0, 2])
@pytest.mark.parametrize(
    "kind",
    [lambda: Stateful, pytest.param(of_torchdata, marks=frameworks)],
    ids=["its protocol", "torchdata"],
)
def test_a_sampler_that_skips_by_its_own_state_loses_no_batch(
    kind: Any, read: int, way: dict[str, Any]
) -> None:
    sampler_class = kind()

    def made(**way: Any) -> Any:
        sampler = sampler_class(range(40), num_replicas=2, rank=0, seed=42)
        return DataLoader(list(range(40)), 4, sampler=sampler, **way)

    whole = made()
    expected = [plain(whole) for _ in range(2)]
    with made(**way) as first, made(**way) as second:
        assert plain(first) == expected[0]
        batches = iter(first)
        for _ in range(read):
            next(batches)
        second.load_state_dict(through_json(first.state_dict()))
        assert plain(second) == expected[1][read:]


class InItsIterator:
    """A sampler whose iterator has the state, and draws from a generator of its own."""

    def __init__(self) -> None:
        self.generator = random.Random(3)

    def __iter__(self) -> Iterator[int]:
        return iter(self.generator.sample(range(12), 12))

    def __len__(self) -> int:
        return 12


def random_of_torchdata() -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader.sampler")
    return module.RandomSampler(range(12), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    "make",
    [InItsIterator, pytest.param(random_of_torchdata, marks=frameworks)],
    ids=["its protocol", "torchdata"],
)
def test_a_sampler_that_draws_another_order_after_a_resume_is_refused(make: Any) -> None:
    def made() -> Any:
        return DataLoader(range(12), 2, sampler=make())

    loader, again = made(), made()
    batches = iter(loader)
    seen = [next(batches).tolist() for _ in range(2)]
    again.load_state_dict(through_json(loader.state_dict()))  # in its first epoch, as the other
    assert seen + plain(again) == plain(made())
    plain(batches)
    next(iter(loader))
    late = made()
    late.load_state_dict(through_json(loader.state_dict()))
    with pytest.raises(ValueError, match="other"):
        next(iter(late))


SHARED = {
    "batches": lambda share, size: {"batch_sampler": BatchSampler(share, size)},
    "batches of torch": lambda share, size: {"batch_sampler": data.BatchSampler(share, size, False)},
    "without end": lambda share, size: {"sampler": InfiniteSampler(share), "batch_size": size},
    "a view": lambda share, size: {"sampler": share.order, "batch_size": size},
}


@pytest.mark.parametrize("around", SHARED.values(), ids=SHARED)
def test_a_sampler_around_a_share_is_refused_on_another_number_of_ranks(around: Any) -> None:
    def made(ranks: int, size: int) -> Any:
        share = DistributedSampler(60, ranks, 0, seed=0)
        return sk.DataLoader(range(60), **around(share, size))

    loader = made(4, 3)
    batches = iter(loader)
    next(batches)
    state = through_json(loader.state_dict())

    def resumed(loader: Any) -> list[int]:
        loader.load_state_dict(state)
        return next(iter(loader)).tolist()  # type: ignore[no-any-return]

    assert resumed(made(4, 3)) == next(batches).tolist()
    with pytest.raises(ValueError, match=r"processes|other indices|batch size"):
        resumed(made(3, 4))


def test_batches_of_a_share_resume_with_as_many_ranks_only() -> None:
    def made(ranks: int, size: int, rank: int = 0) -> Any:
        share = DistributedSampler(60, ranks, rank, seed=0)
        return sk.DataLoader(range(60), batch_sampler=BatchSampler(share, size))

    loader = made(4, 3)
    batches = iter(loader)
    next(batches)
    state = through_json(loader.state_dict())
    same = made(4, 3)
    same.load_state_dict(state)
    assert plain(same) == plain(batches)
    with pytest.raises(ValueError, match=r"4 processes, .*3"):
        made(3, 4).load_state_dict(state)
    list(loader)
    made(3, 4).load_state_dict(loader.state_dict())  # at the end of an epoch


# -------------------------------------------------------------------- keys


PAIRS = {(a, b): 10 * a + b for a in range(3) for b in range(3)}


@pytest.mark.parametrize(
    "batches",
    [
        [((0, 1), (1, 2)), ((2, 2),)],
        [[(0, 1), (1, 2)], [(2, 2)]],
    ],
    ids=["tuples", "lists"],
)
@pytest.mark.parametrize("way", WAYS[:3])
def test_keys_that_are_tuples_make_batches_as_in_torch(batches: Any, way: dict[str, Any]) -> None:
    expected = plain(data.DataLoader(PAIRS, batch_sampler=batches))
    with DataLoader(PAIRS, batch_sampler=batches, **way) as loader:
        assert plain(loader) == expected == [[1, 12], [22]]


class Rows:
    """Takes lists as keys."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, key: list[int]) -> int:
        assert isinstance(key, list)
        return 10 * key[0] + key[1]


@pytest.mark.parametrize("way", WAYS[:3])
def test_keys_that_are_lists_make_batches_as_in_torch(way: dict[str, Any]) -> None:
    batches = [[[0, 1], [1, 2]], [[2, 2]]]
    expected = plain(data.DataLoader(Rows(), batch_sampler=batches))
    with DataLoader(Rows(), batch_sampler=batches, **way) as loader:
        assert plain(loader) == expected == [[1, 12], [22]]


# -------------------------------------------------------------------- names and attributes


@pytest.mark.parametrize("name", ["Dataset", "IterableDataset", "Subset", "random_split", "get_worker_info"])
def test_the_names_of_torch_are_found_in_seqkit_torch(name: str) -> None:
    import seqkit.torch

    assert getattr(seqkit.torch, name) is getattr(data, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        seqkit.torch.no_such_name


NAMES = (
    "collate_fn",
    "worker_init_fn",
    "num_workers",
    "timeout",
    "pin_memory",
    "generator",
    "prefetch_factor",
)


@pytest.mark.parametrize("name", NAMES)
def test_attributes_may_be_set_to_what_they_are(name: str) -> None:
    loader = DataLoader(list(range(8)), 4)
    setattr(loader, name, getattr(loader, name))
    assert plain(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


class Named(DataLoader):  # type: ignore[type-arg]
    """A subclass with private methods of its own."""

    def _build(self) -> str:
        return "built"

    _read = _items = _finished = _keys = _begin = _set_up = _build


@every_way
def test_a_subclass_may_have_private_methods_of_any_name(way: dict[str, Any]) -> None:
    with Named(list(range(8)), 4, **way) as loader:
        assert plain(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert loader._read() == loader._set_up() == "built"


def test_an_iterator_that_is_held_at_exit_prints_nothing() -> None:
    script = """
import numpy as np
import seqkit.torch as st
it = iter(st.DataLoader(np.arange(6), 2, num_workers=2))
next(it), next(it)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -------------------------------------------------------------------- no warnings


class Logged(data.IterableDataset):  # type: ignore[misc, name-defined]
    """Uses the number of its worker for a log line and a seed."""

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        self.name = "main" if info is None else f"worker {info.id}"
        return iter(range(20))


class Reordered:
    """Its loop calls `on_epoch_end`."""

    def __init__(self) -> None:
        self.order = np.arange(12)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> int:
        return int(self.order[i])

    def on_epoch_end(self) -> None:
        np.random.default_rng(1).shuffle(self.order)


def test_programs_that_are_right_cause_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with DataLoader(Logged(), 4, num_workers=2, iterable_split="none") as loader:
            assert list(chain(*plain(loader))) == list(range(20))
        dataset = Reordered()
        loader = DataLoader(dataset, 4)
        first = plain(loader)
        dataset.on_epoch_end()
        assert plain(loader) != first
        # The program divides the indices itself.
        loader = DataLoader(list(range(20)), 5, sampler=list(range(0, 20, 2)))
        assert list(chain(*plain(loader))) == list(range(0, 20, 2))
        loader = DataLoader(list(range(22)), 4, sampler=list(range(20)))  # whole batches, cut by hand
        assert list(map(len, loader)) == [4] * 5
