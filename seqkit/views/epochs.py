"""`epochs`: pass after pass over a sequence, each in its own random order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from ..core.arguments import optional_int
from ..core.epoch import EpochPair, at_epoch
from ..core.errors import fail
from ..core.indices import Endless, IndexArray, Indices, Plan, as_array
from ..core.lengths import UNBOUNDED, Length, needed_length, sized
from ..core.once import cached
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.one_of_several import OneOfSeveral

__all__ = ["Epochs", "epochs"]


def epochs(sequence: Indexable[T], n: int | None = None) -> View[T]:
    """Return the view of n passes over a sequence. Pass e is its ``at_epoch(e)``.

    A shuffle has a new order in each pass. All passes are one sequence, so a `prefetch` above it works ahead
    across the end of a pass.

    Parameters
    ----------
    sequence : View or indexable
        Of known length, the same in each epoch, and not empty unless `n` is given.
    n : int, optional
        Number of passes, 0 or more. None (the default): unbounded.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, or if `n` is not an int.
    ValueError
        If `n` is negative, if `sequence` is empty and `n` is None, or if all of several passes would be
        equal, because a selection by index keeps the orders below it.

    Notes
    -----
    One division per access. The view of the last pass that was read is kept. ``at_epoch(e)`` of the
    result starts at pass ``e * n``, or at pass e if it is unbounded. Known elsewhere as ``repeat``. Use
    `cycle` for equal passes.

    Examples
    --------
    >>> import seqkit as sk
    >>> order = sk.shuffle("abcd", seed=0)
    >>> "".join(epochs(order, 3)), "".join(order.at_epoch(1))
    ('dabcacbdbadc', 'acbd')
    >>> forever = epochs(order)
    >>> forever[4 * 10**9]
    'b'
    """
    source = as_view(sequence, "epochs")
    n = optional_int(n, "epochs: n", least=0)
    if n not in (0, 1) and source._order_count and not source._varies:
        raise ValueError(
            "epochs: all passes would be equal, because the items were selected by index, which keeps the"
            " orders below. Shuffle the selection again, or use cycle for equal passes."
        )
    return sized(Epochs(source, n))


FIRST = EpochPair(0, 0)


class Epochs(OneOfSeveral):
    """The view that `epochs` returns. `first` is the epoch of its first pass over the source."""

    def __init__(self, source: View[Any], passes: int | None, first: EpochPair = FIRST) -> None:
        super().__init__((source,))
        self._passes = passes
        self._first = first
        # The view of the last pass that was read. Replaced as a whole, so threads may share it.
        self._last: tuple[int, View[Any]] | None = None

    @cached
    def _period(self) -> int:
        n = needed_length(self._sources[0], "epochs")
        if n == 0 and self._passes is None:
            raise ValueError("epochs: the sequence is empty, so n must be an int")
        return n

    def _length(self) -> Length:
        period = self._period
        return UNBOUNDED if self._passes is None else self._passes * period

    def _place(self, i: int) -> tuple[int, int]:
        return divmod(i, self._period)

    def _places(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
        wanted = as_array(indices).astype(np.int64, copy=False)
        return wanted // self._period, wanted % self._period

    def _source(self, which: int) -> View[Any]:
        """Return the view of a pass, or raise an error if its length differs from that of the first pass."""
        last = self._last
        if last is not None and last[0] == which:
            return last[1]
        order, draws = self._first
        assert order is not None
        assert draws is not None
        found = at_epoch(self._sources[0], EpochPair(order + which, draws + which))
        if found._n != self._period:
            message = f"pass {order + which} has {found._n} items, expected {self._period}"
            fail(self, which * self._period, ValueError(message))
        self._last = which, found
        return found

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless) or (isinstance(plan, range) and 0 < plan.step <= self._period):
            return chain.from_iterable(self._iter_pass(*piece) for piece in self._pieces(plan))
        return View._iter(self, plan)

    def _iter_pass(self, number: int, part: range) -> Iterator[Any]:
        try:
            return self._source(number)._iter(part)
        except Exception:  # then each item of the pass raises it
            start = number * self._period
            return View._iter(self, range(start + part.start, start + part.stop, part.step))

    def _pieces(self, plan: Endless | range) -> Iterator[tuple[int, range]]:
        """Cut an ascending plan where a pass ends."""
        i, step = 0, 1
        stop: Length = UNBOUNDED
        if isinstance(plan, range):
            i, stop, step = plan.start, plan.stop, plan.step
        while i < stop:
            number, start = divmod(i, self._period)
            part = range(start, int(min(self._period, start + stop - i)), step)
            yield number, part
            i += len(part) * step

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return self._passes, *self._first

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Epochs(sources[0], self._passes, self._first)

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        step = 1 if self._passes is None else self._passes
        first = EpochPair(*(None if number is None else number * step for number in epoch)).after(self._first)
        return self if first == self._first else Epochs(self._sources[0], self._passes, first)

    def _arguments(self, sources: list[str]) -> list[str]:
        passes = [] if self._passes is None else [str(self._passes)]
        return [*sources, *passes, *[f"first={self._first.order}"] * (self._first != (0, 0))]
