"""The samplers that a loader shows as `sampler` and `batch_sampler` if it was given none.

The loader does not read them. They show its order, and their epoch is the loader's epoch.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from ..core.source import view
from ..core.view import View
from ..samplers.base import Sampler
from ..samplers.batches import BatchSampler
from ..samplers.random_order import RandomSampler
from ..samplers.sequential import SequentialSampler
from ..views.shuffle import shuffle
from .options import Options

__all__ = ["counting", "own_samplers"]


def own_samplers(options: Options, seed: int) -> tuple[Any, Any]:
    """Return a sampler and a batch sampler that show the order of a loader, or None if there is none."""
    if not hasattr(options.dataset, "__len__"):
        return None, None
    sampler: SequentialSampler | ShuffleSampler = SequentialSampler(0)
    sampler.data_source = options.dataset  # its length is not asked for before it is needed
    if options.shuffle:
        sampler = ShuffleSampler(options.dataset, seed=seed)
    sampler._counts = False
    if options.batch_size is None:
        return sampler, None
    batch_sampler = BatchSampler(sampler, options.batch_size, last=options.last)
    batch_sampler._counts = False
    return sampler, batch_sampler


def counting(sampler: Any) -> Any:
    """Return a sampler that a loader shows as a copy that counts epochs, for another loader. Others stay."""
    if not isinstance(sampler, Sampler) or sampler._counts:
        return sampler
    sampler = copy(sampler)
    sampler._counts = True
    if isinstance(sampler, BatchSampler):
        sampler.sampler = counting(sampler.sampler)
    return sampler


class ShuffleSampler(RandomSampler):
    """The order of `shuffle`, which depends on the number of orders below it."""

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        indices: View[int] = view(range(len(self)))
        indices._order_count = getattr(self.data_source, "_order_count", 0)
        return shuffle(indices, self.seed)
