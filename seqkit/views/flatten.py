"""`flatten`: the items of the items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ..checks import int_at_least
from ..errors import EndOfSequence, fail
from ..indices import UNBOUNDED, UNKNOWN, IndexArray, Indices, Plan, Translated, Unsized, as_array, as_list
from ..iteration import surviving
from ..source import as_view
from ..values import values_of
from ..view import Indexable, T, View, in_order, is_measured, sized
from .deferred import Deferred
from .groups import Groups

__all__ = ["Flatten", "flatten"]


def flatten(sequence: Indexable[Indexable[T]], lengths: Iterable[SupportsIndex] | None = None) -> View[T]:
    """Return the view of the items of all sequences in a sequence, one after another.

    Parameters
    ----------
    sequence : View or indexable
        Of sized, indexable sequences, which may differ in length.
    lengths : sequence of int, optional
        The length of each sequence. None (the default) reads all sequences once, in order, when the length or
        an item is first requested, and keeps their lengths. A view of lengths is read at that time too, and
        keyed for the same epochs as `sequence`.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, if it is unbounded and there are no `lengths`, or if `lengths` are
        not ints.
    ValueError
        If the number of `lengths` is wrong, or one is negative. An item raises it if its sequence has another
        length.

    Notes
    -----
    Random access: one binary search and one sequence read per item. Iteration and batched reads read each
    sequence once. 8 bytes per sequence. After ``flatten`` of Julia's MLUtils and ``flat_map`` of tf.data. See
    `concatenate` to join a few given sequences, and `unbatch` for batches of equal size.

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


class Flatten(View[Any]):
    """The view that `flatten` returns. A second source has the lengths of the sequences in the first one.

    `_ends` has the end of each sequence: the index after its last item.
    """

    _length_reads = True

    def __init__(self, sources: tuple[View[Any], ...]) -> None:
        super().__init__(sources)
        self._found: Deferred[IndexArray] = Deferred()
        self._check()

    def _check(self) -> None:
        """Refuse sources that do not fit, as far as their lengths are known without reading items."""
        source, *given = self._sources
        n = source._n if is_measured(source) else UNKNOWN
        if not given and n is UNBOUNDED:
            raise TypeError("flatten: a sequence that never ends needs lengths, got None")
        if given and is_measured(given[0]):
            if isinstance(given[0]._n, Unsized):
                raise TypeError(f"flatten: lengths must be a sequence with a length, got {given[0]!r}")
            if not isinstance(n, Unsized) and given[0]._n != n:
                raise ValueError(f"flatten: lengths must be as many as the sequences, {n}, got {given[0]._n}")

    @property
    def _ends(self) -> IndexArray:
        return self._found.get(self._measure)

    def _length(self) -> int:
        ends = self._ends
        return int(ends[-1]) if len(ends) else 0

    def _measure(self) -> IndexArray:
        measured = enumerate(in_order(self._sources[-1]))
        lengths = [self._size(which, item) for which, item in measured]
        self._check()
        return np.cumsum(lengths, dtype=np.int64)

    def _size(self, which: int, item: Any) -> int:
        try:
            if len(self._sources) == 1:
                return len(item)
            return int_at_least(item, f"flatten: lengths[{which}]", 0)
        except Exception as error:
            fail(self, which, error, f"measuring item {which} of the sequence")

    def _which(self, block: Indices) -> IndexArray:
        """Return the number of the sequence of each item."""
        return np.searchsorted(self._ends, as_array(block), side="right")

    def _start(self, which: int) -> int:
        return int(self._ends[which - 1]) if which else 0

    def _pick(self, i: int, which: int, items: Any, start: int | None = None) -> Any:
        """Return item `i` of its sequence. `start` is the first index of a sequence that was checked."""
        try:
            if start is None:
                start = self._checked_start(which, items)
            return items[i - start]
        except Exception as error:
            fail(self, i, error)

    def _checked_start(self, which: int, items: Any) -> int:
        """Return the index of the first item of a sequence, after checking the length of the sequence."""
        start = self._start(which)
        size = int(self._ends[which]) - start
        if len(items) != size:
            raise ValueError(f"flatten: sequence {which} has {len(items)} items, expected {size}")
        return start

    def _get(self, i: int) -> Any:
        which = int(self._ends.searchsorted(i, "right"))
        try:
            items = self._sources[0]._get(which)
        except EndOfSequence:
            self._refuse(i)
        return self._pick(i, which, items)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        which = as_list(self._which(indices))
        needed = sorted(set(which))
        try:
            found = dict(zip(needed, self._sources[0]._getmany(needed), strict=True))
        except EndOfSequence:
            self._refuse(as_list(indices)[which.index(needed[-1])])
        starts: dict[int, int] = {}
        items: list[Any] = []
        for i, w in zip(as_list(indices), which, strict=True):
            items.append(self._pick(i, w, found[w], starts.get(w)))
            if w not in starts:
                starts[w] = self._start(w)
        return items

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Read each sequence once for all its consecutive items in the plan."""
        if self._sources[0]._n is UNKNOWN and not (isinstance(plan, range) and plan.step == 1):
            return super()._iter(plan)  # the iteration would stop at the end of the sequences
        groups = Groups(self._sources[0]._iter(self._outer_plan(plan)))
        numbers, held, start = iter(Translated(plan, self._which)), -1, None

        def read(i: int) -> Any:
            nonlocal held, start
            which = next(numbers)
            if which != held:
                held, start = which, None
            try:
                items = groups.read(which)
            except EndOfSequence:
                self._refuse(i)
            item = self._pick(i, which, items, start)
            if start is None:
                start = self._start(which)
            return item

        return surviving(self, plan, read)

    def _refuse(self, i: int) -> NoReturn:
        """Raise an error for item `i`: the sequences ended too early, which is not the end of this view."""
        fail(self, i, EndOfSequence("there is no further group"))

    def _outer_plan(self, plan: Plan) -> Plan:
        if isinstance(plan, range) and plan.step == 1 and plan:
            first, last = self._which([plan[0], plan[-1]]).tolist()
            if last - first < 2 or np.diff(self._ends[first:last]).all():
                return range(first, last + 1)
        return _Changes(Translated(plan, self._which))

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (int(self._which([i])[0]),)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        rebuilt = Flatten(sources)
        if sources[-1] is self._sources[-1]:
            rebuilt._found = self._found
        return rebuilt


class _Changes:
    """A plan without immediate repeats of an index."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> Iterator[int]:
        return (i for i, _ in groupby(self.plan))
