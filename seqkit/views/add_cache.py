"""`add_cache`: items that were computed once are kept."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Literal

import numpy as np

from ..checks import check_callable, optional_int
from ..context import private_memory
from ..errors import EndOfSequence, fail
from ..indices import Indices, Plan, Unsized, as_list, ends
from ..iteration import surviving
from ..source import as_view
from ..view import Indexable, T, View, sized
from .decided import Decided
from .once import Contents, Flight, holding_many
from .stores import ABSENT, Directory, Keeper, Memory

__all__ = ["AddCache", "add_cache"]

Policy = Literal["lru", "fifo"]
StoreKey = Callable[[int], Any]


def add_cache(
    arr: Indexable[T],
    cache_size: int | None = None,
    cache: Keeper | None = None,
    *,
    policy: Policy = "lru",
    max_bytes: int | None = None,
    store: str | os.PathLike[str] | None = None,
    key: StoreKey | None = None,
) -> AddCache[T]:
    """Return the view of the same items, of which some are kept once they were computed.

    Items are kept by reference: who changes one in place changes what is read next. Threads that ask for the
    same missing item wait for one evaluation, those that ask for others evaluate side by side. Failures are
    not kept.

    Parameters
    ----------
    arr : View or indexable
        Where the items come from.
    cache_size : int, optional
        Most items to keep in memory, at least 0, which switches it off. None (the default) is 1, or no limit
        where `max_bytes` or `cache` is given.
    cache : mapping, optional
        Where to keep them, by index. It needs ``in``, ``[i]``, ``[i] = item`` and ``del [i]``: a dict will
        do. It may lose items by itself, and what it holds already is used. None (the default) is a dict of
        the view's own.
    policy : "lru" or "fifo"
        Which item goes first: the one read longest ago (default), or the one kept longest ago.
    max_bytes : int, optional
        Most bytes to keep in memory, at least 1: the larger of `sys.getsizeof` and, where there is one,
        ``nbytes``; also of what tuples, lists, sets and dicts hold. A larger item is not kept. None (the
        default): no limit.
    store : path, optional
        Directory where to keep all items, in files: made when the first item is written, shared by processes
        and by later runs. None (the default) keeps items in memory only.
    key : callable, optional
        Names item i in the store: returns a str, bytes, a number, None, or a tuple of such. None (the
        default) names it by its index.

    Returns
    -------
    AddCache

    Raises
    ------
    TypeError
        If `arr` cannot be indexed, `cache` is a list or lacks a method, or an argument has the wrong type.
    ValueError
        If a number or `policy` is out of range, there is a `key` without a `store`, or something else at
        `store`; and, when an item is read, if another view has made the store since, for another length.

    Notes
    -----
    About 0.3 µs for an item in memory, some 12 to 25 µs for one in a store. In a process worker the memory is
    the worker's own: a cache over a `prefetch` serves better than one beneath it; a store serves all. Beneath
    a cache, `seqkit.empty` is `numpy.empty`. After ``add_cache`` of SeqTools, where being read saves no item,
    and iteration passes the cache by.

    Examples
    --------
    >>> def work(x):
    ...     print("working")
    ...     return x * 2
    >>> import seqkit as sk
    >>> doubled = add_cache(sk.smap(work, [1, 2, 3]))
    >>> doubled[1]
    working
    4
    >>> doubled[1]
    4
    """
    cache_size = optional_int(cache_size, "add_cache: cache_size", least=0)
    max_bytes = optional_int(max_bytes, "add_cache: max_bytes")
    if policy not in ("lru", "fifo"):
        raise ValueError(f"add_cache: policy must be 'lru' or 'fifo', got {policy!r}")
    if cache is not None:
        _check_keeper(cache)
    if store is not None and not isinstance(store, str | os.PathLike):
        raise TypeError(f"add_cache: store must be a path, got {store!r}")
    check_callable(key, "add_cache: key", optional=True)
    if key is not None and store is None:
        raise ValueError("add_cache: key names items in a store, and there is no store")
    if cache_size is None and cache is None and max_bytes is None:
        cache_size = 1
    path = None if store is None else os.path.abspath(store)
    return sized(
        AddCache(as_view(arr, "add_cache"), Settings(cache_size, cache, policy, max_bytes, path, key))
    )


def _check_keeper(cache: Any) -> None:
    if isinstance(cache, type | MutableSequence):  # to ask whether a list holds i is to ask for an item
        raise TypeError(f"add_cache: cache must be a mapping, got {cache!r}")
    for method in ("__contains__", "__getitem__", "__setitem__", "__delitem__"):
        if not hasattr(cache, method):
            raise TypeError(f"add_cache: cache must be a mapping with {method}, got {cache!r}")


@dataclass(frozen=True)
class Settings:
    """The arguments of `add_cache`; `scope` names the part of the store that is meant."""

    cache_size: int | None
    cache: Keeper | None
    policy: Policy
    max_bytes: int | None
    store: str | None
    key: StoreKey | None
    scope: str = ""

    def contents(self, source: View[Any]) -> Contents:
        keeper = {} if self.cache is None else self.cache
        memory = Memory(keeper, self.cache_size, self.max_bytes, self.policy == "lru")
        if self.store is None:
            return Contents(memory, None)
        length = None if self.key is not None or isinstance(source._n, Unsized) else source._n
        return Contents(memory, Directory(self.store, length, self.scope))

    def emptied(self) -> Settings:
        """Return the same without what is in a dict; a mapping of another kind stays as it is."""
        cache: Any = self.cache
        return replace(self, cache=type(cache)()) if type(cache) in (dict, OrderedDict) else self

    def fresh(self, scope: str) -> Settings:
        """Return the same for other items: with none of the user's mappings, and a part of the store."""
        if self.cache is None or type(self.cache) in (dict, OrderedDict):
            return replace(self.emptied(), scope=scope)
        # Nobody knows what bounds the mapping had of its own.
        most = 1 if self.cache_size is None and self.max_bytes is None else self.cache_size
        return replace(self, cache=None, cache_size=most, scope=scope)


class AddCache(View[T]):
    """The view behind `add_cache`."""

    def __init__(self, source: View[T], settings: Settings, contents: Contents | None = None) -> None:
        super().__init__((source,))
        self._settings = settings
        self._contents = settings.contents(source) if contents is None else contents

    def clear(self) -> None:
        """Forget every item, those in the store too: they are computed anew when they are read next."""
        self._contents.forget(None)
        if self._contents.store is not None:
            self._contents.store.clear()

    # ---------------------------------------------------------------- reading

    def _get(self, i: int) -> Any:
        contents = self._contents
        item = contents.find(i)
        while item is ABSENT:
            flight, ours = contents.claim(i)
            if ours:
                try:
                    return self._land(i, flight)
                finally:
                    del flight  # which may have the error, whose traceback leads here
            if not flight.may_be_awaited():
                return self._evaluate(i)
            item = flight.wait()
        return item

    def _land(self, i: int, flight: Flight) -> Any:
        """Get item `i` for this thread and for all that wait for it."""
        try:
            item = self._load(i)
            if item is ABSENT:
                item = self._evaluate(i)
                self._save(i, item)
        except BaseException as error:
            self._contents.land({i: flight}, {}, error)
            del flight
            raise
        self._contents.land({i: flight}, {i: item})
        return item

    def _evaluate(self, i: int) -> Any:
        with private_memory():  # what is kept must not lie in the slot of the current item
            return self._sources[0]._get(i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted, contents = as_list(indices), self._contents
        items: dict[int, Any] = {i: contents.find(i) for i in wanted}
        missing = [i for i, item in items.items() if item is ABSENT]
        if len(missing) > 1:
            items.update(self._land_many(missing))
        for i in missing:
            if items[i] is ABSENT:  # another thread is at it
                items[i] = self._get(i)
        return [items[i] for i in wanted]

    def _land_many(self, indices: list[int]) -> dict[int, Any]:
        """Get those of the items that no other thread is at, in one read."""
        contents, flights, found = self._contents, dict[int, Flight](), dict[int, Any]()
        try:
            for i in indices:
                flight, ours = contents.claim(i)
                if ours:
                    flights[i] = flight
            stored = {i: self._load(i) for i in flights}
            found.update((i, item) for i, item in stored.items() if item is not ABSENT)
            needed = [i for i in flights if i not in found]
            if needed:
                with private_memory(), holding_many():
                    items: Any = self._sources[0]._getmany(needed)
                rows = type(items) is np.ndarray and not items.dtype.hasobject
                for i, item in zip(needed, items, strict=True):
                    kept = item.copy() if rows else item  # a row would keep all the others alive
                    self._save(i, kept)
                    found[i] = kept
        finally:
            contents.land(flights, found)
        return found

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not (self._reads_ahead and ends(plan)):
            return super()._iter(plan)
        held = Decided(plan, self._holds)  # the other items are read from the source, which works ahead
        items, positions = self._sources[0]._iter(held.where(False)), count()

        def read(i: int) -> Any:
            return self._get(i) if held.at(next(positions)) else self._draw(i, items)

        return surviving(self, plan, read)

    def _draw(self, i: int, items: Iterator[Any]) -> Any:
        """Return the next of the items that are read from the source, and keep it."""
        with private_memory():
            item = next(items, ABSENT)
        if item is ABSENT:
            raise EndOfSequence(f"the sequence ends before index {i}")
        self._save(i, item)
        self._contents.put(i, item)
        return item

    def _holds(self, i: int) -> bool:
        try:
            return self._contents.holds(i, self._key(i))
        except Exception:
            return False  # reading it will say why

    # ---------------------------------------------------------------- the store

    def _key(self, i: int) -> Any:
        key = self._settings.key
        return i if key is None else key(i)

    def _load(self, i: int) -> Any:
        store = self._contents.store
        if store is None:
            return ABSENT
        try:
            return store.get(self._key(i))
        except Exception as error:
            fail(self, i, error, "reading the store")

    def _save(self, i: int, item: Any) -> None:
        store = self._contents.store
        if store is not None:
            try:
                store.put(self._key(i), item)
            except Exception as error:
                fail(self, i, error, "writing the store")

    # ---------------------------------------------------------------- writing

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        if self._contents.store is not None:
            raise TypeError("add_cache does not support assignment with a store, which outlives the source")
        # The item that is read back may differ from the one written. With views beneath, other items may be
        # made of the same source item.
        forgotten = None if self._sources[0]._sources else i
        return [*self._sources[0]._set(i, value), partial(self._contents.forget, forgotten)]

    # ---------------------------------------------------------------- the expression

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        if sources[0] is self._sources[0]:
            return AddCache(sources[0], self._settings, self._contents)
        return AddCache(sources[0], self._settings.fresh(self._settings.scope))

    def _keyed(self, sources: tuple[View[Any], ...], epoch: int) -> View[Any]:
        if not self._randoms:
            return self  # with the items that it holds
        return AddCache(sources[0], self._settings.fresh(f"epoch-{epoch}"))

    def __reduce__(self) -> tuple[Any, ...]:
        return AddCache, (self._sources[0], self._settings.emptied())

    def _arguments(self, sources: list[str]) -> list[str]:
        settings = self._settings
        named = {"cache_size": settings.cache_size, "max_bytes": settings.max_bytes, "store": settings.store}
        return [*sources, *(f"{name}={value!r}" for name, value in named.items() if value is not None)]

    def _remarks(self) -> list[str]:
        return [f"{len(self._contents.memory)} items kept"]
