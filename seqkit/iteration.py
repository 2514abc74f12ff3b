"""Iterators that survive errors."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, repeat
from typing import Any, Generic, NoReturn, Self, TypeVar

from .errors import EndOfSequence
from .indices import Plan, each

__all__ = ["Progress", "each_with", "restarting", "step_over", "until_the_end"]

T = TypeVar("T")


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


def until_the_end(source: Any, indices: Iterable[int]) -> list[Any]:
    """Return the items at some indices, in order, as far as there are any.

    Without iterating, which of what can only be iterated would be another pass.

    >>> from seqkit import view
    >>> from seqkit.testing import UnsizedSource
    >>> until_the_end(view(UnsizedSource("abc")), range(1, 9))
    ['b', 'c']
    """
    items: list[Any] = []
    try:
        for i in indices:
            items.append(source._get(i))
    except EndOfSequence:
        pass
    return items
