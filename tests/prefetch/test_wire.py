"""What parent and workers agree on: indices come back as they went in, and nothing overlaps."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqkit.prefetch.processes.segment import PAGE, Segment
from seqkit.prefetch.processes.wire import (
    CELL_BYTES,
    HEADER_WORDS,
    JOB,
    LEAST_CELL_BYTES,
    RESULT,
    Cell,
    Control,
    Layout,
    Packing,
    cells_of,
    fits_record,
    from_file,
    pack,
    to_file,
)
from seqkit.prefetch.processes.worker import Worker
from seqkit.prefetch.protocol import Unsendable

from .traces import descriptors

MARK = 0xAB


def a_cell(size: int = 4096) -> tuple[Cell, Any]:
    """Return a cell, and its memory."""
    block = np.full(size, MARK, np.uint8)
    return Cell(block), block


def travel(indices: Any, cell: Cell | None = None) -> tuple[int, Any]:
    """Send indices to a worker; return their packing, and what the worker gets."""
    cell = cell or a_cell()[0]
    worker: Any = SimpleNamespace(spec=SimpleNamespace(parent=os.getpid()))
    if fits_record(indices):
        record = JOB.pack(1, 0, -1, 0, Packing.RANGE, indices.start, indices.stop, indices.step, -1, 0)
        return Packing.RANGE, Worker._indices(worker, cell, *JOB.unpack(record)[4:8])
    packed = pack(indices, cell.indices())
    if isinstance(packed, tuple):
        return packed[0], Worker._indices(worker, cell, *packed, 0, 0)
    with a_file(packed) as fd:
        return Packing.FILE, Worker._indices(worker, cell, Packing.FILE, len(packed), fd, 0)


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
    fits = bool(indices) and all(-(2**63) <= i < 2**63 for i in indices)
    assert (packing == Packing.ARRAY) == fits


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
    packing, found = travel(indices, a_cell(size)[0])
    assert packing == (Packing.PICKLE if size > 64 else Packing.FILE)
    assert repr(found) == repr(indices.tolist() if isinstance(indices, np.ndarray) else indices)


keys = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=4) | st.floats() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.lists(keys, max_size=20), st.sampled_from([64, 128, 256, 4096]))
def test_lists_of_nested_keys_come_back_as_they_are_whatever_room_there_is(
    indices: list[Any], size: int
) -> None:
    assert repr(travel(indices, a_cell(size)[0])[1]) == repr(indices)


@pytest.mark.parametrize("indices", [np.arange(9000, dtype="u2"), list(range(9000)), ["k" * 70_000]], ids=len)
def test_indices_beyond_a_cell_travel_in_a_file_and_numbers_are_ints(indices: Any) -> None:
    cell, block = a_cell()
    packing, found = travel(indices, cell)
    assert packing == Packing.FILE
    assert repr(found) == repr(indices if isinstance(indices, list) else indices.tolist())
    assert (block == MARK).all()


def test_indices_fill_a_cell_to_its_last_byte_and_no_further() -> None:
    cell, block = a_cell(64 + 8 * 5)
    indices = [2**50 + i for i in range(6)]
    assert travel(indices[:5], cell) == (Packing.ARRAY, indices[:5])
    assert (block[: 8 * HEADER_WORDS] == MARK).all()
    assert travel(indices, cell) == (Packing.FILE, indices)
    assert block[64:].view(np.int64).tolist() == indices[:5]
    assert travel([3], cell) == (Packing.ARRAY, [3])
    assert block[72:].view(np.int64).tolist() == indices[1:5]


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


# -------------------------------------------------------------------- records and cells


@pytest.mark.parametrize("record", [JOB, RESULT])
def test_records_are_written_and_read_in_one_piece(record: Any) -> None:
    assert record.size <= select.PIPE_BUF
    assert record.size % 8 == 0


def test_cancelling_a_job_late_leaves_the_next_job_of_its_cell_alone() -> None:
    cell, _ = a_cell()
    cell.assign(7)
    cell.cancel(7)
    assert not cell.belongs_to(7)
    cell.assign(8)
    cell.cancel(7)
    assert cell.belongs_to(8)


def test_a_cell_belongs_to_one_job_until_it_is_revoked_or_another_has_it() -> None:
    cell, _ = a_cell()
    cell.assign(7)
    assert cell.belongs_to(7)
    cell.assign(8)
    assert not cell.belongs_to(7)
    cell.assign(0)
    assert not cell.belongs_to(8)


def test_a_job_is_over_when_its_result_was_read_and_not_when_it_is_cancelled() -> None:
    cell, block = a_cell()
    block[:] = 0
    for ticket in 7, 0:  # begun, and cancelled
        cell.assign(ticket)
        assert not cell.is_over(7)
    cell.let_go(7)
    for ticket in 0, 9:
        cell.assign(ticket)
        assert (cell.is_over(7), cell.is_over(9)) == (True, False)


def test_a_new_job_finds_nothing_of_the_last_one_and_a_cancelled_one_keeps_its_items() -> None:
    cell, _ = a_cell()
    for word in range(1, 5):
        cell.words[word] = 3
    cell.assign(0)
    assert cell.finished() == 3
    cell.assign(9)
    assert (cell.words[1:5].tolist(), cell.finished()) == ([0] * 4, 0)


@pytest.mark.parametrize("items", [1, 2, 127, 128, 129, 10_000])
def test_table_and_payload_share_a_cell_without_overlap(items: int) -> None:
    cell, block = a_cell(4096)
    most = cell.most_items(items)
    assert most == min(items, 4096 // 32)  # so that a payload is left
    payload = cell.payload(items)
    payload[:] = b"\0" * len(payload)
    table = HEADER_WORDS * 8 + 16 * most
    assert (block[:table] == MARK).all()
    assert len(payload) == 4096 - table > 0
    assert len(cell.table(0, most)) == 16 * most


def test_the_parent_reads_copies_of_what_is_used() -> None:
    cell, block = a_cell()
    cell.assign(1)
    cell.words[HEADER_WORDS : HEADER_WORDS + 4] = memoryview(np.arange(4))
    cell.payload(2)[:3], cell.words[4] = b"xyz", 3
    table, payload = cell.table(1, 2), cell.payload_bytes(2)
    block[:] = 0
    assert (np.frombuffer(table, np.int64).tolist(), payload) == ([2, 3], b"xyz")


# -------------------------------------------------------------------- the segment

layouts = st.builds(
    Layout,
    workers=st.integers(1, 70),
    cells=st.integers(1, 300),
    slots=st.integers(0, 300),
    slot_bytes=st.integers(1, 64).map(lambda pages: pages * PAGE),
)


@given(layouts)
def test_the_regions_of_a_layout_are_page_aligned_and_do_not_overlap(layout: Layout) -> None:
    assert layout.control_words * 8 <= layout.cells_at
    assert layout.cells_at + layout.cells * CELL_BYTES == layout.error_at(0)
    assert layout.error_at(layout.workers - 1) + LEAST_CELL_BYTES == layout.slots_at
    assert layout.slots_at + layout.slots * layout.slot_bytes == layout.size
    assert layout.cells_at % PAGE == layout.slots_at % PAGE == layout.size % PAGE == 0


def test_cells_do_not_overlap() -> None:
    layout = Layout(workers=1, cells=3, slots=1, slot_bytes=PAGE, cell_bytes=PAGE)
    segment = Segment.create(layout.size)
    for number, cell in enumerate(cells_of(segment, layout), 1):
        cell.words[:] = memoryview(np.full(PAGE // 8, number))
    found = segment.block(0, layout.size).view(np.int64).reshape(-1, PAGE // 8)
    assert found.min(axis=1).tolist()[:5] == found.max(axis=1).tolist()[:5] == [0, 1, 2, 3, 0]


LAYOUT = Layout(workers=3, cells=1, slots=5, slot_bytes=PAGE, cell_bytes=PAGE)


def controls() -> tuple[Control, Control, Any]:
    """Return the control words as parent and worker see them, and all of the segment."""
    segment = Segment.create(LAYOUT.size)
    return Control(segment, LAYOUT), Control(segment, LAYOUT), segment.block(0, LAYOUT.size).view(np.int64)


WRITES = {
    "close": lambda control: control.close(),
    **{f"claim {n}": lambda control, n=n: control.claim(n, 5, 77) for n in range(LAYOUT.workers)},
    **{f"count {n}": lambda control, n=n: control.count(n) for n in range(LAYOUT.workers)},
}


def test_control_words_do_not_touch_one_another_and_stay_in_their_region() -> None:
    written: list[int] = []
    for write in WRITES.values():
        control, _, words = controls()
        write(control)
        written += words.nonzero()[0].tolist()
    assert len(set(written)) == len(written) == 1 + 3 * LAYOUT.workers
    assert max(written) < LAYOUT.control_words


def test_the_words_of_two_workers_are_in_different_cache_lines() -> None:
    lines: list[int] = []
    for worker in range(LAYOUT.workers):
        control, _, words = controls()
        control.claim(worker, 5, 77)
        control.count(worker)
        lines.append(words.nonzero()[0][0] // 8)
    assert len(set(lines)) == LAYOUT.workers


def test_a_claim_is_seen_until_it_is_finished() -> None:
    ours, theirs, _ = controls()
    theirs.claim(1, ticket=2**62, now_ns=2**61)
    assert [ours.claimed(worker) for worker in range(2)] == [(0, 0), (2**62, 2**61)]
    theirs.finish(1)
    assert ours.claimed(1) == (0, 2**61)  # it has worked


def test_workers_see_the_request_to_stop() -> None:
    ours, theirs, _ = controls()
    assert not theirs.closing
    ours.close()
    assert theirs.closing


def test_the_replacement_of_a_worker_continues_its_counters() -> None:
    ours, theirs, _ = controls()
    assert [theirs.count(0), theirs.count(0), theirs.count(1)] == [0, 1, 0]
    ours.bury(0)
    assert theirs.count(0) == 2


def test_a_dead_worker_loses_its_claim_and_others_keep_theirs() -> None:
    ours, theirs, _ = controls()
    for worker in (0, 1):
        theirs.claim(worker, ticket=worker + 5, now_ns=1)
    ours.bury(0)
    assert [ours.claimed(worker) for worker in (0, 1)] == [(0, 0), (6, 1)]


def test_a_layout_without_slots_has_no_room_for_any() -> None:
    layout = Layout(workers=4, cells=10, slots=0, slot_bytes=0)
    assert layout.size == layout.slots_at == layout.error_at(4)
