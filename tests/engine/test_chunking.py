"""How many items a job has, and how many chunks are pending, for items of a given cost."""

from __future__ import annotations

from itertools import pairwise

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


def test_chunks_hold_a_measured_amount_of_work_and_bytes() -> None:
    for item_ns, item_bytes, size in [
        (2 * TARGET_NS, 0, 1),
        (2 * TARGET_NS // 10, 0, 10),
        (2 * TARGET_NS // 100, 100, 100),
        (2 * TARGET_NS // 100, None, 100),
        (100, CHUNK_BYTES // 50, 50),
        (100, 10 * CHUNK_BYTES, 1),
        (0, 0, MAX_CHUNK),
    ]:
        assert settled(Chunking(2, None), item_ns, item_bytes)[-1] == size
    assert set(settled(Chunking(2, None, fixed=7), 1)) == {7}
    limited = Chunking(2, None)
    limited.limit(99)  # by the backend
    assert settled(limited, 1)[-1] == 99


def test_chunks_grow_step_by_step_and_shrink_at_once() -> None:
    chunking = Chunking(2, None)
    sizes = settled(chunking, 1)
    assert sizes[0] == 1
    assert max(later / size for size, later in pairwise(sizes)) <= 8
    assert settled(chunking, 10**10, results=1)[-1] == 1


def test_a_large_item_keeps_chunks_small_for_a_while() -> None:
    chunking = Chunking(2, None)
    settled(chunking, 1)
    chunking.measure(1, CHUNK_BYTES // 4, 1)
    assert settled(chunking, 1, results=4) == [4, 8, 16, 32, 64]


def test_one_slow_result_counts_half_and_a_result_without_items_not_at_all() -> None:
    chunking = Chunking(2, None)
    settled(chunking, TARGET_NS // 50)
    chunking.measure(10**9, 0, 0)
    assert chunking.size == 100
    chunking.measure(3 * TARGET_NS // 50, 0, 1)
    assert chunking.size == 50


def test_with_more_workers_a_chunk_takes_longer_up_to_a_limit() -> None:
    for workers, target_ns, chunk_ns in [
        (1, TARGET_NS, TARGET_NS),
        (4, TARGET_NS, 4 * TARGET_NS),
        (99, TARGET_NS, LONGEST_NS),
        (99, 3 * LONGEST_NS, 3 * LONGEST_NS),
    ]:
        assert Chunking(workers, None, None, target_ns).chunk_ns == chunk_ns


def test_a_bound_on_items_bounds_chunks_too() -> None:
    for most in (1, 4, 10, 100):  # a chunk in work and one waiting, for each of two workers
        assert settled(Chunking(2, most), 1)[-1] == max(1, most // 4)


def test_jobs_for_nodes_below_are_long_except_near_the_end_and_in_little_memory() -> None:
    chunking = Chunking(2, None, least=64)
    assert settled(chunking, 10**9)[-1] == 64
    assert [chunking.size_near_end(left) for left in (None, 10**6, 100, 10, 0)] == [64, 64, 25, 16, 16]
    assert settled(chunking, 10**9, AHEAD_BYTES // 60)[-1] == 30  # with two workers
    assert Chunking(2, 32, least=64).size == 16
    assert settled(Chunking(2, None), 1)[-1] == Chunking(2, None, 4096).size_near_end(1)


def test_how_many_chunks_are_pending_depends_on_their_bytes() -> None:
    cases: list[tuple[int | None, int | None, int]] = [
        (None, 0, MAX_DEPTH),  # small results wait in numbers, so that a slow one does not delay the workers
        (None, SMALL_AHEAD_BYTES // 10, 10),
        (None, SMALL_AHEAD_BYTES, 6),
        (None, None, 6),
        (None, AHEAD_BYTES // 3, 3),
        (None, AHEAD_BYTES, 2),  # one for each worker
        (4, 0, 4),  # as the user says
        (4, AHEAD_BYTES, 4),
    ]
    for max_buffered, nbytes, depth in cases:
        chunking = Chunking(2, max_buffered, fixed=1)
        assert chunking.depth == (max_buffered or 6)
        for _ in range(2):
            chunking.measure(1, nbytes, 1)
            assert chunking.depth == depth


def test_at_first_every_worker_may_have_one_chunk_and_one_waiting() -> None:
    given = [(None, 1), (None, 8), (None, 500), (3, 8), (9999, 8), (9999, 500)]
    assert [chunk_depth(*each) for each in given] == [4, 18, 1000, 3, 256, 1000]
