"""`shuffle_groups`: groups stay together, orders differ, and wrong sizes are refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import seqkit as sk


def test_groups_stay_together_and_are_shuffled_within() -> None:
    order = [*sk.shuffle_groups(range(1000), 10, seed=1)]
    groups = [{i // 10 for i in order[k : k + 10]} for k in range(0, 1000, 10)]
    assert all(len(group) == 1 for group in groups)
    assert [next(iter(group)) for group in groups] != sorted(next(iter(group)) for group in groups)
    within = [tuple(i % 10 for i in order[k : k + 10]) for k in range(0, 1000, 10)]
    assert len({*within}) > 90


def test_groups_of_any_size() -> None:
    sizes = [3, 0, 1, 40, 6]
    order = [*sk.shuffle_groups(range(50), sizes, seed=0)]
    group_of = np.repeat(range(5), sizes)
    changes = sum(a != b for a, b in pairwise(group_of[order].tolist()))
    assert (sorted(order), changes) == ([*range(50)], 3)


def test_several_groups_are_mixed() -> None:
    order = [*sk.shuffle_groups(range(100), 10, seed=0, groups_at_once=5)]
    for half in (order[:50], order[50:]):
        assert len({i // 10 for i in half}) == 5
        assert len({i // 10 for i in half[:25]}) == 5


def test_epochs_and_names_give_other_orders() -> None:
    view = sk.shuffle_groups(range(100), 10, seed=0)
    orders = [
        *(tuple(view.at_epoch(epoch)) for epoch in range(3)),
        tuple(sk.shuffle_groups(range(100), 10, seed=0, name="a")),
        tuple(sk.shuffle_groups(sk.shuffle(range(100), seed=0), 10, seed=0)),
    ]
    assert len({*orders}) == 5
    assert tuple(sk.shuffle_groups(range(100), 10, seed=0).at_epoch(2)) == orders[2]


def test_a_single_read_costs_no_pass_over_the_sequence() -> None:
    view = sk.shuffle_groups(range(10**12), 10**9, seed=0)
    assert 0 <= view[10**11] < 10**12
    assert len({i // 10**9 for i in view[5 * 10**9 : 5 * 10**9 + 100]}) == 1


def test_groups_of_the_source_are_used() -> None:
    class Groups(list[int]):
        group_sizes = (2, 3)

    assert {*sk.shuffle_groups(Groups(range(5)), seed=0)[:2]} in ({0, 1}, {2, 3}, {2, 4}, {3, 4})
    assert sk.view(Groups(range(5))).shuffle_groups(seed=1)[0] in range(5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1, 2], None), TypeError, "the sequence has no groups of its own. Pass group_sizes"),
        (([1, 2], 0), ValueError, "group_sizes must be a positive int or ints, got 0"),
        (([1, 2], [1]), ValueError, "group_sizes must add up to the length 2, got 1"),
        (([1, 2], [3, -1]), ValueError, "each of group_sizes must be an int of at least 0, got -1"),
        (([1, 2], [1.5]), TypeError, "each of group_sizes must be an int of at least 0, got 1.5"),
        ((sk.cycle([1]), 2), TypeError, "the sequence needs a length, and has none"),
        (([1], 1, -1), ValueError, "seed must be"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"shuffle_groups: {message}"):
        sk.shuffle_groups(*arguments)
    with pytest.raises(ValueError, match="groups_at_once must be a positive int, got 0"):
        sk.shuffle_groups([1], 1, groups_at_once=0)


def test_groups_follow_a_length_that_differs_between_epochs():
    patches = sk.flatten(sk.random_map(lambda v, rng: [v] * int(rng.integers(0, 5)), range(6), seed=3))
    order = sk.shuffle_groups(patches, 4, seed=0)
    for epoch in range(3):
        assert sorted(order.at_epoch(epoch)) == sorted(patches.at_epoch(epoch))
    sizes = sk.shuffle_groups(patches, [4, 6], seed=0)
    with pytest.raises(ValueError, match="group_sizes must add up to the length 13, got 10"):
        list(sizes.at_epoch(1))


def test_views_of_groups_have_sizes_of_their_own() -> None:
    for groups in (sk.flatten(["ab", "cde", "f"]), sk.unbatch(["abc", "def"], 3)):
        order = list(sk.shuffle_groups(groups, seed=0))
        assert sorted(order) == list("abcdef")
