"""Reading where a sampler says: views whose indices are a sampler's keys.

A plan need not consist of ints. Laid over a data set, `Fetch` takes lists of keys and `FetchOne` single
keys; a prefetch node above ships them to its workers as it ships any other indices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from ..errors import EndOfSequence, EvaluationError, fail
from ..indices import UNBOUNDED, Unsized
from ..samplers.base import draw
from ..view import Source, View, name_of
from .tolerance import OnError, mended

__all__ = ["Fetch", "FetchOne", "KeySource", "Keys", "as_key", "as_keys", "refuse_second_epoch"]


class KeySource:
    """What a sampler has a loader read: keys for every epoch.

    Parameters
    ----------
    sampler : iterable
        Iterated anew every epoch.
    convert : callable
        `as_keys` or `as_key`.
    given : object
        The user's own sampler, which `sampler` may be wrapped around.
    """

    def __init__(self, sampler: Any, convert: Callable[[Any], Any], given: Any) -> None:
        self.sampler = sampler
        self._convert = convert
        self._given = given
        self._begun = False

    def __len__(self) -> int:
        try:
            return len(self.sampler)
        except (TypeError, NotImplementedError) as error:
            name = type(self._given).__name__
            raise TypeError(f"DataLoader: no length, for its sampler ({name}) has none") from error

    def epoch(self, number: int, start: int = 0) -> Keys:
        """Return the keys of the next epoch, from number `start` on."""
        if self._begun and isinstance(self._given, Iterator):
            refuse_second_epoch("sampler", self._given)
        self._begun = True
        return Keys(draw(self.sampler, number, start), self._convert)


def refuse_second_epoch(what: str, iterator: Any) -> NoReturn:
    raise RuntimeError(
        f"DataLoader: the {what} is an iterator ({type(iterator).__name__}), which gives one epoch only; pass"
        " something that can be iterated again"
    )


class Keys:
    """The keys of one epoch: a plan that is drawn once, as it is read.

    An error of the sampler ends it. `failure` raises that error in its turn, behind the last item.

    >>> list(Keys([np.array([3, 1]), ["a", np.int32(2)]], as_keys))
    [[3, 1], ['a', 2]]
    """

    def __init__(self, sampler: Iterable[Any], convert: Callable[[Any], Any]) -> None:
        self._error: Exception | None = None
        self.has_failed = False  # was that error raised?
        self._keys = self._draw(iter(sampler), convert)

    def __iter__(self) -> Iterator[Any]:
        return self._keys

    def _draw(self, keys: Iterator[Any], convert: Callable[[Any], Any]) -> Iterator[Any]:
        try:
            for key in keys:
                yield convert(key)
        except Exception as error:
            self._error = error

    def failure(self) -> Iterator[Any]:
        if self._error is not None:
            self.has_failed = True
            raise self._error
        yield from ()


def as_keys(keys: Any) -> list[Any]:
    """Return what a batch sampler yields as a list of its own, all integers as plain ints."""
    try:
        return list(map(as_key, keys))
    except TypeError:
        raise TypeError(
            f"DataLoader: batch_sampler should yield lists of indices, but yielded {keys!r}"
        ) from None


def as_key(key: Any) -> Any:
    """Return a key of a sampler: integers as plain ints, everything else unchanged.

    >>> as_key(np.int32(2)), as_key("a")
    (2, 'a')
    """
    is_int = hasattr(key, "__index__") and not getattr(key, "ndim", 0)
    return operator.index(key) if is_int else key


class Fetch(View[Any]):
    """The view of batches at lists of keys: ``collate_fn`` of the items at them.

    Which keys there are is for the data set to know: an object gets them as they are (all at once if it
    has ``__getitems__``), an array or a view is indexed by ints as usual. Not for indexing: an "index" is
    a list of keys.
    """

    def __init__(
        self, source: View[Any], collate_fn: Callable[[Any], Any], on_error: OnError = "raise"
    ) -> None:
        super().__init__((source,), UNBOUNDED)
        self._collate_fn = collate_fn
        self._on_error = on_error

    def _read(self, keys: Any) -> Any:
        if self._on_error == "raise":
            return self._read_all(keys)
        return [self._read_one(key) for key in keys]

    def _read_one(self, key: Any) -> Any:
        """Read a sample that may be missing."""
        try:
            return self._single(key)
        except EvaluationError as error:
            return mended(self._single, key, error, self._on_error, self._others(key))

    def _single(self, key: Any) -> Any:
        """Read one sample; whatever goes wrong is an EvaluationError."""
        try:
            return self._read_key(key)
        except EvaluationError:
            raise
        except Exception as error:
            fail(self, key, error)

    def _read_key(self, key: Any) -> Any:
        return self._read_all([key])[0]

    def _others(self, key: Any) -> Iterable[Any]:
        n = self._sources[0]._n
        if isinstance(n, Unsized) or not isinstance(key, int):
            return ()
        return chain(range(key + 1, n), range(key))

    def _read_all(self, keys: Any) -> Any:
        source = self._sources[0]
        if isinstance(source, Source) and not isinstance(source._data, np.ndarray):
            return source._getmany(keys)
        return source._getmany([source._wrap_checked(key) for key in keys])

    def _get(self, keys: Any) -> Any:
        if _are_shards(keys):
            return [self._get(as_keys(shard)) for shard in keys]
        try:
            items = self._read(keys)
        except EndOfSequence as error:  # the sampler asked for it, so this is no end
            fail(self, keys, IndexError(str(error)))
        except Exception as error:
            fail(self, keys, error)
        return self._collated(keys, items)

    def _collated(self, keys: Any, items: Any) -> Any:
        try:
            if isinstance(items, list) or getattr(self._collate_fn, "takes_arrays", False):
                return self._collate_fn(items)
            return self._collate_fn(list(items))
        except Exception as error:
            fail(self, keys, error, "in collate_fn")

    def _parts(self, i: Any) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], i),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(sources[0], self._collate_fn, self._on_error)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, name_of(self._collate_fn)]


class FetchOne(Fetch):
    """The view of what lies at single keys: ``collate_fn`` of ``data[key]``.

    A list (or array) of keys reads in bulk: it too goes to the data set as it is. Plain sequences, which
    cannot take it, and views, which would stay lazy, give the list of items.
    """

    def _read(self, keys: Any) -> Any:
        if self._on_error != "raise":
            return self._read_one(keys)
        return self._read_all(keys)

    def _read_key(self, key: Any) -> Any:
        return self._read_all(key)

    def _read_all(self, keys: Any) -> Any:
        source, many = self._sources[0], isinstance(keys, list | np.ndarray)
        if isinstance(source, Source) and not (many and isinstance(source._data, _PLAIN)):
            return source._get(keys)
        if many:
            return list(super()._read_all(as_keys(keys)))
        return source._get(source._wrap_checked(keys))

    def _collated(self, keys: Any, items: Any) -> Any:
        try:
            return self._collate_fn(items)
        except Exception as error:
            fail(self, keys, error, "in collate_fn")

    def _parts(self, i: Any) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], i if isinstance(i, list) else (i,)),)


def _are_shards(keys: Any) -> bool:
    """Is this a list of lists, of which each makes a batch of its own?"""
    return (
        isinstance(keys, list) and bool(keys) and all(isinstance(shard, list | np.ndarray) for shard in keys)
    )


_PLAIN = (list, tuple, range, str, bytes)
