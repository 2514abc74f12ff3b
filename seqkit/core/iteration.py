"""Iterators that survive errors: `next` after an error returns the following item.

Ctrl-C is no error of an item. After it, and after any other exception that is not an `Exception`, the
iteration is over, and says so.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, islice, repeat
from types import FunctionType
from typing import Any, Generic, NoReturn, Self, TypeVar

from .error_path import locate
from .errors import EndOfSequence
from .indices import Plan, each, nth

__all__ = [
    "Progress",
    "draw",
    "each_with",
    "first_error",
    "is_one_shot",
    "located",
    "restarting",
    "surviving",
    "until_the_end",
]

T = TypeVar("T")


class Progress:
    """The position of an iteration. The generators that continue it after errors share it."""

    __slots__ = ("_uncounted", "done", "interrupted", "skipped")

    def __init__(self) -> None:
        self._uncounted = repeat(True, sys.maxsize)
        self.skipped = 0
        self.done = self.interrupted = False

    def counted(self, items: Iterator[T]) -> Iterator[T]:
        """Return `items`, counted as they are drawn. This is a fifth cheaper than counting in the loop."""
        return compress(items, self._uncounted)

    @property
    def position(self) -> int:
        """The number of items counted or skipped so far."""
        return sys.maxsize - operator.length_hint(self._uncounted) + self.skipped


def restarting(run: Callable[[Progress], Iterator[T]]) -> Iterator[T]:
    """Return an iterator that continues after an error.

    A generator is finished once it raises. ``run(progress)`` makes a new generator that continues after the
    failed item. It sets ``progress.done`` at the end, and ``progress.interrupted`` after Ctrl-C. `chain`
    switches between the generators in C, so items cost nothing extra.
    """
    return chain.from_iterable(_Runs(run))


class _Runs(Generic[T]):
    """The generators of a `restarting` iterator."""

    # A class, because `chain` drops a generator that two threads use at once.
    __slots__ = ("_progress", "_run")

    def __init__(self, run: Callable[[Progress], Iterator[T]]) -> None:
        self._run = run
        self._progress = Progress()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Iterator[T]:
        if self._progress.done:
            raise StopIteration
        if self._progress.interrupted:
            return _raising()
        return self._run(self._progress)

    def __reduce__(self) -> NoReturn:
        raise TypeError("Iterators cannot be copied or pickled. Copy or pickle the view instead.")


def _raising() -> Iterator[Any]:
    yield from ()
    raise RuntimeError(
        "this iterator ended when Ctrl-C, or a similar exception, interrupted it. Begin a new one"
    )


def surviving(view: Any, plan: Plan, read: Callable[[int], Any]) -> Iterator[Any]:
    """Iterate ``read(i)`` for the indices of a plan of `view`, and continue after an error.

    `read` usually draws from iterators over the sources of the view. It raises `EndOfSequence` where the
    sequence ends. After any other `Exception` the iterators must be at the next index of the plan.
    """
    indices = each(plan)

    def run(progress: Progress) -> Iterator[Any]:
        for i in indices:
            try:
                item = read(i)
            except EndOfSequence:
                break
            except Exception as error:
                locate(error, view, i)
                raise
            except BaseException:
                progress.interrupted = True
                raise
            yield item
        progress.done = True

    return restarting(run)


def located(view: Any, plan: Plan, items: Iterator[T]) -> Iterator[T]:
    """Iterate `items`, the items of a plan of `view`, and continue after an error, as `surviving` does.

    `items` must itself continue after an error, as `map` does. Then no Python code runs for an item.
    """

    def run(progress: Progress) -> Iterator[T]:
        try:
            yield from progress.counted(items)
        except Exception as error:
            locate(error, view, nth(plan, progress.position))
            progress.skipped += 1
            raise
        except BaseException:
            progress.interrupted = True
            raise
        progress.done = True

    return restarting(run)


def each_with(view: Any, f: Callable[[int, Any], T], items: Iterator[Any], plan: Plan) -> Iterator[T]:
    """Iterate ``f(i, item)`` over the items of a plan of `view`, and continue after an error of either."""

    def read(i: int) -> T:
        try:
            item = next(items)
        except StopIteration:
            raise EndOfSequence(f"the sequence ends before index {i}") from None
        return f(i, item)

    return surviving(view, plan, read)


def draw(items: Iterator[T], start: int, stop: int, failed: dict[int, Exception]) -> list[T | None]:
    """Draw items `start` to `stop` of an iterator. An item that fails is None, and `failed` gets its error.

    >>> draw(iter("abc"), 5, 7, {})
    ['a', 'b']
    """
    found: list[T | None] = []
    while True:
        try:
            found.extend(islice(items, stop - start - len(found)))
            return found
        except Exception as error:
            failed[start + len(found)] = error
            found.append(None)


def first_error(failed: dict[int, Exception]) -> Exception:
    """Return the error of the first item that failed, and forget all, so that no error refers to itself."""
    error = failed[min(failed)]
    failed.clear()
    return error


def is_one_shot(iterable: Any) -> bool:
    """Return whether an object is an iterator that is known not to begin again.

    Generators, files and other iterators of Python and of libraries in C do not. A class written in Python,
    with `__next__` and an `__iter__` of its own, may begin again there, as many data sets do.

    >>> class Lines:
    ...     def __iter__(self):
    ...         self.position = 0
    ...         return self
    ...     def __next__(self):
    ...         raise StopIteration
    >>> is_one_shot(iter("ab")), is_one_shot("ab"), is_one_shot(Lines())
    (True, False, False)
    """
    if not isinstance(iterable, Iterator):
        return False
    begins = type(iterable).__iter__
    return begins is Iterator.__iter__ or not isinstance(begins, FunctionType)


def until_the_end(source: Any, indices: Iterable[int]) -> list[Any]:
    """Return the items of a view at some indices, in order, up to the end of the sequence.

    Reads by index: iterating some sources would start another pass.

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
