"""`WeightedRandomSampler`: indices drawn with given weights."""

from __future__ import annotations

import reprlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_bool, positive_int
from ..core.indices import IndexArray
from ..core.view import View
from .base import SeededSampler
from .keys import as_lengths
from .random_order import in_blocks

__all__ = ["WeightedRandomSampler"]

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
