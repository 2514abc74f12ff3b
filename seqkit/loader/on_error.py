"""Samples that fail: `on_error` of a loader.

A view of the data set catches the errors. The record of a failure travels with its batch, from any worker,
and the loader's iterator removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from os import PathLike
from typing import Any

from ..core.errors import EndOfSequence, EvaluationError, errstate, summary
from ..core.indices import Indices, Unsized, as_list
from ..core.source import Source
from ..core.view import View
from ..views.uniter import Uniter
from .options import OnError

__all__ = ["OnRecovered", "Recovered", "Tolerant", "merged"]


@dataclass(slots=True)
class Recovered:
    """Samples or a batch, with the failures of samples.

    Attributes
    ----------
    values : list
        The samples that are left, or one batch of them.
    failed : list of (key, str)
        Index or key of each sample that failed, and its error with the path or text that it is made of.
    """

    values: list[Any]
    failed: list[tuple[Any, str]]


class Tolerant(View[Any]):
    """The view of the same samples in which each failing sample is `Recovered`.

    The replacement of a sample is the next sample that can be read. The first sample follows the last one.
    An error of an iterable data set itself is raised, because nothing can be read after it.

    Parameters
    ----------
    source : View
        Its indices may be keys of any kind.
    on_error : "skip", "replace" or callable
    """

    def __init__(self, source: View[Any], on_error: OnError) -> None:
        super().__init__((source,))
        self._on_error = on_error

    def _get(self, key: Any) -> Any:
        failed: list[tuple[Any, str]] = []
        for i in chain([key], self._others(key)):
            try:
                # Under either error policy, a failure arrives here as an EvaluationError.
                with errstate("wrap"):
                    item = self._sources[0]._get(i)
                return Recovered([item], failed) if failed else item
            except EvaluationError as error:
                if isinstance(error.view, Uniter):
                    raise
                error.index = getattr(error.index, "number", error.index)
                failed.append((getattr(i, "number", i), described(error)))
                if callable(self._on_error):
                    return Recovered([self._on_error(error)], failed)
        return Recovered([], failed)

    def _others(self, key: Any) -> Iterable[int]:
        n = self._n
        if self._on_error != "replace" or isinstance(n, Unsized) or not isinstance(key, int):
            return ()
        return chain(range(key + 1, n), range(key))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        try:
            with errstate("wrap"):
                return self._sources[0]._getmany(indices)
        except EndOfSequence:
            raise
        except EvaluationError:
            return [self._get(key) for key in as_list(indices)]

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Tolerant(sources[0], self._on_error)


def described(error: EvaluationError) -> str:
    """Return the text of an error, and the texts that its item is made of, which may be paths.

    >>> import seqkit as sk
    >>> try:
    ...     sk.smap(int, ["1.png"])[0]
    ... except EvaluationError as error:
    ...     described(error)
    "ValueError: invalid literal for int() with base 10: '1.png'"
    """
    text = summary(error.__cause__ or error)
    try:
        inputs = [] if error.view is None else list(islice(_leaves(error.view, error.index), MOST_INPUTS))
    except Exception:  # user code that says where an item comes from
        inputs = []
    shown = [repr(each)[:MOST_LETTERS] for each in inputs if _has_text(each) and str(each) not in text]
    return f"{text}; input: {', '.join(shown)}" if shown else text


MOST_INPUTS = 3
MOST_LETTERS = 300


def _leaves(view: View[Any], i: Any) -> Iterator[Any]:
    """Yield the items of the user's objects that item `i` is made of. No function is called."""
    for source, indices in view._parts(i):
        for k in indices:
            if isinstance(source, Source):
                yield source._get(k)
            else:
                yield from _leaves(source, k)


def _has_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return isinstance(value, str | PathLike) or (
        isinstance(value, tuple | list) and any(map(_has_text, value))
    )


class OnRecovered:
    """Apply a function to the samples that are left, and keep the failures attached.

    With ``collates=True`` the function makes a batch of a list of samples.
    """

    def __init__(self, function: Callable[[Any], Any], collates: bool = False) -> None:
        self.function = function
        self.collates = collates

    def __call__(self, item: Any) -> Any:
        if self.collates:
            item = merged(list(item))
        if type(item) is not Recovered:
            return self.function(item)
        left = [item.values] if self.collates and item.values else item.values
        return Recovered([self.function(value) for value in left], item.failed)


def merged(items: list[Any]) -> Any:
    """Return a list of samples or batches; if some are `Recovered`, as one `Recovered` of those left.

    >>> merged([1, Recovered([], [(7, "bad")])])
    Recovered(values=[1], failed=[(7, 'bad')])
    """
    if not any(type(item) is Recovered for item in items):
        return items
    parts = [item if type(item) is Recovered else Recovered([item], []) for item in items]
    return Recovered(
        [value for part in parts for value in part.values],
        [failure for part in parts for failure in part.failed],
    )
