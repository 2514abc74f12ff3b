"""`Schedule`: the sequence at each index of a mixture, and the item of that sequence."""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.indices import IndexArray, Indices, as_array
from ...core.lengths import UNBOUNDED, Length, Unsized
from ...core.once import cached
from .shares import Shares

__all__ = ["Schedule", "Stages", "in_stages"]


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
        Turns of each sequence in a period, at least 0.
    key : int
        128 bits, see `randomness.node_key`.
    lead : tuple of Fraction
        How many items more than its share each sequence has had before the schedule begins, above -1 and
        below 1. () (the default) is 0 for all.

    Examples
    --------
    >>> turns = Schedule((3, 1), key=0)
    >>> sorted(turns.at(i) for i in range(4)), turns.at(4 * 10**12 + 1)[1] >= 10**12
    ([(0, 0), (0, 1), (0, 2), (1, 0)], True)
    """

    LEAST = 1024  # in a shorter block, the repetition would be noticeable
    EXCHANGES = 32

    def __init__(self, shares: tuple[int, ...], key: int, lead: tuple[Fraction, ...] = ()) -> None:
        self.shares = shares
        self.key = key
        self.lead = lead
        self._period = sum(shares)
        self._repeats = -(-self.LEAST // self._period)
        self.block = self._period * self._repeats
        self._quotas = np.array(shares, np.int64) * self._repeats  # turns in a block

    def __reduce__(self) -> tuple[Any, ...]:
        return Schedule, (self.shares, self.key, self.lead)  # without the table

    def at(self, i: int) -> tuple[int, int]:
        """Return the sequence at index `i`, and the index of the item there."""
        which, ranks = self._table
        number, place = divmod(i, self.block)
        w = which.item(place)
        return w, number * self.shares[w] * self._repeats + ranks.item(place)

    def many(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
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

    def after(self, which: int, j: int) -> int:
        """Return the index after item `j` of a sequence."""
        number, rank = divmod(j, int(self._quotas[which]))
        return number * self.block + int(np.flatnonzero(self._table[0] == which)[rank]) + 1

    def each(self, start: int, stop: Length) -> Iterator[int]:
        """Yield the sequence at each index from `start` to `stop`."""
        for number in count(start // self.block):
            first = number * self.block
            if first >= stop:
                return
            yield from self._table[0][max(start - first, 0) : int(min(stop - first, self.block))].tolist()

    @cached
    def _table(self) -> tuple[npt.NDArray[Any], IndexArray]:
        """For each turn of a block, the sequence, and the number of its item in the block."""
        random = np.random.Philox(key=self.key)
        which = np.repeat(np.arange(len(self.shares)), self._quotas)
        ranks = np.concatenate([np.arange(quota) for quota in self._quotas])
        window = self._widest(which, ranks)
        order = self._scheduled(*(window if self.lead else self._narrower(which, ranks)), random)
        for number in range(self.EXCHANGES):
            self._exchange(order, which, *window, number % 2, random)
        return which[order].astype(np.min_scalar_type(len(self.shares))), ranks[order]

    def _widest(self, which: IndexArray, ranks: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Return the first and the last turn of each item. In between, no share is missed by one item."""
        unit = math.lcm(*(lead.denominator for lead in self.lead))
        kind = object if self.lead else np.int64  # ints of Python may be as large as they need
        lead = np.array([int(lead * unit) for lead in self.lead] or [0] * len(self.shares), kind)[which]
        scaled, shares = ranks.astype(kind) * unit + lead, np.array(self.shares, kind)[which] * unit
        first, last = scaled * self._period // shares, -(-(scaled + unit) * self._period // shares) - 1
        return first.astype(np.int64), last.astype(np.int64)

    def _narrower(self, which: IndexArray, ranks: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Return windows in which no share is missed by more than 1 - 1 / slack."""
        shares = np.array(self.shares, np.int64)[which]
        slack = max(2 * len(self.shares) - 2, 2)  # for one sequence any slack works
        opens = -(-(ranks * slack + 1) * self._period // (slack * shares)) - 1
        return opens, ((ranks + 1) * slack - 1) * self._period // (slack * shares)

    def _scheduled(self, opens: IndexArray, closes: IndexArray, random: np.random.Philox) -> IndexArray:
        """Return the item of each turn."""
        ties = random.random_raw(self.block)
        waiting, order = iter(np.argsort(opens, kind="stable").tolist()), []
        queue: list[tuple[int, int, int]] = []
        ahead = next(waiting)
        for turn in range(self.block):
            while ahead >= 0 and opens[ahead] <= turn:
                heappush(queue, (int(closes[ahead]), int(ties[ahead]), ahead))
                ahead = next(waiting, -1)
            order.append(heappop(queue)[2])
        return np.array(order)

    def _exchange(
        self,
        order: IndexArray,
        which: IndexArray,
        opens: IndexArray,
        closes: IndexArray,
        odd: int,
        random: np.random.Philox,
    ) -> None:
        """Exchange random pairs of neighbouring turns if both items stay in their windows."""
        turns = np.arange(odd, self.block - 1, 2)
        raw = random.random_raw(-(-len(turns) // 64)).astype("<u8")
        chance = np.unpackbits(raw.view(np.uint8))[: len(turns)].astype(bool)
        first, second = order[turns], order[turns + 1]
        fits = (closes[first] > turns) & (opens[second] <= turns) & (which[first] != which[second])
        swap = turns[chance & fits]
        order[swap], order[swap + 1] = order[swap + 1], order[swap]


class Stages:
    """Schedules one after the other. Each sequence goes on where it was.

    >>> stages = in_stages(Shares((0, 3), ((1, 0), (0, 1))), key=0)
    >>> [stages.at(i) for i in range(5)], stages.before(5), list(stages.each(2, 4))
    ([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)], [3, 2], [0, 1])
    """

    def __init__(self, k: int) -> None:
        self._schedules: list[Schedule] = []
        self.starts: list[int] = []
        self._had: list[IndexArray] = []  # the items of each sequence before each schedule
        self._k = k

    def append(self, schedule: Schedule, start: int) -> None:
        self._had.append(np.array(self.before(start), np.int64))
        self._schedules.append(schedule)
        self.starts.append(start)

    def _stage(self, i: int) -> int:
        return max(bisect_right(self.starts, i) - 1, 0)

    def at(self, i: int) -> tuple[int, int]:
        number = self._stage(i)
        which, j = self._schedules[number].at(i - self.starts[number])
        return which, j + int(self._had[number][which])

    def many(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
        wanted = as_array(indices).astype(np.int64, copy=False)
        numbers = np.searchsorted(self.starts, wanted, "right") - 1
        which, ranks = np.empty_like(wanted), np.empty_like(wanted)
        for number in np.unique(numbers).tolist():
            here = numbers == number
            found, local = self._schedules[number].many(wanted[here] - self.starts[number])
            which[here], ranks[here] = found, local + self._had[number][found]
        return which, ranks

    def before(self, i: int) -> list[int]:
        if not self._schedules:
            return [0] * self._k
        number = self._stage(i)
        counts = self._schedules[number].before(i - self.starts[number])
        return [int(had) + n for had, n in zip(self._had[number], counts, strict=True)]

    def each(self, start: int, stop: Length) -> Iterator[int]:
        ends: list[Length] = [*self.starts[1:], UNBOUNDED]
        for schedule, first, end in zip(self._schedules, self.starts, ends, strict=False):
            last = min(stop, end)
            own = UNBOUNDED if isinstance(last, float) else last - first
            yield from schedule.each(max(start - first, 0), own)


def in_stages(shares: Shares, key: int, lengths: Sequence[Length] = ()) -> Stages:
    """Return the schedule of shares that change. With lengths, a sequence that has ended has no further turn.

    The shares of all stages together are met within one item. Where a sequence ends, they count from 0 again.
    """
    k, position = len(shares.shares[0]), 0
    found, ideal = Stages(k), [Fraction(0)] * k
    ends = [*lengths] or [UNBOUNDED] * k
    for _, stop, given in shares.stages():
        while position < stop:
            had = found.before(position)
            left = tuple([share * (n < end) for share, n, end in zip(given, had, ends, strict=True)])
            if not any(left):
                break
            lead = tuple(map(operator.sub, had, ideal))
            schedule = Schedule(left, key ^ len(found.starts), lead if any(lead) else ())
            found.append(schedule, position)
            finite = [w for w in range(k) if left[w] and not isinstance(ends[w], Unsized)]
            last = min([stop, *(position + schedule.after(w, int(ends[w]) - had[w] - 1) for w in finite)])
            if isinstance(last, Unsized):
                break
            if last < stop:
                ideal = [*map(Fraction, found.before(last))]
            else:
                due = [Fraction((last - position) * share, sum(left)) for share in left]
                ideal = [*map(operator.add, ideal, due)]
            position = last
    return found
