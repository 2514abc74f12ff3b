"""An index names an item: a selection keeps the orders below it, and what is drawn follows the epoch."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

import seqkit as sk
from seqkit import samplers
from seqkit.core.epoch import AS_IT_STANDS, DRAWS, ORDER, EpochPair, at_epoch
from seqkit.views.bases.order_digest import order_digest

ORDERED = sk.shuffle(range(12), seed=0)
OTHER = sk.shuffle(range(12), seed=1)
FIRST = list(ORDERED[:8])


def jitter(x: Any, rng: np.random.Generator) -> tuple[Any, int]:
    return x, int(rng.integers(1000))


def drawn(rng: np.random.Generator) -> int:
    return int(rng.integers(1000))


def is_even(x: int) -> bool:
    return x % 2 == 0


def pairs_of(x: int) -> list[int]:
    return [x, -x]


GROUPS = sk.smap(pairs_of, ORDERED)
DRAWN = sk.random_map(jitter, range(12), seed=3)
WEIGHTED = samplers.WeightedRandomSampler([1.0] * 12, 12, seed=0).order
MASK = np.arange(12) % 3 == 0

# What a selection keeps: the same items in the same order in each epoch.
KEPT: dict[str, Callable[[], Any]] = {
    "[a:b]": lambda: ORDERED[2:7],
    "[mask]": lambda: ORDERED[MASK],
    "[::2]": lambda: ORDERED[::2],
    "[::-1]": lambda: ORDERED[::-1],
    "[:]": lambda: ORDERED[:],
    "[indices]": lambda: ORDERED[[3, 1, -1]],
    "gather": lambda: sk.gather(ORDERED, [3, 1, -1]),
    "shard[:3]": lambda: sk.shard(ORDERED, 1, 2)[:3],
    "head[:4]": lambda: ORDERED.head(8)[:4],
    "[:8].head": lambda: ORDERED[:8].head(4),
    "[:8][2:4]": lambda: ORDERED[:8][2:4],
    "batch": lambda: sk.batch(ORDERED, 3)[1:3],
    "window": lambda: sk.window(ORDERED, 3)[1:3],
    "flatten": lambda: sk.flatten(GROUPS)[3:9],
    "unbatch": lambda: sk.unbatch(GROUPS, 2, 0)[3:9],
    "interleave": lambda: sk.interleave(ORDERED, OTHER)[3:9],
    "mix": lambda: sk.mix([ORDERED, OTHER], seed=2)[3:9],
    "cycle": lambda: sk.cycle(ORDERED)[3:30],
    "[5:] of cycle": lambda: sk.cycle(ORDERED)[5:].head(20),
    "shuffle_groups": lambda: sk.shuffle_groups(range(12), 3, seed=0)[2:7],
    "epochs": lambda: sk.epochs(ORDERED, 3)[6:18],
    "collate": lambda: sk.collate([ORDERED, OTHER])[2:7],
    "prefetch": lambda: sk.prefetch(ORDERED, 0)[2:7],
    "shuffle of a shuffle": lambda: sk.shuffle(ORDERED, seed=5)[:4],
    "concatenate": lambda: sk.concatenate([ORDERED[:5], ORDERED[5:]]),
    "shard of a part": lambda: sk.shard(ORDERED[:8], 0, 2),
    "add_cache": lambda: sk.add_cache(ORDERED[:8], 8),
    "filter": lambda: sk.filter(is_even, ORDERED)[:3],
    "gather by a view [:8]": lambda: sk.gather(range(100, 112), ORDERED)[:8],
    "split": lambda: sk.split(ORDERED, [8])[0],
    "random_split": lambda: sk.random_split(ORDERED, [8, 4], seed=0)[0],
    "smap of a part": lambda: sk.smap(abs, ORDERED[:8]),
    "loader.view": lambda: sk.DataLoader(ORDERED, 3).view[1:3],
}


def readings(view: Any) -> list[Any]:
    """Return the items of epochs 0 to 2, read by iteration and by index, also of a pickled view."""
    found = [list(view.at_epoch(epoch)) for epoch in range(3)]
    pickled = pickle.loads(cloudpickle.dumps(view))
    assert repr([list(pickled.at_epoch(epoch)) for epoch in range(3)]) == repr(found)
    for epoch in range(3):
        later = pickle.loads(cloudpickle.dumps(view.at_epoch(epoch)))
        assert repr(list(later)) == repr(found[epoch])
        assert repr([later[i] for i in range(len(found[epoch]))]) == repr(found[epoch])
    assert repr(list(view.at_epoch(5).at_epoch(1))) == repr(found[1])
    return [repr(items) for items in found]


@pytest.mark.parametrize("name", KEPT)
def test_a_selection_keeps_the_orders_below(name: str) -> None:
    view = KEPT[name]()
    assert not view._varies & ORDER
    assert readings(view) == [repr(list(view))] * 3


def test_the_items_selected_from_an_epoch_are_those_of_that_epoch() -> None:
    for epoch in range(3):
        wanted = list(ORDERED.at_epoch(epoch))[2:7]
        assert readings(ORDERED.at_epoch(epoch)[2:7]) == [repr(wanted)] * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: ORDERED.head(8),
        lambda: ORDERED.skip(4),
        lambda: sk.shard(ORDERED, 0, 2),
        lambda: sk.batch(ORDERED, 4),
        lambda: sk.gather(range(100, 112), ORDERED),
        lambda: sk.gather(ORDERED[:12], OTHER),
        lambda: sk.filter(is_even, ORDERED),
        lambda: samplers.RandomSampler(range(12), num_samples=5, seed=0).order,
        lambda: samplers.RandomSampler(range(12), num_samples=15, seed=0).order,
        lambda: WEIGHTED[:4],
        lambda: sk.filter(lambda x: x[1] % 2, DRAWN).head(4),
    ],
)
def test_what_selects_nothing_by_name_follows(make: Callable[[], Any]) -> None:
    assert len(set(readings(make()))) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: sk.shuffle(ORDERED[:8], seed=9),
        lambda: sk.epochs(sk.shuffle(ORDERED[:8], seed=9), 1),
        lambda: sk.unbatch(sk.DataLoader(ORDERED[:8], 2, shuffle=True, seed=1).view, 2, 0),
    ],
)
def test_a_selection_can_be_shuffled_again(make: Callable[[], Any]) -> None:
    view = make()
    assert len(set(readings(view))) == 3
    assert {repr(sorted(map(int, view.at_epoch(epoch)))) for epoch in range(3)} == {repr(sorted(FIRST))}


@pytest.mark.parametrize(
    "make",
    [
        lambda: sk.random_map(jitter, ORDERED, seed=3)[:8],
        lambda: sk.random_map(jitter, ORDERED[:8], seed=3),
        lambda: sk.epochs(sk.random_map(jitter, ORDERED, seed=3), 3)[6:18],
        lambda: sk.prefetch(sk.random_map(jitter, ORDERED, seed=3), 2, "process")[:6],
        lambda: sk.add_cache(sk.random_map(jitter, ORDERED, seed=3), 12)[:6],
    ],
)
def test_items_are_kept_and_their_draws_follow(make: Callable[[], Any]) -> None:
    view = make()
    epochs = [list(view.at_epoch(epoch)) for epoch in range(3)]
    assert len({repr(items) for items in epochs}) == 3
    assert len({repr([x for x, _ in items]) for items in epochs}) == 1
    assert view._varies == DRAWS
    assert len(set(readings(view))) == 3


def test_a_slice_of_a_node_keeps_its_workers() -> None:
    with sk.prefetch(sk.random_map(jitter, ORDERED, seed=3), 2, "process") as node:
        expected = sk.random_map(jitter, ORDERED, seed=3)
        for epoch in (0, 2, 1):
            assert list(node[:6].at_epoch(epoch)) == list(expected[:6].at_epoch(epoch))
            assert list(node.at_epoch(epoch)) == list(expected.at_epoch(epoch))
            later = node.at_epoch(2)[:6].at_epoch(epoch)
            assert list(later) == list(expected.at_epoch(2)[:6].at_epoch(epoch))
            assert later._sources[0].engine is node.engine


def test_train_and_test_never_mix() -> None:
    train, test = ORDERED[:8], ORDERED[8:]
    for epoch in range(3):
        assert sorted([*train.at_epoch(epoch), *test.at_epoch(2 - epoch)]) == list(range(12))


def test_several_passes_of_a_kept_order_are_refused() -> None:
    for n in (2, None):
        with pytest.raises(ValueError, match="epochs: all passes would be equal"):
            sk.epochs(ORDERED[:8], n)
    assert list(sk.epochs(ORDERED[:8], 1)) == FIRST


def test_repr_tells_a_selection_from_a_head() -> None:
    assert repr(ORDERED[:8]) == "gather(shuffle(<range of 12>, seed=0), range(0, 8))"
    assert repr(ORDERED.head(8)) != repr(ORDERED[:8])


def test_fingerprints_contain_the_epoch_of_kept_orders() -> None:
    for make in (lambda e: ORDERED.at_epoch(e)[:8], lambda e: sk.epochs(ORDERED, 2).at_epoch(e)[3:9]):
        digests = [order_digest(make(epoch)) for epoch in range(3)]
        assert len(set(digests)) == 3
        assert [order_digest(make(0).at_epoch(epoch)) for epoch in range(3)] == [digests[0]] * 3
    assert order_digest(ORDERED.at_epoch(1).head(8)) == order_digest(ORDERED.head(8))


def test_a_selection_costs_nothing() -> None:
    part = sk.shuffle(range(10**12), seed=0)[: 10**11]
    assert part.at_epoch(1) is part
    assert len(part) == 10**11


class Rotated(sk.View[Any]):
    """An order that a user has written: epoch e begins at item e."""

    _varies = ORDER

    def __init__(self, source: Any, epoch: int = 0) -> None:
        super().__init__((source,))
        self.epoch = epoch

    def _get(self, i: int) -> Any:
        return self._sources[0]._get((i + self.epoch) % self._n)

    def _rebuild(self, sources: Any) -> Any:
        return Rotated(*sources, self.epoch)

    def _keyed(self, sources: Any, epoch: EpochPair) -> Any:
        return Rotated(*sources, self.epoch if epoch.order is None else epoch.order)


def test_views_of_users_declare_what_varies() -> None:
    view = Rotated(sk.view("abcd"))
    assert ["".join(view.at_epoch(epoch)) for epoch in range(3)] == ["abcd", "bcda", "cdab"]
    assert readings(view[:2]) == [repr(["a", "b"])] * 3
    assert readings(view.at_epoch(2)[:2]) == [repr(["c", "d"])] * 3


def test_an_epoch_is_one_number_for_workers() -> None:
    for epoch in (
        AS_IT_STANDS,
        EpochPair(0, 0),
        EpochPair(7, 7),
        EpochPair(None, 0),
        EpochPair(None, 7),
        EpochPair(2, 7),
        EpochPair(0, 7),
    ):
        assert EpochPair.of(epoch.number) == epoch
    assert at_epoch(ORDERED, AS_IT_STANDS) is ORDERED
    assert EpochPair(4, 4).number == 4
