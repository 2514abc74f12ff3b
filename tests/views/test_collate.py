"""`collate`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import seqkit as sk
from seqkit.testing import ExplodingSource, FailingSource, UnsizedSource

from .helpers import FailsAt, Naturals, agree_after_errors, past_errors, says


def test_no_sequence_and_unequal_lengths_are_refused() -> None:
    with says(ValueError, "collate: at least one sequence is needed, got none"):
        sk.collate([])
    with says(ValueError, "collate: at least one sequence is needed, got none"):
        sk.collate({})
    with says(ValueError, "collate: the sequences must have one length, got 2, 3"):
        sk.collate([[1, 2], Naturals(), [1, 2, 3]])


def test_sequences_without_end_stand_beside_those_with_one() -> None:
    view = sk.collate([Naturals(), "ab"])
    assert (len(view), list(view)) == (2, [(0, "a"), (1, "b")])
    endless = sk.collate({"i": Naturals(), "j": Naturals()})
    assert list(islice(endless, 1, 2)) == [{"i": 1, "j": 1}]


def test_an_unknown_end_ends_the_view_if_no_other_sequence_ends() -> None:
    view = sk.collate([Naturals(), UnsizedSource("ab"), Naturals()])
    assert list(view) == [(0, "a", 0), (1, "b", 1)]
    with pytest.raises(TypeError, match="only known once it is reached"):
        len(view)
    with pytest.raises(IndexError):
        view[2]


def test_an_unknown_end_that_comes_too_early_is_an_error() -> None:
    found = agree_after_errors(sk.collate([range(3), UnsizedSource("ab")]))
    assert found[:2] == [(0, "a"), (1, "b")]
    assert found[2].kind is IndexError
    with pytest.raises(IndexError):
        sk.collate([range(3), UnsizedSource("ab")]).__getitems__([1, 2])


def test_after_an_error_all_sequences_are_at_the_same_item() -> None:
    for failing in ([1], [1, 2], [0, 1, 2, 3]):
        for place in range(3):
            columns = [FailingSource(range(4), failing if which == place else []) for which in range(3)]
            for item, i in zip(agree_after_errors(sk.collate(columns)), range(4), strict=True):
                assert (item.kind is sk.EvaluationError) if i in failing else (item == (i, i, i))


def test_sequences_that_fail_at_different_items_stay_in_step() -> None:
    columns = [FailingSource(range(6), failing) for failing in ([1, 2], [2, 3], [3, 5])]
    good = [item[0] for item in agree_after_errors(sk.collate(columns)) if isinstance(item, tuple)]
    assert good == [0, 4]


def test_an_item_is_written_to_all_sequences() -> None:
    x, y = [1, 2], [3, 4]
    view = sk.collate([x, y])
    view[1] = iter((8, 9))
    assert (x, y) == ([1, 8], [3, 9])
    named = sk.collate({"x": x, "y": y})
    named[0] = {"y": 5, "x": 6}
    assert (x, y) == ([6, 8], [5, 9])


def test_an_item_must_have_a_part_for_each_sequence() -> None:
    x, y = [1, 2], [3, 4]
    for wrong in ((1,), (1, 2, 3), ()):
        with pytest.raises(ValueError, match=f"^collate: assigned {len(wrong)} values to an item of 2$"):
            sk.collate([x, y])[0] = wrong
    for keys in ({"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": 1, "z": 3}):
        with pytest.raises(
            ValueError, match=r"^collate: assigned parts \['x'.*\] to an item of \['x', 'y'\]$"
        ):
            sk.collate({"x": x, "y": y})[0] = keys
    with says(TypeError, "collate: an item of ['x', 'y'] must be a mapping, got (5, 6)"):
        sk.collate({"x": x, "y": y})[0] = (5, 6)
    assert (x, y) == ([1, 2], [3, 4])


def test_sequences_may_be_given_by_an_iterator() -> None:
    assert list(sk.collate(iter(["ab", "cd"]))) == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize("at", [0, 2, 3])
def test_sequences_that_are_interrupted_at_the_same_item_stay_side_by_side(at: int) -> None:
    source = sk.smap(FailsAt(at, error=KeyboardInterrupt), range(4))
    found = past_errors(iter(sk.collate([source, range(4), source, source, range(4)])))
    assert isinstance(found[at], KeyboardInterrupt)
    found[at] = (at,) * 5
    assert found == [(i,) * 5 for i in range(4)]


def test_sequences_may_be_given_by_keyword() -> None:
    view = sk.collate(image=[1, 2], label="ab")
    assert view[1] == {"image": 2, "label": "b"}
    text = (
        "collate: either all sequences have names or none, got y=… beside sequences without a name."
        " Name them all: seqkit.collate(first=…, y=…)"
    )
    with says(TypeError, text):
        sk.view([1]).collate(y=[2])
    with says(TypeError, text):
        sk.collate([[1]], y=[1])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="collate: sequences must be an iterable"):
        sk.collate()


def test_columns_are_selected_without_reading_the_others() -> None:
    view: Any = sk.collate(x=[1, 2], y=ExplodingSource("ab"), z=[5, 6])
    assert list(view.select("x")) == [1, 2]
    assert list(view.select("z", "x")) == [{"z": 5, "x": 1}, {"z": 6, "x": 2}]
    for wrong in ((), ("a",), ("x", "a")):
        with pytest.raises(ValueError, match="select: names must be some of"):
            view.select(*wrong)
