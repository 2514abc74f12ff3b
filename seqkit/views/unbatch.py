"""`unbatch`: the single items of a sequence of batches."""

from __future__ import annotations

from typing import Any

from ..core.arguments import optional_int, positive_int
from ..core.errors import EndOfSequence
from ..core.indices import IndexArray, Indices, as_array
from ..core.lengths import UNKNOWN, Length, Unsized, is_measured, sized
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.groups import Group, ItemsOfGroups, KeptGroups

__all__ = ["Unbatch", "unbatch"]


def unbatch(
    sequence: Indexable[Indexable[T]], batch_size: int, last_batch_size: int | None = None
) -> View[T]:
    """Return the view of the single items of a sequence of batches.

    Parameters
    ----------
    sequence : View or indexable
        Of sized, indexable batches. All but the last have `batch_size` items.
    batch_size : int
        Items per batch, 1 or more.
    last_batch_size : int, optional
        Items of the last batch, in ``[0, batch_size]``. 0 means that it is full. None (the default) reads the
        last batch when the length is first needed. A last batch that cannot be read counts as full.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If a size is not an int, or `sequence` cannot be indexed.
    ValueError
        If a size is out of range. An item raises it if its batch has a wrong size.

    Notes
    -----
    Each thread keeps the last batch that it has read, and a worker the last two. In order, each worker reads
    each batch once. In other orders each item may read a batch.
    After ``unbatch`` of SeqTools.

    Examples
    --------
    >>> list(unbatch([[1, 2], [3, 4], [5]], 2))
    [1, 2, 3, 4, 5]
    >>> import seqkit as sk
    >>> pages = sk.smap(lambda page: [10 * page + row for row in range(10)], range(1000))
    >>> rows = unbatch(pages, 10)
    >>> len(rows), rows[5678]  # reads two pages
    (10000, 5678)
    """
    batch_size = positive_int(batch_size, "unbatch: batch_size")
    last_batch_size = optional_int(last_batch_size, "unbatch: last_batch_size", least=0)
    if last_batch_size is not None and last_batch_size > batch_size:
        raise ValueError(
            f"unbatch: last_batch_size must be at most batch_size {batch_size}, got {last_batch_size}"
        )
    return sized(Unbatch(as_view(sequence, "unbatch"), batch_size, last_batch_size))


class Unbatch(ItemsOfGroups):
    """The view that `unbatch` returns."""

    def __init__(self, source: View[Any], batch_size: int, last_batch_size: int | None) -> None:
        super().__init__((source,))
        self._batch_size = batch_size
        self._last_batch_size = last_batch_size
        self._length_reads = last_batch_size is None
        self._kept = KeptGroups(source)

    @property
    def group_sizes(self) -> int:
        """The number of items of each batch, for `shuffle_groups`."""
        return self._batch_size

    def _length(self) -> Length:
        batches, last = self._sources[0]._n, self._last_batch_size
        if isinstance(batches, Unsized) or batches == 0:
            return batches
        if last is None:
            last = self._size_of_last(batches - 1)
        elif last == 0:
            last = self._batch_size
        return (batches - 1) * self._batch_size + last

    def _size_of_last(self, which: int) -> int:
        """Return the size of the last batch. One that cannot be read counts as full: its items fail."""
        try:
            return min(len(self._sources[0]._get(which)), self._batch_size)
        except Exception:
            return self._batch_size

    def _size(self, which: int, items: Any) -> int:
        """Return the size that batch `which` must have. Only the last batch may be smaller."""
        if self._n is UNKNOWN and len(items) < self._batch_size and self._ends_after(which):
            return len(items)
        return int(min(self._batch_size, self._n - which * self._batch_size))

    def _ends_after(self, which: int) -> bool:
        try:
            self._sources[0]._get(which + 1)
        except EndOfSequence:
            return True
        return False

    def _which(self, i: int) -> int:
        return i // self._batch_size

    def _whiches(self, indices: Indices) -> IndexArray:
        return as_array(indices) // self._batch_size

    def _check_group(self, group: Group) -> None:
        size = self._size(group.number, group.items)
        group.check(size, "unbatch: batch", group.number * self._batch_size)

    def _head(self, n: int) -> View[Any]:
        batches, least = self._sources[0]._known, -(-n // self._batch_size)
        if not is_measured(self) and isinstance(batches, int):
            if least < batches:  # all of them are full
                return Unbatch(self._sources[0]._take(range(least)), self._batch_size, 0).head(n)
            if n >= batches * self._batch_size:
                return self
        return super()._head(n)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return self._batch_size, self._last_batch_size

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Unbatch(sources[0], self._batch_size, self._last_batch_size)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, str(self._batch_size)]
