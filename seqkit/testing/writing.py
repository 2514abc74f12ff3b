"""Laws of assignment: an assigned item is read back, or the assignment raises an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.expression import walk
from .reading import some_slices
from .subject import Subject, expect, refused

__all__ = ["LAWS"]


def written_items_are_read_back_or_refused(subject: Subject) -> None:
    others = _others(subject)
    for i in range(-len(others), len(others)):
        _write(subject, i, others[i], others[i])


def written_slices_are_read_back_or_refused(subject: Subject) -> None:
    others = _others(subject)
    for key in some_slices(len(others), 60):
        if others[key]:
            _write(subject, key, iter(others[key]), others[key])


def _others(subject: Subject) -> list[Any]:
    """Return items of the right form to assign: those of the same view over the reversed items."""
    return list(subject.model(subject.items[::-1]))


def _write(subject: Subject, key: Any, value: Any, wanted: Any) -> None:
    if subject.writes == "elsewhere":
        return
    source = list(subject.items)
    with subject.view(source) as view:
        try:
            view[key] = value
        except TypeError as error:
            expect(f"view[{key}] can be written", False, bool(subject.writes))
            expect("text of the error says so", "does not support assignment" in str(error), True)
            expect("text names a view", any(node._name in str(error) for node in walk(view)), True)
            expect("the source after it", source, subject.items)
        else:
            expect(f"view[{key}] can be written", True, subject.writes is not False)
            found = list(view[key]) if isinstance(key, slice) else view[key]
            expect(f"view[{key}] after writing it", found, wanted)
            expect(f"list(view) after writing {key}", list(view), list(subject.model(list(source))))


def slices_of_another_length_write_nothing(subject: Subject) -> None:
    others = _others(subject)
    if subject.writes in (False, "elsewhere") or not others:
        return
    for values in (others + others[:1], others[:-1]):
        source = list(subject.items)
        with subject.view(source) as view:
            write = partial(view.__setitem__, slice(None), values)
            refused("a slice of another length", ValueError, write)
            expect("the source after it", source, subject.items)


def writes_out_of_range_are_refused(subject: Subject) -> None:
    with subject.view() as view:
        n = len(view)
        refused(f"view[{n}] = …", IndexError, lambda: view.__setitem__(n, None))
        refused(f"view[{-n - 1}] = …", IndexError, lambda: view.__setitem__(-n - 1, None))
        refused("view['0'] = …", TypeError, lambda: view.__setitem__("0", None))


LAWS: tuple[Callable[[Subject], None], ...] = (
    written_items_are_read_back_or_refused,
    written_slices_are_read_back_or_refused,
    slices_of_another_length_write_nothing,
    writes_out_of_range_are_refused,
)
