"""The epoch reaches data sets and samplers, and what looks live at a loader is live."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest

import seqkit as sk
from seqkit.samplers import BatchSampler, InfiniteSampler, RandomSampler

from ..helpers import Numbers
from .ways import WAYS

data = pytest.importorskip("torch.utils.data")
every_way = pytest.mark.parametrize("way", WAYS)


def plain(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


class Slotted:
    """Has neither a dict nor weak references."""

    __slots__ = ("told",)

    def set_epoch(self, epoch: int) -> None:
        self.told = epoch

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return 100 * self.told + i


class Stream:
    def set_epoch(self, epoch: int) -> None:
        self.told = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(range(100 * self.told, 100 * self.told + 4))


class TorchNumbers(Numbers, data.Dataset):  # type: ignore[misc,name-defined]
    pass


DATA: dict[str, Any] = {
    "indexable": Numbers,
    "without weak references": Slotted,
    "iterable": Stream,
    "reader": Stream,
    "workers": Stream,
    "below views": lambda: sk.smap(abs, sk.view(Numbers())[:]),
    "below a mix": lambda: sk.concatenate([Numbers(), []]),
    "uniter": lambda: sk.uniter(Stream()),
    "subset of torch": lambda: data.Subset(TorchNumbers(), range(4)),
    "concatenation of torch": lambda: data.ConcatDataset([TorchNumbers()]),
}


@every_way
@pytest.mark.parametrize("name", DATA)
def test_a_data_set_is_told_each_epoch_where_it_is_read(name: str, way: dict[str, Any]) -> None:
    options = dict(way)
    if name in ("reader", "workers"):
        options["iterable_split"] = name
    if name == "workers":
        options["num_workers"] = min(1, options.get("num_workers", 0))
    with sk.DataLoader(DATA[name](), 4, **options) as loader:
        assert [plain(loader) for _ in range(2)] == [[[e * 100 + i for i in range(4)]] for e in range(2)]
        loader.set_epoch(7)
        assert plain(loader) == [[700, 701, 702, 703]]


@pytest.mark.parametrize("context", ["forkserver", pytest.param("spawn", marks=pytest.mark.stress)])
def test_workers_of_every_start_method_tell_their_copy(context: str) -> None:
    options: Any = {"num_workers": 1, "multiprocessing_context": context, "persistent_workers": True}
    with sk.DataLoader(Numbers(), 4, **options) as loader:
        assert [plain(loader)[0][0] for _ in range(3)] == [0, 100, 200]


def test_iterators_of_two_epochs_in_one_thread_read_their_own() -> None:
    loader = sk.DataLoader(Numbers(), 2)
    first, second = iter(loader), iter(loader)
    found = [next(epoch).tolist() for _ in range(2) for epoch in (first, second)]
    assert found == [[0, 1], [100, 101], [2, 3], [102, 103]]


def test_a_data_set_is_told_before_its_length_is_asked_for() -> None:
    class Growing(Numbers):
        def __len__(self) -> int:
            return 3 + self.epoch

    loader = sk.DataLoader(Growing(), 1)
    assert [len(plain(loader)) for _ in range(3)] == [3, 4, 5]


def test_a_state_of_an_epoch_that_has_its_own_length_is_loaded() -> None:
    class Growing(Numbers):
        def __len__(self) -> int:
            return 3 + self.epoch

    loader = sk.DataLoader(Growing(), 1)
    loader.set_epoch(4)
    batches = iter(loader)
    next(batches)
    other = sk.DataLoader(Growing(), 1)
    other.load_state_dict(loader.state_dict())
    assert plain(other) == plain(batches)


def test_a_method_with_other_arguments_is_not_called() -> None:
    class Other(Numbers):
        def set_epoch(self, epoch: int, epochs: int) -> None:  # type: ignore[override]
            raise AssertionError("this is another method")

    assert plain(sk.DataLoader(Other(), 4)) == [[-100, -99, -98, -97]]


def test_a_data_set_that_nobody_reads_by_epochs_is_left_alone() -> None:
    dataset = Numbers()
    assert list(sk.view(dataset)) == [-100, -99, -98, -97]
    assert dataset.epoch == -1


def test_a_data_set_is_not_told_the_same_epoch_again() -> None:
    class Counting(Numbers):
        told = 0

        def set_epoch(self, epoch: int) -> None:
            super().set_epoch(epoch)
            self.told += 1

    dataset = Counting()
    with sk.DataLoader(dataset, 1, num_workers=2, method="thread") as loader:
        plain(loader)
        assert dataset.told == 1
        plain(loader)
        assert dataset.told == 2


class Training(Numbers):
    """Has other numbers with "epoch" in their names, which its method `set_epoch` reads."""

    def __init__(self) -> None:
        super().__init__()
        self.num_epochs, self.told = 90, list[int]()

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.told.append(epoch)
        self.progress = epoch / self.num_epochs


def test_the_numbers_of_a_data_set_are_neither_read_nor_changed() -> None:
    dataset = Training()
    loader = sk.DataLoader(dataset, 4)
    assert [plain(loader)[0][0] for _ in range(3)] == [0, 100, 200]
    assert (dataset.told, dataset.num_epochs, dataset.progress) == ([0, 1, 2], 90, 2 / 90)
    assert {type(number) for number in (dataset.epoch, dataset.num_epochs)} == {int}
    dataset.set_epoch(7)
    assert loader.epoch == 3
    assert plain(loader)[0][0] == 300


def test_set_epoch_of_a_loader_tells_the_data_set_again() -> None:
    dataset = Numbers()
    loader = sk.DataLoader(dataset, 4)
    loader.set_epoch(2)
    dataset.set_epoch(5)
    loader.set_epoch(2)
    assert plain(loader)[0][0] == 200
    assert loader.epoch == 3


@pytest.mark.parametrize("shuffles", [False, True])
def test_a_stream_of_hugging_face_resumes_exactly(shuffles: bool) -> None:
    datasets = pytest.importorskip("datasets")

    def build() -> Any:
        stream = datasets.Dataset.from_dict({"x": list(range(12))}).to_iterable_dataset(num_shards=3)
        return sk.DataLoader(stream.shuffle(seed=0, buffer_size=4) if shuffles else stream, 3)

    def numbers(loader: Any) -> list[Any]:
        return [batch["x"].tolist() for batch in loader]

    loader = build()
    assert len(numbers(loader)) == 4
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    other = build()
    other.load_state_dict(state)
    assert [numbers(other), numbers(other)] == [numbers(batches), numbers(loader)]


@pytest.mark.parametrize("combine", ["concatenate_datasets", "interleave_datasets"])
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("read", [3, 5])
def test_shuffled_streams_of_hugging_face_that_are_combined_resume_exactly(
    combine: str, workers: int, read: int
) -> None:
    datasets = pytest.importorskip("datasets")

    def stream(first: int, seed: int) -> Any:
        table = datasets.Dataset.from_dict({"x": list(range(first, first + 12))})
        return table.to_iterable_dataset(num_shards=2).shuffle(seed=seed, buffer_size=4)

    def build() -> Any:
        both = getattr(datasets, combine)([stream(0, 1), stream(100, 2)])
        return sk.DataLoader(both, 2, num_workers=workers, method="thread")

    def numbers(batches: Any) -> list[Any]:
        return [batch["x"].tolist() for batch in batches]

    with build() as loader, build() as first, build() as second:
        expected = numbers(loader)
        batches = iter(first)
        seen = numbers(next(batches) for _ in range(read))
        second.load_state_dict(first.state_dict())  # a warning would be an error
        assert seen + numbers(second) == expected


def test_a_streamed_data_set_of_hugging_face_has_another_order_in_every_epoch() -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": list(range(12))})
    stream = table.to_iterable_dataset(num_shards=3).shuffle(seed=0, buffer_size=2)
    loader = sk.DataLoader(stream, 12)
    orders = [next(iter(loader))["x"].tolist() for _ in range(3)]
    assert len({str(order) for order in orders}) == 3
    loader.set_epoch(1)
    assert next(iter(loader))["x"].tolist() == orders[1]


# -------------------------------------------------------------------- samplers


def of_torch(seed: int = 0) -> Any:
    return data.DistributedSampler(range(8), 2, 0, seed=seed)


def orders_of(sampler: Any, *epochs: int) -> list[Any]:
    found = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


@every_way
@pytest.mark.parametrize("who", ["the user", "the loader"])
@pytest.mark.parametrize("is_batched", [False, True])
def test_a_sampler_of_torch_is_told_by_the_user_or_the_loader(
    way: dict[str, Any], who: str, is_batched: bool
) -> None:
    sampler = of_torch()
    options: Any = {"batch_size": 4, "sampler": sampler}
    if is_batched:
        options = {"batch_sampler": data.BatchSampler(sampler, 4, False)}
    with sk.DataLoader(range(8), **options, **way) as loader:
        found = []
        for epoch in (4, 0, 5):
            (sampler if who == "the user" else loader).set_epoch(epoch)
            found += plain(loader)
        assert found == orders_of(of_torch(), 4, 0, 5)
        assert plain(loader) == orders_of(of_torch(), 5)  # as in PyTorch


def test_a_state_tells_its_epoch_to_a_sampler_of_torch() -> None:
    loader, other = (sk.DataLoader(range(8), 2, sampler=of_torch()) for _ in range(2))
    loader.set_epoch(3)
    batches = iter(loader)
    next(batches)
    other.load_state_dict(loader.state_dict())
    assert plain(other) == plain(batches)


@pytest.mark.parametrize("epoch", [None, 7])
@pytest.mark.parametrize("finished", [0, 2])
def test_a_state_leaves_the_number_of_a_sampler_that_the_loader_has_not_told(
    epoch: int | None, finished: int
) -> None:
    def build() -> Any:
        sampler = of_torch()
        if epoch is not None:
            sampler.set_epoch(epoch)
        return sk.DataLoader(range(8), 2, sampler=sampler)

    loader, other = build(), build()
    for _ in range(finished):
        plain(loader)
    batches = iter(loader)
    next(batches)
    other.load_state_dict(loader.state_dict())
    assert plain(other) == plain(batches)


def test_set_epoch_of_a_sampler_sets_the_epoch_of_its_loader() -> None:
    def build() -> Any:
        return RandomSampler(8, num_samples=4, seed=3)

    noisy = sk.random_map(lambda i, rng: int(rng.integers(1000)), range(8), seed=0)
    expected = sk.DataLoader(noisy, 4, sampler=build())
    expected.set_epoch(5)
    sampler = build()
    loader = sk.DataLoader(noisy, 4, sampler=sampler)
    plain(loader)
    sampler.set_epoch(5)
    assert loader.epoch == 5
    assert (loader.state_dict()["epoch"], loader.state_dict()["delivered"]) == (5, 0)
    assert plain(loader) == plain(expected)
    assert loader.epoch == 6


def test_an_endless_sampler_does_not_move_the_epoch_of_its_loader() -> None:
    loader = sk.DataLoader(range(3), 1, sampler=InfiniteSampler(range(3)))
    batches = iter(loader)
    for _ in range(10):
        next(batches)
    assert loader.epoch == 1


@pytest.mark.parametrize("name", ["sampler", "batch_sampler"])
@pytest.mark.parametrize("options", [{"shuffle": True, "seed": 1}, {}], ids=str)
def test_set_epoch_of_the_sampler_that_a_loader_shows_reaches_the_loader(name: str, options: Any) -> None:
    noisy = sk.random_map(lambda i, rng: (i, int(rng.integers(1000))), range(8), seed=0)
    loader = sk.DataLoader(noisy, 8, collate_fn=list, **options)
    shown = getattr(loader, name)
    shown.set_epoch(7)
    assert (loader.epoch, shown.epoch) == (7, 7)
    assert list(loader) == [loader.view.at_epoch(7)[0]]
    assert (loader.epoch, shown.epoch) == (8, 8)


@pytest.mark.parametrize("workers", [0, 2])
def test_set_epoch_of_a_sampler_counts_for_an_iterator_that_was_not_read(workers: int) -> None:
    with sk.DataLoader(range(12), 4, shuffle=True, seed=1, num_workers=workers) as loader:
        orders = [plain(loader.view.at_epoch(epoch)) for epoch in range(3)]
        iter(loader)
        unread = iter(loader)
        loader.sampler.set_epoch(0)  # as Lightning does
        found = plain([next(unread)])
        assert loader.state_dict()["delivered"] == 4
        assert loader.state_dict()["epoch"] == 0
        assert found + plain(unread) == orders[0]
        loader.sampler.set_epoch(1)
        assert plain(loader) == orders[1]
        assert plain(loader) == orders[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_set_epoch_of_a_given_sampler_counts_for_an_iterator_that_was_not_read(workers: int) -> None:
    sampler = RandomSampler(12, seed=1)
    orders = [list(sampler.at_epoch(epoch)) for epoch in range(3)]
    with sk.DataLoader(range(12), 12, sampler=sampler, num_workers=workers, method="thread") as loader:
        for epoch in (2, 0, 0, 1):
            unread = iter(loader)
            sampler.set_epoch(epoch)
            assert plain(unread) == [orders[epoch]]
            assert loader.epoch == epoch + 1


class Delayed(RandomSampler):
    """Counts its epochs when the first index is drawn."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_that_counts_late_gives_each_epoch_once(workers: int) -> None:
    sampler = Delayed(12, seed=1)
    orders = [[list(sampler.at_epoch(epoch))] for epoch in range(3)]
    with sk.DataLoader(range(12), 12, sampler=sampler, num_workers=workers, method="thread") as loader:
        assert [plain(loader) for _ in range(3)] == orders


@pytest.mark.parametrize("below", [0, 1, 2])
def test_the_sampler_that_a_loader_shows_has_the_order_of_its_next_epoch(below: int) -> None:
    dataset: Any = range(10)
    for _ in range(below):
        dataset = sk.random_map(lambda i, rng: i, dataset, seed=3)
    loader = sk.DataLoader(dataset, 4, shuffle=True, seed=1)
    for epoch in range(3):
        assert list(loader.sampler) == list(loader.sampler.order.at_epoch(epoch))
        assert loader.epoch == epoch + 1  # iterating the sampler counts an epoch
        loader.set_epoch(epoch)
        order = list(loader.batch_sampler)
        assert loader.epoch == epoch + 1
        loader.set_epoch(epoch)
        assert plain(loader) == order


@pytest.mark.parametrize("name", ["sampler", "batch_sampler"])
def test_the_sampler_of_a_loader_serves_another_loader(name: str) -> None:
    first = sk.DataLoader(range(10), 5, shuffle=True, seed=1)
    options: Any = {name: getattr(first, name), **({"batch_size": 5} if name == "sampler" else {})}
    second = sk.DataLoader(range(10), **options)
    expected = [plain(first) for _ in range(3)]
    second.set_epoch(0)  # they share the sampler, and its epoch
    assert [plain(second) for _ in range(3)] == expected
    assert first.epoch == second.epoch == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_the_sampler_of_a_copied_loader_belongs_to_the_copy(copied: Any) -> None:
    loader = sk.DataLoader(range(10), 5, shuffle=True, seed=1)
    other = copied(loader)
    other.batch_sampler.set_epoch(4)
    assert (loader.epoch, other.epoch) == (0, 4)


def test_rollover_follows_its_sampler() -> None:
    loader = sk.DataLoader(range(10), 4, shuffle=True, seed=1, last_batch="rollover")
    assert isinstance(loader.batch_sampler, BatchSampler)
    loader.sampler.set_epoch(3)
    expected = BatchSampler(RandomSampler(10, seed=1), 4, last="rollover")
    expected.set_epoch(3)
    assert plain(loader) == list(expected)
    assert loader.epoch == 4


def slice_of(view: Any) -> Any:
    len(view)  # which scans it
    return view[1:3]


class Groups(Numbers):
    epoch = 0

    def __getitem__(self, i: int) -> Any:
        return [self.epoch] * (1 + self.epoch)


FOLLOWERS: dict[str, tuple[Any, list[list[int]]]] = {
    "add_cache": (lambda: sk.add_cache(Numbers()), [[0, 1, 2, 3], [100, 101, 102, 103]]),
    "epochs": (lambda: sk.epochs(Numbers(), 2)[2:6], [[2, 3, 100, 101], [202, 203, 300, 301]]),
    "filter": (lambda: sk.filter(lambda x: x in (1, 2, 103), Numbers()), [[1, 2], [103]]),
    "slice of filter": (
        lambda: slice_of(sk.filter(lambda x: x not in (0, 103), Numbers())),
        [[2, 3], [101, 102]],
    ),
    "flatten": (lambda: sk.flatten(Groups()), [[0] * 4, [1] * 8]),
    "slice of flatten": (lambda: slice_of(sk.flatten(Groups())), [[0, 0], [1, 1]]),
}


@pytest.mark.parametrize("kind", FOLLOWERS)
def test_views_that_keep_something_follow_the_epoch_of_a_data_set(kind: str) -> None:
    made, expected = FOLLOWERS[kind]
    loader = sk.DataLoader(made(), None)
    assert [list(loader) for _ in range(2)] == expected
    view = made()
    assert [list(view.at_epoch(epoch)) for epoch in (0, 1, 0)] == [*expected, expected[0]]


def test_ranks_read_disjoint_samples_after_one_of_them_has_looked_at_a_batch() -> None:
    samplers = [data.DistributedSampler(range(8), 2, rank) for rank in range(2)]
    loaders = [sk.DataLoader(range(8), 2, sampler=sampler) for sampler in samplers]
    next(iter(loaders[0]))
    for epoch in range(3):
        seen = []
        for sampler, loader in zip(samplers, loaders, strict=True):
            sampler.set_epoch(epoch)
            seen += [i for batch in loader for i in batch.tolist()]
        assert sorted(seen) == list(range(8))


class Resampled:
    """Draws its items in set_epoch, from a global generator."""

    def __init__(self) -> None:
        self.items = list(range(8))

    def set_epoch(self, epoch: int) -> None:
        self.items = random.sample(range(8), 8)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> int:
        return self.items[i]


def test_workers_draw_the_same_in_set_epoch() -> None:
    with sk.DataLoader(Resampled(), 2, num_workers=2, persistent_workers=True) as loader:
        for _ in range(4):
            assert sorted(i for batch in loader for i in batch.tolist()) == list(range(8))
