"""Items that lie in several places, read from each place at once, or iterated beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import EndOfSequence, EvaluationError
from ..indices import IndexArray, Plan, each
from ..iteration import Progress, restarting
from ..trace import locate
from ..view import View

__all__ = ["Groups", "iterate_in_turn", "read_grouped"]


def read_grouped(places: IndexArray, read: Callable[[int, IndexArray], Sequence[Any]]) -> list[Any]:
    """Return an item for each of some places, where ``read(place, positions)`` reads those of one place.

    >>> read_grouped(np.array([1, 0, 1]), lambda place, positions: [(place, i) for i in positions.tolist()])
    [(1, 0), (0, 1), (1, 2)]
    """
    items: list[Any] = [None] * len(places)
    for place in np.unique(places).tolist():
        positions = np.flatnonzero(places == place)
        for position, item in zip(positions.tolist(), read(place, positions), strict=True):
            items[position] = item
    return items


def iterate_in_turn(
    asked: View[Any], plan: Plan, turns: Iterator[int], sources: Sequence[View[Any]], parts: Sequence[Plan]
) -> Iterator[Any]:
    """Iterate every source over its part of a plan, and take each item from the one whose turn it is.

    Parameters
    ----------
    asked : View
        The view that is iterated.
    plan : Plan
        What is read of it.
    turns : iterator of int
        Number of the source of every item of the plan.
    sources : sequence of View
    parts : sequence of Plan
        What is read of each source.
    """
    items = [source._iter(part) for source, part in zip(sources, parts, strict=True)]
    numbered, torn = zip(each(plan), turns, strict=False), False

    def run(progress: Progress) -> Iterator[Any]:
        nonlocal torn
        for i, which in numbered:
            try:
                # After an interrupt nobody knows which items come next: each is read for itself then.
                item = asked._get(i) if torn else next(items[which])
            except StopIteration:  # of a source that ends early, or failed for good
                break
            except BaseException as error:
                if isinstance(error, EvaluationError):
                    locate(error, asked, i)
                torn = torn or not isinstance(error, Exception)
                raise
            yield item
        progress.done = True

    return restarting(run)


class Groups:
    """The groups of a sequence of groups, each read once for all its items that follow each other.

    Parameters
    ----------
    source : View
    groups : iterator
        The groups that are going to be read, in order.
    """

    def __init__(self, source: View[Any], groups: Iterator[Any]) -> None:
        self._source = source
        self._groups = groups
        self._which = -1
        self._items: Any = None
        self._failure: Exception | None = None
        self._torn = False

    def read(self, which: int) -> Any:
        """Return group `which`: the one of the last call, or the next; if reading it failed, fail again."""
        if which != self._which:
            self._which, self._items, self._failure = -1, None, None
            try:
                # After an interrupt nobody knows which group comes next.
                self._items = self._source._get(which) if self._torn else next(self._groups)
            except StopIteration:
                self._failure = EndOfSequence("there is no further group")
            except Exception as error:
                self._failure = error
            except BaseException:
                self._torn = True
                raise
            self._which = which
        if self._failure is not None:
            raise self._failure
        return self._items
