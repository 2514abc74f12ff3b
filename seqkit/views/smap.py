"""`smap`: apply a function to the items of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, cast, overload

from ..core.arguments import check_callable
from ..core.awaiting import Begin, awaited
from ..core.error_path import locate
from ..core.errors import fail
from ..core.expression import name_of
from ..core.indices import Indices, Plan, as_list, nth
from ..core.iteration import Progress, restarting
from ..core.lengths import Length, has_length, sized
from ..core.source import Table, as_view
from ..core.view import Indexable, T, U, View
from .bases.side_by_side import SideBySide, Zip

__all__ = ["Smap", "Zip", "smap"]


@overload
def smap(f: Callable[[dict[str, Any]], U], table: Table, /) -> View[U]: ...
@overload
def smap(f: Callable[[T], U], sequence: Indexable[T], /) -> View[U]: ...
@overload
def smap(
    f: Callable[..., U],
    first: Indexable[Any],
    second: Indexable[Any],
    /,
    *more: Indexable[Any],
    zip: Zip = "strict",
) -> View[U]: ...
def smap(f: Callable[..., Any], *sequences: Any, zip: Zip = "strict") -> View[Any]:
    """Return a lazy view of ``f(item)`` for each item of a sequence, or of several sequences side by side.

    Parameters
    ----------
    f : callable
        Called with one item of each sequence, each time an item is read. Results are not kept.
    *sequences : View or indexable
        At least one.
    zip : "strict" or "shortest"
        Refuse sequences of different lengths (default), or end with the shortest one.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable, or a sequence cannot be indexed.
    ValueError
        Without a sequence, for unequal lengths with ``"strict"``, or for an unknown `zip`. If lengths are
        unknown, iterating and indexing raise it where the first sequence ends.

    Notes
    -----
    One call of `f` per access. A map of a map is read in one loop. To call a function of many items, map
    batches: ``smap(f, batch(sequence, k))``, and `unbatch` the result for single items.
    After ``smap`` of SeqTools; known elsewhere as ``map``, ``transform`` or ``mapobs``.

    Examples
    --------
    >>> squares = smap(lambda x: x * x, range(5))
    >>> squares[3], list(squares[:3])
    (9, [0, 1, 4])
    >>> list(smap(max, [1, 5], [3, 2]))
    [3, 5]
    """
    check_callable(f, "smap: f", may_be_async=True)
    if not sequences:
        raise ValueError("smap: at least one sequence is needed, got none")
    if zip not in ("strict", "shortest"):
        raise ValueError(f"smap: zip must be 'strict' or 'shortest', got {zip!r}")
    views = tuple(as_view(s, "smap") for s in sequences)
    if len(views) == 1:
        return Smap(f, views[0])
    return Smap(Spread(f), sized(SideBySide(views, zip, "smap")))


class Spread:
    """Call a function with the parts of an item, which may be a mapping, as its arguments."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.__name__ = name_of(f)

    def __call__(self, item: Any) -> Any:
        return self.f(**item) if isinstance(item, Mapping) else self.f(*item)


class Chain(NamedTuple):
    """Maps that are computed in one loop: their functions, the innermost first, and the view below them."""

    functions: tuple[Callable[[Any], Any], ...]
    base: View[Any]


class Smap(View[Any]):
    """The view that `smap` and `starmap` return.

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

    def _coroutines(self) -> Callable[[int], Begin]:
        return self._begin

    def _begin(self, i: int) -> Begin:
        return partial(await_call, self, i, self._chain.functions[-1], self._sources[0]._get(i))

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


async def await_call(view: View[Any], i: int, f: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a coroutine that makes item `i` of a view."""
    try:
        return await awaited(f(*arguments))
    except Exception as error:
        if type(error) is RuntimeError and error.__cause__ is None:  # asyncio has no class for this case
            error.add_note(
                "If it is about another loop: open sessions, locks and the like with `per_process`"
            )
        fail(view, i, error)
