"""`Random`: the base of views that draw random numbers."""

from __future__ import annotations

import operator
from copy import copy
from typing import Any, cast

from ...core.epoch import AS_IT_STANDS, DRAWS, ORDER, EpochPair, upwards
from ...core.lengths import Length
from ...core.once import cached
from ...core.randomness import node_key
from ...core.view import View

__all__ = ["Random", "named_below"]


class Random(View[Any]):
    """A view that is keyed by seed, epoch, and its name or the number of views like it below.

    An order has ``_varies = ORDER``: it changes which item stands where, rather than the items. The key of an
    order contains the number of orders below it. So two shuffles with one seed pair, whatever else lies below
    them. Other random views count all random views, so that the numbers of each are its own.
    """

    _varies = DRAWS

    def __init__(
        self,
        sources: tuple[View[Any], ...],
        seed: int,
        epoch: int,
        name: str | int | None,
        n: Length | None = None,
    ) -> None:
        super().__init__(sources, n)
        is_order = self._is_order()
        below = self._order_count if is_order else self._random_count
        self._salt = below if name is None else name
        self._random_count += 1
        self._order_count += is_order
        self._seed = seed
        self._epoch = epoch
        self._given_name = name

    @classmethod
    def _is_order(cls) -> bool:
        return bool(cls._varies & ORDER)

    @cached
    def _key(self) -> int:
        return node_key(self._name, self._seed, self._epoch, self._salt)

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        number = epoch.order if self._is_order() else epoch.draws
        number = self._epoch if number is None else number
        if number == self._epoch and all(map(operator.is_, sources, self._sources)):
            return self
        keyed = cast(Random, self._rebuild(sources))
        keyed._epoch = number  # nothing has been drawn from it yet
        return keyed

    def _ordered(self, items: bool) -> tuple[Any, ...] | None:
        return (self._seed, self._given_name, self._epoch) if items or self._is_order() else None

    def _key_arguments(self) -> list[str]:
        """Return the arguments of `repr` that distinguish this view from others with the same sources."""
        return [f"seed={self._seed}", *[f"epoch={self._epoch}"] * (self._epoch > 0)]


def named_below(view: View[Any], name: str) -> View[Any]:
    """Return the same expression, whose random numbers depend on a name as well.

    >>> import seqkit as sk
    >>> order = sk.shuffle(range(5), seed=0)
    >>> list(named_below(order, "web")) == list(order), named_below(order, "web")._salt
    (False, 'web/0')
    """
    found: dict[Any, View[Any]] = {}
    for node, key, below in upwards(view, lambda node: node._random_count > 0):
        found[key] = node
        if node._random_count:
            sources = tuple([found[source] for source in below])
            keyed = node._keyed(sources, AS_IT_STANDS)  # shares the workers of a node
            found[key] = _named(keyed if keyed is not node else node._rebuild(sources), name)
    return found[id(view), False]


def _named(view: View[Any], name: str) -> View[Any]:
    if not isinstance(view, Random) or not view._random_count:
        return view
    renamed = copy(view)
    renamed._given_name = f"{name}/{view._salt}"
    return renamed._rebuild(view._sources)  # without what the view has computed
