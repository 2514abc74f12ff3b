"""`random_split`: a sequence divided at random into fixed parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from ..core.arguments import int_at_least
from ..core.indices import IndexArray, compact
from ..core.lengths import needed_length
from ..core.randomness import Permutation, as_seed, node_key
from ..core.source import as_view
from ..core.values import values_of
from ..core.view import Indexable, T, View

__all__ = ["random_split"]


def random_split(
    sequence: Indexable[T],
    lengths: Iterable[float],
    seed: int | None = None,
    *,
    groups: Iterable[Any] | None = None,
    stratify: Iterable[Any] | None = None,
) -> tuple[View[T], ...]:
    """Return views of random parts of a sequence. Each item is in exactly one part.

    The items of each part are chosen now and are the same in every epoch. Their order is random. No item is
    read.

    Parameters
    ----------
    sequence : View or indexable
        Of known length n.
    lengths : iterable of int or float
        Lengths of the parts: ints with sum n, or fractions with sum 1. Fractions of n are rounded down. The
        remaining items go in turn to the parts whose fraction is not 0.
    seed : int, optional
        0 or more. None (the default) draws one from the system.
    groups : iterable, optional
        A hashable label for each item: a list, an array, a tensor, or a column of a table, read by position.
        Items with equal labels are in the same part. NaN is one label. Lengths are then approximate: a part
        may be too long by less than one group.
    stratify : iterable, optional
        A hashable class for each item, read like `groups`. Each part has its share of each class, rounded up
        or down. If there are more than two parts, the difference may be one item more.

    Returns
    -------
    tuple of View
        One view per length.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, if `lengths` are not numbers, or if labels are not
        hashable.
    ValueError
        If `lengths` are negative or have another sum, if `seed` is negative, if both `groups` and `stratify`
        are given, or if the number of labels is not n.

    Notes
    -----
    One lookup per access, and 1 to 8 bytes of memory per item, depending on n. Needs the length
    at once. After ``random_split`` of PyTorch; known elsewhere as ``train_test_split``, ``splitobs``,
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
    n = needed_length(source, "random_split")
    if isinstance(lengths, str | bytes):
        raise TypeError(f"random_split: lengths must be ints or fractions, got {lengths!r}")
    wanted = values_of(lengths, "random_split: lengths", "ints or fractions")
    sizes = _sizes(wanted, n)
    # The key contains the length, so splitting a part again with the same seed is independent.
    number = as_seed(seed, "random_split: seed")
    key = node_key(f"random_split of {n}", number, 0, 0)
    order = Permutation(n, key).many(range(n))
    if groups is not None and stratify is not None:
        raise ValueError("random_split: pass either groups or stratify, not both")
    if groups is not None:
        codes, count = _codes(groups, n, "groups")
        owners = _deal_groups(codes[order], count, sizes, key)
    elif stratify is not None:
        codes, count = _codes(stratify, n, "stratify")
        owners = _deal_classes(codes[order], count, sizes)
    else:
        owners = np.repeat(np.arange(len(sizes)), sizes)
    return tuple(source._named(compact(order[owners == part], n)) for part in range(len(sizes)))


def _sizes(given: list[Any], n: int) -> list[int]:
    """Return the number of items of each part."""
    if all(hasattr(length, "__index__") for length in given):
        sizes = [int_at_least(length, "random_split: a length", 0) for length in given]
        if sum(sizes) != n:
            raise ValueError(
                f"random_split: lengths must add up to {n}, got {sizes}, which make {sum(sizes)}. Fractions,"
                " such as 0.8 and 0.2, fit any length."
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
    # Corrects rounding errors: 0.29 * 100 is 28.999999999999996.
    sizes = [math.floor(n * fraction * (1 + 2**-50)) for fraction in fractions]
    takers = [part for part, fraction in enumerate(fractions) if fraction]
    for turn in range(n - sum(sizes)):
        sizes[takers[turn % len(takers)]] += 1
    return sizes


def _codes(labels: Iterable[Any], n: int, what: str) -> tuple[IndexArray, int]:
    """Return a number for the label of each item, equal for equal labels, and the number of labels."""
    numbers: dict[Any, int] = {}
    values = values_of(labels, f"random_split: {what}", "hashable, one for each item: a sequence")
    try:
        codes = [numbers.setdefault(label, len(numbers)) for label in values]
    except TypeError as error:
        raise TypeError(f"random_split: {what} must be hashable, one for each item: {error}") from None
    if len(codes) != n:
        raise ValueError(f"random_split: {what} must be as many as the items, {n}, got {len(codes)}")
    return np.array(codes, np.int64), len(numbers)


def _deal_groups(codes: IndexArray, count: int, sizes: list[int], key: int) -> IndexArray:
    """Return the part of each item, where `codes` names its group.

    Groups are assigned in order of size, the largest first. A group goes to a random part that has room for
    it, with a probability proportional to the room. If no part has enough room, it goes to the part with the
    most room.
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
            part = next(p for p, total in enumerate(accumulate(fits)) if ticket < total)
        room[part] -= size
        owner[group] = part
    return owner[codes]


def _deal_classes(codes: IndexArray, count: int, sizes: list[int]) -> IndexArray:
    """Return the part of each item, where `codes` names its class. The parts are filled one after another."""
    owners = np.full(len(codes), len(sizes) - 1)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=count))[:-1])
    for part, size in enumerate(sizes[:-1]):
        taken = _shares(np.array([len(items) for items in members], np.int64), size)
        for which, number in enumerate(taken.tolist()):
            owners[members[which][:number]] = part
            members[which] = members[which][number:]
    return owners


def _shares(counts: IndexArray, size: int) -> IndexArray:
    """Return how many of each class a part of this size gets: its share, rounded up or down.

    The classes with the largest remainders get one more.

    >>> _shares(np.array([5, 3, 1]), 4)
    array([2, 1, 1])
    """
    exact, total = counts * size, max(int(counts.sum()), 1)
    shares: IndexArray = exact // total
    shares[np.argsort(-(exact % total), kind="stable")[: size - shares.sum()]] += 1
    return shares
