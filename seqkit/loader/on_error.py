"""Samples that fail: `on_error` of a loader.

A `fallback` of the data set catches the errors. The record of a failure travels with its batch, from any
worker, and the loader's iterator removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import Any

from ..core.errors import EndOfSequence, EvaluationError, errstate, summary
from ..core.expression import name_of
from ..core.indices import Indices, as_list
from ..core.source import Source
from ..core.view import View
from ..views.fallback import Fallback

__all__ = ["OnError", "OnRecovered", "Recovered", "Tolerant", "merged"]

# "raise", "skip", "replace", or a function that returns a sample for the error.
OnError = str | Callable[[EvaluationError], Any]


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


class Tolerant(Fallback):
    """A `fallback` whose items are `Recovered` where something failed. With "skip" they have no value."""

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        try:
            with errstate("wrap"):
                return self._sources[0]._getmany(indices)
        except EndOfSequence:
            raise
        except EvaluationError:
            return [self._get(i) for i in as_list(indices)]

    def _item(self, i: Any, read: Callable[..., Any], *arguments: Any) -> Any:
        failed: list[tuple[Any, str]] = []

        def note(key: Any, error: EvaluationError) -> None:
            error.index = getattr(error.index, "number", error.index)
            failed.append((getattr(key, "number", key), described(error)))

        values = list(self._found(i, note, read, *arguments))
        return Recovered(values, failed) if failed else values[0]


Tolerant._name = Fallback._name


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
        self.__name__ = name_of(function)

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
