"""`switch` and `case`: take each item from one of several sequences, which another one selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ..core.arguments import as_sequences
from ..core.errors import EndOfSequence, fail
from ..core.expression import only_selects
from ..core.indices import Indices, Plan, as_array, as_list
from ..core.iteration import surviving
from ..core.lengths import UNKNOWN, Length, Unsized, sized
from ..core.once import cached
from ..core.plain import as_index, plain
from ..core.source import as_view
from ..core.view import Indexable, T, U, View
from .bases.one_of_several import read_grouped
from .bases.order_digest import index_facts
from .bases.side_by_side import SideBySide

__all__ = ["Case", "Switch", "case", "switch"]


def switch(condition: Indexable[object], x: Indexable[T], y: Indexable[U]) -> View[T | U]:
    """Return the view of the items of `x` where a condition holds, and of `y` elsewhere.

    Parameters
    ----------
    condition : View or indexable
        Items are taken as true or false: bools, numpy bools, numbers, strings.
    x, y : View or indexable
        Sequences that have a length must have that of `condition`.

    Returns
    -------
    View
        Of the common length. If no sequence has one, of the length of `condition`.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed.
    ValueError
        If lengths differ.
    IndexError
        An item raises it if the selected sequence ends before it.

    Notes
    -----
    One access to `condition` and one to the selected sequence. The other sequence is not read. After
    ``switch`` of SeqTools; known elsewhere as ``where``, ``select``.

    Examples
    --------
    >>> list(switch([True, False, 1, ""], "abcd", range(4)))
    ['a', 1, 'c', 3]

    Only the selected item is computed, so no root of a negative number is drawn:

    >>> import math, seqkit as sk
    >>> values = [4, -1, 9]
    >>> list(switch([x >= 0 for x in values], sk.smap(math.sqrt, values), sk.repeat(None)))
    [2.0, None, 3.0]
    """
    return sized(Switch(tuple(as_view(s, "switch") for s in (condition, x, y))))


def case(selector: Indexable[SupportsIndex], *values: Indexable[T]) -> View[T]:
    """Return the view whose item i is ``values[selector[i]][i]``.

    Parameters
    ----------
    selector : View or indexable
        Of ints in ``[-k, k)``, where k is the number of `values`. Negative ones count from the last. Bools
        are refused: see `switch`.
    *values : View or indexable
        At least one. Sequences that have a length must have that of `selector`.

    Returns
    -------
    View
        Of the common length. If no sequence has one, of the length of `selector`.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed.
    ValueError
        Without `values`, or if lengths differ.
    IndexError
        An item raises it if its selector is out of range, or if the selected sequence ends before it.

    Notes
    -----
    One access to `selector` and one to the selected sequence. The others are not read. After ``case`` of
    SeqTools; known elsewhere as ``choose``.

    Examples
    --------
    >>> list(case([0, 1, 2, -1], "abcd", range(4), "ABCD"))
    ['a', 1, 'C', 'D']
    >>> import seqkit as sk
    >>> list(case(sk.cycle([0, 0, 1]), "abcdef", range(6)))  # every third item from a second source
    ['a', 'b', 2, 'd', 'e', 5]
    """
    if not values:
        raise ValueError("case: at least one sequence to select from is needed, got none")
    sequences = selector, *as_sequences(values)
    return sized(Case(tuple(as_view(s, "case") for s in sequences)))


class Case(SideBySide):
    """The view that `case` returns. Its first source is the selector."""

    def _length(self) -> Length:
        super()._length()  # refuses different lengths
        known = [source._n for source in self._sources if not isinstance(source._n, Unsized)]
        return known[0] if known else self._sources[0]._n

    def _choose(self, i: int, selected: Any) -> int:
        """Return the number of the source that an item of the selector stands for."""
        k = len(self._sources) - 1
        try:
            which = as_index(selected)
        except Exception as error:
            fail(self, i, error, "in selector")
        if not -k <= which < k:
            raise IndexError(f"{self._name}: selector[{i}] is {which}, outside [{-k}, {k})")
        return which % k + 1

    def _get(self, i: int) -> Any:
        return self._selected(i, self._sources[0]._get(i))

    def _selected(self, i: int, selected: Any) -> Any:
        try:
            return self._sources[self._choose(i, selected)]._get(i)
        except EndOfSequence as end:
            raise IndexError(f"{self._name}: of the sequence selected for item {i}, {end}") from None

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if any(source._n is UNKNOWN for source in self._sources):
            return View._getmany(self, indices)
        wanted, selected = as_array(indices), self._sources[0]._getmany(indices)
        chosen = [self._choose(i, which) for i, which in zip(as_list(indices), selected, strict=True)]
        return read_grouped(
            np.array(chosen, np.intp), lambda which, places: self._sources[which]._getmany(wanted[places])
        )

    def _iter(self, plan: Plan) -> Iterator[Any]:
        selector = self._sources[0]._iter(plan)

        def read(i: int) -> Any:
            for selected in selector:
                return self._selected(i, selected)
            raise self._too_short(i)

        return surviving(self, plan, read)

    def _too_short(self, i: int) -> Exception:
        """Return the end of this view, or the error that the selector ends before another sequence."""
        if isinstance(self._n, Unsized):
            return EndOfSequence(f"the sequence ends before index {i}")
        return ValueError(f"{self._name}: the selector ends before item {i}, and other sequences do not")

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[self._choose(i, self._sources[0]._get(i))]._set(i, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        yield self._sources[0], (i,)
        if self._is_planned:
            try:
                yield self._sources[self._choose(i, self._sources[0]._get(i))], (i,)
            except Exception:
                return  # the selector is not valid

    @cached
    def _is_planned(self) -> bool:
        return only_selects(self._sources[0])

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return index_facts(self._sources[0])

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(sources)


class Switch(Case):
    """The view that `switch` returns. Its first source is the condition."""

    def _choose(self, i: int, selected: Any) -> int:
        try:
            return 1 if plain(selected) else 2
        except Exception as error:
            fail(self, i, error, "in condition")
