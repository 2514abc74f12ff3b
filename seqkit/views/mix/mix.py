"""`mix`: several sequences in given proportions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn, overload

from ...core.arguments import check_sequences
from ...core.epoch import ORDER
from ...core.indices import UNBOUNDED, UNKNOWN, Endless, Indices, Length, Plan, Unsized
from ...core.once import cached
from ...core.randomness import as_name, as_seed
from ...core.source import as_view
from ...core.view import Indexable, T, View, is_measured, sized
from ..bases.columns import selected
from ..bases.one_of_several import IntArray, OneOfSeveral
from ..bases.random import Random
from ..epochs import Epochs
from .turns import Schedule, as_shares

__all__ = ["Mix", "mix"]

Stop = Literal["first", "last", "cycle"]


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
    for source in sources:
        if is_measured(source) and source._n is UNKNOWN:
            _refuse(source)
    shares = as_shares(len(sources), weights)
    most, sources = _starting_anew(sources, shares, stop)
    return sized(Mix(sources, shares, most, as_seed(seed, "mix: seed"), 0, as_name(name, "mix: name")))


def _refuse(source: View[Any]) -> NoReturn:
    why = UNKNOWN.reason
    raise TypeError(f"mix: each sequence must have a length or be unbounded, got {source!r}: {why}")


def _starting_anew(
    sources: tuple[View[Any], ...], shares: Sequence[int], stop: Stop
) -> tuple[Length, tuple[View[Any], ...]]:
    """Return the greatest length of a mixture, and its sequences: `epochs` of those that start again."""
    if stop == "first":
        return UNBOUNDED, sources
    if stop == "cycle" and not all(map(is_measured, sources)):
        return UNBOUNDED, tuple(
            s if is_measured(s) and s._n is UNBOUNDED else Epochs(s, None) for s in sources
        )
    lengths = [source._n for source in sources]
    if stop == "last" and not any(lengths):
        return UNBOUNDED, sources
    if not all(lengths):
        raise ValueError(f"mix: an empty sequence cannot start again, as stop={stop!r} requires")
    if stop == "cycle" or any(isinstance(n, Unsized) for n in lengths):
        return UNBOUNDED, tuple(s if isinstance(s._n, Unsized) else Epochs(s, None) for s in sources)
    period = sum(shares)
    most = max(-(-len(s) * period // share) for s, share in zip(sources, shares, strict=True))
    drawn = [-(-most * share // period) for share in shares]
    passes = [-(-number // len(s)) for number, s in zip(drawn, sources, strict=True)]
    return most, tuple(s if p <= 1 else Epochs(s, p) for s, p in zip(sources, passes, strict=True))


class Mix(OneOfSeveral, Random):
    """The view that `mix` returns."""

    _decides = ("_shares", "_most")
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
                _refuse(source)
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

    def _select(self, names: tuple[str, ...]) -> View[Any]:
        # The salt stays, although fewer orders may be below.
        sources = tuple(selected(source, names) for source in self._sources)
        return sized(Mix(sources, self._shares, self._most, self._seed, self._epoch, self._salt))

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Mix(sources, self._shares, self._most, self._seed, self._epoch, self._given_name)

    def _arguments(self, sources: list[str]) -> list[str]:
        shares = list(self._shares[:5])
        weights = "[" + ", ".join([*map(str, shares), *["…"] * (len(self._shares) > 5)]) + "]"
        return ["[" + ", ".join(sources) + "]", f"weights={weights}", *self._key_arguments()]
