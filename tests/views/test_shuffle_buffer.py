"""`shuffle_buffer`: its orders, errors and epochs. The conformance suite has the laws of views."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

import seqkit as sk
from seqkit import shuffle_buffer
from seqkit.views.bases.order_digest import order_digest
from tests.engine.traces import drawn
from tests.helpers import InterruptsOnce


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
@pytest.mark.parametrize("size", [1, 2, 7, 300, 2000])
def test_every_item_comes_once_in_an_order_of_the_seed(size: int, n: int) -> None:
    shuffled = shuffle_buffer(range(n), size, seed=3)
    order = list(shuffled)
    assert sorted(order) == list(range(n))
    assert order == list(shuffled) == list(shuffle_buffer(range(n), size, seed=3))
    assert order == list(shuffle_buffer(sk.uniter(lambda: iter(range(n))), size, seed=3))
    assert all(item - place < size for place, item in enumerate(order))
    assert (size == 1) == (order == list(range(n))) or n < 2
    if n == 1000 and size > 1:
        assert order != list(shuffle_buffer(range(n), size, seed=4))
        assert order != list(shuffle_buffer(range(n), size, seed=3).at_epoch(1))


def test_all_orders_of_a_full_buffer_are_about_as_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(1200):
        order = tuple(shuffle_buffer(range(3), 3, seed))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert all(140 < times < 260 for times in seen.values())


def test_it_goes_on_after_an_error_of_its_source() -> None:
    found = drawn(iter(shuffle_buffer(sk.smap(lambda x: 1 / (x - 4), range(1, 8)), 3, seed=0)))
    assert len([item for item in found if isinstance(item, sk.EvaluationError)]) == 1
    assert len(found) == 7


def test_a_loop_reads_an_iterable_with_a_length_in_one_pass() -> None:
    passes: list[int] = []

    def items() -> Iterator[int]:
        passes.append(1)
        return iter(range(50))

    shuffled = shuffle_buffer(sk.uniter(items, size=50), 10, seed=0)
    assert list(shuffled) == list(shuffle_buffer(range(50), 10, seed=0))
    assert len(passes) == 1


def test_its_size_is_part_of_the_digest_of_an_order() -> None:
    digests = {order_digest(shuffle_buffer(range(9), size, seed=0)) for size in (2, 3, 3)}
    assert len(digests) == 2


def test_a_sequence_may_have_no_end() -> None:
    endless = shuffle_buffer(sk.uniter(count), 100, seed=0)
    assert len(set(islice(endless, 1000))) == 1000
    assert [endless[i] for i in (3, 5)] == [item for i, item in enumerate(islice(endless, 6)) if i in (3, 5)]


@pytest.mark.parametrize("above", [lambda x: x, lambda x: x.smap(str).batch(2), lambda x: x.skip(3)])
def test_it_follows_the_epoch(above: Any) -> None:
    view = above(shuffle_buffer(sk.uniter(range(20)), 10, seed=0))
    epochs = [str(list(view.at_epoch(epoch))) for epoch in range(2)]
    assert epochs[0] == str(list(view))
    assert len({*epochs}) == 2
    assert str(list(copy.deepcopy(view.at_epoch(1)))) == epochs[1]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="shuffle_buffer: size must be a positive int"):
        shuffle_buffer([], 0)
    with pytest.raises(TypeError, match="shuffle_buffer"):
        shuffle_buffer(iter([1]), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("at", range(10))
def test_after_ctrl_c_an_iterator_is_over_and_says_so(at: int) -> None:
    items = iter(shuffle_buffer(sk.smap(InterruptsOnce(at), range(10)), 3, seed=0))
    with pytest.raises(KeyboardInterrupt):
        list(items)
    with pytest.raises(RuntimeError):
        next(items)


def test_one_buffer_lies_above_another() -> None:
    twice = shuffle_buffer(shuffle_buffer(range(40), 5, seed=0), 5, seed=0)
    assert sorted(twice) == list(range(40))
    assert list(twice) != list(shuffle_buffer(range(40), 5, seed=0))
    assert repr(twice).count("shuffle_buffer") == 2
    assert list(twice.head(3)) == list(islice(twice, 3)) == [twice[i] for i in range(3)]
