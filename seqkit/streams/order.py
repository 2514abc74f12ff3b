"""Which streams are read, and in which order: numbered from 0 in the order of an epoch.

The *number* of a stream is its place in the order of one epoch. Its *id* is its place in the streams that the
user passed. In `Listed`, numbers beyond the last stream stand for the same streams, read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from ..core.errors import brief, fail
from ..core.randomness import Permutation, node_key
from ..core.view import View, in_order

__all__ = ["Drawn", "Listed", "Order"]


class Listed:
    """Streams that can be indexed: those of one rank, shuffled for an epoch if there is a seed.

    >>> from seqkit import view
    >>> order = Listed(view("abcde"), rank=1, world_size=2)
    >>> order.length, [order.item(number) for number in range(order.length)]
    (2, ['b', 'd'])
    """

    def __init__(
        self, streams: View[Any], seed: int | None = None, epoch: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        self._streams = streams
        n = len(streams)
        self._permutation = None if seed is None else Permutation(n, node_key("streams", seed, epoch, 0))
        self._rank = rank
        self._world_size = world_size
        self.length: int = len(range(rank, n, world_size))

    def find(self, number: int) -> bool:
        """Return whether there is a stream with this number. Raise an error of the streams themselves."""
        return number < self.length

    may_find = find  # the same, ahead of need. An error is left for `find`

    def id(self, number: int) -> int:
        """Return the id of a stream that was found, or of one that is read again."""
        place = self._rank + number % self.length * self._world_size
        return place if self._permutation is None else self._permutation.one(place)

    def item(self, number: int) -> Any:
        """Return the user's object for a stream."""
        return self.stream(self.id(number))

    def sent(self, number: int) -> tuple[Any, bool]:
        """Return the object that is sent along with the number, and whether one is."""
        return None, False

    def forget(self, number: int) -> None:
        """Forget the streams up to this number."""

    def ids(self) -> Iterator[int]:
        """Return the ids of all streams that can be read again: those of this order first."""
        own = [self.id(number) for number in range(self.length)]
        yield from own
        yield from sorted({*range(len(self._streams))}.difference(own))  # of other ranks

    def stream(self, id_: int) -> Any:
        """Return the user's object for the stream with an id."""
        return self._streams[id_]


class Drawn:
    """Streams that can only be iterated. They are drawn one by one, in the consumer's process.

    The methods are those of `Listed`. `length` is None until it is known.
    """

    _name = "streams"  # for error messages

    def __init__(self, streams: Iterable[Any]) -> None:
        self._streams = streams
        self._items: Iterator[Any] = in_order(streams)
        self._count = 0
        self._kept: dict[int, Any] = {}
        self._error: Exception | None = None
        self.length: int | None = None

    def find(self, number: int) -> bool:
        if not self.may_find(number) and self._error is not None:
            error, self._error = self._error, None
            fail(self, number, error)
        return self.may_find(number)

    def may_find(self, number: int) -> bool:
        while self.length is None and self._count <= number:
            self._draw()
        return self.length is None or number < self.length

    def _draw(self) -> None:
        try:
            item = next(self._items)
        except StopIteration:
            self.length = self._count
        except Exception as error:
            self._error, self.length = error, self._count
        else:
            self._kept[self._count] = item
            self._count += 1

    def id(self, number: int) -> int:
        return number

    def item(self, number: int) -> Any:
        return self._kept[number]

    def sent(self, number: int) -> tuple[Any, bool]:
        return self.item(number), True

    def ids(self) -> Iterable[int]:
        if isinstance(self._streams, Iterator):
            return ()
        return range(self._count) if self.length is None else range(self.length)

    def stream(self, id_: int) -> Any:
        return next(islice(in_order(self._streams), id_, None))

    def forget(self, number: int) -> None:
        for old in [kept for kept in self._kept if kept <= number]:
            del self._kept[old]


Order: TypeAlias = Listed | Drawn  # the streams of one epoch


def described(streams: Any, id_: int) -> str:
    """Return how error messages name a stream.

    >>> described(["a.txt"], 0), described(iter(()), 7)
    ("stream 0 ('a.txt')", 'stream 7')
    """
    return f"stream {id_} ({brief(streams[id_])})" if type(streams) in (list, tuple) else f"stream {id_}"
