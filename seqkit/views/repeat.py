"""`repeat`: one value, any number of times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ..core.arguments import optional_int
from ..core.errors import brief
from ..core.indices import Indices
from ..core.lengths import UNBOUNDED
from ..core.view import T, View

__all__ = ["Repeat", "repeat"]


def repeat(value: T, times: int | None = None) -> View[T]:
    """Return the view in which each item is `value`.

    Parameters
    ----------
    value : object
        Not copied: all items are this one object.
    times : int, optional
        Length of the view, 0 or more. None (the default): unbounded.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `times` is not an int.
    ValueError
        If `times` is negative.

    Notes
    -----
    No computation and no memory. Assigning an item changes all items, also those of slices of the view. After
    ``repeat`` of SeqTools and `itertools.repeat`.

    Examples
    --------
    >>> list(repeat("a", 3)), repeat(0)[10**12]
    (['a', 'a', 'a'], 0)
    >>> import seqkit as sk
    >>> list(sk.collate([["tom.png", "kitty.png"], repeat("cat")]))  # one label for all samples
    [('tom.png', 'cat'), ('kitty.png', 'cat')]
    """
    return Repeat(value, optional_int(times, "repeat: times", least=0))


class Repeat(View[Any]):
    """The view that `repeat` returns."""

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
        return self  # not a copy, which would not see assignments

    def _arguments(self, sources: list[str]) -> list[str]:
        value = brief(self._value)
        return [value] if self._times is None else [value, str(self._times)]
