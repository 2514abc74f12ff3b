"""Samples that fail: `on_error` of a loader.

A view of the data set catches the errors. The record of a failure travels with its batch, from any worker,
and the loader's iterator removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..errors import EndOfSequence, EvaluationError, errstate, summary
from ..indices import Indices, Length, Unsized, as_list
from ..view import View
from ..views.uniter import Uniter
from .options import OnError

__all__ = ["NOTHING", "CollateRecovered", "OnRecovered", "Recovered", "Tolerant", "merged"]


class _Nothing:
    """No sample is left."""

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


@dataclass(slots=True)
class Recovered:
    """A sample or batch with the failures of its samples.

    Attributes
    ----------
    value : object
        The replacement of the sample, or the batch of the samples that are left. `NOTHING` if none is.
    failed : list of (key, str)
        Index or key, and error, of each sample that failed.
    """

    value: Any
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
    population : int or Unsized
        Number of samples that may replace another.
    """

    def __init__(self, source: View[Any], on_error: OnError, population: Length) -> None:
        super().__init__((source,), source._n)
        self._on_error = on_error
        self._population = population

    def _get(self, key: Any) -> Any:
        try:
            return self._read(key)
        except EvaluationError as error:
            if isinstance(error.view, Uniter):
                raise
            return self._recovered(key, error)

    def _read(self, key: Any) -> Any:
        # Under either error policy, a failure arrives here as an EvaluationError.
        with errstate("wrap"):
            return self._sources[0]._get(key)

    def _recovered(self, key: Any, error: EvaluationError) -> Recovered:
        failed = [(getattr(key, "number", key), summary(error.__cause__ or error))]
        if callable(self._on_error):
            return Recovered(self._on_error(error), failed)
        for other in self._others(key) if self._on_error == "replace" else ():
            try:
                return Recovered(self._read(other), failed)
            except EvaluationError as another:
                failed.append((other, summary(another.__cause__ or another)))
        return Recovered(NOTHING, failed)

    def _others(self, key: Any) -> Iterable[int]:
        n = self._population
        if isinstance(n, Unsized) or not isinstance(key, int):
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
        return Tolerant(sources[0], self._on_error, self._population)


class OnRecovered:
    """Apply a function to the value, and keep the failures attached."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, item: Any) -> Any:
        if type(item) is not Recovered:
            return self.function(item)
        return Recovered(item.value if item.value is NOTHING else self.function(item.value), item.failed)


class CollateRecovered:
    """Collate the samples that are left, and keep the failures of all samples attached."""

    def __init__(self, collate_fn: Callable[[list[Any]], Any]) -> None:
        self.collate_fn = collate_fn

    def __call__(self, samples: Iterable[Any]) -> Any:
        whole = merged(list(samples))
        if type(whole) is not Recovered:
            return self.collate_fn(whole)
        batch = whole.value if whole.value is NOTHING else self.collate_fn(whole.value)
        return Recovered(batch, whole.failed)


def merged(items: list[Any]) -> Any:
    """Return a list of samples or batches; if some are `Recovered`, as one `Recovered` list of those left.

    >>> merged([1, Recovered(NOTHING, [(7, "bad")])])
    Recovered(value=[1], failed=[(7, 'bad')])
    """
    failed = [failure for item in items if type(item) is Recovered for failure in item.failed]
    if not failed:
        return items
    values = [item.value if type(item) is Recovered else item for item in items]
    return Recovered([value for value in values if value is not NOTHING] or NOTHING, failed)
