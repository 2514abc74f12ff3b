"""`unbatch`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource, UnsizedSource
from seqkit.testing.failing import by_index, by_iteration

from ..helpers import (
    Naturals,
    agree_after_errors,
)


def ahead(source: Any) -> sk.View[Any]:
    return sk.prefetch(source, 0)


def test_unbatch_is_the_inverse_of_batch() -> None:
    for n in range(12):
        for k in range(1, 6):
            assert list(sk.unbatch(sk.batch(range(n), k), k)) == [*range(n)]


def test_items_of_a_last_batch_that_is_too_large_fail_each() -> None:
    view = sk.unbatch([[1, 2], [3, 4, 5]], 2)
    assert len(view) == 4
    reader = iter(view)
    assert [next(reader), next(reader)] == [1, 2]
    for i in (2, 3):
        with pytest.raises(sk.EvaluationError, match=rf"^unbatch\[{i}\] failed: .* has 3 items, expected 2"):
            next(reader)
    assert list(reader) == []


@pytest.mark.parametrize("last", [3, None])
def test_a_last_batch_that_cannot_be_read_fails_alone(last: Any) -> None:
    rows: Any = [[1, 2], last] if last else FailingSource([[1, 2], [3]], [1])
    view = sk.unbatch(rows, 2)
    found = agree_after_errors(view)
    assert (len(view), found[:2], [item.kind for item in found[2:]]) == (4, [1, 2], [sk.EvaluationError] * 2)


def test_unbatch_of_nothing_is_empty() -> None:
    for last in (None, 0, 2):
        assert list(sk.unbatch([], 3, last)) == []


def test_a_last_batch_without_items_counts_as_none() -> None:
    assert list(sk.unbatch([[1, 2], []], 2)) == [1, 2]
    assert list(sk.unbatch([[]], 2)) == []


def test_0_means_that_the_last_batch_is_full() -> None:
    assert list(sk.unbatch([[1, 2], [3, 4]], 2, last_batch_size=0)) == [1, 2, 3, 4]


def test_a_batch_of_another_size_fails_with_all_its_items() -> None:
    view = sk.unbatch([[1, 2], [3], [4, 5]], 2)
    found = agree_after_errors(view)
    assert (found[:2], found[4:]) == ([1, 2], [4, 5])
    with pytest.raises(
        sk.EvaluationError,
        match=r"^unbatch\[3\] failed: ValueError: unbatch: batch 1 has 1 items, expected 2",
    ):
        view[3]
    with pytest.raises(sk.EvaluationError, match=r"^unbatch\[2\] failed"):
        view.__getitems__([0, 5, 2])
    told = sk.unbatch([[1, 2], [3]], 2, last_batch_size=2)
    assert [getattr(item, "kind", item) for item in by_index(told)] == [1, 2, *[sk.EvaluationError] * 2]


def test_every_batch_is_read_once_in_sequence() -> None:
    source = CountingSource([[1, 2, 3], [4, 5, 6], [7]])
    view = sk.unbatch(source, 3)
    len(view)
    for part, reads in ((view, [1, 1, 1]), (view[2:5], [1, 1, 0]), (view[4:], [0, 1, 1])):
        source.reads.clear()
        list(part)
        assert [source.reads[i] for i in range(3)] == reads


def test_batched_reads_read_every_batch_once() -> None:
    source = CountingSource([[1, 2], [3, 4]])
    view = sk.unbatch(source, 2, 0)
    assert view.__getitems__([3, 0, 2, 3]) == [4, 1, 3, 4]
    assert source.reads == {1: 1, 0: 1}


def test_items_of_a_batch_that_cannot_be_read_fail() -> None:
    view = sk.unbatch(FailingSource([[1, 2], [3, 4], [5, 6]], [1]), 2, 0)
    found = agree_after_errors(view)
    assert [getattr(item, "kind", item) for item in found] == [1, 2, *[sk.EvaluationError] * 2, 5, 6]


@pytest.mark.parametrize("make", [sk.view, ahead])
def test_unbatch_of_an_unknown_number_of_batches(make: Any) -> None:
    view = sk.unbatch(make(UnsizedSource([[1, 2], [3, 4], [5]])), 2)
    assert list(view) == [1, 2, 3, 4, 5]
    assert view[4] == 5
    with pytest.raises(IndexError, match="ends before index 5"):
        view[5]
    with pytest.raises(TypeError, match="only known once it is reached"):
        len(view)
    short = sk.unbatch(make(UnsizedSource([[1, 2], [3], [4, 5]])), 2)
    found = by_iteration(iter(short))
    assert [getattr(item, "kind", item) for item in found] == [1, 2, *[sk.EvaluationError] * 2, 4, 5]
    assert list(sk.unbatch(make(UnsizedSource([])), 2)) == []


def test_unbatch_of_unbounded_batches_never_ends() -> None:
    view = sk.unbatch(sk.batch(Naturals(), 4), 4)
    assert list(islice(view, 6)) == [0, 1, 2, 3, 4, 5]
    assert view[10**6] == 10**6


def test_reading_batches_of_unbatches_to_know_the_length_never_hangs():
    inner = sk.smap(lambda i: list(sk.unbatch([[i, i], [i]], 2)), range(4))
    with sk.prefetch(inner, 2, "thread") as node:
        assert len(sk.unbatch(node, 3)) == 12


def test_explaining_an_unbatch_reads_no_batch():
    assert "not known yet" in sk.explain(sk.unbatch(ExplodingSource("abc"), 2))


def test_single_items_of_a_batch_read_it_once() -> None:
    source = CountingSource([[1, 2, 3], [4, 5, 6], [7]])
    view = sk.unbatch(source, 3, 1)
    assert [view[i] for i in (0, 2, 3, 4, 5, 6)] == [1, 3, 4, 5, 6, 7]
    assert list(sk.batch(view, 2)) == [[1, 2], [3, 4], [5, 6], [7]]
    assert source.reads == {0: 2, 1: 2, 2: 2}


def test_a_short_last_batch_of_an_unknown_number_is_read_once() -> None:
    reads: list[int] = []

    def load(batch: list[int]) -> list[int]:
        reads.append(batch[0])
        return batch

    view = sk.unbatch(sk.smap(load, UnsizedSource([[1, 2, 3], [4, 5]])), 3)
    assert list(view) == [1, 2, 3, 4, 5]
    assert reads == [1, 4]
