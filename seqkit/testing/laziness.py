"""Laws of laziness: an item is read when it is requested, and no other item is."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .sources import CountingSource, ExplodingSource
from .subject import Subject, expect, needed

__all__ = ["LAWS"]


def building_reads_nothing(subject: Subject) -> None:
    with subject.view(ExplodingSource(subject.items)) as view:
        text = repr(view)
        expect("repr of its copy", repr(copy.deepcopy(view)), text)
        expect("repr of its pickled copy", repr(pickle.loads(subject.dumps(view))), text)
        view.at_epoch(1)


def selecting_reads_nothing(subject: Subject) -> None:
    if subject.length_reads:
        return
    with subject.view(ExplodingSource(subject.items)) as view:
        for part in (view[1:], view[::-1], view[[0, -1]], view[np.zeros(len(view), bool)]):
            repr(part)
            len(part)
        if not subject.ahead:
            iter(view)
            reversed(view)


def repr_is_short(subject: Subject) -> None:
    with subject.view() as view:
        expect("length of its repr", len(repr(view)) < 600, True)
        expect("repr, made again", repr(view), repr(view))


def reading_an_item_reads_what_it_needs(subject: Subject) -> None:
    if subject.reads != "exact":
        return
    source = CountingSource(subject.items)
    with subject.view(source) as view:
        for i in range(len(view)):
            _expect_reads(f"view[{i}]", source, needed(view, i, source), view.__getitem__, i)


def reading_all_reads_nothing_twice(subject: Subject) -> None:
    if subject.reads != "exact":
        return
    source = CountingSource(subject.items)
    with subject.view(source) as view:
        total = sum((needed(view, i, source) for i in range(len(view))), Counter())
        _expect_reads("list(view)", source, total, list, view)
        _expect_reads("list(reversed(view))", source, total, lambda: list(reversed(view)))
        _expect_reads("view._getmany(…)", source, total, view._getmany, range(len(view)))


def _expect_reads(
    what: str, source: CountingSource, most: Counter[int], read: Callable[..., Any], *arguments: Any
) -> None:
    source.reads.clear()
    read(*arguments)
    surplus = source.reads - most
    expect(f"items that {what} reads and `_parts` does not name, with their counts,", dict(surplus), {})


def parts_name_what_an_item_is_made_of(subject: Subject) -> None:
    expected = subject.expected
    source = list(subject.items)
    with subject.view(source) as view:
        len(view)  # the parts are known once it is found
        for j in range(len(source)):
            for i in _changed(subject, expected, j):
                what = f"item {j} of the source, which view[{i}] depends on, in what `_parts` names"
                expect(what, j in needed(view, i, source), True)


def _changed(subject: Subject, expected: list[Any], j: int) -> list[int]:
    """Return the items that change when item j of the source changes."""
    items = list(subject.items)
    items[j] = items[j - 1]
    others = list(subject.model(items))
    if len(others) != len(expected):
        return []
    return [i for i, (one, other) in enumerate(zip(expected, others, strict=True)) if _differ(one, other)]


def _differ(one: Any, other: Any) -> bool:
    try:
        expect("", one, other)
    except AssertionError:
        return True
    return False


LAWS: tuple[Callable[[Subject], None], ...] = (
    building_reads_nothing,
    selecting_reads_nothing,
    repr_is_short,
    reading_an_item_reads_what_it_needs,
    reading_all_reads_nothing_twice,
    parts_name_what_an_item_is_made_of,
)
