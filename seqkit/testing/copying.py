"""Laws of copying: a copy of a view equals the view."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from ..core.view import View
from .subject import Subject, close, expect

__all__ = ["LAWS"]


def pickled_views_give_the_same_items(subject: Subject) -> None:
    with subject.view() as view:
        for _ in range(2):  # the second time after it was read
            _expect_alike("its pickled copy", pickle.loads(subject.dumps(view)), view, subject.expected)
            list(view)


def copied_views_give_the_same_items(subject: Subject) -> None:
    with subject.view() as view:
        _expect_alike("its deep copy", copy.deepcopy(view), view, subject.expected)
        _expect_alike("its copy", copy.copy(view), view, subject.expected)


def rebuilding_changes_nothing(subject: Subject) -> None:
    with subject.view() as view:
        _expect_alike("the view rebuilt", view._rebuild(view._sources), view, subject.expected)


def _expect_alike(what: str, other: View[Any], view: View[Any], expected: list[Any]) -> None:
    try:
        expect(f"type of {what}", type(other), type(view))
        expect(f"repr of {what}", repr(other), repr(view))
        expect(f"list of {what}", list(other), expected)
    finally:
        close(other)


LAWS: tuple[Callable[[Subject], None], ...] = (
    pickled_views_give_the_same_items,
    copied_views_give_the_same_items,
    rebuilding_changes_nothing,
)
