"""`shuffle`: a random order that needs no memory and can be indexed."""

from __future__ import annotations

from typing import Any

from ..core.arguments import int_at_least
from ..core.epoch import ORDER
from ..core.indices import Indices
from ..core.lengths import Length, needed_length, sized
from ..core.once import cached
from ..core.randomness import Permutation, as_name, as_seed
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.random import Random
from .bases.selection import Selection

__all__ = ["Shuffle", "shuffle"]


def shuffle(
    sequence: Indexable[T],
    seed: int | None = None,
    epoch: int = 0,
    *,
    name: str | None = None,
) -> View[T]:
    """Return the view of the items of a sequence in random order.

    Each item occurs once. The order is a pure function of (seed, epoch) and the number of orders below, which
    are other shuffles, `shuffle_groups` and `mix`. So images and labels that are shuffled with one seed pair.

    Parameters
    ----------
    sequence : View or indexable
        Of known length, below 2**63.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.
    epoch : int
        Number of the pass, 0 or more. Each epoch has another order. See `View.at_epoch`.
    name : str, optional
        Salts the seed. None (the default) uses the number of orders below this one, so that a shuffle of a
        shuffle with the same seed differs from it.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, `seed` or `epoch` is not an int, or `name` not a
        str.
    ValueError
        If `seed` or `epoch` is negative, or the sequence is too long.

    Notes
    -----
    No memory from 65,536 items on, and a table below. About 2 µs per scattered access, about ten
    nanoseconds per consecutive index. After Grain's index shuffle.

    Examples
    --------
    >>> order = shuffle(range(10), seed=0)
    >>> list(order), order[3]
    ([9, 7, 3, 0, 6, 5, 8, 1, 4, 2], 0)
    >>> list(order.at_epoch(1))
    [6, 9, 0, 8, 5, 2, 7, 4, 1, 3]
    >>> shuffle(range(10**12), seed=0)[5]  # needs no table
    797031384952
    """
    return sized(
        Shuffle(
            as_view(sequence, "shuffle"),
            as_seed(seed, "shuffle: seed"),
            int_at_least(epoch, "shuffle: epoch", 0),
            as_name(name, "shuffle: name"),
        )
    )


class Shuffle(Selection, Random):
    """The view that `shuffle` returns."""

    _varies = ORDER

    def __init__(self, source: View[Any], seed: int, epoch: int, name: str | int | None) -> None:
        Random.__init__(self, (source,), seed, epoch, name)

    def _length(self) -> Length:
        n = needed_length(self._sources[0], "shuffle")
        if n >= 1 << 63:
            raise ValueError(f"shuffle: the sequence must be shorter than 2**63, got {n} items")
        return n

    @cached
    def _permutation(self) -> Permutation:
        return Permutation(len(self), self._key)

    def _where(self, i: int) -> int:
        return self._permutation.one(i)

    def _many(self, indices: Indices) -> Indices:
        return self._permutation.many(indices)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Shuffle(sources[0], self._seed, self._epoch, self._given_name)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, *self._key_arguments()]
