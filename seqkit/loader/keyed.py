"""Views whose indices are the keys that a sampler gives.

The elements of a plan need not be ints. `Samples` takes keys of the data set, `Batches` lists of keys. A
prefetch node above them sends keys to its workers like any other indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..core.errors import EndOfSequence, EvaluationError, fail
from ..core.indices import UNBOUNDED, Length
from ..core.once import cached
from ..core.source import Source
from ..core.view import View, name_of, only_selects
from ..samplers.base import as_key as plain_key
from .on_error import OnRecovered

__all__ = ["AtKeys", "Batches", "Given", "Sample", "Samples", "Shards", "as_key", "as_keys", "by_number"]

# Sequences that cannot be indexed by a list of keys.
_PLAIN = (list, tuple, range, str, bytes)


class Keys(list[Any]):
    """The keys of a batch, with the number of the batch, from which workers seed the global generators."""

    number = 0


class Shards(Keys):
    """Lists of keys. Each list makes a batch of its own."""


def numbered(keys: Any, number: int) -> Any:
    """Return the keys of a batch with its number. A single key stays as it is.

    >>> keys = numbered([4, 2], 7)
    >>> keys, keys.number
    ([4, 2], 7)
    """
    if not isinstance(keys, list):
        return keys
    keys = keys if isinstance(keys, Keys) else Keys(keys)
    keys.number = number
    return keys


def as_key(key: Any) -> Any:
    """Return a key of a sampler as a plain Python value. A bool is refused.

    >>> as_key(np.int32(2)), as_key("a")
    (2, 'a')
    """
    return plain_key("DataLoader: sampler", key)


def as_keys(keys: Any) -> list[Any]:
    """Return the keys of a batch as a list, or as `Shards` if the batch consists of rows of keys.

    Rows are lists and arrays. In a tuple they may be tuples, too. In a list, tuples are keys.

    >>> as_keys(np.array([3, 1])), as_keys([(0, 1), (2, 3)]), as_keys(((0, 1), (2,)))
    ([3, 1], [(0, 1), (2, 3)], [[0, 1], [2]])
    """
    try:
        found: list[Any] = list(keys)
    except TypeError:
        raise TypeError(
            f"DataLoader: batch_sampler should yield lists of indices, but yielded {keys!r}"
        ) from None
    if found and all(_is_row(row, isinstance(keys, tuple)) for row in found):
        return Shards(list(map(as_key, row)) for row in found)
    return list(map(as_key, found))


def _is_row(row: Any, may_be_tuple: bool) -> bool:
    kinds = (list, tuple) if may_be_tuple else list
    return isinstance(row, kinds) or getattr(row, "ndim", 0) == 1


class Sample:
    """A sample that was read already, as the key of itself. Messages name its number, or its part and its
    number there.
    """

    __slots__ = ("number", "value")

    def __init__(self, number: int | tuple[int, int], value: Any) -> None:
        self.number = number
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (self.number, self.value)

    def __eq__(self, other: object) -> bool:
        return self.number == getattr(other, "number", other)

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return str(self.number)


def by_number(index: Any) -> Any:
    """Return the index of an error with numbers in place of samples.

    >>> by_number([Sample(3, "a"), Sample((0, 1), "b")])
    [3, (0, 1)]
    """
    if isinstance(index, Sample):
        return index.number
    return list(map(by_number, index)) if type(index) in (list, Keys) else index


class Given(View[Any]):
    """The view of the values at `Sample` keys.

    Parameters
    ----------
    find : callable, optional
        Reads the value of the sample with a number from the data set. Errors let the caller read it again.
    """

    def __init__(self, find: Callable[[Any], Any] | None = None) -> None:
        super().__init__((), UNBOUNDED)
        self._find = find

    def _get(self, key: Any) -> Any:
        if isinstance(key, Sample):
            return key.value
        if self._find is None:
            raise RuntimeError(f"DataLoader: sample {key} is not known any more. Read it from the data set")
        return self._find(key)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Given, ()  # workers get samples


class Samples(View[Any]):
    """The view of the samples of a data set at keys.

    An object gets keys as they are, and many at once if it has ``__getitems__``. Arrays, tables and views
    are indexed by ints. A list of keys as one key reads in bulk.
    """

    def __init__(self, source: View[Any]) -> None:
        super().__init__((source,))
        data = source._data if isinstance(source, Source) else None
        # Tables are read by position, in readers of seqkit.
        takes_keys = data is not None and not type(data).__module__.startswith("seqkit.")
        self._takes_lists = takes_keys and not isinstance(data, _PLAIN)
        self._takes_keys = takes_keys and not isinstance(data, np.ndarray)
        self._has_positions = not self._takes_keys or type(data) in _PLAIN

    def _get(self, key: Any) -> Any:
        source, is_bulk = self._sources[0], isinstance(key, list | np.ndarray)
        if is_bulk and not self._takes_lists:
            return list(self._getmany(as_keys(key)))
        try:
            return source._get(key if is_bulk or self._takes_keys else source._wrap_checked(key))
        except (IndexError, EvaluationError) as error:
            self._name_the_sampler(key if is_bulk else (key,), error)
            raise

    def _getmany(self, indices: Any) -> Sequence[Any]:
        source = self._sources[0]
        try:
            return source._getmany(indices if self._takes_keys else list(map(source._wrap_checked, indices)))
        except (IndexError, EvaluationError) as error:
            self._name_the_sampler(indices, error)
            raise

    def check(self, keys: Any) -> None:
        """Raise if an index is out of range. For an object of the user, only the object knows."""
        if self._has_positions:
            self._refuse_missing(keys if isinstance(keys, list) else [keys])

    def _name_the_sampler(self, keys: Iterable[Any], error: Exception) -> None:
        """Raise an error that names the sampler if samples are missing because an index is out of range."""
        if isinstance(error.__cause__ or error, IndexError):
            self._refuse_missing(keys)

    def _refuse_missing(self, keys: Iterable[Any]) -> None:
        n = self._sources[0]._known  # finding the length could read items
        if not isinstance(n, int):
            return
        for key in keys:
            if type(key) is list:  # of a batch of rows of keys
                self._refuse_missing(key)
            elif type(key) is int and not -n <= key < n:
                fail(self, key, IndexError(f"the sampler gave index {key} for {n} samples"))

    def _parts(self, i: Any) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], i if isinstance(i, list | np.ndarray) else (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Samples(sources[0])


class Batches(View[Any]):
    """The view of the batches at lists of keys: ``collate_fn`` of the samples at them.

    `Shards` of keys give a list of batches. With ``is_batched=False`` an index is a single key.
    """

    def __init__(self, source: View[Any], collate_fn: Callable[[Any], Any], is_batched: bool) -> None:
        super().__init__((source,), UNBOUNDED)
        self._collate_fn = collate_fn
        self._is_batched = is_batched

    def _get(self, keys: Any) -> Any:
        if isinstance(keys, Shards):
            return OnRecovered(list, collates=True)(map(self._get, keys))
        try:
            items = self._sources[0]._getmany(keys) if self._is_batched else self._sources[0]._get(keys)
        except EvaluationError:
            raise
        except EndOfSequence as error:  # the sampler asked for this item, so this is not the end
            fail(self, keys, IndexError(str(error)))
        except Exception as error:
            fail(self, keys, error)
        takes = not self._is_batched or getattr(self._collate_fn, "takes_arrays", False)
        try:
            return self._collate_fn(items if takes or isinstance(items, list) else list(items))
        except Exception as error:
            fail(self, keys, error, "in collate_fn")

    def _parts(self, i: Any) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], i if self._is_batched else (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Batches(sources[0], self._collate_fn, self._is_batched)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._collate_fn,)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, name_of(self._collate_fn)]


class AtKeys(View[Any]):
    """The view whose item i is that of another view at the key number i of a sampler.

    Parameters
    ----------
    source : View
        Its indices are keys, or lists of keys.
    order : View
        The keys of an epoch.
    is_batched : bool
        Whether these are lists of keys.
    """

    def __init__(self, source: View[Any], order: View[Any], is_batched: bool) -> None:
        super().__init__((source, order))
        self._is_batched = is_batched

    def _length(self) -> Length:
        return self._sources[1]._n

    def _key(self, i: int) -> Any:
        given = self._sources[1]._get(i)
        return as_keys(given) if self._is_batched else as_key(given)

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(self._key(i))

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[Any]]]:
        yield self._sources[1], (i,)
        try:
            key = self._key(i)
        except Exception:
            return  # the sampler failed
        yield self._sources[0], (key,)

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[Any]]]:
        return self._parts(i) if self._is_planned else ((self._sources[1], (i,)),)

    @cached
    def _is_planned(self) -> bool:
        return only_selects(self._sources[1])

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return AtKeys(sources[0], sources[1], self._is_batched)
