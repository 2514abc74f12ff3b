"""The base class of samplers whose batches follow from their arguments."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..core.arguments import int_at_least
from ..core.view import View
from ..views.batch import batch
from ..views.concatenate import concatenate
from .base import SeededSampler

__all__ = ["GroupedBatches", "LastGroup"]

LastGroup = Literal["overlap", "discard", "fewer"]


class GroupedBatches(SeededSampler):
    """Give batches one by one, or in lists of `num_shards` batches, one for each device."""

    def __init__(self, seed: int | None, num_shards: int, last_group: LastGroup) -> None:
        super().__init__(seed)
        who = type(self).__name__
        self.num_shards = int_at_least(num_shards, f"{who}: num_shards", 0)
        if last_group not in ("overlap", "discard", "fewer"):
            raise ValueError(f"{who}: last_group must be 'overlap', 'discard' or 'fewer', got {last_group!r}")
        self.last_group: LastGroup = last_group

    @property
    def batches(self) -> View[list[int]]:
        """The batches of an epoch as a view."""
        raise NotImplementedError(f"{type(self).__name__} must define batches")

    @property
    def order(self) -> View[Any]:
        """The batches of an epoch, or the lists of batches, as a view."""
        n, batches = self.num_shards, self.batches
        if n == 0:
            return batches
        count = len(batches)
        missing = -count % n
        if missing and self.last_group == "overlap":
            # The last list consists of the last n batches. If there are fewer batches, they repeat.
            again = np.arange(count - n, count - n + missing) % count
            whole = count - count % n
            batches = concatenate([batches.head(whole), batches._take(again), batches.skip(whole)])
        return batch(batches, n, self.last_group == "discard")
