"""The arguments of `add_cache`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...core.errors import as_given
from ...core.lengths import Unsized
from ...core.view import View
from ..directory import Directory
from .contents import Contents
from .memory import CacheMapping, CacheMemory

__all__ = ["CacheSettings", "Policy", "StoreKey", "check_mapping"]

Policy = Literal["lru", "fifo"]
StoreKey = Callable[[int], Any]


@dataclass(frozen=True)
class CacheSettings:
    """The arguments of `add_cache`, the digest of its items, and `scope`, the name of a part of the store."""

    cache_size: int | None
    cache: CacheMapping | None
    policy: Policy
    max_bytes: int | None
    store: str | None
    key: StoreKey | None
    order: str | None = None
    scope: str = ""

    def contents(self, source: View[Any]) -> Contents:
        mapping = {} if self.cache is None else self.cache
        memory = CacheMemory(mapping, self.cache_size, self.max_bytes, self.policy == "lru")
        if self.store is None:
            return Contents(memory, None)
        length = None if self.key is not None or isinstance(source._n, Unsized) else source._n
        return Contents(memory, Directory(self.store, length, self.scope, self.order))

    def emptied(self) -> CacheSettings:
        """Return the same settings with an empty dict. A mapping of another type stays as it is."""
        cache: Any = self.cache
        return replace(self, cache=type(cache)()) if type(cache) in (dict, OrderedDict) else self

    def fresh(self, scope: str) -> CacheSettings:
        """Return the settings for other items: with a new mapping, and another part of the store."""
        if self.cache is None or type(self.cache) in (dict, OrderedDict):
            return replace(self.emptied(), scope=scope)
        # A mapping of the user may have had limits of its own, which are unknown.
        most = 1 if self.cache_size is None and self.max_bytes is None else self.cache_size
        return replace(self, cache=None, cache_size=most, scope=scope)


def check_mapping(cache: Any) -> None:
    if isinstance(cache, type | MutableSequence):  # `i in list` would look for an item i
        raise TypeError(f"add_cache: cache must be a mapping, got {as_given(cache)}")
    for method in ("__contains__", "__getitem__", "__setitem__", "__delitem__"):
        if not hasattr(cache, method):
            raise TypeError(f"add_cache: cache must be a mapping with {method}, got {as_given(cache)}")
