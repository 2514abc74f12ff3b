"""`Grouped`: the base of `batch` and `window`, which make groups of successive items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ahead import Ranges, runs
from ...core.arguments import Last
from ...core.errors import EndOfSequence, fail
from ...core.expression import name_of
from ...core.indices import Endless, Expanded, Indices, Plan, as_list
from ...core.iteration import draw, first_error, surviving, until_the_end
from ...core.lengths import UNKNOWN, Length, Unsized, has_length, streams
from ...core.once import cached
from ...core.view import View
from ...core.worker import empty, is_placing
from .columns import collated

__all__ = ["Grouped", "Stacked"]


class Grouped(View[Any]):
    """A view of lists of items, or of what `collate_fn` makes of them.

    A group starts at each `stride`-th item.
    """

    def __init__(
        self,
        source: View[Any],
        size: int,
        stride: int,
        last: Last,
        pad: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
    ) -> None:
        super().__init__((source,))
        self._size = size
        self._stride = stride
        self._streams = stride <= size
        self._last = last
        self._pad = pad
        self._given_fn = collate_fn
        self._collate_fn = in_shared_memory(collate_fn)
        # A collate function with this attribute gets the items of an array source as one array.
        self._takes_arrays: bool = getattr(self._collate_fn, "takes_arrays", False)

    @cached
    def _reads_apart(self) -> bool:
        """Is there one batched read per group?"""
        return self._stride >= self._size

    def _length(self) -> Length:
        n = self._sources[0]._n
        if isinstance(n, Unsized):
            return n
        if self._last == "discard":
            return max((n - self._size) // self._stride + 1, 0)
        # As many as it takes to have every item, or to start after the last item.
        return min(-(-max(n - self._size, 0) // self._stride) + 1, -(-n // self._stride))

    def _members(self, i: int, n: Length) -> range:
        start = i * self._stride
        return range(start, int(min(start + self._size, n)))

    def _checked(self, i: int, items: list[Any], n: Length) -> list[Any]:
        """Return the items of a group, or raise if the sequence ends before it."""
        least = len(self._members(i, n))
        if self._last != "discard" and n is UNKNOWN:
            least = 1 + (max(self._size - self._stride, 0) if i else 0)
        if len(items) < least:
            raise EndOfSequence(f"the sequence ends before {self._name} {i}")
        return items

    def _get(self, i: int) -> Any:
        source, n = self._sources[0], self._sources[0]._n
        members = self._members(i, n)
        if n is not UNKNOWN:
            return self._finish(i, source._getmany(members))
        return self._finish(i, self._checked(i, until_the_end(source, members), n))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        source, wanted = self._sources[0], as_list(indices)
        n = source._n
        if n is UNKNOWN or self._reads_apart:
            return super()._getmany(wanted)
        needed = sorted({j for i in wanted for j in self._members(i, n)})
        found = dict(zip(needed, source._getmany(needed), strict=True))
        return [self._finish(i, [found[j] for j in self._members(i, n)]) for i in wanted]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        source = self._sources[0]
        if isinstance(plan, Endless):
            n = UNKNOWN if streams(self) else source._n
            if self._streams:
                return self._in_order(plan, source._iter(plan), n)
            return self._one_by_one(plan, n)
        n = source._n
        if n is UNKNOWN or (self._reads_apart and not self._reads_ahead):
            return super()._iter(plan)
        if isinstance(plan, range) and plan and 0 < plan.step * self._stride <= self._size:
            items = range(self._members(plan[0], n).start, self._members(plan[-1], n).stop)
            return self._in_order(plan, source._iter(items), n)
        return self._one_by_one(plan, n) if self._reads_ahead else super()._iter(plan)

    def _in_order(self, plan: Plan, items: Iterator[Any], n: Length) -> Iterator[Any]:
        """Make groups of successive items. An item that several groups share is drawn once."""
        start, kept = 0, list[Any]()
        failed: dict[int, Exception] = {}

        def read(i: int) -> Any:
            nonlocal start, kept, failed
            members = self._members(i, n)
            kept, start = kept[members.start - start :], members.start
            fresh: dict[int, Exception] = {}
            kept += draw(items, start + len(kept), members.stop, fresh)
            if not fresh:
                self._checked(i, kept, n)  # the sequence may end, after an item that failed
            failed = {j: error for j, error in failed.items() if j in members} | fresh
            if failed:
                raise failed[min(failed)]
            group, kept, start = kept, kept[self._stride :], start + self._stride
            return self._finish(i, group)

        return surviving(self, plan, read)

    def _one_by_one(self, plan: Plan, n: Length) -> Iterator[Any]:
        """Make groups of items that are drawn for each group."""
        items = self._sources[0]._iter(Expanded(plan, lambda i: self._members(i, n)))

        def read(i: int) -> Any:
            members, failed = self._members(i, n), dict[int, Exception]()
            drawn = draw(items, members.start, members.stop, failed)
            if failed:
                raise first_error(failed)
            return self._finish(i, self._checked(i, drawn, n))

        return surviving(self, plan, read)

    def _takes(self, items: Any) -> bool:
        """Can the collate function have the items as they are?"""
        # An array made of single items of other dtypes differs: strings shrink, objects are inspected.
        is_array = self._takes_arrays and isinstance(items, np.ndarray)
        return is_array and items.dtype.kind in "biufcmMV" and items.dtype.isnative

    def _finish(self, i: int, items: Any) -> Any:
        """Make the group of its items."""
        missing = self._size - len(items) if self._last == "pad" else 0
        if missing:
            items = [*items, *[self._pad] * missing]
        if self._collate_fn is None:
            return items if isinstance(items, list) else list(items)
        try:
            return collated(self._collate_fn, items, self._takes(items))
        except Exception as error:
            fail(self, i, error, "in collate_fn")

    def _ahead(self, indices: Indices, width: int) -> Iterator[Ranges]:
        starts = runs(indices, 1, self._n) * self._stride
        return self._sources[0]._ahead(starts, (width - 1) * self._stride + self._size)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._members(i, self._sources[0]._n)),)

    def _head(self, n: int) -> View[Any]:
        if has_length(self):
            return super()._head(n)
        needed = (n - 1) * self._stride + self._size if n else 0
        return self._rebuild((self._sources[0].head(needed),))

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(sources[0], self._size, self._stride, self._last, self._pad, self._given_fn)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return self._size, self._stride, self._last

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
            return self.function(items)
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


def in_shared_memory(collate_fn: Any) -> Any:
    """Return a collate function, those of numpy as `Stacked`.

    >>> in_shared_memory(np.stack)([np.zeros(2), np.zeros(3)])
    Traceback (most recent call last):
    ValueError: all input arrays must have the same shape
    """
    if collate_fn is np.asarray or collate_fn is np.array or collate_fn is np.stack:
        return Stacked(collate_fn)
    return collate_fn


def _alike(items: list[Any]) -> bool:
    """Are they arrays of one shape?"""
    shape = getattr(items[0], "shape", ()) if items else ()
    return bool(shape) and all(type(item) is np.ndarray and item.shape == shape for item in items)
