"""The usual training pipeline under its usual name: `DataLoader`, samplers and collation."""

from .collate import default_collate, default_convert
from .loader import DataLoader
from .samplers import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler

__all__ = [
    "BatchSampler",
    "DataLoader",
    "RandomSampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "default_collate",
    "default_convert",
]
