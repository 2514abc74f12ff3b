"""`random_split`: a sequence dealt out to parts at random, once and for all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import positive_int
from ..indices import Unsized, compact
from ..randomness import Permutation, as_seed, node_key
from ..source import as_view
from ..view import Indexable, T, View, in_order

__all__ = ["random_split"]

IntArray = npt.NDArray[np.int64]


def random_split(
    sequence: Indexable[T],
    lengths: Iterable[float],
    seed: int | None = None,
    *,
    groups: Iterable[Any] | None = None,
    stratify: Iterable[Any] | None = None,
) -> tuple[View[T], ...]:
    """Return views of random parts of a sequence: every item is in just one of them.

    Which items a part has is settled now, and stays so in every epoch; their order in it is random. Nothing
    of `sequence` is read.

    Parameters
    ----------
    sequence : View or indexable
        Of known length n.
    lengths : iterable of int or float
        Lengths of the parts, ints that add up to n; or fractions of n that add up to 1, rounded down, what is
        then left over going in turn to the parts whose fraction is not 0, the first ones first.
    seed : int, optional
        At least 0. None (the default) draws one from the system.
    groups : iterable, optional
        For each item, something hashable; items that have it in common come into one part. Lengths are
        aimed at then, and not always met: a part is longer than asked for by less than one group.
    stratify : iterable, optional
        For each item its class, something hashable; every part has of each class its share, rounded up or
        down.

    Returns
    -------
    tuple of View
        As many as `lengths`.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, `lengths` are no numbers, or groups or classes not
        hashable.
    ValueError
        If `lengths` are negative or do not add up, `seed` is negative, there are both groups and classes, or
        not as many as items.

    Notes
    -----
    One lookup more per access, and 1 to 8 bytes of memory per item, as few as n allows. After
    ``random_split`` of PyTorch; known elsewhere as ``train_test_split``, ``splitobs``,
    ``StratifiedShuffleSplit``, ``GroupShuffleSplit``.

    Examples
    --------
    >>> train, test = random_split(range(100), [0.8, 0.2], seed=0)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(100))
    (80, 20, True)
    >>> train, test = random_split("aabbbbcc", [0.5, 0.5], seed=0, stratify="aabbbbcc")
    >>> sorted(train), sorted(test)
    (['a', 'b', 'b', 'c'], ['a', 'b', 'b', 'c'])
    """
    source = as_view(sequence, "random_split")
    n = source._n
    if isinstance(n, Unsized):
        raise TypeError(f"random_split: the sequence needs a length, and has none: {n.reason}")
    sizes = _sizes(lengths, n)
    # With the length in the key, parts that are split again with one seed are dealt out independently.
    key = node_key(f"random_split of {n}", as_seed(seed, "random_split: seed"), 0, 0)
    order = Permutation(n, key).many(range(n))
    if groups is not None and stratify is not None:
        raise ValueError("random_split: there can be groups or stratify, got both")
    if groups is not None:
        codes, count = _codes(groups, n, "groups")
        owners = _deal_groups(codes[order], count, sizes, key)
    elif stratify is not None:
        codes, count = _codes(stratify, n, "stratify")
        owners = _deal_classes(codes[order], count, sizes)
    else:
        owners = np.repeat(np.arange(len(sizes)), sizes)
    return tuple(source._take(compact(order[owners == part], n)) for part in range(len(sizes)))


def _sizes(lengths: Iterable[float], n: int) -> list[int]:
    """Return how many items each part is to have."""
    if not isinstance(lengths, Iterable) or isinstance(lengths, str | bytes):
        raise TypeError(f"random_split: lengths must be ints or fractions, got {lengths!r}")
    given = list(in_order(lengths))
    if all(hasattr(length, "__index__") for length in given):
        sizes = [positive_int(length, "random_split: a length", least=0) for length in given]
        if sum(sizes) != n:
            raise ValueError(
                f"random_split: lengths must add up to {n}, got {sizes}, which make {sum(sizes)}"
            )
        return sizes
    try:
        fractions = [float(length) for length in given]
    except (TypeError, ValueError):
        raise TypeError(f"random_split: lengths must be ints or fractions, got {given}") from None
    if not (min(fractions) >= 0 and math.isclose(sum(fractions), 1)):
        raise ValueError(
            f"random_split: fractions must be at least 0 and add up to 1, got {fractions},"
            f" which make {sum(fractions)}"
        )
    # A product that is a whole number but for rounding counts as one: 0.29 * 100 is 28.999999999999996.
    sizes = [math.floor(n * fraction * (1 + 2**-50)) for fraction in fractions]
    takers = [part for part, fraction in enumerate(fractions) if fraction]
    for turn in range(n - sum(sizes)):
        sizes[takers[turn % len(takers)]] += 1
    return sizes


def _codes(labels: Iterable[Any], n: int, what: str) -> tuple[IntArray, int]:
    """Return a number for the label of each item, the same for the same label, and how many there are."""
    numbers: dict[Any, int] = {}
    try:
        codes = [numbers.setdefault(label, len(numbers)) for label in labels]
    except TypeError as error:
        raise TypeError(f"random_split: {what} must be hashable, one for each item: {error}") from None
    if len(codes) != n:
        raise ValueError(f"random_split: {what} must be as many as the items, {n}, got {len(codes)}")
    return np.array(codes, np.int64), len(numbers)


def _deal_groups(codes: IntArray, count: int, sizes: list[int], key: int) -> IntArray:
    """Return the part of each item, where `codes` names its group.

    The largest groups first, each to one of the parts that have room for it, the more likely the more room
    they have; where none has, to the one with the most.
    """
    members = np.bincount(codes, minlength=count)
    room, owner = list(sizes), np.zeros(count, np.int64)
    drawn = np.random.Philox(key=key + 1).random_raw(count) if count else ()
    for group, number in zip(np.argsort(-members, kind="stable").tolist(), drawn, strict=True):
        size = int(members[group])
        fits = [free if free >= size else 0 for free in room]
        part = room.index(max(room))
        if any(fits):
            ticket = int(number) * sum(fits) >> 64
            part = next(p for p, total in enumerate(np.cumsum(fits).tolist()) if ticket < total)
        room[part] -= size
        owner[group] = part
    return owner[codes]


def _deal_classes(codes: IntArray, count: int, sizes: list[int]) -> IntArray:
    """Return the part of each item, where `codes` names its class."""
    table = _shares(np.bincount(codes, minlength=count), np.array(sizes, np.int64))
    owners = np.empty(len(codes), np.int64)
    parts = np.tile(np.arange(len(sizes)), count)
    owners[np.argsort(codes, kind="stable")] = np.repeat(parts, table.ravel())
    return owners


def _shares(rows: IntArray, columns: IntArray) -> IntArray:
    """Return a table with these sums, in which every number is the proportional one, rounded up or down.

    There always is one. Rounded down, each row and each column lack some; numbers that were rounded down are
    raised one by one, and where the columns that a row could raise have enough already, other rows change
    columns to make room (an augmenting path, as in every matching).
    """
    exact = np.multiply.outer(rows, columns)
    total = max(int(rows.sum()), 1)
    table: IntArray = exact // total
    may: list[set[int]] = [set(np.flatnonzero(row).tolist()) for row in exact % total]
    raised: list[set[int]] = [set() for _ in may]
    room = (columns - table.sum(axis=0)).tolist()
    for row, lacking in enumerate((rows - table.sum(axis=1)).tolist()):
        for _ in range(lacking):
            _raise_one(row, may, raised, room)
    for row, cells in enumerate(raised):
        table[row, sorted(cells)] += 1
    return table


def _raise_one(row: int, may: Sequence[set[int]], raised: Sequence[set[int]], room: list[int]) -> None:
    """Raise one number of a row, in a column that has room, or will have once other rows have moved."""
    # For each column that was reached: the row that would raise it, and the column that row would lower.
    came: dict[int, tuple[int, int | None]] = {}
    waiting: list[int] = []

    def reach(by: int, instead_of: int | None) -> None:
        fresh = may[by] - raised[by] - came.keys()
        waiting.extend(sorted(fresh, key=lambda column: -room[column]))
        came.update(dict.fromkeys(fresh, (by, instead_of)))

    reach(row, None)
    for column in waiting:  # grows on the way
        if room[column] > 0:
            room[column] -= 1
            at: int | None = column
            while at is not None:
                by, instead_of = came[at]
                raised[by].add(at)
                raised[by].discard(-1 if instead_of is None else instead_of)
                at = instead_of
            return
        for other, cells in enumerate(raised):
            if column in cells:
                reach(other, column)
    raise AssertionError("a table with integer sums can always be rounded")
