"""The block of a job: indices come back as they went in, and its header tells whose it is."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqkit.engine.processes.block import (
    HEADER_WORDS,
    JobBlock,
    Packing,
    from_file,
    most_items,
    pack,
    to_file,
    unpack,
)
from seqkit.engine.protocol import Unsendable

from .traces import descriptors

MARK = 0xAB


def a_block(size: int = 4096) -> tuple[JobBlock, Any]:
    """Return a block, and its memory."""
    memory = np.full(size, MARK, np.uint8)
    return JobBlock(memory), memory


def travel(indices: Any, block: JobBlock | None = None) -> tuple[int, Any]:
    """Send indices to a worker; return their packing, and what the worker gets."""
    block = block or a_block()[0]
    packed = pack(indices, block)
    try:
        return packed[0], unpack(block, *packed, parent=os.getpid())
    finally:
        if packed[0] == Packing.FILE:
            os.close(packed[3])


@contextmanager
def a_file(*parts: bytes | memoryview) -> Iterator[int]:
    fd = to_file(parts)
    try:
        yield fd
    finally:
        os.close(fd)


# -------------------------------------------------------------------- indices

huge = st.integers(-(2**70), 2**70)
words = st.integers(-(2**63) + 1, 2**63 - 1)


@given(st.builds(range, words, words, words.filter(bool)))
def test_a_range_travels_in_the_record(indices: range) -> None:
    packing, found = travel(indices)
    assert packing == Packing.RANGE
    assert (found.start, found.stop, found.step) == (indices.start, indices.stop, indices.step)


@pytest.mark.parametrize("bound", [2**63 - 1, 2**63, -(2**63) + 1, -(2**63), 2**64])
def test_ranges_at_the_bounds_of_a_word_travel(bound: int) -> None:
    for indices in range(bound, bound + 3), range(0, bound, bound // 2), range(0, 2 * bound, bound):
        assert list(travel(indices)[1]) == list(indices)


@given(st.lists(huge, max_size=50))
def test_a_list_of_ints_stays_a_list(indices: list[int]) -> None:
    packing, found = travel(indices)
    assert found == indices
    assert set(map(type, found)) <= {int}
    assert packing == Packing.PICKLE


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "<i4", ">i4", "u4", "i8", ">i8", "u8", ">u8"])
def test_integer_arrays_of_every_dtype_become_their_ints(dtype: str) -> None:
    info = np.iinfo(dtype)
    indices = np.array([info.min, 0, 1, info.max], dtype)
    for array in (indices, indices[::-2], np.asfortranarray(indices), indices[:0]):
        found = travel(array)[1]
        assert found == array.tolist()
        assert set(map(type, found)) <= {int}


@pytest.mark.parametrize(
    "indices",
    [
        [True, False],
        [1, True],
        np.array([True, False]),
        ["a", "b"],
        np.array(["a", "b"]),
        np.array([0.5, 2.0]),
        [("a", 1), ("b", 2)],
        [[3, 1], [2]],
        [None, 1, "x", b"y", 2.5],
        [[{"key": (1, 2)}]],
        [frozenset({1})],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [4096, 64], ids=["cell", "file"])
def test_keys_of_any_kind_come_back_as_they_are(indices: Any, size: int) -> None:
    packing, found = travel(indices, a_block(size)[0])
    assert packing == (Packing.PICKLE if size > 64 else Packing.FILE)
    assert repr(found) == repr(indices.tolist() if isinstance(indices, np.ndarray) else indices)


keys = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=4) | st.floats() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)


@settings(deadline=None, max_examples=30)
@given(st.lists(keys, max_size=20), st.sampled_from([64, 128, 256, 4096]))
def test_lists_of_nested_keys_come_back_as_they_are_whatever_room_there_is(
    indices: list[Any], size: int
) -> None:
    assert repr(travel(indices, a_block(size)[0])[1]) == repr(indices)


@pytest.mark.parametrize("indices", [np.arange(9000, dtype="u2"), list(range(9000)), ["k" * 70_000]], ids=len)
def test_indices_beyond_a_block_travel_in_a_file_and_numbers_are_ints(indices: Any) -> None:
    block, memory = a_block()
    packing, found = travel(indices, block)
    assert packing == Packing.FILE
    assert repr(found) == repr(indices if isinstance(indices, list) else indices.tolist())
    assert (memory == MARK).all()


def test_indices_fill_a_block_to_its_last_byte_and_no_further() -> None:
    indices = [2**50 + i for i in range(6)]
    nbytes = len(pickle.dumps(indices[:5], protocol=5))
    block, memory = a_block(-(-(64 + nbytes) // 8) * 8)
    assert travel(indices[:5], block) == (Packing.PICKLE, indices[:5])
    assert (memory[: 8 * HEADER_WORDS] == MARK).all()
    assert travel(indices, block) == (Packing.FILE, indices)
    assert travel([3], block) == (Packing.PICKLE, [3])


def test_keys_that_cannot_be_pickled_are_refused() -> None:
    with pytest.raises(Unsendable) as info:
        travel([Lock()])
    assert isinstance(info.value.reason, TypeError)


def test_keys_travel_by_value_where_another_process_lacks_their_class() -> None:
    (found,) = travel([lambda: 7])[1]
    assert found() == 7


# -------------------------------------------------------------------- files


def test_a_file_has_its_parts_in_order_whatever_they_are() -> None:
    words = np.arange(6, dtype="u2").reshape(2, 3)
    with a_file(b"ab", memoryview(words), b"", memoryview(b"cd")) as fd:
        assert from_file(os.getpid(), fd, 16).tobytes() == b"ab" + words.tobytes() + b"cd"


def test_a_file_becomes_writable_memory_that_outlives_its_descriptor() -> None:
    with a_file(b"abc") as fd:
        ours, again = (from_file(os.getpid(), fd, 3) for _ in range(2))
    ours[0] = ord("x")
    assert (ours.tobytes(), again.tobytes()) == (b"xbc", b"abc")
    with pytest.raises(FileNotFoundError):
        from_file(os.getpid(), fd, 3)


def test_the_file_of_a_dead_process_is_not_found() -> None:
    with a_file(b"abc") as fd:
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        with pytest.raises(FileNotFoundError):
            from_file(pid, fd, 3)


def test_a_file_that_cannot_be_written_leaves_no_descriptor() -> None:
    before = descriptors()
    with pytest.raises(TypeError):
        to_file([b"abc", None])  # type: ignore[list-item]
    assert descriptors() == before


# -------------------------------------------------------------------- the header


def test_cancelling_a_job_late_leaves_the_next_job_of_its_block_alone() -> None:
    block, _ = a_block()
    block.assign(7)
    block.cancel(7)
    assert not block.belongs_to(7)
    block.assign(8)
    block.cancel(7)
    assert block.belongs_to(8)


def test_a_block_belongs_to_one_job_until_it_is_revoked_or_another_has_it() -> None:
    block, _ = a_block()
    block.assign(7)
    assert block.belongs_to(7)
    block.assign(8)
    assert not block.belongs_to(7)
    block.revoke()
    assert not block.belongs_to(8)


def test_a_result_was_read_when_the_parent_says_so_and_not_when_its_job_is_revoked() -> None:
    block, memory = a_block()
    memory[:] = 0
    block.assign(7)
    assert not block.was_read(7)
    block.revoke()
    assert not block.was_read(7)
    block.mark_read(7)
    block.revoke()
    assert block.was_read(7)
    block.assign(9)
    assert (block.was_read(7), block.was_read(9)) == (True, False)


def test_a_new_job_finds_nothing_of_the_last_one_and_a_revoked_one_keeps_its_items() -> None:
    block, _ = a_block()
    block.words[1:4] = memoryview(np.full(3, 3))
    block.revoke()
    assert (block.finished(), block.used()) == (3, 3)
    block.assign(9)
    assert block.words[1:4].tolist() == [0] * 3


@pytest.mark.parametrize("pages", [1, 2, 64])
def test_at_most_half_of_a_block_is_its_table(pages: int) -> None:
    assert 16 * most_items(pages * 4096) * 2 == pages * 4096
