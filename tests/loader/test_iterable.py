"""Data sets that can only be iterated: who reads them, and their last batch."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import UnsizedSource
from tests.engine.traces import drawn, until

from .ways import WAYS

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker")
every_way = pytest.mark.parametrize("way", WAYS)


class Stream:
    """The numbers below n, each with the process that has read it."""

    def __init__(self, n: int = 8) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))


class Marked(Stream):
    def __iter__(self) -> Iterator[Any]:
        return ((i, os.getpid()) for i in range(self.n))


class Split(Stream):
    """Chooses the part of the worker that asks."""

    def __iter__(self) -> Iterator[int]:
        info = sk.get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


def tens(i: int) -> int:
    return 10 * i


def of_parts(*arguments: Any, **options: Any) -> Any:
    return sk.DataLoader(*arguments, iterable_split="parts", **options)


def plain(loader: Any) -> Any:
    return [batch.tolist() for batch in loader]


@every_way
@pytest.mark.parametrize("split", ["none", "reader"])
@pytest.mark.parametrize(
    ("last_batch", "first", "second"),
    [
        ("keep", [[0, 10, 20], [30, 40, 50], [60, 70]], [[0, 10, 20], [30, 40, 50], [60, 70]]),
        ("discard", [[0, 10, 20], [30, 40, 50]], [[0, 10, 20], [30, 40, 50]]),
        ("pad", [[0, 10, 20], [30, 40, 50], [60, 70, 0]], [[0, 10, 20], [30, 40, 50], [60, 70, 0]]),
        ("rollover", [[0, 10, 20], [30, 40, 50]], [[60, 70, 0], [10, 20, 30], [40, 50, 60]]),
    ],
)
def test_the_last_batch_follows_the_policy(
    way: Any, split: Any, last_batch: Any, first: Any, second: Any
) -> None:
    options: Any = {"last_batch": last_batch, "iterable_split": split, "transform": tens}
    with sk.DataLoader(Stream(), 3, **options, **way) as loader:
        assert plain(loader) == first
        assert plain(loader) == second


def test_a_reader_reads_in_the_calling_process_and_workers_transform() -> None:
    def work(item: Any) -> Any:
        return (*item, os.getpid())

    options: Any = {"num_workers": 2, "iterable_split": "reader", "transform": work}
    with sk.DataLoader(Marked(20), 2, **options) as loader:
        batches = list(loader)
    assert [i for numbers, _, _ in batches for i in numbers.tolist()] == list(range(20))
    assert {pid for _, readers, _ in batches for pid in readers.tolist()} == {os.getpid()}
    assert os.getpid() not in {pid for _, _, workers in batches for pid in workers.tolist()}


class Unsendable(Stream):
    def __reduce__(self) -> Any:
        raise AssertionError("workers do not read it")


@pytest.mark.parametrize(
    ("split", "persistent", "make"),
    [
        (None, False, lambda: (i for i in range(4))),
        (None, True, lambda: map(int, range(4))),
        ("reader", False, lambda: Unsendable(4)),
        ("reader", True, lambda: iter(Unsendable(4))),
    ],
)
def test_a_reader_sends_no_stream_to_workers_that_are_not_forked(
    split: Any, persistent: bool, make: Any
) -> None:
    options: Any = {"multiprocessing_context": "forkserver", "persistent_workers": persistent}
    options |= {"iterable_split": split, "num_workers": 1, "transform": tens}
    with sk.DataLoader(make(), 2, **options) as loader:
        assert plain(loader) == [[0, 10], [20, 30]]


@every_way
@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_reader_resumes_at_the_position(way: Any, batch_size: Any) -> None:
    options: Any = {"batch_size": batch_size, "iterable_split": "reader", **way}
    with sk.DataLoader(Stream(10), **options) as loader:
        batches = iter(loader)
        seen = [next(batches), next(batches)]
        state = loader.state_dict()
    with sk.DataLoader(Stream(10), **options) as other:
        other.load_state_dict(state)
        found = [*seen, *other]
    with sk.DataLoader(Stream(10), batch_size) as reference:
        assert list(map(str, found)) == list(map(str, reference))


@every_way
def test_a_reader_names_failed_samples_by_their_number(way: Any) -> None:
    options: Any = {"iterable_split": "reader", "transform": lambda i: 1 // (i - 3), "on_error": "skip"}
    with sk.DataLoader(Stream(), 4, **options, **way) as loader:
        assert [len(batch) for batch in loader] == [3, 4]
        assert [number for number, _ in loader.failed] == [3]


def test_a_state_has_no_carried_samples() -> None:
    loader = sk.DataLoader(Stream(), 3, last_batch="rollover")
    with pytest.raises(RuntimeError, match="contain the samples that are carried over"):
        loader.state_dict()


@every_way
def test_workers_that_split_the_data_set_read_each_sample_once(way: Any) -> None:
    options: Any = {**way, "iterable_split": "workers"}
    options.pop("persistent_workers", None)
    with sk.DataLoader(Split(11), 2, **options) as loader:
        for _ in range(2):
            batches = plain(loader)
            assert sorted(i for batch in batches for i in batch) == list(range(11))
            assert max(map(len, batches)) == 2
        with pytest.raises(RuntimeError, match="iterable_split='workers' there is no state_dict"):
            loader.state_dict()


def test_a_worker_that_dies_twice_ends_its_part_and_repeats_nothing() -> None:
    def die(i: int) -> int:
        if i == 6:
            os._exit(3)
        return i

    options: Any = {"num_workers": 2, "iterable_split": "workers", "transform": die}
    with sk.DataLoader(Split(40), 2, **options) as loader:
        found = drawn(iter(loader))
    (error,) = [batch for batch in found if isinstance(batch, Exception)]
    assert isinstance(error, sk.WorkerDied)
    assert "batch 1 of part 0" in str(error)
    numbers = [i for batch in found if batch is not error for i in batch.tolist()]
    assert sorted(numbers) == sorted([0, 2, *range(1, 40, 2)])


# -------------------------------------------------------------------- data sets that return themselves


class Restarting:
    """Its `__iter__` returns itself, as that of many data sets does."""

    def __iter__(self) -> Iterator[int]:
        self.position = 0
        return self  # type: ignore[return-value]

    def __next__(self) -> int:
        self.position += 1
        if self.position > 5:
            raise StopIteration
        return self.position


class Once(Restarting):
    """Goes on where it is, so a second epoch would be empty."""

    position = 0

    def __iter__(self) -> Iterator[int]:
        return self  # type: ignore[return-value]


@every_way
@pytest.mark.parametrize("split", [None, "none", "reader"])
def test_iter_of_a_data_set_is_called_in_every_epoch_even_if_it_returns_itself(way: Any, split: Any) -> None:
    with sk.DataLoader(Restarting(), 2, iterable_split=split, **way) as loader:
        for _ in range(2):
            batches = iter(loader)
            assert next(batches).tolist() == [1, 2]  # an epoch that is left early
            assert plain(loader) == [[1, 2], [3, 4], [5]]


@every_way
def test_an_iterator_that_cannot_begin_again_has_one_epoch(way: Any) -> None:
    for dataset in (Once(), iter([1, 2, 3, 4, 5])):
        with sk.DataLoader(dataset, 2, **way) as loader:
            assert plain(loader) == [[1, 2], [3, 4], [5]]
            refused = "does not begin again|gives one epoch only|an earlier one had some"
            with pytest.raises((RuntimeError, UserWarning), match=refused):
                list(loader)


def test_a_sampler_that_returns_itself_has_many_epochs() -> None:
    loader = sk.DataLoader(range(9), 2, sampler=Restarting())
    assert [plain(loader) for _ in range(2)] == [[[1, 2], [3, 4], [5]]] * 2


def test_a_view_of_an_iterable_that_returns_itself_is_read_again() -> None:
    view = sk.uniter(Restarting())
    assert [list(view), list(view), view[3], view[1]] == [[1, 2, 3, 4, 5]] * 2 + [4, 2]


# -------------------------------------------------------------------- resuming


class Lines(Stream):
    def __iter__(self) -> Iterator[int]:
        return iter(range(100, 140))


class ManyShards(Lines):
    parts = 3

    def split(self, part: int, parts: int) -> Iterator[int]:
        return iter(range(100 * part, 100 * part + 10 + part))


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("read", [1, 7])
@pytest.mark.parametrize("build", [Lines, ManyShards, lambda: UnsizedSource(range(40))])
def test_samples_that_were_read_are_neither_transformed_nor_collated_again(
    build: Any, read: int, batch_size: Any, way: Any
) -> None:
    transformed: list[int] = []
    collated: list[Any] = []

    def transform(sample: int) -> int:
        transformed.append(sample)
        return sample

    def collate(samples: Any) -> Any:
        collated.append(samples)
        return samples

    with sk.DataLoader(build(), batch_size, collate_fn=lambda samples: samples) as loader:
        batches = iter(loader)
        for _ in range(read):
            next(batches)
        state = loader.state_dict()
        rest = list(batches)
    with sk.DataLoader(build(), batch_size, transform=transform, collate_fn=collate, **way) as loader:
        loader.load_state_dict(state)
        assert list(loader) == rest
    assert len(collated) == len(rest)
    assert sorted(transformed) == sorted(rest if batch_size is None else [i for batch in rest for i in batch])


def test_errors_of_a_resumed_epoch_count_from_its_beginning() -> None:
    def check(i: int) -> int:
        if i == 106:
            raise ValueError("bad")
        return i

    loader = sk.DataLoader(Lines(), 2, transform=check, on_error="skip")
    loader.load_state_dict({**loader.state_dict(), "batch": 2})
    assert next(iter(loader)).tolist() == [104, 105]
    batches = iter(loader)
    list(batches)
    assert loader.failed == [(6, "ValueError: bad")]


class Positioned:
    """Goes on from the state that it has loaded: the protocol of torchdata."""

    position = 0

    def __iter__(self) -> Iterator[int]:
        while self.position < 10:
            self.position += 1
            yield self.position
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("split", ["none", "reader"])
def test_the_samples_of_an_iterable_with_a_state_are_read_again(split: Any, way: Any) -> None:
    with sk.DataLoader(Positioned(), 3, iterable_split=split, **way) as loader:
        seen = next(iter(loader)).tolist()
        state = loader.state_dict()
        assert "dataset" not in state
    with sk.DataLoader(Positioned(), 3, iterable_split=split, **way) as other:
        other.load_state_dict(state)
        assert [seen, *plain(other)] == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]


def test_a_data_set_with_a_state_of_its_own_keeps_it() -> None:
    class Noisy:
        def __init__(self) -> None:
            self.drawn = 0

        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> int:
            self.drawn += 1
            return self.drawn

        def state_dict(self) -> int:
            return self.drawn

        def load_state_dict(self, state: int) -> None:
            self.drawn = state

    loader = sk.DataLoader(Noisy(), 2)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    other = sk.DataLoader(Noisy(), 2)
    other.load_state_dict(state)
    assert plain(other) == plain(batches)


# -------------------------------------------------------------------- data sets that split themselves


class Shards(Stream):
    """Numbers in parts of these sizes: item i of part p is 100 * p + i."""

    def __init__(self, *sizes: int, bad: tuple[int, int] | None = None) -> None:
        self.sizes = sizes
        self.parts = len(sizes)
        self.bad = bad
        self.is_open: list[int] = []

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("the parts are read instead")

    def split(self, part: int, parts: int) -> Iterator[int]:
        assert parts == self.parts
        self.is_open.append(part)
        try:
            for i in range(self.sizes[part]):
                if (part, i) == self.bad:
                    raise OSError("broken file")
                yield 100 * part + i
        finally:
            self.is_open.remove(part)


EVERY_WAY = [
    {},
    *({"num_workers": n, "method": m} for n in (1, 2, 3) for m in ("thread", "process")),
]
in_every_way = pytest.mark.parametrize("way", EVERY_WAY, ids=lambda way: "-".join(map(str, way.values())))


def outcomes(batches: Any) -> list[Any]:
    """Read an iterator to its end, with the texts of its errors."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(batches).tolist())
        except StopIteration:
            return found
        except sk.EvaluationError as error:
            found.append(error.message)


@in_every_way
@pytest.mark.parametrize("drop_last", [False, True])
def test_parts_are_read_in_turn_and_the_last_batch_is_global(way: Any, drop_last: bool) -> None:
    expected = [[0, 1, 2], [100, 101, 102], [300, 301, 302], [103, 104, 105], [3, 303, 304]]
    with of_parts(Shards(4, 8, 0, 5), 3, drop_last=drop_last, **way) as loader:
        for _ in range(2):
            assert plain(loader) == expected + [[106, 107]] * (not drop_last)


@in_every_way
def test_single_samples_of_parts_come_in_turn(way: Any) -> None:
    with of_parts(Shards(1, 3, 2), None, transform=tens, **way) as loader:
        assert list(loader) == [0, 1000, 2000, 1010, 2010, 1020]
        assert loader.view[3] == 1010


@in_every_way
def test_a_state_of_parts_is_exact_for_another_number_of_workers(way: Any) -> None:
    with of_parts(Shards(4, 8, 0, 5), 2) as loader:
        expected = plain(loader)
    with of_parts(Shards(4, 8, 0, 5), 2, **way) as loader:
        batches = iter(loader)
        seen = [next(batches).tolist() for _ in range(5)]
        state = loader.state_dict()
    for workers in (0, 2):
        with of_parts(Shards(4, 8, 0, 5), 2, num_workers=workers, method="thread") as other:
            other.load_state_dict(state)
            assert seen + plain(other) == expected


@pytest.mark.parametrize("workers", [2, 3])
def test_all_workers_read_parts_and_make_batches(workers: int) -> None:
    def work(i: int) -> tuple[int, int]:
        return i, os.getpid()

    with of_parts(Shards(4, 4, 4), 2, num_workers=workers, transform=work) as loader:
        batches = list(loader)
    by_part = {numbers[0] // 100: set(pids.tolist()) for numbers, pids in batches}
    assert all(len(pids) == 1 for pids in by_part.values())
    assert len(set.union(*by_part.values())) == workers


@in_every_way
def test_an_error_of_a_part_names_the_part_and_costs_no_other_sample(way: Any) -> None:
    with of_parts(Shards(4, 6, 3, bad=(1, 3)), 2, **way) as loader:
        found = outcomes(iter(loader))
    broken = "batch 2 of part 1 failed: OSError: broken file"
    assert found == [[0, 1], [100, 101], [200, 201], [2, 3], [102, 202], broken]


@in_every_way
@pytest.mark.parametrize("value", [0, 103, 300, 303])
def test_a_sample_that_fails_costs_its_block(way: Any, value: int) -> None:
    def check(i: int) -> int:
        if i == value:
            raise ValueError("bad value")
        return i

    with of_parts(Shards(4, 8, 0, 4), 3, transform=check, **way) as loader:
        found = outcomes(iter(loader))
        assert [text for text in found if isinstance(text, str)] == [
            f"smap[({value // 100}, {value % 100})] failed: ValueError: bad value"
        ]
    if way:
        with of_parts(Shards(4, 8, 0, 4), 3, transform=check) as reference:
            assert outcomes(iter(reference)) == found


@in_every_way
def test_failed_samples_of_parts_are_left_out_and_named(way: Any) -> None:
    options: Any = {"transform": lambda i: i // (i - 103) * 0 + i, "on_error": "skip"}
    with of_parts(Shards(2, 5), 2, **options, **way) as loader:
        assert plain(loader) == [[0, 1], [100, 101], [102], [104]]
        assert [key for key, _ in loader.failed] == [(1, 3)]


@in_every_way
def test_an_error_of_the_collate_function_costs_its_batch(way: Any) -> None:
    def collate(samples: list[int]) -> Any:
        if 3 in samples or 100 in samples:
            raise ValueError("unequal")
        return sk.default_collate(samples)

    with of_parts(Shards(4, 7), 3, collate_fn=collate, **way) as loader:
        found = outcomes(iter(loader))
    assert [isinstance(batch, str) for batch in found] == [False, True, False, True]
    assert all("failed in collate_fn" in batch for batch in found if isinstance(batch, str))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_abandoned_epoch_closes_the_iterators_of_its_parts(workers: int) -> None:
    dataset = Shards(50, 50, 50)
    loader = of_parts(dataset, 2, num_workers=workers, method="thread")
    batches = iter(loader)
    next(batches)
    assert dataset.is_open
    del batches
    loader.close()
    gc.collect()
    until(lambda: not dataset.is_open, 5)
    assert not dataset.is_open


@pytest.mark.parametrize("way", EVERY_WAY[1:3])
def test_an_epoch_of_a_closed_loader_ends_with_an_error(way: Any) -> None:
    loader = of_parts(Shards(50, 50, 50), 2, **way)
    batches = iter(loader)
    next(batches)
    loader.close()
    *more, error = drawn(batches)
    assert "the loader is closed" in str(error)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (0, 1 + len(more))


def test_without_workers_closing_ends_nothing() -> None:
    loader = of_parts(Shards(3, 3), 2)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    loader.close()
    assert plain(batches) == [[100, 101], [2, 102]]


def test_a_worker_that_dies_once_loses_and_repeats_nothing(tmp_path: Any) -> None:
    def die_once(i: int) -> int:
        if i == 104 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(3)
        return i

    with of_parts(Shards(8, 8, 8), 2) as reference:
        expected = plain(reference)
    with of_parts(Shards(8, 8, 8), 2, num_workers=2, transform=die_once) as loader:
        assert plain(loader) == expected
    assert (tmp_path / "died").exists()


def test_a_batch_that_kills_its_workers_is_an_error_and_ends_its_part() -> None:
    def die(i: int) -> int:
        if i == 104:
            os._exit(3)
        return i

    with of_parts(Shards(8, 8, 8), 2) as reference:
        expected = [batch for batch in plain(reference) if not {104, 106} & {*batch}]
    with of_parts(Shards(8, 8, 8), 2, num_workers=2, transform=die) as loader:
        found = outcomes(iter(loader))
    assert [batch for batch in found if isinstance(batch, list)] == expected
    (message,) = [text for text in found if isinstance(text, str)]
    assert message.startswith("batch 2 of part 1")


def test_workers_have_their_numbers() -> None:
    started: list[int] = []

    def info(i: int) -> tuple[int, int]:
        worker = sk.get_worker_info()
        assert worker is not None
        return worker.id, worker.num_workers

    options: Any = {"num_workers": 3, "method": "thread", "worker_init_fn": started.append}
    with of_parts(Shards(2, 2, 2), None, transform=info, **options) as loader:
        assert set(loader) == {(0, 3), (1, 3), (2, 3)}
    assert sorted(started) == [0, 1, 2]


def test_global_generators_of_workers_give_other_numbers_in_every_epoch() -> None:
    def epochs() -> list[Any]:
        draw: Any = lambda i: np.random.random()
        with of_parts(Shards(2, 2), 2, num_workers=2, seed=7, transform=draw) as loader:
            return [plain(loader) for _ in range(2)]

    first, second = found = epochs()
    assert first != second
    assert len({number for batch in first for number in batch}) == 4
    assert epochs() == found


def test_an_error_of_worker_init_fn_is_no_batch() -> None:
    options: Any = {"num_workers": 2, "method": "thread", "worker_init_fn": lambda: 1 // 0}
    with of_parts(Shards(4, 4), 2, **options) as loader:
        batches = iter(loader)
        with pytest.raises(Exception, match="division"):
            next(batches)
        assert loader.state_dict()["batch"] == 0


def test_a_loader_of_parts_pickles_with_its_position() -> None:
    loader = of_parts(Shards(4, 4), 2, num_workers=2, method="thread")
    batches = iter(loader)
    first = next(batches).tolist()
    with pickle.loads(pickle.dumps(loader)) as copied:
        assert [first, *plain(copied)] == plain(of_parts(Shards(4, 4), 2))
    loader.close()


def test_one_worker_iterates_on_explicit_request() -> None:
    class Whole(Shards):
        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

    for split in ("none", "reader"):
        with sk.DataLoader(Whole(2, 3), 2, iterable_split=split, num_workers=2) as loader:
            assert plain(loader) == [[0, 1], [2, 3], [4]]


def test_a_number_of_parts_must_be_a_count() -> None:
    dataset = Shards(2)
    dataset.parts = 0
    with pytest.raises(ValueError, match=r"parts .*got 0"):
        of_parts(dataset)


@every_way
def test_a_generator_is_read_in_the_calling_process(way: Any) -> None:
    with sk.DataLoader((i for i in range(5)), 2, transform=tens, **way) as loader:
        assert plain(loader) == [[0, 10], [20, 30], [40]]
        with pytest.raises(RuntimeError, match="gives one epoch only"):
            list(loader)


def test_no_process_can_iterate_a_generator_and_the_error_says_so() -> None:
    with pytest.raises(ValueError, match="a generator cannot be sent to a process"):
        sk.DataLoader((i for i in range(5)), num_workers=1, iterable_split="none")


@pytest.mark.parametrize("numbers", [{1, 2}, frozenset({1})])
def test_a_set_is_refused_with_what_to_do(numbers: Any) -> None:
    with pytest.raises(TypeError, match=r"DataLoader: dataset: a set has no order.*sorted\(s\)"):
        sk.DataLoader(numbers)
    for name in ("sampler", "batch_sampler"):
        with pytest.raises(TypeError, match=f"DataLoader: {name}: a set has no order"):
            sk.DataLoader(range(3), **{name: numbers})
    with pytest.raises(TypeError, match="BatchSampler: sampler: a set has no order"):
        sk.samplers.BatchSampler(numbers, 2)


def test_shuffling_needs_a_buffer_and_the_error_says_so() -> None:
    with pytest.raises(ValueError, match=r"seqkit.shuffle_buffer\("):
        sk.DataLoader(Stream(), shuffle=True)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (Stream(), {"iterable_split": "parts"}, "needs a data set with a method split"),
        (
            Shards(2),
            {"iterable_split": "parts", "last_batch": "pad"},
            "with iterable_split='parts' there is no last_batch='pad'",
        ),
        (
            Shards(2),
            {"iterable_split": "parts", "last_batch": "rollover"},
            "there is no last_batch='rollover'",
        ),
        (Shards(2), {"iterable_split": "parts", "in_order": False}, "there is no in_order=False"),
        (
            Shards(2),
            {"iterable_split": "parts", "num_workers": 1, "persistent_workers": True},
            "there is no persistent_workers",
        ),
        (range(3), {"iterable_split": "reader"}, "is for data sets that can only be iterated"),
        (
            Stream(),
            {"iterable_split": "both"},
            "iterable_split should be 'none', 'parts', 'reader' or 'workers'",
        ),
        (Stream(), {"iterable_split": "workers", "last_batch": "pad"}, "there is no last_batch='pad'"),
        (
            Stream(),
            {"iterable_split": "workers", "num_workers": 1, "persistent_workers": True},
            "needs new workers in every epoch",
        ),
    ],
)
def test_what_does_not_go_with_the_data_set_is_refused(dataset: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^DataLoader: .*{message}"):
        sk.DataLoader(dataset, **options)


# -------------------------------------------------------------------- names of samples in errors


def fail_at(value: int) -> Any:
    def transform(i: int) -> int:
        if i == value:
            raise ValueError("bad value")
        return i

    return transform


@in_every_way
def test_an_error_has_the_number_of_its_sample(way: Any) -> None:
    for dataset, options, value, number in (
        (Stream(8), {"iterable_split": "reader"}, 3, 3),
        (Stream(8), {"iterable_split": "reader", "batch_size": None}, 3, 3),
        (Shards(2, 5), {"iterable_split": "parts"}, 103, (1, 3)),
        (Shards(2, 5), {"iterable_split": "parts", "batch_size": None}, 103, (1, 3)),
    ):
        with sk.DataLoader(
            dataset, **{"batch_size": 2, **options}, transform=fail_at(value), **way
        ) as loader:
            (error,) = [item for item in drawn(iter(loader)) if isinstance(item, Exception)]
        assert isinstance(error, sk.EvaluationError)
        assert error.index == number
        assert type(error.index) is type(number)
        with pytest.raises(RuntimeError, match=r"sample .* is not known any more"):
            error.inputs()


@in_every_way
def test_an_error_of_a_batch_has_the_numbers_of_its_samples(way: Any) -> None:
    for options in ({"collate_fn": fail_at_list}, {"batch_transform": fail_at_array}):
        with sk.DataLoader(Stream(6), 2, iterable_split="reader", **options, **way) as loader:  # type: ignore[arg-type]
            (error,) = [item for item in drawn(iter(loader)) if isinstance(item, Exception)]
        assert error.index == [2, 3]
        assert list(map(type, error.index)) == [int, int]


def fail_at_list(samples: list[int]) -> Any:
    return fail_at_array(np.array(samples))


def fail_at_array(batch: Any) -> Any:
    if 3 in batch:
        raise ValueError("bad batch")
    return batch


@in_every_way
def test_a_function_for_errors_gets_the_number_of_the_sample(way: Any) -> None:
    def replace(error: sk.EvaluationError) -> int:
        return -error.index

    options: Any = {"iterable_split": "reader", "transform": fail_at(3), "on_error": replace}
    with sk.DataLoader(Stream(5), 5, **options, **way) as loader:
        assert plain(loader) == [[0, 1, 2, -3, 4]]


@in_every_way
def test_the_others_go_on_without_the_rest_of_a_broken_part(way: Any) -> None:
    expected = [[0, 1], [100, 101], [200, 201], [2, 3], [102, 202]]
    for on_error in ("skip", "replace", lambda error: 0):
        with of_parts(Shards(4, 6, 3, bad=(1, 3)), 2, on_error=on_error, **way) as loader:
            with pytest.warns(RuntimeWarning, match="without the rest of part 1: batch 2 of part 1 failed"):
                assert plain(loader) == expected
            assert loader.failed == [(1, "batch 2 of part 1 failed: OSError: broken file")]


@pytest.mark.filterwarnings("ignore:DataLoader. went on without:RuntimeWarning")
@pytest.mark.parametrize("read", [1, 3, 5])
def test_a_state_is_exact_beside_a_broken_part(read: int) -> None:
    def make(workers: int = 0) -> Any:
        dataset = Shards(4, 6, 5, bad=(1, 3))
        return of_parts(dataset, 2, on_error="skip", num_workers=workers, method="thread")

    whole = plain(make())
    loader = make()
    batches = iter(loader)
    for _ in range(read):
        next(batches)
    with make(2) as other:
        other.load_state_dict(loader.state_dict())
        assert plain(other) == whole[read:]


@pytest.mark.filterwarnings("ignore:DataLoader. went on without:RuntimeWarning")
def test_the_others_go_on_without_a_part_that_kills_its_workers() -> None:
    def die(i: int) -> int:
        if i == 104:
            os._exit(3)
        return i

    with of_parts(Shards(8, 8, 8), 2, num_workers=2, transform=die, on_error="skip") as loader:
        found = plain(loader)
        ((part, text),) = loader.failed
    assert [batch for batch in found if batch[0] // 100 == 1] == [[100, 101], [102, 103]]
    assert len(found) == 10
    assert part == 1
    assert text.startswith("batch 2 of part 1")


# -------------------------------------------------------------------- what was not asked for


def test_a_method_split_is_called_on_explicit_request_only() -> None:
    class Ranks(Shards):
        def split(self, rank: int, world_size: int) -> Iterator[int]:  # type: ignore[override]
            return super().split(rank, world_size)

        def __iter__(self) -> Iterator[int]:
            return iter([7, 8, 9])

    assert plain(sk.DataLoader(Ranks(2, 2), 2)) == [[7, 8], [9]]
    assert plain(sk.DataLoader(Ranks(2, 2), 2, iterable_split="parts")) == [[0, 1], [100, 101]]
