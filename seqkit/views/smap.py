"""`smap` and `starmap`: apply a function to the items of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast, overload

from ..checks import as_bool, check_callable
from ..errors import fail
from ..indices import UNKNOWN, Cursor, Indices, Length, Plan, as_list, nth
from ..iteration import Progress, draw, first_error, restarting, surviving
from ..source import as_view
from ..trace import locate
from ..view import Indexable, T, U, V, View, name_of, sized
from .collate import Collate
from .in_step import InStep, Zip

__all__ = ["BatchedSmap", "Smap", "Spread", "Zip", "smap", "starmap"]


@overload
def smap(
    f: Callable[[T], U], sequence: Indexable[T], /, *, zip: Zip = "strict", batched: Literal[False] = False
) -> View[U]: ...
@overload
def smap(
    f: Callable[[T, V], U],
    first: Indexable[T],
    second: Indexable[V],
    /,
    *,
    zip: Zip = "strict",
    batched: Literal[False] = False,
) -> View[U]: ...
@overload
def smap(
    f: Callable[..., U],
    first: Indexable[Any],
    second: Indexable[Any],
    third: Indexable[Any],
    /,
    *more: Indexable[Any],
    zip: Zip = "strict",
    batched: Literal[False] = False,
) -> View[U]: ...
@overload
def smap(
    f: Callable[..., Indexable[U]],
    /,
    *sequences: Indexable[Any],
    zip: Zip = "strict",
    batched: Literal[True],
) -> View[U]: ...
@overload
def smap(
    f: Callable[..., Any], /, *sequences: Indexable[Any], zip: Zip = "strict", batched: bool
) -> View[Any]: ...
def smap(f: Callable[..., Any], *sequences: Any, zip: Zip = "strict", batched: bool = False) -> View[Any]:
    """Return a lazy view of ``f(item)`` for each item of a sequence, or of several sequences side by side.

    Parameters
    ----------
    f : callable
        Called with one item of each sequence, each time an item is read. Results are not kept.
    *sequences : View or indexable
        At least one.
    zip : "strict" or "shortest"
        Refuse sequences of different lengths (default), or end with the shortest one.
    batched : bool
        Set if `f` takes many items and returns as many. It is called with a list of items of each sequence,
        or with an array if the sequence is one. A batched read, such as that of a `batch` above, is one call.
        Iteration calls `f` with blocks of up to 256 items. If a block fails, its items are mapped one by one.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable, `batched` is not a bool, or a sequence cannot be indexed.
    ValueError
        Without a sequence, for unequal lengths with ``"strict"``, or for an unknown `zip`. A read raises it
        if a batched `f` returns a wrong number of items.

    Notes
    -----
    One call of `f` per access, or per batched access. A map of a map is read in one loop. After
    ``smap`` of SeqTools; known elsewhere as ``map``, ``transform`` or ``mapobs``.

    Examples
    --------
    >>> squares = smap(lambda x: x * x, range(5))
    >>> squares[3], list(squares[:3])
    (9, [0, 1, 4])
    >>> list(smap(max, [1, 5], [3, 2]))
    [3, 5]
    >>> import numpy as np, seqkit as sk
    >>> scaled = smap(lambda x: x / 10, np.arange(6), batched=True)  # one division per batch
    >>> sk.batch(scaled, 3, collate_fn=np.asarray)[1]
    array([0.3, 0.4, 0.5])
    """
    check_callable(f, "smap: f")
    if not sequences:
        raise ValueError("smap: at least one sequence is needed, got none")
    if zip not in ("strict", "shortest"):
        raise ValueError(f"smap: zip must be 'strict' or 'shortest', got {zip!r}")
    batched = as_bool(batched, "smap: batched")
    if len(sequences) == 1 and not batched:
        return Smap(f, as_view(sequences[0], "smap"))
    views = tuple(as_view(s, "smap") for s in sequences)
    if batched:
        return sized(BatchedSmap(f, views, zip))
    return Smap(Spread(f, "smap"), sized(Collate(views, None, zip, "smap")))


@overload
def starmap(
    f: Callable[..., U], sequence: Indexable[Iterable[Any]], *, first: Literal[False] = False
) -> View[U]: ...
@overload
def starmap(
    f: Callable[[T], U], sequence: Indexable[tuple[T, V]], *, first: Literal[True]
) -> View[tuple[U, V]]: ...
@overload
def starmap(f: Callable[..., Any], sequence: Indexable[Iterable[Any]], *, first: bool) -> View[Any]: ...
def starmap(f: Callable[..., Any], sequence: Indexable[Iterable[Any]], *, first: bool = False) -> View[Any]:
    """Return a lazy view of ``f(*item)`` for each item of a sequence, or ``f(**item)`` for mappings.

    Parameters
    ----------
    f : callable
        Called with the unpacked item, each time it is read.
    sequence : View or indexable
        Of tuples, lists or mappings.
    first : bool
        Call `f` with the first part only, and return the item with the result in its place. For samples such
        as (image, label), of which only the image is transformed. Not for mappings.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable, `sequence` cannot be indexed, or `first` is not a bool.

    Notes
    -----
    One call of `f` per access. After ``starmap`` of SeqTools and `itertools.starmap`, and ``transform_first``
    of Gluon.

    Examples
    --------
    >>> list(starmap(pow, [(2, 3), (3, 2)]))
    [8, 9]
    >>> starmap(dict, [{"x": 1}])[0]
    {'x': 1}
    >>> list(starmap(str.upper, [("a", 0), ("b", 1)], first=True))
    [('A', 0), ('B', 1)]
    """
    check_callable(f, "starmap: f")
    spread = First if as_bool(first, "starmap: first") else Spread
    return Smap(spread(f, "starmap"), as_view(sequence, "starmap"))


class Spread:
    """Call a function with the parts of an item as its arguments. `who` is the name of the combinator."""

    def __init__(self, f: Callable[..., Any], who: str) -> None:
        self.f = f
        self.who = who
        self.__name__ = name_of(f)

    def __call__(self, item: Iterable[Any]) -> Any:
        return self.f(**item) if isinstance(item, Mapping) else self.f(*item)


class First(Spread):
    """Call a function with the first part of an item, and put the result in its place."""

    def __call__(self, item: Iterable[Any]) -> Any:
        if isinstance(item, Mapping | str | bytes):
            raise TypeError(f"starmap: first=True needs a tuple or list, got {type(item).__name__}")
        part, *rest = item
        return [self.f(part), *rest] if isinstance(item, list) else (self.f(part), *rest)


class Smap(View[Any]):
    """The view that `smap` and `starmap` return.

    A chain of maps is one loop over its functions. `_base` is the source of the whole chain, and `_steps`
    holds its functions in order. So a deep chain needs no deep stack, neither to read it nor to pickle it.
    """

    def __init__(self, f: Callable[[Any], Any], source: View[Any]) -> None:
        super().__init__((source,), source._known)
        if isinstance(f, Spread):
            self._name = f.who
        if type(source) is Smap:
            self._base: View[Any] = source._base
            self._steps: tuple[tuple[int, Callable[[Any], Any]], ...] = (
                *source._steps,
                (len(source._steps), f),
            )
        else:
            self._base = source
            self._steps = ((0, f),)

    def _length(self) -> Length:
        return self._base._n

    def _get(self, i: int) -> Any:
        item = self._base._get(i)
        step = 0
        try:
            for step, f in self._steps:
                item = f(item)
        except Exception as error:
            fail(self._layer(step), i, error)
        return item

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items = self._base._iter(plan)
        if len(self._steps) == 1:
            return restarting(lambda progress: self._run_one(items, plan, progress))
        return restarting(lambda progress: self._run(items, plan, progress))

    def _run(self, items: Iterator[Any], plan: Plan, progress: Progress) -> Iterator[Any]:
        steps, step = self._steps, 0
        try:
            for item in progress.counted(items):
                try:
                    for step, f in steps:
                        item = f(item)
                except BaseException as error:
                    self._failed(error, step, plan, progress)
                    raise
                yield item
        except BaseException as error:
            if isinstance(error, Exception):
                locate(error, self, nth(plan, progress.position))
            progress.skipped += 1
            raise
        progress.done = True

    def _run_one(self, items: Iterator[Any], plan: Plan, progress: Progress) -> Iterator[Any]:
        # The same loop for a single function, which is the most common case, is a third faster.
        ((step, f),) = self._steps
        try:
            for item in progress.counted(items):
                try:
                    yield f(item)
                except BaseException as error:
                    self._failed(error, step, plan, progress)
                    raise
        except BaseException as error:
            if isinstance(error, Exception):
                locate(error, self, nth(plan, progress.position))
            progress.skipped += 1
            raise
        progress.done = True

    def _failed(self, error: BaseException, step: int, plan: Plan, progress: Progress) -> None:
        """Report an exception of a function. The caller re-raises other exceptions, such as interrupts."""
        progress.skipped -= 1  # this item was counted, unlike an item that the source failed to give
        if isinstance(error, Exception):
            fail(self._layer(step), nth(plan, progress.position), error)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        results: list[Any] = []
        step = 0
        items = self._base._getmany(indices)
        try:
            if len(self._steps) == 1:
                ((step, f),) = self._steps
                for item in items:
                    results.append(f(item))
                return results
            for item in items:
                for step, f in self._steps:
                    item = f(item)
                results.append(item)
        except Exception as error:
            fail(self._layer(step), as_list(indices)[len(results)], error)
        return results

    def _layer(self, step: int) -> Smap:
        """Return the view of the chain whose function is number `step`."""
        layer = self
        for _ in range(len(self._steps) - 1 - step):
            layer = cast(Smap, layer._sources[0])
        return layer

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return _stack_maps(sources[0], [(f, None) for _, f in self._steps[-1:]])

    def _chain(self) -> list[tuple[Callable[[Any], Any], Any]]:
        return [(f, self._layer(step)._site) for step, f in self._steps]

    def __reduce__(self) -> tuple[Any, ...]:
        # Flat, so that pickling a long chain does not nest.
        return _stack_maps, (self._base, self._chain())

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._steps[-1][1]), *sources]


class BatchedSmap(InStep):
    """The view that `smap` returns for a function of many items."""

    BLOCK = 256  # most items that iteration maps at once

    def __init__(self, f: Callable[..., Any], sources: tuple[View[Any], ...], zip: Zip = "strict") -> None:
        super().__init__(sources, zip)
        self._f = f

    def _get(self, i: int) -> Any:
        return self._map([i])[0]

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._map(indices) if len(indices) else []

    def _map(self, indices: Indices) -> Sequence[Any]:
        return self._apply(indices, self._columns(indices))

    def _apply(self, indices: Indices, columns: list[Sequence[Any]]) -> Sequence[Any]:
        try:
            items = self._f(*columns)
            if len(items) != len(indices):
                raise ValueError(f"f returned {len(items)} items for {len(indices)}")
        except Exception as error:
            many = f"mapping {len(indices)} items at once" if len(indices) > 1 else ""
            fail(self, as_list(indices)[0], error, many)
        return cast(Sequence[Any], items)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Map blocks of items. If a block fails, map its items one by one."""
        if self._n is UNKNOWN or self._by_index:
            return super()._iter(plan)
        cursor, size, single = Cursor(plan), 32, 0
        items: Iterator[Any] = iter(())
        ahead = [source._iter(plan) for source in self._sources] if self._reads_ahead else None

        def read(i: int) -> Any:
            nonlocal size, items, single
            for item in items:
                return item
            if not single:
                block, size = cursor.take(size), self.BLOCK
                try:
                    items = iter(self._map(block) if ahead is None else self._draw(block, ahead))
                    return next(items)
                except Exception:
                    items, single = iter(()), len(block)
            single -= 1
            return self._get(i)

        return surviving(self, plan, read)

    def _draw(self, block: Indices, ahead: list[Iterator[Any]]) -> Sequence[Any]:
        """Map the next items of iterators over the sources, where those read ahead."""
        failed: dict[int, Exception] = {}
        columns: list[Sequence[Any]] = [draw(items, 0, len(block), failed) for items in ahead]
        if failed:
            raise first_error(failed)
        return self._apply(block, columns)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return BatchedSmap(self._f, sources, self._zip)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._f), *sources, "batched=True"]


BatchedSmap._name = "smap"


def _stack_maps(base: View[Any], maps: list[tuple[Callable[[Any], Any], Any]]) -> View[Any]:
    result = base
    for f, site in maps:
        result = Smap(f, result)
        result._site = site or result._site
    return result
