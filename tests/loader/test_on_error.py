"""Samples that fail: with transforms, samplers, shards, and under either error policy."""

from __future__ import annotations

from typing import Any

import pytest

import seqkit as sk

from .ways import WAYS

every_way = pytest.mark.parametrize("way", WAYS[:3])
every_policy = pytest.mark.parametrize("policy", ["wrap", "passthrough"])


def fragile(i: int) -> int:
    if i in (1, 4):
        raise ValueError(f"sample {i} is broken")
    return i


def plain(batches: Any) -> Any:
    return [plain(batch) if isinstance(batch, list) else batch.tolist() for batch in batches]


BROKEN = [(1, "ValueError: sample 1 is broken"), (4, "ValueError: sample 4 is broken")]


@every_way
@every_policy
@pytest.mark.parametrize(
    "order",
    [{"batch_size": 2}, {"batch_size": 2, "sampler": range(6)}, {"batch_sampler": [[0, 1], [2, 3], [4, 5]]}],
    ids=["view", "sampler", "batch_sampler"],
)
@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("skip", [[0], [2, 3], [5]]),
        ("replace", [[0, 2], [2, 3], [5, 5]]),
        (lambda error: -error.index, [[0, -1], [2, 3], [-4, 5]]),
    ],
    ids=["skip", "replace", "function"],
)
def test_a_transform_may_fail(way: Any, policy: Any, order: Any, on_error: Any, expected: Any) -> None:
    with (
        sk.errstate(policy),
        sk.DataLoader(range(6), transform=fragile, on_error=on_error, **order, **way) as loader,
    ):
        assert plain(loader) == expected
        assert loader.failed == BROKEN


def refuse(row: Any) -> Any:
    raise ValueError("bad header")


@every_way
@every_policy
def test_shards_lose_their_failed_samples_and_no_more(way: Any, policy: Any) -> None:
    shards = [[[0, 1], [2]], [[1], [4]], [[4], [5, 3]]]
    options: Any = {"batch_sampler": shards, "transform": fragile, "on_error": "skip"}
    with sk.errstate(policy), sk.DataLoader(range(6), **options, **way) as loader:
        assert plain(loader) == [[[0], [2]], [[5, 3]]]
        assert [key for key, _ in loader.failed] == [1, 1, 4, 4]


@every_way
def test_an_error_names_the_sample_in_a_short_text(way: Any) -> None:
    options: Any = {"sampler": range(4096), "transform": fragile}
    with sk.DataLoader(range(4096), 4096, **options, **way) as loader:
        with pytest.raises(sk.EvaluationError, match=r"smap\[1\] failed: ValueError") as caught:
            list(loader)
        assert caught.value.index == 1
        assert "collate_fn" not in str(caught.value)
        assert len(str(caught.value)) < 600
