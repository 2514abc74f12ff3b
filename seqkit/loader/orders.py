"""What a sampler tells a loader about its order: its name, its epoch, and whether processes share it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.set_epoch import takes_epoch
from ..core.view import View, is_measured, walk
from ..samplers.base import Sampler, chain_of
from ..samplers.batches import InfiniteSampler
from ..samplers.distributed import DistributedSampler
from ..samplers.sharded import ShardedSampler
from ..views.gather.gather import Gather
from ..views.shard import Shard

__all__ = [
    "forgets_its_order",
    "has_slice",
    "is_a_share",
    "order_name",
    "own_epoch",
    "share_of",
]

# Attributes of samplers that give the share of a process: the number of processes.
_COUNTS = ("num_replicas", "num_processes", "world_size")


def order_name(sampler: Any) -> str:
    """Return the kind of an order: the names of the samplers that make it. Anything indexable is "indices".

    >>> from seqkit.samplers import BatchSampler, RandomSampler
    >>> order_name(BatchSampler(RandomSampler(5), 2)), order_name([4, 2])
    ('BatchSampler(RandomSampler)', 'indices')
    """
    names = []
    for one in chain_of(sampler):
        is_known = isinstance(one, View | Sequence | np.ndarray)
        package = "torch." * (type(one).__module__.partition(".")[0] == "torch")
        names.append("indices" if is_known else package + type(one).__name__)
        if is_known:
            break
    return "(".join(names) + ")" * (len(names) - 1)


def own_epoch(sampler: Any) -> int | None:
    """Return the epoch of a sampler of seqkit, or None if it has none that tells when the user set it."""
    parts = chain_of(sampler)
    if not isinstance(sampler, Sampler) or any(isinstance(part, InfiniteSampler) for part in parts):
        return None
    return sampler.epoch


def forgets_its_order(sampler: Any) -> bool:
    """Return whether a sampler of PyTorch draws its order from a generator, so that it cannot be repeated."""
    samplers = sys.modules.get("torch.utils.data")
    names = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
    kinds = tuple(getattr(samplers, name) for name in names) if samplers is not None else ()
    return any(
        isinstance(one, kinds)
        and not (isinstance(one, Sampler) or hasattr(one, "state_dict") or takes_epoch(one))
        for one in chain_of(sampler)
    )


# -------------------------------------------------------------------- shares of processes


def share_of(sampler: Any) -> tuple[str, int] | None:
    """Return the number of processes that share an epoch, or the number of indices of this process.

    It is None if nothing is shared, or if the sampler can resume with other shares.

    >>> from seqkit import samplers, shard
    >>> share_of(shard("abcdef", 0, 2)), share_of(samplers.SplitSampler(10, 2, 0)), share_of([3, 1])
    (('indices per process', 3), ('processes', 2), None)
    """
    chain = chain_of(sampler)
    if any(isinstance(one, DistributedSampler | ShardedSampler) for one in chain):
        return None
    for one in chain:
        counts = (getattr(one, name, None) for name in _COUNTS)
        if count := next((count for count in counts if isinstance(count, int)), 0):
            return "processes", count
    is_slice = chain and isinstance(chain[-1], View) and is_measured(chain[-1]) and has_slice(chain[-1])
    return ("indices per process", len(chain[-1])) if is_slice else None


def is_a_share(sampler: Any) -> bool:
    """Return whether a sampler gives the share of one process, so that each process has other keys."""
    shares = (*_COUNTS, "rank", "process_index")
    return any(
        any(hasattr(one, name) for name in shares) or (isinstance(one, View) and has_slice(one))
        for one in chain_of(sampler)
    )


def has_slice(view: View[Any]) -> bool:
    """Return whether a view contains a slice or a `shard`."""
    return any(
        isinstance(node, Shard) or (isinstance(node, Gather) and isinstance(node._map, range))
        for node in walk(view)
    )
