"""`window`: successive items in groups that may overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..checks import positive_int
from ..errors import EndOfSequence
from ..indices import UNKNOWN, Endless, Indices, Length, Plan, Unsized, as_list, each
from ..iteration import draw, first_error, surviving, until_the_end
from ..source import as_view
from ..view import Indexable, T, View, sized
from .last import Last, check_last

__all__ = ["Window", "window"]


def window(
    sequence: Indexable[T], size: int, stride: int = 1, *, last: Last | None = None, pad: Any = None
) -> View[list[T]]:
    """Return the view of lists of `size` successive items, starting at every `stride`-th item.

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

    Returns
    -------
    View
        Of length ``(n - size) // stride + 1`` if items are discarded and n is at least `size`.

    Raises
    ------
    TypeError
        If `size` or `stride` is not an int, or `sequence` cannot be indexed.
    ValueError
        If `size` or `stride` is below 1, `last` is unknown, or `last` contradicts `pad`.

    Notes
    -----
    One batched read of `size` items per access. Iteration reads items that windows share once.
    After ``slice_sequence`` of GluonNLP; known elsewhere as ``windowed``, ``sliding_window``, ``rolling``.
    The stride is also called ``hop`` or ``shift``.

    Examples
    --------
    >>> list(window("abcde", 3))
    [['a', 'b', 'c'], ['b', 'c', 'd'], ['c', 'd', 'e']]
    >>> list(window([1, 2, 3, 4], 3, stride=2, pad=0))
    [[1, 2, 3], [3, 4, 0]]
    """
    size = positive_int(size, "window: size")
    stride = positive_int(stride, "window: stride")
    policy = check_last(last, pad, "discard", "window")
    return sized(Window(as_view(sequence, "window"), size, stride, policy, pad))


class Window(View[Any]):
    """The view that `window` returns."""

    def __init__(self, source: View[Any], size: int, stride: int, last: Last, pad: Any) -> None:
        super().__init__((source,))
        self._size = size
        self._stride = stride
        self._last = last
        self._pad = pad

    def _length(self) -> Length:
        n = self._sources[0]._n
        if isinstance(n, Unsized):
            return n
        if self._last == "discard":
            return max((n - self._size) // self._stride + 1, 0)
        # As many as it takes to have every item, or to start after the last item.
        return min(-(-max(n - self._size, 0) // self._stride) + 1, -(-n // self._stride))

    def _members(self, i: int) -> range:
        start = i * self._stride
        return range(start, int(min(start + self._size, self._sources[0]._n)))

    def _finish(self, items: list[Any]) -> list[Any]:
        missing = self._size - len(items) if self._last == "pad" else 0
        return items + [self._pad] * missing

    def _checked(self, i: int, items: list[Any]) -> list[Any]:
        """Return the items of a window, or raise if the sequence ends before it."""
        least = len(self._members(i))
        if self._last != "discard" and self._sources[0]._n is UNKNOWN:
            least = 1 + (max(self._size - self._stride, 0) if i else 0)
        if len(items) < least:
            raise EndOfSequence(f"the sequence ends before window {i}")
        return items[:]

    def _get(self, i: int) -> Any:
        source, members = self._sources[0], self._members(i)
        if source._n is not UNKNOWN:
            return self._finish(list(source._getmany(members)))
        failed: dict[int, Exception] = {}
        items = until_the_end(source, members, failed)
        # An item that is in the window before, too, does not show that this window exists.
        known = members.start + (max(self._size - self._stride, 0) if i else 0)
        if not failed or max(failed) < known:
            items = self._checked(i, items)
        if failed:
            raise first_error(failed)
        return self._finish(items)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        source, wanted = self._sources[0], as_list(indices)
        if source._n is UNKNOWN or not wanted:
            return super()._getmany(wanted)
        needed: range | list[int]
        if isinstance(indices, range) and 0 < indices.step * self._stride <= self._size:
            needed = range(self._members(indices[0]).start, self._members(indices[-1]).stop)
        else:
            needed = sorted({j for i in wanted for j in self._members(i)})
        found = dict(zip(needed, source._getmany(needed), strict=True))
        return [self._finish([found[j] for j in self._members(i)]) for i in wanted]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        apart = self._stride >= self._size and not self._reads_ahead
        unclear = self._sources[0]._n is UNKNOWN and not isinstance(plan, Endless)
        if apart or unclear:
            return super()._iter(plan)  # one batched read per window
        return self._stream(plan, self._sources[0]._iter(self._item_plan(plan)))

    def _item_plan(self, plan: Plan) -> Plan:
        """Return the plan of the source: the items that the window before does not have."""
        if isinstance(plan, Endless) and self._stride <= self._size:
            return plan
        if isinstance(plan, range) and plan and 0 < plan.step * self._stride <= self._size:
            return range(self._members(plan[0]).start, self._members(plan[-1]).stop)
        return _Fresh(plan, self._members)

    def _stream(self, plan: Plan, items: Iterator[Any]) -> Iterator[Any]:
        """Make windows of the items of `_item_plan`, and of the items shared with the window before."""
        held, kept = range(0), list[Any]()
        failed: dict[int, Exception] = {}

        def read(i: int) -> Any:
            nonlocal held, kept, failed
            members = self._members(i)
            shared = _overlap(members, held)
            kept = kept[shared.start - held.start : shared.stop - held.start]
            fresh: dict[int, Exception] = {}
            if members.start < shared.start:
                kept = draw(items, members.start, shared.start, fresh) + kept
            kept += draw(items, shared.stop, members.stop, fresh)
            held = members
            if fresh or failed:
                failed = {j: error for j, error in failed.items() if j in members} | fresh
            found = kept[:] if fresh else self._checked(i, kept)
            if failed:
                raise failed[min(failed)]
            return self._finish(found)

        return surviving(self, plan, read)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._members(i)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Window(sources[0], self._size, self._stride, self._last, self._pad)

    def _arguments(self, sources: list[str]) -> list[str]:
        last = [] if self._last == "discard" else [f"last={self._last!r}"]
        return [*sources, str(self._size), *[f"stride={self._stride}"] * (self._stride > 1), *last]


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
