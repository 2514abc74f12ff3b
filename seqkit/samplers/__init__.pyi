"""The names of the package, for type checkers. `__init__.py` imports them when they are used."""

from .batches import BatchSampler, InfiniteSampler
from .bucket_keys import ConstWidthBucket, ExpWidthBucket, LinearWidthBucket
from .budget import BudgetBatchSampler, TokenBudgetBatchSampler
from .distributed import DistributedSampler
from .fixed_buckets import FixedBucketSampler
from .numbered import NumberedSampler
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
