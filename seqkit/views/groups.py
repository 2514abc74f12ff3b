"""`Groups`: the groups of a sequence of groups, each read once for items that follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import EndOfSequence

__all__ = ["Groups"]


class Groups:
    """Reads groups in order, and keeps the last one for further items of it.

    Parameters
    ----------
    groups : iterator
        The groups that will be read, in order.

    Examples
    --------
    >>> groups = Groups(iter(["ab", "cd"]))
    >>> groups.read(4), groups.read(4), groups.read(7)
    ('ab', 'ab', 'cd')
    """

    def __init__(self, groups: Iterator[Any]) -> None:
        self._groups = groups
        self._which = -1
        self._group: Any = None
        self._failure: Exception | None = None

    def read(self, which: int) -> Any:
        """Return group `which`: that of the last call, or the next one. Raises its error each time."""
        if which != self._which:
            self._which, self._group, self._failure = which, None, None
            try:
                self._group = next(self._groups)
            except StopIteration:
                self._failure = EndOfSequence("there is no further group")
            except Exception as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure
        return self._group
