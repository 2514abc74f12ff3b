"""`smap` and `starmap`: a function laid over the items of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn, cast

from ..errors import fail
from ..indices import Indices, Plan, as_list, nth
from ..view import Progress, View, restarting, view
from .collate import Collate

__all__ = ["Smap", "Spread", "smap", "starmap"]


def smap(f: Callable[..., Any], *sequences: Any, zip: Literal["strict", "shortest"] = "strict") -> View[Any]:
    """Return the view of ``f(item)`` for every item of a sequence, or of several in step.

    Parameters
    ----------
    f : callable
        Called with one item of each sequence, each time an item is read: nothing is remembered.
    *sequences : View or indexable
        At least one.
    zip : "strict" or "shortest"
        With sequences of different lengths: refuse them (default), or end with the shortest.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable or a sequence cannot be indexed.
    ValueError
        Without a sequence, with unequal lengths under ``"strict"``, or with an unknown `zip`.

    Notes
    -----
    One call of `f` per access; maps over maps are fused into one view. After ``smap`` of SeqTools; known
    elsewhere as ``map``, ``transform`` or ``mapobs``.

    Examples
    --------
    >>> squares = smap(lambda x: x * x, range(5))
    >>> squares[3], list(squares[:3])
    (9, [0, 1, 4])
    >>> list(smap(max, [1, 5], [3, 2]))
    [3, 5]
    """
    _check_callable(f, "smap")
    if not sequences:
        raise ValueError("smap: at least one sequence is needed, got none")
    if zip not in ("strict", "shortest"):
        raise ValueError(f"smap: zip must be 'strict' or 'shortest', got {zip!r}")
    if len(sequences) == 1:
        return Smap(f, view(sequences[0]))
    return Smap(Spread(f), Collate(tuple(map(view, sequences)), None, zip, "smap"))


def starmap(f: Callable[..., Any], sequence: Any) -> View[Any]:
    """Return the view of ``f(*item)`` for every item of a sequence; ``f(**item)`` for mappings.

    Parameters
    ----------
    f : callable
        Called with the unpacked item, each time it is read.
    sequence : View or indexable
        Of tuples, lists or mappings.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable or `sequence` cannot be indexed.

    Notes
    -----
    One call of `f` per access. After ``starmap`` of SeqTools and `itertools.starmap`.

    Examples
    --------
    >>> list(starmap(pow, [(2, 3), (3, 2)]))
    [8, 9]
    >>> starmap(dict, [{"x": 1}])[0]
    {'x': 1}
    """
    _check_callable(f, "starmap")
    return Smap(Spread(f), view(sequence))


def _check_callable(f: Any, who: str) -> None:
    if not callable(f):
        raise TypeError(f"{who}: f must be callable, got {f!r}")


class Spread:
    """Call a function with the parts of an item as its arguments."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.__name__ = getattr(f, "__name__", type(f).__name__)

    def __call__(self, item: Iterable[Any]) -> Any:
        return self.f(**item) if isinstance(item, Mapping) else self.f(*item)


class Smap(View[Any]):
    """The view behind `smap` and `starmap`.

    A chain of maps is one loop over its functions: `_base` is what lies under the whole chain and
    `_steps` holds its functions in order, so that depth costs neither stack frames nor, pickled, nesting.
    """

    def __init__(self, f: Callable[[Any], Any], source: View[Any]) -> None:
        super().__init__((source,), source._n)
        if type(source) is Smap:
            self._base: View[Any] = source._base
            self._steps: tuple[tuple[int, Callable[[Any], Any]], ...] = (
                *source._steps,
                (len(source._steps), f),
            )
        else:
            self._base = source
            self._steps = ((0, f),)

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
                except Exception as error:
                    self._failed(error, step, plan, progress)
                yield item
        except BaseException:
            progress.skipped += 1
            raise
        progress.done = True

    def _run_one(self, items: Iterator[Any], plan: Plan, progress: Progress) -> Iterator[Any]:
        # The same loop for a single function: half of all maps, and a third faster.
        ((step, f),) = self._steps
        try:
            for item in progress.counted(items):
                try:
                    yield f(item)
                except Exception as error:
                    self._failed(error, step, plan, progress)
        except BaseException:
            progress.skipped += 1
            raise
        progress.done = True

    def _failed(self, error: Exception, step: int, plan: Plan, progress: Progress) -> NoReturn:
        progress.skipped -= 1  # unlike an item that the source failed to give, this one is counted
        fail(self._layer(step), nth(plan, progress.position), error)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        results: list[Any] = []
        step = 0
        items = self._base._getmany(indices)
        try:
            for item in items:
                for step, f in self._steps:
                    item = f(item)
                results.append(item)
        except Exception as error:
            fail(self._layer(step), as_list(indices)[len(results)], error)
        return results

    def _layer(self, step: int) -> Smap:
        """Return the map of the chain whose function is number `step`."""
        layer = self
        for _ in range(len(self._steps) - 1 - step):
            layer = cast(Smap, layer._sources[0])
        return layer

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return _stack_maps(sources[0], [(f, None) for _, f in self._steps[-1:]])

    def _at_epoch(self, epoch: int) -> View[Any]:
        if not self._randoms:
            return self
        return _stack_maps(self._base._at_epoch(epoch), self._chain())

    def _chain(self) -> list[tuple[Callable[[Any], Any], Any]]:
        return [(f, self._layer(step)._site) for step, f in self._steps]

    def __reduce__(self) -> tuple[Any, ...]:
        # Flat, so that a chain of any length pickles and copies without nesting.
        return _stack_maps, (self._base, self._chain())

    def _arguments(self, sources: list[str]) -> list[str]:
        f = self._steps[-1][1]
        return [getattr(f, "__name__", type(f).__name__), *sources]


def _stack_maps(base: View[Any], maps: list[tuple[Callable[[Any], Any], Any]]) -> View[Any]:
    result = base
    for f, site in maps:
        result = Smap(f, result)
        result._site = site or result._site
    return result
