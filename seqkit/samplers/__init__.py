"""Samplers: sources of indices, each a view plus an epoch."""

from ..core.lazy import lazy_names

# Each name is imported when it is first used. Type checkers read `__init__.pyi`.
_NAMES = {
    "batches": "BatchSampler InfiniteSampler",
    "bucket_keys": "ConstWidthBucket ExpWidthBucket LinearWidthBucket",
    "budget": "BudgetBatchSampler TokenBudgetBatchSampler",
    "distributed": "DistributedSampler",
    "fixed_buckets": "FixedBucketSampler",
    "numbered": "NumberedSampler",
    "random_order": "RandomSampler SubsetRandomSampler",
    "sequential": "FilterSampler IntervalSampler SequentialSampler",
    "sharded": "ShardedSampler",
    "sorted": "SortedSampler",
    "sorted_buckets": "SortedBucketSampler",
    "splits": "SplitSampler",
    "weighted": "WeightedRandomSampler",
}
_modules = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_modules)
__getattr__, __dir__ = lazy_names(__name__, _modules)
