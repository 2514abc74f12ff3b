"""Hypothesis strategies for keys, index batches and plans."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from seqkit.core.indices import Expanded, Plan, Translated, as_array

__all__ = ["index_batches", "indices", "masks", "plans", "selections", "slices"]


def indices(n: int) -> SearchStrategy[int]:
    """Ints that index a sequence of n items, at least one, from either end."""
    return st.integers(-n, n - 1)


def slices(n: int) -> SearchStrategy[slice]:
    """Slices with any bounds on and around a sequence of n items, and any step but 0."""
    bound = st.none() | st.integers(-n - 3, n + 3)
    step = st.none() | st.integers(-n - 2, n + 2).filter(bool)
    return st.builds(slice, bound, bound, step)


def masks(n: int) -> SearchStrategy[Any]:
    """Boolean masks of n flags, as lists and as arrays."""
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    return (flags | flags.map(lambda row: np.array(row, bool))) if n else st.just(np.zeros(0, bool))


def index_batches(n: int, *, negative: bool = False) -> SearchStrategy[Any]:
    """Sized batches of indices of a sequence of n items: lists, integer arrays and ranges.

    Parameters
    ----------
    n : int
    negative : bool
        May indices count from the end?
    """
    if n == 0:
        return st.sampled_from([[], range(0), np.zeros(0, np.int64)])
    rows = st.lists(st.integers(-n if negative else 0, n - 1), max_size=2 * n)
    arrays = st.builds(np.array, rows, st.sampled_from([np.int64, np.int32]))
    return rows | arrays | slices(n).map(lambda key: range(n)[key])


def selections(n: int) -> SearchStrategy[Any]:
    """Everything that selects several items of a sequence of n: slices, index batches, masks."""
    return slices(n) | index_batches(n, negative=True) | masks(n)


def plans(n: int) -> SearchStrategy[Plan]:
    """Access plans over ``[0, n)``: batches of indices, also translated and expanded."""
    batches = index_batches(n)
    return (
        batches
        | batches.map(lambda batch: Translated(batch, lambda block: n - 1 - as_array(block)))
        | batches.map(lambda batch: Expanded(batch, lambda i: (i, n - 1 - i)))
    )
