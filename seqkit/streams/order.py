"""Which streams are read, and in which order: numbered from 0 in the order of an epoch.

The *number* of a stream is its place in the order of one epoch. Its *id* is its place in the streams that the
user passed. In `Listed`, numbers beyond the last stream stand for the same streams, read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..core.arguments import refuse_set
from ..core.errors import brief, fail
from ..core.lengths import Unsized
from ..core.randomness import Permutation, node_key
from ..core.source import as_view
from ..core.view import View, in_order

__all__ = ["Drawn", "Listed", "as_streams", "described"]


class Listed:
    """Streams that can be indexed: those of one rank, shuffled for an epoch if there is a seed.

    Attributes
    ----------
    n : int
        How many streams all ranks have. 0 if they can only be iterated.
    length : int or None
        How many streams the rank has. None if they can only be iterated.

    Examples
    --------
    >>> order = Listed(5, rank=1, world_size=2)
    >>> order.length, [order.id(number) for number in range(order.length)]
    (2, [1, 3])
    """

    def __init__(
        self, n: int, seed: int | None = None, epoch: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        self._permutation = None if seed is None else Permutation(n, node_key("streams", seed, epoch, 0))
        self._rank = rank
        self._world_size = world_size
        self.n = n
        self.length: int | None = len(range(rank, n, world_size))

    def has(self, number: int, *, is_needed: bool = True) -> bool:
        """Return whether there is a stream with this number. Raise errors if it is needed."""
        return self.length is not None and number < self.length

    def id(self, number: int) -> int:
        """Return the id of a stream, or of one that is read again."""
        place = self._rank + number % (self.length or 1) * self._world_size
        return place if self._permutation is None else self._permutation.one(place)

    def sent(self, number: int) -> Any:
        """Return what a worker needs to open a stream: its id here, or the user's object. Call it once."""
        return self.id(number)


class Drawn(Listed):
    """Streams that can only be iterated. They are drawn one by one, in the consumer's process."""

    _name = "streams"  # for error messages

    def __init__(self, streams: Iterable[Any]) -> None:
        super().__init__(0)
        self.length = None
        self._items: Iterator[Any] = in_order(streams)
        self._drawn: dict[int, Any] = {}  # streams that are not handed over
        self._count = 0
        self._has_ended = False
        self._error: Exception | None = None

    def has(self, number: int, *, is_needed: bool = True) -> bool:
        while not self._has_ended and self._count <= number:
            try:
                self._drawn[self._count] = next(self._items)
                self._count += 1
            except Exception as error:
                self._has_ended = True
                self._error = None if isinstance(error, StopIteration) else error
        if number >= self._count and is_needed and self._error is not None:
            reason, self._error = self._error, None
            fail(self, number, reason)
        return number < self._count

    def id(self, number: int) -> int:
        return number

    def sent(self, number: int) -> Any:
        stream = self._drawn[number]
        self._drawn = {later: kept for later, kept in self._drawn.items() if later > number}
        return stream


def as_streams(streams: Any, who: str) -> tuple[Any, int | None]:
    """Return streams as a view, and their number; or as an iterable, and None.

    >>> as_streams("log.txt", "StreamLoader")
    Traceback (most recent call last):
    TypeError: StreamLoader: streams must be a sequence or an iterable of streams, got the text 'log.txt'. ...
    """
    if isinstance(streams, str | bytes):  # each character would be a stream
        raise TypeError(
            f"{who}: streams must be a sequence or an iterable of streams, got the text {brief(streams)}."
            " For a single stream pass a list of it."
        )
    if hasattr(streams, "__getitem__") and (hasattr(streams, "__len__") or isinstance(streams, View)):
        view = as_view(streams, f"{who}: streams")
        if not isinstance(view._n, Unsized):
            return view, len(view)
    refuse_set(streams, f"{who}: streams")
    if not hasattr(streams, "__iter__") or isinstance(streams, type | dict):
        raise TypeError(f"{who}: streams must be a sequence or an iterable, got {streams!r}")
    return streams, None


def described(streams: Any, id_: int) -> str:
    """Return how error messages name a stream.

    >>> described(["a.txt"], 0), described(iter(()), 7)
    ("stream 0 ('a.txt')", 'stream 7')
    """
    return f"stream {id_} ({brief(streams[id_])})" if type(streams) in (list, tuple) else f"stream {id_}"
