"""How many items a job has, and how many chunks are pending, for items of a given cost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from seqkit.engine.chunking import (
    AHEAD_BYTES,
    CHUNK_BYTES,
    LONGEST_NS,
    MAX_CHUNK,
    MAX_DEPTH,
    SMALL_AHEAD_BYTES,
    TARGET_NS,
    Chunking,
    chunk_depth,
)


def settled(chunking: Chunking, item_ns: int, item_bytes: int | None = 0, results: int = 50) -> list[int]:
    """Measure results of items of a constant cost; return all sizes of chunks on the way."""
    sizes = [chunking.size]
    for _ in range(results):
        size = chunking.size
        chunking.measure(item_ns * size, None if item_bytes is None else item_bytes * size, size)
        sizes.append(chunking.size)
    return sizes


@pytest.mark.parametrize(
    ("item_ns", "item_bytes", "size"),
    [
        (2 * TARGET_NS, 0, 1),
        (2 * TARGET_NS // 10, 0, 10),
        (2 * TARGET_NS // 100, 100, 100),
        (2 * TARGET_NS // 100, None, 100),
        (100, CHUNK_BYTES // 50, 50),
        (100, 10 * CHUNK_BYTES, 1),
        (1, 0, MAX_CHUNK),
        (0, 0, MAX_CHUNK),
    ],
)
def test_chunks_hold_a_measured_amount_of_work_and_bytes(
    item_ns: int, item_bytes: int | None, size: int
) -> None:
    assert settled(Chunking(2, None), item_ns, item_bytes)[-1] == size


def test_the_first_chunk_is_a_single_item() -> None:
    assert Chunking(2, None).size == 1


def test_chunks_grow_step_by_step_and_shrink_at_once() -> None:
    chunking = Chunking(2, None)
    assert max(later / size for size, later in pairwise(settled(chunking, 1))) <= 8
    assert settled(chunking, 10**10, results=1)[-1] == 1


def test_a_large_item_keeps_chunks_small_for_a_while() -> None:
    chunking = Chunking(2, None)
    settled(chunking, 1)
    chunking.measure(1, CHUNK_BYTES // 4, 1)
    assert settled(chunking, 1, results=4) == [4, 8, 16, 32, 64]


def test_a_result_without_items_does_not_change_the_estimated_cost() -> None:
    chunking = Chunking(2, None)
    settled(chunking, TARGET_NS // 50)
    chunking.measure(10**9, 0, 0)
    assert chunking.size == 100


@pytest.mark.parametrize(
    ("workers", "target_ns", "chunk_ns"),
    [
        (1, TARGET_NS, TARGET_NS),
        (4, TARGET_NS, 4 * TARGET_NS),
        (99, TARGET_NS, LONGEST_NS),
        (99, 3 * LONGEST_NS, 3 * LONGEST_NS),
    ],
)
def test_with_more_workers_a_chunk_takes_longer_up_to_a_limit(
    workers: int, target_ns: int, chunk_ns: int
) -> None:
    assert Chunking(workers, None, None, target_ns).chunk_ns == chunk_ns


def test_a_fixed_size_stays() -> None:
    assert set(settled(Chunking(2, None, fixed=7), 1)) == {7}


@pytest.mark.parametrize("max_buffered", [1, 4, 10, 100])
def test_a_bound_on_items_bounds_chunks_too(max_buffered: int) -> None:
    size = settled(Chunking(2, max_buffered), 1)[-1]
    assert size == max(1, max_buffered // 4)  # a chunk in work and one waiting, for each of two workers


@pytest.mark.parametrize(
    ("options", "nbytes", "depth"),
    [
        ({}, 0, MAX_DEPTH),  # small results wait in numbers, that a slow one does not hold the workers up
        ({}, SMALL_AHEAD_BYTES // 10, 10),
        ({}, SMALL_AHEAD_BYTES, 6),
        ({}, None, 6),
        ({}, AHEAD_BYTES // 3, 3),
        ({}, AHEAD_BYTES, 2),  # one for each worker
        ({"max_buffered": 4}, 0, 4),  # as the user says
        ({"max_buffered": 4}, AHEAD_BYTES, 4),
    ],
)
def test_how_many_chunks_are_pending_depends_on_their_bytes(
    options: dict[str, Any], nbytes: int | None, depth: int
) -> None:
    chunking = Chunking(**({"workers": 2, "max_buffered": None, "fixed": 1} | options))
    assert chunking.depth == options.get("max_buffered", 6)
    for _ in range(2):
        chunking.measure(1, nbytes, 1)
        assert chunking.depth == depth


@pytest.mark.parametrize(
    ("max_buffered", "workers", "depth"),
    [(None, 1, 4), (None, 8, 18), (None, 500, 1000), (3, 8, 3), (9999, 8, 256), (9999, 500, 1000)],
)
def test_at_first_every_worker_may_have_one_chunk_and_one_waiting(
    max_buffered: int | None, workers: int, depth: int
) -> None:
    assert chunk_depth(max_buffered, workers) == depth
