"""Items of views that are iterated: `read_forwards`, where the length is unknown, and `next_item`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...core.errors import EndOfSequence, fail
from ...core.view import View
from .passes import Passes, Stopped

__all__ = ["FailedItem", "next_item", "outcomes", "read_forwards"]


def read_forwards(view: Any, i: int) -> Any:
    """Return item `i` of a view by iterating up to it. A larger index continues the iteration.

    The view keeps the iteration in its attribute `_forwards`.

    >>> from seqkit import concatenate, uniter
    >>> both = concatenate([uniter(lambda: iter("ab")), "cd"])
    >>> read_forwards(both, 2)
    'c'
    """
    passes: Passes | None = view._forwards
    if passes is None:
        other = view._rebuild(view._sources)  # not this view, which would then be part of a cycle
        passes = view._forwards = Passes(partial(outcomes, other), 0, 1)
    elif passes.pid != os.getpid():
        passes = view._forwards = passes.after_fork()
    found = passes.read(i)
    if isinstance(found, FailedItem):
        raise found.error
    if isinstance(found, Stopped):
        if found.error is not None:
            fail(view, i, found.error)
        raise EndOfSequence(f"{view._name}: index {i} out of range for length {found.at}")
    return found


class FailedItem:
    """An item that failed, in the place of the item."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def next_item(items: Iterator[Any], i: int) -> Any:
    """Return the next item of an iterator, or raise the end of the sequence: there is no item `i`."""
    for item in items:
        return item
    raise EndOfSequence(f"the sequence ends before index {i}")


def outcomes(view: View[Any]) -> Iterator[Any]:
    """Yield the items of a view, and a `FailedItem` for each item that fails."""
    items = view._iter(view._plan())
    while True:
        try:
            yield from items
            return
        except Exception as error:
            yield FailedItem(error)
