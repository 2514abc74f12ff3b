"""`DataLoader`: arguments translated into views, epochs, samplers, workers."""

from __future__ import annotations

import itertools
import os
import pickle
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.collation import default_collate, default_convert
from seqkit.loader import DataLoader
from seqkit.samplers import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from tests.engine.traces import children, until

from ..helpers import for_each

WORKERS = [(0, "process"), (1, "thread"), (2, "thread"), (1, "process"), (2, "process")]


def bits(value: Any) -> Any:
    """A value with its arrays spelled out, for comparison bit by bit."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(bits, value))
    return (type(value), value)


def samples(n: int) -> list[Any]:
    return [{"x": np.full((2, 3), i, np.float32), "y": i, "name": f"n{i}"} for i in range(n)]


def noise(item: Any, rng: np.random.Generator) -> Any:
    return {**item, "x": item["x"] + rng.normal(size=item["x"].shape)}


def double(item: Any) -> Any:
    return item * 2


class Unsized:
    """A sampler, or batch sampler, without a length."""

    def __init__(self, keys):
        self.keys = keys

    def __iter__(self):
        return iter(self.keys)


class Endless:
    """Index lists without end; remembers how many were drawn."""

    def __init__(self):
        self.drawn = 0

    def __iter__(self):
        for i in itertools.count():
            self.drawn += 1
            yield [i % 7, (i + 1) % 7]


class Listing:
    """A data set that counts its batched reads."""

    def __init__(self, n):
        self.n = n
        self.calls = []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        raise AssertionError("read one by one")

    def __getitems__(self, indices):
        self.calls.append(indices)
        return [10 * i for i in indices]


# -------------------------------------------------------------------- a facade over views


def explicit(data, batch_size, shuffle, drop_last, collate_fn):
    """The composition of views that a loader stands for."""
    expected = sk.view(data)
    if shuffle:
        expected = sk.shuffle(expected, seed=5)
    if batch_size is None:
        return sk.smap(collate_fn or default_convert, expected)
    return sk.batch(expected, batch_size, drop_last, collate_fn=collate_fn or default_collate)


@pytest.mark.filterwarnings("ignore:DataLoader. an epoch has no batches")
@for_each("n", [0, 1, 6, 7])
@for_each("batch_size", [None, 1, 2, 3, 10, np.int64(2)])
@for_each("shuffle", [None, False, True])
@for_each("drop_last", [False, True])
@for_each("collate_fn", [None, repr])
def test_a_loader_is_the_composition_of_views(n, batch_size, shuffle, drop_last, collate_fn):
    if batch_size is None and drop_last:
        return
    loader = DataLoader(samples(n), batch_size, shuffle, collate_fn=collate_fn, drop_last=drop_last, seed=5)
    expected = explicit(samples(n), batch_size, shuffle, drop_last, collate_fn)
    assert len(loader) == len(expected)
    for epoch in range(2):
        found = list(loader)
        assert len(found) == len(loader)
        assert bits(found) == bits(list(expected.at_epoch(epoch)))


@pytest.mark.parametrize("batch_size", [None, 1, 4])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("num_workers", "method"), WORKERS[1:])
def test_workers_change_nothing(batch_size, shuffle, num_workers, method):
    data = sk.random_map(noise, samples(10), seed=1)
    expected = explicit(data, batch_size, shuffle, False, None)
    with DataLoader(data, batch_size, shuffle, num_workers=num_workers, method=method, seed=5) as loader:
        assert len(loader) == len(expected)
        for epoch in range(2):
            assert bits(list(loader)) == bits(list(expected.at_epoch(epoch)))


def test_the_view_shows_the_pipeline():
    loader = DataLoader(range(10), 3, True, seed=0, num_workers=2, method="thread")
    assert repr(loader.view) == (
        "prefetch(batch(shuffle(<range of 10>, seed=0), 3, collate_fn=default_collate),"
        " nworkers=2, method='thread')"
    )
    loader = DataLoader([1, 2], batch_sampler=[[0]])
    assert repr(loader.view) == "gather(batches(samples(<list of 2>), default_collate), <list of 1>)"
    loader = DataLoader([1, 2], 2, sampler=[0])
    assert repr(loader.view) == (
        "batch(gather(samples(<list of 2>), <list of 1>), 2, collate_fn=default_collate)"
    )
    assert repr(DataLoader([1], None).view) == "smap(default_convert, <list of 1>)"


def test_repr_shows_what_is_not_the_default():
    assert repr(DataLoader(range(10))) == "DataLoader(<range of 10>)"
    loader = DataLoader(
        range(10), 4, sampler=RandomSampler(10), collate_fn=sum, num_workers=2, prefetch_factor=3, seed=1
    )
    assert re.fullmatch(
        r"DataLoader\(<range of 10>, batch_size=4, sampler=<RandomSampler>, num_workers=2,"
        r" collate_fn=sum, prefetch_factor=3, seed=1\)",
        repr(loader),
    )
    assert "batch_sampler=[[0], [1]])" in repr(DataLoader(range(9), batch_sampler=[[0], [1]]))


def test_a_view_of_a_pipeline_is_a_data_set():
    data = sk.smap(double, sk.concatenate([range(5), range(5)]))
    assert bits(list(DataLoader(data, 5))) == bits([np.arange(5) * 2] * 2)


def test_arguments_stand_in_the_order_of_torch():
    loader = DataLoader(range(4), 2, False, None, None, 0, list)
    assert list(loader) == [[0, 1], [2, 3]]
    loader = DataLoader(range(4), 2, None, [3, 1], None, 0, list)
    assert list(loader) == [[3, 1]]
    loader = DataLoader(range(4), 1, None, None, [[3], [1, 2]], 0, list)
    assert list(loader) == [[3], [1, 2]]


# -------------------------------------------------------------------- length


@for_each(
    ("options", "n"),
    [
        ({}, 6),
        ({"batch_size": 2}, 3),
        ({"batch_size": 2, "drop_last": True}, 3),
        ({"batch_size": 4}, 2),
        ({"batch_size": 4, "drop_last": True}, 1),
        ({"batch_size": 7}, 1),
        ({"batch_size": 7, "drop_last": True}, 0),
        ({"batch_size": None}, 6),
        ({"batch_size": None, "shuffle": True}, 6),
        ({"batch_size": 4, "sampler": [0, 1, 2, 3, 4]}, 2),
        ({"batch_size": 4, "sampler": [0, 1, 2, 3, 4], "drop_last": True}, 1),
        ({"batch_size": None, "sampler": [5, 5]}, 2),
        ({"batch_sampler": [[0], [1, 2, 3]]}, 2),
        ({"batch_sampler": []}, 0),
        ({"sampler": []}, 0),
        ({"batch_size": None, "sampler": []}, 0),
        ({"batch_sampler": BatchSampler(range(5), 2)}, 3),
        ({"batch_sampler": np.array([[0, 1], [2, 3]])}, 2),
        ({"batch_size": 3, "sampler": RandomSampler(6, num_samples=13)}, 5),
    ],
)
@pytest.mark.filterwarnings("ignore:DataLoader. an epoch has no batches")
@for_each("num_workers", [0, 2])
def test_the_length_is_the_number_of_batches(options, n, num_workers):
    with DataLoader(list(range(6)), num_workers=num_workers, method="thread", **options) as loader:
        assert len(loader) == n
        assert len(list(loader)) == n


@pytest.mark.parametrize("options", [{"sampler": Unsized([0, 1])}, {"batch_sampler": Unsized([[0], [1]])}])
@pytest.mark.parametrize("batched", [True, False])
def test_without_a_sampler_length_there_is_none(options, batched):
    if "sampler" in options and not batched:
        options = {**options, "batch_size": None}
    loader = DataLoader([4, 5], **options)
    with pytest.raises(TypeError, match=r"DataLoader: no length, for its sampler \(\w+\) has none"):
        len(loader)
    assert len(list(loader)) == 2


def test_a_data_set_without_length_is_read_to_its_end():
    class Growing:
        def __getitem__(self, i):
            if i >= 5:
                raise IndexError(i)
            return i

    loader = DataLoader(Growing(), 2)
    assert [each.tolist() for each in loader] == [[0, 1], [2, 3], [4]]
    with pytest.raises(TypeError, match=r"no length, for its data set \(Growing\) has none"):
        len(loader)
    with pytest.raises(ValueError, match="last_batch='rollover' needs a data set with a length"):
        DataLoader(Growing(), last_batch="rollover")
    with pytest.raises(TypeError, match="RandomSampler: data_source"):
        DataLoader(Growing(), shuffle=True)


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"batch_size": None}, {"batch_sampler": []}])
@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_an_empty_data_set_gives_nothing(options, num_workers, method):
    with DataLoader([], num_workers=num_workers, method=method, **options) as loader:
        assert len(loader) == 0
        assert list(loader) == list(loader) == []


# -------------------------------------------------------------------- epochs


def test_the_seed_determines_every_epoch():
    a, b = (DataLoader(range(50), 5, True, seed=3) for _ in range(2))
    first, second = bits(list(a)), bits(list(a))
    assert first != second
    assert [bits(list(b)), bits(list(b))] == [first, second]
    assert bits(list(DataLoader(range(50), 5, True, seed=4))) != first


def test_without_a_seed_one_is_drawn_and_kept():
    a, b = DataLoader(range(50), 50, True), DataLoader(range(50), 50, True)
    first = bits(list(a))
    assert first != bits(list(b))
    assert bits(list(DataLoader(range(50), 50, True, seed=a.seed))) == first


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": None}, {"sampler": [0, 1, 2]}, {"batch_sampler": [[0, 1], [2]]}]
)
@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_augmentation_changes_with_the_epoch_and_comes_back(options, num_workers, method):
    data = sk.random_map(noise, samples(3), seed=0)
    with DataLoader(data, num_workers=num_workers, method=method, **options) as loader:
        first, second = bits(list(loader)), bits(list(loader))
        assert first != second
        loader.set_epoch(0)
        assert [bits(list(loader)), bits(list(loader))] == [first, second]
    inline = DataLoader(data, **options)
    assert [bits(list(inline)), bits(list(inline))] == [first, second]


def test_epoch_counts_the_passes_begun():
    loader = DataLoader(range(50), 50, True, seed=0)
    assert loader.epoch == 0
    unread = iter(loader)
    assert loader.epoch == 0
    early, late = iter(loader), iter(loader)
    second, first = bits([next(late), *late]), bits([next(early), *early])
    second, first = first, second
    assert loader.epoch == 2
    third = bits(list(unread))
    loader.set_epoch(0)
    assert loader.epoch == 0
    assert [bits(list(loader)), bits(list(loader)), bits(list(loader))] == [first, second, third]


@pytest.mark.parametrize(("epoch", "error"), [(-1, ValueError), (0.5, TypeError), (None, TypeError)])
def test_an_epoch_is_an_int_of_at_least_0(epoch, error):
    with pytest.raises(error, match="DataLoader: epoch must be an int of at least 0"):
        DataLoader(range(3)).set_epoch(epoch)


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_two_epochs_may_be_read_at_once(num_workers, method):
    with DataLoader(range(40), 4, True, seed=0, num_workers=num_workers, method=method) as loader:
        expected = [bits(list(loader)), bits(list(loader))]
        loader.set_epoch(0)
        pairs = list(zip(loader, loader, strict=True))
    assert [bits([pair[which] for pair in pairs]) for which in range(2)] == expected


def test_set_epoch_reaches_the_sampler():
    for options in (
        {"sampler": RandomSampler(20, seed=0)},
        {"batch_sampler": BatchSampler(RandomSampler(20, seed=0), 4)},
    ):
        loader = DataLoader(range(20), **options)
        first, second = bits(list(loader)), bits(list(loader))
        assert first != second
        loader.set_epoch(0)
        assert bits(list(loader)) == first


@pytest.mark.parametrize("method", ["thread", "process"])
def test_workers_live_from_epoch_to_epoch(method):
    def where(item, rng):
        return os.getpid()

    data = sk.random_map(where, range(8), seed=0)
    with DataLoader(data, 2, num_workers=2, method=method, persistent_workers=True) as loader:
        pids = {pid for _ in range(3) for batch in loader for pid in batch.tolist()}
    assert len(pids) <= 2
    assert (os.getpid() in pids) == (method == "thread")


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_new_workers_see_the_data_set_as_it_is_and_persistent_ones_as_it_was(persistent_workers):
    data = [1, 2, 3]
    with DataLoader(data, 3, num_workers=1, persistent_workers=persistent_workers) as loader:
        first = [batch.tolist() for batch in loader]
        data[0] = 7
        second = [batch.tolist() for batch in loader]
    assert first == [[1, 2, 3]]
    assert second == [[1 if persistent_workers else 7, 2, 3]]


def test_workers_end_with_their_epoch_unless_they_are_persistent():
    with DataLoader(range(10), num_workers=2, multiprocessing_context="fork") as loader:
        iterator = iter(loader)
        next(iterator)
        assert children()
        list(iterator)
        assert not children()
        iterator = iter(loader)
        next(iterator)
        del iterator
        assert until(lambda: not children())


# -------------------------------------------------------------------- samplers


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sampler": [3, 0, 3, 1], "batch_size": 3}, [[3, 0, 3], [1]]),
        ({"sampler": [3, 0, 3, 1], "batch_size": 3, "drop_last": True}, [[3, 0, 3]]),
        ({"sampler": [3, 0], "batch_size": None}, [3, 0]),
        ({"sampler": range(4, -1, -2)}, [[4], [2], [0]]),
        ({"sampler": np.array([2, 1], np.uint8), "batch_size": 2}, [[2, 1]]),
        ({"sampler": SequentialSampler(4), "batch_size": 4}, [[0, 1, 2, 3]]),
        ({"batch_sampler": [[3], [0, 1, 2], (4,)]}, [[3], [0, 1, 2], [4]]),
        ({"batch_sampler": np.array([[0, 1], [3, 2]])}, [[0, 1], [3, 2]]),
        ({"batch_sampler": [range(3), np.array([4])]}, [[0, 1, 2], [4]]),
        ({"batch_sampler": Unsized([[3], [0, 1]])}, [[3], [0, 1]]),
        ({"sampler": [-1, 0], "batch_size": 2}, [[4, 0]]),
    ],
    ids=str,
)
def test_a_sampler_says_what_is_read(options, expected, num_workers, method):
    kinds = [np.arange(5) * 10, list(range(0, 50, 10)), sk.smap(double, range(0, 25, 5))]
    for data in kinds[1:2] if num_workers else kinds:
        with DataLoader(data, num_workers=num_workers, method=method, **options) as loader:
            for _ in range(2):
                found = [np.asarray(each).tolist() for each in loader]
                assert found == [(np.array(keys) * 10).tolist() for keys in expected]


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_keys_need_not_be_indices(num_workers, method):
    data = {"a": 1.5, "b": 2.5, (0, 1): 3.5, 100: 4.5}
    options = {"num_workers": num_workers, "method": method}
    with DataLoader(data, batch_sampler=[["a", (0, 1)], ["b", 100]], **options) as loader:
        assert [each.tolist() for each in loader] == [[1.5, 3.5], [2.5, 4.5]]
    with DataLoader(data, None, sampler=["b", (0, 1), 100], **options) as loader:
        assert list(loader) == [2.5, 3.5, 4.5]
    with DataLoader(data, 2, sampler=SubsetRandomSampler(["a", "b"], seed=0), **options) as loader:
        assert sorted(next(iter(loader)).tolist()) == [1.5, 2.5]


@pytest.mark.parametrize(
    "options", [{}, {"sampler": range(5)}, {"batch_sampler": [[0, 1], np.array([2, 3]), [4]]}]
)
def test_batched_reads_get_a_whole_batch_of_plain_ints(options):
    data = Listing(5)
    if "batch_sampler" not in options:
        options = {**options, "batch_size": 2}
    assert [each.tolist() for each in DataLoader(data, **options)] == [[0, 10], [20, 30], [40]]
    assert data.calls == [[0, 1], [2, 3], [4]]
    assert {type(i) for call in data.calls for i in call} == {int}


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_without_batches_a_list_of_keys_reads_in_bulk(num_workers, method):
    class Table:
        def __len__(self):
            return 5

        def __getitem__(self, keys):
            return ("bulk", np.arange(5)[keys]) if isinstance(keys, list) else ("one", keys)

    sources = [Table(), np.arange(5), list(range(5)), sk.smap(double, range(5))]
    expected = [("bulk", np.array([3, 1])), np.array([3, 1]), [3, 1], [6, 2]]
    for data, bulk in zip(sources, expected, strict=True):
        sampler = BatchSampler([3, 1, 2], 2)
        with DataLoader(data, None, sampler=sampler, num_workers=num_workers, method=method) as loader:
            assert bits(next(iter(loader))) == bits(bulk)
    with DataLoader(Table(), None, sampler=[3], num_workers=num_workers, method=method) as loader:
        assert list(loader) == [("one", 3)]


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_an_endless_sampler_is_drawn_as_batches_are_read(num_workers, method):
    sampler = Endless()
    with (
        DataLoader(range(7), batch_sampler=sampler, num_workers=num_workers, method=method) as loader,
        closing(loader),
    ):
        batches = iter(loader)
        found = [next(batches).tolist() for _ in range(20)]
        assert found == [[i % 7, (i + 1) % 7] for i in range(20)]
        assert sampler.drawn <= 20 + 2 * num_workers
        assert next(iter(loader)).tolist() == [0, 1]
        with pytest.raises(TypeError, match="no length"):
            len(loader)


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_an_error_of_the_sampler_comes_behind_the_batches_before_it(num_workers, method):
    class Breaking:
        def __iter__(self):
            yield from ([0], [1], [2])
            raise LookupError("lost the list")

    with DataLoader(range(5), batch_sampler=Breaking(), num_workers=num_workers, method=method) as loader:
        for _ in range(2):
            batches = iter(loader)
            assert [next(batches).tolist() for _ in range(3)] == [[0], [1], [2]]
            with pytest.raises(LookupError, match="lost the list"):
                next(batches)
            assert next(batches, "end") == "end"


def test_what_is_no_list_of_indices_is_refused_by_name():
    with pytest.raises(TypeError, match="batch_sampler should yield lists of indices, but yielded 3"):
        list(DataLoader(range(5), batch_sampler=[3]))


def test_an_iterator_as_sampler_gives_one_epoch_and_then_an_error():
    for options in ({"sampler": iter([1, 2])}, {"batch_sampler": (i for i in [[1], [2]])}):
        loader = DataLoader(range(5), **options)
        assert len(list(loader)) == 2
        with pytest.raises(RuntimeError, match=r"the sampler is an iterator .*, which gives one epoch only"):
            next(iter(loader))


@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_an_index_that_is_not_there_is_an_error_and_no_end(num_workers, method):
    class NoLength:
        def __getitem__(self, i):
            return [10, 20][i]

    for data in ([10, 20], np.array([10, 20]), sk.smap(int, [10, 20]), NoLength()):
        with DataLoader(
            data, batch_sampler=[[0], [7], [1]], num_workers=num_workers, method=method
        ) as loader:
            batches = iter(loader)
            assert next(batches).tolist() == [10]
            with pytest.raises(sk.EvaluationError) as caught:
                next(batches)
            assert "IndexError" in str(caught.value)
            assert next(batches).tolist() == [20]
            assert next(batches, "end") == "end"


# -------------------------------------------------------------------- errors


def fragile(i):
    if i == 5:
        raise KeyError("five")
    return i


@pytest.mark.parametrize(
    "options", [{}, {"sampler": range(8)}, {"batch_sampler": [[0, 1], [2, 3], [4, 5], [6, 7]]}]
)
@pytest.mark.parametrize(("num_workers", "method"), WORKERS)
def test_a_loader_goes_on_behind_a_failing_batch(options, num_workers, method):
    if "batch_sampler" not in options:
        options = {**options, "batch_size": 2}
    data = sk.smap(fragile, range(8))
    with DataLoader(data, num_workers=num_workers, method=method, **options) as loader:
        batches = iter(loader)
        assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        with pytest.raises(sk.EvaluationError, match=r"smap\[5\] failed: KeyError: 'five'") as caught:
            next(batches)
        assert isinstance(caught.value.__cause__, KeyError)
        assert next(batches).tolist() == [6, 7]
        assert list(batches) == []


@pytest.mark.parametrize(
    "options", [{}, {"batch_sampler": [[0], [1], [2]]}, {"batch_size": None, "sampler": range(3)}]
)
@pytest.mark.parametrize(("num_workers", "method"), [(0, "process"), (2, "process")])
def test_an_error_of_collate_fn_names_the_batch(options, num_workers, method):
    def picky(batch):
        if batch in ([1], 1):
            raise ValueError("not this one")
        return batch

    with DataLoader(range(3), collate_fn=picky, num_workers=num_workers, method=method, **options) as loader:
        batches = iter(loader)
        next(batches)
        with pytest.raises(sk.EvaluationError, match=r"\[1\]+ failed( in collate_fn)?: ValueError: not this"):
            next(batches)
        assert next(batches) in ([2], 2)


def test_a_sample_that_cannot_be_collated_is_named_by_an_expression():
    with pytest.raises(sk.EvaluationError, match=r"batch\[1\]\['y'\] is None"):
        list(DataLoader([{"y": 1}, {"y": None}], 2))


def test_the_path_leads_from_the_fetch_to_the_item():
    with pytest.raises(sk.EvaluationError) as caught:
        list(DataLoader(sk.smap(fragile, range(8)), batch_sampler=[[4, 5]]))
    assert caught.value.index == 5
    assert caught.value.view._name == "smap"


# -------------------------------------------------------------------- workers


@pytest.mark.parametrize("method", ["thread", "process"])
def test_worker_init_fn_runs_in_every_worker_before_its_first_sample(method):
    def mark(number):
        info = sk.get_worker_info()
        info_by_worker[number] = (info.id, info.method)

    def read(i):
        number = sk.get_worker_info().id
        assert info_by_worker[number] == (number, method)
        return number

    info_by_worker: dict[int, Any] = {}
    with DataLoader(sk.smap(read, range(20)), 2, num_workers=2, method=method, worker_init_fn=mark) as loader:
        numbers = {number for batch in loader for number in batch.tolist()}
    assert numbers <= {0, 1}
    assert (info_by_worker == {}) == (method == "process")


def test_prefetch_factor_bounds_what_is_read_ahead():
    sampler = Endless()
    with DataLoader(
        range(7), batch_sampler=sampler, num_workers=2, method="thread", prefetch_factor=3
    ) as loader:
        batches = iter(loader)
        next(batches)
        assert sampler.drawn <= 1 + 6


@pytest.mark.parametrize("method", ["thread", "process"])
def test_batches_belong_to_the_reader(method):
    with DataLoader(samples(40), 2, num_workers=2, method=method) as loader:
        batches = list(loader)
    for number, batch in enumerate(batches):
        assert batch["y"].tolist() == [2 * number, 2 * number + 1]
        assert batch["x"].flags.writeable
        assert (batch["x"] == batch["y"][:, None, None]).all()
        batch["x"][...] = -1


def test_closing_is_idempotent_and_ends_reading():
    loader = DataLoader(range(10), num_workers=1, method="thread")
    list(loader)
    loader.close()
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        list(loader)
    inline = DataLoader(range(3))
    inline.close()
    assert len(list(inline)) == 3


def test_shm_size_reaches_the_workers():
    with DataLoader(samples(10), 2, num_workers=1, shm_size=0, persistent_workers=True) as loader:
        assert bits(list(loader)) == bits(list(DataLoader(samples(10), 2)))
        assert loader.view.statistics().slot_bytes == 4096


# -------------------------------------------------------------------- validation


REFUSED = [
    ({"num_workers": -1}, ValueError, "num_workers must be an int of at least 0, got -1"),
    ({"num_workers": "2"}, TypeError, "num_workers must be an int of at least 0, got '2'"),
    ({"num_workers": "2"}, TypeError, "num_workers must be an int"),
    ({"num_workers": None}, TypeError, "num_workers must be an int"),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
    ({"prefetch_factor": -1, "num_workers": 1}, ValueError, "prefetch_factor must be a positive int, got -1"),
    ({"sampler": [0], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
    *(
        (
            {"batch_sampler": [[0]], **other},
            ValueError,
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
        )
        for other in (
            {"batch_size": 2},
            {"batch_size": None},
            {"shuffle": True},
            {"sampler": [0]},
            {"drop_last": True},
        )
    ),
    (
        {"batch_size": None, "drop_last": True},
        ValueError,
        "batch_size=None option disables auto-batching and is mutually exclusive with drop_last",
    ),
    *(
        (
            {"batch_size": bad},
            error,
            "batch_size should be a positive integer value, but got batch_size=",
        )
        for bad, error in (
            (0, ValueError),
            (-1, ValueError),
            (True, ValueError),
            (1.5, ValueError),
            ("2", ValueError),
        )
    ),
    ({"drop_last": "yes"}, ValueError, "drop_last should be a boolean value"),
    ({"drop_last": None}, ValueError, "drop_last should be a boolean value"),
]
OURS = [
    ({"num_workers": 1.5}, TypeError, "num_workers must be an int"),
    ({"num_workers": True}, TypeError, "num_workers must be an int"),
    ({"prefetch_factor": 0, "num_workers": 1}, ValueError, "prefetch_factor must be a positive int, got 0"),
    ({"prefetch_factor": 0}, ValueError, "prefetch_factor must be a positive int, got 0"),
    ({"prefetch_factor": 1.5, "num_workers": 1}, TypeError, "prefetch_factor must be a positive int"),
    ({"sampler": [], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [], "batch_size": 2}, ValueError, "batch_sampler option is mutually exclusive"),
    ({"batch_sampler": [], "sampler": []}, ValueError, "batch_sampler option is mutually exclusive"),
    ({"shuffle": "yes"}, ValueError, "shuffle should be a boolean value, but got 'yes'"),
    ({"shuffle": 1}, ValueError, "shuffle should be a boolean value, but got 1"),
    ({"sampler": 5}, TypeError, "sampler should be an iterable of indices, but got 5"),
    ({"sampler": "random"}, TypeError, "sampler should be an iterable of indices, but got 'random'"),
    (
        {"batch_sampler": b"1"},
        TypeError,
        "batch_sampler should be an iterable of lists of indices, but got b'1'",
    ),
    ({"batch_sampler": 5}, TypeError, "batch_sampler should be an iterable of lists of indices, but got 5"),
    (
        {"sampler": sk.RandomSampler},
        TypeError,
        "sampler should be an iterable of indices, but got the class RandomSampler",
    ),
    ({"collate_fn": 5}, TypeError, "collate_fn must be callable, got 5"),
    ({"worker_init_fn": 5}, TypeError, "worker_init_fn must be callable, got 5"),
    ({"method": "fiber"}, ValueError, "method should be 'process' or 'thread', but got 'fiber'"),
    ({"method": "auto"}, ValueError, "method should be 'process' or 'thread', but got 'auto'"),
    ({"method": None}, ValueError, "method should be 'process' or 'thread', but got None"),
    ({"shm_size": -1}, ValueError, "shm_size must be an int of at least 0 or None, got -1"),
    ({"shm_size": 1.5}, TypeError, "shm_size must be an int of at least 0 or None, got 1.5"),
    ({"seed": -1}, ValueError, "seed must be an int of at least 0 or None, got -1"),
    ({"seed": "x"}, TypeError, "seed must be an int of at least 0 or None, got 'x'"),
    ({"dataset": list}, TypeError, "dataset should be an object that is .*, but got <class 'list'>"),
    ({"dataset": Path("folder")}, TypeError, "dataset should be .*Path"),
    ({"dataset": None}, TypeError, "dataset should be .* indexable by .i., or iterable, but got None"),
]


@for_each(("options", "error", "message"), REFUSED + OURS)
def test_arguments_are_refused_at_construction(options, error, message):
    with pytest.raises(error, match=f"^DataLoader: {message}"):
        DataLoader(**{"dataset": [1, 2, 3], **options})


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=str)
def test_torch_refuses_the_same(options, error, message):
    data = pytest.importorskip("torch.utils.data")
    with pytest.raises((TypeError, ValueError)):
        data.DataLoader([1, 2, 3], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_sampler": [[0]], "batch_size": 1, "shuffle": False, "drop_last": False},
        {"sampler": [0], "shuffle": False},
        {"batch_size": np.int64(2)},
        {"num_workers": np.int64(0)},
        {"drop_last": np.True_},
        {"shuffle": np.False_},
        {"num_workers": 1, "prefetch_factor": np.int8(1)},
        {"seed": np.uint64(1)},
        {"shm_size": 0},
    ],
    ids=str,
)
def test_arguments_that_go_together_are_accepted(options):
    DataLoader([1, 2, 3], **options)


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_arguments_are_frozen(name):
    loader = DataLoader([1, 2, 3])
    with pytest.raises(
        ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"
    ):
        setattr(loader, name, 2)


def test_arguments_are_attributes():
    data, sampler = list(range(5)), [0, 1]
    loader = DataLoader(data, 2, True, num_workers=2, worker_init_fn=print, seed=3)
    assert loader.dataset is data
    assert (loader.batch_size, loader.shuffle, loader.drop_last) == (2, True, False)
    assert (loader.num_workers, loader.prefetch_factor, loader.seed) == (2, 2, 3)
    assert loader.collate_fn is default_collate
    assert loader.worker_init_fn is print
    loader = DataLoader(data, 2, sampler=sampler)
    assert loader.sampler is sampler
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert (loader.batch_size, loader.prefetch_factor) == (2, None)
    loader = DataLoader(data, batch_sampler=[sampler])
    assert (loader.batch_size, loader.sampler, loader.batch_sampler) == (None, None, [sampler])
    assert DataLoader(data, None).collate_fn is default_convert


@pytest.mark.parametrize("num_workers", [0, 1])
def test_loaders_pickle(num_workers):
    for options in ({"shuffle": True, "batch_size": 3}, {"sampler": RandomSampler(10, seed=1)}):
        loader = DataLoader(range(10), num_workers=num_workers, method="thread", seed=1, **options)
        list(loader)
        copy = pickle.loads(pickle.dumps(loader))
        with loader, copy:
            assert copy.epoch == 1
            assert bits(list(copy)) == bits(list(loader))
            with pytest.raises(ValueError, match="should not be set"):
                copy.batch_size = 2


# -------------------------------------------------------------------- what broke elsewhere


@pytest.mark.parametrize(("n", "expected"), [(0, 0), (4, 2), (5, 3)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_length_is_not_off_by_one_where_the_batch_size_divides(n, expected, drop_last):
    loader = DataLoader(range(n), 2, drop_last=drop_last)
    assert len(loader) == len(list(loader)) == (n // 2 if drop_last else expected)


def test_numbers_text_and_named_tuples_survive_collation_in_workers():
    data = [(1.5, "a", np.float32(2), np.ones(2), True)] * 4
    with DataLoader(data, 4, num_workers=1) as loader:
        (batch,) = loader
    assert bits(batch) == bits(
        (np.full(4, 1.5), ["a"] * 4, np.full(4, 2, np.float32), np.ones((4, 2)), np.full(4, True))
    )


def test_an_empty_batch_sampler_is_no_missing_one():
    assert list(DataLoader(range(5), batch_sampler=[])) == []
    assert list(DataLoader(range(5), sampler=[])) == []


# -------------------------------------------------------------------- torch


@pytest.mark.parametrize("batch_size", [None, 1, 3])
@pytest.mark.parametrize("sampler", [None, [4, 2, 0], range(1, 6)])
def test_batches_have_the_values_that_torch_gives(batch_size, sampler):
    data = pytest.importorskip("torch.utils.data")
    theirs = list(data.DataLoader(samples(7), batch_size, sampler=sampler))
    ours = list(DataLoader(samples(7), batch_size, sampler=sampler))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a["x"], b["x"].numpy())
        np.testing.assert_array_equal(a["y"], np.asarray(b["y"]))
        assert a["name"] == b["name"]


def test_samplers_and_data_sets_of_torch_are_understood():
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    stored = data.TensorDataset(torch.arange(6), torch.arange(6) * 2)
    sampler = data.BatchSampler(data.SequentialSampler(stored), 4, drop_last=False)
    batches = list(DataLoader(data.Subset(stored, [5, 4, 3, 2, 1, 0]), batch_sampler=sampler))
    assert [each[0].tolist() for each in batches] == [[5, 4, 3, 2], [1, 0]]
    weighted = data.WeightedRandomSampler([0.0, 1.0, 0.0, 0, 0, 0], 4)
    assert [each[1].tolist() for each in DataLoader(stored, 4, sampler=weighted)] == [[2, 2, 2, 2]]


def odd_fails(i: int) -> int:
    if i % 2:
        raise ValueError(f"bad {i}")
    return i


def seeding_hook(worker: int) -> None:
    np.random.seed(worker)


@pytest.mark.parametrize("hook", [None, seeding_hook], ids=["shared", "bound"])
@pytest.mark.parametrize("persistent", [False, True])
def test_close_ends_the_workers_of_an_epoch_whose_error_is_kept(hook: Any, persistent: bool) -> None:
    before = children()
    loader = DataLoader(
        sk.smap(odd_fails, range(40)),
        2,
        num_workers=2,
        worker_init_fn=hook,
        persistent_workers=persistent,
    )
    kept = []
    with loader:
        for _ in range(2):
            try:
                next(iter(loader))
            except sk.EvaluationError as error:
                kept.append(error.with_traceback(None))
    assert len(kept) == 2
    assert children() == before
