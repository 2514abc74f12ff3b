"""Samplers: sources of indices, each a view plus an epoch."""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .batches import BatchSampler, InfiniteSampler
    from .bucket_keys import ConstWidthBucket, ExpWidthBucket, LinearWidthBucket
    from .budget import BudgetBatchSampler, TokenBudgetBatchSampler
    from .distributed import DistributedSampler
    from .fixed_buckets import FixedBucketSampler
    from .random_order import RandomSampler, SubsetRandomSampler
    from .sequential import FilterSampler, IntervalSampler, SequentialSampler
    from .sharded import ShardedSampler
    from .sorted import SortedSampler
    from .sorted_buckets import SortedBucketSampler
    from .splits import SplitSampler
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
    "bucket_keys": ("ConstWidthBucket", "ExpWidthBucket", "LinearWidthBucket"),
    "budget": ("BudgetBatchSampler", "TokenBudgetBatchSampler"),
    "distributed": ("DistributedSampler",),
    "fixed_buckets": ("FixedBucketSampler",),
    "random_order": ("RandomSampler", "SubsetRandomSampler"),
    "sequential": ("FilterSampler", "IntervalSampler", "SequentialSampler"),
    "sharded": ("ShardedSampler",),
    "sorted": ("SortedSampler",),
    "sorted_buckets": ("SortedBucketSampler",),
    "splits": ("SplitSampler",),
    "weighted": ("WeightedRandomSampler",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {name: module for module, names in _MODULES.items() for name in names}
    )
