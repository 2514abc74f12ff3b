"""`batch`: items in groups of k."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

from ..core.arguments import Last, as_bool, as_last, check_callable, positive_int
from ..core.errors import brief
from ..core.lengths import sized
from ..core.source import as_view
from ..core.view import Indexable, T, U, View
from .bases.grouped import Grouped, Stacked

__all__ = ["Batch", "batch"]


@overload
def batch(
    sequence: Indexable[T],
    k: int,
    drop_last: bool = False,
    pad: Any = None,
    collate_fn: None = None,
    *,
    last: Last | None = None,
) -> View[list[T]]: ...
@overload
def batch(
    sequence: Indexable[T],
    k: int,
    drop_last: bool = False,
    pad: Any = None,
    collate_fn: Callable[[list[T]], U] = ...,
    *,
    last: Last | None = None,
) -> View[U]: ...
def batch(
    sequence: Any,
    k: int,
    drop_last: bool = False,
    pad: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    *,
    last: Last | None = None,
) -> View[Any]:
    """Return the view of lists of k successive items.

    Parameters
    ----------
    sequence : View or indexable
        May be unbounded.
    k : int
        Items per batch, at least 1.
    drop_last : bool
        Discard a last batch of fewer than k items. The same as ``last="discard"``.
    pad : object
        Fill a short last batch with this object. None (the default) leaves it short.
    collate_fn : callable, optional
        Makes a batch of the list of items. With ``numpy.asarray``, ``numpy.array`` and ``numpy.stack``, an
        array source is read with one fancy index, and arrays are stacked in the shared memory of a process
        worker, see `seqkit.empty`. Batches of a ``list`` or ``tuple`` function, or of these, can be assigned.
    last : "keep", "discard" or "pad", optional
        Keep, discard or pad a short last batch. With ``"pad"``, None is a legal `pad`.

    Returns
    -------
    View
        Of length ``ceil(n / k)``, or ``n // k`` if a short batch is discarded.

    Raises
    ------
    TypeError
        If `k` is not an int, `drop_last` not a bool, `collate_fn` not callable, or `sequence` cannot be
        indexed.
    ValueError
        If `k` is below 1, `last` is unknown, or `last` contradicts `drop_last` or `pad`.

    Notes
    -----
    One batched read of k items per access. After ``batch`` of SeqTools; known elsewhere as ``BatchView``,
    ``chunks``.

    Examples
    --------
    >>> import numpy as np
    >>> batch(np.arange(6), 3, collate_fn=np.asarray)[1]
    array([3, 4, 5])
    >>> list(batch("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    >>> list(batch([1, 2, 3], 2, pad=0))
    [[1, 2], [3, 0]]
    >>> batch(range(6), 3, collate_fn=sum)[1]
    12
    """
    k = positive_int(k, "batch: k")
    drop_last = as_bool(drop_last, "batch: drop_last")
    check_callable(collate_fn, "batch: collate_fn", optional=True)
    policy = as_last(last, "batch: last", drop_last=drop_last, pad=pad)
    return sized(Batch(as_view(sequence, "batch"), k, k, policy, pad, collate_fn))


class Batch(Grouped):
    """The view that `batch` returns."""

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        if self._collate_fn not in (None, list, tuple) and not isinstance(self._collate_fn, Stacked):
            raise TypeError("batch does not support assignment through this collate_fn")
        source = self._sources[0]
        members, values = self._members(i, source._n), list(value)
        padded = self._last == "pad" and len(values) == self._size
        if len(values) != len(members) and not padded:
            raise ValueError(f"batch: assigned {len(values)} values to a batch of {len(members)} items")
        return [w for j, item in zip(members, values, strict=False) for w in source._set(j, item)]

    def _arguments(self, sources: list[str]) -> list[str]:
        pad = "last='pad'" if self._pad is None else f"pad={brief(self._pad)}"
        last = {"keep": [], "discard": ["drop_last=True"], "pad": [pad]}[self._last]
        return [*sources, str(self._size), *last, *self._function_arguments()]
