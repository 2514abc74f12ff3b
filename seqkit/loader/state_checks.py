"""The state of a `DataLoader`: a position, and what its meaning depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.arguments import int_at_least
from ..core.expression import walk
from ..core.lengths import is_measured
from ..core.randomness import digest
from ..core.view import View
from ..samplers.base import Sampler, chain_of
from ..samplers.distributed import Share, process_group
from ..samplers.splits import SplitSampler
from ..views.shard import Shard

__all__ = [
    "check_key",
    "check_samples",
    "check_share",
    "check_state",
    "is_shared",
    "key_digest",
    "process_count",
    "sample_count",
    "share_of",
]

# "key" is a digest of the last key that was read. Some states also have "share", the number of
# processes that share the epoch, "dataset", the state of the data set, "dataset_order", a digest of its
# order, and "told", the epoch that the loader has told to a sampler of another library.
FIELDS = ("version", "epoch", "batch", "seed", "batch_size", "sampler", "order", "samples", "key")


def check_state(state: Any, batch_size: int | None, seed: int | None, order: str) -> None:
    """Refuse a value that is no state of a loader with this batch size, order and seed, if one was given."""
    if not isinstance(state, Mapping) or any(name not in state for name in FIELDS):
        raise TypeError(f"DataLoader: a state is a dict with {', '.join(FIELDS)}, but got {state!r}")
    if state["version"] != 1:
        raise ValueError(f"DataLoader: the state is of version {state['version']!r}, known is 1")
    for name in ("epoch", "batch", "seed"):
        int_at_least(state[name], f"DataLoader: {name} of a state", 0)
    if state["batch_size"] != batch_size:
        raise ValueError(
            f"DataLoader: the state counts batches of {state['batch_size']}, this loader makes batches of"
            f" {batch_size}"
        )
    if state["order"] != order:
        raise ValueError(
            f"DataLoader: the state belongs to the order {state['order']!r}, but this loader has the order"
            f" {order!r}. Make the loader with the same shuffle, sampler and last_batch"
        )
    if seed is not None and state["seed"] != seed:
        raise ValueError(
            f"DataLoader: the state is of seed={state['seed']}, but this loader has another seed. Leave"
            " out seed and generator to take the seed of the state"
        )


def check_samples(state: Mapping[str, Any], samples: int | None) -> None:
    """Refuse a state in the middle of an epoch of more or fewer samples."""
    saved = state["samples"]
    if state["batch"] and None not in (saved, samples) and saved != samples:
        raise ValueError(
            f"DataLoader: the state is in the middle of an epoch over {saved} samples, but the data set has"
            f" {samples}. Load it into a loader of the same data set, or call set_epoch to begin an epoch"
        )


def check_share(state: Mapping[str, Any], share: int | None) -> None:
    """Refuse a state in the middle of an epoch that another number of processes shared."""
    saved = state.get("share")
    if state["batch"] and None not in (saved, share) and saved != share:
        raise ValueError(
            f"DataLoader: the state is in the middle of an epoch of {saved} processes, but this loader has"
            f" {share}. Resume with as many processes, or share the epoch by"
            " seqkit.samplers.DistributedSampler or ShardedSampler, which resume with any number"
        )


def check_key(key: Any, saved: str | None) -> None:
    """Refuse a key that is not the one with this digest."""
    found = key_digest(key)
    if None not in (saved, found) and saved != found:
        raise ValueError(
            "DataLoader: the sampler gives other indices than it gave before the state was saved, so samples"
            " would come twice or be missed. Use the same sampler, and one whose order follows from seed and"
            " epoch, such as those of seqkit.samplers, or call set_epoch to begin an epoch"
        )


def key_digest(key: Any) -> str | None:
    """Return a short digest of a key or a list of keys. It is None for keys that have no stable text.

    >>> key_digest([3, 1]) == key_digest(np.array([3, 1])) != key_digest([1, 3]), key_digest(object())
    (True, None)
    """
    try:
        return digest(repr(_plain(key))).hex()[:8]
    except TypeError:
        return None


def _plain(key: Any) -> Any:
    if isinstance(key, np.ndarray | np.generic):
        return key.tolist()
    if isinstance(key, list | tuple):
        return [_plain(part) for part in key]
    if isinstance(key, str | bytes | int | float | None):
        return key
    raise TypeError


def sample_count(dataset: Any) -> int | None:
    """Return the number of samples, or None if it is not known without reading samples."""
    if not hasattr(dataset, "__len__") or (isinstance(dataset, View) and not is_measured(dataset)):
        return None
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def share_of(sampler: Any) -> int | None:
    """Return the number of processes that share an epoch.

    It is None if nothing is shared, or if the sampler can resume with another number.

    >>> from seqkit import samplers, shard
    >>> share_of(shard("abcdef", 0, 2)), share_of(samplers.SplitSampler(10, 3, 0)), share_of([3, 1])
    (2, 3, None)
    """
    chain = chain_of(sampler)
    if not chain or any(isinstance(one, Share) for one in chain):
        return None
    last = chain[-1]
    if isinstance(last, SplitSampler):
        return last.num_replicas
    if isinstance(last, View):
        return next((node._world_size for node in walk(last) if isinstance(node, Shard)), None)
    # A sampler of another library, or a list of indices, may be the share of one process.
    count = process_count()
    return count if count > 1 and not isinstance(last, Sampler) else None


def is_shared(sampler: Any) -> bool:
    """Return whether the processes of a job may have other keys, but have one state."""
    is_elastic = any(isinstance(one, Share) for one in chain_of(sampler))
    return is_elastic or process_count() > 1 or share_of(sampler) is not None


def process_count() -> int:
    """Return the number of processes of PyTorch's process group, 1 if there is none."""
    group = process_group()
    return 1 if group is None else int(group.get_world_size())
