"""The protocol between parent and workers: records are written whole, and regions do not overlap."""

from __future__ import annotations

import select
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqkit.engine.processes.segment import PAGE, Segment
from seqkit.engine.processes.wire import ERROR_BYTES, JOB, RESULT, Control, SegmentLayout


@pytest.mark.parametrize("record", [JOB, RESULT])
def test_records_are_written_and_read_in_one_piece(record: Any) -> None:
    assert record.size <= select.PIPE_BUF
    assert record.size % 8 == 0


# -------------------------------------------------------------------- the segment

layouts = st.builds(
    SegmentLayout,
    workers=st.integers(1, 70),
    slots=st.integers(0, 300),
    slot_bytes=st.integers(1, 64).map(lambda pages: pages * PAGE),
)


@given(layouts)
def test_the_regions_of_a_layout_are_page_aligned_and_do_not_overlap(layout: SegmentLayout) -> None:
    assert layout.control_words * 8 <= layout.error_at(0)
    assert layout.error_at(layout.workers - 1) + ERROR_BYTES == layout.slots_at == layout.slot_at(0)
    assert layout.slot_at(layout.slots) == layout.size
    assert layout.error_at(0) % PAGE == layout.slots_at % PAGE == layout.size % PAGE == 0


LAYOUT = SegmentLayout(workers=3, slots=5, slot_bytes=PAGE)


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
    ours.clear_claim(0)
    assert theirs.count(0) == 2


def test_a_dead_worker_loses_its_claim_and_others_keep_theirs() -> None:
    ours, theirs, _ = controls()
    for worker in (0, 1):
        theirs.claim(worker, ticket=worker + 5, now_ns=1)
    ours.clear_claim(0)
    assert [ours.claimed(worker) for worker in (0, 1)] == [(0, 0), (6, 1)]
