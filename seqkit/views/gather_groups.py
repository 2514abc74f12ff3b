"""`gather_groups`: lists of items, selected by groups of indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import brief, fail
from ..core.iteration import draw, first_error
from ..core.lengths import UNKNOWN, Length, sized
from ..core.source import as_view
from ..core.view import Indexable, Ordered, T, View
from .gather import GatherView

__all__ = ["GatherGroups", "gather_groups"]

Rows = npt.NDArray[np.integer[Any]]


def gather_groups(sequence: Indexable[T], groups: Indexable[Any] | Ordered) -> View[list[T]]:
    """Return the view of lists of the items of a sequence that groups of indices name.

    Parameters
    ----------
    sequence : View or indexable
        Where the items come from, of length n. May be unbounded.
    groups : View, indexable or sampler
        Each group is a sequence of indices in ``[0, n)``, which may repeat, or of rows (index, start, stop).
        A row stands for ``item[start:stop]``, or for a dict of the values that are cut, if the item is a
        dict. `bins` has groups of rows. The groups follow the epoch, and the orders of `sequence` are kept:
        see `View.at_epoch`.

    Returns
    -------
    View
        One list for each group.

    Raises
    ------
    TypeError
        If an argument cannot be indexed, the length of `sequence` is unknown, or the groups of a sampler are
        not known in advance. An item raises it if its group is something else.
    IndexError
        An item raises it for an index outside ``[0, n)``.
    EvaluationError
        An item raises it if an item of the sequence is too short for its row.

    Notes
    -----
    One access to `groups` and one batched read of the items per access. A `prefetch` in `sequence` works
    ahead in the order of the groups. An iteration then keeps the groups that it has read. Known elsewhere as
    ``PackingInstanceSource``, batch sampler.

    Examples
    --------
    >>> list(gather_groups("abcdef", [[0, 5], [2], [3, 3, 1]]))
    [['a', 'f'], ['c'], ['d', 'd', 'b']]
    >>> import seqkit as sk
    >>> list(gather_groups(["one", "seven", "on"], sk.bins([3, 5, 2], 4, long="split")))
    [['seve'], ['one', 'n'], ['on']]
    """
    source = as_view(sequence, "gather_groups")
    order = groups.whole_order() if isinstance(groups, Ordered) else as_view(groups, "gather_groups")
    if order is None:
        raise TypeError(
            f"gather_groups: the groups of {type(groups).__name__} are only known when it is iterated. Make a"
            " list of them first."
        )
    return sized(GatherGroups(source, order))


class GatherGroups(GatherView):
    """The view that `gather_groups` returns. Its second source has the groups."""

    _getmany = View._getmany
    _set = View._set

    def _length(self) -> Length:
        if self._sources[0]._n is UNKNOWN:
            raise TypeError(
                f"gather_groups: the sequence needs a length: {UNKNOWN.reason}. {UNKNOWN.remedy}."
            )
        return super()._length()

    def _column_names(self) -> None:
        return None  # an item is a list

    def _index(self, i: int, group: Any) -> Rows:
        """Return group `i` as an array of indices, or of rows."""
        try:
            rows = np.asarray(group)
        except ValueError:  # lists of different lengths
            rows = np.array(None)
        if rows.shape in ((0,), (0, 3)):
            return np.empty(0, np.int64)
        if rows.dtype.kind not in "iu" or rows.ndim == 0 or rows.shape[1:] not in ((), (3,)):
            raise TypeError(
                f"gather_groups: groups[{i}] must be ints or rows (index, start, stop), got {brief(group)}"
            )
        indices, n = _indices(rows), self._sources[0]._n
        outside = np.flatnonzero((indices < 0) | (indices >= n))
        if outside.size:
            raise IndexError(f"gather_groups: groups[{i}] has index {indices[outside[0]]}, outside [0, {n})")
        return rows

    def _item(self, i: int, given: Any) -> list[Any]:
        rows = self._index(i, given)
        return self._finish(i, rows, self._sources[0]._getmany(_indices(rows)))

    def _finish(self, i: int, rows: Rows, items: Sequence[Any]) -> list[Any]:
        """Return group `i`, given its items."""
        if rows.ndim == 1:
            return list(items)
        try:
            return [_cut(item, *bounds) for item, bounds in zip(items, rows[:, 1:].tolist(), strict=True)]
        except Exception as error:
            fail(self, i, error)

    def _members(self, rows: Rows) -> Any:
        return _indices(rows).tolist()

    def _drawn(self, i: int, rows: Rows, items: Iterator[Any]) -> list[Any]:
        failed: dict[int, Exception] = {}
        found = draw(items, 0, len(rows), failed)
        if failed:
            raise first_error(failed)
        return self._finish(i, rows, found)


def _indices(rows: Rows) -> Rows:
    return rows if rows.ndim == 1 else rows[:, 0]


def _cut(item: Any, start: int, stop: int) -> Any:
    """Return a part of an item. Raise ValueError if the item is too short."""
    if isinstance(item, Mapping):
        return {name: _cut(value, start, stop) for name, value in item.items()}
    part = item[start:stop]
    if len(part) != stop - start:
        raise ValueError(f"an item of length {len(item)} has no part [{start}:{stop}]")
    return part
