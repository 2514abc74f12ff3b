"""`BySize`: the schedule of a mixture whose shares are sums of sizes, such as tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...core.indices import IndexArray, Indices, as_array, compact
from ...core.lengths import Length
from .shares import Shares

__all__ = ["BySize"]


class BySize:
    """The sequence at each index, and the index of the item there, made for all indices at once.

    The next item is from a sequence that has had no more than its share. Of those, it is the one whose next
    item completes its share first (worst-case fair queueing: Bennett and Zhang, 1996). So at every index the
    sum of the sizes of each sequence is within the largest size of its share.

    Parameters
    ----------
    shares : Shares
    sizes : sequence of arrays
        The sizes of the items of each sequence, above 0.
    key : int
        Breaks ties. 128 bits, see `randomness.node_key`.
    is_all : bool
        True: a sequence that has ended leaves. False: the schedule ends where a sequence has no further item.

    Examples
    --------
    >>> turns = BySize(Shares((0,), ((1, 1),)), [np.array([4, 4]), np.array([1] * 8)], key=0, is_all=True)
    >>> turns.which.tolist(), turns.before(4)
    ([1, 0, 1, 1, 1, 1, 0, 1, 1, 1], [1, 3])
    """

    def __init__(self, shares: Shares, sizes: Sequence[IndexArray], key: int, is_all: bool) -> None:
        which = np.array(_turns(shares, [each.tolist() for each in sizes], key, is_all), np.int64)
        ranks = np.empty(len(which), np.int64)
        for w in range(len(sizes)):
            here = np.flatnonzero(which == w)
            ranks[here] = np.arange(len(here))
        self._k = len(sizes)
        self.which = compact(which, len(sizes))
        self._ranks = compact(ranks, max(map(len, sizes)))

    def at(self, i: int) -> tuple[int, int]:
        return self.which.item(i), self._ranks.item(i)

    def many(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
        wanted = as_array(indices)
        return self.which[wanted].astype(np.int64), self._ranks[wanted].astype(np.int64)

    def before(self, i: int) -> list[int]:
        counts: list[int] = np.bincount(self.which[:i], minlength=self._k).tolist()
        return counts

    def each(self, start: int, stop: Length) -> Iterator[int]:
        return iter(self.which[start : int(min(stop, len(self.which)))].tolist())


def _turns(shares: Shares, sizes: list[list[int]], key: int, is_all: bool) -> list[int]:
    """Return the sequence of each turn."""
    ties = np.random.Philox(key=key).random_raw(len(sizes)).tolist()
    owed, had, found = [0.0] * len(sizes), [0] * len(sizes), list[int]()
    for _, stop, given in shares.stages():
        while len(found) < stop:
            left = [w for w, share in enumerate(given) if share and not (is_all and had[w] == len(sizes[w]))]
            if not left:
                break
            rates = [(w, given[w] / sum(given[v] for v in left)) for w in left]
            others = sum(owed[w] for w in left)  # owed to sequences without a turn
            for w, rate in rates:
                owed[w] -= others * rate
            has_ended = False
            while len(found) < stop and not has_ended:
                w, size = _next(rates, sizes, owed, had, ties)
                if not size:
                    return found
                for v, rate in rates:
                    owed[v] += size * rate
                owed[w] -= size
                had[w] += 1
                found.append(w)
                has_ended = is_all and had[w] == len(sizes[w])
    return found


def _next(
    rates: list[tuple[int, float]], sizes: list[list[int]], owed: list[float], had: list[int], ties: list[int]
) -> tuple[int, int]:
    """Return the sequence of the next turn, and the size of its item: 0 if it has no further one."""
    best, size, soonest = -1, 0, (math.inf, 0)
    for w, rate in rates:
        if owed[w] > -1e-6:  # they add up to 0, but for rounding
            own = sizes[w][had[w]] if had[w] < len(sizes[w]) else 0
            end = (own - owed[w]) / rate, ties[w]
            if end < soonest:
                best, size, soonest = w, own, end
    return best, size
