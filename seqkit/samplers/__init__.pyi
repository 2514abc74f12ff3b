"""The names of the package, for type checkers. `__init__.py` imports them when they are used."""

from .batches import BatchSampler, InfiniteSampler, NumberedSampler
from .bucket_keys import ConstWidthBucket, ExpWidthBucket, LinearWidthBucket
from .budget import BudgetBatchSampler, TokenBudgetBatchSampler
from .distributed import DistributedSampler, ShardedSampler, SplitSampler
from .fixed_buckets import FixedBucketSampler
from .random_order import RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from .sequential import FilterSampler, IntervalSampler, SequentialSampler, SortedSampler
from .sorted_buckets import SortedBucketSampler

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
    "NumberedSampler",
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
