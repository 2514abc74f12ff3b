"""The contract every view signs, and all sequence behaviour, written once.

A view is an immutable, lazy sequence over other sequences. A combinator writes a constructor, `_get`
and `_rebuild`, `_parts` where its default does not hold, and where it pays one of the other hooks; no
combinator defines a dunder.

========================  =====  ==========================================================================
hook                      must?  promise
========================  =====  ==========================================================================
``_sources``              yes    tuple of input views
``_n``                    yes    length: an int, or why there is none (`UNBOUNDED`, `UNKNOWN`)
``_get(i)``               yes    the item; `i` is an int in ``[0, _n)``
``_rebuild(sources)``     yes    the same expression over other sources
``_iter(plan)``           no     the items of a plan, in order; survives errors
``_getmany(indices)``     no     the items of a sized batch of indices
``_take(indices)``        no     the view of an index map
``_set(i, value)``        no     write through
``_parts(i)``             no     which items of which sources item `i` is made of; else item `i` of each
``_arguments(sources)``   no     the arguments that `repr` shows, given the text of the sources
``_remarks()``            no     what `explain` says besides
========================  =====  ==========================================================================

Every optional hook must agree with its default; `seqkit.testing.check_view` holds them to it.
"""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain, compress, islice, repeat
from typing import Any, Generic, NoReturn, Protocol, Self, SupportsIndex, TypeVar, cast, overload

import numpy as np

from .chaining import Chainable
from .checks import positive_int
from .errors import EndOfSequence, EvaluationError, fail
from .indices import (
    UNKNOWN,
    Endless,
    IndexArray,
    Indices,
    Length,
    Plan,
    Unsized,
    as_array,
    as_index_map,
    as_list,
    as_slice,
    each,
    unsized_range,
)
from .recognise import length_of, recognise

__all__ = [
    "Indexable",
    "Progress",
    "Source",
    "T",
    "U",
    "V",
    "View",
    "in_order",
    "locate",
    "name_of",
    "restarting",
    "step_over",
    "until_the_end",
    "view",
    "write",
]

# The types of items, in the signatures of all combinators.
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TESTING = _HERE + "testing" + os.sep


class Indexable(Protocol[T_co]):
    """What a view can be laid over, as type checkers see it: most sources have a length besides."""

    def __getitem__(self, i: int, /) -> T_co: ...


class View(Chainable[T_co], Sequence[T_co], Generic[T_co]):
    """A lazy, indexable sequence; the base class of every combinator.

    Nothing is computed until an item is asked for. ``view[i]`` reads one item, slices, index arrays and
    boolean masks give views again, iteration streams. Reads are safe from many threads; views pickle if
    their sources and functions do.

    Parameters
    ----------
    sources : tuple of View
        What the items are made of.
    n : int, Unsized or None
        Length, frozen for the life of the view; None where the class finds it out later.

    Examples
    --------
    >>> import seqkit as sk
    >>> lengths = sk.smap(len, ["a", "bc", ""])
    >>> isinstance(lengths, View), lengths[1], list(lengths[::-1]), 2 in lengths
    (True, 2, [0, 2, 1], True)
    """

    _name = "view"  # the word users know it by: snake_case of the class name
    _reads_ahead = False  # does iterating this view work ahead of its reader?
    _measured = True  # is the length known, without reading items to find out?
    _gather: Callable[[View[Any], range | IndexArray], View[Any]]  # Gather puts itself here

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, sources: tuple[View[Any], ...], n: Length | None) -> None:
        self._sources = sources
        if n is not None:
            self._n: Length = n
        self._site = _creation_site()
        self._randoms: int = 0  # how many random nodes the expression holds: salts the seed of the next
        if wrong := [type(source).__name__ for source in sources if not isinstance(source, View)]:
            raise TypeError(f"{self._name}: its sources must be views, got {wrong[0]}; lay view() over it")
        for source in sources:
            self._randoms += source._randoms
            if source._reads_ahead:
                self._reads_ahead = True

    # ---------------------------------------------------------------- hooks

    def _get(self, i: int) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define _get(i)")

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define _rebuild(sources)")

    def _iter(self, plan: Plan) -> Iterator[T_co]:
        indices = each(plan)

        def run(progress: Progress) -> Iterator[T_co]:
            for i in indices:
                try:
                    item = self._get(i)
                except EndOfSequence:
                    break
                except EvaluationError as error:
                    locate(error, self, i)
                    raise
                yield item
            progress.done = True

        return restarting(run)

    def _getmany(self, indices: Indices) -> Sequence[T_co]:
        return [self._get(i) for i in as_list(indices)]

    def _take(self, indices: range | IndexArray) -> View[T_co]:
        return View._gather(self, indices)

    def _set(self, i: int, value: Any) -> None:
        raise NotImplementedError

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((source, (i,)) for source in self._sources)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources

    def _remarks(self) -> list[str]:
        return []

    # ---------------------------------------------------------------- what users call

    def at_epoch(self, epoch: int) -> View[T_co]:
        """Return the same expression with every random node keyed for `epoch`.

        Parameters
        ----------
        epoch : int
            Number of the pass over the data, at least 0. A view starts at epoch 0.

        Raises
        ------
        TypeError, ValueError
            If `epoch` is no int, or negative.

        Notes
        -----
        Costs one rebuilt view per node above a random one, and nothing where nothing is random.

        Examples
        --------
        >>> import seqkit as sk
        >>> order = sk.shuffle(range(100), seed=0)
        >>> list(order.at_epoch(0)) == list(order), list(order.at_epoch(1)) == list(order)
        (True, False)
        """
        return self._at_epoch(positive_int(epoch, "at_epoch: epoch", least=0))

    def _at_epoch(self, epoch: int) -> View[T_co]:
        if not self._randoms:
            return self
        keyed = self._rebuild(tuple(source._at_epoch(epoch) for source in self._sources))
        keyed._site = self._site
        return keyed

    # ---------------------------------------------------------------- reading

    def __len__(self) -> int:
        n = self._n
        if isinstance(n, Unsized):
            raise TypeError(f"{self._name} has no length: {n.reason}")
        return n

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> T_co: ...
    @overload
    def __getitem__(self, key: slice | Sequence[SupportsIndex] | np.ndarray[Any, Any]) -> View[T_co]: ...
    def __getitem__(self, key: Any) -> Any:
        if type(key) is not int:
            if isinstance(key, slice):
                return self._take(self._sliced(key))
            if not hasattr(key, "__index__") or getattr(key, "ndim", 0) > 0:
                return self._fancy(key)
            key = self._as_int(key)
        n = self._n
        if key < 0:
            key = self._wrap(key)
        if key >= n:
            raise IndexError(f"{self._name}: index {key} out of range for length {n}")
        try:
            return self._get(key)
        except EvaluationError as error:
            locate(error, self, key)
            raise

    def __iter__(self) -> Iterator[T_co]:
        return self._iter(self._plan())

    def __reversed__(self) -> Iterator[T_co]:
        return self._iter(range(len(self))[::-1])

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first index in ``[start, stop)`` whose item equals `value`, or raise ValueError."""
        span = self._sliced(slice(start, stop)) if start or stop is not None else self._plan()
        for i, item in zip(span, self._iter(span), strict=False):
            if item is value or item == value:
                return i
        raise ValueError(f"{self._name}: {value!r} is not in the sequence")

    def __getitems__(self, indices: Sequence[int]) -> Sequence[T_co]:
        """Return the items at `indices`, read in one go (the batched fetch that PyTorch looks for)."""
        return list(self._getmany([self._wrap_checked(i) for i in indices]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError(f"{self._name}: its items are computed, so an array of them is always a copy")
        array = np.asarray(self._getmany(range(len(self))), dtype)
        return array if array.base is None else array.copy()

    # ---------------------------------------------------------------- writing

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            targets: Sequence[int] = self._sliced(key)
            values = list(value)
            if len(values) != len(targets):
                raise ValueError(
                    f"{self._name}: assigned {len(values)} values to a slice of {len(targets)} items"
                )
        elif hasattr(key, "__len__"):
            raise TypeError(
                f"{self._name}: items are assigned by an int or a slice, got {type(key).__name__}; to assign"
                " at indices, select them first: view[indices][:] = values"
            )
        else:
            targets, values = [self._wrap_checked(key)], [value]
        for i in targets:
            self._check_settable(i)
        with _writes() as writes:  # which are held back until every value is known to fit
            for i, item in zip(targets, values, strict=True):
                self._set(i, item)
        for write_one in writes:
            write_one()

    def _check_settable(self, i: int) -> None:
        """Raise TypeError unless all that item `i` is made of can be written, so that no half of it is."""
        if type(self)._set is View._set:
            raise TypeError(f"{self._name} does not support assignment")
        for source, indices in self._parts(i):
            for j in indices:
                source._check_settable(j)

    # ---------------------------------------------------------------- showing

    def __repr__(self) -> str:
        return _expression(self)

    # ---------------------------------------------------------------- keys

    def _plan(self) -> Plan:
        n = self._n
        return Endless() if isinstance(n, Unsized) else range(n)

    def _sliced(self, key: slice) -> range:
        n = self._n
        return unsized_range(key, n, self._name) if isinstance(n, Unsized) else range(n)[key]

    def _fancy(self, key: Any) -> View[T_co]:
        unordered = isinstance(key, Set | Mapping)
        if (
            unordered
            or isinstance(key, str | bytes | bytearray | float | tuple)
            or not hasattr(key, "__len__")
        ):
            raise TypeError(
                f"{self._name}: indices must be ints, slices, index arrays or boolean masks,"
                f" got {type(key).__name__}"
            )
        return self._take(as_index_map(key, f"{self._name}: indices", self._n))

    def _as_int(self, key: Any) -> int:
        try:
            return int(operator.index(key))  # of a bool, index is the bool
        except TypeError:
            raise TypeError(f"{self._name}: indices must be ints, got {type(key).__name__}") from None

    def _wrap(self, key: int) -> int:
        n = self._n
        if isinstance(n, Unsized):
            raise IndexError(f"{self._name}: negative index {key} needs a length: {n.reason}")
        if key + n < 0:
            raise IndexError(f"{self._name}: index {key} out of range for length {n}")
        return key + n

    def _wrap_checked(self, key: Any) -> int:
        i = self._as_int(key)
        if i < 0:
            return self._wrap(i)
        if i >= self._n:
            raise IndexError(f"{self._name}: index {i} out of range for length {self._n}")
        return i


class Source(View[T_co]):
    """The leaf of every expression: an indexable object that is not a view itself.

    Needs no more than ``[i]`` for non-negative ints, and ``len`` for a known length. An exception of
    the object's own is reported against this view; one of unknown length ends where ``[i]`` raises
    IndexError or StopIteration.
    """

    def __init__(self, data: Any) -> None:
        super().__init__((), length_of(data))
        self._data = data

    def _get(self, i: int) -> T_co:
        try:
            item: T_co = self._data[i]
            return item
        except Exception as error:
            self._refuse(i, error)

    def _refuse(self, i: int, error: Exception) -> NoReturn:
        """Raise what the data's own exception at index `i` means."""
        if self._n is UNKNOWN and isinstance(error, IndexError | StopIteration):
            raise EndOfSequence(f"the sequence ends before index {i}") from error
        fail(self, i, error)

    def _iter(self, plan: Plan) -> Iterator[T_co]:
        data, kind, n = self._data, type(self._data), self._n
        if kind in _ITERATES_AS_INDEXED and len(data) == n:
            if isinstance(plan, range) and plan == range(len(data)):
                return islice(data, len(data))  # a list that grows meanwhile has no more items for us
            if kind is range and data.start == 0 and data.step == 1:
                return cast(Iterator[T_co], each(plan))  # the items are the indices
            if kind is not np.ndarray:
                return map(data.__getitem__, plan)  # cannot fail, so nothing to survive
        return super()._iter(plan)

    def _getmany(self, indices: Indices) -> Sequence[T_co]:
        data = self._data
        if isinstance(data, np.ndarray):
            if isinstance(indices, range):
                return cast(Sequence[T_co], data[as_slice(indices)])
            return cast(Sequence[T_co], data[as_array(indices)])
        if hasattr(data, "__getitems__") and len(indices) and self._n is not UNKNOWN:
            return self._getitems(as_list(indices))
        items: list[T_co] = []
        wanted = as_list(indices)
        try:
            for i in wanted:
                items.append(data[i])  # what was read before an error says where it is
        except Exception as error:
            self._refuse(wanted[len(items)], error)
        return items

    def _getitems(self, indices: list[int]) -> Sequence[T_co]:
        try:
            items = self._data.__getitems__(indices)
            if isinstance(items, Mapping | str | bytes):
                raise TypeError(
                    f"__getitems__ returned a {type(items).__name__}, not a list of {len(indices)} items"
                )
            if len(items) != len(indices):
                raise ValueError(f"__getitems__ returned {len(items)} items for {len(indices)} indices")
        except Exception as error:
            fail(self, indices[0], error, f"reading {len(indices)} items at once")
        return cast(Sequence[T_co], items)

    def _set(self, i: int, value: Any) -> None:
        write(partial(operator.setitem, self._data, i, value))

    def _check_settable(self, i: int) -> None:
        if not hasattr(self._data, "__setitem__"):
            raise TypeError(f"{self._name}: {type(self._data).__name__} does not support assignment")

    def _rebuild(self, sources: tuple[View[Any], ...]) -> Self:
        return self


_ITERATES_AS_INDEXED = {list, tuple, range, str, bytes, np.ndarray}


_held_back: ContextVar[list[Callable[[], object]] | None] = ContextVar("seqkit_writes", default=None)


@contextmanager
def _writes() -> Iterator[list[Callable[[], object]]]:
    held_back: list[Callable[[], object]] = []
    token = _held_back.set(held_back)
    try:
        yield held_back
    finally:
        _held_back.reset(token)


def write(action: Callable[[], object]) -> None:
    """Change what the items are made of: at the end of an assignment, once all of it is known to fit."""
    held_back = _held_back.get()
    if held_back is None:
        action()
    else:
        held_back.append(action)


def view(source: Indexable[T]) -> View[T]:
    """Return `source` as a view: itself if it is one, a thin wrapper otherwise.

    Views understand slices, index arrays, masks and method chaining.

    Parameters
    ----------
    source : View or indexable
        Anything with ``[i]`` for non-negative ints, usually with ``len``: list, array, string, range,
        data set. Tables of pandas, polars and pyarrow are read by position, and a row is a dict.
        A dict is indexed by 0, 1, 2, … and needs these keys.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `source` cannot be indexed.

    Notes
    -----
    Costs about 0.1 µs more per access than indexing the source.

    Examples
    --------
    >>> letters = view("seqkit")
    >>> letters[-1], list(letters[::2]), list(letters[[0, 0, 5]])
    ('t', ['s', 'q', 'i'], ['s', 's', 't'])
    """
    return as_view(source, "view")


def as_view(source: Indexable[T], who: str) -> View[T]:
    """Return `source` as a view, or say who cannot do with it.

    >>> as_view(5, "batch")
    Traceback (most recent call last):
    TypeError: batch: a sequence needs [i] and usually len(), got int
    """
    if isinstance(source, View):
        return source
    if isinstance(source, type):
        raise TypeError(f"{who}: a sequence is needed, got the class {source.__name__}; make an instance")
    source = recognise(source, who)
    if _is_a_number(source):
        raise TypeError(f"{who}: a sequence needs [i] and usually len(), got {source!r}")
    if not hasattr(source, "__getitem__"):
        hint = "; make a list of it, or see uniter" if hasattr(source, "__iter__") else ""
        raise TypeError(f"{who}: a sequence needs [i] and usually len(), got {type(source).__name__}{hint}")
    return Source(source)


def _is_a_number(source: Any) -> bool:
    """Is it an array without axes, as numbers of numpy are, too?"""
    if isinstance(source, str | bytes | np.void):
        return False  # of numpy's own types, which have no axes either
    return hasattr(type(source), "ndim") and source.ndim == 0


def in_order(items: Iterable[T]) -> Iterator[T]:
    """Iterate items as their indices have it, where iterating a view itself may take them as they come.

    >>> list(in_order("abc"))
    ['a', 'b', 'c']
    """
    return items._iter(items._plan()) if isinstance(items, View) else iter(items)


class Progress:
    """How far an iteration came: shared by the generators that carry it on after errors."""

    __slots__ = ("_uncounted", "done", "skipped")

    def __init__(self) -> None:
        self._uncounted = repeat(True, sys.maxsize)
        self.skipped = 0
        self.done = False

    def counted(self, items: Iterator[T]) -> Iterator[T]:
        """Return `items`, counted as they are drawn: in C, a fifth cheaper than adding up in the loop."""
        return compress(items, self._uncounted)

    @property
    def position(self) -> int:
        """How many items were counted, or skipped."""
        return sys.maxsize - operator.length_hint(self._uncounted) + self.skipped


def restarting(run: Callable[[Progress], Iterator[T]]) -> Iterator[T]:
    """Return an iterator that lives on after an error.

    A generator is finished once it raises. ``run(progress)`` makes a fresh one that carries on behind the
    failed item; it sets ``progress.done`` when it ends by itself. `chain` switches from one generator to
    the next in C, so items pay nothing for this.
    """
    return chain.from_iterable(_Runs(run))


class _Runs(Generic[T]):
    """The runs of an iterator. No generator: `chain` gives up a source that refuses to be asked by two."""

    __slots__ = ("_progress", "_run")

    def __init__(self, run: Callable[[Progress], Iterator[T]]) -> None:
        self._run = run
        self._progress = Progress()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Iterator[T]:
        if self._progress.done:
            raise StopIteration
        return self._run(self._progress)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an iterator stands in the middle and cannot be copied or pickled; its view can")


def each_with(f: Callable[[int, Any], T], items: Iterator[Any], plan: Plan) -> Iterator[T]:
    """Iterate ``f(i, item)`` over the items of a plan; lives on after an error of either."""
    indices = each(plan)

    def run(progress: Progress) -> Iterator[T]:
        for i in indices:
            try:
                item = next(items)
            except StopIteration:
                break
            yield f(i, item)
        progress.done = True

    return restarting(run)


def step_over(iterator: Iterator[Any]) -> None:
    """Draw one item of an iterator in vain; its error too is lost to the one that led here."""
    try:
        next(iterator, None)
    except Exception:
        pass


def until_the_end(source: View[T], indices: Iterable[int]) -> list[T]:
    """Return the items at some indices, in order, as far as there are any.

    Without iterating, which of what can only be iterated would be another pass.

    >>> from seqkit.testing import UnsizedSource
    >>> until_the_end(view(UnsizedSource("abc")), range(1, 9))
    ['b', 'c']
    """
    items: list[T] = []
    try:
        for i in indices:
            items.append(source._get(i))
    except EndOfSequence:
        pass
    return items


def locate(error: EvaluationError, asked: View[Any], index: Any) -> None:
    """Complete the path of an error: from the item that was asked for to the one that failed.

    Found by walking the expression again, so that items which succeed never pay for it.
    """
    if error.view is None or (error.path and error.path[0] == (asked, index)):
        return
    error.path = _path(asked, index, error.view, error.index) or error.path


def _path(node: View[Any], i: Any, target: View[Any], wanted: Any) -> tuple[tuple[View[Any], Any], ...]:
    trail: list[tuple[View[Any], Any]] = []
    pending: list[tuple[int, View[Any], Any]] = [(0, node, i)]
    while pending:
        depth, node, i = pending.pop()
        del trail[depth:]
        trail.append((node, i))
        if node is target and i == wanted:
            return tuple(trail)
        parts = [(depth + 1, source, j) for source, indices in node._parts(i) for j in indices]
        pending.extend(reversed(parts))
    return ()


def _creation_site() -> tuple[str, int, str]:
    frame = sys._getframe(2)
    while frame.f_back is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_HERE) or filename.startswith(_TESTING):
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called in `repr`: its name, or that of its class.

    >>> import functools
    >>> name_of(abs), name_of(functools.partial(pow, 2))
    ('abs', 'partial')
    """
    return getattr(function, "__name__", type(function).__name__)


def _expression(node: View[Any], budget: Iterator[int] | None = None) -> str:
    if isinstance(node, Source):
        n = "?" if isinstance(node._n, Unsized) else node._n
        return f"<{type(node._data).__name__} of {n}>"
    budget = iter(range(30)) if budget is None else budget  # views shown in all
    inner = [_expression(s, budget) if next(budget, None) is not None else "…" for s in node._sources[:5]]
    return f"{node._name}({', '.join(node._arguments(inner[:4] + ['…'] * (len(inner) > 4)))})"
