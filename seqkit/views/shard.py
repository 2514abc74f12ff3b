"""`shard`: one of several equal parts of a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..core.arguments import as_bool, int_at_least, positive_int
from ..core.expression import walk
from ..core.indices import IndexArray, Indices, Plan, as_array, select
from ..core.lengths import UNKNOWN, Length, needed_length, sized
from ..core.once import cached
from ..core.randomness import DrawnSeed
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.dealt import Dealt, Even
from .bases.random import Random
from .bases.selection import Selection

__all__ = ["Even", "Shard", "as_even", "as_rank", "as_unit", "shard"]


def shard(
    sequence: Indexable[T],
    rank: int,
    world_size: int,
    contiguous: bool = True,
    *,
    even: Even | None = None,
    global_batch: int | None = None,
) -> View[T]:
    """Return the view of part number `rank` of a sequence that is divided into `world_size` parts.

    Parameters
    ----------
    sequence : View or indexable
        With ``contiguous=False`` it may have no length: each process iterates all of it, and keeps its items.
    rank : int
        Number of the part, in ``[0, world_size)``.
    world_size : int
        Number of parts, 1 or more. If there are fewer items, some parts are empty.
    contiguous : bool
        True (the default): neighbouring items, one more in the first ``n % world_size`` parts. False: every
        `world_size`-th item, from item `rank` on.
    even : "pad" or "drop", optional
        Make all parts equally long: repeat the first items after the end of the sequence, or drop the last
        ones. None (the default): lengths differ by at most one.
    global_batch : int, optional
        Number of items that all parts together read in a step, a multiple of `world_size`. `even` then fills
        up the last step, or drops it, so that the steps are the same for any `world_size`. Needs
        ``contiguous=False`` and `even`.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `rank` or `world_size` is not an int, `contiguous` not a bool, or `sequence` cannot be indexed, or
        has no length and `contiguous` is True.
    ValueError
        If `rank` or `world_size` is out of range, or `even` is unknown. If `global_batch` is no multiple of
        `world_size`, or the other arguments do not allow it. If `world_size` is above 1, and an order below
        such as a `shuffle` has no seed: each process would draw another one.

    Notes
    -----
    No memory, one addition per access. Needs the length at once, unless that reads items. In each epoch the
    items that the sequence then has are divided. After ``shard`` of Gluon and tf.data. PyTorch's
    ``DistributedSampler`` is ``contiguous=False, even="pad"``. To shuffle across all parts, shuffle the
    sequence first, with the same seed for each part.

    Examples
    --------
    >>> [list(shard("abcdefg", rank, 3)) for rank in range(3)]
    [['a', 'b', 'c'], ['d', 'e'], ['f', 'g']]
    >>> [list(shard("abcdefg", rank, 3, contiguous=False, even="pad")) for rank in range(3)]
    [['a', 'd', 'g'], ['b', 'e', 'a'], ['c', 'f', 'b']]
    >>> [list(shard("abcdefg", rank, 2, False, even="pad", global_batch=4)) for rank in range(2)]
    [['a', 'c', 'e', 'g'], ['b', 'd', 'f', 'a']]
    """
    source = as_view(sequence, "shard")
    world_size = positive_int(world_size, "shard: world_size")
    rank = as_rank(rank, world_size, "shard", "world_size")
    contiguous = as_bool(contiguous, "shard: contiguous")
    even = as_even(even, "shard")
    unit = as_unit(global_batch, world_size, contiguous, even, "shard")
    if world_size > 1:
        orders = [node for node in walk(source) if isinstance(node, Random) and node._is_order()]
        refuse_drawn_seeds([(node._name, node._seed) for node in orders], "shard")
    if source._known is UNKNOWN and not contiguous:
        return Dealt(source, rank, world_size, even, unit)
    return sized(Shard(source, rank, world_size, contiguous, even, unit))


def refuse_drawn_seeds(seeds: Iterable[tuple[str, int]], who: str) -> None:
    """Raise ValueError for an order whose seed was drawn: each process would draw another one."""
    for name, seed in seeds:
        if isinstance(seed, DrawnSeed):
            raise ValueError(
                f"{who}: {name} below has no seed, so each process draws another order, and shares would"
                f" overlap and leave out items. Pass the same seed to {name} in all processes."
            )


class Shard(Selection):
    """The view that `shard` returns. In each epoch it divides the items that the sequence then has."""

    def __init__(
        self,
        source: View[Any],
        rank: int,
        world_size: int,
        contiguous: bool,
        even: Even | None,
        unit: int,
    ) -> None:
        super().__init__((source,))
        self._rank = rank
        self._world_size = world_size
        self._contiguous = contiguous
        self._even: Even | None = even
        self._unit = unit  # the parts together have a multiple of so many items, if they are even

    @cached
    def _part(self) -> range:
        """The positions of the items. After the last item of the sequence comes the first one again."""
        n = needed_length(self._sources[0], "shard")
        if self._even == "pad":
            n = -(-n // self._unit) * self._unit
        elif self._even == "drop":
            n -= n % self._unit
        return _part(n, self._rank, self._world_size, self._contiguous)

    def _length(self) -> Length:
        return len(self._part)

    def _where(self, i: int) -> int:
        return int(self._part[i] % self._sources[0]._n)

    def _many(self, indices: Indices) -> range | IndexArray:
        found, n = select(self._part, indices), self._sources[0]._n
        is_inside = isinstance(found, range) and (not found or max(found[0], found[-1]) < n)
        return found if is_inside else as_array(found) % int(n)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, range) and isinstance(found := self._many(plan), range):
            return self._sources[0]._iter(found)
        return super()._iter(plan)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        unit = [self._unit] * (self._unit != self._world_size)
        return self._world_size, self._contiguous, self._even, *unit, *[self._rank] * items

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Shard(sources[0], self._rank, self._world_size, self._contiguous, self._even, self._unit)

    def _arguments(self, sources: list[str]) -> list[str]:
        even = [] if self._even is None else [f"even={self._even!r}"]
        unit = [] if self._unit == self._world_size else [f"global_batch={self._unit}"]
        return [*sources, *map(str, (self._rank, self._world_size, self._contiguous)), *even, *unit]


def as_rank(rank: Any, count: int, who: str, name_of_count: str) -> int:
    """Return the number of one of several processes, checked.

    >>> as_rank(3, 3, "shard", "world_size")
    Traceback (most recent call last):
    ValueError: shard: rank must be below world_size 3, got 3
    """
    number = int_at_least(rank, f"{who}: rank", 0)
    if number >= count:
        raise ValueError(f"{who}: rank must be below {name_of_count} {count}, got {number}")
    return number


def as_even(even: Any, who: str) -> Even | None:
    """Return an argument `even`, checked.

    >>> as_even("pad", "shard")
    'pad'
    """
    if even not in (None, "pad", "drop"):
        raise ValueError(f"{who}: even must be 'pad', 'drop' or None, got {even!r}")
    return even  # type: ignore[no-any-return]


def as_unit(global_batch: Any, world_size: int, contiguous: bool, even: Even | None, who: str) -> int:
    """Return an argument `global_batch`, checked, or `world_size` for None.

    >>> as_unit(12, 8, False, "pad", "shard")
    Traceback (most recent call last):
    ValueError: shard: global_batch must be a multiple of the 8 parts, got 12
    """
    if global_batch is None:
        return world_size
    unit = positive_int(global_batch, f"{who}: global_batch")
    if contiguous or even is None:
        raise ValueError(
            f"{who}: global_batch needs contiguous=False and even='pad' or 'drop', got"
            f" contiguous={contiguous} and even={even!r}"
        )
    if unit % world_size:
        raise ValueError(f"{who}: global_batch must be a multiple of the {world_size} parts, got {unit}")
    return unit


def _part(n: int, rank: int, world_size: int, contiguous: bool) -> range:
    """Return the positions of the part."""
    if not contiguous:
        return range(rank, n, world_size)
    size, rest = divmod(n, world_size)
    start = rank * size + min(rank, rest)
    return range(start, start + size + (rank < rest))
