"""`bins`: documents of different lengths, packed into bins of one capacity."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core.arguments import optional_int, positive_int
from ..core.epoch import ORDER
from ..core.errors import brief
from ..core.indices import IndexArray, compact
from ..core.once import Deferred, cached
from ..core.randomness import Permutation, as_seed, node_key
from ..core.source import as_view
from ..core.values import values_of
from ..core.view import Indexable, View
from .bases.random import Random

__all__ = ["Bins", "bins"]

Long = Literal["split", "clip", "drop", "error"]

WINDOW = 1 << 18  # documents that are packed together
KEPT = 64  # windows whose index is kept, so at most 7 bytes for each of 16 million documents


def bins(
    lengths: Indexable[int] | Iterable[int],
    capacity: int,
    *,
    long: Long,
    max_items: int | None = None,
    seed: int | None = None,
) -> View[IndexArray]:
    """Return the view of bins that pack documents, given their lengths, with almost no room left over.

    Each bin is an array with a row (document, start, stop) for each document or piece in it. `gather_groups`
    reads them. Each document is in one bin, whole, if it is not longer than `capacity`.

    Parameters
    ----------
    lengths : sequence or iterable of int
        Length of each document, 1 or more, such as its number of tokens. Read now, by position. An array is
        not copied: do not change it afterwards.
    capacity : int
        Largest sum of lengths in a bin, 1 or more.
    long : "split", "clip", "drop" or "error"
        What to do with a document longer than `capacity`. Split it into pieces of `capacity` and a rest, keep
        only its beginning, leave the document out, or raise ValueError now.
    max_items : int, optional
        Most documents and pieces in a bin, 1 or more. None (the default): no limit.
    seed : int, optional
        0 or more: documents of one length trade places at random in each epoch. None (the default): they keep
        their places.

    Returns
    -------
    View
        In every epoch it has the same number of bins, and each bin the same lengths.

    Raises
    ------
    TypeError
        If lengths are not ints, or an argument has the wrong type.
    ValueError
        If a length or number is too small, `long` is unknown, or a document is too long with
        ``long="error"``.

    Notes
    -----
    Best fit decreasing: the longest documents come first, each into the fullest bin that has room, or else
    into a new bin. So bins with long documents come first: shuffle them. Documents are packed in windows of
    262,144. Reading the first bin of a window packs it (about 0.1 s). The length packs the histograms of all
    windows (about 0.1 s for a million documents). The last 64 windows are kept, with at most 7 bytes per
    document. For more documents use ``shuffle_groups(view)``, which shuffles windows, then the bins in each.
    About 10 µs per access. Known elsewhere as packing, ``BestFitPackIterDataset``, ``pack_dataset``.

    Examples
    --------
    >>> packed = bins([3, 5, 2, 4], 7, long="split")
    >>> [rows.tolist() for rows in packed]
    [[[1, 0, 5], [2, 0, 2]], [[3, 0, 4], [0, 0, 3]]]
    >>> bins([9, 1], 4, long="split")[2]
    array([[0, 8, 9],
           [1, 0, 1]])
    """
    capacity = positive_int(capacity, "bins: capacity")
    if long not in ("split", "clip", "drop", "error"):
        raise ValueError(f"bins: long must be 'split', 'clip', 'drop' or 'error', got {brief(long)}")
    most = optional_int(max_items, "bins: max_items")
    given = _as_lengths(lengths)
    if long == "error" and given.max(initial=0) > capacity:
        place = int(np.argmax(given > capacity))
        raise ValueError(
            f"bins: lengths must be at most capacity={capacity}, got {given[place]} at position {place}. Pass"
            " long='split', 'clip' or 'drop'."
        )
    number = None if seed is None else as_seed(seed, "bins: seed")
    return Bins(PackingRule(given, capacity, long, most or WINDOW), number)


def _as_lengths(lengths: Any) -> IndexArray:
    who, wanted = "bins: lengths", "ints, one for each document"
    is_array = hasattr(type(lengths), "__array__")
    array = np.asarray(lengths) if is_array else np.array(values_of(lengths, who, wanted))
    if not array.size:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{who} must be {wanted}, got {array.dtype} {brief(array)}")
    if array.min() < 1:
        place = int(np.argmax(array < 1))
        raise ValueError(f"{who} must be at least 1, got {array[place]} at position {place}")
    return array if is_array else compact(array, int(array.max()) + 1)


def best_fit(counts: IndexArray, capacity: int, most: int) -> tuple[IndexArray, int]:
    """Pack pieces by best fit decreasing, where ``counts[n]`` pieces have length n.

    The result is that of the algorithm that takes pieces one by one. Pieces of one length go into whole
    ranges of bins at once.

    Returns
    -------
    steps : array of shape (n, 3)
        How many pieces go into each bin of a range, its first bin, and its number of bins. In descending
        length of the pieces.
    number : int
        Of bins.

    >>> best_fit(np.array([0, 0, 1, 1, 1, 1]), 7, 9)  # 5; 4; 3; 2
    (array([[1, 0, 1],
           [1, 1, 1],
           [1, 1, 1],
           [1, 0, 1]]), 2)
    """
    steps: list[tuple[int, int, int]] = []
    ranges: list[tuple[int, int, int, int]] = []  # the room of each bin, first bin, number, pieces in each
    opened = 0
    for length in np.flatnonzero(counts)[::-1].tolist():
        copies = int(counts[length])
        while copies:
            place = bisect_left(ranges, (length,))  # the fullest bins with room
            is_new = place == len(ranges)
            room, first, number, held = (capacity, opened, copies, 0) if is_new else ranges.pop(place)
            each = min(room // length, most - held, copies)
            used = min(number, copies // each)
            if is_new:
                opened += used
            elif used < number:
                insort(ranges, (room, first + used, number - used, held))
            if room > each * length and most > held + each:
                insort(ranges, (room - each * length, first, used, held + each))
            steps.append((each, first, used))
            copies -= each * used
    return np.array(steps, np.int64).reshape(-1, 3), opened


class Sums:
    """The sums of the first values of an array of ints, in little more memory than the smallest dtype.

    >>> sums = Sums(np.array([2, 0, 3]))
    >>> sums.before(2), sums.find(1), sums.find(4)
    (2, (0, 1), (2, 2))
    """

    STEP = 64

    def __init__(self, values: IndexArray) -> None:
        self.values = compact(values, int(values.max(initial=0)) + 1)
        self.total = int(values.sum())
        self._sampled = np.append(0, np.cumsum(values))[:: self.STEP].copy()

    def before(self, i: int) -> int:
        """Return the sum of the first `i` values."""
        block = i // self.STEP
        return int(self._sampled[block]) + int(self.values[block * self.STEP : i].sum())

    def find(self, position: int) -> tuple[int, int]:
        """Return the index of the value within which the sum reaches a position, and the position there."""
        block = int(np.searchsorted(self._sampled, position, "right")) - 1
        start = block * self.STEP
        ends = np.cumsum(self.values[start : start + self.STEP], dtype=np.int64) + self._sampled[block]
        i = start + int(np.searchsorted(ends, position, "right"))
        return i, position - self.before(i)


class PackedWindow(NamedTuple):
    """The index of a window: first the bins that one document fills, then the bins of several pieces."""

    full: Sums  # the bins that each document fills alone
    pieces: Sums  # the pieces in each other bin
    documents: IndexArray  # of these pieces, bin after bin


class PackingRule:
    """How documents are packed. The bins of all epochs share it.

    >>> packing = PackingRule(np.array([9, 3, 1]), 4, "split", 9)
    >>> packing.edges, packing.pack(0, np.arange(3)).documents
    (array([0, 4]), array([1, 0, 2], dtype=uint32))
    """

    def __init__(self, lengths: IndexArray, capacity: int, long: Long, most: int) -> None:
        self.lengths = lengths
        self.capacity = capacity
        self.long = long
        self.most = most
        self.kept: dict[Any, Deferred[PackedWindow]] = {}  # by window, and key of the epoch

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"kept": {}}  # without an index

    def window(self, number: int, key: Any, order: Callable[[], IndexArray]) -> PackedWindow:
        """Return the index of a window. The views of an epoch share it."""
        found = self.kept.setdefault((number, key), Deferred())
        for other in [*self.kept][:-KEPT]:
            self.kept.pop(other, None)
        return found.get(lambda: self.pack(number, order()))

    def parts(self, window: int) -> tuple[IndexArray, IndexArray]:
        """Return the number of bins that each document fills alone, and the length of its rest."""
        lengths = self.lengths[window * WINDOW : (window + 1) * WINDOW].astype(np.int64)
        if self.long == "split":
            return np.divmod(lengths, self.capacity)
        full = lengths >= self.capacity if self.long == "clip" else lengths == self.capacity
        return full.astype(np.int64), np.where(lengths < self.capacity, lengths, 0)

    def fit(self, rests: IndexArray) -> tuple[IndexArray, int]:
        return best_fit(np.bincount(rests[rests > 0], minlength=1), self.capacity, self.most)

    @cached
    def edges(self) -> IndexArray:
        """The number of bins before each window, and of all bins."""
        windows = map(self.parts, range(-(-len(self.lengths) // WINDOW)))
        return np.cumsum([0, *(int(full.sum()) + self.fit(rests)[1] for full, rests in windows)])

    def pack(self, window: int, order: IndexArray) -> PackedWindow:
        """Pack the documents of a window. Those of one length are packed in a given order."""
        full, rests = self.parts(window)
        documents = order[rests[order] > 0]
        shortage = compact(self.capacity - rests[documents], self.capacity)
        documents = documents[np.argsort(shortage, kind="stable")]  # the longest come first
        steps, number = self.fit(rests)
        each, first, used = steps.T
        sizes = each * used
        places = np.arange(len(documents)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        where = np.repeat(first, sizes) + places // np.repeat(each, sizes)
        by_bin = np.argsort(compact(where, number), kind="stable")
        pieces = Sums(np.bincount(where, minlength=number))
        return PackedWindow(Sums(full), pieces, documents[by_bin].astype(np.uint32))


class Bins(Random):
    """The view that `bins` returns. Its source has the lengths."""

    _varies = ORDER

    def __init__(
        self, packing: PackingRule, seed: int | None, epoch: int = 0, name: str | int | None = None
    ) -> None:
        super().__init__((as_view(packing.lengths, "bins"),), seed or 0, epoch, name)
        self._packing = packing
        self._given_seed = seed
        if seed is None:
            self._varies = self._order_count = self._random_count = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Bins, (self._packing, self._given_seed, self._epoch, self._given_name)

    def _length(self) -> int:
        return int(self._packing.edges[-1])

    @property
    def group_sizes(self) -> list[int]:
        """The number of bins of each window, for `shuffle_groups`."""
        return np.diff(self._packing.edges).tolist()  # type: ignore[no-any-return]

    def _window(self, number: int) -> PackedWindow:
        key = None if self._given_seed is None else (self._seed, self._epoch, self._salt)
        return self._packing.window(number, key, lambda: self._order(number))

    def _order(self, window: int) -> IndexArray:
        n = len(self._packing.lengths[window * WINDOW : (window + 1) * WINDOW])
        if self._given_seed is None:
            return np.arange(n)
        key = node_key(f"bins {window}", self._seed, self._epoch, self._salt)
        return Permutation(n, key).many(range(n))

    def _get(self, i: int) -> IndexArray:
        number = bisect_right(self._packing.edges, i) - 1
        window, place = self._window(number), i - int(self._packing.edges[number])
        capacity, start = self._packing.capacity, number * WINDOW
        if place < window.full.total:
            document, piece = window.full.find(place)
            return np.array([[start + document, piece * capacity, (piece + 1) * capacity]])
        place -= window.full.total
        first, last = window.pieces.before(place), window.pieces.before(place + 1)
        documents = start + window.documents[first:last].astype(np.int64)
        stops = self._packing.lengths[documents]
        return np.stack([documents, stops // capacity * capacity, stops], axis=1)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._get(i)[:, 0].tolist()),)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        packing = self._packing
        arguments = packing.capacity, packing.long, packing.most, self._given_seed
        return *(super()._ordered(items) or ()), *arguments, packing.lengths

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Bins(self._packing, self._given_seed, self._epoch, self._given_name)

    def _arguments(self, sources: list[str]) -> list[str]:
        packing = self._packing
        limit = [] if packing.most == WINDOW else [f"max_items={packing.most}"]
        keys = [] if self._given_seed is None else self._key_arguments()
        return [*sources, str(packing.capacity), f"long={packing.long!r}", *limit, *keys]
