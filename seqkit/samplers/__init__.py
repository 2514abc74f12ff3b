"""Samplers: sources of indices, each a view plus an epoch."""

from typing import TYPE_CHECKING

from ..core.lazy_imports import lazy_names

if TYPE_CHECKING:
    from .batches import BatchSampler, InfiniteSampler
    from .buckets import FixedBucketSampler, SortedBucketSampler
    from .budget import BudgetBatchSampler, TokenBudgetBatchSampler
    from .distributed import DistributedSampler, ShardedSampler, SplitSampler
    from .order import (
        FilterSampler,
        IntervalSampler,
        RandomSampler,
        SequentialSampler,
        SortedSampler,
        SubsetRandomSampler,
    )
    from .schemes import ConstWidthBucket, ExpWidthBucket, LinearWidthBucket
    from .weighted import WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "BudgetBatchSampler",
    "ConstWidthBucket",
    "DistributedSampler",
    "ExpWidthBucket",
    "FilterSampler",
    "FixedBucketSampler",
    "InfiniteSampler",
    "IntervalSampler",
    "LinearWidthBucket",
    "RandomSampler",
    "SequentialSampler",
    "ShardedSampler",
    "SortedBucketSampler",
    "SortedSampler",
    "SplitSampler",
    "SubsetRandomSampler",
    "TokenBudgetBatchSampler",
    "WeightedRandomSampler",
]

# The module that defines each name, for `lazy_names`.
_MODULES = {
    "batches": ("BatchSampler", "InfiniteSampler"),
    "buckets": ("FixedBucketSampler", "SortedBucketSampler"),
    "budget": ("BudgetBatchSampler", "TokenBudgetBatchSampler"),
    "distributed": ("DistributedSampler", "ShardedSampler", "SplitSampler"),
    "order": (
        "FilterSampler",
        "IntervalSampler",
        "RandomSampler",
        "SequentialSampler",
        "SortedSampler",
        "SubsetRandomSampler",
    ),
    "schemes": ("ConstWidthBucket", "ExpWidthBucket", "LinearWidthBucket"),
    "weighted": ("WeightedRandomSampler",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {name: module for module, names in _MODULES.items() for name in names}
    )
