"""Parts of a shuffle, which have other items in each epoch: a trap for training and test data."""

from __future__ import annotations

from typing import Any

from ...core.tracebacks import warn
from ...core.view import View, is_measured, walk
from ..bases.one_of_several import OneOfSeveral
from ..bases.random import reorderings
from .gather import Gather

__all__ = ["warn_of_part_of_shuffle"]


def warn_of_part_of_shuffle(view: Any, who: str) -> bool:
    """Warn if a sequence is a part of a shuffle. Return whether there was a warning."""
    if not (isinstance(view, View) and view._random_count and _has_part_of_shuffle(view)):
        return False
    warn(
        f"{who}: the sequence is a part of a shuffle, which has other items in each epoch, so training and"
        " test data that are parts of one shuffle mix. Use random_split for parts that keep their items, and"
        " samplers.RandomSampler(data, num_samples=n) for n other items in each epoch",
        UserWarning,
    )
    return True


def _has_part_of_shuffle(view: View[Any]) -> bool:
    """Is a view, or a view below it, a part of a shuffle?

    Every k-th item is not meant, nor what `shard` returns: with the other shares it is complete. Nor is the
    rest of several epochs, or an epoch of so many items of a mixture.

    >>> import seqkit as sk
    >>> order = sk.shuffle(range(10), seed=0)
    >>> [_has_part_of_shuffle(part) for part in (order[:8], order, order[::2], sk.shard(order, 0, 2))]
    [True, False, False, False]
    >>> _has_part_of_shuffle(sk.epochs(order, 3)[12:])
    False
    """
    return any(
        isinstance(node, Gather) and _is_part(node) and _is_shuffled(node._sources[0]) for node in walk(view)
    )


def _is_part(node: Gather) -> bool:
    """Are neighbouring items selected, and others left out?"""
    source = node._sources[0]
    if not is_measured(source) or (isinstance(node._map, range) and abs(node._map.step) > 1):
        return False
    return len(node) < source._n


def _is_shuffled(view: View[Any]) -> bool:
    """Is a view shuffled, or does it read one sequence that is?"""
    return any(_reads_one(node) for node in reorderings(view, _reads_one))


def _reads_one(view: View[Any]) -> bool:
    return not isinstance(view, OneOfSeveral)
