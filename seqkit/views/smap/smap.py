"""`smap`: apply a function to the items of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Literal, NamedTuple, cast, overload

from ...core.arguments import as_bool, check_callable
from ...core.error_path import locate
from ...core.errors import fail
from ...core.indices import Indices, Length, Plan, as_list, nth
from ...core.iteration import Progress, restarting
from ...core.source import as_view
from ...core.view import Indexable, T, Table, U, V, View, is_measured, name_of, sized
from ..bases.side_by_side import Zip, Zipped, common_length
from .batched import BatchedSmap

__all__ = ["Smap", "Zip", "smap"]


@overload
def smap(
    f: Callable[[dict[str, Any]], U],
    table: Table,
    /,
    *,
    zip: Zip = "strict",
    batched: Literal[False] = False,
) -> View[U]: ...
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
    One call of `f` per access, or per batched access. A map of a map is read in one loop. A map of several
    sequences joins the longest chain of maps among them. After ``smap`` of SeqTools; known elsewhere as
    ``map``, ``transform`` or ``mapobs``.

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
    check_callable(
        f,
        "smap: f",
        ("item",) * len(sequences) or None,
        hint=". The function comes first: smap(f, sequence)",
        unfit=". To unpack items use starmap." if len(sequences) == 1 else "",
    )
    if not sequences:
        raise ValueError("smap: at least one sequence is needed, got none")
    if zip not in ("strict", "shortest"):
        raise ValueError(f"smap: zip must be 'strict' or 'shortest', got {zip!r}")
    if batched is False and len(sequences) == 1:
        return Smap(f, (as_view(sequences[0], "smap"),))
    batched = as_bool(batched, "smap: batched")
    views = tuple(as_view(s, "smap") for s in sequences)
    return sized(BatchedSmap(f, views, zip) if batched else Smap(f, views, zip))


Step = tuple[int, Callable[[Any], Any]]  # the number of a layer, and a function of one argument


# The function of a map, the position of the argument that comes from the map below, and the number of other
# arguments.
Layer = tuple[Callable[..., Any], int, int]


class Chain(NamedTuple):
    """Maps that are computed in one loop, the innermost first.

    `inputs` holds the source of the innermost map, and the other sources of all maps.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[View[Any], ...]
    zip: Zip

    def base(self, who: str) -> View[Any]:
        """Return the view that the loop reads: the input, or rows of several inputs."""
        return self.inputs[0] if len(self.inputs) == 1 else Zipped(self.inputs, self.zip, who)

    def steps(self) -> tuple[Step, ...]:
        """Return the functions that make an item of an item of `base`, each with the number of its layer."""
        if len(self.inputs) == 1:
            return tuple((number, f) for number, (f, _, _) in enumerate(self.layers))
        if len(self.layers) == 1:
            f = self.layers[0][0]
            return ((0, lambda row: f(*row)),)
        steps, start = list[Step](), 1
        for number, (f, at, others) in enumerate(self.layers):
            steps.append((number, partial(_map_in_row, f, at, slice(start, start + others))))
            start += others
        return (*steps, (len(self.layers) - 1, itemgetter(0)))


def joined(f: Callable[..., Any], sources: tuple[View[Any], ...], zip: Zip) -> Chain:
    """Return the chain of a map. It extends the longest chain among its sources.

    Maps of several sequences with different `zip` are not joined: rows have only one rule for their length.
    """
    if len(sources) == 1:
        chain: Chain | None = getattr(sources[0], "_chain", None)
        parts: tuple[Any, ...] = (((f, 0, 0),), sources, zip)
        if chain is not None:
            parts = ((*chain.layers, (f, 0, 0)), chain.inputs, chain.zip)
        return tuple.__new__(Chain, parts)  # as `Chain(*parts)`, without a call of a function in Python
    below: list[Chain | None] = [getattr(source, "_chain", None) for source in sources]
    joinable = [c if c and (len(c.inputs) == 1 or c.zip == zip) else None for c in below]
    lengths = [len(c.layers) if c else 0 for c in joinable]
    at = lengths.index(max(lengths))
    others = sources[:at] + sources[at + 1 :]
    layer, chain = (f, at, len(others)), joinable[at]
    if chain is None:
        return Chain((layer,), (sources[at], *others), zip)
    return Chain((*chain.layers, layer), chain.inputs + others, zip)


def _map_in_row(f: Callable[..., Any], at: int, others: slice, row: list[Any]) -> list[Any]:
    """Replace the first part of a row by the result of a function of it and of other parts."""
    arguments = row[others]
    arguments.insert(at, row[0])
    row[0] = f(*arguments)
    return row


class Smap(View[Any]):
    """The view that `smap` and `starmap` return.

    A chain of maps is one loop over the steps of `_chain` and the items of its base. So a deep chain needs no
    deep stack, neither to read it nor to pickle it.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        sources: tuple[View[Any], ...],
        zip: Zip = "strict",
        name: str = "smap",
    ) -> None:
        super().__init__(sources, sources[0]._known if len(sources) == 1 else None)
        self._name = name
        self._chain: Chain = joined(f, sources, zip)
        # The view and the functions of the loop. A `cached` attribute would make each access slower.
        self._loop: tuple[View[Any], tuple[Step, ...]] | None = None

    def _prepare(self) -> tuple[View[Any], tuple[Step, ...]]:
        self._loop = self._chain.base(self._name), self._chain.steps()
        return self._loop

    def _length(self) -> Length:
        # The sources may be a deep chain. Then do not ask them for a length that they must find first.
        known = all(source._known is not None for source in self._sources)
        return common_length(self._sources if known else self._chain.inputs, self._chain.zip, self._name)

    @property
    def _streams(self) -> bool:
        first, *others = self._chain.inputs
        return not others and first._known is None and first._streams

    @property
    def _reads_on_demand(self) -> bool:
        first, *others = self._chain.inputs
        return not others and first._reads_on_demand

    def _slice(self, key: slice) -> View[Any]:
        if self._known is None and self._reads_on_demand:
            return self._over(self._chain.inputs[0]._slice(key))
        return super()._slice(key)

    def _head(self, n: int) -> View[Any]:
        base, *others = self._chain.inputs
        return super()._head(n) if others or is_measured(base) else self._over(base.head(n))

    def _over(self, base: View[Any]) -> View[Any]:
        """Return the maps of the chain over another view."""
        for number in range(len(self._chain.layers)):
            base = self._layer(number)._rebuild((base,))
        return base

    def _get(self, i: int) -> Any:
        base, steps = self._loop or self._prepare()
        item = base._get(i)
        step = 0
        try:
            for step, f in steps:
                item = f(item)
        except Exception as error:
            fail(self._layer(step), i, error)
        return item

    def _iter(self, plan: Plan) -> Iterator[Any]:
        base, steps = self._loop or self._prepare()
        items = base._iter(plan)
        run = self._run_one if len(steps) == 1 else self._run
        return restarting(lambda progress: run(steps, items, plan, progress))

    def _run(
        self, steps: tuple[Step, ...], items: Iterator[Any], plan: Plan, progress: Progress
    ) -> Iterator[Any]:
        step = 0
        try:
            for drawn in progress.counted(items):
                item = drawn
                try:
                    for step, f in steps:
                        item = f(item)
                except BaseException as error:
                    self._failed(error, step, plan, progress, drawn)
                    raise
                yield item
        except Exception as error:
            locate(error, self, nth(plan, progress.position))
            progress.skipped += 1
            raise
        progress.done = True

    def _run_one(
        self, steps: tuple[Step, ...], items: Iterator[Any], plan: Plan, progress: Progress
    ) -> Iterator[Any]:
        # The same loop for a single function, which is the most common case, is a third faster.
        ((step, f),) = steps
        try:
            for item in progress.counted(items):
                try:
                    yield f(item)
                except BaseException as error:
                    if isinstance(error, Exception) or _raised_in(f, error):
                        self._failed(error, step, plan, progress, item)
                    raise
        except Exception as error:
            locate(error, self, nth(plan, progress.position))
            progress.skipped += 1
            raise
        progress.done = True

    def _failed(self, error: BaseException, step: int, plan: Plan, progress: Progress, item: Any) -> None:
        """Report an error of a function for an item. After an interrupt, the item is drawn again."""
        if not isinstance(error, Exception):
            progress.again(item)
            return
        progress.skipped -= 1  # this item was counted, unlike an item that the source failed to give
        fail(self._layer(step), nth(plan, progress.position), error)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        results: list[Any] = []
        step = 0
        base, steps = self._loop or self._prepare()
        items = base._getmany(indices)
        try:
            if len(steps) == 1:
                ((step, f),) = steps
                for item in items:
                    results.append(f(item))
                return results
            for item in items:
                for step, f in steps:
                    item = f(item)
                results.append(item)
        except Exception as error:
            fail(self._layer(step), as_list(indices)[len(results)], error)
        return results

    def _layer(self, number: int) -> Smap:
        """Return the view of the chain whose function is that of layer `number`."""
        layer = self
        for _, at, _ in self._chain.layers[:number:-1]:
            layer = cast(Smap, layer._sources[at])
        return layer

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Smap(self._chain.layers[-1][0], sources, self._chain.zip, self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Flat, so that pickling a long chain does not nest.
        maps: list[tuple[Any, ...]] = []
        layer: Any = self
        for f, at, _ in reversed(self._chain.layers):
            before, after = layer._sources[:at], layer._sources[at + 1 :]
            maps.append((f, before, after, layer._chain.zip, layer._name, layer._site))
            layer = layer._sources[at]
        return _stack_maps, (layer, maps[::-1])

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._chain.layers[-1][0],)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._chain.layers[-1][0]), *sources]


def _raised_in(f: Callable[..., Any], interrupt: BaseException) -> bool:
    """Return whether an interrupt came during ``f(item)``, not just after its result was handed out.

    A function written in Python has a frame of its own in the traceback then.
    """
    trace = interrupt.__traceback__
    return not hasattr(f, "__code__") or (trace is not None and trace.tb_next is not None)


def _stack_maps(base: View[Any], maps: list[tuple[Any, ...]]) -> View[Any]:
    for f, before, after, rule, name, site in maps:
        base = Smap(f, (*before, base, *after), rule, name)
        base._site = site or base._site
    return base
