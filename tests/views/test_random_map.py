"""`random_map`: chance that does not depend on who evaluates, or when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import seqkit as sk

from ..helpers import FailsAt, Naturals, agree_after_errors
from ..registry import flat


def draw(x: Any, rng: np.random.Generator) -> tuple[Any, int]:
    return x, int(rng.bit_generator.random_raw())


def draws(view: sk.View[Any]) -> list[int]:
    return [drawn for _, drawn in view]


def test_draws_never_change_between_versions() -> None:
    view = sk.random_map(draw, range(10**12), seed=0)
    assert [view[i][1] for i in (0, 1, 10**11)] == [
        8857244308073570399,
        13983253120612693015,
        2307639108313434356,
    ]
    assert [view.at_epoch(1)[i][1] for i in (0, 1)] == [6240992791467296565, 18338790876158114339]


def test_an_item_draws_the_same_however_it_is_read() -> None:
    view = sk.random_map(draw, range(20), seed=1)
    wanted = [view[i] for i in range(20)]
    assert list(view) == wanted
    assert list(view[::-3]) == wanted[::-3]
    assert view.__getitems__([3, 3, 0]) == [wanted[3], wanted[3], wanted[0]]
    assert flat(sk.batch(view, 3)) == wanted
    assert list(sk.prefetch(view, 2)) == wanted


def test_items_epochs_seeds_and_places_draw_differently() -> None:
    views = [sk.random_map(draw, range(50), seed=seed).at_epoch(epoch) for seed in (0, 1) for epoch in (0, 1)]
    views.append(sk.random_map(draw, sk.shuffle(range(50), seed=0), seed=0))
    views.append(sk.random_map(draw, range(50), seed=0, name="a"))
    seen = [drawn for view in views for drawn in draws(view)]
    assert len(set(seen)) == len(seen) == 300


def test_a_map_and_a_shuffle_of_one_seed_have_nothing_in_common() -> None:
    assert sk.random_map(draw, [0], seed=0)._key != sk.shuffle([0], seed=0)._permutation.key  # type: ignore[attr-defined]


def test_views_without_randomness_do_not_change_the_draws() -> None:
    plain = sk.random_map(draw, range(10), seed=0)
    staged = sk.random_map(draw, sk.smap(str, sk.concatenate([range(4), range(6)])), seed=0)
    assert draws(plain) == draws(staged)


def test_a_slice_below_moves_the_draws_and_a_slice_above_does_not() -> None:
    view = sk.random_map(draw, range(10), seed=0)
    assert draws(view[2:]) == draws(view)[2:]
    assert draws(sk.random_map(draw, sk.view(range(10))[2:], seed=0)) == draws(view)[:8]


def test_seed_none_draws_a_seed_once_and_keeps_it() -> None:
    view = sk.random_map(draw, range(5))
    assert list(view) == list(view)
    assert list(view) != list(sk.random_map(draw, range(5)))


def test_a_map_within_a_map_draws_its_own_numbers() -> None:
    inner = sk.random_map(draw, range(5), seed=1)

    def outer(x: int, rng: np.random.Generator) -> tuple[int, int, int]:
        before = int(rng.integers(1 << 60))
        return before, inner[x][1], int(rng.integers(1 << 60))

    def alone(x: int, rng: np.random.Generator) -> tuple[int, int]:
        return int(rng.integers(1 << 60)), int(rng.integers(1 << 60))

    nested = list(sk.random_map(outer, range(5), seed=0))
    assert [item[1] for item in nested] == draws(inner)
    assert [item[::2] for item in nested] == list(sk.random_map(alone, range(5), seed=0))


def test_a_generator_that_an_item_keeps_goes_on_by_itself() -> None:
    kept = list(sk.random_map(lambda x, rng: rng, range(3), seed=0))
    numbers = list(sk.random_map(lambda x, rng: rng.random(), range(3), seed=0))
    assert [rng.random() for rng in kept] == numbers


def test_generators_of_items_are_uniform_together() -> None:
    view = sk.random_map(lambda x, rng: rng.random(4), range(20_000), seed=0)
    numbers = np.array(list(view))
    counts = np.histogramdd(numbers[:, :2], 20, [(0, 1), (0, 1)])[0].ravel()
    assert 0.85 < ((counts - 50) ** 2 / 50).sum() / 399 < 1.15
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.02


def test_each_failing_item_fails_alone() -> None:
    for bad in ([0], [1, 2], [0, 1, 2, 3]):
        view = sk.random_map(FailsAt(*bad, error=StopIteration), sk.smap(FailsAt(3), range(4)), seed=0)
        for i, item in enumerate(agree_after_errors(view)):
            assert item == i if i not in [*bad, 3] else item.kind is sk.EvaluationError


def test_an_unbounded_sequence_is_mapped_without_end() -> None:
    view = sk.random_map(draw, Naturals(), seed=0)
    assert view[10**9][0] == 10**9
    assert list(view[5:7]) == [view[5], view[6]]


@pytest.mark.parametrize("index", [0, 1, 2**32, 2**63 - 2])
def test_every_index_has_a_stream_of_its_own(index: int) -> None:
    view = sk.random_map(draw, Naturals(), seed=0)
    neighbours = {view[i][1] for i in range(max(0, index - 3), index + 4)}
    assert len(neighbours) == len(range(max(0, index - 3), index + 4))
