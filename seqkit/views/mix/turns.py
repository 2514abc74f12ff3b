"""The arithmetic of `mix`: which sequence each item comes from, and weights as small ints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...core.indices import Indices, Length, as_array
from ...core.once import cached
from ...core.plain import plain
from ...core.values import by_position

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Schedule", "as_shares"]

IntArray = npt.NDArray[np.int64]


class Schedule:
    """The schedule of a mixture: the sequence at each index, and the item of that sequence.

    A block of turns is made once and repeats. In a block, each item has a window of turns. If all items stay
    in their windows, each sequence is within one item of its share at every index. Giving each turn to the
    item whose open window closes first keeps all items in their windows (R. Tijdeman, The chairman assignment
    problem, 1980). Ties are broken at random. Afterwards, neighbours are exchanged at random if both stay in
    their windows.

    Parameters
    ----------
    shares : tuple of int
        Schedule of each sequence in a period, at least 1.
    key : int
        128 bits, see `randomness.node_key`.

    Examples
    --------
    >>> turns = Schedule((3, 1), key=0)
    >>> sorted(turns.at(i) for i in range(4)), turns.at(4 * 10**12 + 1)[1] >= 10**12
    ([(0, 0), (0, 1), (0, 2), (1, 0)], True)
    """

    LEAST = 1024  # in a shorter block, the repetition would be noticeable
    EXCHANGES = 32

    def __init__(self, shares: tuple[int, ...], key: int) -> None:
        self.shares = shares
        self.key = key
        self._period = sum(shares)
        self._repeats = -(-self.LEAST // self._period)
        self.block = self._period * self._repeats
        self._quotas = np.array(shares, np.int64) * self._repeats  # turns in a block

    def __reduce__(self) -> tuple[Any, ...]:
        return Schedule, (self.shares, self.key)  # without the table

    def at(self, i: int) -> tuple[int, int]:
        """Return the sequence at index `i`, and the index of the item there."""
        which, ranks = self._table
        number, place = divmod(i, self.block)
        w = which.item(place)
        return w, number * self.shares[w] * self._repeats + ranks.item(place)

    def many(self, indices: Indices) -> tuple[IntArray, IntArray]:
        """Return the sequences at some indices, and the indices of the items there."""
        which, ranks = self._table
        numbers, places = np.divmod(as_array(indices).astype(np.int64, copy=False), self.block)
        w = which[places].astype(np.int64)
        return w, numbers * self._quotas[w] + ranks[places]

    def before(self, i: int) -> list[int]:
        """Return the number of items of each sequence before index `i`."""
        number, place = divmod(i, self.block)
        counts = np.bincount(self._table[0][:place], minlength=len(self.shares))
        return [number * int(q) + int(c) for q, c in zip(self._quotas, counts, strict=True)]

    def each(self, start: int, stop: Length) -> Iterator[int]:
        """Yield the sequence at each index from `start` to `stop`."""
        for number in count(start // self.block):
            first = number * self.block
            if first >= stop:
                return
            yield from self._table[0][max(start - first, 0) : int(min(stop - first, self.block))].tolist()

    @cached
    def _table(self) -> tuple[npt.NDArray[Any], IntArray]:
        """For each turn of a block, the sequence, and the number of its item in the block."""
        random = np.random.Philox(key=self.key)
        which, ranks = self._scheduled(random)
        for number in range(self.EXCHANGES):
            self._exchange(which, ranks, number % 2, random)
        return which.astype(np.min_scalar_type(len(self.shares))), ranks

    def _scheduled(self, random: np.random.Philox) -> tuple[IntArray, IntArray]:
        shares = np.array(self.shares, np.int64)
        which = np.repeat(np.arange(len(shares)), self._quotas)
        ranks = np.concatenate([np.arange(quota) for quota in self._quotas])
        # No share is missed by more than 1 - 1 / slack. For one sequence any slack works.
        slack = max(2 * len(shares) - 2, 2)
        opens = -(-(ranks * slack + 1) * self._period // (slack * shares[which])) - 1
        closes = ((ranks + 1) * slack - 1) * self._period // (slack * shares[which])
        ties = random.random_raw(self.block)
        waiting, order = iter(np.argsort(opens, kind="stable").tolist()), []
        queue: list[tuple[int, int, int]] = []
        ahead = next(waiting)
        for turn in range(self.block):
            while ahead >= 0 and opens[ahead] <= turn:
                heappush(queue, (int(closes[ahead]), int(ties[ahead]), ahead))
                ahead = next(waiting, -1)
            order.append(heappop(queue)[2])
        return which[order], ranks[order]

    def _exchange(self, which: IntArray, ranks: IntArray, odd: int, random: np.random.Philox) -> None:
        """Exchange random pairs of neighbouring turns if both items stay in their windows."""
        first = np.arange(odd, self.block - 1, 2)
        second = first + 1
        raw = random.random_raw(-(-len(first) // 64)).astype("<u8")
        chance = np.unpackbits(raw.view(np.uint8))[: len(first)].astype(bool)
        shares = np.array(self.shares, np.int64)
        late = (ranks[first] + 1) * self._period > shares[which[first]] * second
        early = ranks[second] * self._period < shares[which[second]] * second
        swap = chance & late & early & (which[first] != which[second])
        a, b = first[swap], second[swap]
        for column in (which, ranks):
            column[a], column[b] = column[b], column[a]


MOST_SHARES = 1 << 16  # in all, for weights that are met exactly
MOST_ROUNDED = 1 << 14


def as_shares(k: int, weights: Iterable[float] | None) -> tuple[int, ...]:
    """Return weights as small ints: the number of turns of each sequence in a period."""
    if weights is None:
        return (1,) * k
    whole: list[Any] = list(by_position(weights, "mix: weights", "a number for each sequence"))
    if not {int}.issuperset(map(type, whole)) or min(whole, default=1) <= 0:
        exact = [_weight(weight) for weight in whole]
        factor = math.lcm(*(weight.denominator for weight in exact))
        whole = [int(weight * factor) for weight in exact]
    if len(whole) != k:
        raise ValueError(f"mix: weights must be as many as the sequences, {k}, got {len(whole)}")
    divisor = math.gcd(*whole)
    shares = tuple([number // divisor for number in whole])
    return shares if sum(shares) <= MOST_SHARES else _rounded(shares)


def _weight(weight: Any) -> Fraction:
    from fractions import Fraction  # not when seqkit is imported: it loads `decimal`

    value = plain(weight)
    try:
        # By its decimal notation: the float 0.1 means a tenth, not the nearest binary fraction.
        exact = Fraction(_notation(weight))
    except ValueError:
        kind = ValueError if isinstance(value, float) else TypeError
        raise kind(f"mix: a weight must be a number above 0, got {weight!r}") from None
    if isinstance(value, str | bool) or exact <= 0:
        kind = TypeError if isinstance(value, str | bool) else ValueError
        raise kind(f"mix: a weight must be a number above 0, got {weight!r}")
    return exact


def _notation(weight: Any) -> str:
    """Return the decimal notation of a number, the shortest one for its precision."""
    value = plain(weight)
    if isinstance(value, float) and not isinstance(weight, float | np.generic) and np.float32(value) == value:
        return str(np.float32(value))  # of a tensor of 32 bits
    return str(weight if isinstance(weight, np.generic) else value)


def _rounded(exact: Sequence[int]) -> tuple[int, ...]:
    """Return the small ints whose ratios are nearest to the ratios of the weights."""
    total, smallest = sum(exact), min(exact)
    if smallest * MOST_ROUNDED < total:
        raise ValueError(
            f"mix: a weight must be at least one in {MOST_ROUNDED} of their sum,"
            f" got one in {total // smallest}"
        )
    wanted = np.array([float(weight / total) for weight in exact])
    best, least = wanted, math.inf
    for start in range(1, MOST_ROUNDED + 1, 1024):
        periods = np.arange(start, start + 1024)
        shares = np.rint(np.multiply.outer(periods, wanted))
        errors = np.abs(shares / shares.sum(axis=1, keepdims=True).clip(1) / wanted - 1).max(axis=1)
        errors[(shares < 1).any(axis=1)] = math.inf
        nearest = int(errors.argmin())
        if errors[nearest] < least:
            best, least = shares[nearest], float(errors[nearest])
    return tuple(int(share) for share in best)
