"""Samplers of indices in random order, or drawn at random."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_bool, optional_int, positive_int
from ..core.indices import IndexArray
from ..core.view import View
from ..stores.add_cache.add_cache import add_cache
from ..views.epochs import epochs
from ..views.random_map import random_map
from ..views.shuffle import shuffle
from ..views.unbatch import unbatch
from .base import SeededSampler
from .keys import Order, as_lengths, check_keys, keys_of, sample_count

__all__ = ["RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler", "in_blocks"]


class RandomSampler(SeededSampler):
    """Indices in random order, or drawn with replacement.

    Parameters
    ----------
    data_source : int or sized
        The number of indices to draw from, or an object with a length. The length is asked for in every
        epoch.
    replacement : bool
        True: every draw is from all indices. False (the default): each index occurs once, in random order.
    num_samples : int, optional
        Indices per epoch (1 or more). None (the default): as many as there are. A larger number without
        replacement gives several whole permutations and a part of another one.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `data_source` has no length, `replacement` is not a bool, or a number is not an int.
    ValueError
        If a number is out of range, or `num_samples` is given and there are no indices.

    Notes
    -----
    No memory at 65,536 indices and above (see `shuffle`). Draws with replacement are made 1024 at a time.
    The order for a seed is that of ``shuffle(range(n), seed)``, not that of PyTorch.
    Modelled on ``torch.utils.data.RandomSampler``.

    Examples
    --------
    >>> sampler = RandomSampler(5, seed=0)
    >>> first, second = list(sampler), list(sampler)
    >>> sorted(first), first == second, sampler.epoch
    ([0, 1, 2, 3, 4], False, 2)
    >>> sampler.set_epoch(0)
    >>> list(sampler) == first
    True
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.replacement = as_bool(replacement, "RandomSampler: replacement")
        super().__init__(seed)
        self.data_source = data_source
        self._num_samples = optional_int(num_samples, "RandomSampler: num_samples")
        self._size()

    def _size(self) -> int:
        n = sample_count(self.data_source, "RandomSampler")
        if n == 0 and self._num_samples is not None:
            raise ValueError(
                f"RandomSampler: num_samples={self._num_samples} samples wanted, but data_source is empty"
            )
        return n

    def __len__(self) -> int:
        return self._size() if self._num_samples is None else self._num_samples

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        n, total = self._size(), len(self)
        if self.replacement:
            return in_blocks(partial(_uniform, n), total, self.seed, "RandomSampler")
        permutation = shuffle(range(n), self.seed)
        if total > n:
            permutation = epochs(permutation, -(-total // n))
        return permutation.head(total)


class SubsetRandomSampler(SeededSampler):
    """Given indices in random order.

    Parameters
    ----------
    indices : sequence
        Indices, or keys of any kind. They are read by position and become plain Python values. A mask is
        refused.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError, ValueError
        If `indices` cannot be indexed or has no length, or `seed` is not an int or is negative.

    Notes
    -----
    One lookup per index. Modelled on ``torch.utils.data.SubsetRandomSampler``.

    Examples
    --------
    >>> sorted(SubsetRandomSampler([7, 1, 4], seed=0))
    [1, 4, 7]
    """

    def __init__(self, indices: Order, seed: int | None = None) -> None:
        super().__init__(seed)
        check_keys(indices, "SubsetRandomSampler: indices")
        self.indices = indices

    @property
    def order(self) -> View[Any]:
        """The indices of an epoch, as a view."""
        return shuffle(keys_of(self.indices, "SubsetRandomSampler: indices"), self.seed)


def _uniform(n: int, rng: np.random.Generator, count: int) -> IndexArray:
    """Draw with replacement from ``range(n)``."""
    return rng.integers(n, size=count)


Draw = Callable[[np.random.Generator, int], IndexArray]


def in_blocks(draw: Draw, total: int, seed: int, name: str, size: int = 1024) -> View[int]:
    """Return the view of `total` random draws. ``draw(rng, count)`` makes them in blocks of `size`.

    >>> list(in_blocks(lambda rng, count: np.full(count, count), 5, seed=0, name="x", size=2))
    [2, 2, 2, 2, 1]
    """
    blocks = random_map(partial(_block, draw, total, size), range(-(-total // size)), seed, name=name)
    return unbatch(add_cache(blocks, 1), size, total % size)


def _block(draw: Draw, total: int, size: int, number: int, rng: np.random.Generator) -> list[int]:
    return draw(rng, min(size, total - number * size)).tolist()  # type: ignore[no-any-return]


Floats = npt.NDArray[np.float64]


class WeightedRandomSampler(SeededSampler):
    """Indices drawn at random, each with a probability proportional to its weight.

    Parameters
    ----------
    weights : sequence or one-dimensional array
        Finite numbers (0 or more) with any sum, copied at construction, by position. An index with weight 0
        is never drawn.
    num_samples : int
        Indices per epoch (1 or more).
    replacement : bool
        True (the default): every draw is from all indices. False: it is from those that were not drawn yet
        in this epoch.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `weights` are not numbers, `num_samples` is not an int, or `replacement` is not a bool.
    ValueError
        If `weights` do not have one dimension, if a weight is negative, infinite or NaN, if none is above
        0, if fewer are above 0 than samples are drawn without replacement, or if a number is out of range.

    Notes
    -----
    8 bytes per weight. With replacement, one binary search per draw, 1024 draws at a time. Without
    replacement, every epoch draws one random number per weight (the exponential keys of Efraimidis and
    Spirakis). Modelled on ``torch.utils.data.WeightedRandomSampler``, without its limit of 2**24 weights.

    Examples
    --------
    >>> sampler = WeightedRandomSampler([1, 0, 3], num_samples=1000, seed=0)
    >>> drawn = list(sampler)
    >>> drawn.count(1), 200 < drawn.count(0) < 300
    (0, True)
    >>> sorted(WeightedRandomSampler([1, 0, 3], num_samples=2, replacement=False))
    [0, 2]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, seed: int | None = None
    ) -> None:
        self.num_samples = positive_int(num_samples, "WeightedRandomSampler: num_samples")
        self.replacement = as_bool(replacement, "WeightedRandomSampler: replacement")
        super().__init__(seed)
        table = _as_weights(weights)
        drawable = np.count_nonzero(table)
        if not replacement and drawable < self.num_samples:
            raise ValueError(
                f"WeightedRandomSampler: num_samples={num_samples} samples wanted without replacement, but"
                f" only {drawable} weights are above 0"
            )
        self.weights = table

    def __len__(self) -> int:
        return self.num_samples

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        drawn, size = partial(_once, self.weights), self.num_samples
        if self.replacement:
            # Scaled, so that no sum overflows.
            drawn, size = partial(_repeatedly, np.cumsum(self.weights / self.weights.max())), 1024
        return in_blocks(drawn, self.num_samples, self.seed, "WeightedRandomSampler", size)


def _as_weights(weights: Any) -> Floats:
    """Return the weights as an array of its own, checked."""
    table = as_lengths(weights, "WeightedRandomSampler: weights", "biuf")
    if table.shape[1] != 1:
        raise ValueError("WeightedRandomSampler: weights must be one-dimensional, got 2 dimensions")
    if not table.any():
        raise ValueError(
            f"WeightedRandomSampler: at least one weight must be above 0, got {reprlib.repr(weights)}"
        )
    return table[:, 0].astype(np.float64)


def _repeatedly(sums: Floats, rng: np.random.Generator, count: int) -> IndexArray:
    """Draw with replacement: find where random numbers fall among the running sums of the weights."""
    # Rounding may make a point equal to the last sum. It stands for the last index that has a weight.
    points = np.minimum(rng.random(count) * sums[-1], np.nextafter(sums[-1], 0))
    return np.asarray(np.searchsorted(sums, points, side="right"))


def _once(weights: Floats, rng: np.random.Generator, count: int) -> IndexArray:
    """Draw without replacement: the indices with the smallest exponential variates divided by the weight."""
    uniform = rng.random(len(weights))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Logarithms, because quotients could overflow.
        arrivals = np.log(-np.log1p(-uniform)) - np.log(weights / weights.max())
    first = np.argpartition(arrivals, count - 1)[:count]
    return np.asarray(first[np.argsort(arrivals[first], kind="stable")])
