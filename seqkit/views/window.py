"""`window`: successive items in groups that may overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arguments import Last, as_last, check_callable, positive_int
from ..core.lengths import sized
from ..core.once import cached
from ..core.source import Source, as_view
from ..core.view import Indexable, View
from .bases.grouped import Grouped
from .bases.selection import Selection

__all__ = ["Window", "window"]


def window(
    sequence: Indexable[Any],
    size: int,
    stride: int = 1,
    *,
    last: Last | None = None,
    pad: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
) -> View[Any]:
    """Return the view of lists of `size` successive items, starting at every `stride`-th item.

    Windows of an array or a memory map are arrays, and so are those of a slice, share or shuffle of one.

    Parameters
    ----------
    sequence : View or indexable
        May be unbounded.
    size : int
        Items per window, 1 or more.
    stride : int
        Distance between the starts of neighbouring windows, 1 or more. From `size` on, windows do not
        overlap.
    last : "discard", "keep" or "pad", optional
        Items after the last full window are discarded, kept in a short window, or kept in a window filled
        with `pad`. None (the default) discards them, unless `pad` is given.
    pad : object
        Fills a short last window. None is legal with ``last="pad"``.
    collate_fn : callable, optional
        Makes a window of the list of items. Pass ``list`` for lists of the numbers of an array.

    Returns
    -------
    View
        Of length ``(n - size) // stride + 1`` if items are discarded and n is at least `size`.

    Raises
    ------
    TypeError
        If `size` or `stride` is not an int, `collate_fn` not callable, or `sequence` cannot be indexed.
    ValueError
        If `size` or `stride` is below 1, `last` is unknown, or `last` contradicts `pad`.

    Notes
    -----
    One batched read of `size` items per access. Iteration forwards reads an item that windows share once. A
    window of an array is a copy, unless the array is read-only, such as a memory map of mode "r". After
    ``slice_sequence`` of GluonNLP; known elsewhere as ``windowed``, ``sliding_window``, ``rolling``. The
    stride is also called ``hop`` or ``shift``.

    Examples
    --------
    >>> list(window("abcde", 3))
    [['a', 'b', 'c'], ['b', 'c', 'd'], ['c', 'd', 'e']]
    >>> list(window([1, 2, 3, 4], 3, stride=2, pad=0))
    [[1, 2, 3], [3, 4, 0]]
    >>> import numpy as np
    >>> window(np.arange(100), 4)[90]
    array([90, 91, 92, 93])
    """
    size = positive_int(size, "window: size")
    stride = positive_int(stride, "window: stride")
    policy = as_last(last, "window: last", pad=pad, default="discard")
    check_callable(collate_fn, "window: collate_fn", optional=True)
    return sized(Window(as_view(sequence, "window"), size, stride, policy, pad, collate_fn))


class Window(Grouped):
    """The view that `window` returns."""

    @cached
    def _makes_arrays(self) -> bool:
        can_pad = self._last != "pad" or self._pad is not None  # with a value that an array can have
        return self._collate_fn is None and can_pad and gives_arrays(self._sources[0])

    @cached
    def _reads_apart(self) -> bool:
        is_slice = self._makes_arrays or (self._takes_arrays and gives_arrays(self._sources[0]))
        return is_slice or self._stride >= self._size

    def _finish(self, i: int, items: Any) -> Any:
        if not self._makes_arrays:
            return super()._finish(i, items)
        missing = self._size - len(items) if self._last == "pad" else 0
        if not missing:
            return items
        return np.concatenate([items, np.full((missing, *items.shape[1:]), self._pad, items.dtype)])

    def _arguments(self, sources: list[str]) -> list[str]:
        last = [] if self._last == "discard" else [f"last={self._last!r}"]
        stride = [f"stride={self._stride}"] * (self._stride > 1)
        return [*sources, str(self._size), *stride, *last, *self._function_arguments()]


def gives_arrays(view: View[Any]) -> bool:
    """Does a view answer batches of indices with arrays? It is an array, or a selection from one.

    >>> import seqkit as sk
    >>> gives_arrays(sk.view(np.arange(9))[2:]), gives_arrays(sk.view([1, 2]))
    (True, False)
    """
    while isinstance(view, Selection):
        view = view._sources[0]
    data = view._data if isinstance(view, Source) else None
    return isinstance(data, np.ndarray) and data.dtype != object
