"""Samplers: sources of indices, each a view plus an epoch."""

from ..core.lazy import lazy_names

# Each name is imported when it is first used. Type checkers read `__init__.pyi`.
_NAMES = {
    "batches": "BatchSampler InfiniteSampler NumberedSampler",
    "bucket_keys": "ConstWidthBucket ExpWidthBucket LinearWidthBucket",
    "budget": "BudgetBatchSampler TokenBudgetBatchSampler",
    "distributed": "DistributedSampler ShardedSampler SplitSampler",
    "fixed_buckets": "FixedBucketSampler",
    "random_order": "RandomSampler SubsetRandomSampler WeightedRandomSampler",
    "sequential": "FilterSampler IntervalSampler SequentialSampler SortedSampler",
    "sorted_buckets": "SortedBucketSampler",
}
_modules = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_modules)
__getattr__, __dir__ = lazy_names(__name__, _modules)
