"""The iterator over one epoch of a loader, and its position."""

from __future__ import annotations

import marshal
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ..core.errors import EvaluationError, seterr
from ..core.iteration import Progress, restarting
from ..core.tracebacks import hide_frames
from ..engine.protocol import PrefetchError
from .keys import numbered
from .on_error import Recovered

__all__ = ["Epoch", "Position", "drawn"]


@dataclass(eq=False)
class Position:
    """How far the consumer of an epoch is. It outlives the iterator.

    Attributes
    ----------
    epoch : int
        Its number.
    base : int
        Samples of the order that all processes had read when this one joined them.
    start, batch : int
        The numbers of the first batch and of the next one.
    length : int or None
        Batches of the epoch, if that is known.
    sampler : object
        The state of the sampler before the epoch.
    crcs : deque of int
        A checksum of the keys before the next batch, and of those before each batch that workers have drawn
        since. Empty if the sampler needs no check.
    ended : bool
        Whether the iterator was exhausted.
    """

    epoch: int
    base: int
    start: int
    length: int | None
    sampler: Any
    crcs: deque[int] = field(default_factory=deque)
    batch: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self.batch = self.start

    def is_over(self) -> bool:
        """Return whether everything was read."""
        return self.ended or self.batch == self.length

    def advance(self) -> None:
        """Count a batch as read."""
        self.batch += 1
        self.skip()

    def skip(self) -> None:
        """Drop the checksum before a batch that was read."""
        if len(self.crcs) > 1:
            self.crcs.popleft()


def drawn(keys: Iterator[Any], start: int, crcs: deque[int]) -> Iterator[Any]:
    """Number the keys that a sampler gives, and note their checksums. The iterator survives errors."""
    number = start

    def run(progress: Progress) -> Iterator[Any]:
        nonlocal number
        try:
            for key in keys:
                if crcs:
                    crcs.append(checksum(key, crcs[-1]))
                number += 1
                yield numbered(key, number - 1)
            progress.done = True
        except BaseException as error:
            progress.interrupted = not isinstance(error, Exception)
            raise

    return restarting(run)


def checksum(keys: Any, before: int) -> int:
    """Return a checksum of a key, or of the keys of a batch, and of those before. Only plain values count.

    >>> checksum([3, 1], 0) == checksum(1, checksum(3, 0)) != checksum([1, 3], 0), checksum(object(), 7)
    (True, 7)
    """
    for key in keys if isinstance(keys, list) else (keys,):
        with suppress(ValueError):
            before = zlib.crc32(marshal.dumps(key, 2), before)
    return before


class Epoch(Iterator[Any]):
    """The batches of one epoch, from a position on. It begins at the first `next`.

    Parameters
    ----------
    begin : callable
        Begins the next epoch of the loader. Returns the items, their position, and a function to call at
        the end.
    upcoming : callable
        Returns the position at which that would be.
    failed : list
        Receives the failures of `Recovered` batches.
    """

    def __init__(self, begin: Any, upcoming: Callable[[], Position], failed: list[tuple[Any, str]]) -> None:
        self._begin, self._upcoming, self._failed = begin, upcoming, failed
        self._position: Position | None = None
        self._was_cut_short = False  # whether the last error ended the iteration

    def __next__(self) -> Any:
        if self._position is None:
            self._items, self._position, self._finish = self._begin()
            self._begin = None
        position = self._position
        while True:
            try:
                item = next(self._items)
            except StopIteration:
                if not position.ended:
                    position.ended = not self._was_cut_short
                    self._finish()
                raise
            except BaseException as error:
                if isinstance(error, Exception):
                    self._was_cut_short = not _costs_a_batch(error)
                    if not self._was_cut_short:
                        position.advance()
                if isinstance(error, EvaluationError):
                    error.index = _by_number(error.index)
                hide_frames(error)
                raise
            self._was_cut_short = False
            position.advance()
            if type(item) is not Recovered:
                return item
            self._failed.extend(item.failed)
            if item.values:
                return item.values[0]

    @property
    def first_batch(self) -> int:
        """The number of the batch with which it begins: above 0 after a resume."""
        return (self._position or self._upcoming()).start

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError("Iterators cannot be copied or pickled. Pickle the loader instead.")

    def __len__(self) -> int:
        length = (self._position or self._upcoming()).length
        if length is None:
            raise TypeError("DataLoader: no length, for its data set or sampler has none")
        return length


def _costs_a_batch(error: Exception) -> bool:
    """Return whether an error uses up a batch. Other errors concern the iteration."""
    if isinstance(error, PrefetchError):
        return False
    return isinstance(error, EvaluationError | RecursionError) or seterr() == "passthrough"


def _by_number(index: Any) -> Any:
    """Return the index of an error with numbers in place of samples that the caller has read."""
    return list(map(_by_number, index)) if isinstance(index, list) else getattr(index, "number", index)
