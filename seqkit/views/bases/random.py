"""`Random`: the base of views that draw random numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from ...core.indices import Length
from ...core.once import cached
from ...core.randomness import node_key
from ...core.view import View, walk

__all__ = ["Random", "is_reordered", "reorderings"]


class Random(View[Any]):
    """A view that is keyed by seed, epoch, and its name or the number of views like it below.

    ``_reorders``: it is an order, which changes which item stands where, rather than the items. The key of an
    order contains the number of orders below it. So two shuffles with one seed pair, whatever else lies below
    them. Other random views count all random views, so that the numbers of each are its own.
    """

    _reorders = False

    def __init__(
        self,
        sources: tuple[View[Any], ...],
        seed: int,
        epoch: int,
        name: str | int | None,
        n: Length | None = None,
    ) -> None:
        super().__init__(sources, n)
        below = self._order_count if self._reorders else self._random_count
        self._salt = below if name is None else name
        self._random_count += 1
        self._order_count += self._reorders
        self._varies = True
        self._seed = seed
        self._epoch = epoch
        self._given_name = name

    @cached
    def _key(self) -> int:
        return node_key(self._name, self._seed, self._epoch, self._salt)

    def _keyed(self, sources: tuple[View[Any], ...], epoch: int) -> View[Any]:
        if epoch == self._epoch and all(map(operator.is_, sources, self._sources)):
            return self
        keyed = self._rebuild(sources)
        assert isinstance(keyed, Random)
        keyed._epoch = epoch  # nothing has been drawn from it yet
        return keyed

    def _ordered(self, items: bool) -> tuple[Any, ...] | None:
        facts = super()._ordered(items)
        if facts is None and not items:
            return None  # the order is that of the source
        return self._seed, self._given_name, *[self._epoch] * items, *(facts or ())

    def _key_arguments(self) -> list[str]:
        """Return the arguments of `repr` that distinguish this view from others with the same sources."""
        return [f"seed={self._seed}", *[f"epoch={self._epoch}"] * (self._epoch > 0)]


def reorderings(
    view: View[Any], goes_below: Callable[[View[Any]], bool] = lambda view: True
) -> Iterator[Random]:
    """Return the views below, and the view, that put another item at each position in each epoch.

    `goes_below` is that of `walk`.
    """
    return (node for node in walk(view, goes_below) if isinstance(node, Random) and node._reorders)


def is_reordered(view: View[Any]) -> bool:
    """Does another item stand at each position in each epoch, because something below is shuffled?"""
    return next(reorderings(view), None) is not None
