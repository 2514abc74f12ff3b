"""Samples that fail: `on_error` of a loader.

A `fallback` of the data set catches the errors. The record of a failure travels with its batch, from any
worker, and the loader's iterator removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import EndOfSequence, EvaluationError, errstate, summary
from ..core.expression import name_of
from ..core.indices import Indices, as_list
from ..views.fallback import Fallback

__all__ = ["OnRecovered", "Recovered", "Tolerant", "merged"]


@dataclass(slots=True)
class Recovered:
    """Samples or a batch, with the failures of samples.

    Attributes
    ----------
    values : list
        The samples that are left, or one batch of them.
    failed : list of (key, str)
        Index or key of each sample that failed, and its error.
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
            failed.append((getattr(key, "number", key), summary(error.__cause__ or error)))

        values = list(self._found(i, note, read, *arguments))
        return Recovered(values, failed) if failed else values[0]


Tolerant._name = Fallback._name


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
