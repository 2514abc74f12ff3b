"""`filter`: the items that a function says yes to."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..checks import as_bool, check_callable
from ..errors import fail
from ..indices import UNBOUNDED, IndexArray, Indices, Plan, Unsized, compact
from ..source import as_view
from ..view import Indexable, T, View, in_order, is_measured, name_of
from .deferred import Deferred

__all__ = ["Filter", "filter"]


def filter(  # noqa: A001 - the field's word for it
    pred: Callable[[T], Any],
    sequence: Indexable[T],
    *,
    eager: bool = False,
    progress: Callable[[int, int | None], Any] | None = None,
) -> Filter[T]:
    """Return the view of those items of a sequence for which a function is true.

    Which they are is found out by one scan over the sequence, when the length or an item is first asked
    for, and remembered. Most other combinators ask for the length when they are laid over the view.

    Parameters
    ----------
    pred : callable
        Called once with every item; what it returns counts as true or false.
    sequence : View or indexable
        With an end. The scan iterates it: a `prefetch` node is scanned by its workers.
    eager : bool
        Scan at once.
    progress : callable, optional
        Called during the scan after every item, with how many are done and how many there are (None where
        nobody knows). What it raises ends the scan. Copies and pickles of the view are without.

    Returns
    -------
    Filter
        Its `indices` are the positions of its items in `sequence`.

    Raises
    ------
    TypeError
        If `pred` or `progress` is not callable, `eager` no bool, or `sequence` cannot be indexed or never
        ends.

    Notes
    -----
    As one `gather` over the indices, which take 1 to 8 bytes each, as few as the length of `sequence` allows.
    An item is evaluated twice, in the scan and when it is read: filter something cheap, such as labels, and
    `gather` the rest by the same `indices`. An item that `pred` fails for fails the scan; the next read
    begins anew. After ``filter`` of Gluon; known elsewhere as ``where``, ``filterobs``.

    Examples
    --------
    >>> even = filter(lambda x: x % 2 == 0, [3, 4, 8, 1, 6])
    >>> len(even), even[-1], list(even), even.indices.tolist()
    (3, 6, [4, 8, 6], [1, 2, 4])
    """
    check_callable(pred, "filter: pred")
    check_callable(progress, "filter: progress", optional=True)
    is_eager = as_bool(eager, "filter: eager")
    source = as_view(sequence, "filter")
    if is_measured(source) and source._n is UNBOUNDED:
        raise TypeError(f"filter: the sequence needs an end, and has none: {UNBOUNDED.reason}")
    filtered = Filter(pred, source, progress)
    if is_eager:
        len(filtered)
    return filtered


class Chosen(NamedTuple):
    """What a scan finds: the indices of the items, and the view of them."""

    indices: IndexArray
    view: View[Any]


class Filter(View[T]):
    """The view behind `filter`: a gather whose indices are found when they are needed."""

    _length_reads = True

    def __init__(
        self,
        pred: Callable[[Any], Any],
        source: View[T],
        progress: Callable[[int, int | None], Any] | None,
    ) -> None:
        super().__init__((source,))
        self._pred = pred
        self._progress = progress
        self._scanned: Deferred[Chosen] = Deferred()

    @property
    def indices(self) -> IndexArray:
        """The positions of the items in the filtered sequence, in ascending order: an int array."""
        return self._chosen.indices

    @property
    def _chosen(self) -> Chosen:
        return self._scanned.get(self._scan)

    def _length(self) -> int:
        return len(self._chosen.indices)

    def _scan(self) -> Chosen:
        source, found, count = self._sources[0], array("q"), 0
        total = None if isinstance(source._n, Unsized) else source._n
        for j, item in enumerate(in_order(source)):
            if self._is_wanted(j, item):
                found.append(j)
            count = j + 1
            if self._progress is not None:
                self._progress(count, total)
        indices = compact(np.array(found, np.int64), count)
        indices.flags.writeable = False
        return Chosen(indices, source._take(indices))

    def _is_wanted(self, j: int, item: Any) -> bool:
        try:
            return bool(self._pred(item))
        except Exception as error:
            fail(self, j, error, f"in pred, for item {j} of the sequence")

    def _get(self, i: int) -> Any:
        return self._chosen.view._get(i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._chosen.view._getmany(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self._chosen.view._iter(plan)

    def _take(self, indices: range | IndexArray) -> View[Any]:
        return self._chosen.view._take(indices) if self._scanned.known else super()._take(indices)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._chosen.view._set(i, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return self._chosen.view._parts(i)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        rebuilt = Filter(self._pred, sources[0], self._progress)
        if sources[0] is self._sources[0]:
            rebuilt._scanned = self._scanned
        return rebuilt

    def __reduce__(self) -> tuple[Any, ...]:
        # Without `progress`, which speaks to who made the view, often through what cannot travel.
        return _restored, (self._pred, self._sources[0], self._scanned)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._pred), *sources]


def _restored(pred: Callable[[Any], Any], source: View[Any], scanned: Deferred[Chosen]) -> Filter[Any]:
    restored = Filter(pred, source, None)
    restored._scanned = scanned
    return restored
