"""`arange`: a `range` that is a view."""

from __future__ import annotations

from typing import SupportsIndex

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
    numbers = range(start) if stop is None else range(start, stop)
    return as_view(numbers if step is None else range(numbers.start, numbers.stop, step), "arange")
