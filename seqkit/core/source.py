"""The leaf of every expression: a view over an object of the user."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NoReturn, Protocol, Self, cast, overload

import numpy as np

from .adapters import TableReader, as_results, reads_many, recognise
from .ahead import Ranges, is_mapped, mapped_ranges
from .chaining import Chainable
from .epoch import DRAWS, EpochPair
from .errors import EndOfSequence, fail, fail_at_once
from .indices import Indices, Plan, as_array, as_list, as_slice
from .lazy import load
from .lengths import UNKNOWN, Unsized
from .set_epoch import listeners, tell
from .view import Indexable, T, T_co, View

__all__ = ["PLAIN", "Source", "Table", "as_view", "owned", "view"]


class Table(Protocol):
    """The type of a table of pandas, polars or Arrow, whose rows are dicts in a view."""

    @property
    def columns(self) -> Any: ...
    @property
    def shape(self) -> Any: ...


@overload
def view(source: Table) -> View[dict[str, Any]]: ...
@overload
def view(source: Indexable[T]) -> View[T]: ...
def view(source: Any) -> View[Any]:
    """Return `source` as a view: itself if it is one, a thin wrapper otherwise.

    Views understand slices, index arrays, masks and method chaining.

    Parameters
    ----------
    source : View or indexable
        Anything with ``[i]`` for non-negative ints, usually with ``len``: list, array, string, range,
        data set. Tables of pandas, polars and pyarrow are read by position, and a row is a dict. A dict is
        indexed by 0, 1, 2, … and needs these keys.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `source` cannot be indexed.

    Notes
    -----
    Costs about 0.1 µs more per access than indexing the source. Rows of arrays and tensors are copies, so a
    function that changes its item in place does not change the source. A copy costs 0.3 µs, or 5 µs for
    150 KB. Rows of a read-only array are not copied, and read-only. Items of a list are not copied.

    Examples
    --------
    >>> letters = view("seqkit")
    >>> letters[-1], list(letters[::2]), list(letters[[0, 0, 5]])
    ('t', ['s', 'q', 'i'], ['s', 's', 't'])
    >>> letters.smap(str.upper).batch(4)  # every function of a sequence is a method
    batch(smap(upper, <str of 6>), 4)
    """
    return as_view(source, "view")


def as_view(source: Indexable[T], who: str) -> View[T]:
    """Return `source` as a view, or raise TypeError naming the caller.

    >>> as_view(5, "batch")
    Traceback (most recent call last):
    TypeError: batch: a sequence needs [i] and usually len(), got int
    """
    if isinstance(source, Chainable):  # faster than View, which is an abstract base class
        return source  # type: ignore[return-value]
    if type(source) in _PLAIN:
        return Source(source)
    found: Any = recognise(source, who)
    # Numbers of numpy have ``[i]``, and so do arrays without dimensions.
    is_number = getattr(type(found), "ndim", None) is not None and found.ndim == 0
    if (is_number and not isinstance(found, np.flexible)) or not hasattr(found, "__getitem__"):
        hint = ". Make a list of it, or pass it to uniter." if hasattr(found, "__iter__") else ""
        raise TypeError(f"{who}: a sequence needs [i] and usually len(), got {type(found).__name__}{hint}")
    has_columns = isinstance(found, TableReader) and found.names is not None
    view: Source[T] = load("view of a table")(found) if has_columns else Source(found)
    return view


class Source(View[T_co]):
    """The leaf of every expression: an indexable object that is not a view itself.

    The object needs only ``[i]`` for non-negative ints, and ``len`` for a known length. Its exceptions are
    reported against this view. A sequence of unknown length ends where ``[i]`` raises IndexError or
    StopIteration. ``__getitems__`` reads several items, see `reads_many`.
    """

    _reads_many = False

    def __init__(self, data: Any) -> None:
        super().__init__((), len(data) if hasattr(data, "__len__") else UNKNOWN)
        self._data = data
        self._copy = None
        if type(data) not in _PLAIN:
            self._copy = _copier(data)
            self._reads_many = reads_many(data)
            self._listeners = listeners(data)
            self._advises = is_mapped(data)
            self._varies = DRAWS if self._listeners else 0

    def _get(self, i: int) -> T_co:
        try:
            item: T_co = self._data[i]
            return item if self._copy is None else self._copy(item)
        except Exception as error:
            self._refuse(i, error)

    def _refuse(self, i: int, error: Exception) -> NoReturn:
        """Raise the meaning of an exception that the object raised at index `i`."""
        if self._n is UNKNOWN and isinstance(error, IndexError | StopIteration):
            raise EndOfSequence(f"the sequence ends before index {i}") from error
        fail(self, i, error)

    def _iter(self, plan: Plan) -> Iterator[T_co]:
        data, kind, n = self._data, type(self._data), self._n
        if kind in _ITERATES_AS_INDEXED and len(data) == n:
            if isinstance(plan, range) and plan == range(len(data)):
                items = islice(data, len(data))  # not the items that are appended during the iteration
                return items if self._copy is None else map(self._copy, items)
            if kind is not np.ndarray:
                return map(data.__getitem__, plan)  # cannot fail, so there are no errors to survive
        return super()._iter(plan)

    def _getmany(self, indices: Indices) -> Sequence[T_co]:
        data = self._data
        if isinstance(data, np.ndarray):
            rows = data[as_slice(indices) if isinstance(indices, range) else as_array(indices)]
            return cast(Sequence[T_co], owned(rows))
        wanted = as_list(indices)
        if self._reads_many and wanted and self._n is not UNKNOWN:
            return self._getitems(wanted)
        items: list[T_co] = []
        try:
            for i in wanted:
                items.append(data[i])
        except Exception as error:
            self._refuse(wanted[len(items)], error)
        return items if self._copy is None else list(map(self._copy, items))

    def _getitems(self, indices: list[int]) -> Sequence[T_co]:
        try:
            return as_results(self._data.__getitems__(indices), len(indices), "__getitems__")
        except Exception as error:
            fail_at_once(self, indices, error)

    def _ahead(self, indices: Indices, width: int) -> Iterator[Ranges]:
        return mapped_ranges(self._data, indices, width)

    def _set(self, i: int, value: Any) -> Iterable[Callable[[], object]]:
        if not hasattr(self._data, "__setitem__"):
            raise TypeError(f"{self._name}: {type(self._data).__name__} does not support assignment")
        return (partial(operator.setitem, self._data, i, value),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> Self:
        return self

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[T_co]:
        return self if epoch.draws is None else ToldSource(self, epoch.draws)

    def _arguments(self, sources: list[str]) -> str:
        n = "?" if isinstance(self._n, Unsized) else self._n
        data = self._data._data if isinstance(self._data, TableReader) else self._data
        return f"<{type(data).__name__} of {n}>"


def _copier(data: Any) -> Callable[[Any], Any] | None:
    """Return a function that copies an item, if items are parts of memory that users could change."""
    if not isinstance(data, np.ndarray):
        return owned if _is_tensor(data) else None
    if not data.flags.writeable or (data.ndim == 1 and data.dtype.kind != "V"):
        return None
    return np.ndarray.copy if type(data) is np.ndarray and data.ndim > 1 else owned


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def owned(item: T) -> T:
    """Return an item, or a copy of it if it is a part of the memory of a larger array or tensor.

    >>> table = np.zeros((2, 3))
    >>> row = owned(table[0])
    >>> row += 1
    >>> table.sum()
    np.float64(0.0)
    """
    if type(item) in PLAIN:
        return item
    if isinstance(item, np.ndarray | np.void):
        is_part = item.base is not None and item.flags.writeable
        if not is_part:
            return item
        return cast(T, np.array(item) if isinstance(item, np.memmap) else item.copy())
    if _is_tensor(item):
        tensor: Any = item
        return cast(T, tensor.clone() if tensor._is_view() or tensor.is_inference() else tensor)
    return item


PLAIN = {int, float, str, bytes, list, tuple, dict, bool, type(None), np.float64, np.int64}


class ToldSource(Source[T_co]):
    """A source whose object has `set_epoch`. Every process that reads it calls `set_epoch`.

    Views of several epochs share the object, so `set_epoch` is called again after another view has read it.
    """

    def __init__(self, source: Source[T_co], epoch: int) -> None:
        super().__init__(source._data)
        self._n = self._known = source._n
        self._epoch = epoch

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        return self if epoch.draws in (None, self._epoch) else ToldSource(self, epoch.draws)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return self._n, self._epoch

    def _get(self, i: int) -> T_co:
        tell(self._listeners, self._epoch)
        return super()._get(i)

    def _getmany(self, indices: Indices) -> Sequence[T_co]:
        tell(self._listeners, self._epoch)
        return super()._getmany(indices)


ToldSource._name = Source._name


# Iterating these types gives the items at 0, 1, 2, …, and runs no code of the user.
_PLAIN = {list, tuple, range, str, bytes}
_ITERATES_AS_INDEXED = {*_PLAIN, np.ndarray}
