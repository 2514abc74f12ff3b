"""`split`: a sequence cut into parts."""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, SupportsIndex, overload

import numpy as np

from ..core.arguments import int_at_least
from ..core.errors import fail
from ..core.indices import IndexArray
from ..core.lengths import needed_length, sized
from ..core.once import cached
from ..core.plain import as_index
from ..core.source import Source, as_view
from ..core.values import by_position
from ..core.view import Indexable, T, View

__all__ = ["Split", "split"]

Edges = SupportsIndex | Iterable[SupportsIndex] | Iterable[Iterable[SupportsIndex]]


@overload
def split(sequence: View[T], edges: Edges) -> View[View[T]]: ...
@overload
def split(sequence: list[T], edges: Edges) -> View[list[T]]: ...
@overload
def split(sequence: Indexable[Any], edges: Edges) -> View[Any]: ...
def split(sequence: Any, edges: Any) -> View[Any]:
    """Return the view of the parts of a sequence, cut at `edges`.

    A part is a slice of the sequence: a list for a list, an array for an array, a view for a view or for an
    object that cannot be sliced. A part is made when it is read.

    Parameters
    ----------
    sequence : View or indexable
        Of known length n.
    edges : int, iterable of int, or iterable of (int, int)
        An int, 0 or more: the number of cuts, which make ``edges + 1`` parts of equal length. Ints in
        ascending order: the positions of the cuts. ``[3, 5]`` cuts into ``[:3]``, ``[3:5]`` and ``[5:]``.
        Pairs (start, stop): the parts, in any order. They may overlap or leave gaps. Positions are those of
        slices: negative ones count from the end, and those past either end mean that end.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, or if `edges` is something else.
    ValueError
        If the parts cannot be equal, the number of cuts is negative, or positions are not in order.

    Notes
    -----
    One slice per access, and two ints of memory per part. After ``split`` of SeqTools, where a
    part past the end has one item and negative positions mean 0. Known elsewhere as ``array_split``,
    ``chunks``.

    Examples
    --------
    >>> list(split([1, 2, 3, 4, 5, 6], 2))
    [[1, 2], [3, 4], [5, 6]]
    >>> list(split("abcdef", [1, -2]))
    ['a', 'bcd', 'ef']
    >>> list(split("abcdef", [(0, 4), (2, 6), (9, 12)]))
    ['abcd', 'cdef', '']
    >>> import numpy as np
    >>> train, test = split(np.arange(10) ** 2, [8])
    >>> test
    array([64, 81])
    """
    return sized(Split(as_view(sequence, "split"), _listed(edges)))


def _listed(edges: Any) -> int | list[int] | list[tuple[int, int]]:
    """Return the edges as an int, a list of ints or a list of pairs."""
    if hasattr(edges, "__index__") and not getattr(edges, "ndim", 0):
        return int_at_least(edges, "split: edges", 0)
    if not isinstance(edges, Iterable) or isinstance(edges, str | bytes):
        raise _unfit(edges)
    marks = list(by_position(edges, "split: edges"))
    try:
        return [as_index(mark) for mark in marks]
    except TypeError:
        return [_pair(mark, edges) for mark in marks]


def _pair(mark: Any, edges: Any) -> tuple[int, int]:
    try:
        start, stop = map(as_index, mark)
    except (TypeError, ValueError):
        raise _unfit(edges) from None
    return start, stop


def _bounds(edges: Any, n: int) -> list[tuple[int, int]]:
    """Return where each part of a sequence of n items starts and stops."""
    if isinstance(edges, int):
        parts = edges + 1
        if n % parts:
            raise ValueError(
                f"split: edges must be a number of cuts that makes equal parts, got {edges}"
                f" for a sequence of length {n}, which {parts} does not divide"
            )
        size = n // parts
        return [(i * size, (i + 1) * size) for i in range(parts)]
    if all(isinstance(mark, int) for mark in edges):
        return _between(edges, n)
    return [_range(start, stop, n) for start, stop in edges]


def _between(cuts: list[int], n: int) -> list[tuple[int, int]]:
    wrapped = [cut + n if cut < 0 else cut for cut in cuts]
    if wrapped != sorted(wrapped):
        raise ValueError(f"split: edges must be in ascending order, got {cuts} for a sequence of length {n}")
    return list(pairwise([0, *(min(max(cut, 0), n) for cut in wrapped), n]))


def _range(start: int, stop: int, n: int) -> tuple[int, int]:
    start, stop, _ = slice(start, stop).indices(n)
    return start, max(start, stop)


def _unfit(edges: Any) -> TypeError:
    return TypeError(
        f"split: edges must be an int, ints in order, or pairs (start, stop), got {reprlib.repr(edges)}."
        " For fractions use random_split, or split(sequence, [int(fraction * len(sequence))])."
    )


class Split(View[Any]):
    """The view that `split` returns."""

    def __init__(self, source: View[Any], edges: int | list[int] | list[tuple[int, int]]) -> None:
        super().__init__((source,))
        self._edges = edges
        self._slices = isinstance(source, Source) and _slices_itself(source._data)

    @cached
    def _bounds(self) -> IndexArray:
        """An array with a row (start, stop) for each part."""
        n = needed_length(self._sources[0], "split")
        return np.array(_bounds(self._edges, n), np.int64).reshape(-1, 2)

    def _length(self) -> int:
        return len(self._bounds)

    def _members(self, i: int) -> range:
        return range(*self._bounds[i].tolist())

    def _get(self, i: int) -> Any:
        source, members = self._sources[0], self._members(i)
        if not self._slices or not isinstance(source, Source):
            return source._named(members)
        try:
            return source._data[members.start : members.stop]
        except Exception as error:
            fail(self, i, error)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        members, values = self._members(i), list(value)
        if len(values) != len(members):
            raise ValueError(f"split: assigned {len(values)} values to a part of {len(members)} items")
        source = self._sources[0]
        return [w for j, item in zip(members, values, strict=True) for w in source._set(j, item)]

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._members(i)),)

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ()  # a part is a view, of which nothing may be read

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return (self._edges,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Split(sources[0], self._edges)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, reprlib.repr(self._edges)]


def _slices_itself(data: Any) -> bool:
    """Is ``data[a:b]`` known to be the sequence of ``data[a]`` to ``data[b - 1]``?"""
    kinds = (list, tuple, str, bytes, bytearray, memoryview, range, array)
    return isinstance(data, kinds) or hasattr(data, "__array__")
