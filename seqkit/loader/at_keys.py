"""Views whose indices are the keys that a sampler gives.

The elements of a plan need not be ints. `Samples` takes keys of the data set, `Batches` lists of keys. A
prefetch node above them sends keys to its workers like any other indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from ..views.bases.decided import Decided
from ..views.gather import GatherView
from .keys import Sample, Shards, as_key, as_keys
from .on_error import OnRecovered

__all__ = ["AtKeys", "AtLists", "Batches", "Given", "Samples"]

# Sequences that cannot be indexed by a list of keys.
_PLAIN = (list, tuple, range, str, bytes)


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
        try:
            return source._get(key if is_bulk or self._takes_keys else source._checked_index(key))
        except (IndexError, EvaluationError) as error:
            self._name_the_sampler(key if is_bulk else (key,), error)
            raise

    def _getmany(self, indices: Any) -> Sequence[Any]:
        source = self._sources[0]
        try:
            return source._getmany(indices if self._takes_keys else list(map(source._checked_index, indices)))
        except (IndexError, EvaluationError) as error:
            self._name_the_sampler(indices, error)
            raise

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._sources[0]._reads_ahead:
            return super()._iter(plan)
        # The node below learns the order. So a key out of range must not end the plan.
        decided, positions = Decided(plan, self._position), count()
        items = self._sources[0]._iter(decided.ints())

        def read(key: Any) -> Any:
            if isinstance(decided.at(next(positions)), int):
                for item in items:
                    return item
            return self._get(key)  # raises its error

        return surviving(self, plan, read)

    def _position(self, key: Any) -> int | Exception:
        """Return the index of a key in the source, or the error of a key that is out of range."""
        try:
            return self._sources[0]._checked_index(key)
        except Exception as error:
            return error

    def _name_the_sampler(self, keys: Iterable[Any], error: Exception) -> None:
        """Raise an error that names the sampler if samples are missing because an index is out of range."""
        n = self._sources[0]._known  # finding the length could read items
        if not isinstance(error.__cause__ or error, IndexError) or not isinstance(n, int):
            return
        for key in keys:
            if type(key) is int and not -n <= key < n:
                fail(self, key, IndexError(f"the sampler gave index {key} for {n} samples"))

    def _parts(self, i: Any) -> Iterable[tuple[View[Any], Iterable[int]]]:
        source, is_list = self._sources[0], isinstance(i, list | np.ndarray)
        if is_list and self._takes_lists:
            return ((source, (i,)),)
        keys = i if is_list else (i,)
        if not self._takes_keys and source._known is not None:
            keys = [key if isinstance(j := self._position(key), IndexError) else j for key in keys]
        return ((source, keys),)

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
        if isinstance(keys, Shards):
            return OnRecovered(list, collates=True)([self._collated(keys, shard) for shard in keys])
        return self._collated(keys, keys)

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
            return self._collate_fn(items if takes or isinstance(items, list) else list(items))
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

    _as_index: Callable[[Any], Any] = staticmethod(as_key)

    def _index(self, i: int, given: Any) -> Any:
        return self._as_index(given)

    def _valid(self, indices: Indices, given: Any) -> Any:
        keys = list(map(self._as_index, as_list(given)))
        if list in map(type, keys):
            raise TypeError("a list of keys is read by itself")  # the caller then reads them one by one
        return keys


class AtLists(AtKeys):
    """Like `gather` by a view of lists of keys."""

    _as_index = staticmethod(as_keys)

    def _item(self, i: int, given: Any) -> Any:
        keys: Any = as_keys(given)
        return self._sources[0]._get(keys)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return each_with(self, self._item, self._sources[1]._iter(plan), plan)


AtKeys._name = AtLists._name = "gather"
