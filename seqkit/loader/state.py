"""The state of a `DataLoader`: a position, and what its meaning depends on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arguments import int_at_least
from ..core.randomness import digest
from ..core.set_epoch import has_method, takes_epoch
from ..core.tracebacks import warn
from ..core.view import View, is_measured
from ..samplers.base import Sampler
from ..samplers.distributed import DistributedSampler, ShardedSampler
from ..views.gather.gather import Gather

__all__ = [
    "chain_of",
    "check_key",
    "check_samples",
    "check_share",
    "check_state",
    "forgets_its_order",
    "has_exact_state",
    "has_slice",
    "is_a_share",
    "key_digest",
    "order_name",
    "sample_count",
    "share_of",
]

# Later fields are "order", the kind of the order, "samples", the number of samples, "key", a digest of the
# last key that was read, "share", how processes share the epoch, and "dataset", the state of the data set.
# States without them are believed.
FIELDS = ("version", "epoch", "batch", "seed", "batch_size", "sampler")


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
    if state.get("order", order) != order:
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
    saved = state.get("samples")
    if state["batch"] and None not in (saved, samples) and saved != samples:
        raise ValueError(
            f"DataLoader: the state is in the middle of an epoch over {saved} samples, but the data set has"
            f" {samples}. Load it into a loader of the same data set, or call set_epoch to begin an epoch"
        )


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


# Attributes of samplers that give the share of a process: the number of processes.
_COUNTS = ("num_replicas", "num_processes", "world_size", "num_parts")


def check_share(state: Mapping[str, Any], share: tuple[str, int] | None) -> None:
    """Refuse a state in the middle of an epoch that was shared in another way."""
    saved = state.get("share")
    if not state["batch"] or not saved or share is None or saved[0] != share[0]:
        return
    # The slices of processes differ by one index at most.
    if abs(saved[1] - share[1]) > (share[0] != "processes"):
        raise ValueError(
            f"DataLoader: the state is in the middle of an epoch of {saved[1]} {saved[0]}, but this loader"
            f" has {share[1]}. Resume with as many processes, or share the epoch by"
            " seqkit.samplers.DistributedSampler or ShardedSampler, which resume with any number"
        )


def check_key(key: Any, saved: str | None) -> None:
    """Warn if a key is not the one with this digest."""
    found = key_digest(key)
    if None not in (saved, found) and saved != found:
        warn(
            "DataLoader: the sampler gives other indices than it gave before the state was saved, so samples"
            " may come twice or be missed. Use the same sampler, and one whose order follows from seed and"
            " epoch, such as those of seqkit.samplers",
            UserWarning,
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


def has_exact_state(dataset: Any) -> bool:
    """Return whether a data set has `state_dict` and `load_state_dict`, by the protocol of torchdata.

    The state of a shuffled stream of Hugging Face leaves out the samples in its shuffle buffer. A data set
    that is its own iterator may begin anew at `iter`. Their samples are read again instead, which is exact.
    """
    if hasattr(type(dataset), "__next__"):
        return False
    if not (has_method(dataset, "state_dict") and has_method(dataset, "load_state_dict", {})):
        return False
    stage = getattr(dataset, "_ex_iterable", None)
    while stage is not None and type(stage).__name__ != "BufferShuffledExamplesIterable":
        stage = getattr(stage, "ex_iterable", None)
    return stage is None


def chain_of(sampler: Any) -> list[Any]:
    """Return a sampler and the samplers inside it."""
    found: list[Any] = []
    while sampler is not None and len(found) < 16:
        found.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return found


def is_a_share(sampler: Any) -> bool:
    """Return whether a sampler gives the share of one process, so that each process has other keys."""
    shares = (*_COUNTS, "rank", "part_index", "process_index")
    return any(
        any(hasattr(one, name) for name in shares) or (isinstance(one, View) and has_slice(one))
        for one in chain_of(sampler)
    )


def has_slice(view: View[Any]) -> bool:
    """Return whether a view contains a slice, as `shard` makes one."""
    pending = [view]
    while pending:
        node = pending.pop()
        if isinstance(node, Gather) and isinstance(node._map, range):
            return True
        pending.extend(node._sources)
    return False


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
