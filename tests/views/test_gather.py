"""`gather`, also called `take`; every slice is one."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import samplers
from seqkit.testing import CountingSource, UnsizedSource

from ..helpers import FailsAt, Naturals, agree_after_errors


def test_take_is_gather() -> None:
    assert sk.take is sk.gather


@pytest.mark.parametrize("indexes", [[0, 5, 1], [0, -4, 1], np.array([0, 5, 1]), range(0, 9, 4)])
def test_an_index_out_of_range_fails_when_it_is_read_and_alone(indexes: Any) -> None:
    view = sk.gather("abc", indexes)
    found = agree_after_errors(view)
    bad = int(indexes[1])
    assert (found[0], found[1].kind) == ("a", IndexError)
    with pytest.raises(IndexError, match=rf"^gather: indexes\[1\] is {bad},"):
        view[1]
    with pytest.raises(IndexError, match=rf"^gather: indexes\[1\] is {bad},"):
        view.__getitems__([0, 1])
    assert view.__getitems__([0, 0]) == ["a", "a"]


def test_an_index_out_of_range_of_a_gather_is_named_by_its_own_place() -> None:
    view = sk.gather(sk.gather("abc", [2, 1]), [0, 2])
    assert view[0] == "c"
    with pytest.raises(IndexError, match=r"^gather: indexes\[1\]"):
        view[1]


def test_a_mask_must_fit() -> None:
    with pytest.raises(IndexError, match="gather: indexes:"):
        sk.gather("abc", [True, False])
    flags = [np.bool_(True), np.bool_(False), np.bool_(True)]
    assert list(sk.gather("abc", flags)) == ["a", "c"]


def test_an_int_beyond_64_bits_is_out_of_range() -> None:
    with pytest.raises(IndexError, match="must be below 2"):
        sk.gather("abc", [0, 2**70])


def test_arrays_and_ranges_are_kept_as_they_are() -> None:
    order = np.array([2, 0], np.uint32)
    assert sk.gather("abc", order)._map is order  # type: ignore[attr-defined]
    assert sk.gather("abc", range(1, 3))._map == range(1, 3)  # type: ignore[attr-defined]


def test_unsigned_indices_too_large_for_any_sequence_are_out_of_range() -> None:
    view = sk.gather("abc", np.array([1, 2**64 - 1], np.uint64))
    found = agree_after_errors(view)
    assert (found[0], found[1].kind) == ("b", IndexError)


def test_a_range_with_negative_indices_counts_from_the_end() -> None:
    assert "".join(sk.gather("abcde", range(-2, 2))) == "deab"
    assert "".join(sk.gather("abcde", range(1, -3, -1))) == "baed"
    assert sorted(sk.gather(sk.shuffle(range(5), seed=0), range(-5, 0))) == [0, 1, 2, 3, 4]


def test_the_last_of_several_values_written_to_an_item_wins() -> None:
    items = [0, 0, 0]
    sk.gather(items, [1, 2, 1, -1])[:] = [5, 6, 7, 8]
    assert items == [0, 7, 8]


def test_nothing_is_written_if_one_index_of_a_slice_is_out_of_range() -> None:
    numbers = [1, 2, 3]
    for view in (sk.gather(numbers, [0, 9]), sk.concatenate([numbers, sk.gather(numbers, [5])])):
        with pytest.raises(IndexError, match="outside"):
            view[:] = [0] * len(view)
    assert numbers == [1, 2, 3]


def test_selections_of_selections_lie_directly_on_the_source() -> None:
    source = sk.view(list(range(100)))
    view = source
    for _ in range(10):
        view = view[1:][[*range(80), -1]][::-1]
    assert view._sources == (source,)
    assert view[::2][np.arange(41) < 9]._sources == (source,)


def test_slices_of_slices_stay_ranges() -> None:
    view = sk.view(list(range(1000)))[10:900:3][::-1][5:-5]
    assert view._map == range(10, 900, 3)[::-1][5:-5]  # type: ignore[attr-defined]


def test_a_sequence_that_never_ends_has_no_negative_indices() -> None:
    view = sk.gather(Naturals(), [3, -1, 10**15])
    found = agree_after_errors(view)
    assert (found[0], found[2]) == (3, 10**15)
    with pytest.raises(IndexError, match=r"^gather: indexes\[1\]"):
        view[1]


def test_indices_behind_an_unknown_end_fail_when_they_are_read() -> None:
    found = agree_after_errors(sk.gather(UnsizedSource("abc"), [2, 7, 0]))
    assert (found[0], found[1].kind, found[2]) == ("c", IndexError, "a")
    with pytest.raises(
        IndexError, match=r"^gather: item 1 is item 7 of its source, and the sequence ends before index 7$"
    ):
        sk.gather(UnsizedSource("abc"), [2, 7, 0])[1]


def test_a_huge_slice_takes_no_memory() -> None:
    view = sk.view(range(10**15))[::7][10**9 :]
    assert view[0] == 7 * 10**9
    assert view._sources[0]._sources == ()


def test_a_view_selects_too() -> None:
    assert list(sk.gather("abc", sk.smap(abs, [-2, 0]))) == ["c", "a"]
    assert list(sk.view("abc")[sk.view([1, 1])]) == ["b", "b"]


def test_indices_can_be_checked_at_once() -> None:
    for indexes, place, index in (
        ([0, 3], 1, 3),
        ([-4], 0, -4),
        (range(2, 5), 1, 3),
        (np.array([0, 9]), 1, 9),
    ):
        with pytest.raises(IndexError, match=rf"gather: indexes\[{place}\] is {index},"):
            sk.gather("abc", indexes, check=True)
    assert list(sk.gather("abc", [-1, 0], check=True)) == ["c", "a"]
    assert list(sk.gather("abc", [], check=True)) == []
    with pytest.raises(TypeError, match="gather: check"):
        sk.gather("abc", [0], check=1)  # type: ignore[arg-type]


# -------------------------------------------------------------------- a view of indices


def test_a_view_of_indices_is_not_read_before_its_items() -> None:
    indices = CountingSource([2, 0, -1])
    view = sk.gather("abc", sk.view(indices))
    assert len(view) == 3
    assert not indices.reads
    assert view[2] == "c"
    assert view[0] == "c"
    assert indices.reads.total() == 2
    assert list(view[1:]) == ["a", "c"]
    assert sk.batch(view, 2)[0] == ["c", "a"]


@pytest.mark.parametrize("how", ["gather", "[]", "sampler"])
def test_an_order_of_indices_follows_the_epoch(how: str) -> None:
    order = sk.shuffle(range(50), seed=3)
    data = sk.view(range(100, 150))
    if how == "sampler":
        view = sk.gather(data, samplers.RandomSampler(50, seed=3))
    else:
        view = sk.gather(data, order) if how == "gather" else data[order]
    for epoch in range(3):
        assert list(view.at_epoch(epoch)) == [100 + i for i in order.at_epoch(epoch)]
    passes = sk.epochs(view, 2)
    assert list(passes) == [*view, *view.at_epoch(1)]
    assert list(sk.prefetch(view, 2, "thread").at_epoch(2)) == list(view.at_epoch(2))


def test_each_index_of_a_view_fails_alone() -> None:
    view = sk.gather("abc", sk.view([0, 5, 1.0, True, "x", None, -1]))
    found = agree_after_errors(view)
    assert (found[0], found[6]) == ("a", "c")
    assert [error.kind for error in found[1:6]] == [IndexError, *[TypeError] * 4]
    with pytest.raises(IndexError, match=r"^gather: indexes\[1\]"):
        view[1]
    with pytest.raises(TypeError, match=r"^gather: indexes\[2\]"):
        view[2]
    with pytest.raises(TypeError, match=r"^gather: indexes\[3\]"):
        view[3]
    with pytest.raises(IndexError, match=r"^gather: indexes\[1\]"):
        view.__getitems__([0, 1, 2])
    assert view.__getitems__([0, 6]) == ["a", "c"]
    assert view.__getitems__([]) == []


@pytest.mark.parametrize("flags", [[True, False, True], np.array([True, False, True])], ids=repr)
def test_a_view_of_bools_is_no_mask(flags: Any) -> None:
    for view in (sk.gather("abc", sk.view(flags)), sk.view("abc")[sk.view(flags)]):
        for read in (lambda v: v[0], list, lambda v: sk.batch(v, 2)[0]):
            with pytest.raises(TypeError, match=r"indexes\[0\] is .*True_?, not an int"):
                read(view)


def test_a_failing_index_or_item_costs_only_its_own_item() -> None:
    for source in (sk.view("abcd"), sk.prefetch("abcd", 2, "thread")):
        indices = sk.smap(FailsAt(9), [3, 9, 1, 7, 0])
        found = agree_after_errors(sk.gather(source, indices))
        assert [found[0], found[2], found[4]] == ["d", "b", "a"]
        assert [found[1].kind, found[3].kind] == [sk.EvaluationError, IndexError]
    items = sk.smap(FailsAt("b"), "abcd")
    found = agree_after_errors(sk.gather(items, sk.view([0, 1, 2])))
    assert (found[0], found[1].kind, found[2]) == ("a", sk.EvaluationError, "c")
    with pytest.raises(sk.EvaluationError, match=r"path: gather\[1\] → smap\[1\]"):
        sk.gather(items, sk.view([0, 1, 2]))[1]


def test_a_source_that_works_ahead_learns_the_indices_of_a_view() -> None:
    asked: list[int] = []
    source = sk.prefetch(sk.smap(lambda i: asked.append(i) or i, range(9)), 1, "thread", max_buffered=3)  # type: ignore[func-returns-value]
    assert list(sk.gather(source, sk.view([8, 0, 8, 5]))) == [8, 0, 8, 5]
    assert asked == [8, 0, 8, 5]


def test_indices_of_a_view_may_never_end_or_have_an_unknown_end() -> None:
    assert list(sk.gather("abc", sk.cycle([0, -1])).head(5)) == ["a", "c", "a", "c", "a"]
    assert list(sk.gather("abc", sk.view(UnsizedSource([2, 1])))) == ["c", "b"]
    ahead = sk.gather(sk.prefetch("abc", 2, "thread"), sk.cycle([0, -1]))
    assert list(islice(ahead, 5)) == ["a", "c", "a", "c", "a"]
    found = agree_after_errors(sk.gather(UnsizedSource("abc"), sk.view([2, 7, -1])))
    assert (found[0], found[1].kind, found[2].kind) == ("c", IndexError, IndexError)


def test_check_reads_all_indices_of_a_view_at_once() -> None:
    with pytest.raises(IndexError, match=r"^gather: indexes\[1\]"):
        sk.gather("abc", sk.view([0, 3]), check=True)
    with pytest.raises(TypeError, match=r"^gather: indexes\[0\]"):
        sk.gather("abc", sk.view("x"), check=True)
    with pytest.raises(TypeError, match="cycle has no length"):
        sk.gather("abc", sk.cycle([0]), check=True)
    view = sk.gather("abc", sk.shuffle(range(3), seed=0), check=True)
    assert sorted(view) == ["a", "b", "c"]
    assert list(view.at_epoch(1)) == ["abc"[i] for i in sk.shuffle(range(3), seed=0).at_epoch(1)]


def test_a_sampler_whose_order_is_only_known_by_iterating_it_is_refused() -> None:
    with pytest.raises(TypeError, match="gather: the indices of InfiniteSampler"):
        sk.gather("abc", samplers.InfiniteSampler(range(3)))
    assert "".join(sk.gather("abc", samplers.DistributedSampler(3, 2, 1, shuffle=False))) == "ba"


def test_an_assignment_through_a_view_of_indices_reaches_the_source() -> None:
    numbers = [1, 2, 3]
    view = sk.gather(numbers, sk.view([2, 0]))
    view[0] = 30
    view[:] = [31, 10]
    assert numbers == [10, 2, 31]
    with pytest.raises(IndexError, match="outside"):
        sk.gather(numbers, sk.view([0, 9]))[:] = [0, 0]
    assert numbers == [10, 2, 31]
