"""What is special about `window`: which windows there are, and that their overlap is read once."""

from itertools import islice

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, FailingSource
from seqkit.testing.failing import Failure, by_index, by_iteration
from seqkit.testing.sources import UnsizedSource
from seqkit.views.window import window

from ..helpers import FailsAt, Naturals, agree_after_errors, for_each, past_errors

SIZES = [(size, stride) for size in (1, 2, 3, 5) for stride in (1, 2, 3, 4, 7)]


def full_windows(items, size, stride):
    starts = range(0, len(items) - size + 1, stride)
    return [items[start : start + size] for start in starts]


@for_each(("size", "stride"), SIZES)
def test_windows_start_a_stride_apart_and_the_tail_is_dropped(size, stride):
    for n in range(12):
        items = list(range(n))
        view = window(items, size, stride)
        expected = full_windows(items, size, stride)
        assert len(view) == len(expected)
        assert list(view) == [view[i] for i in range(len(view))] == expected


@for_each(("size", "stride"), SIZES)
def test_keeping_the_tail_loses_no_item_that_a_window_could_have(size, stride):
    for n in range(12):
        items = list(range(n))
        view = window(items, size, stride, last="keep")
        full = full_windows(items, size, stride)
        reach = (len(full) - 1) * stride + size if full else 0
        rest = [items[len(full) * stride :][:size]]
        expected = full if reach >= n or rest == [[]] else full + rest
        assert list(view) == [view[i] for i in range(len(view))] == expected
        if stride <= size:
            assert {x for row in view for x in row} == set(items)
        padded = window(items, size, stride, last="pad")
        assert list(padded) == [row + [None] * (size - len(row)) for row in expected]


@pytest.mark.parametrize("last", ["keep", "discard", "pad"])
def test_windows_that_meet_are_batches(last):
    for n in range(9):
        for k in (1, 2, 3, 10):
            assert list(window(range(n), k, k, last=last)) == list(sk.batch(range(n), k, last=last))


def test_a_pad_value_is_enough_to_ask_for_padding():
    assert list(window([1, 2, 3, 4], 3, 2, pad=0)) == [[1, 2, 3], [3, 4, 0]]
    assert list(window([1, 2, 3, 4], 3, 2)) == [[1, 2, 3]]
    assert list(window([1], 3, last="pad")) == [[1, None, None]]


@for_each(("size", "stride"), SIZES)
def test_in_order_every_item_is_read_once(size, stride):
    source = CountingSource(range(40))
    view = window(source, size, stride, last="keep")
    list(view)
    assert set(source.reads.values()) == {1}
    source.reads.clear()
    list(sk.batch(view, 1000))
    assert set(source.reads.values()) == {1}


def test_slices_keep_the_overlap_too():
    source = CountingSource(range(20))
    view = window(source, 4)
    assert list(view[3:9:2]) == [[3, 4, 5, 6], [5, 6, 7, 8], [7, 8, 9, 10]]
    assert set(source.reads.values()) == {1}
    assert list(view[[5, 6, 5, 4, 12, 12]]) == [list(range(i, i + 4)) for i in (5, 6, 5, 4, 12, 12)]


def test_items_of_a_window_are_read_as_one_batch_and_windows_of_a_batch_too():
    class Asked(sk.View):
        def __init__(self):
            super().__init__((), 100)
            self.batches = []

        def _get(self, i):
            return i

        def _getmany(self, indices):
            self.batches.append(list(indices))
            return self.batches[-1]

    source = Asked()
    assert window(source, 3, 5)[2] == [10, 11, 12]
    assert sk.batch(window(source, 3), 4)[1] == [[4, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, 9]]
    assert window(source, 2, 3)._getmany([4, 0, 4]) == [[12, 13], [0, 1], [12, 13]]
    assert source.batches == [[10, 11, 12], [4, 5, 6, 7, 8, 9], [12, 13], [0, 1], [12, 13]]


def test_changing_a_window_does_not_change_others():
    view = window([0, 1, 2, 3], 2)
    rows = iter(view)
    next(rows).clear()
    assert list(rows) == [[1, 2], [2, 3]]


def test_rows_of_an_array_come_as_they_are():
    table = np.arange(8).reshape(4, 2)
    stacked = sk.smap(np.stack, window(table, 3))
    assert stacked[1].tolist() == table[1:4].tolist()
    assert [row.tolist() for row in stacked] == [table[i : i + 3].tolist() for i in range(2)]


def test_endless_sequences_have_endless_windows():
    view = window(Naturals(), 3, 2)
    assert view[10**12] == [2 * 10**12, 2 * 10**12 + 1, 2 * 10**12 + 2]
    assert list(islice(view, 3)) == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert list(view[2:4]) == [[4, 5, 6], [6, 7, 8]]
    assert list(islice(window(Naturals(), 2, 3), 3)) == [[0, 1], [3, 4], [6, 7]]
    with pytest.raises(TypeError, match="window has no length"):
        len(view)


@for_each(("size", "stride"), SIZES)
@for_each("last", ["keep", "discard", "pad"])
def test_sequences_that_end_somewhere_have_the_same_windows(size, stride, last):
    for n in range(10):
        expected = list(window(range(n), size, stride, last=last))
        view = window(UnsizedSource(range(n)), size, stride, last=last)
        assert list(view) == expected
        assert [view[i] for i in range(len(expected))] == expected
        assert list(sk.smap(tuple, view)) == [tuple(row) for row in expected]
        for i in (len(expected), len(expected) + 3):
            with pytest.raises(IndexError):
                view[i]


@for_each(("size", "stride"), SIZES)
@for_each("failing", [{0}, {4}, {3, 4}, {2, 9}, set(range(10))])
def test_a_failing_item_fails_the_windows_that_contain_it(size, stride, failing):
    view = window(FailingSource(range(10), failing), size, stride, last="keep")
    found = agree_after_errors(view)
    for i, row in enumerate(found):
        assert isinstance(row, Failure) == any(j in failing for j in range(i * stride, i * stride + size))
    for plan in (range(1, len(view), 2), [2, 0, 0, 1], np.array([1, 1])):
        inside = [i for i in plan if i < len(view)]
        assert by_iteration(view._iter(inside)) == [found[i] for i in inside]


def test_windows_that_share_a_failing_item_have_one_cause_and_each_its_own_path():
    view = window(sk.smap(FailsAt(2), range(5)), 2)
    rows = iter(view)
    assert next(rows) == [0, 1]
    for i in (1, 2):
        with pytest.raises(sk.EvaluationError, match=rf"path: window\[{i}\] → smap\[2\]\n") as caught:
            next(rows)
        assert repr(caught.value.__cause__) == "ValueError('bad 2')"
    assert next(rows) == [3, 4]
    assert next(rows, None) is None


def test_a_failing_item_is_not_tried_again_for_every_window():
    calls = []

    def f(x):
        calls.append(x)
        return FailsAt(3)(x)

    found = by_iteration(iter(window(sk.smap(f, range(8)), 4)))
    assert [isinstance(row, Failure) for row in found] == [True, True, True, True, False]
    assert calls == list(range(8))


def test_a_permanent_failure_below_makes_no_short_windows():
    node = sk.prefetch(range(100), 2, max_buffered=4)
    rows = iter(window(node, 3))
    found = [next(rows)]
    node.close()
    found += by_iteration(rows)
    failed = [isinstance(row, Failure) for row in found].index(True)
    assert found[:failed] == [[i, i + 1, i + 2] for i in range(failed)]
    assert all(isinstance(row, Failure) for row in found[failed:])
    assert len(found) < 98


@for_each(("size", "stride"), [(3, 1), (2, 2), (2, 5)])
@for_each("plan", [range(6), range(1, 6, 2), range(5, -1, -1), [3, 3, 0, 5]])
def test_a_prefetch_below_receives_the_plan(size, stride, plan):
    source = CountingSource(range(40))
    with sk.prefetch(source, 0) as ahead:
        view = window(ahead, size, stride)
        assert list(view._iter(plan)) == [list(range(i * stride, i * stride + size)) for i in plan]
    if isinstance(plan, range) and plan.step > 0:
        assert set(source.reads.values()) == {1}


def test_its_repr_shows_arguments_that_differ_from_the_defaults():
    assert repr(window("abc", 2)) == "window(<str of 3>, 2)"
    assert repr(window("abc", 2, 3, last="keep")) == "window(<str of 3>, 2, stride=3, last='keep')"
    assert by_index(window("abc", 2)) == [["a", "b"], ["b", "c"]]


@for_each(("size", "stride"), [*SIZES, (4, 2), (4, 3), (8, 4)])
@for_each("last", ["keep", "discard", "pad"])
def test_an_error_in_a_sequence_of_unknown_length_is_raised_once(size, stride, last):
    for broken in range(14):

        def items(broken=broken):
            yield from range(broken)
            raise OSError("gone")

        for lay in (sk.view, lambda source: sk.prefetch(source, 0)):
            found = past_errors(iter(window(lay(sk.uniter(items)), size, stride, last=last)))
            assert found[:-1] == full_windows(list(range(broken)), size, stride)
            assert isinstance(found[-1], sk.EvaluationError)
            assert "OSError: gone" in str(found[-1])


def test_a_sequence_that_fails_at_its_first_item_is_not_empty():
    def boom():
        raise OSError("no such file")
        yield

    with pytest.raises(sk.EvaluationError, match=r"uniter\[0\] failed: OSError: no such file"):
        list(window(sk.uniter(boom), 2))


# -------------------------------------------------------------------- windows as arrays


@for_each("make", [np.asarray, np.array, np.stack, sk.default_collate, sk.Stack()])
@for_each("last", ["keep", "discard", "pad"])
@for_each(("size", "stride"), [(1, 1), (3, 1), (3, 2), (2, 3), (20, 1)])
@for_each("shape", [(10,), (10, 2)])
def test_windows_of_an_array_as_arrays_are_those_of_lists(make, last, size, stride, shape):
    data = np.arange(np.prod(shape)).reshape(shape)
    pad = np.full(shape[1:], -1) if last == "pad" else None
    for source in (
        data,
        data[::-2],
        sk.view(data)[1:9],
        sk.view(data)[::-1],
        sk.gather(data, [3, 1, 4, 1, 5]),
    ):
        view = window(source, size, stride, last=last, pad=pad, collate_fn=make)
        expected = [np.stack(row) for row in window(list(sk.view(source)), size, stride, last=last, pad=pad)]
        for found in (list(view), [view[i] for i in range(len(view))], view._getmany(range(len(view)))):
            assert [row.tolist() for row in found] == [row.tolist() for row in expected]
            assert all(row.dtype == data.dtype for row in found)
        for row in view:
            assert not np.shares_memory(row, data)
            row += 100
    assert data.max() < 100


def test_an_array_window_is_one_slice():
    keys = []

    class Asked(np.ndarray):
        def __getitem__(self, key):
            keys.append(key)
            return super().__getitem__(key)

    view = window(np.arange(50).view(Asked), 10, 5, collate_fn=np.asarray)
    assert view[2].tolist() == list(range(10, 20))
    assert keys[-1] == slice(10, 20, 1)
    assert all(isinstance(key, slice) for key in keys)


def test_a_function_makes_windows_of_other_sequences():
    assert list(window("abcd", 3, collate_fn="".join)) == ["abc", "bcd"]
    assert list(window(sk.smap(float, range(4)), 2, collate_fn=sum)) == [1.0, 3.0, 5.0]
    assert [x.tolist() for x in window([1, 2, 3], 2, last="pad", pad=0, collate_fn=np.array)] == [
        [1, 2],
        [2, 3],
    ]
    assert window(np.array(["a", "bb"]), 2, collate_fn=list)[0] == ["a", "bb"]
    assert window(np.array(["a", "bb"]), 1, collate_fn=np.asarray)[0].dtype == "<U1"
    assert list(window(UnsizedSource(range(4)), 3, collate_fn=sum)) == [3, 6]
    assert list(islice(window(Naturals(), 2, collate_fn=sum), 2)) == [1, 3]
    with sk.prefetch(window(np.arange(20), 4, collate_fn=np.asarray), 2, "process") as ahead:
        assert [row.tolist() for row in ahead] == [list(range(i, i + 4)) for i in range(17)]
    assert repr(window("ab", 1, collate_fn=list)) == "window(<str of 2>, 1, collate_fn=list)"


def test_an_error_of_the_function_names_the_window():
    for source in ([1, 2, 3], np.arange(3)):
        with pytest.raises(sk.EvaluationError, match=r"window\[1\] failed in collate_fn: TypeError"):
            window(source, 2, collate_fn=lambda rows: len(5))[1]
    with pytest.raises(TypeError, match="window: collate_fn"):
        window("ab", 1, collate_fn=3)


def test_windows_of_arrays_and_maps_are_arrays(tmp_path):
    numbers = np.arange(20, dtype="u2").reshape(10, 2)
    numbers.tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", "u2", "r", shape=(10, 2))
    for source in (numbers, mapped, sk.view(numbers)[1:], sk.shuffle(mapped, 0), sk.shard(numbers, 0, 2)):
        plain = [np.asarray(row) for row in sk.window(list(sk.view(source)), 3, 2, last="keep")]
        view = sk.window(source, 3, 2, last="keep")
        n = len(view)
        ways = (list(view), [view[i] for i in range(n)], view._getmany(range(n)), list(view[:]))
        for found in ways:
            assert all(isinstance(window, np.ndarray) and window.dtype == np.dtype("u2") for window in found)
            assert [window.tolist() for window in found] == [window.tolist() for window in plain]
    assert sk.window(numbers, 3, 8, pad=7)[1].tolist() == [[16, 17], [18, 19], [7, 7]]
    assert isinstance(sk.window(numbers, 3, last="pad")[0], list)
    assert isinstance(sk.window(numbers, 3, collate_fn=list)[0], list)
    assert isinstance(sk.batch(numbers, 3)[0], list)


def test_a_window_of_a_map_is_no_copy_and_a_window_of_an_array_is_one(tmp_path):
    numbers = np.arange(20)
    sk.window(numbers, 3)[0][0] = 99
    assert numbers[0] == 0
    numbers.tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", numbers.dtype, "r")
    assert np.shares_memory(sk.window(mapped, 3)[2], mapped)
    assert next(iter(sk.DataLoader(sk.window(mapped, 5, 4), 2))).shape == (2, 5)
