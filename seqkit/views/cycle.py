"""`cycle`: a sequence over and over again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..checks import optional_int
from ..indices import UNBOUNDED, Endless, Indices, Length, Plan, Translated, Unsized, as_array
from ..source import as_view
from ..view import Indexable, T, View

__all__ = ["Cycle", "cycle"]


def cycle(sequence: Indexable[T], limit: int | None = None) -> View[T]:
    """Return the view of a sequence repeated over and over, for ever or up to `limit` items.

    Parameters
    ----------
    sequence : View or indexable
        Of known length; not empty, unless `limit` is 0.
    limit : int, optional
        Length of the view, at least 0. None (the default) goes on for ever.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, or `limit` is no int.
    ValueError
        If `limit` is negative, or `sequence` is empty and there would be items.

    Notes
    -----
    One division more per access. After ``cycle`` of SeqTools and `itertools.cycle`; known elsewhere as
    ``repeat``. Every pass gives the same items: `epochs` is for those that differ.

    Examples
    --------
    >>> list(cycle("abc", 7))
    ['a', 'b', 'c', 'a', 'b', 'c', 'a']
    >>> forever = cycle("abc")
    >>> forever[10**12], list(forever[4:8])
    ('b', ['b', 'c', 'a', 'b'])
    """
    source = as_view(sequence, "cycle")
    limit = optional_int(limit, "cycle: limit", least=0)
    if isinstance(source._n, Unsized):
        raise TypeError(f"cycle: the sequence needs a length, and has none: {source._n.reason}")
    if source._n == 0 and limit != 0:
        raise ValueError("cycle: an empty sequence makes no items; limit must then be 0")
    return Cycle(source, limit)


class Cycle(View[Any]):
    """The view behind `cycle`."""

    # Passes of at least so many items are iterated one by one, as the ranges that many views are quickest
    # with. Starting an iteration costs what translating as many indices does.
    LONG_PASS = 64

    def __init__(self, source: View[Any], limit: int | None) -> None:
        n: Length = UNBOUNDED if limit is None else limit
        super().__init__((source,), n)
        self._limit = limit
        self._period = len(source)

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(i % self._period)

    def _indices(self, block: Indices) -> Indices:
        period = self._period
        if not len(block):
            return range(0)
        if isinstance(block, range) and block[0] // period == block[-1] // period:
            first = block[0] // period * period
            return range(block.start - first, block.stop - first, block.step)
        return as_array(block).astype(np.int64, copy=False) % period

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._sources[0]._getmany(self._indices(indices))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        source = self._sources[0]
        in_order = isinstance(plan, Endless) or (isinstance(plan, range) and plan.step == 1)
        if in_order and self._period >= self.LONG_PASS and not self._reads_ahead:
            return chain.from_iterable(map(source._iter, self._passes(plan)))
        return source._iter(Translated(plan, self._indices))

    def _passes(self, plan: Plan) -> Iterator[range]:
        """Cut a plan without gaps where a pass over the source ends."""
        i, stop = (plan.start, plan.stop) if isinstance(plan, range) else (0, self._n)
        while i < stop:
            first = i % self._period
            last = int(min(self._period, first + stop - i))
            yield range(first, last)
            i += last - first

    def _set(self, i: int, value: Any) -> None:
        self._sources[0]._set(i % self._period, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (i % self._period,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Cycle(sources[0], self._limit)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._limit is None else [*sources, str(self._limit)]
