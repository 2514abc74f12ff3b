"""What parent and workers agree on: indices come back as they went in, and nothing overlaps."""

from __future__ import annotations

import pickle
import select
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqkit.prefetch.processes.slots import PAGE, Segment
from seqkit.prefetch.processes.wire import CELL_BYTES, JOB, RESULT, Control, Layout, Packing, pack, unpack
from seqkit.prefetch.results import Unsendable

CELL = 4096


def travel(indices: Any) -> tuple[int, Any]:
    """Pack indices into a job record and a cell, and unpack them on the other side."""
    cell = np.full(CELL, 0xAB, np.uint8)
    packed = pack(indices, cell)
    record = JOB.pack(1, -1, 0, *packed, -1)
    return packed[0], unpack(JOB.unpack(record)[3:7], cell)


huge = st.integers(-(2**70), 2**70)


@given(st.builds(range, huge, huge, huge.filter(bool)))
def test_a_range_stays_a_range_whatever_its_bounds(indices: range) -> None:
    packing, result = travel(indices)
    assert type(result) is range
    assert (result.start, result.stop, result.step) == (indices.start, indices.stop, indices.step)
    small = all(-(2**63) < bound < 2**63 for bound in (indices.start, indices.stop, indices.step))
    assert (packing == Packing.RANGE) == small


@pytest.mark.parametrize("bound", [2**63 - 1, 2**63, -(2**63) + 1, -(2**63), 2**64])
def test_ranges_at_the_bounds_of_a_word_travel(bound: int) -> None:
    for indices in (range(bound, bound + 3), range(0, bound, bound // 2), range(0, 2 * bound, bound)):
        assert list(travel(indices)[1]) == list(indices)


@pytest.mark.parametrize("indices", [range(0), range(9, 2, -3), range(5, -1, -1), range(2**62, 2**62 + 3)])
def test_ranges_travel_in_the_record_alone(indices: range) -> None:
    assert pack(indices, np.zeros(0, np.uint8))[0] == Packing.RANGE
    assert travel(indices)[1] == indices


@given(st.lists(huge, max_size=50))
def test_a_list_of_ints_stays_one(indices: list[int]) -> None:
    packing, result = travel(indices)
    assert result == indices
    assert set(map(type, result)) <= {int}
    fits = bool(indices) and all(-(2**63) <= i < 2**63 for i in indices)
    assert (packing == Packing.ARRAY) == fits


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "<i4", ">i4", "u4", "i8", ">i8", "u8", ">u8"])
def test_integer_arrays_of_every_dtype_become_their_ints(dtype: str) -> None:
    info = np.iinfo(dtype)
    indices = np.array([info.min, 0, 1, info.max], dtype)
    for array in (indices, indices[::-2], np.asfortranarray(indices), indices[:0]):
        _, result = travel(array)
        assert result == array.tolist()
        assert set(map(type, result)) <= {int}


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
)
def test_keys_of_any_kind_come_back_as_they_are(indices: Any) -> None:
    packing, result = travel(indices)
    expected = indices.tolist() if isinstance(indices, np.ndarray) else indices
    assert packing == Packing.PICKLE
    assert result == expected
    assert list(map(type, result)) == list(map(type, expected))


keys = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=4) | st.floats(allow_nan=False) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)


@given(st.lists(keys, max_size=20))
def test_lists_of_nested_keys_come_back_as_they_are(indices: list[Any]) -> None:
    assert travel(indices)[1] == indices
    assert repr(travel(indices)[1]) == repr(indices)


@given(st.lists(st.integers(0, 255), min_size=1, max_size=CELL // 8))
def test_nothing_is_written_beyond_the_indices(indices: list[int]) -> None:
    cell = np.full(CELL, 0xAB, np.uint8)
    _, count, _, _ = pack(indices, cell)
    assert count == len(indices)
    assert (cell[8 * count :] == 0xAB).all()


@pytest.mark.parametrize("indices", [np.arange(CELL // 8 + 1), list(range(CELL)), ["k" * CELL]])
def test_indices_that_are_too_large_for_the_cell_are_refused(indices: Any) -> None:
    cell = np.full(CELL, 0xAB, np.uint8)
    too_large = r"prefetch: the indices of one job take \d+ bytes, at most 4096 fit"
    with pytest.raises(Unsendable, match=too_large) as info:
        pack(indices, cell)
    assert type(info.value.reason) is ValueError
    assert (cell == 0xAB).all()


def test_keys_that_cannot_be_pickled_are_refused() -> None:
    with pytest.raises(Unsendable) as info:
        pack([lambda: 0], np.zeros(CELL, np.uint8))
    assert isinstance(info.value.reason, pickle.PicklingError | AttributeError)


@given(indices=st.lists(keys, min_size=1, max_size=9), cut=st.integers(0, 9))
def test_a_cancelled_job_can_be_cut_to_nothing(indices: list[Any], cut: int) -> None:
    assert len(travel(indices)[1][:0]) == 0  # what a worker does with it


# -------------------------------------------------------------------- records


@pytest.mark.parametrize("record", [JOB, RESULT])
def test_records_are_written_and_read_in_one_piece(record: Any) -> None:
    assert record.size == 64
    assert record.size <= select.PIPE_BUF
    assert PAGE % record.size == 0


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
    assert layout.cells_at + layout.cells * CELL_BYTES <= layout.slots_at
    assert layout.slots_at + layout.slots * layout.slot_bytes == layout.size
    assert layout.cells_at % PAGE == layout.slots_at % PAGE == layout.size % PAGE == 0
    assert CELL_BYTES % PAGE == 0


def a_control(layout: Layout) -> Control:
    segment = Segment.create(layout.size)
    segment.close()  # the mapping stays
    return Control(segment, layout)


def everything(control: Control, layout: Layout) -> list[Any]:
    """Read every word there is, in an order."""
    seen: list[Any] = [control.closing]
    for worker in range(layout.workers):
        seen += [control.claimed(worker)]
    seen += [[control.is_assigned(cell, ticket) for ticket in range(1, 9)] for cell in range(layout.cells)]
    return seen + [control.is_kept(slot) for slot in range(layout.slots)]


def writes(control: Control, layout: Layout) -> dict[int, Any]:
    """Every word by its place in `everything`, and how to write it."""
    places: dict[int, Any] = {0: control.close}
    for worker in range(layout.workers):
        places[1 + worker] = lambda worker=worker: control.claim(worker, 5, 77)
    at = 1 + layout.workers
    for cell in range(layout.cells):
        places[at + cell] = lambda cell=cell: control.assign(cell, 3)
    at += layout.cells
    for slot in range(layout.slots):
        places[at + slot] = lambda slot=slot: control.keep(slot, 2)
    return places


@pytest.mark.parametrize("which", range(1 + 3 + 4 + 5))
def test_control_words_do_not_touch_one_another(which: int) -> None:
    layout = Layout(workers=3, cells=4, slots=5, slot_bytes=PAGE)
    control = a_control(layout)
    before = everything(control, layout)
    place, write = list(writes(control, layout).items())[which]
    write()
    after = everything(control, layout)
    changed = {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    assert changed == {place}


def test_the_control_words_stay_within_their_region() -> None:
    layout = Layout(workers=2, cells=3, slots=4, slot_bytes=PAGE)
    segment = Segment.create(layout.size)
    segment.block(layout.cells_at, layout.size - layout.cells_at)[:] = 0xAB
    control = Control(segment, layout)
    for write in writes(control, layout).values():
        write()
    assert (segment.block(layout.cells_at, layout.size - layout.cells_at) == 0xAB).all()
    assert not segment.block(layout.free_map_at, layout.cells_at - layout.free_map_at).any()
    assert segment.block(0, layout.free_map_at).any()
    segment.close()


def test_a_claim_is_seen_until_it_is_finished() -> None:
    control = a_control(Layout(workers=2, cells=1, slots=1, slot_bytes=PAGE))
    assert control.claimed(1) == (0, 0)
    control.claim(1, ticket=9, now_ns=123)
    assert control.claimed(1) == (9, 123)
    assert control.claimed(0) == (0, 0)
    control.finish(1)
    assert control.claimed(1)[0] == 0
    control.claim(1, ticket=10, now_ns=456)
    assert control.claimed(1) == (10, 456)


def test_a_cell_is_assigned_to_one_job_until_it_is_revoked_or_another_has_it() -> None:
    control = a_control(Layout(workers=1, cells=2, slots=1, slot_bytes=PAGE))
    control.assign(1, 7)
    assert control.is_assigned(1, 7)
    assert not control.is_assigned(1, 8)
    assert not control.is_assigned(0, 7)
    control.assign(1, 8)
    assert not control.is_assigned(1, 7)
    control.assign(1, 0)
    assert not control.is_assigned(1, 8)


def test_a_dead_worker_keeps_neither_its_claim_nor_slots_and_others_keep_theirs() -> None:
    control = a_control(Layout(workers=2, cells=1, slots=4, slot_bytes=PAGE))
    for worker in (0, 1):
        control.claim(worker, ticket=worker + 5, now_ns=1)
    for slot, worker in enumerate([0, 1, 0]):
        control.keep(slot, worker)
    control.bury(0)
    assert [control.claimed(worker)[0] for worker in (0, 1)] == [0, 6]
    assert [control.is_kept(slot) for slot in range(4)] == [False, True, False, False]
    control.let_go(1)
    assert not control.is_kept(1)


def test_both_sides_see_the_words_of_a_shared_segment() -> None:
    layout = Layout(workers=1, cells=1, slots=1, slot_bytes=PAGE)
    segment = Segment.create(layout.size)
    ours, theirs = Control(segment, layout), Control(segment, layout)
    segment.close()
    theirs.claim(0, 2**62, 2**61)
    theirs.keep(0, 0)
    assert ours.claimed(0) == (2**62, 2**61)
    assert ours.is_kept(0)
    ours.close()
    assert theirs.closing
    theirs.let_go(0)
    assert not ours.is_kept(0)


def test_a_layout_without_slots_has_no_room_for_any() -> None:
    layout = Layout(workers=4, cells=10, slots=0, slot_bytes=0)
    assert layout.size == layout.slots_at
    assert layout.size == layout.cells_at + 10 * CELL_BYTES
