"""Chains of maps: which functions and sources one loop goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from ...core.indices import Indices, Plan
from ...core.view import View
from ..bases.side_by_side import SideBySide, Zip

__all__ = ["Chain", "Step", "joined"]

Step = tuple[int, Callable[[Any], Any]]  # the number of a layer, and a function of one argument


# The function of a map, the position of the argument that comes from the map below, and the number of other
# arguments.
Layer = tuple[Callable[..., Any], int, int]


class Chain(NamedTuple):
    """Maps that are computed in one loop, the innermost first.

    `inputs` holds the source of the innermost map, and the other sources of all maps.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[View[Any], ...]
    zip: Zip

    def base(self, who: str) -> View[Any]:
        """Return the view that the loop reads: the input, or rows of several inputs."""
        return self.inputs[0] if len(self.inputs) == 1 else Zipped(self.inputs, self.zip, who)

    def steps(self) -> tuple[Step, ...]:
        """Return the functions that make an item of an item of `base`, each with the number of its layer."""
        if len(self.inputs) == 1:
            return tuple((number, f) for number, (f, _, _) in enumerate(self.layers))
        if len(self.layers) == 1:
            f = self.layers[0][0]
            return ((0, lambda row: f(*row)),)
        steps, start = list[Step](), 1
        for number, (f, at, others) in enumerate(self.layers):
            steps.append((number, partial(_map_in_row, f, at, slice(start, start + others))))
            start += others
        return (*steps, (len(self.layers) - 1, itemgetter(0)))


def joined(f: Callable[..., Any], sources: tuple[View[Any], ...], zip: Zip) -> Chain:
    """Return the chain of a map. It extends the longest chain among its sources.

    Maps of several sequences with different `zip` are not joined: rows have only one rule for their length.
    """
    if len(sources) == 1:
        chain: Chain | None = getattr(sources[0], "_chain", None)
        parts: tuple[Any, ...] = (((f, 0, 0),), sources, zip)
        if chain is not None:
            parts = ((*chain.layers, (f, 0, 0)), chain.inputs, chain.zip)
        return tuple.__new__(Chain, parts)  # as `Chain(*parts)`, without a call of a function in Python
    below: list[Chain | None] = [getattr(source, "_chain", None) for source in sources]
    joinable = [c if c and (len(c.inputs) == 1 or c.zip == zip) else None for c in below]
    lengths = [len(c.layers) if c else 0 for c in joinable]
    at = lengths.index(max(lengths))
    others = sources[:at] + sources[at + 1 :]
    layer, chain = (f, at, len(others)), joinable[at]
    if chain is None:
        return Chain((layer,), (sources[at], *others), zip)
    return Chain((*chain.layers, layer), chain.inputs + others, zip)


def _map_in_row(f: Callable[..., Any], at: int, others: slice, row: list[Any]) -> list[Any]:
    """Replace the first part of a row by the result of a function of it and of other parts."""
    arguments = row[others]
    arguments.insert(at, row[0])
    row[0] = f(*arguments)
    return row


class Zipped(SideBySide):
    """Lists of item i of each source."""

    def _get(self, i: int) -> list[Any]:
        return self._row(i)

    def _getmany(self, indices: Indices) -> list[list[Any]]:
        return list(map(list, zip(*self._columns(indices), strict=True)))

    def _iter(self, plan: Plan) -> Iterator[list[Any]]:
        return self._rows(plan, list)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Zipped(sources, self._zip, self._who)
