"""What seqkit's loader takes beyond PyTorch's: last batches, transforms, failing samples, shards."""

from __future__ import annotations

import inspect
import pickle
import random
import re
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.loader import advice

from .ways import WAYS

every_way = pytest.mark.parametrize("way", WAYS[:3])


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
    monkeypatch.setattr(advice, "usable_cpus", lambda: 2)
    with pytest.warns(UserWarning, match=r"^This DataLoader will create 3 worker processes in total.* is 2,"):
        sk.DataLoader(range(3), num_workers=3)
    sk.DataLoader(range(3), num_workers=2)


def test_a_loader_can_stand_in_an_annotation() -> None:
    assert sk.DataLoader[int].__origin__ is sk.DataLoader


# -------------------------------------------------------------------- what first users met


class Drawing:
    """Samples from the global generators of whoever reads them."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> Any:
        return np.array([random.random(), np.random.random()])


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"sampler": [0, 1]}])
def test_global_generators_of_workers_give_other_numbers_in_every_epoch(options: Any) -> None:
    def epochs() -> list[Any]:
        with sk.DataLoader(Drawing(), 2, num_workers=1, seed=7, **options) as loader:
            return [plain(loader) for _ in range(3)]

    found = epochs()
    assert len({str(batches) for batches in found}) == 3
    assert epochs() == found


class Breaking:
    def __iter__(self) -> Any:
        yield from (1, 2, 3)
        raise ValueError("the stream breaks")


@every_way
@pytest.mark.parametrize("on_error", ["skip", "replace", lambda error: 0])
def test_behind_the_error_of_an_iterable_there_is_nothing_to_read(way: Any, on_error: Any) -> None:
    with sk.DataLoader(Breaking(), 2, on_error=on_error, **way) as loader:
        iterator = iter(loader)
        assert next(iterator).tolist() == [1, 2]
        with pytest.raises(sk.EvaluationError, match="the stream breaks"):
            next(iterator)


def test_samples_of_a_stream_that_cannot_be_transformed_are_skipped() -> None:
    class Numbers:
        def __iter__(self) -> Any:
            return iter(range(6))

    loader = sk.DataLoader(Numbers(), 2, transform=fragile, on_error="skip")
    assert plain(loader) == [[0], [2, 3]]
    assert [index for index, _ in loader.failed] == [1, 4, 5]


class Columns:
    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> int:
        return i

    def __getitems__(self, indices: Any) -> Any:
        return {"x": indices, "y": indices}


@pytest.mark.parametrize("order", [{}, {"sampler": [0, 1]}])
def test_columns_in_place_of_samples_are_refused(order: Any) -> None:
    loader = sk.DataLoader(Columns(), 2, collate_fn=list, **order)
    with pytest.raises(sk.EvaluationError, match="__getitems__ returned a dict"):
        next(iter(loader))


@every_way
@pytest.mark.parametrize("sampler", [[1, 2, 3], np.array([1, 2, 3])], ids=["list", "array"])
def test_padding_follows_a_sampler(way: Any, sampler: Any) -> None:
    with sk.DataLoader(range(7), 2, sampler=sampler, last_batch="pad", **way) as loader:
        assert (len(loader), plain(loader)) == (2, [[1, 2], [3, 1]])


def test_failed_samples_are_named_by_their_index_in_the_data_set() -> None:
    loader = sk.DataLoader(sk.smap(fragile, range(6)), 2, shuffle=True, seed=1, on_error="skip")
    list(loader)
    assert sorted(index for index, _ in loader.failed) == [1, 4, 5]


def test_a_loader_can_be_made_anew_from_the_attributes_of_another() -> None:
    loader = sk.DataLoader(range(8), 2)
    names = ("dataset", "num_workers", "collate_fn", "pin_memory", "last_batch", "timeout", "in_order")
    options = {name: getattr(loader, name) for name in names}
    assert plain(sk.DataLoader(batch_sampler=loader.batch_sampler, **options)) == plain(loader)


def test_a_subclass_with_arguments_of_its_own_shows_and_pickles() -> None:
    loader = Own(range(3), extra=5)
    assert repr(loader) == "Own(<range of 3>)"
    copied = pickle.loads(pickle.dumps(loader))
    assert (copied.extra, plain(copied)) == (5, plain(loader))


class Own(sk.DataLoader):
    def __init__(self, dataset: Any, extra: int = 1, **options: Any) -> None:
        super().__init__(dataset, **options)
        self.extra = extra


def test_an_iterator_has_the_length_of_its_epoch() -> None:
    assert len(iter(sk.DataLoader(range(8), 3))) == 3
    with pytest.raises(TypeError, match="no length"):
        len(iter(sk.DataLoader(Breaking(), 3)))


def test_naming_the_epoch_of_a_loaded_state_keeps_its_place() -> None:
    first = sk.DataLoader(range(40), 4, shuffle=True)
    iterator = iter(first)
    next(iterator)
    second = sk.DataLoader(range(40), 4, shuffle=True)
    second.load_state_dict(first.state_dict())
    second.set_epoch(0)
    assert plain(second) == plain(iterator)
    second.set_epoch(0)
    assert len(list(second)) == 10


def test_a_state_behind_the_end_is_refused() -> None:
    loader = sk.DataLoader(range(40), 4)
    next(iter(loader))
    with pytest.raises(ValueError, match="behind batch 11, but an epoch has 10"):
        loader.load_state_dict({**loader.state_dict(), "delivered": 44})


def test_what_is_no_generator_is_refused_with_what_is_one() -> None:
    with pytest.raises(TypeError, match="seed must be an int"):
        sk.DataLoader(range(3), generator="x")


@pytest.mark.parametrize("loader", [sk.DataLoader, pytest.importorskip("torch") and sk.torch.DataLoader])
def test_the_arguments_are_the_fields_in_their_order(loader: Any) -> None:
    parameters = inspect.signature(loader).parameters
    assert list(parameters) == [option.name for option in fields(sk.DataLoader)]


def test_the_docstring_describes_the_arguments_in_their_order() -> None:
    text = inspect.getdoc(sk.DataLoader) or ""
    section = text.split("Parameters\n----------\n")[1].split("\nAttributes\n")[0]
    described = [
        name
        for line in section.splitlines()
        if (m := re.match(r"([a-z_, ]+) : ", line))
        for name in m[1].split(", ")
    ]
    others = {"batchify_fn", "batch_transform"}  # described with another argument
    assert sorted(described) == sorted({option.name for option in fields(sk.DataLoader)} - others)


@pytest.mark.parametrize(
    "arguments", [{}, {"dataset": [1], "batch_siz": 2}, {"dataset": [1], "drop_last": "x"}], ids=str
)
def test_the_traceback_of_a_refused_argument_has_the_line_of_the_user_only(arguments: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="DataLoader") as caught:
        sk.DataLoader(**arguments)
    names = [Path(entry.path).name for entry in caught.traceback]
    assert [name for name in names if name != "<string>"] == ["test_options.py"]


def test_rollover_over_a_shuffled_data_set_reads_each_sample_once_an_epoch() -> None:
    with sk.DataLoader(sk.shuffle(range(10), seed=0), 4, last_batch="rollover", collate_fn=list) as loader:
        epochs = [list(loader) for _ in range(2)]
    assert [len(batches) for batches in epochs] == [2, 3]
    assert sorted(sample for batches in epochs for batch in batches for sample in batch) == sorted(
        [*range(10)] * 2
    )


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("method", ["thread", "process"])
def test_an_array_is_one_key_in_workers_too(kind: Any, method: Any) -> None:
    class Rows:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, rows: Any) -> Any:
            return np.arange(6)[rows]

    options: Any = {"batch_size": None, "sampler": [kind([0, 1]), kind([2, 3])]}
    with sk.DataLoader(Rows(), num_workers=2, method=method, **options) as loader:
        assert [list(item) for item in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_below_batch_transform_names_the_sample(num_workers: int) -> None:
    class Drawn:
        def __iter__(self) -> Any:
            return iter(range(6))

    rows = sk.smap(lambda i: 1 // (i - 4), range(6))
    options: Any = {"sampler": Drawn(), "batch_transform": lambda batch: batch}
    loader = sk.DataLoader(rows, 2, num_workers=num_workers, **options)
    with loader, pytest.raises(sk.EvaluationError, match=r"smap\[4\] failed: ZeroDivisionError"):
        list(loader)
