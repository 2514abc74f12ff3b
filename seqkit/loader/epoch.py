"""One epoch of a loader: an iterator, and how far its reader is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..frames import hide_frames
from .tolerance import NOTHING, Mended

__all__ = ["Epoch", "Position"]


@dataclass(slots=True)
class Position:
    """Where the reader of an epoch is; all that a loader keeps of it, so that it ends when it is dropped.

    Attributes
    ----------
    epoch : int
        Its number.
    batch : int
        How many batches were read, failed ones included.
    length : int or None
        How many there are, if that is known.
    ended : bool
        Has the reader been told that there are no more?
    """

    epoch: int
    batch: int
    length: int | None
    ended: bool = False

    def is_over(self) -> bool:
        """Has everything been read?"""
        return self.ended or self.batch == self.length


class Epoch(Iterator[Any]):
    """The batches of one epoch, from a position on.

    Parameters
    ----------
    items : iterator
        Goes on behind an error.
    position : Position
        Of the first of `items`; kept up to date.
    failed : list
        Takes up what `Mended` batches say.
    finish : callable
        Called once, when nothing is left.
    is_at_item : callable
        Is what `items` has just raised about an item, which is over with it?
    """

    def __init__(
        self,
        items: Iterator[Any],
        position: Position,
        failed: list[tuple[Any, str]],
        finish: Callable[[], None],
        is_at_item: Callable[[], bool],
    ) -> None:
        self._items = items
        self._position = position
        self._failed = failed
        self._finish = finish
        self._is_at_item = is_at_item
        self._is_broken = False  # did an error end the reading, rather than the last batch?
        # Batches behind which the reading stands that are not counted yet: whoever begins anew after Ctrl-C
        # is owed the one that it struck, whoever goes on does so behind it.
        self._owed = 0
        self._is_over = False

    def __next__(self) -> Any:
        while True:
            try:
                item = next(self._items)
            except StopIteration:
                self._end()
                raise
            except BaseException as error:
                self._is_broken = not self._is_at_item()
                self._owed += not self._is_broken
                if isinstance(error, Exception):
                    self._pass()
                hide_frames(error)
                raise
            self._is_broken = False
            self._owed += 1
            self._pass()
            if type(item) is not Mended:
                return item
            self._failed.extend(item.failed)
            if item.value is not NOTHING:
                return item.value

    def _pass(self) -> None:
        self._position.batch += self._owed
        self._owed = 0

    def __len__(self) -> int:
        if self._position.length is None:
            raise TypeError("DataLoader: no length, for its data set or sampler has none")
        return self._position.length

    def _end(self) -> None:
        self._pass()
        self._position.ended = not self._is_broken
        if not self._is_over:
            self._is_over = True
            self._finish()
