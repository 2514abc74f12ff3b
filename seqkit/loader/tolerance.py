"""What becomes of samples that cannot be read: `on_error` of a loader.

Between a data set and the function that collates stands a view that reads on where a sample fails. What
happened travels with the batch, from whichever worker, and the loader's iterator takes it off again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..errors import EndOfSequence, EvaluationError, summary
from ..indices import Indices, Unsized, as_list
from ..view import View
from ..views.uniter import Uniter

__all__ = ["NOTHING", "Mended", "OnError", "Passing", "Tolerant", "TolerantCollate", "Transformed", "mended"]

OnError = str | Callable[[EvaluationError], Any]  # "raise", "skip", "replace", or what gives a sample instead


class _Nothing:
    """No sample is left."""

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


@dataclass(slots=True)
class Mended:
    """A sample or batch that is not what was asked for.

    Attributes
    ----------
    value : object
        What there is instead; `NOTHING` if there is nothing.
    failed : list of (int, str)
        Index and error of each sample that failed.
    """

    value: Any
    failed: list[tuple[Any, str]]


def mended(
    read: Callable[[Any], Any],
    key: Any,
    error: EvaluationError,
    on_error: OnError,
    others: Iterable[Any],
) -> Mended:
    """Return what is handed out in place of the sample at `key`, which failed."""
    failed = [(key, summary(error.__cause__ or error))]
    if callable(on_error):
        return Mended(on_error(error), failed)
    for other in others if on_error == "replace" else ():
        try:
            return Mended(read(other), failed)
        except EvaluationError as another:
            failed.append((other, summary(another.__cause__ or another)))
    return Mended(NOTHING, failed)


class Tolerant(View[Any]):
    """The view of the samples, each `Mended` that fails.

    A replacement is the next sample that can be read, from the first one on behind the last. Where the
    iterable itself fails, there is no next one: that error is raised.
    """

    def __init__(self, source: View[Any], on_error: OnError) -> None:
        super().__init__((source,), source._n)
        self._on_error = on_error

    def _get(self, i: int) -> Any:
        try:
            return self._sources[0]._get(i)
        except EndOfSequence:
            raise
        except EvaluationError as error:
            if isinstance(error.view, Uniter):
                raise
            return mended(self._sources[0]._get, i, error, self._on_error, self._others(i))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        try:
            return self._sources[0]._getmany(indices)
        except EndOfSequence:
            raise
        except EvaluationError:
            return [self._get(i) for i in as_list(indices)]

    def _others(self, i: int) -> Iterable[int]:
        n = self._n
        return () if isinstance(n, Unsized) else chain(range(i + 1, n), range(i))

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Tolerant(sources[0], self._on_error)


class TolerantCollate:
    """A collate function that leaves out what is missing, and says what failed."""

    def __init__(self, collate_fn: Callable[[list[Any]], Any]) -> None:
        self.collate_fn = collate_fn

    def __call__(self, samples: list[Any]) -> Any:
        mended = [sample for sample in samples if isinstance(sample, Mended)]
        if not mended:
            return self.collate_fn(samples)
        values = [sample.value if isinstance(sample, Mended) else sample for sample in samples]
        left = [value for value in values if value is not NOTHING]
        failed = [failure for sample in mended for failure in sample.failed]
        return Mended(self.collate_fn(left) if left else NOTHING, failed)


class Passing:
    """A function that what is `Mended` passes through."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, item: Any) -> Any:
        if type(item) is not Mended:
            return self.function(item)
        return Mended(item.value if item.value is NOTHING else self.function(item.value), item.failed)


class Transformed:
    """A collate function for samples that are transformed first; without batches, of a single one."""

    def __init__(
        self, transform: Callable[[Any], Any], collate_fn: Callable[[Any], Any], batched: bool
    ) -> None:
        self.transform = transform
        self.collate_fn = collate_fn
        self.batched = batched

    def __call__(self, samples: Any) -> Any:
        if self.batched:
            return self.collate_fn([self.transform(sample) for sample in samples])
        return self.collate_fn(self.transform(samples))
