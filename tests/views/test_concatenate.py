"""`concatenate`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import seqkit as sk
from seqkit.testing import FailingSource, UnsizedSource
from seqkit.testing.failing import by_index, by_iteration

from ..helpers import Naturals, agree_after_errors


def test_only_the_last_sequence_may_be_unbounded() -> None:
    with pytest.raises(TypeError, match=r"^concatenate: only the last sequence may be unbounded$"):
        sk.concatenate([Naturals(), [1]])


def test_concatenations_of_concatenations_are_one() -> None:
    inner = sk.concatenate(["ab", "cd"])
    assert repr(sk.concatenate([inner, [1], inner])) == (
        "concatenate([<str of 2>, <str of 2>, <list of 1>, <str of 2>, …])"
    )


def test_nothing_concatenated_is_empty() -> None:
    empty = sk.concatenate([])
    assert (len(empty), list(empty), list(empty[::-1]), empty.__getitems__([])) == (0, [], [], [])


def test_slices_cross_the_boundaries() -> None:
    both = sk.concatenate(["abc", "", "defg"])
    assert "".join(both[2:5]) == "cde"
    assert "".join(both[5:1:-1]) == "fedc"
    x, y = [1, 2], [3, 4]
    sk.concatenate([x, y])[1:3] = "ab"
    assert (x, y) == ([1, "a"], ["b", 4])


def test_the_last_sequence_may_never_end() -> None:
    view = sk.concatenate(["ab", Naturals()])
    assert list(islice(view, 4)) == ["a", "b", 0, 1]
    assert list(view[1:4]) == ["b", 0, 1]
    assert view[102] == 100
    assert sk.batch(view, 3)[1] == [1, 2, 3]
    with pytest.raises(TypeError, match="concatenate has no length: it never ends"):
        len(view)


def test_the_last_sequence_may_end_anywhere() -> None:
    view = sk.concatenate(["ab", UnsizedSource("cd")])
    assert list(view) == ["a", "b", "c", "d"]
    assert list(sk.batch(view, 3)) == [["a", "b", "c"], ["d"]]
    with pytest.raises(IndexError):
        view[4]


def ahead(source: Any) -> sk.View[Any]:
    return sk.prefetch(source, 0)


def test_sequences_that_read_ahead_are_asked_for_their_share_of_any_plan() -> None:
    view = sk.concatenate([ahead("abc"), "de", ahead("fgh")])
    order = [7, 0, 3, 2, 6, 1, 4, 5, 0, 7]
    assert "".join(view._iter(order)) == "hadcgbefah"
    assert "".join(sk.shuffle(view, seed=0)) == "".join(sk.shuffle("abcdefgh", seed=0))
    assert "".join(reversed(view)) == "hgfedcba"


@pytest.mark.parametrize("last", [Naturals(), UnsizedSource(range(4)), ahead(UnsizedSource(range(4)))])
def test_a_sequence_that_reads_ahead_does_not_look_for_items_behind_its_end(last: Any) -> None:
    view = sk.concatenate([ahead("ab"), last])
    assert list(islice(view, 5)) == ["a", "b", 0, 1, 2]
    assert list(islice(sk.batch(view, 2), 2)) == [["a", "b"], [0, 1]]
    assert list(islice(sk.unbatch(sk.batch(view, 2), 2), 3)) == ["a", "b", 0]


def test_an_unknown_end_is_found_in_any_plan() -> None:
    view = sk.concatenate([ahead("ab"), UnsizedSource("cd")])
    assert list(view._iter([3, 0, 1])) == ["d", "a", "b"]
    assert list(view._iter([0, 9, 1])) == ["a"]


def test_errors_of_sequences_that_read_ahead_concern_their_items_only() -> None:
    view = sk.concatenate([ahead(FailingSource(range(3), [1])), ahead(FailingSource(range(3), [0, 1]))])
    found = agree_after_errors(view)
    assert [found[0], found[2], found[5]] == [0, 2, 2]
    order = [4, 1, 0, 3, 5, 1, 2]
    assert by_iteration(view._iter(order)) == [by_index(view)[i] for i in order]


def test_a_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^concatenate: sequences must be an iterable of sequences, got \{"):
        sk.concatenate({"ab": [1], "cd": [2]})


def test_any_sequence_may_end_anywhere() -> None:
    view = sk.concatenate([UnsizedSource("ab"), "cd", UnsizedSource(""), UnsizedSource("e")])
    assert list(view) == ["a", "b", "c", "d", "e"]
    assert [view[i] for i in (4, 0, 3, 2, 1)] == ["e", "a", "d", "c", "b"]
    assert list(view[1:4]) == ["b", "c", "d"]
    assert list(sk.batch(view, 2)) == [["a", "b"], ["c", "d"], ["e"]]
    with pytest.raises(IndexError, match="index 5 out of range for length 5"):
        view[5]
    assert list(sk.concatenate([sk.uniter(iter("ab")), "c"])) == ["a", "b", "c"]
    assert list(islice(sk.concatenate([UnsizedSource("ab"), Naturals()]), 4)) == ["a", "b", 0, 1]


def test_items_that_fail_do_not_end_a_sequence_of_unknown_length() -> None:
    failing = sk.smap(FailingSource(range(3), {0, 2}).__getitem__, UnsizedSource(range(3)))
    view = sk.concatenate([failing, "x"])
    assert by_iteration(iter(view))[3] == "x"
    assert view[3] == "x"
