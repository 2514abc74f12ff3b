"""`add_cache`: keep items that were computed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Literal

import numpy as np

from ...core.arguments import optional_int
from ...core.epoch import AS_IT_STANDS, EpochPair
from ...core.errors import EndOfSequence, brief, fail
from ...core.indices import Indices, Plan, as_list, ends
from ...core.iteration import surviving
from ...core.lengths import Unsized, sized
from ...core.source import as_view
from ...core.view import Indexable, T, View
from ...core.worker import private_memory
from ...views.bases.decided import Decided
from ...views.bases.order_digest import order_digest
from .directory import ABSENT, Directory
from .memory import CacheMapping, CacheMemory

__all__ = ["AddCache", "add_cache"]

Policy = Literal["lru", "fifo"]

# Most bytes in memory if neither a number of items, nor of bytes, nor a mapping is given.
MOST_BYTES = 1 << 30


def add_cache(
    arr: Indexable[T],
    cache_size: int | None = None,
    cache: CacheMapping | None = None,
    *,
    policy: Policy = "lru",
    max_bytes: int | None = None,
    store: str | os.PathLike[str] | None = None,
) -> AddCache[T]:
    """Return the view of the same items, and keep some of them once they are computed.

    Items are kept by reference: changing a mutable item changes the kept one. If several threads request the
    same missing item, it is computed once. Different items are computed in parallel. Failures are not kept.

    Parameters
    ----------
    arr : View or indexable
        Where the items come from.
    cache_size : int, optional
        Largest number of items in memory. 0 keeps none. None (the default): no limit but `max_bytes`.
    cache : mapping, optional
        Keeps the items in memory, by index. It needs ``in``, ``[i]``, ``[i] = item`` and ``del [i]``, as a
        dict has. It may drop items by itself. Items that it holds already are used. None (the default): a new
        dict.
    policy : "lru" or "fifo"
        The item that is dropped first: the least recently read one (default), or the oldest one.
    max_bytes : int, optional
        Most bytes in memory, in each process, 1 or more. The size of an item is the larger of `sys.getsizeof`
        and ``nbytes``, including the parts of tuples, lists, sets and dicts. A larger item is not kept. None
        (the default): 1 GiB, or no limit if `cache_size` or `cache` is given.
    store : path, optional
        Directory in which all items are kept as files. It is created with the first item. Other processes and
        later runs can use it too. None (the default) keeps items in memory only.

    Returns
    -------
    AddCache

    Raises
    ------
    TypeError
        If `arr` cannot be indexed, `cache` is a list or lacks a method, or an argument has the wrong type.
    ValueError
        If a number or `policy` is out of range, or if the directory at `store` was not made by `add_cache`
        for a sequence of this length and order. An item may raise it too, if another process has created the
        store since.

    Notes
    -----
    About 0.5 µs for an item in memory, 20 to 50 µs for an item in a store. Each process worker
    has a memory of its own: put the cache above `prefetch`, or use a store, which all workers share. Below a
    cache, `seqkit.empty` is `numpy.empty`. A `store` needs the length of `arr` at once. After
    ``add_cache`` of SeqTools, which drops the oldest item first and does not cache iteration.

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
        raise ValueError(f"add_cache: policy must be 'lru' or 'fifo', got {brief(policy)}")
    _check_mapping(cache)
    if store is not None and not isinstance(store, str | os.PathLike):
        raise TypeError(f"add_cache: store must be a path, got {brief(store)}")
    path = None if store is None else os.path.abspath(os.path.expanduser(store))
    source = as_view(arr, "add_cache")
    order = None if path is None else order_digest(source, items=True)
    return sized(AddCache(source, CacheSettings(cache_size, cache, policy, max_bytes, path, order)))


def _check_mapping(cache: Any) -> None:
    if isinstance(cache, type | MutableSequence):  # `i in list` would look for an item i
        raise TypeError(f"add_cache: cache must be a mapping, got {brief(cache)}")
    for method in ("__contains__", "__getitem__", "__setitem__", "__delitem__") if cache is not None else ():
        if not hasattr(cache, method):
            raise TypeError(f"add_cache: cache must be a mapping with {method}, got {brief(cache)}")


@dataclass(frozen=True)
class CacheSettings:
    """The arguments of `add_cache`, the digest of its items, and the epoch for which the view was keyed."""

    cache_size: int | None
    cache: CacheMapping | None
    policy: Policy
    max_bytes: int | None
    store: str | None
    order: str | None
    epoch: EpochPair = AS_IT_STANDS

    def at_epoch(self, epoch: EpochPair) -> CacheSettings:
        """Return the settings for other items: with a new dict, and the part of the store for an epoch."""
        return replace(self, cache=None, epoch=epoch.after(self.epoch))

    def memory(self) -> CacheMemory:
        mapping, most_bytes = self.cache, self.max_bytes
        if mapping is None:
            mapping = {}
            most_bytes = MOST_BYTES if self.cache_size is self.max_bytes is None else most_bytes
        return CacheMemory(mapping, self.cache_size, most_bytes, refresh=self.policy == "lru")


class AddCache(View[T]):
    """The view that `add_cache` returns."""

    _passes_on = True

    def __init__(self, source: View[T], settings: CacheSettings, kept: CacheMemory | None = None) -> None:
        super().__init__((source,))
        self.settings = settings
        self._store: Directory | None = None
        if settings.store is not None:
            length = None if isinstance(source._n, Unsized) else source._n
            self._store = Directory(settings.store, length, settings.order, settings.epoch)
        self.kept = settings.memory() if kept is None else kept

    def clear(self) -> None:
        """Drop all items, including those in the store. They are computed again at the next read."""
        self.kept.forget(None)
        if self._store is not None:
            self._store.clear()

    # ---------------------------------------------------------------- reading

    def _get(self, i: int) -> Any:
        item = self.kept.get(i)
        if item is ABSENT:
            ours = self.kept.begin([i], wait=True)
            try:
                item = self.kept.get(i)  # another thread may have computed it since
                if item is ABSENT:
                    item = self._compute(i)
            finally:
                self.kept.end(ours)
        return item

    def _compute(self, i: int) -> Any:
        changes = self.kept.changes
        item = self._load(i)
        if item is ABSENT:
            item = self._evaluate(i)
            self._save(i, item)
        self.kept.put(i, item, changes)
        return item

    def _evaluate(self, i: int) -> Any:
        with private_memory():  # a kept item must not be in the shared-memory slot of the current item
            return self._sources[0]._get(i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted = as_list(indices)
        items: dict[int, Any] = {i: self.kept.get(i) for i in wanted}
        missing = [i for i, item in items.items() if item is ABSENT]
        if len(missing) > 1:
            items.update(self._compute_many(missing))
        for i in missing:
            if items[i] is ABSENT:  # another thread is computing it
                items[i] = self._get(i)
        return [items[i] for i in wanted]

    def _compute_many(self, indices: list[int]) -> dict[int, Any]:
        """Return the items that no other thread is computing, with one read."""
        ours = self.kept.begin(indices, wait=False)
        try:
            changes = self.kept.changes
            found = {i: self.kept.get(i) for i in ours}
            found |= {i: self._load(i) for i, item in found.items() if item is ABSENT}
            needed = [i for i, item in found.items() if item is ABSENT]
            if needed:
                with private_memory():
                    items: Any = self._sources[0]._getmany(needed)
                rows = type(items) is np.ndarray and not items.dtype.hasobject
                for i, item in zip(needed, items, strict=True):
                    found[i] = item.copy() if rows else item  # a row would keep the whole array alive
                    self._save(i, found[i])
            for i, item in found.items():
                self.kept.put(i, item, changes)
            return found
        finally:
            self.kept.end(ours)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not (self._reads_ahead and ends(plan)):
            return super()._iter(plan)
        needed = Decided(plan, lambda i: None if self._holds(i) else i)
        items, positions = self._sources[0]._iter(needed), count()

        def read(i: int) -> Any:
            return self._get(i) if needed.at(next(positions)) is None else self._draw(i, items)

        return surviving(self, plan, read)

    def _draw(self, i: int, items: Iterator[Any]) -> Any:
        """Return the next item that is read from the source, and keep it."""
        changes = self.kept.changes
        with private_memory():
            item = next(items, ABSENT)
        if item is ABSENT:
            raise EndOfSequence(f"the sequence ends before index {i}")
        self._save(i, item)
        self.kept.put(i, item, changes)
        return item

    def _holds(self, i: int) -> bool:
        try:
            return i in self.kept or (self._store is not None and i in self._store)
        except Exception:
            return False  # reading the item raises the error

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return () if self._holds(i) else self._parts(i)

    # ---------------------------------------------------------------- the store

    def _load(self, i: int) -> Any:
        if self._store is None:
            return ABSENT
        try:
            return self._store.get(i)
        except Exception as error:
            fail(self, i, error, "reading the store")

    def _save(self, i: int, item: Any) -> None:
        if self._store is not None:
            try:
                self._store.put(i, item)
            except Exception as error:
                fail(self, i, error, "writing the store")

    # ---------------------------------------------------------------- writing

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        if self._store is not None:
            raise TypeError("add_cache does not support assignment with a store, which outlives the source")
        # The item that is read back may differ from the one written. With views beneath, other items may be
        # made of the same source item.
        forgotten = None if self._sources[0]._sources else i
        return [*self._sources[0]._set(i, value), partial(self.kept.forget, forgotten)]

    # ---------------------------------------------------------------- the expression

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        if sources[0] is self._sources[0]:
            return AddCache(sources[0], self.settings, self.kept)
        return AddCache(sources[0], self.settings.at_epoch(AS_IT_STANDS))

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        if not self._varies or sources[0] is self._sources[0]:
            return self  # and keep its items
        return AddCache(sources[0], self.settings.at_epoch(epoch))

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self.settings
        if isinstance(settings.cache, dict):  # a pickle has no items
            settings = replace(settings, cache={})
        return AddCache, (self._sources[0], settings)

    def _arguments(self, sources: list[str]) -> list[str]:
        settings = self.settings
        named = {"cache_size": settings.cache_size, "max_bytes": settings.max_bytes, "store": settings.store}
        return [*sources, *(f"{name}={value!r}" for name, value in named.items() if value is not None)]
