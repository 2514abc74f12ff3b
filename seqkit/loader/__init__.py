"""The usual training pipeline under its usual name: `DataLoader`, samplers and collation."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .batchify import Append, List, Pad, Stack
    from .buckets import (
        ConstWidthBucket,
        ExpWidthBucket,
        FixedBucketSampler,
        LinearWidthBucket,
        SortedBucketSampler,
        TokenBudgetBatchSampler,
    )
    from .collate import default_collate, default_convert
    from .composed import Dict, Group, NamedTuple, PerShard, Tuple
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

# Which module defines each name, for `lazy_names`.
_MODULES = {
    "batchify": ("Append", "List", "Pad", "Stack"),
    "buckets": (
        "ConstWidthBucket",
        "ExpWidthBucket",
        "FixedBucketSampler",
        "LinearWidthBucket",
        "SortedBucketSampler",
        "TokenBudgetBatchSampler",
    ),
    "collate": ("default_collate", "default_convert"),
    "composed": ("Dict", "Group", "NamedTuple", "PerShard", "Tuple"),
    "distributed": ("DistributedSampler", "ShardedSampler", "SplitSampler"),
    "loader": ("DataLoader",),
    "samplers": (
        "BatchSampler",
        "FilterSampler",
        "InfiniteSampler",
        "IntervalSampler",
        "RandomSampler",
        "SequentialSampler",
        "SortedSampler",
        "SubsetRandomSampler",
    ),
    "weighted": ("WeightedRandomSampler",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {name: module for module, names in _MODULES.items() for name in names}
    )
