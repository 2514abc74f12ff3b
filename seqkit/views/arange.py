"""`arange`: a `range` that is a view."""

from __future__ import annotations

from typing import Any, SupportsIndex

from ..core.plain import as_index
from ..core.source import as_view
from ..core.view import View

__all__ = ["arange"]


def arange(
    start: SupportsIndex, stop: SupportsIndex | None = None, step: SupportsIndex | None = None
) -> View[int]:
    """Return the view of the ints from `start` up to `stop`, in steps of `step`.

    Parameters
    ----------
    start : int
        First item. Without `stop`, the view starts at 0 and stops at `start`.
    stop : int, optional
        End of the range, not included.
    step : int, optional
        Difference between neighbouring items, not 0. None (the default) means 1.

    Returns
    -------
    View
        The items of the `range` with these arguments.

    Raises
    ------
    TypeError
        If an argument is not an int.
    ValueError
        If `step` is 0.

    Notes
    -----
    One multiplication per access, no memory. After ``arange`` of SeqTools and numpy, but without floats.

    Examples
    --------
    >>> list(arange(4)), list(arange(10, 0, -3)), arange(5)[-1]
    ([0, 1, 2, 3], [10, 7, 4, 1], 4)
    >>> list(arange(100)[10:50:20])
    [10, 30]
    """
    first = _as_int(start, "start")
    by = 1 if step is None else _as_int(step, "step")
    if by == 0:
        raise ValueError("arange: step must be an int other than 0, got 0")
    return as_view(range(0, first, by) if stop is None else range(first, _as_int(stop, "stop"), by), "arange")


def _as_int(value: Any, what: str) -> int:
    try:
        return as_index(value)
    except TypeError:
        raise TypeError(f"arange: {what} must be an int, got {value!r}") from None
