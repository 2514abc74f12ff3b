"""Data sets that can only be iterated: who reads them, and their last batch."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import UnsizedSource
from tests.engine.traces import drawn

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


@every_way
def test_workers_that_split_the_data_set_read_each_sample_once(way: Any) -> None:
    options: Any = {**way, "iterable_split": "workers"}
    options.pop("persistent_workers", None)
    with sk.DataLoader(Split(11), 2, **options) as loader:
        for _ in range(2):
            batches = plain(loader)
            assert sorted(i for batch in batches for i in batch) == list(range(11))
            assert max(map(len, batches)) == 2
        with pytest.raises(RuntimeError, match=r"there is no state_dict.* Use 'reader' or 'none'"):
            loader.state_dict()


def test_a_worker_that_dies_twice_costs_its_batch_and_repeats_nothing() -> None:
    def die(i: int) -> int:
        if i == 6:
            os._exit(3)
        return i

    options: Any = {"num_workers": 2, "iterable_split": "workers", "transform": die}
    with sk.DataLoader(Split(40), 2, **options) as loader:
        found = drawn(iter(loader))
    (error,) = [batch for batch in found if isinstance(batch, Exception)]
    assert isinstance(error, sk.WorkerDied)
    assert "worker 0" in str(error)
    numbers = [i for batch in found if batch is not error for i in batch.tolist()]
    assert sorted(numbers) == sorted({*range(40)} - {4, 6})


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


class Slow(Restarting):
    def __next__(self) -> int:
        time.sleep(0.001)
        return super().__next__()


def test_threads_of_an_epoch_that_was_left_take_no_items_of_the_next_one() -> None:
    with sk.DataLoader(Slow(), 2, num_workers=2, method="thread", iterable_split="none") as loader:
        for _ in range(10):
            left = iter(loader)  # keeps its workers
            next(left)
            assert plain(loader) == [[1, 2], [3, 4], [5]]


@every_way
def test_an_iterator_that_cannot_begin_again_has_one_epoch(way: Any) -> None:
    for dataset in (Once(), iter([1, 2, 3, 4, 5])):
        with sk.DataLoader(dataset, 2, **way) as loader:
            assert plain(loader) == [[1, 2], [3, 4], [5]]
            refused = "does not begin again|gives one epoch only|that an earlier epoch has read"
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


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("read", [1, 7])
@pytest.mark.parametrize("build", [Lines, lambda: UnsizedSource(range(40))])
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
    loader.load_state_dict({**loader.state_dict(), "delivered": 4})
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


# -------------------------------------------------------------------- parts


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_of_a_data_set_are_read_by_nodes_in_turn(workers: int) -> None:
    def part(number: int) -> Iterator[int]:
        return iter(range(100 * number, 100 * number + 4 + number))

    parts = [sk.uniter(partial(part, number)) for number in range(3)]
    if workers:
        parts = [sk.prefetch(each, 1, method="thread") for each in parts]
    loader = sk.DataLoader(sk.interleave(parts), 4)
    found = [i for batch in plain(loader) for i in batch]
    assert found == [0, 100, 200, 1, 101, 201, 2, 102, 202, 3, 103, 203, 104, 204, 205]


EVERY_WAY = [
    {},
    *({"num_workers": n, "method": m} for n in (1, 2, 3) for m in ("thread", "process")),
]
in_every_way = pytest.mark.parametrize("way", EVERY_WAY, ids=lambda way: "-".join(map(str, way.values())))


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
        (Stream(), {"last_batch": "rollover"}, "last_batch='rollover'"),
        (range(3), {"iterable_split": "reader"}, "is for data sets that can only be iterated"),
        (
            Stream(),
            {"iterable_split": "parts"},
            "iterable_split should be 'none' or 'reader' or 'workers'",
        ),
        (Stream(), {"iterable_split": "workers", "last_batch": "pad"}, "does not go with last_batch='pad'"),
        (
            Stream(),
            {"iterable_split": "workers", "num_workers": 1, "in_order": False},
            "does not go with .*in_order=False",
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


# -------------------------------------------------------------------- what was not asked for
