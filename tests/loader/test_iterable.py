"""Data sets that can only be iterated: who reads them, and their last batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import seqkit as sk
from tests.prefetch.traces import drawn

from .ways import WAYS

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


def test_a_worker_that_dies_ends_the_epoch_and_repeats_nothing() -> None:
    def die(i: int) -> int:
        if i == 6:
            os._exit(3)
        return i

    options: Any = {"num_workers": 2, "iterable_split": "workers", "transform": die}
    with sk.DataLoader(Split(40), 2, **options) as loader:
        *batches, error = drawn(iter(loader))
        found = [i for batch in batches for i in batch.tolist()]
    assert isinstance(error, sk.WorkerDied | RuntimeError)
    assert len(found) == len(set(found))


def test_shuffling_needs_a_buffer_and_the_error_says_so() -> None:
    with pytest.raises(ValueError, match=r"seqkit.streams.shuffle_buffer\(dataset, size, seed\)"):
        sk.DataLoader(Stream(), shuffle=True)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (range(3), {"iterable_split": "reader"}, "is for data sets that can only be iterated"),
        (Stream(), {"iterable_split": "both"}, "iterable_split should be 'none', 'reader' or 'workers'"),
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
