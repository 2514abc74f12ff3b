"""`mix`: several sequences in given proportions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ..checks import check_sequences
from ..indices import (
    UNBOUNDED,
    UNKNOWN,
    Endless,
    Indices,
    Length,
    Plan,
    Selected,
    Unsized,
    as_array,
    each,
)
from ..randomness import as_name, as_seed, node_key
from ..source import as_view
from ..view import Indexable, T, View, in_order
from .epochs import epochs
from .grouped import iterate_in_turn, read_grouped

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Mix", "Turns", "mix"]

Stop = Literal["first", "last", "cycle"]
IntArray = npt.NDArray[np.int64]


@overload
def mix(
    sequences: Iterable[Indexable[T]],
    weights: Iterable[float] | None = None,
    seed: int | None = None,
    *,
    stop: Stop = "first",
    name: str | None = None,
) -> View[T]: ...
@overload
def mix(
    sequences: Iterable[Indexable[Any]],
    weights: Iterable[float] | None = None,
    seed: int | None = None,
    *,
    stop: Stop = "first",
    name: str | None = None,
) -> View[Any]: ...
def mix(
    sequences: Iterable[Indexable[Any]],
    weights: Iterable[float] | None = None,
    seed: int | None = None,
    *,
    stop: Stop = "first",
    name: str | None = None,
) -> View[Any]:
    """Return the view of the items of several sequences, mixed in given proportions.

    Each sequence is read in its own order. Whose turn it is at an index is a pure function of (seed, epoch,
    node, index) and of the weights; up to any index, every sequence has had its share of the turns, rounded
    up or down.

    Parameters
    ----------
    sequences : iterable of View or indexable
        At least one; of known length, or unbounded.
    weights : iterable of float, optional
        A number above 0 for each sequence: its share is this by the sum of all. None (the default): equal
        shares.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.
    stop : "first", "last" or "cycle"
        Ends with the first sequence that has no item left for its turn (default); or with the last, the
        others starting anew, keyed for their next epoch; or never, all of them starting anew.
    name : str, optional
        Salts the seed in place of the number of random nodes beneath.

    Returns
    -------
    View
        With lengths n and shares w, of length ``min(floor(n / w))`` for ``"first"``, ``max(ceil(n / w))`` for
        ``"last"``; unbounded for ``"cycle"``, and where no sequence ends that would have to.

    Raises
    ------
    TypeError
        If `sequences` is no iterable, or a mapping; if a sequence cannot be indexed, or ends nobody knows
        where; if a weight is no number, `seed` no int, or `name` no str.
    ValueError
        Without a sequence; if weights are not as many, not above 0, or too unequal; if an empty sequence
        would have to start anew; if `seed` is negative or `stop` unknown.

    Notes
    -----
    One table lookup more per access. The table is made at the first read, has 1024 to 65,536 turns, and
    repeats. Weights whose ratio needs larger numbers are replaced by the nearest that do with 16,384. After
    ``mix`` of Grain; known elsewhere as ``interleave_datasets``, ``sample_from_datasets``.

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
    for source in sources:
        if source._n is UNKNOWN:
            raise TypeError(
                f"mix: a sequence must have a length or be unbounded, of {source!r} {UNKNOWN.reason}"
            )
    if stop not in ("first", "last", "cycle"):
        raise ValueError(f"mix: stop must be 'first', 'last' or 'cycle', got {stop!r}")
    shares = _shares(len(sources), weights)
    most, sources = _starting_anew(sources, shares, stop)
    return Mix(sources, shares, most, as_seed(seed, "mix: seed"), 0, as_name(name, "mix: name"))


def _starting_anew(
    sources: tuple[View[Any], ...], shares: Sequence[int], stop: Stop
) -> tuple[Length, tuple[View[Any], ...]]:
    """Return how long a mixture may be, and its sequences: those that start anew as `epochs`."""
    if stop == "first":
        return UNBOUNDED, sources
    lengths = [source._n for source in sources]
    if stop == "last" and not any(lengths):
        return UNBOUNDED, sources
    if not all(lengths):
        raise ValueError(f"mix: an empty sequence cannot start anew, as stop={stop!r} asks for")
    if stop == "cycle" or any(isinstance(n, Unsized) for n in lengths):
        return UNBOUNDED, tuple(s if isinstance(s._n, Unsized) else epochs(s) for s in sources)
    period = sum(shares)
    most = max(-(-len(s) * period // share) for s, share in zip(sources, shares, strict=True))
    drawn = [-(-most * share // period) for share in shares]
    passes = [-(-number // len(s)) for number, s in zip(drawn, sources, strict=True)]
    return most, tuple(s if p <= 1 else epochs(s, p) for s, p in zip(sources, passes, strict=True))


def _first_end(sources: Sequence[View[Any]], shares: Sequence[int]) -> Length:
    """Return how long a mixture is whose sequences do not start anew."""
    period = sum(shares)
    ends: list[Length] = [UNBOUNDED]
    for source, share in zip(sources, shares, strict=True):
        if not isinstance(source._n, Unsized):
            ends.append(source._n * period // share)
    return min(ends)


# -------------------------------------------------------------------- weights

MOST_SHARES = 1 << 16  # in all, for weights that are met exactly
MOST_ROUNDED = 1 << 14


def _shares(k: int, weights: Iterable[float] | None) -> tuple[int, ...]:
    """Return weights as small ints: how many turns each sequence has in a period."""
    if weights is None:
        return (1,) * k
    if type(weights) is not list and not isinstance(weights, Iterable):
        raise TypeError(f"mix: weights must be a number for each sequence, got {weights!r}")
    whole: list[Any] = list(in_order(weights))
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
    from fractions import Fraction  # not with seqkit: it loads `decimal`

    try:
        # As it is written: the float 0.1 stands for a tenth, not for the binary fraction next to it.
        exact = Fraction(str(weight))
    except ValueError:
        kind = ValueError if isinstance(weight, float | np.floating) else TypeError
        raise kind(f"mix: a weight must be a number above 0, got {weight!r}") from None
    if isinstance(weight, str | bool) or exact <= 0:
        kind = TypeError if isinstance(weight, str | bool) else ValueError
        raise kind(f"mix: a weight must be a number above 0, got {weight!r}")
    return exact


def _rounded(exact: Sequence[int]) -> tuple[int, ...]:
    """Return the small ints whose ratios are nearest to those of the weights."""
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


# -------------------------------------------------------------------- whose turn it is


class Turns:
    """Which of several sequences has the turn at any index, and for which of its items.

    A block of turns is made once and repeats. In it, item j of a sequence with share w has a window of turns
    in which its coming keeps the sequence within one item of its share at every index; so have all items of
    all sequences if each turn goes to that item, of those whose window is open, whose window closes first
    (R. Tijdeman, The chairman assignment problem, 1980). Which of several that close together, and which
    neighbours can be exchanged afterwards without leaving their windows, is drawn at random.

    Parameters
    ----------
    shares : tuple of int
        Turns of each sequence in a period, at least 1.
    key : int
        128 bits, see `randomness.node_key`.

    Examples
    --------
    >>> turns = Turns((3, 1), key=0)
    >>> sorted(turns.at(i) for i in range(4)), turns.at(4 * 10**12 + 1)[1] >= 10**12
    ([(0, 0), (0, 1), (0, 2), (1, 0)], True)
    """

    LEAST = 1024  # shorter blocks would be felt as a rhythm
    EXCHANGES = 32

    def __init__(self, shares: tuple[int, ...], key: int) -> None:
        self.shares = shares
        self.key = key
        self._period = sum(shares)
        self._repeats = -(-self.LEAST // self._period)
        self.block = self._period * self._repeats
        self._quotas = np.array(shares, np.int64) * self._repeats  # turns in a block

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, (self.shares, self.key)  # without the table

    def at(self, i: int) -> tuple[int, int]:
        """Return which sequence has the turn, and for which item."""
        which, ranks = self._table
        number, place = divmod(i, self.block)
        w = which.item(place)
        return w, number * self.shares[w] * self._repeats + ranks.item(place)

    def many(self, indices: Indices) -> tuple[IntArray, IntArray]:
        """Return which sequences have the turns, and for which items."""
        which, ranks = self._table
        numbers, places = np.divmod(as_array(indices).astype(np.int64, copy=False), self.block)
        w = which[places].astype(np.int64)
        return w, numbers * self._quotas[w] + ranks[places]

    def before(self, i: int) -> list[int]:
        """Return how many turns each sequence has had before index `i`."""
        number, place = divmod(i, self.block)
        counts = np.bincount(self._table[0][:place], minlength=len(self.shares))
        return [number * int(q) + int(c) for q, c in zip(self._quotas, counts, strict=True)]

    def each(self, start: int, stop: Length) -> Iterator[int]:
        """Yield which sequence has the turn, from one index to another."""
        for number in count(start // self.block):
            first = number * self.block
            if first >= stop:
                return
            yield from self._table[0][max(start - first, 0) : int(min(stop - first, self.block))].tolist()

    @cached_property
    def _table(self) -> tuple[npt.NDArray[Any], IntArray]:
        """For every turn of a block, the sequence that has it, and which of its items in the block."""
        random = np.random.Philox(key=self.key)
        which, ranks = self._scheduled(random)
        for number in range(self.EXCHANGES):
            self._exchange(which, ranks, number % 2, random)
        return which.astype(np.min_scalar_type(len(self.shares))), ranks

    def _scheduled(self, random: np.random.Philox) -> tuple[IntArray, IntArray]:
        shares = np.array(self.shares, np.int64)
        which = np.repeat(np.arange(len(shares)), self._quotas)
        ranks = np.concatenate([np.arange(quota) for quota in self._quotas])
        # No share is ever missed by more than 1 - 1 / slack; for one sequence any number would do.
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
        """Exchange every other pair of neighbouring turns, if chance will and both stay in their windows."""
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


class Mix(View[Any]):
    """The view behind `mix`."""

    def __init__(
        self,
        sources: tuple[View[Any], ...],
        shares: tuple[int, ...],
        most: Length,
        seed: int,
        epoch: int,
        name: str | None,
    ) -> None:
        super().__init__(sources, None)
        self._most = most
        self._shares = shares
        self._salt = self._randoms if name is None else name
        self._randoms += 1
        self._seed = seed
        self._epoch = epoch
        self._given_name = name

    @cached_property
    def _n(self) -> Length:  # type: ignore[override]
        # Anew in every epoch: the sequences may differ in length.
        return min(self._most, _first_end(self._sources, self._shares))

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self._shares, node_key("mix", self._seed, self._epoch, self._salt))

    def _get(self, i: int) -> Any:
        which, j = self._turns.at(i)
        return self._sources[which]._get(j)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        turns, wanted = self._turns.many(indices)
        return read_grouped(turns, lambda which, places: self._sources[which]._getmany(wanted[places]))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        turns = self._turns
        if isinstance(plan, Endless):
            parts: list[Plan] = [source._plan() for source in self._sources]
            return iterate_in_turn(self, plan, turns.each(0, UNBOUNDED), self._sources, parts)
        if isinstance(plan, range) and plan.step == 1:
            parts = [*map(range, turns.before(plan.start), turns.before(plan.stop))]
            return iterate_in_turn(self, plan, turns.each(plan.start, plan.stop), self._sources, parts)
        if self._reads_ahead:
            order = (turns.at(i)[0] for i in each(plan))
            parts = [self._part(plan, which) for which in range(len(self._sources))]
            return iterate_in_turn(self, plan, order, self._sources, parts)
        return super()._iter(plan)

    def _part(self, plan: Plan, which: int) -> Plan:
        def local(i: int) -> int | None:
            number, j = self._turns.at(i)
            return j if number == which else None

        return Selected(plan, local)

    def _set(self, i: int, value: Any) -> None:
        which, j = self._turns.at(i)
        self._sources[which]._set(j, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        which, j = self._turns.at(i)
        return ((self._sources[which], (j,)),)

    def _rebuilt(self, sources: tuple[View[Any], ...], epoch: int) -> Mix:
        return Mix(sources, self._turns.shares, self._most, self._seed, epoch, self._given_name)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self._rebuilt(sources, self._epoch)

    def _at_epoch(self, epoch: int) -> View[Any]:
        keyed = self._rebuilt(tuple(source._at_epoch(epoch) for source in self._sources), epoch)
        keyed._site = self._site
        return keyed

    def _arguments(self, sources: list[str]) -> list[str]:
        shares = list(self._turns.shares[:5])
        weights = "[" + ", ".join([*map(str, shares), *["…"] * (len(self._turns.shares) > 5)]) + "]"
        epoch = [f"epoch={self._epoch}"] * (self._epoch > 0)
        return ["[" + ", ".join(sources) + "]", f"weights={weights}", f"seed={self._seed}", *epoch]
