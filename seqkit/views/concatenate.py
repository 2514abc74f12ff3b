"""`concatenate`: sequences one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, overload

import numpy as np

from ..checks import check_sequences
from ..indices import Endless, Indices, Length, Plan, Selected, Unsized, as_array, each
from ..source import as_view
from ..view import Indexable, T, View
from .grouped import iterate_in_turn, read_grouped

__all__ = ["Concatenate", "concatenate"]


@overload
def concatenate(sequences: Iterable[Indexable[T]]) -> View[T]: ...
@overload
def concatenate(sequences: Iterable[Indexable[Any]]) -> View[Any]: ...
def concatenate(sequences: Iterable[Indexable[Any]]) -> View[Any]:
    """Return the view of the items of several sequences, one sequence after the other.

    Parameters
    ----------
    sequences : iterable of View or indexable
        All with a length but the last, which may be unbounded. None at all gives an empty view.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequences` is no iterable, or a mapping; if a sequence cannot be indexed, or one before the last
        has no length.

    Notes
    -----
    One binary search per access; concatenations of concatenations are flattened. After ``concatenate`` of
    SeqTools; known elsewhere as ``ConcatDataset``, ``chain``.

    Examples
    --------
    >>> both = concatenate(["ab", [1, 2, 3]])
    >>> list(both), both[-1]
    (['a', 'b', 1, 2, 3], 3)
    """
    check_sequences(sequences, "concatenate: sequences")
    parts: list[View[Any]] = []
    for source in (as_view(sequence, "concatenate") for sequence in sequences):
        parts.extend(source._sources if type(source) is Concatenate else [source])
    for part in parts[:-1]:
        if isinstance(part._n, Unsized):
            raise TypeError(f"concatenate: only the last sequence may lack a length, {part!r} has none")
    return Concatenate(tuple(parts))


class Concatenate(View[Any]):
    """The view behind `concatenate`; `_starts` holds the first index of every part."""

    def __init__(self, sources: tuple[View[Any], ...]) -> None:
        ends: list[Length] = list(accumulate(source._n for source in sources))
        if sources and isinstance(sources[-1]._n, Unsized):
            ends[-1] = sources[-1]._n  # a sum would be a plain float
        super().__init__(sources, ends[-1] if ends else 0)
        self._starts: list[int] = [0, *map(int, ends[:-1])][: len(sources)]

    def _place(self, i: int) -> tuple[int, int]:
        """Return which part item `i` lies in, and where there."""
        which = bisect_right(self._starts, i) - 1
        return which, i - self._starts[which]

    def _get(self, i: int) -> Any:
        which, j = self._place(i)
        return self._sources[which]._get(j)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted = as_array(indices)
        parts = np.searchsorted(self._starts, wanted, side="right") - 1
        if wanted.size and (parts == parts[0]).all():
            which = int(parts[0])
            return self._sources[which]._getmany(wanted - self._starts[which])
        local = wanted - np.asarray(self._starts)[parts]
        return read_grouped(parts, lambda which, positions: self._sources[which]._getmany(local[positions]))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            return chain.from_iterable(source._iter(source._plan()) for source in self._sources)
        if isinstance(plan, range) and plan.step == 1:
            return chain.from_iterable(source._iter(part) for source, part in self._pieces(plan) if len(part))
        if self._reads_ahead:
            return self._interleaved(plan)
        return super()._iter(plan)

    def _pieces(self, plan: range) -> Iterator[tuple[View[Any], range]]:
        for source, start in zip(self._sources, self._starts, strict=True):
            n = source._n
            stop = plan.stop - start if isinstance(n, Unsized) else min(plan.stop - start, n)
            yield source, range(max(plan.start - start, 0), max(stop, 0))

    def _interleaved(self, plan: Plan) -> Iterator[Any]:
        """Iterate every part over its share of the plan, and pick from them in turn."""

        def share(which: int) -> Plan:
            def local(i: int) -> int | None:
                part, j = self._place(i)
                return j if part == which else None

            return Selected(plan, local)

        turns = (self._place(i)[0] for i in each(plan))
        return iterate_in_turn(self, plan, turns, self._sources, [*map(share, range(len(self._sources)))])

    def _set(self, i: int, value: Any) -> None:
        which, j = self._place(i)
        self._sources[which]._set(j, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        which, j = self._place(i)
        return ((self._sources[which], (j,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Concatenate(sources)

    def _arguments(self, sources: list[str]) -> list[str]:
        return ["[" + ", ".join(sources) + "]"]
