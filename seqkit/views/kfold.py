"""`kfold`: the parts of a cross-validation."""

from __future__ import annotations

from itertools import pairwise

from ..core.arguments import int_at_least
from ..core.lengths import needed_length
from ..core.randomness import as_seed
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .concatenate import concatenate
from .gather import gather
from .shuffle import shuffle

__all__ = ["kfold"]


def kfold(sequence: Indexable[T], k: int, seed: int | None = None) -> tuple[tuple[View[T], View[T]], ...]:
    """Return k pairs of views for a cross-validation: a fold to test with, and the rest to train with.

    Each item is in exactly one fold. The items of a fold are the same in every epoch, also if an order below
    is random. No item is read.

    Parameters
    ----------
    sequence : View or indexable
        Of known length n.
    k : int
        Number of folds, in ``[2, n]``. The first ``n % k`` folds have one item more.
    seed : int, optional
        The items of each fold are drawn, 0 or more. None (the default): folds are runs of items.

    Returns
    -------
    tuple of (View, View)
        ``(train, test)`` for each fold.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or has no length, or `k` or `seed` is not an int.
    ValueError
        If `k` is not in ``[2, n]``, or `seed` is negative.

    Notes
    -----
    No memory, and one lookup per access. Needs the length at once. After ``KFold`` of scikit-learn, with its
    folds if there is no seed. For folds of times see `time_split`, for labels or groups ``random_split``.

    Examples
    --------
    >>> for train, test in kfold("abcde", 2):
    ...     print("".join(train), "".join(test))
    de abc
    abc de
    >>> folds = kfold(range(100), 10, seed=0)
    >>> sorted(x for _, test in folds for x in test) == list(range(100))
    True
    """
    source = as_view(sequence, "kfold")
    n, k = needed_length(source, "kfold"), int_at_least(k, "kfold: k", 2)
    if k > n:
        raise ValueError(f"kfold: k must be at most the {n} items, got {k}")
    order: View[int] = as_view(range(n), "kfold")
    if seed is not None:
        order = shuffle(order, as_seed(seed, "kfold: seed"), name="kfold")
    edges = [fold * (n // k) + min(fold, n % k) for fold in range(k + 1)]
    return tuple(
        (gather(source, concatenate([order[:start], order[stop:]])), gather(source, order[start:stop]))
        for start, stop in pairwise(edges)
    )
