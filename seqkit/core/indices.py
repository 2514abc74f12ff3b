"""Pure index arithmetic: keys, index maps and access plans.

An *index map* is a `range` or a one-dimensional integer array. Item ``i`` of a selection is item ``map[i]``
of its source. A `range` handles negative steps and bounds past either end exactly, and slicing it costs
nothing. So every slice is an index map.

A *plan* is the sequence of indices that an iteration will read. It is known in advance and may be endless. It
can be iterated any number of times: a `range`, an index array, a list, or one of the classes here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import chain, count, islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .lengths import Length, Unsized
from .plain import plain

__all__ = [
    "Cursor",
    "Endless",
    "Expanded",
    "IndexArray",
    "Indices",
    "Plan",
    "Selected",
    "Translated",
    "as_array",
    "as_index_map",
    "as_list",
    "as_slice",
    "batch_count",
    "compact",
    "each",
    "ends",
    "nth",
    "select",
]

IndexArray = npt.NDArray[np.integer[Any]]
Indices = range | IndexArray | list[int]


class Plan(Protocol):
    """The indices that will be read, in order. Each `iter` starts at the first one."""

    def __iter__(self) -> Iterator[int]: ...


def as_index_map(indices: Any, who: str, length: Callable[[], Length]) -> range | IndexArray:
    """Return `indices` as an index map into a sequence: a range or an integer array.

    Boolean masks select the positions that are true. Negative indices count from the end. An index out of
    range stays as it is, and fails when its item is read. `length` is called for masks and negative indices.

    >>> as_index_map([2, -3], "gather: indices", lambda: 3)
    array([2, 0])
    >>> as_index_map(np.array([True, False, True]), "gather: indices", lambda: 3)
    array([0, 2])
    """
    if isinstance(indices, range):
        if not indices or min(indices[0], indices[-1]) >= 0:
            return indices
        return _from_start(as_array(indices), length)
    array = _index_array(indices, who)
    if array.dtype != np.bool_:
        return _from_start(array, length)
    if len(array) != (n := length()):
        raise IndexError(f"{who}: a mask of {len(array)} flags does not fit a sequence of length {n}")
    return np.flatnonzero(array)


def _from_start(array: IndexArray, length: Callable[[], Length]) -> IndexArray:
    if array.dtype.kind == "u" or _least(array) >= 0 or isinstance(n := length(), Unsized):
        return array
    return np.where((array < 0) & (array >= -n), array + np.int64(n), array)


def _least(array: IndexArray) -> int:
    return min(array.tolist(), default=0) if array.size < 64 else int(array.min())


def _index_array(indices: Any, who: str) -> npt.NDArray[Any]:
    """Return ints or flags as an array of one dimension."""
    if isinstance(indices, str | bytes | Set | Mapping) or not isinstance(indices, Iterable):
        hint = ". For the first items use head(n)." if hasattr(indices, "__index__") else ""
        raise TypeError(f"{who} must be a sequence of ints, got {_preview(indices)}{hint}")
    if hasattr(indices, "__array__") and not isinstance(indices, np.ma.MaskedArray):
        array = np.asarray(indices)
        if array.ndim != 1:
            raise TypeError(f"{who} must be one-dimensional, got {array.ndim} dimensions")
        if array.dtype.kind in "biu":
            return array
    indices = indices if isinstance(indices, list) else list(indices)
    values = indices if {int}.issuperset(map(type, indices)) else list(map(plain, indices))
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values)
    if bool in kinds:
        raise TypeError(f"{who} must be ints, or bools only (a mask), got {_preview(indices)}")
    try:
        return np.fromiter(map(operator.index, values), np.int64, len(values))
    except TypeError:
        raise TypeError(f"{who} must be ints, got {_preview(indices)}") from None
    except OverflowError:
        raise IndexError(f"{who} must be below 2**63, got {_preview(indices)}") from None


def _preview(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."


def as_list(indices: Indices | Iterable[int]) -> list[int]:
    """Return the indices as a list of Python ints.

    >>> as_list(np.array([3, 1]))
    [3, 1]
    """
    if isinstance(indices, np.ndarray):
        return indices.tolist()  # type: ignore[no-any-return]
    return indices if isinstance(indices, list) else list(indices)


def as_array(indices: Indices) -> IndexArray:
    """Return the indices as an integer array. A range is not iterated.

    >>> as_array(range(3))
    array([0, 1, 2])
    """
    if isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    return np.asarray(indices, None if isinstance(indices, np.ndarray) else np.int64)


def as_slice(indices: range) -> slice:
    """Return the slice that selects the positions of a range of non-negative ints.

    >>> as_slice(range(4, -1, -2))
    slice(4, None, -2)
    """
    if not indices:
        return slice(0, 0)
    # A descending range that includes 0 stops at -1, which in a slice counts from the end.
    return slice(indices.start, indices.stop if indices.stop >= 0 else None, indices.step)


def compact(indices: IndexArray, n: int) -> IndexArray:
    """Return indices into a sequence of length `n` as an array of the smallest sufficient dtype.

    >>> compact(np.array([3, 1]), 200).dtype, compact(np.array([3, 1]), 70_000).dtype
    (dtype('uint8'), dtype('uint32'))
    """
    kind = np.min_scalar_type(max(n - 1, 0))
    # Not uint64: numpy converts uint64 and signed ints to float.
    return indices.astype(kind if kind.itemsize < 8 else np.int64)


def select(index_map: range | IndexArray, indices: Indices) -> range | IndexArray:
    """Return the index map whose item i is ``index_map[indices[i]]``. A range of a range is a range.

    >>> select(range(10, 0, -1), range(1, 9, 3))
    range(9, 1, -3)
    >>> select(range(10, 20), np.array([3, 0]))
    array([13, 10])
    """
    if isinstance(indices, range):
        return index_map[as_slice(indices)]
    if isinstance(index_map, range):
        return index_map.start + as_array(indices).astype(np.int64, copy=False) * index_map.step
    return index_map[as_array(indices)]


def each(plan: Plan) -> Iterator[int]:
    """Iterate a plan as Python ints, which the items of an array are not.

    >>> list(each(np.array([2, 0])))
    [2, 0]
    """
    if not isinstance(plan, np.ndarray):
        return iter(plan)
    blocks = range(0, len(plan), Translated.LAST_BLOCK)
    return chain.from_iterable(plan[i : i + Translated.LAST_BLOCK].tolist() for i in blocks)


def nth(plan: Plan, position: int) -> int:
    """Return the index at a position of a plan. After its end, return the position.

    >>> nth(range(5, 10), 2), nth(range(5, 10), 5)
    (7, 5)
    """
    if isinstance(plan, list):  # which may have keys too
        return plan[position] if position < len(plan) else position
    if isinstance(plan, range | np.ndarray):
        return int(plan[position]) if position < len(plan) else position
    return next(islice(iter(plan), position, None), position)


def ends(plan: Plan) -> bool:
    """Is a plan known to end?

    >>> ends(range(3)), ends(Translated(range(3), list)), ends(Endless())
    (True, True, False)
    """
    while hasattr(plan, "plan"):  # a plan that is derived from another
        plan = plan.plan
    return isinstance(plan, range | list | np.ndarray)


class Endless:
    """The plan 0, 1, 2, … that never ends.

    >>> list(islice(Endless(), 3))
    [0, 1, 2]
    """

    def __iter__(self) -> Iterator[int]:
        return count()


class Translated:
    """A plan whose indices are mapped, a block at a time.

    Parameters
    ----------
    plan : Plan
    many : callable
        Maps a sized block of indices to as many indices.

    >>> list(Translated(range(3), lambda block: np.asarray(block) * 10))
    [0, 10, 20]
    """

    # The first block is small, so that the first item is available soon. Later blocks are large, so that
    # many indices share the cost of calling numpy.
    FIRST_BLOCK = 32
    LAST_BLOCK = 8192

    def __init__(self, plan: Plan, many: Callable[[Indices], Indices]) -> None:
        self.plan = plan
        self.many = many

    def blocks(self) -> Iterator[Indices]:
        cursor = Cursor(self.plan)
        size = self.FIRST_BLOCK
        while len(block := cursor.take(size)):
            yield self.many(block)
            size = min(size * 4, self.LAST_BLOCK)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(map(as_list, self.blocks()))


class Expanded:
    """A plan with several indices for each index of another plan, such as the items of batches.

    >>> list(Expanded(range(2), lambda i: range(i * 3, i * 3 + 3)))
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, plan: Plan, each: Callable[[int], Iterable[int]]) -> None:
        self.plan = plan
        self.each = each

    def __iter__(self) -> Iterator[int]:
        for i in each(self.plan):
            yield from self.each(i)


class Selected:
    """The part of a plan that is read from one source, in the indices of that source.

    Parameters
    ----------
    plan : Plan
    local : callable
        Returns the index in the source for an index of the plan, or None if the item has another source.

    >>> list(Selected(range(5), lambda i: i - 3 if i >= 3 else None))
    [0, 1]
    """

    def __init__(self, plan: Plan, local: Callable[[int], int | None]) -> None:
        self.plan = plan
        self.local = local

    def __iter__(self) -> Iterator[int]:
        for i in each(self.plan):
            j = self.local(i)
            if j is not None:
                yield j


class Cursor:
    """Reads a plan in pieces. A piece of a range is a range, and a piece of an array is an array.

    >>> cursor = Cursor(range(5))
    >>> cursor.take(2), cursor.take(9), cursor.take(9)
    (range(0, 2), range(2, 5), range(5, 5))
    """

    def __init__(self, plan: Iterable[Any]) -> None:
        self._sized = plan if isinstance(plan, range | np.ndarray) else None
        self._blocks = plan.blocks() if isinstance(plan, Translated) else None
        self._rest: Iterator[Any] = iter(()) if self._sized is not None or self._blocks else iter(plan)
        self._position = 0
        self._error: Exception | None = None

    def take(self, size: int) -> Any:
        """Return up to `size` further indices. An empty piece means that the plan has ended."""
        if self._blocks is not None:
            self._refill()
        if self._sized is not None:
            piece = self._sized[self._position : self._position + size]
            self._position += len(piece)
            return piece
        drawn: list[Any] = []
        try:
            drawn.extend(islice(self._rest, size))
        except Exception as error:
            if not drawn:
                raise
            self._rest = _raising(error)  # the indices before the error come first
        return drawn

    def put_back(self, piece: Any) -> None:
        """Return the last indices of the last piece, which come first in the next piece."""
        if self._sized is not None:
            self._position -= len(piece)
        else:
            self._rest = chain(piece, self._rest)

    def _refill(self) -> None:
        assert self._blocks is not None
        if self._sized is None or self._position == len(self._sized):
            block = next(self._blocks, range(0))
            self._sized = np.asarray(block) if isinstance(block, list) else block
            self._position = 0


def _raising(error: Exception) -> Iterator[Any]:
    yield from ()
    raise error


def batch_count(n: int, k: int, last: str) -> int:
    """Return how many batches of k items n items make; a short one counts if `last` is "keep" or "pad".

    >>> batch_count(5, 2, "keep"), batch_count(5, 2, "discard"), batch_count(5, 2, "pad")
    (3, 2, 3)
    """
    return -(-n // k) if last in ("keep", "pad") else n // k
