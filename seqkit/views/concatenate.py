"""`concatenate`: sequences one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Any, overload

import numpy as np

from ..core.arguments import check_sequences
from ..core.indices import Endless, IndexArray, Indices, Plan, as_array
from ..core.lengths import UNBOUNDED, UNKNOWN, Length, sized
from ..core.once import cached
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.one_of_several import OneOfSeveral

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
        Only the last one may be unbounded. If one has an unknown length, so has the view. An empty iterable
        gives an empty view.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequences` is not an iterable or is a mapping, if a sequence cannot be indexed, or if one before
        the last is unbounded.

    Notes
    -----
    One binary search per access. A concatenation of concatenations is one view. A sequence of unknown
    length before the last one is iterated up to each index. After ``concatenate`` of SeqTools;
    known elsewhere as ``ConcatDataset``, ``chain``.

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
    return sized(Concatenate(tuple(parts)))


class Concatenate(OneOfSeveral):
    """The view that `concatenate` returns."""

    def _length(self) -> Length:
        lengths = [source._n for source in self._sources]
        if any(n is UNBOUNDED for n in lengths[:-1]):
            raise TypeError("concatenate: only the last sequence may be unbounded")
        if any(n is UNKNOWN for n in lengths):
            return UNKNOWN
        return UNBOUNDED if any(n is UNBOUNDED for n in lengths) else int(sum(lengths))

    @cached
    def _starts(self) -> list[int]:
        """The index of the first item of each part."""
        return [*accumulate((int(source._n) for source in self._sources[:-1]), initial=0)]

    def _place(self, i: int) -> tuple[int, int]:
        which = bisect_right(self._starts, i) - 1
        return which, i - self._starts[which]

    def _places(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
        wanted, starts = as_array(indices), np.asarray(self._starts, np.int64)
        which = np.searchsorted(starts, wanted, side="right") - 1
        return which, wanted - starts[which]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            return chain.from_iterable(source._iter(source._plan()) for source in self._sources)
        if isinstance(plan, range) and plan.step == 1 and self._n is not UNKNOWN:
            return chain.from_iterable(source._iter(part) for source, part in self._pieces(plan) if len(part))
        return super()._iter(plan)

    def _pieces(self, plan: range) -> Iterator[tuple[View[Any], range]]:
        for source, start in zip(self._sources, self._starts, strict=False):
            stop = int(min(plan.stop - start, source._n))
            yield source, range(max(plan.start - start, 0), max(stop, 0))

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return ()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Concatenate(sources)

    def _arguments(self, sources: list[str]) -> list[str]:
        return ["[" + ", ".join(sources) + "]"]
