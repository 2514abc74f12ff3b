"""What is special about `shard`: the parts have everything between them, whatever their number."""

from itertools import chain

import pytest

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
