"""The iterator over one epoch of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core.errors import EvaluationError, seterr
from ..core.tracebacks import hide_frames
from ..engine.protocol import PrefetchError
from .keys import by_number
from .on_error import Recovered
from .position import Position

__all__ = ["Epoch"]


class Epoch(Iterator[Any]):
    """The batches of one epoch, from a position on.

    Parameters
    ----------
    items : iterator
        It survives errors.
    position : Position
        It is kept up to date.
    failed : list
        Receives the failures of `Recovered` batches.
    begin : callable
        Called with the iterator and its position before the first batch.
    finish : callable
        Called once, at the end.
    """

    def __init__(
        self,
        items: Iterator[Any],
        position: Position,
        failed: list[tuple[Any, str]],
        begin: Callable[[Epoch, Position], None],
        finish: Callable[[], None],
    ) -> None:
        self._items = items
        self._position = position
        self._failed = failed
        self._finish: Callable[[], None] | None = finish
        self._begin: Callable[[Epoch, Position], None] | None = begin
        self._was_cut_short = False  # whether the last error ended the iteration

    def follow(self, other: Epoch) -> None:
        """Read the epoch of another iterator, which was not read."""
        finish = self._finish
        self._items, self._position, self._finish = other._items, other._position, other._finish
        if finish is not None:
            finish()

    def __next__(self) -> Any:
        if self._begin is not None:
            begin, self._begin = self._begin, None
            begin(self, self._position)
        while True:
            try:
                item = next(self._items)
            except StopIteration:
                self._end()
                raise
            except BaseException as error:
                if isinstance(error, Exception):
                    self._was_cut_short = not _costs_a_batch(error)
                    self._position.advance(not self._was_cut_short)
                if isinstance(error, EvaluationError):
                    error.index = by_number(error.index)
                hide_frames(error)
                raise
            self._was_cut_short = False
            self._position.advance(1)
            if type(item) is not Recovered:
                return item
            self._failed.extend(item.failed)
            if item.values:
                return item.values[0]

    @property
    def first_batch(self) -> int:
        """The number of the batch with which it began: above 0 after a resume."""
        return self._position.start.batch

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        if self._position.length is None:
            raise TypeError("DataLoader: no length, for its data set or sampler has none")
        return self._position.length

    def _end(self) -> None:
        self._position.ended = not self._was_cut_short
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


def _costs_a_batch(error: Exception) -> bool:
    """Return whether an error uses up a batch. Other errors concern the iteration."""
    if isinstance(error, PrefetchError):
        return False
    return isinstance(error, EvaluationError | RecursionError) or seterr() == "passthrough"
