"""`cycle`: a sequence over and over again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arguments import optional_int
from ..core.indices import Indices, as_array
from ..core.lengths import UNBOUNDED, Length, needed_length, sized
from ..core.once import cached
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.selection import Selection

__all__ = ["Cycle", "cycle"]


def cycle(sequence: Indexable[T], limit: int | None = None) -> View[T]:
    """Return the view of a sequence repeated without end, or up to `limit` items.

    Parameters
    ----------
    sequence : View or indexable
        Of known length, and not empty unless `limit` is 0.
    limit : int, optional
        Length of the view, 0 or more. None (the default): unbounded.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, or `limit` is not an int.
    ValueError
        If `limit` is negative, or if `sequence` is empty and `limit` is not 0.

    Notes
    -----
    One division per access. After ``cycle`` of SeqTools and `itertools.cycle`; known elsewhere as ``repeat``.
    Each pass has the same items. Use `epochs` for a new random order in each pass.

    Examples
    --------
    >>> list(cycle("abc", 7))
    ['a', 'b', 'c', 'a', 'b', 'c', 'a']
    >>> forever = cycle("abc")
    >>> forever[10**12], list(forever[4:8])
    ('b', ['b', 'c', 'a', 'b'])
    """
    return sized(Cycle(as_view(sequence, "cycle"), optional_int(limit, "cycle: limit", least=0)))


class Cycle(Selection):
    """The view that `cycle` returns."""

    def __init__(self, source: View[Any], limit: int | None) -> None:
        super().__init__((source,))
        self._limit = limit

    @cached
    def _period(self) -> int:
        n = needed_length(self._sources[0], "cycle")
        if n == 0 and self._limit != 0:
            raise ValueError("cycle: the sequence is empty, so limit must be 0")
        return n

    def _length(self) -> Length:
        return UNBOUNDED if self._period and self._limit is None else self._limit or 0

    def _where(self, i: int) -> int:
        return i % self._period

    def _many(self, indices: Indices) -> Indices:
        period = self._period
        if not len(indices):
            return range(0)
        if isinstance(indices, range) and indices[0] // period == indices[-1] // period:
            first = indices[0] // period * period
            return range(indices.start - first, indices.stop - first, indices.step)
        return as_array(indices).astype(np.int64, copy=False) % period

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return (self._limit,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Cycle(sources[0], self._limit)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._limit is None else [*sources, str(self._limit)]
