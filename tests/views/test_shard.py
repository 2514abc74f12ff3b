"""What is special about `shard`: the parts have everything between them, whatever their number."""

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.testing import ExplodingSource
from seqkit.views.shard import shard

COUNTS = range(1, 16)


def parts(items, count, contiguous, even=None):
    return [list(shard(items, rank, count, contiguous, even=even)) for rank in range(count)]


@pytest.mark.parametrize("n", range(13))
def test_contiguous_parts_follow_each_other_and_the_first_have_one_more(n):
    items = list(range(n))
    for count in COUNTS:
        found = parts(items, count, True)
        assert list(chain.from_iterable(found)) == items
        assert [len(part) for part in found] == [n // count + (rank < n % count) for rank in range(count)]


@pytest.mark.parametrize("n", range(13))
def test_strided_parts_take_turns(n):
    items = list(range(n))
    for count in COUNTS:
        assert parts(items, count, False) == [items[rank::count] for rank in range(count)]


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("n", range(13))
def test_padded_parts_are_those_of_a_sequence_that_starts_anew_behind_its_end(n, contiguous):
    items = list(range(n))
    for count in COUNTS:
        size = -(-n // count)
        longer = (items * count)[: size * count]
        blocks = [longer[rank * size : (rank + 1) * size] for rank in range(count)]
        turns = [longer[rank::count] for rank in range(count)]
        assert parts(items, count, contiguous, "pad") == (blocks if contiguous else turns)


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("n", range(13))
def test_dropped_parts_are_those_of_a_sequence_that_ends_earlier(n, contiguous):
    items = list(range(n))
    for count in COUNTS:
        shorter = items[: n // count * count]
        assert parts(items, count, contiguous, "drop") == parts(shorter, count, contiguous)
        assert {len(part) for part in parts(items, count, contiguous, "drop")} == {n // count}


def test_parts_are_slices_and_need_no_memory():
    for n, count in ((10**15, 7), (10**15 + 1, 2)):
        for contiguous in (True, False):
            for even in (None, "pad", "drop"):
                ranks = [shard(range(n), rank, count, contiguous, even=even) for rank in range(count)]
                assert sum(map(len, ranks)) in (n, n + -n % count, n - n % count)
                assert ranks[1][-1] < n
    assert repr(shard("abcdef", 1, 2)) == "shard(<str of 6>, 1, 2, True)"
    assert repr(shard("abcdef", 1, 2, False)) == "shard(<str of 6>, 1, 2, False)"


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("even", [None, "pad", "drop"])
def test_each_epoch_divides_the_items_that_it_has(contiguous, even):
    patches = sk.flatten(sk.random_map(lambda v, rng: [v] * int(rng.integers(0, 5)), range(6), seed=3))
    assert [len(patches.at_epoch(epoch)) for epoch in range(3)] == [10, 13, 9]
    ranks = [shard(patches, rank, 4, contiguous, even=even) for rank in range(4)]
    for epoch in (0, 1, 2, 0):
        items = list(patches.at_epoch(epoch))
        assert [list(rank.at_epoch(epoch)) for rank in ranks] == parts(items, 4, contiguous, even)


def test_an_order_without_a_seed_is_refused():
    for order in (sk.shuffle(range(8)), sk.smap(abs, sk.mix([range(8), range(8)]))):
        with pytest.raises(ValueError, match="has no seed, so each process draws another order"):
            shard(order, 0, 2)
        assert len(shard(order, 0, 1)) == len(order)
    assert len(shard(sk.random_map(lambda x, rng: x, range(8)), 0, 2)) == 4


def test_nothing_is_read_and_parts_of_a_shuffle_share_one_order_in_every_epoch():
    shard(ExplodingSource("abc"), 0, 2)
    order = sk.shuffle(range(50), seed=0)
    for epoch in range(3):
        found = [list(shard(order, rank, 4, False).at_epoch(epoch)) for rank in range(4)]
        assert sorted(chain.from_iterable(found)) == list(range(50))
        assert found[1] == list(order.at_epoch(epoch))[1::4]


def test_padded_parts_can_be_written():
    items = [1, 2, 3]
    shard(items, 1, 2, even="pad")[:] = "ca"
    assert items == ["a", 2, "c"]


# -------------------------------------------------------------------- sequences without a length


@given(
    n=st.integers(0, 40),
    world=st.integers(1, 4),
    steps=st.none() | st.integers(1, 3),
    even=st.sampled_from(["pad", "drop", None]),
)
def test_shares_of_a_stream_are_those_of_a_list(n: int, world: int, steps: int | None, even: Any) -> None:
    unit = None if steps is None or even is None else steps * world
    for rank in range(world):
        of_list = sk.shard(range(n), rank, world, False, even=even, global_batch=unit)
        stream = sk.uniter(lambda: iter(range(n)))
        share = sk.shard(stream, rank, world, False, even=even, global_batch=unit)
        assert list(share) == list(of_list)
        assert [share[i] for i in range(len(of_list))] == list(of_list)


def test_an_error_in_a_stream_is_that_of_one_process() -> None:
    def fragile(x: int) -> int:
        if x == 3:
            raise ValueError(x)
        return x

    shares = [sk.shard(sk.smap(fragile, sk.uniter(lambda: iter(range(8)))), r, 2, False) for r in (0, 1)]
    assert list(shares[0]) == [0, 2, 4, 6]
    items = iter(shares[1])
    assert next(items) == 1
    with pytest.raises(sk.EvaluationError, match="ValueError: 3"):
        next(items)
    assert list(items) == [5, 7]


def test_contiguous_shares_of_a_stream_are_refused() -> None:
    with pytest.raises(TypeError, match="shard: the sequence needs a length"):
        sk.shard(sk.uniter(lambda: iter("abc")), 0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contiguous": True, "even": "pad", "global_batch": 4}, "needs contiguous=False"),
        ({"contiguous": False, "global_batch": 4}, "needs contiguous=False and even"),
        ({"contiguous": False, "even": "pad", "global_batch": 5}, "must be a multiple of the 2 parts, got 5"),
        ({"contiguous": False, "even": "pad", "global_batch": 0}, "must be a positive int, got 0"),
    ],
)
def test_global_batches_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"shard: global_batch {message}"):
        sk.shard(range(9), 0, 2, **arguments)


@given(n=st.integers(0, 60), world=st.sampled_from([1, 2, 3, 6]), even=st.sampled_from(["pad", "drop"]))
def test_whole_global_batches_are_the_same_for_any_number_of_parts(n: int, world: int, even: Any) -> None:
    shares = [
        list(sk.shard(range(n), rank, world, False, even=even, global_batch=6)) for rank in range(world)
    ]
    found = [item for round_ in zip(*shares, strict=True) for item in round_]
    stop = n // 6 * 6 if even == "drop" else -(-n // 6) * 6
    assert found == [i % n for i in range(stop)]
