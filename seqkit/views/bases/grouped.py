"""`Grouped`: the base of `batch` and `window`, which make groups of successive items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arguments import Last
from ...core.errors import fail
from ...core.expression import name_of
from ...core.view import View
from ...core.worker import empty, is_placing

__all__ = ["Grouped", "Stacked"]


class Grouped(View[Any]):
    """A view of lists of items, or of what `collate_fn` makes of them."""

    def __init__(
        self,
        source: View[Any],
        size: int,
        last: Last,
        pad: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
    ) -> None:
        super().__init__((source,))
        self._size = size
        self._last = last
        self._pad = pad
        self._given_fn = collate_fn
        self._collate_fn = in_shared_memory(collate_fn)
        # A collate function with this attribute gets the items of an array source as one array.
        self._takes_arrays: bool = getattr(self._collate_fn, "takes_arrays", False)

    def _takes(self, items: Any) -> bool:
        """Can the collate function have the items as they are?"""
        if isinstance(items, np.ndarray):
            # An array made of single items of other dtypes differs: strings shrink, objects are inspected.
            return self._takes_arrays and items.dtype.kind in "biufcmMV" and items.dtype.isnative
        return isinstance(items, list)

    def _finish(self, i: int, items: Any) -> Any:
        """Make the group of its items."""
        missing = self._size - len(items) if self._last == "pad" else 0
        if missing:
            items = [*items, *[self._pad] * missing]
        if self._collate_fn is None:
            return items if isinstance(items, list) else list(items)
        try:
            return self._collate_fn(items if self._takes(items) else list(items))
        except Exception as error:
            fail(self, i, error, "in collate_fn")

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return () if self._given_fn in (None, list, tuple) else (self._given_fn,)

    def _function_arguments(self) -> list[str]:
        """Return the argument `collate_fn` for `repr`."""
        return [] if self._given_fn is None else [f"collate_fn={name_of(self._given_fn)}"]


class Stacked:
    """Makes the same array of items as a function of numpy, in a process worker in shared memory."""

    takes_arrays = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, items: Any) -> Any:
        if isinstance(items, list) and not _alike(items):
            return self._called(items)
        if isinstance(items, np.ndarray):
            if items.base is None:
                return items
            if not is_placing():
                return items.copy() if type(items) is np.ndarray else np.array(items)
            out = empty(items.shape, items.dtype)
            out[...] = items
            return out
        out = empty((len(items), *items[0].shape), np.result_type(*items))
        return np.stack(items, out=out)

    def _called(self, items: list[Any]) -> Any:
        try:
            return self.function(items)
        except ValueError as error:
            first, *others = [getattr(item, "shape", None) for item in items]
            i, other = next(((i, s) for i, s in enumerate(others, 1) if s != first), (0, first))
            if other == first or None in (first, other):
                raise
            raise ValueError(
                f"{error}: item {i} of the batch has shape {other}, item 0 has {first}. Make them equal, or"
                " pad them with collation.Pad()."
            ) from error


def in_shared_memory(collate_fn: Any) -> Any:
    """Return a collate function, those of numpy as `Stacked`.

    >>> in_shared_memory(np.stack)([np.zeros(2), np.zeros(3)])
    Traceback (most recent call last):
    ValueError: all input arrays must have the same shape: item 1 of the batch has shape (3,), item 0 has ...
    """
    if collate_fn is np.asarray or collate_fn is np.array or collate_fn is np.stack:
        return Stacked(collate_fn)
    return collate_fn


def _alike(items: list[Any]) -> bool:
    """Are they arrays of one shape?"""
    shape = getattr(items[0], "shape", ()) if items else ()
    return bool(shape) and all(type(item) is np.ndarray and item.shape == shape for item in items)
