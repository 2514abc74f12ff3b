"""`arange`: a `range` that is a view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

from ..core.indices import IndexArray, Indices, Plan, as_list, as_slice, each
from ..core.plain import as_index
from ..core.view import View

__all__ = ["Arange", "arange"]


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
        The items of the `range` with these arguments. A slice of it is an `arange` again.

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
    >>> arange(100)[10:50:20]
    arange(10, 50, 20)
    """
    first = _as_int(start, "start")
    by = 1 if step is None else _as_int(step, "step")
    if by == 0:
        raise ValueError("arange: step must be an int other than 0, got 0")
    return Arange(range(0, first, by) if stop is None else range(first, _as_int(stop, "stop"), by))


def _as_int(value: Any, what: str) -> int:
    try:
        return as_index(value)
    except TypeError:
        raise TypeError(f"arange: {what} must be an int, got {value!r}") from None


class Arange(View[int]):
    """The view that `arange` returns."""

    _decides = ("_range",)

    def __init__(self, numbers: range) -> None:
        # `len` fails for a range of more than 2**63 items, whose items can still be read.
        n = (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0
        super().__init__((), n)
        self._range = numbers

    def _get(self, i: int) -> int:
        return self._range[i]

    def _iter(self, plan: Plan) -> Iterator[int]:
        if isinstance(plan, range):
            return iter(self._range[as_slice(plan)])
        if self._range.start == 0 and self._range.step == 1:
            return each(plan)  # the items are the indices
        return map(self._range.__getitem__, each(plan))

    def _getmany(self, indices: Indices) -> Sequence[int]:
        if isinstance(indices, range):
            return self._range[as_slice(indices)]
        return [self._range[i] for i in as_list(indices)]

    def _take(self, indices: range | IndexArray) -> View[int]:
        if isinstance(indices, range) and not (indices and self._leaves(indices)):
            return Arange(self._range[as_slice(indices)])
        return super()._take(indices)

    def _leaves(self, indices: range) -> bool:
        return min(indices[0], indices[-1]) < 0 or max(indices[0], indices[-1]) >= self._n

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[int]:
        return self

    def _arguments(self, sources: list[str]) -> list[str]:
        start, stop, step = self._range.start, self._range.stop, self._range.step
        if step != 1:
            return [str(start), str(stop), str(step)]
        return [str(start), str(stop)] if start else [str(stop)]
