"""`SortedBucketSampler`: batches of samples of similar length, from sorted runs."""

from __future__ import annotations

import numpy as np

from ..core.arguments import as_bool, number_at_least, positive_int
from ..core.source import view
from ..core.view import View
from ..stores.add_cache.add_cache import add_cache
from ..views.batch import batch
from ..views.gather import gather
from ..views.random_map import random_map
from ..views.shuffle import shuffle
from ..views.smap import smap
from ..views.unbatch import unbatch
from .grouped import GroupedBatches, LastGroup
from .keys import Order
from .sequential import as_sort_keys, sort_order

__all__ = ["SortedBucketSampler"]


class SortedBucketSampler(GroupedBatches):
    """Batches of neighbours in runs of samples that are sorted by length.

    Parameters
    ----------
    sort_keys : sequence or one-dimensional array
        One key per sample, of any type that compares with ``<``. They are read once, at construction, by
        position.
    batch_size : int
        Samples per batch (1 or more).
    mult : float
        1 or more. A run has ``int(mult * batch_size)`` samples.
    reverse : bool
        True (the default): the greatest key of a run comes first.
    shuffle : bool
        True: runs of samples drawn from all samples, and the batches of each run in random order. False
        (the default): runs of neighbours.
    num_shards : int
        Batches per list, one for each device. 0 (the default): single batches.
    last_group : "overlap", "discard" or "fewer"
        What to do with batches that do not fill the last list of `num_shards`. "overlap" (the default)
        completes the list with earlier batches, "discard" leaves it out, "fewer" makes it shorter.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `sort_keys` is not a sequence, or a number is not a number.
    ValueError
        If a number is out of range, a flag is not a bool, or `last_group` is unknown.

    Notes
    -----
    A run is sorted when its first batch is read. Batches do not cross the ends of runs, so the last batch
    of a run may be short. Modelled on ``SortedBucketSampler`` of GluonNLP.

    Examples
    --------
    >>> list(SortedBucketSampler([3, 9, 2, 8, 4], batch_size=2, mult=2))
    [[1, 3], [0, 2], [4]]
    """

    def __init__(
        self,
        sort_keys: Order,
        batch_size: int,
        mult: float = 100,
        reverse: bool = True,
        shuffle: bool = False,
        num_shards: int = 0,
        *,
        last_group: LastGroup = "overlap",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, num_shards, last_group)
        self._keys = as_sort_keys(sort_keys, "SortedBucketSampler: sort_keys")
        self.batch_size = positive_int(batch_size, "SortedBucketSampler: batch_size")
        self.mult = number_at_least(mult, "SortedBucketSampler: mult", 1)
        self.reverse = as_bool(reverse, "SortedBucketSampler: reverse")
        self.shuffle = as_bool(shuffle, "SortedBucketSampler: shuffle")
        self._run = int(self.mult * self.batch_size)

    @property
    def batches(self) -> View[list[int]]:
        """The batches of an epoch as a view."""
        samples: View[int] = view(range(len(self._keys)))
        if self.shuffle:
            runs = batch(shuffle(samples, self.seed), self._run)
            cut = random_map(self._shuffled, runs, self.seed, name="runs")
        else:
            cut = smap(self._cut, batch(samples, self._run))
        # The batches of a run are cut, and kept, when the first of them is read.
        last = -(-(len(samples) % self._run) // self.batch_size)
        return unbatch(add_cache(cut, 1), -(-self._run // self.batch_size), last)

    def _cut(self, samples: list[int]) -> list[list[int]]:
        """Return the batches of one run."""
        order = sort_order(self._keys[samples], self.reverse)
        return list(batch(gather(samples, order), self.batch_size))

    def _shuffled(self, samples: list[int], rng: np.random.Generator) -> list[list[int]]:
        batches = self._cut(samples)
        return [batches[i] for i in rng.permutation(len(batches))]
