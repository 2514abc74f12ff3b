"""Index maps and plans, beside plain lists."""

from __future__ import annotations

import copy
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqkit.core.indices import (
    Cursor,
    Endless,
    Expanded,
    Selected,
    Translated,
    as_array,
    as_index_map,
    as_list,
    as_slice,
    each,
    nth,
    select,
)
from seqkit.core.lengths import UNBOUNDED, UNKNOWN, unsized_range
from seqkit.testing.reading import plans
from tests import strategies

quick = settings(max_examples=200, derandomize=True, deadline=None, database=None)
ranges = st.builds(range, st.integers(0, 30), st.integers(-3, 30), st.integers(-5, 5).filter(bool)).filter(
    lambda part: not part or min(part) >= 0
)

# -------------------------------------------------------------------- index maps


@quick
@given(ranges)
def test_a_slice_selects_what_its_range_does(part: range) -> None:
    assert [*range(40)][as_slice(part)] == [*part]


@quick
@given(st.data())
def test_selecting_from_a_selection_is_indexing_its_map(data: st.DataObject) -> None:
    index_map = data.draw(ranges | ranges.map(lambda part: np.array(part, np.int32)))
    batch = data.draw(strategies.index_batches(len(index_map)))
    found = select(index_map, batch)
    assert as_list(found) == [int(index_map[i]) for i in batch]
    if isinstance(index_map, range) and isinstance(batch, range):
        assert isinstance(found, range)


@quick
@given(ranges | st.lists(st.integers(0, 9)))
def test_arrays_and_lists_hold_the_same_indices(indices: Any) -> None:
    array = as_array(indices)
    assert np.issubdtype(array.dtype, np.integer)
    assert as_list(array) == [*indices] == as_list(indices)
    assert all(type(i) is int for i in as_list(array))


@quick
@given(st.data())
def test_an_index_map_counts_from_the_start(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 9))
    raw = data.draw(st.lists(st.integers(-n - 2, n + 1)) | ranges.map(lambda part: part[::-1]))
    found = as_list(as_index_map(raw, "gather: indices", lambda: n))
    assert found == [i + n if -n <= i < 0 else i for i in raw]


def test_ranges_that_start_below_0_keep_their_indices() -> None:
    assert as_list(as_index_map(range(-2, 2), "indices", lambda: 5)) == [3, 4, 0, 1]
    assert as_list(as_index_map(range(-7, 0, 3), "indices", lambda: 5)) == [-7, 1, 4]
    assert as_index_map(range(2, -1, -1), "indices", lambda: 5) == range(2, -1, -1)


def test_empty_index_maps_are_ints() -> None:
    for nothing in ([], (), np.array([]), iter([])):
        assert as_index_map(nothing, "indices", lambda: 3).dtype == np.int64  # type: ignore[union-attr]


def test_negative_indices_without_a_length_stay_and_fail_later() -> None:
    assert as_list(as_index_map([-1, 2], "indices", lambda: UNBOUNDED)) == [-1, 2]


# -------------------------------------------------------------------- slices without a length


@pytest.mark.parametrize("key", [slice(4), slice(2, 9, 3), slice(9, 2, -2), slice(5, 5), slice(6, None, -1)])
def test_bounded_slices_select_as_from_a_long_list(key: slice) -> None:
    assert [*unsized_range(key, UNBOUNDED, "cycle")] == [*range(100)][key]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (slice(None), "cycle: a slice from or to the end needs a length, and there is none: it never ends"),
        (
            slice(3, None),
            "cycle: a slice from or to the end needs a length, and there is none: it never ends",
        ),
        (
            slice(None, 3, -1),
            "cycle: a slice from or to the end needs a length, and there is none: it never ends",
        ),
        (slice(-3, 5), "cycle: a slice from or to the end needs a length, and there is none: it never ends"),
        (slice(0, -1), "cycle: a slice from or to the end needs a length, and there is none: it never ends"),
    ],
)
def test_slices_that_need_a_length_are_refused(key: slice, text: str) -> None:
    with pytest.raises(IndexError, match=text):
        unsized_range(key, UNBOUNDED, "cycle")


def test_a_step_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="slice step"):
        unsized_range(slice(0, 3, 0), UNKNOWN, "source")


def test_why_there_is_no_length_survives_copies_and_pickles() -> None:
    for n in (UNBOUNDED, UNKNOWN):
        assert pickle.loads(pickle.dumps(n)) is n
        assert copy.deepcopy(n) is n
        assert n > 10**30


# -------------------------------------------------------------------- plans


@pytest.mark.parametrize("n", [1, 5, 8])
def test_every_kind_of_plan_can_be_read_again_at_any_place(n: int) -> None:
    for _, plan in plans(n):
        wanted = [int(i) for i in plan]
        assert [*each(plan)] == wanted == [*each(plan)]
        assert all(type(i) is int for i in each(plan))
        assert [nth(plan, place) for place in range(len(wanted))] == wanted


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_cursor_draws_any_plan_piece_by_piece(size: int) -> None:
    for _, plan in plans(7):
        cursor, found = Cursor(plan), []
        while len(piece := cursor.take(size)):
            assert len(piece) <= size
            found += as_list(piece)
        assert found == as_list([int(i) for i in plan])
        assert len(cursor.take(size)) == 0


def test_a_cursor_over_a_range_draws_ranges() -> None:
    cursor = Cursor(range(0, 100, 7))
    assert (cursor.take(4), cursor.take(2)) == (range(0, 28, 7), range(28, 42, 7))


def test_plans_without_end_are_drawn_as_far_as_they_are_asked() -> None:
    pairs = Expanded(Endless(), lambda i: (i, i))
    assert [*islice(pairs, 5)] == [0, 0, 1, 1, 2]
    assert Cursor(pairs).take(3) == [0, 0, 1]
    odd = Selected(Translated(Endless(), lambda block: as_array(block) + 1), lambda i: i if i % 2 else None)
    assert [*islice(odd, 3)] == [1, 3, 5]


def test_a_translated_plan_is_mapped_in_growing_blocks() -> None:
    sizes: list[int] = []

    def many(block: Any) -> Any:
        sizes.append(len(block))
        return block

    assert [*Translated(range(10**5), many)] == [*range(10**5)]
    assert sizes[0] <= 64
    assert max(sizes) >= 4096
    assert sizes[:-1] == sorted(sizes[:-1])


def test_an_array_plan_is_not_turned_into_a_list_at_once() -> None:
    plan = np.arange(10**6)
    assert [*islice(each(plan), 3)] == [0, 1, 2]
