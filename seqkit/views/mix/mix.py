"""`mix`: several sequences in given proportions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, overload

import numpy as np

from ...core.arguments import check_sequences
from ...core.epoch import ORDER, EpochPair, at_epoch
from ...core.errors import brief
from ...core.indices import Endless, IndexArray, Indices, Plan
from ...core.lengths import UNBOUNDED, UNKNOWN, Length, Unsized, sized
from ...core.once import cached
from ...core.randomness import as_name, as_seed
from ...core.source import as_view
from ...core.view import Indexable, T, View
from ..bases.one_of_several import OneOfSeveral
from ..bases.order_digest import index_facts
from ..bases.random import Random, named_below
from .by_size import BySize
from .schedule import Schedule, Stages, in_stages
from .shares import Shares, as_stages, by_name

__all__ = ["Mix", "mix"]

Stop = Literal["first", "all"]
Weights = Iterable[float] | Mapping[str, float]


@overload
def mix(
    sequences: Mapping[str, Indexable[T]],
    weights: Weights | Mapping[int, Weights] | None = None,
    seed: int | None = None,
    *,
    sizes: Iterable[Indexable[int]] | Mapping[str, Indexable[int]] | None = None,
    stop: Stop = "first",
    name: str | None = None,
) -> View[T]: ...
@overload
def mix(
    sequences: Iterable[Indexable[T]],
    weights: Iterable[float] | Mapping[int, Iterable[float]] | None = None,
    seed: int | None = None,
    *,
    sizes: Iterable[Indexable[int]] | None = None,
    stop: Stop = "first",
    name: str | None = None,
) -> View[T]: ...
def mix(
    sequences: Any,
    weights: Any = None,
    seed: int | None = None,
    *,
    sizes: Any = None,
    stop: Stop = "first",
    name: str | None = None,
) -> View[Any]:
    """Return the view of the items of several sequences, mixed in given proportions.

    Each sequence is read in its own order. The sequence at an index is a pure function of the weights and of
    (seed, epoch, view, index). Up to any index, each sequence has had its share of the items, rounded up or
    down.

    Parameters
    ----------
    sequences : iterable of View or indexable, or mapping of names to them
        At least one, each of known length or unbounded. With names, the random numbers of each sequence also
        depend on its name, so they stay the same if another sequence is inserted.
    weights : iterable of float, or mapping, optional
        A number above 0 for each sequence, its share relative to the sum. None (the default): equal shares.
        For sequences with names it may be a mapping of names to numbers. Weights that change are a mapping of
        indices in the mixture to weights, such as ``{0: [9, 1], 100_000: [1, 1]}``, where 0 is allowed as a
        number. Each sequence then goes on where it was.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.
    sizes : iterable of sequences of int, or mapping, optional
        The size of each item of each sequence, above 0, such as its number of tokens. Shares are then shares
        of the sum of sizes. None (the default): all items have one size.
    stop : "first" or "all"
        End when the first sequence has no further item (default). Or end when all items were read once: a
        sequence that has ended leaves its share to the others.
    name : str, optional
        Salts the seed. None (the default) uses the number of orders below this one. See `shuffle`.

    Returns
    -------
    View
        For lengths n and shares w, its length is ``min(floor(n / w))`` with ``"first"``, and ``sum(n)`` with
        ``"all"``. Unbounded if no relevant sequence ends.

    Raises
    ------
    TypeError
        If `sequences` is not an iterable, if a sequence cannot be indexed or has an unknown length, or if an
        argument has the wrong type.
    ValueError
        Without a sequence, if the number of weights or sizes is wrong, if a weight is not above 0 or too
        small, or if `seed` is negative or `stop` unknown.

    Notes
    -----
    One table lookup per access. The table is made at the first read. It has 1024 to 65,536
    entries and repeats. Weights that need a longer table are rounded to multiples of 1/16,384 of their sum.
    With `sizes` it has an entry for each index, made in about 1 µs each, and the length needs it. For a
    sequence that starts again when it has ended, pass its `epochs`. After ``mix`` of Grain; known elsewhere
    as ``interleave_datasets``, ``sample_from_datasets``.

    Examples
    --------
    >>> both = mix(["abcdef", "xy"], weights=[3, 1], seed=0)
    >>> len(both), sorted(both[:4]), sorted(both[4:])
    (8, ['a', 'b', 'c', 'x'], ['d', 'e', 'f', 'y'])
    >>> import seqkit as sk
    >>> len(mix(["abcdef", sk.epochs("xy")], seed=0))
    12
    >>> "".join(mix({"web": "abcdef", "books": "xyz"}, {0: {"web": 1, "books": 0}, 3: [1, 1]}, seed=0))
    'abcxdeyfz'
    """
    names = _names(sequences)
    sources = [as_view(s, "mix") for s in _in_order(sequences)]
    if not sources:
        raise ValueError("mix: at least one sequence is needed, got none")
    if names is not None:
        sources = [named_below(source, name) for source, name in zip(sources, names, strict=True)]
    if stop not in ("first", "all"):
        raise ValueError(
            f"mix: stop must be 'first' or 'all', got {brief(stop)}. Pass the epochs of a sequence that"
            " starts again."
        )
    shares = as_stages(len(sources), names, weights)
    if stop == "all" and not all(shares.shares[-1]):
        raise ValueError(f"mix: with stop={stop!r} each last weight must be above 0, got {weights!r}")
    number, salt = as_seed(seed, "mix: seed"), as_name(name, "mix: name")
    if sizes is not None:
        widths = _sizes(sizes, names, len(sources))
        return Mix(tuple(sources), shares, number, 0, salt, stop == "all", widths)
    return sized(Mix(tuple(sources), shares, number, 0, salt, stop == "all"))


def _names(sequences: Any) -> tuple[str, ...] | None:
    """Return the names of sequences, or None if they have none."""
    if not isinstance(sequences, Mapping):
        check_sequences(sequences, "mix: sequences")
        return None
    for name in sequences:
        if not isinstance(name, str):
            raise TypeError(f"mix: names of sequences must be strings, got {name!r}")
    return tuple(sequences)


def _in_order(sequences: Any) -> Iterable[Any]:
    return sequences.values() if isinstance(sequences, Mapping) else sequences


def _sizes(sizes: Any, names: tuple[str, ...] | None, k: int) -> tuple[View[int], ...]:
    given = by_name(sizes, names, "sizes")
    check_sequences(given, "mix: sizes")
    widths = tuple([as_view(each, "mix: sizes") for each in given])
    if len(widths) != k:
        raise ValueError(f"mix: sizes must be as many as the sequences, {k}, got {len(widths)}")
    return widths


class Mix(OneOfSeveral, Random):
    """The view that `mix` returns. With `is_all`, a sequence that has ended leaves."""

    _varies = ORDER

    def __init__(
        self,
        sources: tuple[View[Any], ...],
        shares: Shares,
        seed: int,
        epoch: int,
        name: str | int | None,
        is_all: bool = False,
        sizes: tuple[View[int], ...] = (),
    ) -> None:
        Random.__init__(self, sources, seed, epoch, name)
        self._shares = shares
        self._is_all = is_all
        self._sizes = sizes

    def _length(self) -> Length:
        lengths = [source._n for source in self._sources]
        for source in self._sources:
            if source._n is UNKNOWN:
                raise TypeError(
                    f"mix: each sequence must have a length or be unbounded, got {source!r}: {UNKNOWN.reason}"
                )
        if self._sizes:
            return sum(self._turns.before(int(sum(lengths))))
        if self._is_all:
            return UNBOUNDED if UNBOUNDED in lengths else int(sum(lengths))
        finite = [(w, n) for w, n in enumerate(lengths) if not isinstance(n, Unsized)]
        return min([UNBOUNDED, *(self._shares.reach(w, n) for w, n in finite)])

    @cached
    def _turns(self) -> Schedule | Stages | BySize:
        if self._sizes:
            sizes = [_checked(size, source) for size, source in zip(self._sizes, self._sources, strict=True)]
            return BySize(self._shares, sizes, self._key, self._is_all)
        if self._is_all:
            return in_stages(self._shares, self._key, [source._n for source in self._sources])
        if len(self._shares.starts) > 1:
            return in_stages(self._shares, self._key)
        return Schedule(self._shares.shares[0], self._key)

    def _place(self, i: int) -> tuple[int, int]:
        return self._turns.at(i)

    def _places(self, indices: Indices) -> tuple[IndexArray, IndexArray]:
        return self._turns.many(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        turns = self._turns
        if isinstance(plan, Endless):
            return self._in_turn(plan, turns.each(0, UNBOUNDED), [s._plan() for s in self._sources])
        if isinstance(plan, range) and plan.step == 1:
            shares = [*map(range, turns.before(plan.start), turns.before(plan.stop))]
            return self._in_turn(plan, turns.each(plan.start, plan.stop), shares)
        return super()._iter(plan)

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        keyed = super()._keyed(sources, epoch)
        if keyed is not self and isinstance(keyed, Mix):
            keyed._sizes = tuple([at_epoch(size, epoch) for size in self._sizes])
        return keyed

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        arguments = self._shares, self._is_all, *map(index_facts, self._sizes)
        return *(super()._ordered(items) or ()), *arguments

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        arguments = self._seed, self._epoch, self._given_name, self._is_all, self._sizes
        return Mix(sources, self._shares, *arguments)

    def _arguments(self, sources: list[str]) -> list[str]:
        given = [list(shares) for shares in self._shares.shares]
        weights = given[0] if len(given) == 1 else dict(zip(self._shares.starts, given, strict=True))
        sizes = ["sizes=…"] * bool(self._sizes)
        is_all = ["stop='all'"] * self._is_all
        shown = f"weights={brief(weights)}"
        return ["[" + ", ".join(sources) + "]", shown, *self._key_arguments(), *sizes, *is_all]


def _checked(sizes: View[int], source: View[Any]) -> IndexArray:
    """Return the sizes of the items of a sequence as an array."""
    array = np.asarray(sizes) if sizes._n else np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min(initial=1) < 1:
        raise ValueError(f"mix: sizes must be ints of at least 1 for each sequence, got {brief(array)}")
    if len(array) != source._n:
        raise ValueError(
            f"mix: sizes must be as many as the items of a sequence, {source._n}, got {len(array)}"
        )
    return array
