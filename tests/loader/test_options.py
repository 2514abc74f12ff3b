"""What seqkit's loader takes beyond PyTorch's: last batches, transforms, failing samples, shards."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.loader import arguments

WAYS: list[dict[str, Any]] = [{}, {"num_workers": 2, "method": "thread"}, {"num_workers": 2}]

every_way = pytest.mark.parametrize("way", WAYS, ids=["no workers", "threads", "processes"])


def plain(batches: Any) -> Any:
    return [batch.tolist() if isinstance(batch, np.ndarray) else plain(batch) for batch in batches]


@every_way
@pytest.mark.parametrize(
    ("last_batch", "first", "second"),
    [
        ("keep", [[0, 1, 2], [3, 4, 5], [6, 7]], [[0, 1, 2], [3, 4, 5], [6, 7]]),
        ("discard", [[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]]),
        ("pad", [[0, 1, 2], [3, 4, 5], [6, 7, 0]], [[0, 1, 2], [3, 4, 5], [6, 7, 0]]),
        ("rollover", [[0, 1, 2], [3, 4, 5]], [[6, 7, 0], [1, 2, 3], [4, 5, 6]]),
    ],
)
def test_a_short_last_batch(way: Any, last_batch: Any, first: Any, second: Any) -> None:
    with sk.DataLoader(range(8), 3, last_batch=last_batch, **way) as loader:
        for expected in (first, second):
            assert len(loader) == len(expected)
            assert plain(loader) == expected


@every_way
def test_padding_begins_with_the_first_samples_of_the_epochs_own_order(way: Any) -> None:
    with sk.DataLoader(range(8), 3, True, last_batch="pad", seed=3, **way) as loader:
        for batches in (plain(loader), plain(loader)):
            assert batches[2][2] == batches[0][0]
            assert sorted([*chain(*batches)][:8]) == list(range(8))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_padding_may_go_round_more_than_once(n: int) -> None:
    assert plain(sk.DataLoader(range(n), 7, last_batch="pad")) == [[i % n for i in range(7)]]


@every_way
def test_an_abandoned_epoch_keeps_what_is_carried_over(way: Any) -> None:
    with sk.DataLoader(range(8), 3, last_batch="rollover", **way) as loader:
        list(loader)
        for _ in range(3):
            iterator = iter(loader)
            assert next(iterator).tolist() == [6, 7, 0]
            assert len(loader) == 3
        assert plain(iterator) == [[1, 2, 3], [4, 5, 6]]


@every_way
def test_batches_that_roll_over_lose_and_double_nothing(way: Any) -> None:
    with sk.DataLoader(range(10), 4, True, last_batch="rollover", seed=1, **way) as loader:
        seen = [i for _ in range(4) for batch in plain(loader) for i in batch]
    assert [seen.count(i) for i in range(10)] == [4] * 10


def test_fewer_samples_than_a_batch_wait_for_the_next_epochs() -> None:
    loader = sk.DataLoader(range(3), 7, last_batch="rollover")
    assert [plain(loader) for _ in range(3)] == [[], [], [[0, 1, 2, 0, 1, 2, 0]]]


@every_way
@pytest.mark.parametrize(
    "order", [{}, {"sampler": [0, 1, 2, 3]}, {"batch_sampler": [[0, 1], [2, 3]], "batch_size": 1}]
)
def test_transforms_of_samples_and_batches(way: Any, order: Any) -> None:
    options = {"batch_size": 2, "transform": lambda i: 10 * i, "batch_transform": lambda b: b + 1, **order}
    with sk.DataLoader(range(4), **options, **way) as loader:
        assert plain(loader) == [[1, 11], [21, 31]]


@every_way
@pytest.mark.parametrize("order", [{}, {"sampler": [0, 1]}])
def test_transforms_of_single_items(way: Any, order: Any) -> None:
    functions = {"transform": lambda i: 10 * i, "batch_transform": lambda b: b + 1}
    with sk.DataLoader(range(2), None, **functions, **order, **way) as loader:
        assert list(loader) == [1, 11]


def fragile(i: int) -> int:
    if i in (1, 4, 5):
        raise ValueError(f"sample {i} is broken")
    return i


ORDERS: list[dict[str, Any]] = [
    {"batch_size": 2},
    {"batch_size": 2, "sampler": range(6)},
    {"batch_sampler": [[0, 1], [2, 3], [4, 5]]},
]


@every_way
@pytest.mark.parametrize("order", ORDERS, ids=["view", "sampler", "batch_sampler"])
@pytest.mark.parametrize(
    ("on_error", "expected", "failed"),
    [
        ("skip", [[0], [2, 3]], [1, 4, 5]),
        ("replace", [[0, 2], [2, 3], [0, 0]], [1, 4, 5, 5]),
        (lambda error: -error.index, [[0, -1], [2, 3], [-4, -5]], [1, 4, 5]),
    ],
    ids=["skip", "replace", "function"],
)
def test_samples_that_fail(way: Any, order: Any, on_error: Any, expected: Any, failed: Any) -> None:
    with sk.DataLoader(sk.smap(fragile, range(6)), on_error=on_error, **order, **way) as loader:
        assert plain(loader) == expected
        assert [index for index, _ in loader.failed] == failed
        assert loader.failed[0] == (1, "ValueError: sample 1 is broken")


@every_way
@pytest.mark.parametrize("order", [{}, {"sampler": range(6)}])
def test_single_items_that_fail_are_skipped(way: Any, order: Any) -> None:
    with sk.DataLoader(sk.smap(fragile, range(6)), None, on_error="skip", **order, **way) as loader:
        assert list(loader) == [0, 2, 3]
        assert [index for index, _ in loader.failed] == [1, 4, 5]


def test_failing_samples_pass_the_transforms_by() -> None:
    functions = {"transform": lambda i: fragile(i) * 10, "batch_transform": lambda b: b + 1}
    loader = sk.DataLoader(range(6), 2, on_error="skip", **functions)
    assert plain(loader) == [[1], [21, 31]]


def test_where_no_sample_can_be_read_nothing_is_left() -> None:
    loader = sk.DataLoader(sk.smap(lambda i: 1 // 0, range(3)), 2, on_error="replace")
    assert list(loader) == []
    assert {index for index, _ in loader.failed} == {0, 1, 2}


@every_way
def test_lists_of_lists_of_indices_are_lists_of_batches(way: Any) -> None:
    shards = [[[0, 1], [2]], [np.array([3, 4]), [5]]]
    with sk.DataLoader(range(6), batch_sampler=shards, **way) as loader:
        assert [plain(step) for step in loader] == [[[0, 1], [2]], [[3, 4], [5]]]


def test_more_workers_than_cpus_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "usable_cpus", lambda: 2)
    with pytest.warns(UserWarning, match=r"This DataLoader will create 3 workers in total.* 2 CPUs"):
        sk.DataLoader(range(3), num_workers=3)
    sk.DataLoader(range(3), num_workers=2)


def test_workers_that_do_not_fit_into_memory_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "resident_bytes", lambda: 3 << 20)
    monkeypatch.setattr(arguments, "memory_limit_bytes", lambda: float(5 << 20))
    with pytest.warns(
        UserWarning, match="2 workers that grow as large as this process need 6 MiB, but 5 MiB"
    ):
        sk.DataLoader(range(3), num_workers=2)
    sk.DataLoader(range(3), num_workers=2, method="thread")
    sk.DataLoader(range(3), num_workers=1)


def test_a_loader_can_stand_in_an_annotation() -> None:
    assert sk.DataLoader[int].__origin__ is sk.DataLoader
