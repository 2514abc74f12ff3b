"""The keys that a sampler gives, and the views whose indices are keys.

The elements of a plan need not be ints. `Samples` takes keys of the data set, `Batches` lists of keys. A
prefetch node above them sends keys to its workers like any other indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np

from ..core.adapters import TableReader
from ..core.epoch import DRAWS
from ..core.errors import EndOfSequence, EvaluationError, fail
from ..core.expression import name_of
from ..core.indices import Indices, Plan, as_list
from ..core.iteration import each_with, surviving
from ..core.lengths import UNBOUNDED
from ..core.source import Source
from ..core.view import View
from ..samplers.keys import as_key as plain_key
from ..views.bases.columns import collated
from ..views.bases.decided import Decided
from ..views.gather import GatherView
from .on_error import OnRecovered

__all__ = [
    *("AtKeys", "AtLists", "AtRows", "Batches", "Given", "Sample", "Samples"),
    *("as_key", "as_keys", "numbered"),
]

# Sequences that cannot be indexed by a list of keys.
_PLAIN = (list, tuple, range, str, bytes)


# -------------------------------------------------------------------- keys


class KeyList(list[Any]):
    """The keys of a batch, with the number of the batch, from which workers seed the global generators."""

    number = 0


class Shards(KeyList):
    """Lists of keys. Each list makes a batch of its own."""


def numbered(keys: Any, number: int) -> Any:
    """Return the keys of a batch with its number. A single key stays as it is.

    >>> keys = numbered([4, 2], 7)
    >>> keys, keys.number
    ([4, 2], 7)
    """
    if not isinstance(keys, list):
        return keys
    keys = keys if isinstance(keys, KeyList) else KeyList(keys)
    keys.number = number
    return keys


def as_key(key: Any) -> Any:
    """Return a key of a sampler as a plain Python value. A bool is refused.

    >>> as_key(np.int32(2)), as_key("a")
    (2, 'a')
    """
    return plain_key("DataLoader: sampler", key)


def as_keys(keys: Any, rows_are_keys: bool = False) -> list[Any]:
    """Return the keys of a batch as a list, or as `Shards` if all keys are rows: lists or arrays of keys.

    With `rows_are_keys` a row is a key of the data set, as in PyTorch.

    >>> as_keys(np.array([3, 1])), as_keys([(0, 1), (2, 3)]), as_keys([[0, 1], [2]])
    ([3, 1], [(0, 1), (2, 3)], [[0, 1], [2]])
    """
    try:
        found: list[Any] = list(keys)
    except TypeError:
        raise TypeError(
            f"DataLoader: batch_sampler should yield lists of indices, but yielded {keys!r}"
        ) from None
    if found and not rows_are_keys and all(map(_is_row, found)):
        return Shards(list(map(as_key, row)) for row in found)
    return list(map(as_key, found))


def _is_row(row: Any) -> bool:
    return isinstance(row, list) or getattr(row, "ndim", 0) == 1


@dataclass(eq=False, slots=True)
class Sample:
    """A sample that the caller has read, as the key of itself. Messages name its number."""

    number: int
    value: Any

    def __repr__(self) -> str:
        return str(self.number)


# -------------------------------------------------------------------- views


class Given(View[Any]):
    """The view of the values at `Sample` keys."""

    def __init__(self) -> None:
        super().__init__((), UNBOUNDED)

    def _get(self, key: Any) -> Any:
        if not isinstance(key, Sample):
            raise RuntimeError(f"DataLoader: sample {key} is not known any more. Read it from the data set")
        return key.value

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self


class Samples(View[Any]):
    """The view of the samples of a data set at keys.

    An object gets keys as they are, and many at once if it has ``__getitems__``. Arrays, tables and views
    are indexed by ints. A list of keys as one key reads in bulk.
    """

    _passes_on = True
    _keeps = True  # a key names a sample

    def __init__(self, source: View[Any]) -> None:
        super().__init__((source,))
        self._varies &= DRAWS
        data = source._data if isinstance(source, Source) else None
        # Tables are read by position, in readers of seqkit that wrap them.
        takes_keys = data is not None and not isinstance(data, TableReader)
        self._takes_lists = takes_keys and not isinstance(data, _PLAIN)
        self._takes_keys = takes_keys and not isinstance(data, np.ndarray)

    def _get(self, key: Any) -> Any:
        source, is_bulk = self._sources[0], isinstance(key, list | np.ndarray)
        if is_bulk and not self._takes_lists:
            return list(self._getmany(as_keys(key)))
        return source._get(key if is_bulk or self._takes_keys else self._checked(key))

    def _getmany(self, indices: Any) -> Sequence[Any]:
        source = self._sources[0]
        return source._getmany(indices if self._takes_keys else list(map(self._checked, indices)))

    def _checked(self, key: Any) -> int:
        """Return the index of a key in the source. The error about one that is out of range names it."""
        try:
            return self._sources[0]._checked_index(key)
        except IndexError as error:
            fail(self, key, error)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._sources[0]._reads_ahead:
            return super()._iter(plan)
        # The node below learns the order. So a key out of range must not end the plan.
        decided, positions = Decided(plan, self._position), count()
        items = self._sources[0]._iter(decided)

        def read(key: Any) -> Any:
            if isinstance(decided.at(next(positions)), int):
                for item in items:
                    return item
            return self._get(key)  # raises its error

        return surviving(self, plan, read)

    def _position(self, key: Any) -> int | Exception:
        """Return the index of a key in the source, or the error of a key that is out of range."""
        try:
            return self._checked(key)
        except Exception as error:
            return error

    def _parts(self, i: Any) -> Iterable[tuple[View[Any], Iterable[Any]]]:
        reads_list = isinstance(i, list | np.ndarray) and not self._takes_lists
        return ((self._sources[0], i if reads_list else (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Samples(sources[0])


class Batches(View[Any]):
    """The view of the batches at lists of keys: ``collate_fn`` of the samples at them.

    `Shards` of keys give a list of batches.

    Parameters
    ----------
    samples : View
        Its indices are keys.
    collate_fn : callable
    is_batched : bool
        False: an index is a single key.
    """

    def __init__(self, samples: View[Any], collate_fn: Callable[[Any], Any], is_batched: bool) -> None:
        super().__init__((samples,), UNBOUNDED)
        self._collate_fn = collate_fn
        self._is_batched = is_batched

    def _get(self, keys: Any) -> Any:
        index = list(keys) if isinstance(keys, KeyList) else keys  # as errors show it
        if isinstance(keys, Shards):
            return OnRecovered(list, collates=True)([self._collated(index, shard) for shard in keys])
        return self._collated(index, keys)

    def _collated(self, i: Any, keys: Any) -> Any:
        samples = self._sources[0]
        try:
            items = samples._getmany(keys) if self._is_batched else samples._get(keys)
        except EvaluationError:
            raise
        except EndOfSequence as error:  # the sampler asked for this item, so this is not the end
            fail(self, i, IndexError(str(error)))
        except Exception as error:
            fail(self, i, error)
        takes = not self._is_batched or getattr(self._collate_fn, "takes_arrays", False)
        try:
            return collated(self._collate_fn, items, takes)
        except Exception as error:
            fail(self, i, error, "in collate_fn")

    def _parts(self, keys: Any) -> Iterable[tuple[View[Any], Iterable[Any]]]:
        if isinstance(keys, Shards):
            keys = chain.from_iterable(keys)
        yield self._sources[0], keys if self._is_batched else (keys,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Batches(sources[0], self._collate_fn, self._is_batched)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._collate_fn,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, name_of(self._collate_fn)]


class AtKeys(GatherView):
    """Like `gather` by a view of indices, which may be keys of any kind."""

    _is_planned = True  # the order of a sampler is read ahead of the items anyway

    def _index(self, i: int, given: Any) -> Any:
        return as_key(given)

    def _valid(self, indices: Indices, given: Any) -> Any:
        keys = [self._index(0, key) for key in as_list(given)]
        if any(isinstance(key, list) for key in keys):
            raise TypeError("a list of keys is read by itself")  # the caller then reads them one by one
        return keys


class AtLists(AtKeys):
    """Like `gather` by a view of lists of keys."""

    rows_are_keys = False

    def _index(self, i: int, given: Any) -> Any:
        return as_keys(given, self.rows_are_keys)

    def _item(self, i: int, given: Any) -> Any:
        return self._sources[0]._get(self._index(i, given))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return each_with(self, self._item, self._sources[1]._iter(plan), plan)


class AtRows(AtLists):
    """The same, where a row is a key of the data set."""

    rows_are_keys = True


AtKeys._name = AtLists._name = AtRows._name = "gather"
