"""Samplers in a loader: views, abandoned epochs, threads, another number of processes."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from itertools import chain, count, islice
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.samplers import (
    BatchSampler,
    BudgetBatchSampler,
    FixedBucketSampler,
    InfiniteSampler,
    RandomSampler,
    ShardedSampler,
    WeightedRandomSampler,
)
from tests.helpers import for_each

from .ways import WAYS

every_way = pytest.mark.parametrize("way", WAYS)


def plain(loader: Any) -> Any:
    return [plain(batch) if isinstance(batch, list) else batch.tolist() for batch in loader]


@every_way
def test_a_random_view_as_sampler_gives_a_new_order_in_every_epoch(way: Any) -> None:
    order = sk.shuffle(range(20), seed=0)
    with sk.DataLoader(range(20), 20, sampler=order, **way) as loader:
        epochs = [plain(loader)[0] for _ in range(3)]
        assert epochs == [list(order.at_epoch(epoch)) for epoch in range(3)]
        loader.set_epoch(1)
        assert plain(loader)[0] == epochs[1]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


@every_way
def test_a_view_of_batches_is_a_batch_sampler(way: Any) -> None:
    batches = sk.batch(sk.shuffle(range(6), seed=0), 2)
    with sk.DataLoader(range(6), batch_sampler=batches, **way) as loader:
        assert [plain(loader), plain(loader)] == [list(batches), list(batches.at_epoch(1))]


ABANDONED: dict[str, Any] = {
    "batches": lambda: BatchSampler(RandomSampler(23, seed=0), 4, last="rollover"),
    "endless": lambda: BatchSampler(InfiniteSampler(RandomSampler(23, seed=0)), 4),
    "endless, resumed": lambda: BatchSampler(InfiniteSampler(RandomSampler(23, seed=0), resume=True), 4),
    "budget": lambda: BudgetBatchSampler(RandomSampler(23, seed=0), list(range(1, 24)), 40),
}


def lengths(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def abandoned(make: Any, way: Any) -> Any:
    """Read a whole epoch, if there is an end, parts of two more, and one more batch."""
    found: list[Any] = []
    with sk.DataLoader(range(23), batch_sampler=make(), **way) as loader:
        if lengths(loader) is not None:
            found.append(plain(loader))
        for count in (0, 2, 3):
            found.append(lengths(loader))
            iterator = iter(loader)
            found += [next(iterator).tolist() for _ in range(count)]
            found.append(lengths(loader))
            del iterator
        found.append(next(iter(loader)).tolist())
    return found


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("make", ABANDONED.values(), ids=ABANDONED)
def test_an_abandoned_epoch_is_the_same_with_workers_that_read_ahead(make: Any, way: Any) -> None:
    assert abandoned(make, way) == abandoned(make, {})


@pytest.mark.parametrize("way", WAYS[1:])
def test_naming_an_epoch_is_the_same_with_workers_that_read_ahead(way: Any) -> None:
    def read(way: Any) -> Any:
        with sk.DataLoader(range(23), batch_sampler=ABANDONED["batches"](), **way) as loader:
            list(loader)
            iterator = iter(loader)
            next(iterator)
            loader.set_epoch(1)
            return plain(loader)

    assert read(way) == read({})


def test_asking_an_endless_epoch_for_its_length_moves_nothing() -> None:
    sampler = BatchSampler(InfiniteSampler(range(5), resume=True), 2)
    with sk.DataLoader(range(5), batch_sampler=sampler, num_workers=2, method="thread") as loader:
        first = iter(loader)
        assert [next(first).tolist(), lengths(loader), next(first).tolist()] == [[0, 1], None, [2, 3]]
        del first
        assert next(iter(loader)).tolist() == [4, 0]


@every_way
def test_an_abandoned_epoch_changes_nothing_in_the_next_one(way: Any) -> None:
    sampler = BatchSampler(range(5), 2, last="rollover")
    with sk.DataLoader(range(5), batch_sampler=sampler, **way) as loader:
        assert plain(loader) == [[0, 1], [2, 3]]
        iterator = iter(loader)
        assert next(iterator).tolist() == [4, 0]
        assert len(loader) == 3
        del iterator
        assert plain(loader) == [[0, 1], [2, 3]]  # each epoch follows from its number alone
        loader.set_epoch(1)
        assert plain(loader) == [[4, 0], [1, 2], [3, 4]]


def test_an_endless_sampler_continues_where_the_consumer_stopped() -> None:
    sampler = InfiniteSampler(range(5), resume=True)
    with sk.DataLoader(range(5), 2, sampler=sampler, num_workers=2, method="thread") as loader:
        first = iter(loader)
        found = [next(first).tolist() for _ in range(3)]
        del first
        assert [*found, next(iter(loader)).tolist()] == [[0, 1], [2, 3], [4, 0], [1, 2]]


def test_a_state_of_an_epoch_that_is_longer_than_the_first_is_accepted() -> None:
    def loader() -> sk.DataLoader:
        sampler = BatchSampler(RandomSampler(11, seed=0), 4, last="rollover")
        return sk.DataLoader(range(11), batch_sampler=sampler)

    first, other = loader(), loader()
    assert len(list(first)) == 2
    iterator = iter(first)
    assert len([next(iterator) for _ in range(2)]) == 2
    other.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert plain(other) == plain(iterator) != []


def test_tuples_in_a_list_are_keys() -> None:
    data = {(0, 1): 7, (2, 3): 8}
    assert plain(sk.DataLoader(data, batch_sampler=[[(0, 1), (2, 3)]])) == [[7, 8]]


def test_a_data_set_without_batched_reads_may_say_so() -> None:
    class Listed:
        __getitems__ = None

        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> int:
            return i

    assert plain(sk.DataLoader(Listed(), 2)) == [[0, 1], [2, 3]]
    assert plain(sk.DataLoader(Listed(), 2, sampler=[3, 1])) == [[3, 1]]


def test_threads_that_begin_at_once_read_different_epochs() -> None:
    loader = sk.DataLoader(range(50), 50, shuffle=True, seed=0)
    reference = sk.DataLoader(range(50), 50, shuffle=True, seed=0)
    expected = sorted(plain(reference)[0] for _ in range(64))
    found: list[Any] = []
    barrier = threading.Barrier(8)

    def read() -> None:
        barrier.wait()
        iterators = [iter(loader) for _ in range(8)]
        found.extend(plain(iterator)[0] for iterator in iterators)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(found) == expected
    assert loader.epoch == 64


def test_threads_have_no_start_method() -> None:
    options: Any = {"num_workers": 1, "method": "thread", "multiprocessing_context": "spawn"}
    with pytest.raises(ValueError, match="leave it out with method='thread'"):
        sk.DataLoader(range(3), **options)


# -------------------------------------------------------------------- another number of processes


def shares(
    n: int,
    replicas: int,
    states: Any = None,
    batches: int | None = None,
    shuffle: bool = True,
    **options: Any,
) -> Any:
    """What all processes read of an epoch, and their states."""

    def load(rank: int) -> sk.DataLoader[Any]:
        order = RandomSampler(n, seed=3) if shuffle else range(n)
        sampler = ShardedSampler(order, replicas, rank, even=None, **options)
        return sk.DataLoader(range(n), 2, sampler=sampler, seed=0)

    return read_loaders(map(load, range(replicas)), states, batches)


def read_loaders(
    loaders: Iterable[Any], states: Any = None, batches: int | None = None
) -> tuple[list[int], list[Any]]:
    """What the loaders of all processes read of an epoch, and their states."""
    found, after = [], []
    for loader in loaders:
        if states is not None:
            loader.load_state_dict(json.loads(json.dumps(states[0])))
        iterator = iter(loader)
        drawn = [next(iterator) for _ in range(batches)] if batches is not None else list(iterator)
        found += [i for batch in drawn for i in batch.tolist()]
        after.append(loader.state_dict())
    return found, after


@pytest.mark.parametrize("n", [40, 41])
@pytest.mark.parametrize(("first", "second"), [(2, 3), (4, 1), (1, 5)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rest_of_an_epoch_is_dealt_out_anew(n: int, first: int, second: int, shuffle: bool) -> None:
    seen, states = shares(n, first, batches=3, shuffle=shuffle)
    assert {json.dumps(state) for state in states} == {json.dumps(states[0])}
    again, states = shares(n, second, states, batches=2, shuffle=shuffle)
    rest, states = shares(n, first, states, shuffle=shuffle)
    assert sorted([*seen, *again, *rest]) == list(range(n))
    whole, _ = shares(n, second, states, shuffle=shuffle)  # the next epoch
    assert sorted(whole) == list(range(n))
    assert states[0]["epoch"] == 1


def test_runs_of_indices_resume_with_as_many_processes_only() -> None:
    _, states = shares(40, 2, batches=1, contiguous=True)
    with pytest.raises(ValueError, match="in the middle of an epoch of 2 processes, but this loader has 4"):
        shares(40, 4, states, contiguous=True)


class Iterated:
    """Batches of a sampler whose order is not known in advance."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Any:
        return iter(list(self.batches))


def sharded(kind: str, n: int, replicas: int, rank: int) -> dict[str, Any]:
    """The arguments of a loader that reads the share of one process."""
    batches = BatchSampler(RandomSampler(n, seed=3), 2)
    if kind == "batches":
        return {"batch_sampler": ShardedSampler(batches, replicas, rank, even=None)}
    if kind == "buckets":
        buckets = FixedBucketSampler([1 + i % 7 for i in range(n)], 2, 3, shuffle=True, seed=1)
        return {"batch_sampler": ShardedSampler(buckets, replicas, rank, even=None)}
    if kind == "iterated":
        order = BatchSampler(sk.shuffle(range(n), seed=3), 2)
        return {"batch_sampler": ShardedSampler(Iterated(order), replicas, rank, even=None)}
    return {"batch_size": 2, "sampler": ShardedSampler(RandomSampler(n, seed=3), replicas, rank, even=None)}


def read_shares(
    kind: str, n: int, replicas: int, states: Any = None, batches: int | None = None
) -> tuple[list[int], list[Any]]:
    """What all processes read of an epoch, and their states."""
    options = [sharded(kind, n, replicas, rank) for rank in range(replicas)]
    return read_loaders((sk.DataLoader(range(n), seed=0, **each) for each in options), states, batches)


@for_each("kind", ["batches", "buckets", "iterated", "indices"])
@for_each(("first", "second"), [(4, 3), (2, 5), (3, 1), (1, 4), (3, 3)])
@for_each("n", [60, 61])
def test_the_rest_of_a_sharded_epoch_is_dealt_out_anew(kind: str, first: int, second: int, n: int) -> None:
    seen, states = read_shares(kind, n, first, batches=3)
    again, states = read_shares(kind, n, second, states, batches=2)
    rest, states = read_shares(kind, n, first, states)
    assert sorted([*seen, *again, *rest]) == list(range(n))
    whole, _ = read_shares(kind, n, second, states)  # the next epoch
    assert sorted(whole) == list(range(n))
    assert states[0]["epoch"] == 1


class Own:
    """A data set of another class."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> int:
        return [*range(10)][i]


DATA = [range(10), [*range(10)], np.arange(10), sk.smap(abs, range(10)), Own()]


@pytest.mark.parametrize("data", DATA, ids=lambda data: type(data).__name__)
@pytest.mark.parametrize(
    ("way", "index"), [({}, 99), ({}, 10), ({}, -11), (WAYS[1].values[0], 99), (WAYS[2].values[0], 99)]
)
def test_an_index_that_the_data_set_has_not_is_named(way: Any, data: Any, index: int) -> None:
    keys: list[Any] = [[0, -10], [3, index], [4, 5]]
    loaders = [{"batch_sampler": keys}, {"batch_size": None, "sampler": [0, index, 4]}]
    for options in loaders:
        with sk.DataLoader(data, **options, **way) as loader:
            batches = iter(loader)
            next(batches)
            with pytest.raises(sk.EvaluationError) as caught:
                next(batches)
            assert isinstance(caught.value.__cause__, IndexError)
            assert str(index) in caught.value.message
            assert (caught.value.worker is not None) == ("num_workers" in way)
            assert np.sum(next(batches)) in (4, 9)


ORDERS: dict[str, dict[str, Any]] = {
    "random": {"sampler": RandomSampler(10, seed=1), "batch_size": 3},
    "weights": {"sampler": WeightedRandomSampler([1, 2] * 5, 20, seed=1), "batch_size": 3},
    "a view": {"sampler": sk.shuffle(range(10), seed=1), "batch_size": 4, "drop_last": True},
    "a list": {"sampler": [3, 1, -1], "batch_size": None},
    "an array": {"sampler": np.array([3, 1, 2]), "batch_size": 2},
    "batches": {"batch_sampler": BatchSampler(RandomSampler(10, seed=1), 3)},
    "shares": {"batch_sampler": ShardedSampler(BatchSampler(RandomSampler(10, seed=1), 2), 2, 1)},
    "lists of lists": {"batch_sampler": [[[0, 1], [2]], [3]]},
}


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("order", ORDERS)
def test_the_view_of_a_loader_with_a_sampler_is_a_sequence(way: Any, order: str) -> None:
    collate = {"collate_fn": list} if ORDERS[order].get("batch_size", 1) is not None else {}
    with sk.DataLoader(range(10), **ORDERS[order], **collate, **way) as loader:
        view = loader.view
        assert view is loader.view
        for epoch in range(2):
            loader.set_epoch(epoch)
            batches = list(loader)
            assert len(view) == len(loader) == len(batches)
            keyed = view.at_epoch(epoch)
            assert list(keyed) == batches
            assert [keyed[0], keyed[-1]] == [batches[0], batches[-1]]
            assert list(keyed[1:]) == batches[1:]
            assert list(keyed[sk.shuffle(range(len(batches)), seed=0)])


def test_a_failing_batch_of_the_view_names_its_keys() -> None:
    loader = sk.DataLoader(range(10), 2, sampler=[0, 1, 99, 2], collate_fn=list)
    with pytest.raises(sk.EvaluationError, match="IndexError: range object index out of range") as caught:
        loader.view[1]
    assert "path: batch[1] → gather[2] → samples[99] → source[99]" in str(caught.value)
    assert loader.view[0] == [0, 1]


def test_the_view_of_a_sampler_without_a_known_order_takes_keys() -> None:
    loader = sk.DataLoader(range(10), batch_sampler=Iterated([[1, 2]]), collate_fn=list)
    assert list(islice(sk.View._iter(loader.view, [[1, 2], [3]]), 2)) == [[1, 2], [3]]


def test_other_objects_may_have_keys_beyond_their_length() -> None:
    assert list(sk.DataLoader({99: 5, 7: 6}, sampler=[99, 7], collate_fn=list)) == [[5], [6]]
    with pytest.raises(sk.EvaluationError, match=r"source\[8\] failed: KeyError: 8"):
        list(sk.DataLoader({99: 5, 7: 6}, sampler=[99, 8]))


@every_way
def test_batches_by_a_budget_read_any_sampler(way: Any) -> None:
    sizes = [3, 9, 2, 8, 4, 1, 7]
    sampler = BudgetBatchSampler(RandomSampler(7, seed=1), np.array(sizes), 18, 3)
    with sk.DataLoader(range(7), batch_sampler=sampler, **way) as loader:
        for epoch in range(2):
            batches = plain(loader)
            assert list(chain(*batches)) == list(RandomSampler(7, seed=1).at_epoch(epoch))
            assert all(len(batch) * max(sizes[i] for i in batch) <= 18 for batch in batches)
            assert max(map(len, batches)) <= 3


@pytest.mark.parametrize("batch_size", [None, 2])
def test_tables_are_read_at_positions_by_any_sampler(batch_size: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [10, 20, 30]}, index=["a", "b", "c"])
    sampler: Any = [[2, -3], [1]] if batch_size is None else [2, -3, 1]
    loader = sk.DataLoader(frame, batch_size, sampler=sampler, collate_fn=list)
    assert [[row["x"] for row in rows] for rows in loader] == [[30, 10], [20]]


VIEWS: dict[str, Any] = {
    "sampler": lambda s: {"batch_size": 2, "sampler": sk.view(range(len(s)))[::-1]},
    "single samples": lambda s: {"batch_size": None, "sampler": range(len(s))[::-1]},
    "batches": lambda s: {"batch_sampler": sk.batch(range(len(s))[::-1], 2)},
    "padded": lambda s: {"batch_size": 2, "sampler": range(len(s))[::-1], "last_batch": "pad"},
}


def test_the_view_of_a_loader_obeys_the_laws_of_views() -> None:
    for name, options in VIEWS.items():

        def build(source: Any, options: Any = options) -> Any:
            collate_fn = abs if options(source).get("batch_size", 1) is None else list
            return sk.DataLoader(source, collate_fn=collate_fn, **options(source)).view

        def model(items: list[int], name: str = name) -> list[Any]:
            backwards = items[::-1]
            if name == "single samples":
                return backwards
            short = len(items) % 2 if name == "padded" else 0
            filled = backwards + backwards[:short]
            return [filled[i : i + 2] for i in range(0, len(filled), 2)]

        for n in (0, 5):
            sk.testing.check_view(build, model, range(10, 10 + n))


@pytest.mark.parametrize("way", WAYS[:3])
@pytest.mark.parametrize("kind", ["sampler", "batch_sampler"])
def test_a_node_below_a_loader_learns_the_order_of_its_sampler(kind: str, way: Any) -> None:
    order = [7, 0, 6, -10, 5, 2, 99, 4, 9, 1]
    options: dict[str, Any] = {"batch_size": 2, "sampler": order}
    if kind == "batch_sampler":
        options = {"batch_sampler": [order[i : i + 2] for i in range(0, 10, 2)]}
    with (
        sk.prefetch(sk.smap(abs, range(10)), 2, "thread") as node,
        sk.DataLoader(node, **options, **way) as loader,
    ):
        batches = iter(loader)
        assert plain(islice(batches, 3)) == [[7, 0], [6, 0], [5, 2]]
        with pytest.raises(sk.EvaluationError, match="index 99 out of range for length 10"):
            next(batches)
        assert plain(batches) == [[9, 1]]


def test_a_loader_without_workers_reads_a_node_in_the_order_of_its_sampler() -> None:
    def wait(i: int) -> int:
        both.wait(timeout=20)  # until another thread computes an item, too
        return i

    both = threading.Barrier(2)
    with sk.prefetch(sk.smap(wait, range(8)), 2, "thread", chunk_size=1) as node:
        loader = sk.DataLoader(node, 1, sampler=[6, 1, 3, 0, 7, 2, 5, 4])
        assert plain(loader) == [[6], [1], [3], [0], [7], [2], [5], [4]]


class Backwards(list[int]):
    """A list that iterates in an order of its own."""

    def __iter__(self) -> Any:
        return reversed(self)


@every_way
def test_a_sequence_of_the_user_is_iterated_in_its_own_way(way: Any) -> None:
    with sk.DataLoader(range(5), 2, sampler=Backwards([0, 1, 4]), **way) as loader:
        assert [plain(loader), plain(loader)] == [[[4, 1], [0]]] * 2
    with sk.DataLoader(range(5), batch_sampler=BatchSampler(Backwards([0, 1, 4]), 2), **way) as loader:
        assert plain(loader) == [[4, 1], [0]]


def test_lists_of_keys_without_batches_are_read_one_by_one() -> None:
    view = sk.DataLoader(range(5), None, sampler=[[3, 1], [2]], collate_fn=list).view
    assert [view[0], *view[1:], *view.__getitems__([1, 0])] == [[3, 1], [2], [2], [3, 1]]


class Claiming:
    """Batches of one key, with a length that may be wrong."""

    def __init__(self, batches: int | None, length: int) -> None:
        self.batches, self.length = batches, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Any:
        return ([i % 50] for i in (count() if self.batches is None else range(self.batches)))


@every_way
@pytest.mark.parametrize("claimed", [0, 1, 3, 5, 7])
def test_a_wrong_length_of_a_sampler_loses_no_batch(way: Any, claimed: int) -> None:
    with sk.DataLoader(range(50), batch_sampler=Claiming(5, claimed), **way) as loader:
        for _ in range(2):
            found, states = [], []
            for batch in loader:
                found.append(batch.tolist())
                states.append((len(loader), loader.state_dict()))
            assert found == [[0], [1], [2], [3], [4]]
        for (length, state), read in zip(states[: max(claimed - 1, 0)], range(1, 5), strict=False):
            assert length == claimed
            loader.load_state_dict(state)
            assert plain(loader) == found[read:]


@every_way
def test_an_endless_sampler_with_a_length_goes_on_behind_it(way: Any) -> None:
    with sk.DataLoader(range(50), batch_sampler=Claiming(None, 3), **way) as loader:
        batches = iter(loader)
        found = []
        for _ in range(6):
            found.append(next(batches).tolist())
            assert len(loader) == 3
        assert found == [[0], [1], [2], [3], [4], [5]]


@pytest.mark.parametrize("batched", [False, True])
def test_a_state_draws_no_key_of_a_sampler(batched: bool) -> None:
    drawn: list[int] = []

    class Drawn(Claiming):
        def __iter__(self) -> Any:
            for keys in super().__iter__():
                drawn.extend(keys)
                yield keys if batched else keys[0]

    loader = sk.DataLoader(range(50), **{"batch_sampler" if batched else "sampler": Drawn(None, 3)})
    batches = iter(loader)
    for read in range(1, 6):
        next(batches)
        loader.state_dict()
        assert len(drawn) == read


@pytest.mark.parametrize("kind", [BatchSampler, ShardedSampler])
def test_a_sampler_over_an_iterator_refuses_a_second_epoch(kind: Any) -> None:
    def wrap(keys: Any) -> Any:
        return BatchSampler(keys, 2) if kind is BatchSampler else ShardedSampler(keys, 1, 0)

    for keys in (iter(range(4)), map(int, range(4)), (i for i in range(4))):
        sampler = wrap(keys)
        assert len(list(sampler)) > 1
        with pytest.raises(RuntimeError, match=r"sampler is an iterator.*, which gives one epoch only"):
            list(sampler)
    loader = sk.DataLoader(range(4), batch_sampler=BatchSampler(wrap(iter(range(4))), 2))
    assert len(list(loader)) > 0
    with pytest.raises(RuntimeError, match="which gives one epoch only"):
        list(loader)


@pytest.mark.parametrize(
    "other", [{"dataset": 24}, {"shuffle": False}, {"contiguous": True}, {"dataset": 16, "shuffle": False}]
)
def test_a_share_of_another_order_is_refused_in_the_middle_of_an_epoch(other: dict[str, Any]) -> None:
    def loader(dataset: int = 20, shuffle: bool = True, contiguous: bool = False) -> Any:
        order = RandomSampler(dataset, seed=0) if shuffle else range(dataset)
        return sk.DataLoader(range(24), 2, sampler=ShardedSampler(order, 2, 0, contiguous=contiguous))

    first = loader()
    next(iter(first))
    state = json.loads(json.dumps(first.state_dict()))
    with pytest.raises(ValueError, match=r"has another order than when|middle of an epoch of 1 processes"):
        loader(**other).load_state_dict(state)
    list(first)
    loader(**other).load_state_dict(first.state_dict())  # between epochs
