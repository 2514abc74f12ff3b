"""How `batch` makes an array of items: in one step, and in shared memory in a process worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.indices import as_slice
from ...core.source import Source
from ...core.view import View
from ...core.worker import empty, is_placing
from ..gather.gather import Gather
from ..shard import Shard

__all__ = ["Stacked", "borrowed", "in_shared_memory"]


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
    is_of_numpy = any(collate_fn is function for function in (np.asarray, np.array, np.stack))
    return Stacked(collate_fn) if is_of_numpy else collate_fn


def borrowed(view: View[Any], indices: range) -> np.ndarray[Any, Any] | None:
    """Return the memory of an array source that has these items, for a function that copies them, or None."""
    while isinstance(view, Shard) or (type(view) is Gather and view._readable):
        found, view = view._many(indices), view._sources[0]
        if not isinstance(found, range):
            return None
        indices = found
    if isinstance(view, Source) and isinstance(view._data, np.ndarray):
        return view._data[as_slice(indices)]
    return None


def _alike(items: list[Any]) -> bool:
    """Are they arrays of one shape?"""
    shape = getattr(items[0], "shape", ()) if items else ()
    return bool(shape) and all(type(item) is np.ndarray and item.shape == shape for item in items)
