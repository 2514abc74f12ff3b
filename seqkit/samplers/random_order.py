"""Samplers of indices in random order, or drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..core.arguments import as_bool, optional_int
from ..core.indices import IndexArray
from ..core.view import View
from ..stores.add_cache.add_cache import add_cache
from ..views.epochs import epochs
from ..views.random_map import random_map
from ..views.shuffle import shuffle
from ..views.unbatch import unbatch
from .base import SeededSampler
from .keys import Order, check_keys, keys_of, sample_count

__all__ = ["RandomSampler", "SubsetRandomSampler", "in_blocks"]


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
