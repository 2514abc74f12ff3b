"""`filter`: the items that satisfy a predicate."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import check_callable
from ..core.errors import fail
from ..core.expression import name_of
from ..core.indices import Endless, IndexArray, Indices, Plan, compact
from ..core.lengths import Length, has_length
from ..core.once import Deferred
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.forwards import read_forwards
from .bases.scanned import END, Scan, Scanned

__all__ = ["Filter", "filter"]


def filter(predicate: Callable[[T], Any], sequence: Indexable[T]) -> Filter[T]:  # noqa: A001
    """Return the view of the items of a sequence that satisfy a predicate.

    A loop over the view yields items while it scans the sequence. The length, and what depends on it, scans
    the sequence first. A completed scan keeps the indices of the items.

    Parameters
    ----------
    predicate : callable
        Called once with each item. Its result is taken as true or false.
    sequence : View or indexable
        May be unbounded. The scan iterates it, so the workers of a `prefetch` view do the scan.

    Returns
    -------
    Filter
        Its `indices` are the positions of its items in `sequence`.

    Raises
    ------
    TypeError
        If `predicate` is not callable, or `sequence` cannot be indexed.

    Notes
    -----
    Reading costs as much as a `gather` over the indices. They take 1 to 8 bytes each, depending
    on the length of `sequence`. A first loop and ``list`` evaluate each item once. Later reads evaluate the
    items that they read. tqdm evaluates them twice, because it asks for the length first. If `predicate` or
    an item fails, a loop raises the error and continues, and the scan keeps nothing. After ``filter`` of
    Gluon; known elsewhere as ``where``, ``filterobs``.

    Examples
    --------
    >>> import seqkit as sk
    >>> even = filter(lambda x: x % 2 == 0, [3, 4, 8, 1, 6])
    >>> len(even), even[-1], list(even), even.indices.tolist()
    (3, 6, [4, 8, 6], [1, 2, 4])
    >>> from itertools import count
    >>> next(iter(filter(lambda x: x > 5, sk.uniter(count))))
    6
    """
    check_callable(predicate, "filter: predicate")
    return Filter(predicate, as_view(sequence, "filter"))


class Chosen(NamedTuple):
    """The result of a scan: the indices of the items, and the view of them."""

    indices: IndexArray
    view: View[Any]


class FilterScan(Scan):
    """A scan that yields the items that satisfy the predicate."""

    def __init__(self, view: Filter[Any], ready: deque[Any] | None = None) -> None:
        super().__init__(view, ready)
        self.indices = array("q")
        self.items_read = 0

    def find(self, source: Iterator[Any]) -> Any:
        view = self.view
        while len(self.indices) != view._most:
            j = self.items_read
            self.items_read += 1  # an item that cannot be read is passed over
            item = next(source, END)
            if item is END:
                self.items_read -= 1
                break
            wanted = view._is_wanted(j, item)
            if wanted:
                self.indices.append(j)
            if self.is_complete and j >= view._asked[0][1]:
                view._asked[0] = self.indices, j + 1
            if wanted:
                return item
        return END

    def step(self, i: int) -> Any:
        item = self.unit()
        if item is END:
            raise self.end(i)
        return item

    def result(self) -> Chosen:
        indices = compact(np.array(self.indices, np.int64), self.items_read)
        indices.flags.writeable = False
        source = self.view._sources[0]
        if self.view._most is not None and not has_length(source):  # whose length is not needed
            source = source.head(self.items_read)
        return Chosen(indices, source._take(indices))


class Filter(Scanned[T]):
    """The view that `filter` returns: a gather whose indices are found when they are needed."""

    _scan = FilterScan
    _passes_on = True

    def __init__(self, predicate: Callable[[Any], Any], source: View[T], most: int | None = None) -> None:
        super().__init__((source,), most)
        self._predicate = predicate
        self._found: Deferred[Chosen] = Deferred()
        # What the longest scan has found: the indices of the items, and how many items of the source were
        # asked. A predicate may remember what it has seen, so no scan asks it again. Replaced as a whole.
        self._asked: list[tuple[array[int], int]] = [(array("q"), 0)]

    @property
    def indices(self) -> IndexArray:
        """The positions of the items in the filtered sequence, in ascending order: an int array."""
        return self._chosen.indices

    @property
    def _chosen(self) -> Chosen:
        chosen: Chosen = self._scanned()
        return chosen

    def _length(self) -> Length:
        return self._chosen.view._n

    def _forget(self) -> None:
        super()._forget()
        self._asked = [(array("q"), 0)]

    def _first(self, most: int) -> View[T]:
        first = type(self)(self._predicate, self._sources[0], most)
        first._asked = self._asked
        return first

    def _is_wanted(self, j: int, item: Any) -> bool:
        """Ask the predicate about item `j` of the source, unless an earlier scan did."""
        ((indices, asked),) = self._asked
        if j < asked:
            place = bisect_left(indices, j)
            return place < len(indices) and indices[place] == j
        try:
            return bool(self._predicate(item))
        except Exception as error:
            fail(self, j, error, f"in predicate, for item {j} of the sequence")

    def _get(self, i: int) -> Any:
        return read_forwards(self, i) if self._is_unsized else self._chosen.view._get(i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return super()._getmany(indices) if self._is_unsized else self._chosen.view._getmany(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            return self._stream()
        return super()._iter(plan) if self._is_unsized else self._chosen.view._iter(plan)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._chosen.view._set(i, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return self._chosen.view._parts(i) if self._found.known else ()

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return (self._most,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        rebuilt = type(self)(self._predicate, sources[0], self._most)
        if sources[0] is self._sources[0]:
            rebuilt._found, rebuilt._asked = self._found, self._asked
        return rebuilt

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._predicate,)

    def _arguments(self, sources: list[str]) -> list[str] | str:
        most = [] if self._most is None else [f"most={self._most}"]
        return [name_of(self._predicate), *sources, *most]
