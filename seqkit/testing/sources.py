"""Sources with only the methods that a view may use. Some count reads or fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

__all__ = [
    "CountingSource",
    "ExplodingSource",
    "FailingSource",
    "NarrowSource",
    "TwoArgumentsError",
    "UnsizedSource",
]


class NarrowSource:
    """A sequence with ``len`` and with ``[i]`` for ints in ``[0, len)``, and nothing else.

    >>> NarrowSource("ab")[-1]
    Traceback (most recent call last):
    AssertionError: a source of 2 items was asked for item -1
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        assert type(i) is int, f"a source was asked for item {i!r} of type {type(i).__name__}"
        assert 0 <= i < len(self.items), f"a source of {len(self.items)} items was asked for item {i}"
        return self.items[i]


class ExplodingSource(NarrowSource):
    """A sequence whose items must not be read.

    >>> ExplodingSource("ab")[0]
    Traceback (most recent call last):
    AssertionError: item 0 was read
    """

    def __getitem__(self, i: int) -> Any:
        raise AssertionError(f"item {i} was read")


class CountingSource(NarrowSource):
    """A narrow sequence that counts in `reads` how often each item was read.

    >>> source = CountingSource("ab")
    >>> source[1], source[1], source.reads
    ('b', 'b', Counter({1: 2}))
    """

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__(items)
        self.reads: Counter[int] = Counter()

    def __getitem__(self, i: int) -> Any:
        self.reads[i] += 1
        return super().__getitem__(i)


class FailingSource(NarrowSource):
    """A narrow sequence in which the items `failing` cannot be read.

    Parameters
    ----------
    items : sequence
    failing : collection of int
        Indices of the items that fail.
    error : callable
        Makes the exception from a text.

    Examples
    --------
    >>> FailingSource("ab", [1], KeyError)[1]
    Traceback (most recent call last):
    KeyError: 'item 1'
    """

    def __init__(
        self,
        items: Sequence[Any],
        failing: Collection[int],
        error: Callable[[str], Exception] = ValueError,
    ) -> None:
        super().__init__(items)
        self.failing = frozenset(failing)
        self.error = error

    def __getitem__(self, i: int) -> Any:
        item = super().__getitem__(i)
        if i in self.failing:
            raise self.error(f"item {i}")
        return item


class UnsizedSource:
    """A sequence without ``len`` that raises IndexError behind its last item.

    >>> UnsizedSource("ab")[2]
    Traceback (most recent call last):
    IndexError: there are only 2 items
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = list(items)

    def __getitem__(self, i: int) -> Any:
        assert type(i) is int, f"a source was asked for item {i!r} of type {type(i).__name__}"
        assert i >= 0, f"a source was asked for item {i}"
        if i >= len(self.items):
            raise IndexError(f"there are only {len(self.items)} items")
        return self.items[i]


class TwoArgumentsError(Exception):
    """An exception that pickles, and then cannot be rebuilt, because its ``args`` are two.

    >>> TwoArgumentsError("item 3")
    TwoArgumentsError('item 3', 'again')
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, "again")
