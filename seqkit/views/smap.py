"""`smap`: apply a function to the items of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, cast, overload

from ..core.adapters import as_results
from ..core.arguments import as_bool, check_callable
from ..core.error_path import locate
from ..core.errors import fail
from ..core.expression import name_of
from ..core.indices import Cursor, Indices, Plan, as_list, nth
from ..core.iteration import Progress, draw, first_error, restarting, surviving
from ..core.lengths import UNKNOWN, Length, has_length, sized
from ..core.source import Table, as_view
from ..core.view import Indexable, T, U, View
from .bases.side_by_side import SideBySide, Zip

__all__ = ["Smap", "Zip", "smap"]


@overload
def smap(
    f: Callable[[dict[str, Any]], U], table: Table, /, *, batched: Literal[False] = False
) -> View[U]: ...
@overload
def smap(f: Callable[[T], U], sequence: Indexable[T], /, *, batched: Literal[False] = False) -> View[U]: ...
@overload
def smap(
    f: Callable[..., U],
    first: Indexable[Any],
    second: Indexable[Any],
    /,
    *more: Indexable[Any],
    zip: Zip = "strict",
    batched: Literal[False] = False,
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
        Set if `f` takes many items and returns a list or an array of as many results. It is called with a
        list of items of each sequence, or with an array if the sequence is one. A batched read, such as that
        of a `batch` above, is one call. Iteration calls `f` with blocks of up to 256 items. If `f` fails, the
        items of the block are mapped one by one.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable, `batched` is not a bool, or a sequence cannot be indexed.
    ValueError
        Without a sequence, for unequal lengths with ``"strict"``, or for an unknown `zip`. If lengths are
        unknown, iterating and indexing raise it where the first sequence ends. A read raises it or TypeError
        if a batched `f` returns a wrong number of items, or no list or array.

    Notes
    -----
    One call of `f` per access, or per batched access. A map of a map is read in one loop.
    After ``smap`` of SeqTools; known elsewhere as ``map``, ``transform`` or ``mapobs``.

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
    if batched is False and len(sequences) == 1:
        return Smap(f, as_view(sequences[0], "smap"))
    views = tuple(as_view(s, "smap") for s in sequences)
    kind = BatchedSmap if as_bool(batched, "smap: batched") else ZippedSmap if len(views) > 1 else None
    return Smap(f, views[0]) if kind is None else sized(kind(f, views, zip))


class Chain(NamedTuple):
    """Maps that are computed in one loop: their functions, the innermost first, and the view below them."""

    functions: tuple[Callable[[Any], Any], ...]
    base: View[Any]


class Smap(View[Any]):
    """The view that `smap` returns for one sequence, and `starmap`.

    A chain of maps is one loop over the functions of `_chain` and the items of its base. So a deep chain
    needs no deep stack, neither to read it nor to pickle it.
    """

    _streams = True

    def __init__(self, f: Callable[..., Any], source: View[Any], name: str = "smap") -> None:
        super().__init__((source,), source._known)
        self._name = name
        below: Chain | None = getattr(source, "_chain", None)
        parts: Any = ((f,), source) if below is None else ((*below.functions, f), below.base)
        self._chain: Chain = tuple.__new__(Chain, parts)  # without a call of a function in Python

    def _length(self) -> Length:
        return self._chain.base._n  # the sources may be a deep chain

    def _head(self, n: int) -> View[Any]:
        base = self._chain.base
        if has_length(base):
            return super()._head(n)
        base = base._head(n)
        for layer in self._layers():
            base = layer._rebuild((base,))
        return base

    def _get(self, i: int) -> Any:
        functions, base = self._chain
        item, rest = base._get(i), iter(functions)
        try:
            for f in rest:
                item = f(item)
        except Exception as error:
            fail(self._reached(rest), i, error)
        return item

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items = self._chain.base._iter(plan)
        run = self._run_one if len(self._chain.functions) == 1 else self._run
        return restarting(lambda progress: run(items, plan, progress))

    def _run(self, items: Iterator[Any], plan: Plan, progress: Progress) -> Iterator[Any]:
        functions = self._chain.functions
        try:
            for item in progress.counted(items):
                rest = iter(functions)
                try:
                    for f in rest:
                        item = f(item)
                except Exception as error:
                    self._failed(error, rest, plan, progress)
                yield item
        except Exception as error:
            self._locate(error, plan, progress)
            raise
        except BaseException:
            progress.interrupted = True
            raise
        progress.done = True

    def _run_one(self, items: Iterator[Any], plan: Plan, progress: Progress) -> Iterator[Any]:
        # The same loop for a single function, which is the most common case, is a third faster.
        (f,) = self._chain.functions
        try:
            for item in progress.counted(items):
                try:
                    yield f(item)
                except Exception as error:
                    self._failed(error, iter(()), plan, progress)
        except Exception as error:
            self._locate(error, plan, progress)
            raise
        except BaseException:
            progress.interrupted = True
            raise
        progress.done = True

    def _failed(self, error: Exception, rest: Iterator[Any], plan: Plan, progress: Progress) -> NoReturn:
        """Report an error of a function. `rest` has the functions after it."""
        progress.skipped -= 1  # this item was counted, unlike an item that the source failed to give
        fail(self._reached(rest), nth(plan, progress.position), error)

    def _locate(self, error: Exception, plan: Plan, progress: Progress) -> None:
        locate(error, self, nth(plan, progress.position))
        progress.skipped += 1

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        functions, base = self._chain
        items, results, rest = base._getmany(indices), list[Any](), iter(functions)
        try:
            for item in items:
                rest = iter(functions)
                for f in rest:
                    item = f(item)
                results.append(item)
        except Exception as error:
            fail(self._reached(rest), as_list(indices)[len(results)], error)
        return results

    def _reached(self, rest: Iterator[Any]) -> View[Any]:
        """Return the view of the chain whose function was called last. `rest` has the functions after it."""
        layer: View[Any] = self
        for _ in rest:
            layer = layer._sources[0]
        return layer

    def _layers(self) -> list[Smap]:
        """Return the maps of the chain, the innermost first."""
        layers = [self]
        while len(layers) < len(self._chain.functions):
            layers.append(cast(Smap, layers[-1]._sources[0]))
        return layers[::-1]

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Smap(self._chain.functions[-1], sources[0], self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Flat, so that pickling a long chain does not nest.
        functions, base = self._chain
        return _stack_maps, (base, functions, [(layer._name, layer._site) for layer in self._layers()])

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._chain.functions[-1],)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._chain.functions[-1]), *sources]


def _stack_maps(base: View[Any], functions: tuple[Any, ...], names: list[tuple[str, Any]]) -> View[Any]:
    for f, (name, site) in zip(functions, names, strict=True):
        base = Smap(f, base, name)
        base._site = site
    return base


class ZippedSmap(SideBySide):
    """The view that `smap` returns for several sequences."""

    def __init__(self, f: Callable[..., Any], sources: tuple[View[Any], ...], zip: Zip = "strict") -> None:
        super().__init__(sources, zip)
        self._f = f

    def _apply(self, i: int, row: Sequence[Any]) -> Any:
        try:
            return self._f(*row)
        except Exception as error:
            fail(self, i, error)

    def _get(self, i: int) -> Any:
        return self._apply(i, self._row(i))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return list(map(self._apply, as_list(indices), zip(*self._columns(indices), strict=True)))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self._rows(plan, self._apply)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(self._f, sources, self._zip)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._f,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._f), *sources]


ZippedSmap._name = "smap"


class BatchedSmap(ZippedSmap):
    """The view that `smap` returns for a function of many items."""

    BLOCK = 256  # most items that iteration maps at once

    def _get(self, i: int) -> Any:
        return self._map([i])[0]

    def _apply(self, i: int, row: Sequence[Any]) -> Any:
        return self._checked([i], self._called([i], [[x] for x in row]))[0]

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._map(indices) if len(indices) else []

    def _map(self, indices: Indices) -> Sequence[Any]:
        return self._checked(indices, self._called(indices, self._columns(indices)))

    def _called(self, indices: Indices, columns: list[Sequence[Any]]) -> Any:
        try:
            return self._f(*columns)
        except Exception as error:
            self._fail(indices, error)

    def _checked(self, indices: Indices, results: Any) -> Sequence[Any]:
        try:
            return as_results(results, len(indices), name_of(self._f))
        except Exception as error:
            self._fail(indices, error)

    def _fail(self, indices: Indices, error: Exception) -> NoReturn:
        many = f"mapping {len(indices)} items at once" if len(indices) > 1 else ""
        fail(self, as_list(indices)[0], error, many)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Map blocks of items. If the function fails for a block, map its items one by one."""
        if self._n is UNKNOWN:
            return super()._iter(plan)
        cursor, size, single = Cursor(plan), 32, 0
        items: Iterator[Any] = iter(())
        ahead = [source._iter(plan) for source in self._sources] if self._reads_ahead else None

        def read(i: int) -> Any:
            nonlocal size, items, single
            for item in items:
                return item
            if single:
                single -= 1
                return self._get(i)
            block, size = cursor.take(size), self.BLOCK
            single = len(block) - 1  # unless the function succeeds
            try:
                results = self._called(block, self._columns(block) if ahead is None else _drawn(block, ahead))
            except Exception:
                return self._get(i)
            items, single = iter(self._checked(block, results)), 0
            return next(items)

        return surviving(self, plan, read)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*super()._arguments(sources), "batched=True"]


BatchedSmap._name = "smap"


def _drawn(block: Indices, ahead: list[Iterator[Any]]) -> list[Sequence[Any]]:
    """Return the next items of iterators over the sources, where those read ahead."""
    failed: dict[int, Exception] = {}
    columns: list[Sequence[Any]] = [draw(items, 0, len(block), failed) for items in ahead]
    if failed:
        raise first_error(failed)
    return columns
