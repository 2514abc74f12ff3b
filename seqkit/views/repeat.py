"""`repeat`: one value, any number of times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ..checks import optional_int
from ..errors import brief
from ..indices import UNBOUNDED, Indices
from ..view import T, View

__all__ = ["Repeat", "repeat"]


def repeat(value: T, times: int | None = None) -> View[T]:
    """Return the view whose every item is `value`.

    Parameters
    ----------
    value : object
        Not copied: all items are this one object.
    times : int, optional
        Length of the view, at least 0. None (the default) goes on for ever.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `times` is no int.
    ValueError
        If `times` is negative.

    Notes
    -----
    No computation and no memory. Assigning to one item assigns to all, in slices of the view too: this is the
    one view that keeps what is written to it. After ``repeat`` of SeqTools and `itertools.repeat`.

    Examples
    --------
    >>> list(repeat("a", 3)), repeat(0)[10**12]
    (['a', 'a', 'a'], 0)
    """
    return Repeat(value, optional_int(times, "repeat: times", least=0))


class Repeat(View[Any]):
    """The view behind `repeat`."""

    def __init__(self, value: Any, times: int | None) -> None:
        super().__init__((), UNBOUNDED if times is None else times)
        self._value = value
        self._times = times

    def _get(self, i: int) -> Any:
        return self._value

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return [self._value] * len(indices)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return (partial(setattr, self, "_value", value),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self  # not a copy, which would not see what is assigned

    def _arguments(self, sources: list[str]) -> list[str]:
        value = brief(self._value)
        return [value] if self._times is None else [value, str(self._times)]
