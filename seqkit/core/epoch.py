"""`EpochPair`: the pass that a view reads, with one number for its orders, and one for its draws.

A selection by index keeps the orders below it: ``order[:8]`` has the same items in every epoch. Random
draws follow the epoch, such as the numbers of `random_map`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AS_IT_STANDS", "DRAWS", "ORDER", "EpochPair"]

# The bits of `View._varies`.
ORDER = 1  # another item stands at each position in each epoch
DRAWS = 2  # the items themselves differ from epoch to epoch

_BITS = 31


class EpochPair(NamedTuple):
    """An epoch for the orders of a view, and one for its draws. None: the epoch in which each stands.

    Examples
    --------
    >>> EpochPair(3, 3).kept, EpochPair(None, 5).after(EpochPair(3, 3))
    (EpochPair(order=None, draws=3), EpochPair(order=3, draws=5))
    """

    order: int | None
    draws: int | None

    @property
    def kept(self) -> EpochPair:
        """The same epoch below a selection, which keeps its orders."""
        return EpochPair(None, self.draws)

    def after(self, before: EpochPair) -> EpochPair:
        """Return the epoch of a view that was keyed for `before`, and then for this epoch."""
        return EpochPair(
            before.order if self.order is None else self.order,
            before.draws if self.draws is None else self.draws,
        )

    @property
    def number(self) -> int:
        """One int for both numbers, for the messages of workers. If both are e, it is e.

        >>> EpochPair(7, 7).number, EpochPair.of(EpochPair(2, 7).number)
        (7, EpochPair(order=2, draws=7))
        """
        order, draws = self
        if draws is None:
            return -1
        return draws if order == draws else -2 - ((0 if order is None else order + 1) << _BITS | draws)

    @classmethod
    def of(cls, number: int) -> EpochPair:
        """Return the epoch of a number."""
        if number >= -1:
            return AS_IT_STANDS if number < 0 else cls(number, number)
        order, draws = divmod(-2 - number, 1 << _BITS)
        return cls(order - 1 if order else None, draws)


AS_IT_STANDS = EpochPair(None, None)
