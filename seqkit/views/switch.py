"""`switch` and `case`: each item from the sequence that another one selects."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ..errors import EndOfSequence, EvaluationError, fail
from ..indices import UNKNOWN, Indices, Length, Plan, Unsized, as_list, each
from ..iteration import Progress, restarting
from ..source import as_view
from ..trace import locate
from ..view import Indexable, T, U, View
from .collate import in_step

__all__ = ["Case", "Switch", "case", "switch"]


def switch(condition: Indexable[object], x: Indexable[T], y: Indexable[U]) -> View[T | U]:
    """Return the view of the items of `x` where a condition holds, and of `y` elsewhere.

    Parameters
    ----------
    condition : View or indexable
        Of anything that is true or false: bools, numpy bools, numbers, strings.
    x, y : View or indexable
        Of the length of `condition`, as far as they have one.

    Returns
    -------
    View
        Of the common length; where none of the three has one, of that of `condition`.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed.
    ValueError
        If lengths differ.
    IndexError
        When an item is read, if `x` or `y` ends before it.

    Notes
    -----
    One access to `condition` and one to the sequence selected; the other is not read. After ``switch`` of
    SeqTools; known elsewhere as ``where``, ``select``.

    Examples
    --------
    >>> list(switch([True, False, 1, ""], "abcd", range(4)))
    ['a', 1, 'c', 3]
    """
    return Switch(tuple(as_view(s, "switch") for s in (condition, x, y)))


def case(selector: Indexable[SupportsIndex], *values: Indexable[T]) -> View[T]:
    """Return the view whose item i is ``values[selector[i]][i]``.

    Parameters
    ----------
    selector : View or indexable
        Of ints in ``[-k, k)``, where k is the number of `values`; negative ones count from the last.
    *values : View or indexable
        At least one, of the length of `selector`, as far as they have one.

    Returns
    -------
    View
        Of the common length; where no sequence has one, of that of `selector`.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed.
    ValueError
        Without `values`, or if lengths differ.
    IndexError
        When an item is read, if its selector is out of range or the sequence selected ends before it.

    Notes
    -----
    One access to `selector` and one to the sequence selected; the others are not read. After ``case`` of
    SeqTools; known elsewhere as ``choose``.

    Examples
    --------
    >>> list(case([0, 1, 2, -1], "abcd", range(4), "ABCD"))
    ['a', 1, 'C', 'D']
    """
    if not values:
        raise ValueError("case: at least one sequence to select from is needed, got none")
    return Case(tuple(as_view(s, "case") for s in (selector, *values)))


class Case(View[Any]):
    """The view behind `case`; its first source is the selector."""

    def __init__(self, sources: tuple[View[Any], ...]) -> None:
        super().__init__(*_in_step(sources, self._name))

    def _chosen(self, i: int, selected: Any) -> View[Any]:
        """Return the sequence that an item of the selector stands for."""
        k = len(self._sources) - 1
        try:
            which = int(selected) if isinstance(selected, np.bool_) else operator.index(selected)
        except Exception as error:
            fail(self, i, error, "in selector")
        if not -k <= which < k:
            raise IndexError(f"{self._name}: selector[{i}] is {which}, outside [{-k}, {k})")
        return self._sources[which % k + 1]

    def _item(self, i: int, selected: Any) -> Any:
        try:
            return self._chosen(i, selected)._get(i)
        except EndOfSequence as end:
            raise IndexError(f"{self._name}: of the sequence selected for item {i}, {end}") from None

    def _get(self, i: int) -> Any:
        return self._item(i, self._sources[0]._get(i))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if any(source._n is UNKNOWN for source in self._sources):
            return super()._getmany(indices)
        wanted = as_list(indices)
        selected = self._sources[0]._getmany(indices)
        chosen = [self._chosen(i, which) for i, which in zip(wanted, selected, strict=True)]
        shares: defaultdict[View[Any], list[int]] = defaultdict(list)
        for i, source in zip(wanted, chosen, strict=True):
            shares[source].append(i)
        found = {source: iter(source._getmany(share)) for source, share in shares.items()}
        return [next(found[source]) for source in chosen]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        selector, indices = self._sources[0]._iter(plan), each(plan)

        def run(progress: Progress) -> Iterator[Any]:
            for i in indices:
                try:
                    selected = next(selector)
                except StopIteration:
                    break
                try:
                    item = self._item(i, selected)
                except EvaluationError as error:
                    locate(error, self, i)
                    raise
                yield item
            progress.done = True

        return restarting(run)

    def _set(self, i: int, value: Any) -> None:
        self._chosen(i, self._sources[0]._get(i))._set(i, value)

    def _check_settable(self, i: int) -> None:
        self._chosen(i, self._sources[0]._get(i))._check_settable(i)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        yield self._sources[0], (i,)
        try:
            chosen = self._chosen(i, self._sources[0]._get(i))
        except Exception:
            return  # nothing was chosen
        yield chosen, (i,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(sources)


class Switch(Case):
    """The view behind `switch`; its first source is the condition."""

    def _chosen(self, i: int, selected: Any) -> View[Any]:
        try:
            return self._sources[1 if selected else 2]
        except Exception as error:
            fail(self, i, error, "in condition")


def _in_step(sources: tuple[View[Any], ...], who: str) -> tuple[tuple[View[Any], ...], Length]:
    """Return sequences as they are read side by side; where none has a length, the selector says why."""
    sources, n = in_step(sources, "strict", who)
    return sources, sources[0]._n if isinstance(n, Unsized) else n
