"""`window`: successive items in groups that may overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.arguments import Last, as_last, check_callable, positive_int
from ..core.errors import EndOfSequence
from ..core.indices import Endless, Indices, Plan, as_list, each
from ..core.iteration import draw, surviving, until_the_end
from ..core.lengths import UNKNOWN, Length, Unsized, sized, streams
from ..core.source import as_view
from ..core.view import Indexable, View
from .bases.grouped import Grouped
from .bases.selection import gives_arrays

__all__ = ["Window", "window"]


def window(
    sequence: Indexable[Any],
    size: int,
    stride: int = 1,
    *,
    last: Last | None = None,
    pad: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
) -> View[Any]:
    """Return the view of lists of `size` successive items, starting at every `stride`-th item.

    Windows of an array or a memory map are arrays, and so are those of a slice, share or shuffle of one.

    Parameters
    ----------
    sequence : View or indexable
        May be unbounded.
    size : int
        Items per window, 1 or more.
    stride : int
        Distance between the starts of neighbouring windows, 1 or more. From `size` on, windows do not
        overlap.
    last : "discard", "keep" or "pad", optional
        Items after the last full window are discarded, kept in a short window, or kept in a window filled
        with `pad`. None (the default) discards them, unless `pad` is given.
    pad : object
        Fills a short last window. None is legal with ``last="pad"``.
    collate_fn : callable, optional
        Makes a window of the list of items. Pass ``list`` for lists of the numbers of an array.

    Returns
    -------
    View
        Of length ``(n - size) // stride + 1`` if items are discarded and n is at least `size`.

    Raises
    ------
    TypeError
        If `size` or `stride` is not an int, `collate_fn` not callable, or `sequence` cannot be indexed.
    ValueError
        If `size` or `stride` is below 1, `last` is unknown, or `last` contradicts `pad`.

    Notes
    -----
    One batched read of `size` items per access. Iteration reads items that windows share once. A window of
    an array is a copy, unless the array is read-only, such as a memory map of mode "r".
    After ``slice_sequence`` of GluonNLP; known elsewhere as ``windowed``, ``sliding_window``, ``rolling``.
    The stride is also called ``hop`` or ``shift``.

    Examples
    --------
    >>> list(window("abcde", 3))
    [['a', 'b', 'c'], ['b', 'c', 'd'], ['c', 'd', 'e']]
    >>> list(window([1, 2, 3, 4], 3, stride=2, pad=0))
    [[1, 2, 3], [3, 4, 0]]
    >>> import numpy as np
    >>> window(np.arange(100), 4)[90]
    array([90, 91, 92, 93])
    """
    size = positive_int(size, "window: size")
    stride = positive_int(stride, "window: stride")
    policy = as_last(last, "window: last", pad=pad, default="discard")
    check_callable(collate_fn, "window: collate_fn", ("items",), optional=True)
    return sized(Window(as_view(sequence, "window"), size, stride, policy, pad, collate_fn))


class Window(Grouped):
    """The view that `window` returns."""

    def __init__(
        self,
        source: View[Any],
        size: int,
        stride: int,
        last: Last,
        pad: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
    ) -> None:
        super().__init__(source, size, last, pad, collate_fn)
        self._stride = stride
        self._streams = stride <= size
        # The pad of an array must be a value of it.
        makes_arrays = collate_fn is None and (last != "pad" or pad is not None)
        self._slices = gives_arrays(source) and (makes_arrays or self._takes_arrays)

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
        """Return the items of a window, or raise if the sequence ends before it."""
        least = len(self._members(i, n))
        if self._last != "discard" and n is UNKNOWN:
            least = 1 + (max(self._size - self._stride, 0) if i else 0)
        if len(items) < least:
            raise EndOfSequence(f"the sequence ends before window {i}")
        return items[:]

    def _get(self, i: int) -> Any:
        source, n = self._sources[0], self._sources[0]._n
        members = self._members(i, n)
        if n is UNKNOWN:
            return self._finish(i, self._checked(i, until_the_end(source, members), n))
        items = source._getmany(members)
        return self._filled(items) if self._slices and self._collate_fn is None else self._finish(i, items)

    def _filled(self, items: Any) -> Any:
        """Return a window of an array, filled up if it is short."""
        missing = self._size - len(items) if self._last == "pad" else 0
        if not missing:
            return items
        return np.concatenate([items, np.full((missing, *items.shape[1:]), self._pad, items.dtype)])

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        source, wanted = self._sources[0], as_list(indices)
        n = source._n
        if n is UNKNOWN or not wanted or self._slices:
            return super()._getmany(wanted)
        needed: range | list[int]
        if isinstance(indices, range) and 0 < indices.step * self._stride <= self._size:
            needed = range(self._members(indices[0], n).start, self._members(indices[-1], n).stop)
        else:
            needed = sorted({j for i in wanted for j in self._members(i, n)})
        found = dict(zip(needed, source._getmany(needed), strict=True))
        return [self._finish(i, [found[j] for j in self._members(i, n)]) for i in wanted]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        source = self._sources[0]
        if isinstance(plan, Endless) and streams(self):
            return self._stream(plan, source._iter(plan), UNKNOWN)
        apart = (self._stride >= self._size or self._slices) and not self._reads_ahead
        unclear = source._n is UNKNOWN and not isinstance(plan, Endless)
        if apart or unclear:
            return super()._iter(plan)  # one batched read per window
        return self._stream(plan, source._iter(self._item_plan(plan)), source._n)

    def _item_plan(self, plan: Plan) -> Plan:
        """Return the plan of the source: the items that the window before does not have."""
        n = self._sources[0]._n
        if isinstance(plan, Endless) and self._stride <= self._size:
            return plan
        if isinstance(plan, range) and plan and 0 < plan.step * self._stride <= self._size:
            return range(self._members(plan[0], n).start, self._members(plan[-1], n).stop)
        return _Fresh(plan, lambda i: self._members(i, n))

    def _stream(self, plan: Plan, items: Iterator[Any], n: Length) -> Iterator[Any]:
        """Make windows of the items of `_item_plan`, and of the items shared with the window before."""
        held, kept = range(0), list[Any]()
        failed: dict[int, Exception] = {}

        def read(i: int) -> Any:
            nonlocal held, kept, failed
            members = self._members(i, n)
            shared = _overlap(members, held)
            kept = kept[shared.start - held.start : shared.stop - held.start]
            fresh: dict[int, Exception] = {}
            if members.start < shared.start:
                kept = draw(items, members.start, shared.start, fresh) + kept
            kept += draw(items, shared.stop, members.stop, fresh)
            held = members
            if fresh or failed:
                failed = {j: error for j, error in failed.items() if j in members} | fresh
            found = kept[:] if fresh else self._checked(i, kept, n)
            if failed:
                raise failed[min(failed)]
            return self._finish(i, found)

        return surviving(self, plan, read)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._members(i, self._sources[0]._n)),)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return self._size, self._stride, self._last

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Window(sources[0], self._size, self._stride, self._last, self._pad, self._given_fn)

    def _arguments(self, sources: list[str]) -> list[str]:
        last = [] if self._last == "discard" else [f"last={self._last!r}"]
        stride = [f"stride={self._stride}"] * (self._stride > 1)
        return [*sources, str(self._size), *stride, *last, *self._function_arguments()]


def _overlap(members: range, held: range) -> range:
    """Return the common part of two ranges of step 1, or an empty range at the end of `members`."""
    start, stop = max(members.start, held.start), min(members.stop, held.stop)
    return range(start, stop) if start < stop else range(members.stop, members.stop)


class _Fresh:
    """The plan of the items that each window has and the window before does not have."""

    def __init__(self, plan: Plan, members: Callable[[int], range]) -> None:
        self.plan = plan
        self.members = members

    def __iter__(self) -> Iterator[int]:
        held = range(0)
        for i in each(self.plan):
            members = self.members(i)
            shared = _overlap(members, held)
            yield from range(members.start, shared.start)
            yield from range(shared.stop, members.stop)
            held = members
