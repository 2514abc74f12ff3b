"""The usual training pipeline under its usual name: `DataLoader`, samplers and collation."""

from .batchify import Append, Dict, Group, List, NamedTuple, Pad, PerShard, Stack, Tuple
from .buckets import (
    ConstWidthBucket,
    ExpWidthBucket,
    FixedBucketSampler,
    LinearWidthBucket,
    SortedBucketSampler,
    TokenBudgetBatchSampler,
)
from .collate import default_collate, default_convert
from .distributed import DistributedSampler, ShardedSampler, SplitSampler
from .loader import DataLoader
from .samplers import (
    BatchSampler,
    FilterSampler,
    InfiniteSampler,
    IntervalSampler,
    RandomSampler,
    SequentialSampler,
    SortedSampler,
    SubsetRandomSampler,
)
from .weighted import WeightedRandomSampler

__all__ = [
    "Append",
    "BatchSampler",
    "ConstWidthBucket",
    "DataLoader",
    "Dict",
    "DistributedSampler",
    "ExpWidthBucket",
    "FilterSampler",
    "FixedBucketSampler",
    "Group",
    "InfiniteSampler",
    "IntervalSampler",
    "LinearWidthBucket",
    "List",
    "NamedTuple",
    "Pad",
    "PerShard",
    "RandomSampler",
    "SequentialSampler",
    "ShardedSampler",
    "SortedBucketSampler",
    "SortedSampler",
    "SplitSampler",
    "Stack",
    "SubsetRandomSampler",
    "TokenBudgetBatchSampler",
    "Tuple",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
]
