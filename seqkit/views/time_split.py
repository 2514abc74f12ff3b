"""`time_split`: the parts of a cross-validation in temporal order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.arguments import int_at_least
from ..core.indices import compact
from ..core.lengths import needed_length
from ..core.source import as_view
from ..core.values import by_position
from ..core.view import Indexable, T, View

__all__ = ["time_split"]


def time_split(
    sequence: Indexable[T], times: Iterable[Any], k: int, *, gap: Any = None
) -> tuple[tuple[View[T], View[T]], ...]:
    """Return k pairs of views for a cross-validation of forecasts: the past to train with, and what follows.

    The items are divided by time into ``k + 1`` parts of about equal size. Pair number i trains with the
    items before part ``i + 1``, and tests with that part. Items of one time are in one part. No item is read.

    Parameters
    ----------
    sequence : View or indexable
        Of known length n.
    times : iterable
        The time of each item, in any order: a list, an array, or a column of a table, of numbers or dates.
    k : int
        Number of pairs, 1 or more.
    gap : number or numpy.timedelta64, optional
        Items less than this before the first test item are left out of the training items, in the unit of
        `times`. None (the default): none are left out.

    Returns
    -------
    tuple of (View, View)
        ``(train, test)`` for each pair. Items are in the order of their times.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, `k` is not an int, or `gap` does not fit `times`.
    ValueError
        If the number of times is not n, a time is missing (NaN or NaT), `gap` is negative, or there are too
        few different times for `k`.

    Notes
    -----
    One lookup per access, and 1 to 8 bytes of memory per item and pair. After ``TimeSeriesSplit`` of
    scikit-learn, which counts the gap in items and cuts between items of one time.

    Examples
    --------
    >>> for train, test in time_split("abcdef", [3, 1, 2, 5, 4, 6], 2):
    ...     print("".join(train), "".join(test))
    bc ae
    bcae df
    >>> [(list(train), list(test)) for train, test in time_split(range(6), range(6), 1, gap=2)]
    [([0, 1], [3, 4, 5])]
    """
    source = as_view(sequence, "time_split")
    n, k = needed_length(source, "time_split"), int_at_least(k, "time_split: k", 1)
    moments = np.asarray(list(by_position(times, "time_split: times", "numbers or dates")))
    if moments.shape != (n,):
        raise ValueError(f"time_split: times must be one for each of {n} items, got {len(moments)}")
    if (moments != moments).any():
        raise ValueError(f"time_split: times must not be missing, got {moments[moments != moments][0]}")
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    edges = _edges(moments, k)
    pairs = []
    for start, stop in pairwise(edges):
        last = start
        if gap is not None:
            last = min(start, int(np.searchsorted(moments, moments[start] - _gap(gap), "right")))
        pairs.append((source._named(compact(order[:last], n)), source._named(compact(order[start:stop], n))))
    return tuple(pairs)


def _gap(gap: Any) -> Any:
    if gap < type(gap)(0):
        raise ValueError(f"time_split: gap must be at least 0, got {gap!r}")
    return gap


def _edges(moments: Any, k: int) -> list[int]:
    """Return where each part after the first begins, and the end. No part begins within one time."""
    n = len(moments)
    wanted = [part * n // (k + 1) for part in range(1, k + 1)]
    starts = [int(np.searchsorted(moments, moments[at], "left")) if n else 0 for at in wanted]
    edges = [*starts, n]
    if 0 in edges or len({*edges}) <= k:
        raise ValueError(f"time_split: k must leave a time for each of {k + 1} parts, got {k} for {n} items")
    return edges
