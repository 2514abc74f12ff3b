"""The memory of `add_cache`: a mapping that is bounded in items and bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Protocol

from ..directory import ABSENT

__all__ = ["CacheMapping", "CacheMemory", "size_of"]


class CacheMapping(Protocol):
    """The methods that a mapping needs to hold the items of a cache. A dict has them."""

    def __contains__(self, key: Any, /) -> bool: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __delitem__(self, key: Any, /) -> None: ...


def size_of(value: Any) -> int:
    """Estimate the size of a value in bytes: the larger of `sys.getsizeof` and ``nbytes``.

    Includes the parts of tuples, lists, sets and dicts. An object that occurs twice counts once.

    >>> import numpy as np
    >>> size_of(np.zeros(1000)) >= 8000, size_of([np.zeros(1000)] * 2) < 9000
    (True, True)
    """
    total, pending, seen = 0, [value], {id(value)}
    while pending:
        value = pending.pop()
        nbytes = getattr(value, "nbytes", 0)
        total += max(sys.getsizeof(value, 64), nbytes if isinstance(nbytes, int) else 0)
        for part in _parts(value):
            if id(part) not in seen:
                seen.add(id(part))
                pending.append(part)
    return total


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, tuple | list | set | frozenset) else ()


class CacheMemory:
    """A mapping of bounded size.

    Parameters
    ----------
    values : CacheMapping
        Holds the values. It may contain values already, and may drop some by itself.
    most : int or None
        Largest number of values.
    most_bytes : int or None
        Largest number of bytes, by `size_of`. A larger value is not kept.
    refresh : bool
        Does reading a value make it the last one to be dropped?

    Examples
    --------
    >>> memory = CacheMemory({}, 2, None, refresh=True)
    >>> for key in "ab": memory.put(key, key.upper())
    >>> memory.get("a"); memory.put("c", "C"); memory.get("b") is ABSENT
    'A'
    True
    """

    def __init__(self, values: CacheMapping, most: int | None, most_bytes: int | None, refresh: bool) -> None:
        self._values = values
        self._most = sys.maxsize if most is None else most
        self._most_bytes = most_bytes
        self._refresh = refresh
        self._sizes: OrderedDict[Any, int] = OrderedDict()  # the first one is dropped next
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, key: Any) -> bool:
        return self._most > 0 and key in self._values

    def get(self, key: Any) -> Any:
        """Return a value, or `ABSENT`."""
        if not self._most:
            return ABSENT
        value = ABSENT
        try:
            if key in self._values:
                value = self._values[key]
        except KeyError:  # the mapping has just dropped it
            pass
        if value is ABSENT:
            self._forget(key)
        elif key not in self._sizes:
            self._note(key, self._size(value))
        elif self._refresh:
            self._sizes.move_to_end(key)
        return value

    def put(self, key: Any, value: Any) -> None:
        self.drop(key)
        size = self._size(value)
        if self._most and (self._most_bytes is None or size <= self._most_bytes):
            self._values[key] = value
            self._note(key, size)

    def drop(self, key: Any) -> None:
        self._forget(key)
        try:
            if key in self._values:
                del self._values[key]
        except KeyError:
            pass

    def clear(self) -> None:
        """Drop all values. If the mapping cannot be iterated, drop those that were put or read here."""
        for key in list(self._values if isinstance(self._values, Iterable) else self._sizes):
            self.drop(key)

    def repair(self) -> None:
        """Repair the state if a fork interrupted a change."""
        self._nbytes = sum(self._sizes.values())

    def _size(self, value: Any) -> int:
        return 0 if self._most_bytes is None else size_of(value)

    def _note(self, key: Any, size: int) -> None:
        self._sizes[key] = size
        self._nbytes += size
        while len(self._sizes) > self._most or self._nbytes > (self._most_bytes or 0):
            self.drop(next(iter(self._sizes)))

    def _forget(self, key: Any) -> None:
        self._nbytes -= self._sizes.pop(key, 0)
