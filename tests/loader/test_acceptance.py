"""`DataLoader` as users of PyTorch's expect it: order, samplers, batches, workers, faults and endings."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import weakref
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.resources import usable_cpus
from seqkit.samplers import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from seqkit.samplers.distributed import DistributedSampler
from seqkit.samplers.random_order import WeightedRandomSampler
from tests.engine.scripts import finished, running
from tests.engine.traces import (
    adopt_orphans,
    children,
    descriptors,
    drawn,
    is_collected,
    state,
    until,
    until_gone,
)
from tests.helpers import mostly_stress

from .ways import WAYS

# Functions and classes that workers need are defined inside others: they travel by value, whatever the start
# method.

adopt_orphans()

CONTEXTS = ("fork", "forkserver", "spawn")

every_way = pytest.mark.parametrize("way", WAYS)
every_way_with_workers = pytest.mark.parametrize("way", WAYS[1:])
every_way_with_processes = pytest.mark.parametrize("way", WAYS[2:])

more_workers_than_cpus = pytest.mark.filterwarnings("ignore:This DataLoader will create")


Loader = sk.DataLoader


def plain(value: Any) -> Any:
    """A batch with its arrays as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def read(dataset: Any, *args: Any, **options: Any) -> list[Any]:
    """One epoch, plainly."""
    with Loader(dataset, *args, **options) as loader:
        return plain(list(loader))


def flat(batches: list[Any]) -> list[Any]:
    """The samples of batches, one behind the other."""
    return list(itertools.chain.from_iterable(batches))


def squares(n: int) -> Any:
    return sk.smap(lambda i: i * i, range(n))


def pictures(n: int) -> Any:
    """Samples (image, label): number i is an image full of i, and -i."""
    return sk.smap(lambda i: (np.full((2, 3, 4), i, np.float32), -i), range(n))


def stream(n: int, length: int | None = None) -> Any:
    """A data set that can only be iterated; `length` is what it says it has."""

    class Stream:
        def __iter__(self) -> Iterator[int]:
            return iter(range(n))

    class Sized(Stream):
        def __len__(self) -> int:
            assert length is not None
            return length

    return Stream() if length is None else Sized()


# -------------------------------------------------------------------- data sets


@pytest.mark.parametrize("lengths", [[2, 3, 4], [5, 6], [0.5, 0.4], [0.5, 0.6]])
def test_parts_that_do_not_add_up_to_the_data_set_are_refused(lengths: list[float]) -> None:
    with pytest.raises(ValueError, match=r"must .*add up to 1"):
        sk.random_split(range(10), lengths)


@pytest.mark.parametrize(
    ("n", "lengths", "sizes"),
    [
        (15, [2, 4, 9], [2, 4, 9]),
        (10, [1, 9], [1, 9]),
        (3, [0.4, 0.6], [2, 1]),
        (15, [0.2, 0.2, 0.6], [3, 3, 9]),
        (15, [0.3] * 3 + [0.1], [5, 5, 4, 1]),
        (106, [0.1, 0.2, 0.3, 0.4], [11, 22, 31, 42]),
    ],
)
def test_parts_have_the_sizes_asked_for_and_the_first_ones_get_what_is_left_over(
    n: int, lengths: list[float], sizes: list[int]
) -> None:
    parts = sk.random_split(range(n), lengths, seed=0)
    assert [len(part) for part in parts] == sizes
    assert [len(Loader(part, 2)) for part in parts] == [-(-size // 2) for size in sizes]


@every_way
def test_loaders_of_the_parts_of_a_data_set_give_each_item_once(way: dict[str, Any]) -> None:
    parts = sk.random_split(squares(20), [5, 9, 6], seed=1)
    found = [number for part in parts for batch in read(part, 4, shuffle=True, **way) for number in batch]
    assert sorted(found) == [i * i for i in range(20)]


def test_the_same_seed_makes_the_same_parts() -> None:
    def split(seed: int) -> list[Any]:
        return [read(part) for part in sk.random_split(range(30), [10, 20], seed=seed)]

    assert split(3) == split(3) != split(4)


@pytest.mark.parametrize("way", [{}, {"num_workers": 1}], ids=["no workers", "process"])
@pytest.mark.parametrize("sampler", [None, np.array([2, 0]), [np.int32(2), np.uint8(0)]], ids=repr)
def test_a_data_set_is_asked_for_plain_ints(way: dict[str, Any], sampler: Any) -> None:
    class Strict:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> str:
            return type(i).__name__

    for dataset in (Strict(), *sk.random_split(Strict(), [1, 2])):
        found = read(dataset, None, sampler=sampler if len(dataset) == 3 else None, **way)
        assert set(found) == {"int"}


def test_parts_of_parts_and_slices_of_parts_are_data_sets() -> None:
    part, rest = sk.random_split(range(10), [6, 4], seed=0)
    kept = list(part)
    assert read(part[1:5], 2) == [kept[1:3], kept[3:5]]
    inner, _ = sk.random_split(part, [3, 3], seed=0)
    assert {i for (i,) in read(inner)} < set(kept)
    assert {i for (i,) in read(rest[::2])} <= set(range(10)) - set(kept)


@every_way
def test_arrays_side_by_side_are_a_data_set_of_tuples(way: dict[str, Any]) -> None:
    images, labels = np.arange(24.0).reshape(6, 4), np.arange(6)
    dataset = sk.collate([images, labels])
    assert len(dataset) == 6
    assert plain(dataset[3]) == [images[3].tolist(), 3]
    assert read(dataset, 4, **way) == [
        [images[:4].tolist(), labels[:4].tolist()],
        [images[4:].tolist(), labels[4:].tolist()],
    ]
    assert read(sk.collate({"x": images, "y": labels}), 6, **way) == [
        {"x": images.tolist(), "y": labels.tolist()}
    ]


@pytest.mark.parametrize("columns", [[], [[1, 2], [1]], [np.zeros((2, 2)), np.zeros((3, 2))]], ids=repr)
def test_columns_of_different_lengths_or_none_are_refused(columns: list[Any]) -> None:
    with pytest.raises(ValueError, match="collate: "):
        sk.collate(columns)


@every_way
def test_data_sets_one_behind_the_other_are_one(way: dict[str, Any]) -> None:
    dataset = sk.concatenate([range(5), [], np.arange(5, 8), [8]])
    assert len(dataset) == 9
    assert read(dataset, 4, **way) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    with pytest.raises(IndexError):
        dataset[9]
    assert dataset[-9] == 0


@every_way
@pytest.mark.parametrize("options", [{}, {"shuffle": True}], ids=["in order", "shuffled"])
def test_a_data_set_may_grow_and_shrink_between_epochs(options: dict[str, Any], way: dict[str, Any]) -> None:
    dataset = list(range(4))
    with Loader(dataset, **options, **way) as loader:
        assert len(loader) == len(list(loader)) == 4
        if "persistent_workers" in way:
            return  # its workers have the data set as it was
        dataset.append(4)
        assert len(loader) == 5
        assert sorted(plain(list(loader))) == [[0], [1], [2], [3], [4]]
        del dataset[1:]
        assert plain(list(loader)) == [[0]]


@pytest.mark.parametrize(
    ("dataset", "items"),
    [
        ([4, 5], [4, 5]),
        ((4, 5), [4, 5]),
        (range(4, 6), [4, 5]),
        ("ab", ["a", "b"]),
        ({0: 1.5, 1: 2.5}, [1.5, 2.5]),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (sk.smap(str, range(2)), ["0", "1"]),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("way", [{}, {"num_workers": 1}], ids=["no workers", "process"])
def test_whatever_can_be_indexed_is_a_data_set(dataset: Any, items: list[Any], way: dict[str, Any]) -> None:
    assert read(dataset, None, **way) == items
    assert read(dataset, 2, **way) == [items]


# -------------------------------------------------------------------- in order and shuffled


@every_way
@pytest.mark.parametrize("prefetch_factor", [None, 5])
def test_samples_come_singly_in_order(way: dict[str, Any], prefetch_factor: int | None) -> None:
    if prefetch_factor and not way:
        return
    with Loader(pictures(12), None, prefetch_factor=prefetch_factor, **way) as loader:
        for _ in range(2):
            samples = list(loader)
            assert [label for _, label in samples] == [-i for i in range(12)]
            assert all((image == i).all() for i, (image, _) in enumerate(samples))
            assert len(loader) == 12


@every_way
@pytest.mark.parametrize("prefetch_factor", [None, 5])
def test_batches_come_in_order(way: dict[str, Any], prefetch_factor: int | None) -> None:
    if prefetch_factor and not way:
        return
    with Loader(pictures(21), 2, prefetch_factor=prefetch_factor, **way) as loader:
        for _ in range(2):
            batches = list(loader)
            assert len(batches) == len(loader) == 11
            for number, (images, labels) in enumerate(batches):
                size = 2 if number < 10 else 1
                assert images.shape == (size, 2, 3, 4)
                assert labels.tolist() == [-2 * number - k for k in range(size)]
                assert (images == -labels[:, None, None, None]).all()


@every_way
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_shuffled_samples_come_once_each_with_what_belongs_to_them(
    way: dict[str, Any], batch_size: int | None
) -> None:
    with Loader(pictures(22), batch_size, shuffle=True, seed=0, **way) as loader:
        orders = []
        for _ in range(2):
            labels = []
            for images, numbers in loader:
                assert np.array_equal(images.reshape(-1, 24)[:, 0], -np.atleast_1d(numbers))
                labels += np.atleast_1d(numbers).tolist()
            orders.append(labels)
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(-i for i in range(22))
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("num_workers", "generator"), [(0, np.random.default_rng), (2, 7)], ids=["numpy", "int"]
)
def test_the_same_generator_shuffles_in_the_same_way(num_workers: int, generator: Any) -> None:
    def epochs() -> list[Any]:
        source = generator(7) if callable(generator) else generator
        with Loader(range(30), 7, True, num_workers=num_workers, generator=source) as loader:
            return [plain(list(loader)) for _ in range(3)]

    assert epochs() == epochs()


def test_reading_leaves_the_global_generators_alone() -> None:
    import random

    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1)
    np.random.seed(1)
    read(range(10), 2, shuffle=True)
    read(range(10), 2, shuffle=True, num_workers=1, method="thread")
    assert (random.random(), np.random.rand()) == expected


# -------------------------------------------------------------------- one stream, however it is computed


def noisy(n: int) -> Any:
    """Samples that differ with the seed and the epoch."""

    def noise(i: int, rng: np.random.Generator) -> Any:
        return {"x": i + rng.normal(size=3), "i": i, "name": f"n{i}"}

    return sk.random_map(noise, range(n), seed=5)


def two_epochs(**options: Any) -> list[Any]:
    with Loader(noisy(26), 4, shuffle=True, seed=9, **options) as loader:
        return [plain(list(loader)) for _ in range(2)]


@more_workers_than_cpus
@pytest.mark.parametrize(
    ("num_workers", "start", "persistent_workers"),
    [
        (2, "thread", False),
        (7, "thread", True),
        (1, "fork", True),
        (7, "fork", False),
        (2, "forkserver", True),
        (1, "spawn", True),
    ],
)
def test_the_stream_is_the_same_for_every_number_and_kind_of_workers(
    num_workers: int, start: str, persistent_workers: bool
) -> None:
    kind = {"method": "thread"} if start == "thread" else {"multiprocessing_context": start}
    expected = two_epochs()
    assert expected[0] != expected[1]
    assert two_epochs(num_workers=num_workers, persistent_workers=persistent_workers, **kind) == expected


@pytest.mark.parametrize(("context", "as_object"), [("fork", True), ("forkserver", False), ("spawn", True)])
def test_processes_start_as_asked(context: str, as_object: bool) -> None:
    asked = multiprocessing.get_context(context) if as_object else context
    with Loader(noisy(6), 2, num_workers=1, multiprocessing_context=asked) as loader:
        expected = Loader(noisy(6), 2)
        assert plain(list(loader)) == plain(list(expected))


@pytest.mark.parametrize("context", mostly_stress(*CONTEXTS))
def test_loaders_side_by_side_do_not_disturb_each_other(context: str) -> None:
    kind = {"num_workers": 1, "multiprocessing_context": context}
    with Loader(range(12), 3, **kind) as one, Loader(range(12, 24), 3, **kind) as other:
        pairs = plain(list(zip(one, other, strict=True)))
    assert pairs == [[list(range(i, i + 3)), list(range(i + 12, i + 15))] for i in range(0, 12, 3)]


@every_way
def test_two_iterators_of_a_loader_go_their_own_ways(way: dict[str, Any]) -> None:
    with Loader(range(12), 3, **way) as loader:
        early, late = iter(loader), iter(loader)
        found = [next(early), next(early), next(late), next(early), *late, *early]
    starts = [int(batch[0]) for batch in found]
    assert starts == [0, 3, 0, 6, 3, 6, 9, 9]


@every_way_with_workers
@pytest.mark.parametrize("epochs", [2])
def test_every_epoch_delivers_in_order_from_the_first_batch_on(way: dict[str, Any], epochs: int) -> None:
    with Loader(range(17), 1, **way) as loader:
        for _ in range(epochs):
            assert plain(list(loader)) == [[i] for i in range(17)]


@every_way
def test_the_epoch_behind_an_early_break_is_whole(way: dict[str, Any]) -> None:
    with Loader(range(20), 2, shuffle=True, seed=0, **way) as loader:
        for _ in loader:
            break
        second = plain(list(loader))
    with Loader(range(20), 2, shuffle=True, seed=0) as other:
        other.set_epoch(1)
        assert second == plain(list(other))


# -------------------------------------------------------------------- samplers


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("num_samples", [None, 1, 5, 14, 31])
def test_a_random_sampler_says_how_many_it_gives(replacement: bool, num_samples: int | None) -> None:
    sampler = RandomSampler(14, replacement, num_samples, seed=0)
    found = read(range(14), 4, sampler=sampler)
    count = 14 if num_samples is None else num_samples
    assert len(sampler) == sum(map(len, found)) == count
    assert len(Loader(range(14), 4, sampler=sampler)) == len(found) == -(-count // 4)


@every_way
@pytest.mark.parametrize("num_samples", [None, 5, 27])
def test_drawing_without_replacement_repeats_nothing_before_all_were_drawn(
    way: dict[str, Any], num_samples: int | None
) -> None:
    sampler = RandomSampler(10, num_samples=num_samples, seed=0)
    found = [i for (i,) in read(range(10), sampler=sampler, **way)]
    for start in range(0, len(found), 10):
        part = found[start : start + 10]
        assert len(set(part)) == len(part)
    assert sorted(Counter(found).values()) in ([1] * 10, [1] * 5, [2] * 3 + [3] * 7)


@every_way
@pytest.mark.parametrize(
    "sampler",
    [
        lambda: SequentialSampler(9),
        lambda: RandomSampler(9, seed=3),
        lambda: RandomSampler(9, True, 20, seed=3),
        lambda: SubsetRandomSampler([8, 1, 5], seed=3),
        lambda: WeightedRandomSampler([1, 2, 0, 0, 0, 0, 0, 0, 3], 11, seed=3),
        lambda: DistributedSampler(9, 2, 1, seed=3),
    ],
    ids=["sequential", "random", "replacement", "subset", "weighted", "distributed"],
)
def test_a_sampler_with_a_seed_gives_the_same_epochs_again(sampler: Any, way: dict[str, Any]) -> None:
    with Loader(squares(9), 4, sampler=sampler(), **way) as loader:
        found = [plain(list(loader)) for _ in range(2)]
    twin = sampler()
    expected = [[i * i for i in twin] for _ in range(2)]
    assert [flat(batches) for batches in found] == expected


def test_samplers_of_one_seed_agree_even_if_drawn_in_turns() -> None:
    one, other = (iter(RandomSampler(40, seed=2)) for _ in range(2))
    pairs = [(next(one), next(other)) for _ in range(40)]
    assert all(a == b for a, b in pairs)


@every_way
@pytest.mark.parametrize("sampler", [[5, 0, 5], range(6, 0, -2), np.array([1, 4]), (2,), {3: None, 1: None}])
def test_any_iterable_of_indices_is_a_sampler(way: dict[str, Any], sampler: Any) -> None:
    keys = [int(key) for key in sampler]
    expected = [[k * k for k in keys[i : i + 2]] for i in range(0, len(keys), 2)]
    with Loader(squares(7), 2, sampler=sampler, **way) as loader:
        assert [plain(list(loader)) for _ in range(2)] == [expected] * 2
        assert len(loader) == len(expected)


@pytest.mark.parametrize("context", [None, "spawn"])
def test_a_batch_sampler_makes_batches_of_any_size(context: str | None) -> None:
    lists = [[0], [3, 1, 2], (4, 5), np.array([6]), range(2)]
    with Loader(squares(7), batch_sampler=lists, num_workers=1, multiprocessing_context=context) as loader:
        assert len(loader) == 5
        assert plain(list(loader)) == [[0], [9, 1, 4], [16, 25], [36], [0, 1]]


@every_way
def test_without_batches_a_sampler_of_lists_reads_in_bulk(way: dict[str, Any]) -> None:
    class Table:
        def __len__(self) -> int:
            return 7

        def __getitem__(self, rows: list[int]) -> Any:
            return np.arange(0, 70, 10)[rows]

    found = read(Table(), None, sampler=BatchSampler(RandomSampler(7, seed=0), 3), **way)
    assert [len(part) for part in found] == [3, 3, 1]
    assert sorted(flat(found)) == list(range(0, 70, 10))
    in_order = read(Table(), None, sampler=BatchSampler(SequentialSampler(7), 3, True), **way)
    assert in_order == [[0, 10, 20], [30, 40, 50]]


@every_way
def test_a_batched_read_that_returns_too_few_items_is_refused(way: dict[str, Any]) -> None:
    class Odd:
        def __len__(self) -> int:
            return 6

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [i for i in indices if i % 2]

        def __getitem__(self, i: int) -> int:
            return i

    with Loader(Odd(), batch_sampler=[[1, 3], [3, 4, 5], [5]], **way) as loader:
        found = drawn(iter(loader))
    assert plain([found[0], found[2]]) == [[1, 3], [5]]
    assert "__getitems__ returned 2 items for 3" in str(found[1])


@pytest.mark.parametrize("rank", [-1, 3, 4])
def test_a_rank_beyond_the_replicas_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="rank must be"):
        DistributedSampler(10, 3, rank)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_replicas_share_a_data_set_evenly(shuffle: bool, drop_last: bool) -> None:
    samplers = [DistributedSampler(10, 3, rank, shuffle, seed=1, drop_last=drop_last) for rank in range(3)]
    shares = [[i for (i,) in read(range(10), sampler=sampler)] for sampler in samplers]
    assert {len(share) for share in shares} == {len(samplers[0])} == {3 if drop_last else 4}
    found = flat(shares)
    assert len(set(found)) == (9 if drop_last else 10)
    if not shuffle and not drop_last:
        assert shares == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]


def test_replicas_of_one_seed_agree_on_each_epoch_and_change_it_by_set_epoch() -> None:
    def epoch(number: int, seed: int = 0) -> list[list[int]]:
        samplers = [DistributedSampler(12, 2, rank, seed=seed) for rank in range(2)]
        loaders = [Loader(range(12), sampler=sampler) for sampler in samplers]
        for loader in loaders:
            loader.set_epoch(number)
        return [flat(plain(list(loader))) for loader in loaders]

    assert epoch(3) == epoch(3)
    assert len({str(epoch(0)), str(epoch(1)), str(epoch(0, seed=1))}) == 3
    for shares in (epoch(0), epoch(5)):
        assert sorted(flat(shares)) == list(range(12))


# -------------------------------------------------------------------- length


@pytest.mark.filterwarnings("ignore:DataLoader. an epoch has no batches")
@pytest.mark.parametrize("n", [0, 1, 9, 10])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("way", [{}, {"num_workers": 2, "method": "thread"}], ids=["no workers", "threads"])
def test_length_is_what_iterating_counts(n: int, drop_last: bool, way: dict[str, Any]) -> None:
    for batch_size in (1, 2, 3, n or 1, n + 1):
        with Loader(range(n), batch_size, drop_last=drop_last, **way) as loader:
            assert len(loader) == len(list(loader)) == (n // batch_size if drop_last else -(-n // batch_size))
    assert len(Loader(range(n), None, **way)) == n


def test_length_is_that_of_the_sampler_and_not_of_the_data_set() -> None:
    assert len(Loader(range(100), 3, sampler=range(7))) == 3
    assert len(Loader(range(100), batch_sampler=[[1], [2, 3]])) == 2
    assert len(Loader(range(100), None, sampler=[4, 4])) == 2


# -------------------------------------------------------------------- data sets that can only be iterated


@every_way
@pytest.mark.parametrize("batch_size", [None, 1, 4, 30])
@pytest.mark.parametrize("drop_last", [False, True])
def test_what_can_only_be_iterated_gives_each_item_once_in_order(
    way: dict[str, Any], batch_size: int | None, drop_last: bool
) -> None:
    if batch_size is None:
        assert read(stream(14), None, **way) == list(range(14))
        return
    whole = [list(range(i, min(i + batch_size, 14))) for i in range(0, 14, batch_size)]
    expected = [batch for batch in whole if not drop_last or len(batch) == batch_size]
    with Loader(stream(14), batch_size, drop_last=drop_last, **way) as loader:
        assert [plain(list(loader)) for _ in range(2)] == [expected] * 2


@every_way
def test_a_chain_of_iterables_is_read_through(way: dict[str, Any]) -> None:
    class Chain:
        def __iter__(self) -> Iterator[int]:
            return itertools.chain(range(3), [], range(3, 8))

    assert read(Chain(), 3, **way) == [[0, 1, 2], [3, 4, 5], [6, 7]]


@every_way
def test_an_iterable_that_deals_itself_out_to_workers_still_gives_everything(way: dict[str, Any]) -> None:
    class Dealing:
        def __iter__(self) -> Iterator[int]:
            info = sk.get_worker_info()
            first, step = (0, 1) if info is None else (info.id, info.num_workers)
            return iter(range(first, 11, step))

    assert read(Dealing(), 4, **way) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


@pytest.mark.parametrize(("batch_size", "drop_last", "n"), [(None, False, 10), (3, False, 4), (3, True, 3)])
def test_the_length_of_an_iterable_is_what_it_says(batch_size: int | None, drop_last: bool, n: int) -> None:
    assert len(Loader(stream(5, length=10), batch_size, drop_last=drop_last)) == n
    with pytest.raises(TypeError, match="no length"):
        len(Loader(stream(5), batch_size, drop_last=drop_last))


@every_way
@pytest.mark.parametrize("claimed", [0, 3, 100])
def test_an_iterable_that_is_wrong_about_its_length_loses_nothing(way: dict[str, Any], claimed: int) -> None:
    expected = [[0, 1, 2], [3, 4, 5], [6]]
    assert read(stream(7, length=claimed), 3, **way) == expected


@every_way
def test_an_error_in_the_midst_of_an_iterable_comes_behind_what_came_before(way: dict[str, Any]) -> None:
    class Breaking:
        def __init__(self, after: int) -> None:
            self.after = after

        def __iter__(self) -> Iterator[int]:
            if not self.after:
                raise OSError("not mounted")
            return self.items()

        def items(self) -> Iterator[int]:
            yield from range(self.after)
            raise OSError("cable pulled")

    for after, text in ((0, "not mounted"), (5, "cable pulled")):
        with Loader(Breaking(after), 2, **way) as loader:
            found = drawn(iter(loader))
        assert plain(found[:-1]) == [[0, 1], [2, 3]][: after // 2]
        assert isinstance(found[-1], sk.EvaluationError)
        assert repr(found[-1].__cause__) == f"OSError({text!r})"


@pytest.mark.parametrize("way", WAYS[:2])
def test_an_iterator_is_read_once_and_what_comes_behind_is_an_error(way: dict[str, Any]) -> None:
    with Loader(iter(range(5)), 2, **way) as loader:
        assert plain(list(loader)) == [[0, 1], [2, 3], [4]]
        with pytest.raises(RuntimeError):
            list(loader)


# -------------------------------------------------------------------- what samples are


@every_way
def test_numpy_scalars_keep_their_dtype(way: dict[str, Any]) -> None:
    dtypes = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    dataset = sk.smap(lambda i: {dtype: np.dtype(dtype).type(i % 2) for dtype in dtypes}, range(3))
    with Loader(dataset, 3, **way) as loader:
        (batch,) = loader
    assert {dtype: str(array.dtype) for dtype, array in batch.items()} == dict(
        zip(dtypes, dtypes, strict=True)
    )
    assert all(plain(array) == [0, 1, 0] for array in batch.values())


@every_way
def test_numbers_and_arrays_of_double_precision_stay_so(way: dict[str, Any]) -> None:
    dataset = sk.smap(lambda i: (np.full((2, 3, 4), i / 7), i / 7, i, i > 3), range(12))
    with Loader(dataset, 12, **way) as loader:
        ((arrays, floats, ints, flags),) = loader
    assert (arrays.shape, arrays.dtype) == ((12, 2, 3, 4), np.float64)
    assert (floats.dtype, ints.dtype, flags.dtype) == (np.float64, np.int64, np.bool_)
    assert floats.tolist() == [i / 7 for i in range(12)]
    assert (arrays == floats[:, None, None, None]).all()


@every_way
def test_text_survives(way: dict[str, Any]) -> None:
    dataset = sk.smap(lambda i: (f"sample {i}", f"b{i}".encode(), i), range(6))
    assert read(dataset, 2, **way)[1] == [["sample 2", "sample 3"], [b"b2", b"b3"], [2, 3]]


@every_way
def test_nested_mappings_are_collated_by_key(way: dict[str, Any]) -> None:
    dataset = sk.smap(lambda i: {"a": np.full(3, i), "b": {"c": i, "d": [str(i), i / 2]}}, range(20))
    batches = read(dataset, 2, **way)
    assert len(batches) == 10
    for number, batch in enumerate(batches):
        one, two = 2 * number, 2 * number + 1
        assert batch == {
            "a": [[one] * 3, [two] * 3],
            "b": {"c": [one, two], "d": [[str(one), str(two)], [one / 2, two / 2]]},
        }


@every_way
def test_named_tuples_stay_themselves(way: dict[str, Any]) -> None:
    with Loader(sk.smap(pair, range(4)), 4, **way) as loader:
        (batch,) = loader
    assert type(batch) is Pair
    assert plain(batch.data) == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert plain(batch.label) == [0, -1, -2, -3]


Pair = namedtuple("Pair", "data label")


def pair(i: int) -> Pair:
    return Pair(np.full(2, i), -i)


@every_way
def test_a_collate_function_may_return_a_batch_of_its_own_class(way: dict[str, Any]) -> None:
    class Batch:
        def __init__(self, samples: list[Any]) -> None:
            assert type(samples) is list
            self.total = sum(samples)
            self.arrays = np.array(samples, np.float32)

    with Loader(range(6), 3, collate_fn=Batch, **way) as loader:
        batches = list(loader)
    assert [batch.total for batch in batches] == [3, 12]
    assert plain([batch.arrays for batch in batches]) == [[0, 1, 2], [3, 4, 5]]


@every_way
@pytest.mark.parametrize("batch_size", [None, 2])
def test_containers_keep_their_type_and_views_and_ranges_become_lists(
    way: dict[str, Any], batch_size: int | None
) -> None:
    samples = [{"a": 1}, OrderedDict(b=1, a=2), [1, 2], (1, 2), Pair(1, 2), range(2)]
    with Loader([samples] * 2, batch_size, **way) as loader:
        batch = next(iter(loader))
    kinds = [dict, OrderedDict, list, tuple, Pair, range if batch_size is None else list]
    assert [type(part) for part in batch] == kinds


@pytest.mark.parametrize("bad", [np.array(["a"]), np.array([None]), None, object()], ids=repr)
@pytest.mark.parametrize("way", [{}, {"num_workers": 1}], ids=["no workers", "process"])
def test_what_cannot_be_a_batch_is_refused_by_type(way: dict[str, Any], bad: Any) -> None:
    dataset = sk.smap(lambda i: bad, range(2))
    with Loader(dataset, 2, **way) as loader, pytest.raises(sk.EvaluationError) as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, TypeError)


@every_way
def test_samples_of_a_memory_map_are_read(way: dict[str, Any], tmp_path: Any) -> None:
    stored = np.memmap(tmp_path / "stored", np.float32, "w+", shape=(6, 2))
    stored[:] = np.arange(12).reshape(6, 2)
    with Loader(stored, 4, **way) as loader:
        batches = list(loader)
    assert {type(batch) for batch in batches} == {np.ndarray}
    assert plain(batches) == [[[0, 1], [2, 3], [4, 5], [6, 7]], [[8, 9], [10, 11]]]


# -------------------------------------------------------------------- batches belong to the reader


@every_way
@pytest.mark.parametrize("collect", [list, tuple], ids=["list", "tuple"])
def test_all_batches_may_be_kept_many_more_than_are_read_ahead(way: dict[str, Any], collect: Any) -> None:
    dataset = sk.smap(lambda i: np.full(3000, i), range(120))
    ahead = {"prefetch_factor": 1} if way else {}
    with Loader(dataset, **ahead, **way) as loader:
        batches = collect(loader)
    assert len(batches) == 120
    assert all((batch == i).all() for i, batch in enumerate(batches))


@every_way
def test_a_batch_changed_in_place_changes_no_other_and_no_later_epoch(way: dict[str, Any]) -> None:
    dataset = sk.smap(lambda i: np.full(5000, i), range(30))
    with Loader(dataset, 2, **way) as loader:
        for _ in range(2):
            kept = []
            for number, batch in enumerate(loader):
                assert (batch == [[2 * number], [2 * number + 1]]).all()
                batch *= -1
                if number % 3 == 0:
                    kept.append((number, batch))
            for number, batch in kept:
                assert (batch == [[-2 * number], [-2 * number - 1]]).all()


@every_way_with_processes
def test_changing_a_batch_does_not_change_the_data_set(way: dict[str, Any]) -> None:
    data = np.zeros((8, 3))
    with Loader(data, 4, **way) as loader:
        for _ in range(2):
            for batch in loader:
                assert not batch.any()
                batch += 1
    assert not data.any()


@every_way
def test_a_batch_may_have_many_arrays(way: dict[str, Any]) -> None:
    dataset = sk.smap(lambda i: {f"k{k}": np.float64(i * k) for k in range(128)}, range(8))
    with Loader(dataset, 2, **way) as loader:
        batches = list(loader)
    assert [len(batch) for batch in batches] == [128] * 4
    for number, batch in enumerate(batches):
        for k in range(128):
            assert batch[f"k{k}"].tolist() == [2 * number * k, (2 * number + 1) * k]


def test_batches_survive_their_loader() -> None:
    with Loader(np.arange(20_000).reshape(4, 5000), 2, num_workers=1) as loader:
        first, second = loader
    del loader
    gc.collect()
    assert first.tolist() == np.arange(10_000).reshape(2, 5000).tolist()
    assert second[1, -1] == 19_999


def test_two_hundred_batches_can_be_kept_with_a_hundred_descriptors(tmp_path: Any) -> None:
    code = """
        import resource
        import numpy as np
        import seqkit as sk

        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        dataset = sk.smap(lambda i: (np.full((2, 2), i), np.full(5000, i)), range(200))
        with sk.DataLoader(dataset, num_workers=1) as loader:
            batches = list(loader)
        assert all((a == i).all() and (b == i).all() for i, (a, b) in enumerate(batches))
        print(len(batches))
    """
    assert finished(tmp_path, code) == (0, "200\n", "")


# -------------------------------------------------------------------- workers


@every_way_with_workers
def test_worker_init_fn_runs_before_the_first_sample_of_its_worker(way: dict[str, Any]) -> None:
    def begin(number: int) -> None:
        begun.append(number)

    def asked(i: int) -> list[int]:
        info = sk.get_worker_info()
        assert info is not None
        return [info.id, begun.count(info.id)]

    begun: list[int] = []
    with Loader(sk.smap(asked, range(12)), None, worker_init_fn=begin, **way) as loader:
        found = list(loader)
    assert all(number in range(2) and count == 1 for number, count in found)


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("method", ["thread", "process"])
def test_worker_init_fn_runs_once_in_the_life_of_a_worker(
    tmp_path: Any, method: str, persistent_workers: bool
) -> None:
    def begin(number: int) -> None:
        with open(tmp_path / str(number), "a") as file:
            file.write("x")

    with Loader(
        range(4),
        num_workers=1,
        method=method,
        worker_init_fn=begin,
        persistent_workers=persistent_workers,
    ) as loader:
        for _ in range(3):
            list(loader)
    assert (tmp_path / "0").read_text() == ("x" if persistent_workers else "xxx")


@pytest.mark.parametrize("method", ["thread", "process"])
def test_a_loader_is_collected_with_the_object_whose_methods_it_calls(method: str) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.loader = Loader(
                self,
                2,
                num_workers=1,
                method=method,
                collate_fn=self.collate,
                worker_init_fn=self.begin,
                persistent_workers=True,
            )

        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> int:
            return i

        def begin(self, number: int) -> None: ...

        def collate(self, items: list[int]) -> int:
            return sum(items)

    trainer = Trainer()
    assert list(trainer.loader) == [1, 5, 9, 13]
    gone = weakref.ref(trainer)
    del trainer
    assert until(lambda: is_collected(gone))


@every_way_with_workers
def test_an_error_of_worker_init_fn_comes_with_the_first_batch(way: dict[str, Any]) -> None:
    def begin(number: int) -> None:
        raise ValueError("no such device")

    with Loader(range(4), worker_init_fn=begin, **way) as loader:
        batches = iter(loader)
        with pytest.raises(RuntimeError, match="no such device") as caught:
            next(batches)
        assert isinstance(caught.value.__cause__, ValueError)


@every_way_with_workers
def test_samples_know_their_worker_and_nobody_else_does(way: dict[str, Any]) -> None:
    class Asking:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> list[Any]:
            info = sk.get_worker_info()
            assert info is not None
            return [info.id, info.num_workers, info.seed, info.method, info.dataset is self, os.getpid()]

    assert sk.get_worker_info() is None
    with Loader(Asking(), None, **way) as loader:
        found = list(loader)
    assert sk.get_worker_info() is None
    for number, workers, seed, method, own, pid in found:
        assert number in range(2)
        assert (workers, method, own) == (2, way.get("method", "process"), True)
        assert isinstance(seed, int)
        assert (pid == os.getpid()) == (method == "thread")
    with pytest.raises(AttributeError):
        sk.WorkerInfo(0, 1, 2, "thread").id = 3  # type: ignore[misc]


@more_workers_than_cpus
@pytest.mark.parametrize("method", ["thread", "process"])
def test_six_workers_have_six_seeds_which_follow_from_that_of_the_loader(tmp_path: Any, method: str) -> None:
    def seeds(run: str, seed: int) -> set[str]:
        folder = tmp_path / run
        folder.mkdir()

        def begin(number: int) -> None:
            info = sk.get_worker_info()
            assert info is not None
            part = folder / f"part {number}"
            part.write_text(str(info.seed))
            part.rename(folder / f"{number}")

        with Loader(
            range(60), num_workers=6, method=method, worker_init_fn=begin, generator=seed, prefetch_factor=1
        ) as loader:
            batches = iter(loader)
            next(batches)
            until(lambda: {path.name for path in folder.iterdir()} == set("012345"))
        return {path.read_text() for path in folder.iterdir()}

    first = seeds("first", 1)
    assert len(first) == 6
    assert seeds("again", 1) == first
    assert not seeds("other", 2) & first


@every_way_with_processes
def test_the_global_generators_of_workers_differ(way: dict[str, Any], tmp_path: Any) -> None:
    def begin(number: int) -> None:
        import random

        part = tmp_path / f"part {number}"
        part.write_text(f"{random.random()} {np.random.rand()}")
        part.rename(tmp_path / f"{number}")

    with Loader(range(20), worker_init_fn=begin, seed=1, **way) as loader:
        next(iter(loader))
        until(lambda: {path.name for path in tmp_path.iterdir()} == set("01"))
    one, other = ((tmp_path / name).read_text().split() for name in "01")
    assert not set(one) & set(other)


@every_way_with_processes
def test_each_process_has_a_copy_of_the_data_set(way: dict[str, Any]) -> None:
    class Counting:
        def __init__(self) -> None:
            self.reads = 0

        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> int:
            self.reads += 1
            return self.reads

    dataset = Counting()
    with Loader(dataset, 2, **{**way, "num_workers": 1}) as loader:
        epochs = [flat(plain(list(loader))) for _ in range(2)]
    assert dataset.reads == 0
    lasting = "persistent_workers" in way
    assert epochs == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12] if lasting else [1, 2, 3, 4, 5, 6]]


@every_way_with_processes
def test_a_worker_may_bind_itself_to_cpus(way: dict[str, Any]) -> None:
    cpu = max(os.sched_getaffinity(0))

    def bind(number: int) -> None:
        os.sched_setaffinity(0, [cpu])

    dataset = sk.smap(lambda i: sorted(os.sched_getaffinity(0)), range(4))
    with Loader(dataset, None, worker_init_fn=bind, **way) as loader:
        assert list(loader) == [[cpu]] * 4


@pytest.mark.parametrize("excess", [0, 1])
def test_more_workers_than_cpus_are_warned_of(excess: int, recwarn: pytest.WarningsRecorder) -> None:
    Loader(range(3), num_workers=usable_cpus() + excess)
    found = [str(warning.message) for warning in recwarn]
    assert len(found) == excess
    assert all(f"will create {usable_cpus() + 1} worker processes" in text for text in found)


@every_way
def test_a_loader_may_be_read_in_another_thread(way: dict[str, Any]) -> None:
    def body() -> None:
        with Loader(noisy(8), 2, **way) as loader:
            found.append(plain(list(loader)))

    found: list[Any] = []
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert found == [read(noisy(8), 2)]


@every_way
def test_a_loader_made_here_may_be_read_in_several_threads(way: dict[str, Any]) -> None:
    def body() -> None:
        found.append(plain(list(loader)))

    found: list[Any] = []
    with Loader(range(20), 3, **way) as loader:
        threads = [threading.Thread(target=body) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [read(range(20), 3)] * 3


@pytest.mark.parametrize("inner", ["thread", "process"])
@every_way_with_workers
def test_a_loader_may_be_read_inside_a_worker(way: dict[str, Any], inner: str) -> None:
    def total(i: int) -> int:
        with sk.DataLoader(range(10 * i, 10 * i + 10), 3, num_workers=2, method=inner) as loader:
            return sum(int(batch.sum()) for batch in loader)

    assert read(sk.smap(total, range(4)), 2, **way) == [[45, 145], [245, 345]]


# -------------------------------------------------------------------- as they come


class Gate:
    """Samples that wait, in whatever process, until the test lets them go on."""

    def __init__(self, folder: Any) -> None:
        self.path = str(folder / "gate")
        os.mkfifo(self.path)

    def wait(self) -> None:
        with open(self.path) as file:
            file.read()

    def open(self) -> None:
        with open(self.path, "w"):
            pass


def gated(n: int, held: set[int], gate: Gate) -> Any:
    path = gate.path

    def item(i: int) -> int:
        if i in held:
            with open(path) as file:
                file.read()
        return i

    return sk.smap(item, range(n))


@pytest.mark.parametrize("way", WAYS[1:3])
def test_out_of_order_a_batch_that_takes_long_holds_up_no_other(way: dict[str, Any], tmp_path: Any) -> None:
    gate = Gate(tmp_path)
    # A timeout, of which nothing comes, has every item travel by itself.
    with Loader(gated(10, {0}, gate), in_order=False, timeout=60, **way) as loader:
        batches = iter(loader)
        early = [plain(next(batches)) for _ in range(3)]
        gate.open()
        late = plain(list(batches))
    assert [0] not in early
    assert sorted(early + late) == [[i] for i in range(10)]


@pytest.mark.parametrize("way", WAYS[1:3])
def test_in_order_the_first_batch_is_waited_for(way: dict[str, Any], tmp_path: Any) -> None:
    gate = Gate(tmp_path)
    with Loader(gated(6, {0}, gate), timeout=60, **way) as loader:
        opener = threading.Thread(target=gate.open)
        opener.start()
        assert plain(list(loader)) == [[i] for i in range(6)]
        opener.join()


@every_way
def test_out_of_order_without_delays_gives_each_sample_once(way: dict[str, Any]) -> None:
    with Loader(range(31), 4, in_order=False, **way) as loader:
        assert sorted(flat(plain(list(loader)))) == list(range(31))


@pytest.mark.parametrize("way", WAYS[1:3])
def test_a_batch_that_takes_longer_than_the_timeout_fails_and_the_others_come(
    way: dict[str, Any], tmp_path: Any
) -> None:
    gate = Gate(tmp_path)
    with Loader(gated(8, {4}, gate), 2, timeout=1, **way) as loader:
        found = drawn(iter(loader))
        if way.get("method") == "thread":
            gate.open()
    assert plain(found[:2] + found[3:]) == [[0, 1], [2, 3], [6, 7]]
    assert isinstance(found[2], sk.ItemTimeout)
    assert isinstance(found[2], RuntimeError)
    assert isinstance(found[2], TimeoutError)
    assert "took longer than 1" in str(found[2])
    assert found[2].index == 2


# -------------------------------------------------------------------- errors of samples


class Odd(Exception):
    """Cannot be made from its text."""

    def __init__(self, code: int, place: str) -> None:
        super().__init__(f"{code} at {place}")
        self.code = code


@every_way
def test_each_bad_batch_costs_one_error_and_all_others_come(way: dict[str, Any]) -> None:
    def item(i: int) -> int:
        if i in (3, 4, 5, 9):
            raise KeyError(i)
        return i

    with Loader(sk.smap(item, range(12)), 2, **way) as loader:
        for _ in range(2):
            found = drawn(iter(loader))
            assert plain([batch for batch in found if isinstance(batch, np.ndarray)]) == [
                [0, 1],
                [6, 7],
                [10, 11],
            ]
            errors = {number: error for number, error in enumerate(found) if isinstance(error, Exception)}
            assert list(errors) == [1, 2, 4]
            for number, index in ((1, 3), (2, 4), (4, 9)):
                assert type(errors[number]) is sk.EvaluationError
                assert errors[number].index == index
                assert repr(errors[number].__cause__) == f"KeyError({index})"


@every_way
def test_an_error_says_which_sample_and_what_happened(way: dict[str, Any]) -> None:
    def item(i: int) -> int:
        if i == 5:
            raise OSError(2, "no such file", "/data/5.png")
        return i

    with Loader(sk.smap(item, range(8)), 4, **way) as loader, pytest.raises(sk.EvaluationError) as caught:
        list(loader)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.index == 5
    cause = caught.value.__cause__
    assert type(cause) is FileNotFoundError
    assert (cause.errno, cause.filename) == (2, "/data/5.png")
    assert "smap[5] failed: FileNotFoundError" in str(caught.value)


@every_way
def test_an_error_that_cannot_be_rebuilt_still_says_its_name_and_text(way: dict[str, Any]) -> None:
    def item(i: int) -> int:
        if i == 1:
            raise Odd(7, "the shelf")
        return i

    with Loader(sk.smap(item, range(3)), **way) as loader:
        found = drawn(iter(loader))
    assert plain([found[0], found[2]]) == [[0], [2]]
    assert "Odd: 7 at the shelf" in str(found[1])


@every_way
def test_stop_iteration_of_a_sample_is_an_error_and_no_end(way: dict[str, Any]) -> None:
    class Stopping:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> int:
            if i == 3:
                raise StopIteration
            return i

    for options in ({}, {"sampler": range(8)}, {"collate_fn": list}):
        with Loader(Stopping(), 2, **options, **way) as loader:
            found = drawn(iter(loader))
        assert plain([found[0], *found[2:]]) == [[0, 1], [4, 5], [6, 7]]
        assert isinstance(found[1], sk.EvaluationError)
        assert isinstance(found[1].__cause__, StopIteration)


@every_way
@pytest.mark.parametrize("place", ["collate_fn", "batch_transform"])
def test_stop_iteration_of_a_function_for_batches_is_an_error_and_no_end(
    way: dict[str, Any], place: str
) -> None:
    def stopping(batch: Any) -> Any:
        if 2 in batch:
            raise StopIteration
        return batch

    with Loader(range(6), 2, **{place: stopping}, **way) as loader:
        found = drawn(iter(loader))
    assert plain([found[0], found[2]]) == [[0, 1], [4, 5]]
    assert isinstance(found[1], sk.EvaluationError)
    assert len(found) == 3


@every_way_with_processes
def test_a_batch_that_cannot_be_pickled_is_an_error_and_all_others_come(way: dict[str, Any]) -> None:
    def item(i: int) -> Any:
        return threading.Lock() if i == 5 else i

    with Loader(sk.smap(item, range(8)), 2, collate_fn=list, **way) as loader:
        for _ in range(2):
            found = drawn(iter(loader))
            assert plain(found[:2] + found[3:]) == [[0, 1], [2, 3], [6, 7]]
            assert isinstance(found[2], sk.EvaluationError)
            assert "cannot be sent" in str(found[2])


@every_way_with_workers
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_of_a_sample_is_its_error_and_not_the_readers_end(
    way: dict[str, Any], kind: type[BaseException]
) -> None:
    def item(i: int) -> int:
        if i == 4:
            raise kind(3)
        return i

    with Loader(sk.smap(item, range(8)), 2, **way) as loader:
        found = drawn(iter(loader))
    assert plain(found[:2] + found[3:]) == [[0, 1], [2, 3], [6, 7]]
    assert type(found[2]) is sk.EvaluationError
    assert type(found[2].__cause__) is kind


DEADLY = {
    "os._exit(0)": "exited with status 0",
    "os._exit(3)": "exited with status 3",
    "SIGKILL": r"killed by signal 9 \(SIGKILL\)",
    "SIGSEGV": r"killed by signal 11 \(SIGSEGV\)",
    "SIGTERM": r"killed by signal 15 \(SIGTERM\)",
}


def deadly(n: int, at: int, how: str) -> Any:
    def item(i: int) -> Any:
        if i == at:
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if how.startswith("os._exit"):
                os._exit(int(how[-2]))
            number = getattr(signal, how)
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
            os.kill(os.getpid(), number)
        return np.full(1000, i)

    return sk.smap(item, range(n))


@pytest.mark.parametrize(
    ("how", "where"),
    mostly_stress(
        ("os._exit(0)", "main thread"),
        ("SIGSEGV", "main thread"),
        ("SIGKILL", "other thread"),
        ("os._exit(3)", "main thread"),
        ("SIGTERM", "main thread"),
        here=3,
    ),
)
def test_a_sample_that_kills_its_worker_costs_its_batch_only(how: str, where: str) -> None:
    def body() -> None:
        with Loader(deadly(20, 11, how), 2, num_workers=2) as loader:
            found.extend(drawn(iter(loader)))

    found: list[Any] = []
    if where == "main thread":
        body()
    else:
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    assert len(found) == 10
    for number, batch in enumerate(found):
        if number != 5:
            assert (batch == [[2 * number], [2 * number + 1]]).all()
    error = found[5]
    assert type(error) is sk.WorkerDied
    assert isinstance(error, RuntimeError)
    assert error.index == 5
    with pytest.raises(sk.WorkerDied, match=DEADLY[how]):
        raise error


@pytest.mark.parametrize(
    "context",
    [*CONTEXTS[:2], pytest.param(CONTEXTS[2], marks=pytest.mark.stress)],  # spawn starts slowly
)
def test_workers_are_replaced_whatever_started_them(context: str) -> None:
    options = {"num_workers": 1, "multiprocessing_context": context, "persistent_workers": True}
    with Loader(deadly(8, 3, "SIGKILL"), 2, **options) as loader:
        for _ in range(2):
            found = drawn(iter(loader))
            assert [type(batch) for batch in found] == [np.ndarray, sk.WorkerDied, np.ndarray, np.ndarray]


def test_a_worker_killed_from_outside_costs_nothing(tmp_path: Any) -> None:
    gate = Gate(tmp_path)
    here = children()
    with Loader(gated(10, {9}, gate), num_workers=1, timeout=60) as loader:
        batches = iter(loader)
        found = [plain(next(batches)) for _ in range(9)]
        (worker,) = children() - here
        os.kill(worker, signal.SIGKILL)
        until(lambda: state(worker) == "Z")
        opener = threading.Thread(target=gate.open)
        opener.start()
        found += plain(list(batches))
        opener.join()
    assert found == [[i] for i in range(10)]


# -------------------------------------------------------------------- bad samples that are tolerated


def partly(n: int, bad: set[int]) -> Any:
    def item(i: int) -> int:
        if i in bad:
            raise ValueError(f"bad {i}")
        return i

    return sk.smap(item, range(n))


@every_way
@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("skip", [[0, 1], [3], [6, 7]]),
        ("replace", [[0, 1], [3, 3], [6, 6], [6, 7]]),
        (lambda error: -error.index, [[0, 1], [-2, 3], [-4, -5], [6, 7]]),
    ],
    ids=["skip", "replace", "callable"],
)
def test_bad_samples_are_left_out_or_replaced_and_listed(
    way: dict[str, Any], on_error: Any, expected: list[list[int]]
) -> None:
    with Loader(partly(8, {2, 4, 5}), 2, on_error=on_error, **way) as loader:
        assert plain(list(loader)) == expected
        failures = dict(loader.failed)
    assert set(failures) == {2, 4, 5}
    assert failures[4] == "ValueError: bad 4"


# -------------------------------------------------------------------- endings


@every_way_with_processes
@pytest.mark.parametrize("batches_read", [0, 1, 3])
def test_workers_end_when_a_half_read_iterator_is_dropped(way: dict[str, Any], batches_read: int) -> None:
    here = children()
    loader = Loader(range(40), 2, **way)
    batches = iter(loader)
    for _ in range(batches_read):
        next(batches)
    workers = children() - here
    del batches
    if "persistent_workers" in way:
        loader.close()
    del loader
    gc.collect()
    assert until_gone(workers, 10) == []


@every_way
def test_an_iterator_outlives_its_loader(way: dict[str, Any]) -> None:
    batches = iter(Loader(range(9), 2, **way))
    gc.collect()
    assert plain(list(batches)) == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    assert next(iter(Loader(range(9), 2, **way))).tolist() == [0, 1]


@every_way_with_processes
def test_epochs_and_early_breaks_use_up_no_descriptors(way: dict[str, Any]) -> None:
    with Loader(pictures(12), 2, **way) as loader:
        for number in range(8):
            for _ in loader:
                if number % 2:
                    break
            if number == 1:
                most = len(descriptors())
        gc.collect()
        assert until(lambda: len(descriptors()) <= most, 5)


@every_way_with_processes
def test_workers_end_with_the_block_whatever_is_still_held(way: dict[str, Any]) -> None:
    here = children()
    with Loader(range(40), 2, **way) as loader:
        batches = iter(loader)
        next(batches)
        workers = children() - here
        assert workers
    assert until_gone(workers, 10) == []
    with pytest.raises(RuntimeError, match="closed"):
        next(iter(loader))
    assert batches is not None


ENDING = """
import os
import signal
import sys

import seqkit as sk
from tests.engine.traces import children

way, kind, ending, held = sys.argv[1:]


def item(i):
    if i == 12 and ending == "error in a sample":
        raise ValueError("bad sample")
    if i == 12 and ending == "worker killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return i


class Stream:
    def __iter__(self):
        return map(item, range(40))


options = {
    "threads": {"method": "thread"},
    "processes": {},
    "persistent processes": {"persistent_workers": True},
}[way]
dataset = Stream() if kind == "stream" else sk.smap(item, range(40))
workers = 1 if kind == "stream" else 2
loader = sk.DataLoader(dataset, 2, num_workers=workers, **options)
batches = iter(loader)
if held == "dropped":
    del batches
    batches = loader
for number, batch in enumerate(batches):
    if number == 2:
        print(*children(), flush=True)
        if ending == "error in the loop":
            raise RuntimeError("mine")
        if ending == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if ending == "exit":
            sys.exit(0)
print(number + 1)
"""
ENDINGS = {
    "normal": (0, ""),
    "exit": (0, ""),
    "error in the loop": (1, "RuntimeError: mine"),
    "error in a sample": (1, "ValueError: bad sample"),
    "worker killed": (1, "WorkerDied"),
    "killed": (-signal.SIGKILL, ""),
}


ENDING_WAYS = [
    ("threads", "map", "held"),
    ("processes", "map", "held"),
    ("persistent processes", "stream", "dropped"),
    ("processes", "map", "dropped"),
    ("persistent processes", "map", "held"),
]


@pytest.mark.parametrize(
    ("way", "kind", "held", "ending"),
    [  # the ways take turns, and the rest of the cases runs under `make stress`
        pytest.param(*way, ending, marks=[pytest.mark.stress] * (number != turn % len(ENDING_WAYS)))
        for turn, ending in enumerate(ENDINGS)
        for number, way in enumerate(ENDING_WAYS)
        if ending != "worker killed" or way[:2] in (("processes", "map"), ("persistent processes", "map"))
    ],
)
def test_a_program_ends_by_itself_and_leaves_no_process(
    tmp_path: Any, way: str, kind: str, held: str, ending: str
) -> None:
    status, text = ENDINGS[ending]
    with running(tmp_path, ENDING, way, kind, ending, held) as program:
        out, err = program.communicate(timeout=50)
        first, _, rest = out.partition("\n")
        workers = [int(pid) for pid in first.split()]
        assert program.returncode == status
        assert bool(workers) == (way != "threads")
        assert until_gone(workers, 10) == []
    assert rest == ("20\n" if ending == "normal" else "")
    assert text in err
    assert "Exception ignored" not in err
    assert bool(err) == bool(text)


def test_an_error_between_huge_batches_of_indices_ends_the_program(tmp_path: Any) -> None:
    code = """
        import itertools
        import seqkit as sk

        class Lists:
            def __iter__(self):
                return itertools.repeat(list(range(40_960)), 50)

        dataset = sk.smap(abs, range(40_960))
        batches = iter(sk.DataLoader(dataset, batch_sampler=Lists(), num_workers=1))
        for batch in batches:
            raise RuntimeError(f"mine, at {len(batch)}")
    """
    status, out, err = finished(tmp_path, code)
    assert (status, out) == (1, "")
    assert "RuntimeError: mine, at 40960" in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("persistent_workers", mostly_stress(False, True))
def test_a_program_that_leaves_the_first_epoch_early_ends_cleanly(
    tmp_path: Any, persistent_workers: bool
) -> None:
    code = f"""
        import numpy as np
        import seqkit as sk

        dataset = sk.smap(lambda i: np.full(10, i), range(100))
        options = {{"multiprocessing_context": "spawn", "persistent_workers": {persistent_workers}}}
        loader = sk.DataLoader(dataset, 4, num_workers=2, **options)
        for batch in loader:
            break
        print(batch.shape)
    """
    assert finished(tmp_path, code) == (0, "(4, 10)\n", "")


# -------------------------------------------------------------------- arguments


REFUSED = [
    ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    ({"timeout": 3}, ValueError, "timeout option needs num_workers > 0"),
    ({"timeout": float("nan"), "num_workers": 1}, ValueError, "timeout option should be non-negative"),
    ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
    ({"persistent_workers": "yes"}, ValueError, "persistent_workers should be a boolean value"),
    ({"in_order": None}, ValueError, "in_order should be a boolean value"),
    ({"pin_memory": 2}, ValueError, "pin_memory should be a boolean value"),
    (
        {"multiprocessing_context": "fork"},
        ValueError,
        r"multiprocessing_context can only be used with multi-process loading \(num_workers > 0\), but got"
        " num_workers=0",
    ),
    (
        {"multiprocessing_context": "bad", "num_workers": 1},
        ValueError,
        r"multiprocessing_context option should specify a valid start method in \[",
    ),
    (
        {"multiprocessing_context": object(), "num_workers": 1},
        TypeError,
        "multiprocessing_context option should be a valid context object or a string",
    ),
    ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching"),
    (
        {"batch_size": "2"},
        ValueError,
        "batch_size should be a positive integer value",
    ),
    ({"batch_size": np.int64(0)}, ValueError, "batch_size should be a positive integer value"),
    ({"sampler": range(2), "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
    ({"generator": "x"}, TypeError, "seed must be an int"),
    ({"generator": 1, "seed": 1}, ValueError, "seed and generator exclude each other"),
    (
        {"last_batch": "drop"},
        ValueError,
        "last_batch must be 'keep', 'discard', 'pad' or 'rollover', got 'drop'",
    ),
    ({"last_batch": "keep", "drop_last": True}, ValueError, "drop_last=True means last_batch='discard'"),
    ({"last_batch": "pad", "batch_size": None}, ValueError, "last_batch='pad' needs batch_size"),
    ({"on_error": "ignore"}, ValueError, "on_error should be 'raise' or 'skip' or 'replace'"),
    ({"collate_fn": list, "batchify_fn": list}, ValueError, "batchify_fn is another name for collate_fn"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=str)
def test_what_does_not_go_together_is_refused_at_construction(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^DataLoader: {message}"):
        Loader([1, 2, 3], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"sampler": [0]},
        {"batch_sampler": [[0]]},
        {"sampler": [0], "shuffle": True},
        {"batch_sampler": [[0]], "batch_size": 3},
    ],
    ids=str,
)
def test_what_can_only_be_iterated_takes_no_indices(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified "):
        Loader(stream(3), **options)


def test_falsehoods_are_no_indices_for_what_can_only_be_iterated() -> None:
    assert read(stream(3), shuffle=False) == [[0], [1], [2]]


@every_way
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_an_empty_data_set_is_legal_shuffled_or_not(
    way: dict[str, Any], shuffle: bool, batch_size: int | None
) -> None:
    with Loader([], batch_size, shuffle, **way) as loader:
        assert len(loader) == len(list(loader)) == 0


@pytest.mark.parametrize("batch_size", [np.int64(2), np.uint8(2)])
def test_a_batch_size_of_numpy_is_an_int(batch_size: Any) -> None:
    loader = Loader(range(3), batch_size)
    assert plain(list(loader)) == [[0, 1], [2]]
    assert type(loader.batch_size) is int


def test_only_the_first_thirteen_arguments_are_positional() -> None:
    sampler: list[int] = [1, 0]
    positional = (2, None, sampler, None, 1, list, False, True, 5, print, "fork", 3)
    loader = Loader(range(4), *positional)
    assert (loader.batch_size, loader.sampler, loader.num_workers, loader.collate_fn) == (2, sampler, 1, list)
    assert (loader.drop_last, loader.timeout, loader.worker_init_fn) == (True, 5, print)
    assert loader.generator == 3
    with pytest.raises(TypeError, match="positional"):
        Loader(range(4), *positional, 2)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset"])
def test_what_a_loader_reads_is_settled_at_construction(name: str) -> None:
    loader = Loader(range(4), 2)
    before = getattr(loader, name)
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is init"):
        setattr(loader, name, None)
    assert getattr(loader, name) is before


def test_persistent_workers_are_settled_at_construction() -> None:
    loader = Loader(range(4), num_workers=1, persistent_workers=True)
    with pytest.raises(ValueError, match="persistent_workers attribute should not be set"):
        loader.persistent_workers = False


def test_attributes_of_ones_own_may_be_set_as_on_any_object() -> None:
    class Named(sk.DataLoader):
        def __init__(self, *args: Any, name: str, **options: Any) -> None:
            super().__init__(*args, **options)
            self.name = name

    loader = Named(range(4), 2, name="training")
    loader.classes = ["cat", "dog"]
    assert (loader.name, loader.classes) == ("training", ["cat", "dog"])
    assert plain(list(loader)) == [[0, 1], [2, 3]]


def test_a_subclass_with_arguments_of_its_own_pickles() -> None:
    copy = pickle.loads(pickle.dumps(Pairs(5)))
    assert type(copy) is Pairs
    assert plain(list(copy)) == [[0, 1], [2, 3], [4]]


class Pairs(sk.DataLoader):
    """Batches of two of the first numbers."""

    def __init__(self, count: int) -> None:
        super().__init__(range(count), 2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RandomSampler(3, "no"), TypeError, "replacement must be a bool"),
        (lambda: RandomSampler(3, num_samples=0), ValueError, "num_samples"),
        (lambda: RandomSampler(3, num_samples=-1), ValueError, "num_samples"),
        (lambda: WeightedRandomSampler([1, 2], 0), ValueError, "num_samples"),
        (lambda: WeightedRandomSampler([1, 2], True), TypeError, "num_samples"),
        (lambda: WeightedRandomSampler([[1, 2]], 1), ValueError, "one-dimensional"),
        (lambda: WeightedRandomSampler([1, -1], 1), ValueError, "be at least 0, got -1"),
        (lambda: WeightedRandomSampler([0, 0], 1), ValueError, "above 0"),
        (lambda: WeightedRandomSampler([1, 0], 2, False), ValueError, "without replacement"),
        (lambda: BatchSampler(range(3), 0), ValueError, "must be a positive int"),
        (lambda: BatchSampler(range(3), 2, "no"), TypeError, "drop_last must be a bool"),
    ],
)
def test_samplers_refuse_what_they_cannot_draw(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_pipeline_that_cannot_be_shipped_is_refused_with_a_hint() -> None:
    lock = threading.Lock()
    dataset = sk.smap(lambda i: lock.locked(), range(3))
    with (
        Loader(dataset, num_workers=1, multiprocessing_context="spawn") as loader,
        pytest.raises(TypeError, match="cannot be pickled for workers"),
    ):
        next(iter(loader))


def test_an_iterator_is_no_cargo() -> None:
    with pytest.raises((TypeError, NotImplementedError)):
        pickle.dumps(iter(Loader(range(3))))
