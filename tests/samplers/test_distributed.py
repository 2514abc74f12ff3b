"""Samplers for one of several readers: nothing lost, nothing twice but for padding."""

from __future__ import annotations

import itertools
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.samplers import (
    BatchSampler,
    DistributedSampler,
    InfiniteSampler,
    RandomSampler,
    SequentialSampler,
    ShardedSampler,
    SplitSampler,
    WeightedRandomSampler,
)
from seqkit.samplers.base import Sampler

EVEN = ("pad", "drop", None)
sizes = {"n": st.integers(0, 30), "count": st.integers(1, 9)}


class Unordered:
    """An iterable of which nothing is known ahead."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def strided(items, count, even):
    """Say in the plainest way what should fall to each reader."""
    items = list(items)
    if even == "drop":
        items = items[: len(items) // count * count]
    elif even == "pad" and items:
        items += list(itertools.islice(itertools.cycle(items), -len(items) % count))
    return [items[rank::count] for rank in range(count)]


# -------------------------------------------------------------------- distributed


@given(**sizes, even=st.sampled_from(EVEN))
def test_the_shares_are_every_nth_index(n, count, even):
    samplers = [ShardedSampler(range(n), count, rank, even=even) for rank in range(count)]
    assert [list(sampler) for sampler in samplers] == strided(range(n), count, even)
    assert [len(sampler) for sampler in samplers] == [len(list(sampler)) for sampler in samplers]


@given(**sizes, seed=st.integers(0, 100), contiguous=st.booleans())
def test_the_union_of_uneven_shares_is_exact(n, count, seed, contiguous):
    shares = [
        list(ShardedSampler(RandomSampler(n, seed=seed), count, rank, even=None, contiguous=contiguous))
        for rank in range(count)
    ]
    assert sorted(itertools.chain(*shares)) == list(range(n))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_padding_is_that_of_torch():
    shares = [list(DistributedSampler(10, 3, rank, False)) for rank in range(3)]
    assert shares == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]


def test_more_readers_than_indices_get_one_each():
    assert [list(DistributedSampler(2, 5, rank, False)) for rank in range(5)] == [[0], [1], [0], [1], [0]]
    assert [list(ShardedSampler(range(2), 5, rank, even=None)) for rank in range(5)] == [
        [0],
        [1],
        [],
        [],
        [],
    ]
    assert list(DistributedSampler(2, 5, 4, drop_last=True)) == []


def test_all_ranks_agree_on_the_order_of_every_epoch():
    samplers = [DistributedSampler("x" * 12, 3, rank) for rank in range(3)]
    epochs = []
    for _ in range(3):
        shares = [list(sampler) for sampler in samplers]
        epochs.append([i for deal in zip(*shares, strict=True) for i in deal])
        assert sorted(epochs[-1]) == list(range(12))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]  # without any set_epoch
    samplers[0].set_epoch(1)
    assert list(samplers[0]) == epochs[1][::3]
    assert list(DistributedSampler(12, 3, 0, seed=1)) != epochs[0][::3]


def test_contiguous_shares_are_runs():
    samplers = [ShardedSampler(range(7), 3, rank, contiguous=True, even=None) for rank in range(3)]
    assert [list(sampler) for sampler in samplers] == [[0, 1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("drop_last", [False, True])
def test_drop_last_leaves_out_what_would_be_padded(drop_last):
    found = [list(DistributedSampler(5, 2, rank, False, drop_last=drop_last)) for rank in range(2)]
    assert found == strided(range(5), 2, "drop" if drop_last else "pad")


@pytest.mark.parametrize("make", [DistributedSampler, ShardedSampler])
@pytest.mark.parametrize("rank", [-1, 3, 4, np.int64(3)])
def test_a_rank_out_of_range_is_refused(make, rank):
    with pytest.raises(ValueError, match=rf"^{make.__name__}: rank must be"):
        make(range(5), 3, rank)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_replicas": 0}, ValueError, "num_replicas must be a positive int, got 0"),
        ({"num_replicas": 1.5}, TypeError, "num_replicas must be a positive int, got 1.5"),
        ({"rank": True}, TypeError, "rank must be an int of at least 0, got True"),
        ({"even": "wrap"}, ValueError, "even must be 'pad', 'drop' or None, got 'wrap'"),
        ({"contiguous": 1}, TypeError, "contiguous must be a bool, got 1"),
    ],
)
def test_sharded_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"ShardedSampler: {message}"):
        ShardedSampler(range(5), **{"num_replicas": 2, "rank": 0, **options})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dataset": 1.5}, TypeError, r"dataset \(an int, or anything with len\) must be an int"),
        ({"shuffle": 1}, TypeError, "shuffle must be a bool, got 1"),
        ({"drop_last": "no"}, TypeError, "drop_last must be a bool, got 'no'"),
    ],
)
def test_distributed_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"DistributedSampler: {message}"):
        DistributedSampler(**{"dataset": 5, "num_replicas": 2, "rank": 0, **options})
    with pytest.raises(ValueError, match="DistributedSampler: RandomSampler below has no seed"):
        DistributedSampler(5, 2, 0, seed=None)


def _group(initialised):
    group = types.ModuleType("torch.distributed")
    group.is_available = lambda: True
    group.is_initialized = lambda: initialised
    group.get_world_size = lambda: 4
    group.get_rank = lambda: 3
    return group


@pytest.mark.parametrize("make", [DistributedSampler, ShardedSampler])
def test_rank_and_number_of_replicas_come_from_the_process_group(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", _group(initialised=True))
    assert [make(range(9)).num_replicas, make(range(9)).rank] == [4, 3]
    assert [make(range(9), 5).num_replicas, make(range(9), 5).rank] == [5, 3]
    assert [make(range(9), rank=2).num_replicas, make(range(9), rank=2).rank] == [4, 2]


@pytest.mark.parametrize("make", [DistributedSampler, ShardedSampler])
@pytest.mark.parametrize("group", [None, _group(initialised=False)])
def test_without_a_process_group_both_numbers_are_needed(make, group, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    with pytest.raises(ValueError, match=f"{make.__name__}: num_replicas and rank are needed"):
        make(range(9), 2)


# -------------------------------------------------------------------- shares of any sampler


@given(**sizes, even=st.sampled_from(EVEN), kind=st.sampled_from([list, Unordered]))
def test_any_sampler_is_dealt_out_as_indices_are(n, count, even, kind):
    samplers = [ShardedSampler(kind(list(range(n))), count, rank, even=even) for rank in range(count)]
    assert [list(sampler) for sampler in samplers] == strided(range(n), count, even)


@given(**sizes, even=st.sampled_from(EVEN))
def test_runs_are_the_same_whether_the_order_is_known_or_not(n, count, even):
    for rank in range(count):
        known, drawn = (
            ShardedSampler(items, count, rank, even=even, contiguous=True)
            for items in (range(n), Unordered(range(n)))
        )
        assert list(known) == list(drawn)
        assert len(known) == len(list(known))
        with pytest.raises(TypeError):
            len(drawn)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WeightedRandomSampler(np.arange(1, 20), 13, seed=0),
        lambda: WeightedRandomSampler(np.arange(1, 20), 13, False, seed=0),
        lambda: RandomSampler(13, True, seed=0),
        lambda: BatchSampler(RandomSampler(29, seed=0), 4),
        lambda: BatchSampler(RandomSampler(29, seed=0), 4, last="rollover"),
    ],
)
def test_shares_of_every_epoch_are_those_of_the_sampler(make):
    whole, shares = make(), [ShardedSampler(make(), 3, rank) for rank in range(3)]
    for _ in range(3):
        assert [list(share) for share in shares] == strided(whole, 3, "pad")
    for sampler in [whole, *shares]:
        assert sampler.epoch == 3
        sampler.set_epoch(1)
    if not isinstance(whole, BatchSampler) or whole.last != "rollover":
        assert [list(share) for share in shares] == strided(whole, 3, "pad")


def test_an_endless_sampler_can_be_shared():
    share = ShardedSampler(InfiniteSampler(range(5)), 2, 1)
    assert list(itertools.islice(share, 6)) == [1, 3, 0, 2, 4, 1]


def test_a_share_is_drawn_without_the_others():
    drawn = []

    class Watched(list):
        def __getitem__(self, i):
            drawn.append(i)
            return super().__getitem__(i)

    items = Watched(range(100))
    assert list(ShardedSampler(items, 10, 3)) == list(range(3, 100, 10))
    assert drawn == list(range(3, 100, 10))


def test_sharded_sampler_needs_a_sampler():
    with pytest.raises(TypeError, match="ShardedSampler: sampler should be an iterable of indices"):
        ShardedSampler(5, 2, 0)


@pytest.mark.parametrize("kind", [list, Unordered])
def test_the_rest_of_a_resumed_epoch_is_dealt_out_and_other_epochs_are_whole(kind):
    def share():
        sampler = ShardedSampler(kind(range(12)), 3, 0)
        sampler.load_state_dict({**sampler.state_dict(), "epoch": 4, "read": 6})
        return sampler

    sampler = share()
    if kind is list:
        assert [list(sampler.at_epoch(epoch)) for epoch in (4, 5)] == [[6, 9], [0, 3, 6, 9]]
        assert len(sampler) == 2
    assert [list(sampler), list(sampler)] == [[6, 9], [0, 3, 6, 9]]
    sampler.set_epoch(4)
    assert list(sampler) == [0, 3, 6, 9]
    sampler = share()
    sampler.set_epoch(4)  # that of the state
    assert list(sampler) == [6, 9]
    sampler = share()
    sampler.set_epoch(5)
    assert sampler.state_dict()["read"] == 0
    assert list(sampler) == [0, 3, 6, 9]


# -------------------------------------------------------------------- parts


@pytest.mark.parametrize("shuffle", [False, True])
@given(**sizes)
def test_the_parts_have_every_index_once(shuffle, n, count):
    parts = [SplitSampler(n, count, part, shuffle=shuffle, seed=1) for part in range(count)]
    found = [list(part) for part in parts]
    assert sorted(itertools.chain(*found)) == list(range(n))
    assert [len(part) for part in parts] == [n // count + (part < n % count) for part in range(count)]
    assert [sorted(each) for each in found] == [
        list(range(n))[each.start : each.stop] for each in _runs(n, count)
    ]


def _runs(n, count):
    stops = list(itertools.accumulate(n // count + (part < n % count) for part in range(count)))
    return [range(start, stop) for start, stop in itertools.pairwise([0, *stops])]


@given(**sizes, shuffle=st.booleans(), seed=st.integers(0, 9))
def test_even_parts_are_completed_from_other_parts(n, count, shuffle, seed):
    for part, own in enumerate(_runs(n, count)):
        sampler = SplitSampler(n, count, part, even_size=True, shuffle=shuffle, seed=seed)
        found = list(sampler)
        assert len(found) == len(set(found)) == len(sampler) == -(-n // count)
        assert set(own) <= set(found) <= set(range(n))
        assert all(type(i) is int for i in found)


def test_the_completion_is_random_and_reproducible():
    def extras(seed):
        sampler = SplitSampler(21, 4, 3, even_size=True, repeat=50, shuffle=False, seed=seed)
        return list(sampler)[5::6]

    assert extras(0) == extras(0) != extras(1)
    assert set(extras(0)) <= set(range(16))
    assert len(set(extras(0))) > 10


def test_repeats_are_independent_passes():
    sampler = SplitSampler(40, 2, 1, repeat=3, seed=0)
    found = list(sampler)
    passes = [found[:20], found[20:40], found[40:]]
    assert len(sampler) == 60
    assert all(sorted(each) == list(range(20, 40)) for each in passes)
    assert passes[0] != passes[1] != passes[2] != passes[0]
    assert list(sampler) != found
    assert list(SplitSampler(5, 2, 0, repeat=2, shuffle=False)) == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"length": -1}, ValueError, "length .* must be an int of at least 0, got -1"),
        ({"num_replicas": 0}, ValueError, "num_replicas must be a positive int, got 0"),
        ({"rank": 3}, ValueError, "rank must be below num_replicas 3, got 3"),
        ({"rank": -1}, ValueError, "rank must be an int of at least 0, got -1"),
        ({"rank": True}, TypeError, "rank must be an int of at least 0, got True"),
        ({"repeat": 0}, ValueError, "repeat must be a positive int, got 0"),
        ({"even_size": 1}, TypeError, "even_size must be a bool, got 1"),
        ({"shuffle": 1}, TypeError, "shuffle must be a bool, got 1"),
        ({"seed": "x"}, TypeError, "seed must be an int of at least 0"),
    ],
)
def test_split_sampler_refuses_wrong_arguments(options, error, message):
    with pytest.raises(error, match=f"SplitSampler: {message}"):
        SplitSampler(**{"length": 10, "num_replicas": 3, **options})


@pytest.mark.parametrize("order", [list, sk.view, SequentialSampler])
def test_a_resumed_share_begins_the_next_epoch_whole(order):
    sampler = ShardedSampler(order(range(10)), 2, 0)
    sampler.load_state_dict({**sampler.state_dict(), "read": 6})
    assert [list(sampler) for _ in range(2)] == [[6, 8], [0, 2, 4, 6, 8]]
    sampler.load_state_dict({**sampler.state_dict(), "epoch": 0, "read": 6})
    Sampler.set_epoch(sampler, 1)  # as a loader counts, if it does not iterate the sampler
    assert list(sampler) == [0, 2, 4, 6, 8]
