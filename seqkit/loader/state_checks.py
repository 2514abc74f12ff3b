"""The state of a `DataLoader`: a position, and what its meaning depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.arguments import int_at_least
from ..core.randomness import digest
from ..core.set_epoch import has_method
from ..core.tracebacks import warn
from ..core.view import View, is_measured

__all__ = [
    "check_key",
    "check_samples",
    "check_share",
    "check_state",
    "has_exact_state",
    "key_digest",
    "sample_count",
]

# Later fields are "order", the kind of the order, "samples", the number of samples, "key", a digest of the
# last key that was read, "share", how processes share the epoch, "dataset", the state of the data set, and
# "dataset_order", a digest of its order. States without them are believed.
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
