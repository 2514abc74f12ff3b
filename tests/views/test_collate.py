"""`collate`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import ExplodingSource, FailingSource, UnsizedSource
from seqkit.testing.failing import by_iteration

from ..helpers import FailsAt, Naturals, agree_after_errors, for_each


def test_no_sequence_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="collate: at least one sequence"):
        sk.collate([])
    with pytest.raises(ValueError, match="collate: at least one sequence"):
        sk.collate({})
    with pytest.raises(ValueError, match="collate: the sequences must have one length"):
        sk.collate([[1, 2], Naturals(), [1, 2, 3]])


def test_sequences_without_end_stand_beside_those_with_one() -> None:
    view = sk.collate([Naturals(), "ab"])
    assert (len(view), list(view)) == (2, [(0, "a"), (1, "b")])
    endless = sk.collate({"i": Naturals(), "j": Naturals()})
    assert list(islice(endless, 1, 2)) == [{"i": 1, "j": 1}]


def test_an_unknown_end_ends_the_view_if_no_other_sequence_ends() -> None:
    view = sk.collate([Naturals(), UnsizedSource("ab"), Naturals()])
    assert list(view) == [(0, "a", 0), (1, "b", 1)]
    with pytest.raises(TypeError, match="only known once it is reached"):
        len(view)
    with pytest.raises(IndexError):
        view[2]


def test_after_an_error_all_sequences_are_at_the_same_item() -> None:
    for failing in ([1], [1, 2], [0, 1, 2, 3]):
        for place in range(3):
            columns = [FailingSource(range(4), failing if which == place else []) for which in range(3)]
            for item, i in zip(agree_after_errors(sk.collate(columns)), range(4), strict=True):
                assert (item.kind is sk.EvaluationError) if i in failing else (item == (i, i, i))


def test_sequences_that_fail_at_different_items_stay_in_step() -> None:
    columns = [FailingSource(range(6), failing) for failing in ([1, 2], [2, 3], [3, 5])]
    good = [item[0] for item in agree_after_errors(sk.collate(columns)) if isinstance(item, tuple)]
    assert good == [0, 4]


def test_an_item_is_written_to_all_sequences() -> None:
    x, y = [1, 2], [3, 4]
    view = sk.collate([x, y])
    view[1] = iter((8, 9))
    assert (x, y) == ([1, 8], [3, 9])
    named = sk.collate({"x": x, "y": y})
    named[0] = {"y": 5, "x": 6}
    assert (x, y) == ([6, 8], [5, 9])


def test_an_item_must_have_a_part_for_each_sequence() -> None:
    x, y = [1, 2], [3, 4]
    for wrong in ((1,), (1, 2, 3), ()):
        with pytest.raises(ValueError, match=f"^collate: assigned {len(wrong)} values to an item of 2$"):
            sk.collate([x, y])[0] = wrong
    for keys in ({"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": 1, "z": 3}):
        with pytest.raises(
            ValueError, match=r"^collate: assigned parts \['x'.*\] to an item of \['x', 'y'\]$"
        ):
            sk.collate({"x": x, "y": y})[0] = keys
    with pytest.raises(TypeError, match="collate: an item of"):
        sk.collate({"x": x, "y": y})[0] = (5, 6)
    assert (x, y) == ([1, 2], [3, 4])


def test_sequences_may_be_given_by_an_iterator() -> None:
    assert list(sk.collate(iter(["ab", "cd"]))) == [("a", "c"), ("b", "d")]


def test_sequences_may_be_given_by_keyword() -> None:
    view = sk.collate(image=[1, 2], label="ab")
    assert view[1] == {"image": 2, "label": "b"}
    text = "collate: either all sequences have names"
    with pytest.raises(TypeError, match=text):
        sk.view([1]).collate(y=[2])
    with pytest.raises(TypeError, match=text):
        sk.collate([[1]], y=[1])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="collate: sequences must be an iterable"):
        sk.collate()


def test_columns_are_selected_without_reading_the_others() -> None:
    view: Any = sk.collate(x=[1, 2], y=ExplodingSource("ab"), z=[5, 6])
    assert list(view.select("x")) == [1, 2]
    assert list(view.select("z", "x")) == [{"z": 5, "x": 1}, {"z": 6, "x": 2}]
    for wrong in ((), ("a",), ("x", "a")):
        with pytest.raises(ValueError, match="select: names must be some of"):
            view.select(*wrong)


# -------------------------------------------------------------------- lengths that are found while reading


def generated(n: int) -> Any:
    return sk.uniter(lambda: iter(range(n)))


def failing_after(n: int) -> Any:
    return sk.smap(FailsAt(n), generated(n + 1))


UNKNOWN: dict[str, Callable[[int], Any]] = {
    "no len": lambda n: UnsizedSource(range(n)),
    "generator": generated,
    "one iterator": lambda n: sk.uniter(iter(range(n))),
    "a map": lambda n: sk.smap(abs, generated(n)),
    "ahead": lambda n: sk.prefetch(generated(n), 0),
}
JOINED: dict[str, Callable[..., Any]] = {
    "collate": lambda a, b: sk.collate([a, b]),
    "names": lambda a, b: sk.collate(a=a, b=b),
    "three": lambda a, b: sk.collate([a, sk.repeat(0), b]),
    "smap": lambda a, b: sk.smap(operator.add, a, b),
    "chain": lambda a, b: sk.smap(abs, sk.smap(operator.add, sk.smap(abs, a), b)),
    "batch": lambda a, b: sk.batch(sk.collate([a, b]), 1),
}


@for_each("join", JOINED.values())
@for_each("first", UNKNOWN.values())
@for_each("second", UNKNOWN.values())
@for_each("lengths", [(3, 2), (2, 3), (0, 1), (1, 0), (2, 2)])
def test_unknown_lengths_that_differ_are_an_error(join: Any, first: Any, second: Any, lengths: Any) -> None:
    view = join(first(lengths[0]), second(lengths[1]))
    found = by_iteration(iter(view), 9)
    assert len(found) == min(lengths) + (lengths[0] != lengths[1])
    if lengths[0] != lengths[1]:
        assert found[-1].kind is ValueError
        assert f"ends after {min(lengths)} items and sequence " in found[-1].cause


@for_each("join", [JOINED["collate"], JOINED["names"], JOINED["smap"], JOINED["chain"]])
@for_each("unknown", UNKNOWN.values())
def test_a_longer_sequence_of_unknown_length_is_an_error_behind_the_last_item(
    join: Any, unknown: Any
) -> None:
    for view in (join(unknown(3), [0, 0]), join([0, 0], unknown(3))):
        found = by_iteration(iter(view), 9)
        assert [getattr(item, "kind", None) for item in found] == [None, None, ValueError]
        with pytest.raises(TypeError, match="has no length"):
            len(view)
    assert len(list(join(unknown(2), [0, 0]))) == 2


def test_an_item_that_fails_exists() -> None:
    found = by_iteration(iter(sk.collate([failing_after(2), generated(2)])), 9)
    assert [getattr(item, "kind", tuple) for item in found] == [tuple, tuple, sk.EvaluationError]
    found = by_iteration(iter(sk.collate([generated(2), failing_after(2)])), 9)
    assert [getattr(item, "kind", tuple) for item in found] == [tuple, tuple, ValueError]


def test_the_shortest_sequence_and_unbounded_ones_are_no_error() -> None:
    assert list(sk.smap(operator.add, generated(2), generated(3), zip="shortest")) == [0, 2]
    assert list(sk.collate([generated(2), Naturals(), sk.cycle("ab")])) == [(0, 0, "a"), (1, 1, "b")]
    assert list(sk.collate([generated(5).head(2), generated(2)])) == [(0, 0), (1, 1)]


# -------------------------------------------------------------------- columns of selections

POINTS = sk.collate(
    x=sk.random_map(lambda i, rng: rng.random(), range(12), seed=1), y=list("abcdefghijkl"), z=range(12)
)
SELECTIONS: dict[str, sk.View[Any]] = {
    "collate": POINTS,
    "gather": POINTS.gather([3, 1, 1, -2]),
    "gather by a view": POINTS.gather(sk.shuffle(range(12), seed=5)),
    "slice": POINTS[2:9:2],
    "mask": POINTS[np.arange(12) % 3 == 0],
    "shuffle": sk.shuffle(POINTS, seed=0),
    "shuffle twice": sk.shuffle(sk.shuffle(POINTS, seed=0), seed=0),
    "named": sk.shuffle(POINTS, seed=0, name="order"),
    "groups": sk.shuffle_groups(POINTS, 4, seed=0),
    "shard": sk.shard(POINTS, 1, 3),
    "random_split": sk.random_split(POINTS, [8, 4], seed=0)[1],
    "concatenate": sk.concatenate([POINTS, POINTS[:2]]),
    "mix": sk.mix([POINTS, POINTS[::-1]], seed=0),
    "cycle": sk.cycle(POINTS, 20),
    "epochs": sk.epochs(sk.shuffle(POINTS, seed=1), 2),
    "many": sk.shard(sk.shuffle(sk.random_split(POINTS, [8, 4], seed=0)[0][::-1], seed=3), 0, 2),
}


@pytest.mark.parametrize("view", SELECTIONS.values(), ids=SELECTIONS)
def test_columns_of_a_selection_are_in_its_order(view: Any) -> None:
    for epoch in (0, 2):
        items = list(view.at_epoch(epoch))
        for one in (view.select("y").at_epoch(epoch), view.at_epoch(epoch).select("y")):
            assert list(one) == [one[i] for i in range(len(items))] == [item["y"] for item in items]
        both = [{"z": item["z"], "y": item["y"]} for item in items]
        assert list(view.select("z", "y").at_epoch(epoch)) == both


def test_the_other_columns_of_a_selection_are_not_read() -> None:
    points: Any = sk.collate(x=ExplodingSource(range(8)), y=range(8))
    train, _ = sk.random_split(points, [0.5, 0.5], seed=0)
    assert len(set(train.select("y"))) == 4
    assert sorted(sk.shuffle(points, seed=0).select("y")) == list(range(8))
    assert list(sk.split(points, 1)[0].select("y")) == [0, 1, 2, 3]


def test_what_has_no_columns_has_no_select() -> None:
    points: Any = sk.collate(x=[1, 2], y=[3, 4])
    for view in (sk.view([1])[:1], sk.smap(str, points), sk.smap(str, points)[1:], sk.collate([[1]])[:1]):
        if hasattr(view, "select"):
            with pytest.raises(TypeError, match=r"select: items of .* have no named columns"):
                view.select("x")
    mixed: Any = sk.concatenate([points, [{"x": 1}]])
    with pytest.raises(TypeError, match="select: items of <list of 1> have no named columns"):
        mixed.select("x")


def test_columns_that_cannot_be_selected_are_refused() -> None:
    points: Any = sk.collate(x=[1, 2], y=[3, 4])
    with pytest.raises(ValueError, match=r"select: names must be some of \['x', 'y'\], got \['a'\]"):
        points[1:].select("a")
    with pytest.raises(TypeError, match="select: names"):
        points[1:].select(0)


def noisy(view: Any) -> sk.View[Any]:
    return sk.random_map(lambda x, rng: x, view, seed=0)


BETWEEN: dict[str, Callable[[Any], Any]] = {
    "a map": lambda view: sk.smap(abs, view),
    "a random map": noisy,
    "two random maps": lambda view: noisy(noisy(view)),
    "a cache over a random map": lambda view: sk.add_cache(noisy(view), 20),
    "random maps side by side": lambda view: sk.smap(lambda x, y: x, noisy(view), noisy(view)),
    "a random map of some items": lambda view: sk.concatenate([noisy(view[:9]), view[9:]]),
    "all items filtered": lambda view: sk.filter(lambda x: True, noisy(view)),
}


@pytest.mark.parametrize("order", [sk.shuffle, lambda view, seed: sk.shuffle_groups(view, 4, seed)])
@pytest.mark.parametrize("between", BETWEEN)
def test_shuffles_with_one_seed_pair_whatever_lies_below_them(order: Any, between: str) -> None:
    images, labels = order(BETWEEN[between](range(20)), 0), order(range(20), 0)
    for epoch in range(3):
        assert all(a == b for a, b in sk.collate([images, labels]).at_epoch(epoch))
        assert all(sk.smap(lambda a, b: a == b, images, labels).at_epoch(epoch))
    again, once = order(order(range(20), 0), 0), order(range(20), 0)
    assert list(again) != list(once) != list(range(20))


def test_a_mix_pairs_too_and_a_shuffle_above_it_differs() -> None:
    parts = range(9), range(100, 120)
    images, labels = sk.mix([noisy(part) for part in parts], seed=3), sk.mix(parts, seed=3)
    assert list(images) == list(labels)
    above = [list(sk.shuffle(view, seed=3)) for view in (images, labels)]
    assert above[0] == above[1] != list(sk.gather(labels, sk.shuffle(range(len(labels)), seed=3)))


def test_random_maps_above_each_other_draw_numbers_of_their_own() -> None:
    def draw(x: Any, rng: Any) -> list[float]:
        return [*x, rng.random()]

    view: Any = [[] for _ in range(5)]
    for below in (lambda v: v, lambda v: sk.shuffle(v, seed=0), lambda v: sk.smap(list, v)):
        view = sk.random_map(draw, below(view), seed=0)
    assert all(len(set(drawn)) == 3 for drawn in view)
