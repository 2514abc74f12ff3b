"""`flatten`: the items of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from ..core.adapters import recognise
from ..core.arguments import int_at_least
from ..core.errors import fail
from ..core.indices import Endless, IndexArray, Indices, Plan, as_array
from ..core.lengths import Unsized, has_length, is_measured, needed_length, sized
from ..core.once import Deferred
from ..core.source import as_view, owned
from ..core.values import values_of
from ..core.view import Indexable, T, View
from .bases.forwards import read_forwards
from .bases.groups import Group, ItemsOfGroups, KeptGroups
from .bases.scanned import END, Scan, Scanned

__all__ = ["Flatten", "flatten"]


def flatten(sequence: Indexable[Indexable[T]], lengths: Iterable[SupportsIndex] | None = None) -> View[T]:
    """Return the view of the items of all sequences in a sequence, one after another.

    Parameters
    ----------
    sequence : View or indexable
        Of sized, indexable sequences, which may differ in length.
    lengths : sequence of int, optional
        The length of each sequence. None (the default) reads all sequences once, in order, when the length or
        an item is first requested, and keeps their lengths. A loop measures the sequences as it reads them,
        so there may be any number of them. A view of lengths is read when the length is first needed, and
        keyed for the same epochs as `sequence`.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, if `lengths` are not ints, or if they are given and `sequence` has no
        length.
    ValueError
        If the number of `lengths` is wrong, or one is negative. An item raises it if its sequence has another
        length.

    Notes
    -----
    One binary search per item. Each thread keeps the last sequence that it has read, and a worker the last
    two. In order, and in the order of `shuffle_groups`, each worker reads each sequence once. In other orders
    each item may read a sequence. 8 bytes per sequence. After ``flatten``
    of Julia's MLUtils and ``flat_map`` of tf.data. See `concatenate` to join a few given sequences, and
    `unbatch` for batches of equal size.

    Examples
    --------
    >>> words = flatten(["ab", "", "cde"])
    >>> list(words), words[-2], len(words)
    (['a', 'b', 'c', 'd', 'e'], 'd', 5)
    """
    source = as_view(sequence, "flatten")
    if lengths is None:
        return sized(Flatten((source,)))
    known = lengths if isinstance(lengths, View) else as_view(_checked(lengths), "flatten")
    return sized(Flatten((source, known)))


def _checked(lengths: Any) -> list[int]:
    if not isinstance(lengths, Iterable) or isinstance(lengths, str | bytes):
        raise TypeError(f"flatten: lengths must be a sequence of ints, got {lengths!r}")
    given = values_of(lengths, "flatten: lengths")
    return [int_at_least(n, f"flatten: lengths[{i}]", 0) for i, n in enumerate(given)]


class Extents(NamedTuple):
    """The result of a scan: where each sequence ends in the view, and the sequences."""

    ends: IndexArray
    kept: KeptGroups


class FlattenScan(Scan):
    """A scan that yields the items of each sequence after measuring it, or only reads the given lengths."""

    def __init__(self, view: Flatten, ready: deque[Any] | None = None) -> None:
        super().__init__(view, ready)
        self.lengths: list[int] = []
        self._read = self._total = 0  # sequences, and their items
        self._current: Any = ()
        self._rest: Iterator[int] = iter(range(0))  # places in the current sequence

    def find(self, source: Iterator[Any]) -> Any:
        most = self.view._most
        if most is not None and self._total >= most:
            return END
        self._read += 1  # a sequence that cannot be read is passed over
        found = next(source, END)
        if found is not END:
            self.lengths.append(self.view._size(self._read - 1, found))
            self._total += self.lengths[-1]
        return found

    def step(self, i: int) -> Any:
        while i != self.view._most:
            for place in self._rest:
                try:
                    return owned(self._current[place])
                except Exception as error:
                    fail(self.view, i, error)
            current = self.unit()
            if current is END:
                break
            self._current = recognise(current, "flatten")
            self._rest = iter(range(len(self._current)))
        raise self.end(i)

    def result(self) -> Extents:
        self.view._check()
        return self.view._measured(self.lengths)  # type: ignore[no-any-return]


class Flatten(Scanned[Any], ItemsOfGroups):
    """The view that `flatten` returns. A second source has the lengths of the sequences in the first one.

    The end of a sequence is the index after its last item.
    """

    _scan = FlattenScan

    def __init__(self, sources: tuple[View[Any], ...], most: int | None = None) -> None:
        super().__init__(sources, most)
        self._streams = len(sources) == 1
        self._found: Deferred[Extents] = Deferred()
        self._check()

    def _check(self) -> None:
        """Refuse lengths that do not fit, as far as this is known without reading items."""
        source, *given = self._sources
        if not given or not is_measured(given[0]):
            return
        if isinstance(given[0]._n, Unsized):
            raise TypeError(f"flatten: lengths must be a sequence with a length, got {given[0]!r}")
        n = needed_length(source, "flatten") if is_measured(source) else given[0]._n
        if given[0]._n != n:
            raise ValueError(f"flatten: lengths must be as many as the sequences, {n}, got {given[0]._n}")

    @property
    def _ends(self) -> IndexArray:
        found: Extents = self._scanned()
        return found.ends

    @property
    def _kept(self) -> KeptGroups:  # type: ignore[override]
        found: Extents = self._scanned()
        return found.kept

    @property
    def group_sizes(self) -> IndexArray:
        """The number of items of each sequence, for `shuffle_groups`."""
        return np.diff(self._ends, prepend=0)

    def _measured(self, lengths: list[int]) -> Extents:
        source = self._sources[0]
        if self._most is not None and not has_length(source):  # whose length is not needed
            source = source.head(len(lengths))
        return Extents(np.cumsum(lengths, dtype=np.int64), KeptGroups(source))

    def _length(self) -> int:
        ends = self._ends
        n = int(ends[-1]) if len(ends) else 0
        return n if self._most is None else min(n, self._most)

    def _first(self, most: int) -> View[Any]:
        return Flatten(self._sources, most) if self._streams else self._take(range(min(most, int(self._n))))

    def _size(self, which: int, item: Any) -> int:
        try:
            if len(self._sources) == 1:
                return len(recognise(item, f"flatten: sequence {which}"))
            return int_at_least(item, f"flatten: lengths[{which}]", 0)
        except Exception as error:
            fail(self, which, error, f"measuring item {which} of the sequence")

    def _which(self, i: int) -> int:
        return int(self._ends.searchsorted(i, "right"))

    def _whiches(self, indices: Indices) -> IndexArray:
        return np.searchsorted(self._ends, as_array(indices), side="right")

    def _check_group(self, group: Group) -> None:
        start = int(self._ends[group.number - 1]) if group.number else 0
        group.check(int(self._ends[group.number]) - start, "flatten: sequence", start)

    def _get(self, i: int) -> Any:
        return read_forwards(self, i) if self._is_unsized else ItemsOfGroups._get(self, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return (View if self._is_unsized else ItemsOfGroups)._getmany(self, indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless) and self._streams:
            return self._stream()
        return (View if self._is_unsized else ItemsOfGroups)._iter(self, plan)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ItemsOfGroups._parts(self, i) if self._found.known else ()

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return (self._most,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        rebuilt = Flatten(sources, self._most)
        if sources[-1] is self._sources[-1]:
            rebuilt._found = self._found
        return rebuilt

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._most is None else [*sources, f"most={self._most}"]
