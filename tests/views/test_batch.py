"""`batch`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import FailingSource, UnsizedSource
from seqkit.testing.failing import by_index, by_iteration

from ..helpers import FailsAt, Naturals, agree_after_errors
from ..registry import flat


def ahead(source: Any) -> sk.View[Any]:
    return sk.prefetch(source, 0)


# -------------------------------------------------------------------- batch: arguments


def test_k_may_be_any_kind_of_int() -> None:
    assert sk.batch(range(4), np.int8(2))[1] == [2, 3]  # type: ignore[call-overload]


def test_repr_shows_the_rule_for_the_last_batch_and_the_collate_fn() -> None:
    assert [
        repr(view)
        for view in (
            sk.batch("abc", 2),
            sk.batch("abc", 2, drop_last=True),
            sk.batch("abc", 2, pad="x"),
            sk.batch("abc", 2, last="pad"),
            sk.batch("abc", 2, pad=np.zeros((2, 2))),
            sk.batch([1, 2], 2, collate_fn=np.stack),
            sk.epochs(sk.batch(sk.shuffle([1, 2], seed=0), 2, collate_fn=sum), 2).at_epoch(1)._sources[0],
        )
    ] == [
        "batch(<str of 3>, 2)",
        "batch(<str of 3>, 2, drop_last=True)",
        "batch(<str of 3>, 2, pad='x')",
        "batch(<str of 3>, 2, last='pad')",
        "batch(<str of 3>, 2, pad=array([[0., 0.], [0., 0.]]))",
        "batch(<list of 2>, 2, collate_fn=stack)",
        "batch(shuffle(<list of 2>, seed=0), 2, collate_fn=sum)",
    ]


def test_drop_last_overrides_pad() -> None:
    assert list(sk.batch(range(5), 2, drop_last=True, pad=0)) == [[0, 1], [2, 3]]


# -------------------------------------------------------------------- batch: lengths and padding


@pytest.mark.parametrize("k", range(1, 8))
def test_lengths_and_sizes_are_exact_for_every_n(k: int) -> None:
    for n in range(20):
        kept, dropped = sk.batch(range(n), k), sk.batch(range(n), k, drop_last=True)
        padded = sk.batch(range(n), k, pad=-1)
        assert (len(kept), len(dropped), len(padded)) == (-(-n // k), n // k, -(-n // k))
        assert flat(kept) == [*range(n)]
        assert flat(dropped) == [*range(n // k * k)]
        assert flat(padded) == [*range(n)] + [-1] * (-n % k)


def test_all_batches_are_of_one_type() -> None:
    for options in ({}, {"pad": 0}, {"drop_last": True}):
        assert {type(row) for row in sk.batch(np.arange(5), 2, **options)} == {list}
    assert {type(row) for row in sk.batch("abcde", 2, collate_fn="".join)} == {str}


# -------------------------------------------------------------------- batch: sequences without a length


def test_an_unbounded_sequence_has_unbounded_batches() -> None:
    batches = sk.batch(Naturals(), 3)
    assert list(islice(batches, 2)) == [[0, 1, 2], [3, 4, 5]]
    assert batches[10] == [30, 31, 32]
    assert list(sk.batch(batches, 2)[1:2]) == [[[6, 7, 8], [9, 10, 11]]]


@pytest.mark.parametrize("source", [UnsizedSource(range(5)), ahead(UnsizedSource(range(5)))])
def test_a_sequence_of_unknown_length_ends_with_a_batch_of_the_rest(source: Any) -> None:
    assert list(sk.batch(source, 2)) == [[0, 1], [2, 3], [4]]
    assert list(sk.batch(source, 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(sk.batch(source, 2, last="pad")) == [[0, 1], [2, 3], [4, None]]
    assert list(sk.batch(source, 5)) == [[0, 1, 2, 3, 4]]
    assert sk.batch(source, 2)[2] == [4]
    with pytest.raises(IndexError, match="ends before batch 3"):
        sk.batch(source, 2)[3]
    with pytest.raises(IndexError, match="ends before batch 2"):
        sk.batch(source, 2, drop_last=True)[2]


# -------------------------------------------------------------------- batch: collate_fn


def test_stacking_an_array_source_gives_arrays_that_own_their_memory() -> None:
    table = np.arange(12.0).reshape(6, 2)
    for stack in (np.asarray, np.array, np.stack):
        rows = sk.batch(table, 4, collate_fn=stack)[0]
        assert rows.tolist() == table[:4].tolist()
        assert not np.shares_memory(rows, table)
        rows[:] = 0
    assert table[1, 1] == 3


@pytest.mark.parametrize(
    "data",
    [
        np.array(["a", "bcd", "e"]),
        np.array([1, 2, 3], ">i4"),
        np.array([b"x", b"yz", b""]),
        np.array(["2020-01-01", "NaT", "2021-01-01"], "datetime64[D]"),
        np.array([1.5, np.nan, np.inf], np.float16),
        np.array([[True], [False], [True]]),
        np.zeros((3, 0)),
        np.array([None, 2**100, "x"], object),
        np.array([(1, 2.0)] * 3, [("a", "i4"), ("b", "f8")]),
    ],
    ids=lambda data: str(data.dtype),
)
def test_stacking_an_array_source_is_stacking_its_items(data: np.ndarray[Any, Any]) -> None:
    quick = sk.batch(data, 2, collate_fn=np.asarray)
    slow = sk.batch(list(data), 2, collate_fn=np.asarray)
    for one, other in zip(quick, slow, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def test_an_error_in_collate_fn_names_the_batch() -> None:
    batches = sk.batch(range(6), 2, collate_fn=FailsAt([2, 3]))
    found = agree_after_errors(batches)
    assert (found[0], found[2]) == ([0, 1], [4, 5])
    with pytest.raises(
        sk.EvaluationError, match=r"^batch\[1\] failed in collate_fn: ValueError: bad \[2, 3\]"
    ):
        batches[1]


# -------------------------------------------------------------------- batch: errors and assignment


@pytest.mark.parametrize("make", [sk.view, ahead])
@pytest.mark.parametrize("failing", [[0], [1], [2], [0, 1], [2, 3], [0, 2, 4], [6], range(7)])
def test_a_failing_item_fails_its_own_batch_only(make: Any, failing: list[int]) -> None:
    for k in (1, 2, 3, 10):
        found = agree_after_errors(sk.batch(make(FailingSource(range(7), failing)), k))
        for row, start in zip(found, range(0, 7, k), strict=True):
            members = [*range(start, min(start + k, 7))]
            assert (row == members) == (not set(members) & set(failing))


def test_batches_of_a_plan_are_drawn_in_its_order_by_sources_that_read_ahead() -> None:
    batches = sk.batch(ahead(FailingSource(range(9), [4])), 2)
    plan = [3, 2, 0, 2, 4]
    assert by_iteration(batches._iter(plan)) == [by_index(batches)[i] for i in plan]


def test_the_way_to_a_failing_item_leads_through_batches_that_read_ahead() -> None:
    numbers = sk.smap(FailsAt(3), range(6))
    iterator = iter(sk.batch(ahead(numbers), 2))
    next(iterator)
    with pytest.raises(sk.EvaluationError) as caught:
        next(iterator)
    assert [(view._name, i) for view, i in caught.value.path] == [("batch", 1), ("prefetch", 3), ("smap", 3)]


def test_a_last_short_batch_is_written_at_its_own_size_or_padded() -> None:
    items = [1, 2, 3]
    sk.batch(items, 2)[-1] = [9]
    assert items == [1, 2, 9]
    sk.batch(items, 2, pad=0)[-1] = [8, 0]
    assert items == [1, 2, 8]
    for wrong in ([], [1, 2], [1, 2, 3]):
        with pytest.raises(ValueError, match="batch: assigned"):
            sk.batch(items, 2)[-1] = wrong
    assert items == [1, 2, 8]


def test_batches_that_a_function_makes_are_not_written() -> None:
    with pytest.raises(TypeError, match="batch does not support assignment"):
        sk.batch([1, 2], 2, collate_fn=sum)[0] = [3, 4]


@pytest.mark.parametrize("kind", [list, tuple])
def test_batches_that_are_lists_or_tuples_can_be_written(kind: Any) -> None:
    items = [1, 2, 3]
    view = sk.batch(items, 2, collate_fn=kind)
    view[0] = kind([8, 9])
    assert (items, view[0]) == ([8, 9, 3], kind([8, 9]))


def test_arrays_that_cannot_be_stacked_are_an_error_of_the_batch():
    view = sk.batch([np.zeros(2), np.zeros(2), np.zeros(3)], 3, collate_fn=np.stack)
    with pytest.raises(sk.EvaluationError, match="all input arrays must have the same shape"):
        view[0]
