"""What a person meets first: warnings about legal arguments, hints for misspelt names, truth tests."""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import seqkit as sk
from seqkit import samplers
from seqkit.streams import StreamLoader

Loader = sk.DataLoader


def warnings_of(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(warning.filename == __file__ for warning in caught)  # the user's line
    return [str(warning.message) for warning in caught]


# -------------------------------------------------------------------- no batches


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4, "drop_last": True},
        {"batch_size": 4, "last_batch": "discard", "shuffle": True},
        {"batch_size": 4, "drop_last": True, "sampler": [0, 1, 2]},
        {"batch_size": 4, "drop_last": True, "sampler": samplers.RandomSampler(3)},
        {"batch_sampler": samplers.BatchSampler(range(3), 4, drop_last=True)},
    ],
    ids=str,
)
def test_a_loader_without_batches_is_warned_of_with_the_remedy(options: dict[str, Any]) -> None:
    (message,) = warnings_of(lambda: list(Loader(range(3), **options)))
    assert "3 samples do not fill a batch of batch_size=4" in message
    assert "Set drop_last to False" in message


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        ([], {"batch_size": 4, "drop_last": True}),
        (range(4), {"batch_size": 4, "drop_last": True}),
        (range(3), {"batch_size": 4}),
        (range(3), {"batch_size": 4, "last_batch": "rollover"}),
        (range(3), {"sampler": []}),
        (iter(range(3)), {"batch_size": 4, "drop_last": True}),
    ],
    ids=str,
)
def test_other_loaders_are_not_warned_of(dataset: Any, options: dict[str, Any]) -> None:
    assert not warnings_of(lambda: list(Loader(dataset, **options)))


def test_no_sample_is_read_to_count_batches() -> None:
    def keep(i: int) -> bool:
        raise AssertionError("the length is not needed")

    Loader(sk.filter(keep, range(3)), 4, drop_last=True)
    Loader(range(3), 4, drop_last=True, sampler=sk.filter(keep, range(3)))


# -------------------------------------------------------------------- several processes


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two processes of torch.distributed, as far as loaders and samplers ask."""
    module = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2, get_rank=lambda: 1
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", module)  # type: ignore[arg-type]
    return module


class Own:
    """A sampler of the user's, which may share."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 3])


class Ranked(list[int]):
    """Its attribute says nothing about its items."""

    rank = 1


NOT_SHARED: dict[str, Any] = {
    "shuffled": lambda: Loader(range(8), 2, shuffle=True),
    "view": lambda: Loader(sk.smap(abs, range(8)), 2, shuffle=True),
    "attribute": lambda: Loader(Ranked(range(8)), 2, shuffle=True),
}
SHARED: dict[str, Any] = {
    "in order": lambda: Loader(range(8), 2),
    "sampler": lambda: Loader(range(8), 2, sampler=samplers.RandomSampler(8)),
    "view of indices": lambda: Loader(range(8), 2, sampler=sk.shuffle(range(8))),
    "shard": lambda: Loader(sk.shard(range(8), 1, 2), 2, shuffle=True),
    "shard below views": lambda: Loader(sk.smap(abs, sk.shard(range(8), 1, 2)), 2, shuffle=True),
    "slice": lambda: Loader(sk.view([*range(8)])[1::2], 2, shuffle=True),
    "distributed": lambda: Loader(range(8), 2, sampler=samplers.DistributedSampler(8)),
    "sampler of the user": lambda: Loader(range(8), 2, sampler=Own()),
    "iterable": lambda: Loader(iter(range(8)), 2),
}


@pytest.mark.parametrize("name", NOT_SHARED)
def test_a_loader_that_reads_everything_in_each_process_is_warned_of_once(name: str, group: Any) -> None:
    def read() -> None:
        loader = NOT_SHARED[name]()
        list(loader), list(loader)

    (message,) = warnings_of(read)
    assert "torch.distributed has 2 processes, and each of them reads all samples" in message
    assert "DistributedSampler" in message


@pytest.mark.parametrize("name", SHARED)
def test_a_loader_of_a_share_is_not_warned_of(name: str, group: Any) -> None:
    assert not warnings_of(lambda: list(SHARED[name]()))


def test_processes_that_start_later_are_noticed_by_the_first_epoch(group: Any) -> None:
    group.is_initialized = lambda: False
    loader = Loader(range(8), 2, shuffle=True)
    assert not warnings_of(lambda: list(loader))
    group.is_initialized = lambda: True
    assert len(warnings_of(lambda: list(loader))) == 1
    group.get_world_size = lambda: 1
    assert not warnings_of(lambda: list(Loader(range(8), 2, shuffle=True)))


WITHOUT_SEED: dict[str, Any] = {
    "shard: shuffle": lambda seed: sk.shard(sk.smap(abs, sk.shuffle(range(8), seed)), 1, 2),
    "shard: shuffle_groups": lambda seed: sk.shard(sk.shuffle_groups(range(8), 2, seed), 1, 2),
    "shard: mix": lambda seed: sk.shard(sk.mix([range(4), range(4)], seed=seed), 1, 2),
    "ShardedSampler: RandomSampler": lambda seed: samplers.ShardedSampler(
        samplers.BatchSampler(samplers.RandomSampler(8, seed=seed), 2)
    ),
    "ShardedSampler: FixedBucketSampler": lambda seed: samplers.ShardedSampler(
        samplers.FixedBucketSampler([1, 2] * 4, 2, shuffle=True, seed=seed)
    ),
}


@pytest.mark.parametrize("name", WITHOUT_SEED)
def test_a_share_of_an_order_without_a_seed_is_refused(name: str, group: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} below has no seed, so each process draws another order"):
        WITHOUT_SEED[name](None)
    assert not warnings_of(lambda: WITHOUT_SEED[name](0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: sk.shuffle(sk.shard(range(8), 1, 2)),
        lambda: sk.shard(sk.random_map(lambda x, rng: x, range(8)), 1, 2),
        lambda: samplers.ShardedSampler(samplers.FixedBucketSampler([1, 2] * 4, 2)),
    ],
)
def test_a_seed_of_each_process_for_its_own_share_is_right(call: Any, group: Any) -> None:
    assert not warnings_of(call)


# -------------------------------------------------------------------- parts of a shuffle


ORDER = sk.shuffle(range(100), seed=0)
# What names samples by their indices, and what follows the epoch.
KEPT: dict[str, Any] = {
    "slice": lambda: {"dataset": ORDER[:80]},
    "batches": lambda: {"dataset": sk.batch(ORDER, 10)[:8], "batch_size": None},
    "slice as sampler": lambda: {"sampler": ORDER[:80]},
    "slice as indices": lambda: {"sampler": samplers.SequentialSampler(100, indices=ORDER[:80])},
    "batches as sampler": lambda: {"batch_sampler": sk.batch(ORDER, 10)[:8], "batch_size": 1},
    "keys of a shuffled data set": lambda: {"dataset": ORDER, "sampler": range(10, 90)},
}
FOLLOWS: dict[str, Any] = {
    "shuffle": lambda: {"dataset": ORDER},
    "head": lambda: {"dataset": ORDER.head(80)},
    "shard": lambda: {"dataset": sk.shard(ORDER, 0, 2)},
    "order as sampler": lambda: {"sampler": ORDER},
    "slice in a sampler": lambda: {"sampler": samplers.SubsetRandomSampler(ORDER[:80], seed=0)},
    "fewer in each epoch": lambda: {"sampler": samplers.RandomSampler(100, num_samples=80, seed=0)},
}


@pytest.mark.parametrize("name", [*KEPT, *FOLLOWS])
def test_a_part_of_a_shuffle_keeps_its_samples_and_is_not_warned_of(name: str) -> None:
    options = {"dataset": range(100), "batch_size": 10, "collate_fn": list, **{**KEPT, **FOLLOWS}[name]()}
    loader = Loader(**options)
    epochs: list[Any] = []
    assert not warnings_of(lambda: epochs.extend(str(list(loader)) for _ in range(3)))
    assert len(set(epochs)) == (1 if name in KEPT else 3)


# -------------------------------------------------------------------- iterators at their end


class Once:
    """A data set or sampler that gives one epoch only, without saying so."""

    def __init__(self, keys: Any) -> None:
        self.keys = iter(keys)

    def __iter__(self) -> Iterator[Any]:
        return self.keys


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("by_hand", [False, True])
def test_an_epoch_without_batches_after_another_one_is_warned_of_once(workers: int, by_hand: bool) -> None:
    makers: Any = (
        lambda: {"dataset": Once(range(8)), "batch_size": 2},
        lambda: {"dataset": range(8), "sampler": Once(range(8)), "batch_size": 2},
        lambda: {"dataset": range(8), "batch_sampler": Once([[0, 1], [2]])},
    )
    for make in makers:
        loader = Loader(**make(), num_workers=workers, **({"method": "thread"} if workers else {}))
        read: list[int] = []

        def read_epochs(loader: Any = loader, read: list[int] = read) -> None:
            for epoch in range(3):
                if by_hand:
                    loader.set_epoch(epoch)
                read.append(len(list(loader)))

        (message,) = warnings_of(read_epochs)
        assert read[0] > 0
        assert read[1:] == [0, 0]
        assert "is Once an iterator that an earlier epoch has read?" in message


def test_epochs_that_are_empty_for_other_reasons_are_not_warned_of() -> None:
    growing: list[int] = []
    for loader in (Loader(growing, 2), Loader(range(2), 5, last_batch="rollover"), Loader(iter([]), 2)):
        assert not warnings_of(lambda loader=loader: list(loader))
    rolling = Loader(range(2), 5, last_batch="rollover")
    assert not warnings_of(lambda: [len(list(rolling)) for _ in range(6)])


# -------------------------------------------------------------------- one of several workers reads


class Records:
    """Its records have fields with the names of PyTorch's worker info."""

    def __iter__(self) -> Iterator[int]:
        info = sk.get_worker_info()  # to log less in workers
        assert info is None or info.num_workers
        return (record["id"] for record in [{"id": i} for i in range(6)])

    def on_epoch_end(self) -> None: ...


def connect(worker: int) -> None:
    info = sk.get_worker_info()
    assert info is not None
    info.dataset.connection = worker


@pytest.mark.parametrize(("method", "hook"), [("thread", None), ("process", connect)])
def test_one_of_several_workers_that_reads_is_said_once_unless_it_was_asked_for(
    method: Any, hook: Any
) -> None:
    def read(**options: Any) -> list[Any]:
        given: dict[str, Any] = {"num_workers": 2, "method": method, "worker_init_fn": hook, **options}
        with Loader(Records(), 2, **given) as loader:
            return [batch.tolist() for _ in range(2) for batch in loader]

    (message,) = warnings_of(read)
    assert "one of the 2 workers reads the iterable data set (Records), because iterable_split" in message
    for split in ("none", "workers"):
        assert not warnings_of(lambda split=split: read(iterable_split=split))
    assert not warnings_of(lambda: read(num_workers=1))
    assert read(iterable_split="none") == [[0, 1], [2, 3], [4, 5]] * 2


def test_workers_that_do_not_start_are_not_more_than_the_cpus() -> None:
    options: Any = {"num_workers": 4096, "iterable_split": "none"}
    assert not warnings_of(lambda: Loader(Records(), 2, **options))
    (message,) = warnings_of(lambda: Loader(range(6), 2, num_workers=4096))
    assert "will create 4096 worker processes" in message


class Watched(Records):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> int:
        return i


def test_methods_that_other_libraries_call_are_not_spoken_of() -> None:
    assert not warnings_of(lambda: list(Loader(Watched(), 2)))


# -------------------------------------------------------------------- names


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(
        TypeError, match=r"^DataLoader\.__init__\(\) got an unexpected keyword argument 'colour'"
    ):
        Loader(range(3), colour=2)  # type: ignore[call-arg]
    assert list(inspect.signature(Loader).parameters)[:3] == ["dataset", "batch_size", "shuffle"]


class Labelled:
    classes = ("a", "b")
    speakers = 7

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> int:
        return i


def test_dir_of_a_loader_has_its_arguments_and_methods() -> None:
    names = dir(Loader(range(3)))
    assert {"num_workers", "batch_sampler", "dataset", "seed", "view", "state_dict", "failed"} <= set(names)


class Template(sk.DataLoader[Any]):
    """As in many project templates: attributes are set before the constructor is called."""

    def __init__(self, dataset: Any, shuffle: bool, **options: Any) -> None:
        self.shuffle = shuffle
        self.batch_size = 77
        self.sampler = self.transform = "own"
        super().__init__(dataset, 2, shuffle=shuffle, **options)


# -------------------------------------------------------------------- truth


class Lines:
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize(
    "thing",
    [
        Loader(Lines(), 2),
        Loader([], 2),
        Loader(sk.uniter(Lines()), 2),
        iter(Loader(Lines(), 2)),
        StreamLoader([1], range, 1, pad_value=0),
        samplers.InfiniteSampler(range(3)),
        samplers.RandomSampler(3),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_loaders_and_samplers_are_true(thing: Any) -> None:
    assert thing
