"""`mix`: several sequences in given proportions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_sequences
from ..core.epoch import ORDER
from ..core.indices import Endless, Indices, Plan, as_array
from ..core.lengths import UNBOUNDED, UNKNOWN, Length, Unsized, is_measured, sized
from ..core.once import cached
from ..core.plain import plain
from ..core.randomness import as_name, as_seed
from ..core.source import as_view
from ..core.values import by_position
from ..core.view import Indexable, T, View
from .bases.one_of_several import IntArray, OneOfSeveral
from .bases.random import Random
from .epochs import Epochs

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Mix", "Schedule", "mix"]

Stop = Literal["first", "last", "cycle"]


def mix(
    sequences: Iterable[Indexable[T]],
    weights: Iterable[float] | None = None,
    seed: int | None = None,
    *,
    stop: Stop = "first",
    name: str | None = None,
) -> View[T]:
    """Return the view of the items of several sequences, mixed in given proportions.

    Each sequence is read in its own order. The sequence at an index is a pure function of the weights and of
    (seed, epoch, view, index). Up to any index, each sequence has had its share of the items, rounded up or
    down.

    Parameters
    ----------
    sequences : iterable of View or indexable
        At least one, each of known length or unbounded.
    weights : iterable of float, optional
        A number above 0 for each sequence, its share relative to the sum. None (the default): equal shares.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.
    stop : "first", "last" or "cycle"
        End when the first sequence has no further item (default). Or end when the last one has none, or
        never: the other sequences then start again, keyed for their next epoch.
    name : str, optional
        Salts the seed. None (the default) uses the number of orders below this one. See `shuffle`.

    Returns
    -------
    View
        For lengths n and shares w, its length is ``min(floor(n / w))`` with ``"first"`` and ``max(ceil(n /
        w))`` with ``"last"``. Unbounded with ``"cycle"``, or if no relevant sequence ends.

    Raises
    ------
    TypeError
        If `sequences` is not an iterable or is a mapping, if a sequence cannot be indexed or has an unknown
        length, or if an argument has the wrong type.
    ValueError
        Without a sequence, if the number of weights is wrong, if a weight is not above 0 or too small, if an
        empty sequence would have to start again, or if `seed` is negative or `stop` unknown.

    Notes
    -----
    One table lookup per access. The table is made at the first read. It has 1024 to 65,536
    entries and repeats. Weights that need a longer table are rounded to multiples of 1/16,384 of their sum.
    ``stop="last"`` needs the lengths at once. After ``mix`` of Grain; known elsewhere as
    ``interleave_datasets``, ``sample_from_datasets``.

    Examples
    --------
    >>> both = mix(["abcdef", "xy"], weights=[3, 1], seed=0)
    >>> len(both), sorted(both[:4]), sorted(both[4:])
    (8, ['a', 'b', 'c', 'x'], ['d', 'e', 'f', 'y'])
    >>> len(mix(["abcdef", "xy"], weights=[1, 1], seed=0, stop="last"))
    12
    """
    check_sequences(sequences, "mix: sequences")
    sources = tuple([as_view(s, "mix") for s in sequences])
    if not sources:
        raise ValueError("mix: at least one sequence is needed, got none")
    if stop not in ("first", "last", "cycle"):
        raise ValueError(f"mix: stop must be 'first', 'last' or 'cycle', got {stop!r}")
    shares = as_shares(len(sources), weights)
    most, sources = _starting_anew(sources, shares, stop)
    return sized(Mix(sources, shares, most, as_seed(seed, "mix: seed"), 0, as_name(name, "mix: name")))


def _starting_anew(
    sources: tuple[View[Any], ...], shares: Sequence[int], stop: Stop
) -> tuple[Length, tuple[View[Any], ...]]:
    """Return the greatest length of a mixture, and its sequences: `epochs` of those that start again."""
    if stop == "first":
        return UNBOUNDED, sources
    known = [source._n for source in sources if stop == "last" or is_measured(source)]
    if stop == "last" and not any(known):
        return UNBOUNDED, sources
    if not all(known):
        raise ValueError(f"mix: an empty sequence cannot start again, as stop={stop!r} requires")
    if stop == "cycle" or any(isinstance(n, Unsized) for n in known):
        ends = [not (is_measured(source) and isinstance(source._n, Unsized)) for source in sources]
        return UNBOUNDED, tuple(Epochs(s, None) if end else s for s, end in zip(sources, ends, strict=True))
    period = sum(shares)
    most = max(-(-len(s) * period // share) for s, share in zip(sources, shares, strict=True))
    drawn = [-(-most * share // period) for share in shares]
    passes = [-(-number // len(s)) for number, s in zip(drawn, sources, strict=True)]
    return most, tuple(s if p <= 1 else Epochs(s, p) for s, p in zip(sources, passes, strict=True))


class Mix(OneOfSeveral, Random):
    """The view that `mix` returns."""

    _varies = ORDER

    def __init__(
        self,
        sources: tuple[View[Any], ...],
        shares: tuple[int, ...],
        most: Length,
        seed: int,
        epoch: int,
        name: str | int | None,
    ) -> None:
        Random.__init__(self, sources, seed, epoch, name)
        self._most = most
        self._shares = shares

    def _length(self) -> Length:
        period, ends = sum(self._shares), [self._most]
        for source, share in zip(self._sources, self._shares, strict=True):
            if source._n is UNKNOWN:
                raise TypeError(
                    f"mix: each sequence must have a length or be unbounded, got {source!r}: {UNKNOWN.reason}"
                )
            if not isinstance(source._n, Unsized):
                ends.append(source._n * period // share)
        return min(ends)

    @cached
    def _turns(self) -> Schedule:
        return Schedule(self._shares, self._key)

    def _place(self, i: int) -> tuple[int, int]:
        return self._turns.at(i)

    def _places(self, indices: Indices) -> tuple[IntArray, IntArray]:
        return self._turns.many(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        turns = self._turns
        if isinstance(plan, Endless):
            return self._in_turn(plan, turns.each(0, UNBOUNDED), [s._plan() for s in self._sources])
        if isinstance(plan, range) and plan.step == 1:
            shares = [*map(range, turns.before(plan.start), turns.before(plan.stop))]
            return self._in_turn(plan, turns.each(plan.start, plan.stop), shares)
        return super()._iter(plan)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return *(super()._ordered(items) or ()), self._shares, self._most

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Mix(sources, self._shares, self._most, self._seed, self._epoch, self._given_name)

    def _arguments(self, sources: list[str]) -> list[str]:
        shares = list(self._shares[:5])
        weights = "[" + ", ".join([*map(str, shares), *["…"] * (len(self._shares) > 5)]) + "]"
        return ["[" + ", ".join(sources) + "]", f"weights={weights}", *self._key_arguments()]


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
    """Return weights as small ints: the number of turns of each sequence in a period.

    A share within a millionth of a simple fraction is that fraction, so 0.1 of 1 is a tenth. If the period is
    too long, shares are rounded.

    >>> as_shares(3, [0.1, 0.2, 0.7]), as_shares(2, [1 / 3, 2 / 3]), as_shares(3, [1, 2**0.5, 3**0.5])
    ((1, 2, 7), (1, 2), (3952, 5588, 6844))
    """
    if weights is None:
        return (1,) * k
    given = [_weight(weight) for weight in by_position(weights, "mix: weights", "a number for each sequence")]
    if len(given) != k:
        raise ValueError(f"mix: weights must be as many as the sequences, {k}, got {len(given)}")
    total = sum(given)
    exact = [weight / total for weight in given]
    simple = [share.limit_denominator(MOST_SHARES) for share in exact]
    period = math.lcm(*(share.denominator for share in simple))
    is_met = all(abs(s - share) * 10**6 <= share for s, share in zip(simple, exact, strict=True))
    if not is_met or period > MOST_SHARES:
        period = MOST_ROUNDED
        if min(exact) * period < 1:
            raise ValueError(
                f"mix: a weight must be at least one in {period} of their sum, got one in"
                f" {round(1 / min(exact))}"
            )
    return tuple([round(share * period) for share in exact])


def _weight(weight: Any) -> Fraction:
    from fractions import Fraction  # not when seqkit is imported: it loads `decimal`

    value = plain(weight)
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError):
        exact = Fraction(0)  # no number, or infinite
    except TypeError:
        value = None
    if value is None or isinstance(value, str | bool):
        raise TypeError(f"mix: a weight must be a number above 0, got {weight!r}")
    if exact <= 0:
        raise ValueError(f"mix: a weight must be a number above 0, got {weight!r}")
    return exact
