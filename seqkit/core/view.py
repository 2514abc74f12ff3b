"""The contract of every view, and all sequence behaviour, written once.

A view is an immutable, lazy sequence over other sequences. A combinator writes a constructor, `_get` and
`_rebuild`, and other hooks where their defaults do not fit. `View` defines every dunder method.

=============================  =====  ====================================================================
hook                           must?  promise
=============================  =====  ====================================================================
``_sources``                   yes    tuple of input views
``_get(i)``                    yes    the item; `i` is an int in ``[0, length)``
``_rebuild(sources)``          yes    the same view over other sources
``_length()``                  no     an int, or why there is none (`UNBOUNDED`, `UNKNOWN`). Called when
                                      the length is first needed. Default: that of the first source
``_iter(plan)``                no     the items of a plan, in order. Survives errors
``_getmany(indices)``          no     the items of a sized batch of indices
``_take(indices)``             no     the view of a range or index array
``_set(i, value)``             no     the functions to call in order to write item `i`
``_parts(i)``                  no     the items of the sources that make item `i`. Reads no item and calls no
                                      function of the user. () if that is not known yet. Default: item `i`
                                      of each source
``_needs(i)``                  no     the items that a node below must compute for item `i`. Differs from
                                      `_parts` where an item serves many, or is kept
``_ahead(indices, width)``     no     the `Ranges` of files that are read for `width` items from each index.
                                      May leave out any. Default: those of the sources, by `_needs`
``_keyed(sources, epoch)``     no     the same view for an `EpochPair`. Default: `_rebuild` if a source
                                      changed
``_head(n)``                   no     the view of the first `n` items. Does not find a length that is found by
                                      reading items
``_ordered(items)``            no     the values that decide the order of the items, beside the sources. None:
                                      the order is that of the source. With `items`, also the values that
                                      decide the items only, such as a rank. See `order_digest`
``_arguments(sources)``        no     the arguments that `repr` shows, given the text of the sources. A string
                                      is the whole text of the view
``_functions()``               no     the user's functions, for `explain`
``_coroutines()``              no     the function that reads the sources of item `i`, and returns the
                                      function that begins to await it, for ``prefetch(…, "async")``. None:
                                      the items are not awaited
=============================  =====  ====================================================================

Five attributes describe a view. ``_length_reads``: finding the length may read items. ``_streams``: iterating
with the plan `Endless` finds the end, as iterating the last source does. ``_reads_ahead``: iterating works
ahead of the consumer. ``_varies``: `ORDER` if other items stand at each position in other epochs, `DRAWS` if
items are computed anew. ``_passes_on``: each item is an item of a source, as it is.

Three more are for few views. ``_keeps``: an index names an item, so the orders of the first source are kept,
see `epoch`. ``_readers``: the number of workers that can share the work. ``_advises``: `_ahead` may find
bytes. All attributes are fixed when the view is built.

Errors do not name a view whose ``_name`` is empty. Each optional hook must agree with its default.
`seqkit.testing.check_view` verifies it.
"""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from types import GeneratorType
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar, cast, overload

import numpy as np

from .ahead import Ranges, advised, runs
from .arguments import int_at_least, refuse_table
from .awaiting import Begin
from .chaining import Chainable
from .epoch import ORDER, EpochPair, at_epoch
from .error_path import locate
from .errors import brief
from .expression import text_of_expression
from .indices import Endless, IndexArray, Indices, Plan, as_index_map, as_list
from .iteration import surviving
from .lengths import LAST, UNKNOWN, Length, Unsized, is_measured, streams, unsized_range
from .plain import as_index, is_flag
from .tracebacks import hide_frames, hiding_frames, user_line

__all__ = [
    "Indexable",
    "Ordered",
    "T",
    "T_co",
    "U",
    "V",
    "View",
    "in_order",
]

# The types of items, in the signatures of all combinators.
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)

Write = Callable[[], object]

# With the environment variable SEQKIT_DEBUG, errors name the line that made the failing view.
is_debugging = os.environ.get("SEQKIT_DEBUG", "0") not in ("", "0")


class Indexable(Protocol[T_co]):
    """The type of a source for type checkers. Most sources have a length too."""

    def __getitem__(self, i: int, /) -> T_co: ...


class Ordered:
    """The base of objects that give indices in an order that depends on the epoch: samplers."""

    def whole_order(self) -> View[Any] | None:
        """Return the indices as a view, which `View.at_epoch` keys, or None if they must be iterated."""
        raise NotImplementedError(f"{type(self).__name__} must define whole_order()")


class _FoundWhenNeeded:
    """The length of a view before it is first needed. An attribute of the view then takes its place."""

    def __get__(self, view: Any, kind: type) -> Any:
        if view is None:
            return self
        n = view._n = view._known = view._length()
        return n


class View(Chainable[T_co], Sequence[T_co], Generic[T_co]):
    """A lazy, indexable sequence; the base class of every combinator.

    Nothing is computed until an item is requested. ``view[i]`` reads one item. Slices, index arrays, boolean
    masks and views of indices return views. Many threads may read a view at once. A view pickles if its
    sources and functions do.

    Parameters
    ----------
    sources : tuple of View
        The inputs.
    n : int, Unsized or None
        The length if it is known. None (the default) calls `_length` when the length is first needed.

    Examples
    --------
    >>> import seqkit as sk
    >>> lengths = sk.smap(len, ["a", "bc", ""])
    >>> isinstance(lengths, View), lengths[1], list(lengths[::-1]), 2 in lengths
    (True, 2, [0, 2, 1], True)
    """

    _site: tuple[str, int, str] | None = None  # the user's line that made the view
    _name = "view"  # the public name: the class name in snake_case
    _reads_ahead = False
    _advises = False
    _length_reads = False
    _streams = False
    _readers = sys.maxsize
    _varies = 0
    _keeps = False
    _passes_on = False
    _n: Length = cast(Any, _FoundWhenNeeded())
    _gather: Callable[..., View[Any]]  # set by views/gather.py
    _keep: Callable[[View[Any], range | IndexArray], View[Any]]  # set by views/gather.py
    _gather_by: Callable[[View[Any], Any], View[Any]]  # set by views/gather.py

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, sources: tuple[View[Any], ...], n: Length | None = None) -> None:
        self._sources = sources
        self._known = n
        if n is not None:
            self._n = n
        if is_debugging:
            self._site = user_line()
        # The random views in the expression, and those of them that are orders. They salt the next seed.
        self._random_count: int = 0
        self._order_count: int = 0
        for source in sources:
            if not isinstance(source, Chainable):  # faster than View, which is an abstract base class
                kind = type(source).__name__  # type: ignore[unreachable]
                raise TypeError(f"{self._name}: sources must be views, got {kind}. Wrap it with view().")
            self._random_count += source._random_count
            self._order_count += source._order_count
            if source._reads_ahead:
                self._reads_ahead = True
            if source._advises:
                self._advises = True
            if source._varies:
                self._varies |= source._varies
            if source._readers < self._readers:
                self._readers = source._readers

    # ---------------------------------------------------------------- hooks

    def _length(self) -> Length:
        return self._sources[0]._n

    def _get(self, i: int) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define _get(i)")

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define _rebuild(sources)")

    def _iter(self, plan: Plan) -> Iterator[T_co]:
        return surviving(self, plan, self._get)

    def _getmany(self, indices: Indices) -> Sequence[T_co]:
        return [self._get(i) for i in as_list(indices)]

    def _take(self, indices: range | IndexArray) -> View[T_co]:
        return View._gather(self, indices)

    def _set(self, i: int, value: Any) -> Iterable[Write]:
        raise TypeError(f"{self._name} does not support assignment")

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((source, (i,)) for source in self._sources)

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return self._parts(i)

    def _ahead(self, indices: Indices, width: int) -> Iterator[Ranges]:
        kind, sources = type(self), [source for source in self._sources if source._advises]
        if kind._parts is View._parts and kind._needs is View._needs:
            for source in sources:
                yield from source._ahead(indices, width)
            return
        needed: dict[int, tuple[View[Any], list[int]]] = {}
        for i in as_list(indices if width == 1 else runs(indices, width, self._n)):
            for source, parts in self._needs(i):
                if source._advises:
                    needed.setdefault(id(source), (source, []))[1].extend(parts)
        for source, wanted in needed.values():
            yield from source._ahead(wanted, 1)

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[T_co]:
        for new, old in zip(sources, self._sources, strict=True):
            if new is not old:
                return self._rebuild(sources)
        return self

    def _arguments(self, sources: list[str]) -> list[str] | str:
        return sources

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return ()

    def _coroutines(self) -> Callable[[int], Begin] | None:
        return None

    def _ordered(self, items: bool) -> tuple[Any, ...] | None:
        return None

    # ---------------------------------------------------------------- epochs and parts

    @hiding_frames()
    def at_epoch(self, epoch: int) -> View[T_co]:
        """Return the same expression with every random view keyed for `epoch`.

        Parameters
        ----------
        epoch : int
            Number of the pass over the data, 0 or more. A view starts at epoch 0.

        Raises
        ------
        TypeError, ValueError
            If `epoch` is not an int, or negative.

        Notes
        -----
        Builds one view for each random view and each view above one. Other views are reused.

        Examples
        --------
        >>> import seqkit as sk
        >>> order = sk.shuffle(range(100), seed=0)
        >>> list(order.at_epoch(0)) == list(order), list(order.at_epoch(1)) == list(order)
        (True, False)
        """
        number = int_at_least(epoch, "at_epoch: epoch", 0)
        return at_epoch(self, EpochPair(number, number))

    @hiding_frames()
    def head(self, n: int) -> View[T_co]:
        """Return the view of the first `n` items, or of all items if there are fewer.

        `filter` and `flatten` scan their input when they are read, and only as far as these items need it.

        >>> import seqkit as sk
        >>> list(sk.cycle("ab").head(3)), list(sk.view("ab").head(3))
        (['a', 'b', 'a'], ['a', 'b'])
        """
        return self._head(int_at_least(n, "head: n", 0))

    def _head(self, n: int) -> View[T_co]:
        if self._n is UNKNOWN:
            return View._gather(self, range(n), False, True)
        return self._take(range(int(min(n, self._n))))

    @hiding_frames()
    def skip(self, n: int) -> View[T_co]:
        """Return the view of all items after the first `n`. The sequence may be unbounded.

        >>> import seqkit as sk
        >>> sk.cycle("ab").skip(3)[0], list(sk.view("abc").skip(1))
        ('b', ['b', 'c'])
        """
        return self._cut(slice(int_at_least(n, "skip: n", 0), None))

    # ---------------------------------------------------------------- reading

    def __bool__(self) -> bool:
        """False if there are no items. A view whose length is not known is true. Nothing is read."""
        n = self._n if self._known is not None or is_measured(self) else None
        return n is None or isinstance(n, Unsized) or n > 0

    def __len__(self) -> int:
        try:
            n = self._n
            if isinstance(n, Unsized):
                raise TypeError(f"{self._name if self._sources else self} has no length: {n.reason}")
        except Exception as error:  # also of an item that `filter` scanned
            hide_frames(error)
            raise
        return n

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> T_co: ...
    @overload
    def __getitem__(self, key: slice | Sequence[SupportsIndex] | np.ndarray[Any, Any]) -> View[T_co]: ...
    def __getitem__(self, key: Any) -> Any:
        try:
            n = self._known  # faster than `_n`, which the class has too
            if type(key) is int and n is not None and 0 <= key < n:
                return self._get(key)
            if isinstance(key, slice):
                return self._cut(key, bool(self._varies & ORDER))
            if not hasattr(key, "__index__") or getattr(key, "ndim", 0) > 0:
                return self._fancy(key)
            key = self._checked_index(key)
            return self._get(key)
        except Exception as error:
            # Without a length, `_parts` would fail too.
            if self._known is None or type(key) is not int:
                hide_frames(error)
            else:
                locate(error, self, key)
            raise

    @hiding_frames()
    def __iter__(self) -> Iterator[T_co]:
        return advised(self, self._plan())

    @hiding_frames()
    def __reversed__(self) -> Iterator[T_co]:
        return advised(self, range(len(self))[::-1])

    @hiding_frames()
    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first index in ``[start, stop)`` whose item equals `value`, or raise ValueError."""
        span = self._sliced(slice(start, stop)) if start or stop is not None else self._plan()
        for i, item in zip(span, self._iter(span), strict=False):
            if item is value or item == value:
                return i
        raise ValueError(f"{self._name}: {value!r} is not in the sequence")

    @hiding_frames()
    def __getitems__(self, indices: Sequence[int]) -> Sequence[T_co]:
        """Return the items at `indices` with one batched read. PyTorch's loader calls this method."""
        return list(self._getmany([self._checked_index(i) for i in indices]))

    @hiding_frames()
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError(f"{self._name}: items are computed, so an array of them is always a copy")
        array = np.asarray(self._getmany(range(len(self))), dtype)
        return array if array.base is None else array.copy()

    # ---------------------------------------------------------------- writing

    @hiding_frames()
    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            targets: Sequence[int] = self._sliced(key)
            if not isinstance(value, Iterable):
                raise TypeError(
                    f"{self._name}: a slice of {len(targets)} items needs as many values, got {brief(value)}"
                )
            values = list(value)
            if len(values) != len(targets):
                raise ValueError(
                    f"{self._name}: assigned {len(values)} values to a slice of {len(targets)} items"
                )
        elif hasattr(key, "__len__") and getattr(key, "ndim", 1) != 0:
            raise TypeError(
                f"{self._name}: items are assigned by an int or a slice, got {type(key).__name__}."
                " Select them first: view[indices][:] = values."
            )
        else:
            targets, values = [self._checked_index(key)], [value]
        # Every value is checked before the first one is written.
        writes = [write for i, item in zip(targets, values, strict=True) for write in self._set(i, item)]
        for write in writes:
            write()

    # ---------------------------------------------------------------- showing

    def __repr__(self) -> str:
        return text_of_expression(self)

    # ---------------------------------------------------------------- keys

    def _plan(self) -> Plan:
        if streams(self):
            return Endless()
        n = self._n
        return Endless() if isinstance(n, Unsized) else range(n)

    def _cut(self, key: slice, keeps: bool = False) -> View[T_co]:
        """Return a slice, which follows the epoch unless it keeps the orders below."""
        if isinstance(self._n, Unsized) and key.stop is None and key.step in (None, 1):
            start = operator.index(key.start or 0)
            if start >= 0:
                return View._gather(self, range(start, LAST + 1), keeps, True)
        return self._named(self._sliced(key)) if keeps else self._take(self._sliced(key))

    def _named(self, indices: range | IndexArray) -> View[T_co]:
        """Return the view of the items at some indices. An index names an item: their orders are kept."""
        return View._keep(self, indices) if self._varies & ORDER else self._take(indices)

    def _sliced(self, key: slice) -> range:
        n = self._n
        return unsized_range(key, n, self._name) if isinstance(n, Unsized) else range(n)[key]

    def _fancy(self, key: Any) -> View[T_co]:
        if isinstance(key, Chainable | Ordered):  # faster than View, which is an abstract base class
            return View._gather_by(self, key)
        if isinstance(key, str | bytes | bytearray | float | tuple | Set | Mapping) or not hasattr(
            key, "__len__"
        ):
            select = f"view.select({key!r}) or " if hasattr(self, "select") else ""
            column = f". For a column use {select}view.smap(lambda item: item[{key!r}])."
            hint = column if isinstance(key, str) else ""
            raise TypeError(
                f"{self._name}: indices must be ints, slices, index arrays or boolean masks,"
                f" got {type(key).__name__}{hint}"
            )
        return self._named(as_index_map(key, f"{self._name}: indices", lambda: self._n))

    def _checked_index(self, key: Any) -> int:
        """Return an index of an item, from any object that is an int, and counted from the start."""
        try:
            i = as_index(key)
        except TypeError:
            hint = ". A mask needs a bool for each item." if is_flag(key) else ""
            raise TypeError(f"{self._name}: indices must be ints, got {type(key).__name__}{hint}") from None
        n = self._n
        if i < 0 and isinstance(n, Unsized):
            raise IndexError(f"{self._name}: negative index {i} needs a length: {n.reason}")
        if not -n <= i < n:
            raise IndexError(f"{self._name}: index {i} out of range for length {n}")
        return i if i >= 0 else i + int(n)


def in_order(items: Iterable[T]) -> Iterator[T]:
    """Iterate in index order. Iterating a `prefetch` view with ``in_order=False`` itself would not.

    Refuse a table, which would give its columns, and a generator that has ended, which would give nothing.

    >>> list(in_order("abc"))
    ['a', 'b', 'c']
    """
    if isinstance(items, View):
        return advised(items, items._plan())
    refuse_table(items)
    iterator = iter(items)
    if isinstance(iterator, GeneratorType) and iterator.gi_frame is None:
        raise RuntimeError(
            "the generator has ended: an earlier pass has read it. Make a new generator for each pass, or a"
            " list."
        )
    return iterator
