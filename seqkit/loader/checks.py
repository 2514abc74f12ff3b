"""The checks of a loader's arguments: of each by itself, and of all together, in PyTorch's words."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np

from ..collation.base import shown
from ..core.arguments import (
    WAYS_TO_END,
    as_last,
    check_callable,
    check_iterable,
    int_at_least,
    optional_int,
    refuse_set,
)
from ..core.iteration import is_one_shot
from ..core.source import as_view
from ..engine.settings import CONTEXTS
from ..samplers.distributed import ShardedSampler

__all__ = ["can_only_be_iterated", "check", "iterable_split"]

_FLAGS = ("shuffle", "pin_memory", "drop_last", "persistent_workers", "in_order")
_FUNCTIONS = ("collate_fn", "batchify_fn", "transform", "batch_transform", "worker_init_fn")
_WORDS = {
    "method": ("process", "thread"),
    "on_error": ("raise", "skip", "replace"),
    "iterable_split": ("none", "reader", "workers"),
}
_NEED_WORKERS = {
    "prefetch_factor": "option could only be specified in multiprocessing",
    "timeout": "option needs num_workers > 0",
    "persistent_workers": "option needs num_workers > 0",
    "multiprocessing_context": "can only be used with multi-process loading (num_workers > 0)",
}


def check(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, checked. Raise an error about the first value or combination that is wrong."""
    found = {
        name: value if name in defaults and value is defaults[name] else _checked(name, value)
        for name, value in given.items()
    }
    as_last(found["last_batch"], "DataLoader: last_batch", drop_last=found["drop_last"], allowed=WAYS_TO_END)
    has_keys = found["sampler"] is not None or found["batch_sampler"] is not None
    if isinstance(found["dataset"], Mapping) and not has_keys:
        as_view(found["dataset"], "DataLoader without sampler")
    for name in ("shuffle", "sampler", "batch_sampler") if can_only_be_iterated(found["dataset"]) else ():
        if found[name] is not None and found[name] is not False:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}="
                f"{found[name]!r}. Shuffle it with seqkit.shuffle_buffer(seqkit.uniter(dataset), size)"
            )
    for message in _contradictions(found, defaults):
        raise ValueError(f"DataLoader: {message}")
    return found


def can_only_be_iterated(dataset: Any) -> bool:
    """Return whether a data set has no indices. Those of PyTorch have a `__getitem__` that raises."""
    iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", ())
    return isinstance(dataset, iterable) or not hasattr(dataset, "__getitem__")


def _checked(name: str, value: Any) -> Any:
    """Return the value of one argument, which is not the default."""
    who = f"DataLoader: {name}"
    if name == "dataset":
        _check_dataset(value, who)
    elif name == "batch_size":
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1
        ):
            raise ValueError(f"{who} should be a positive integer value, but got batch_size={value!r}")
        return None if value is None else int(value)
    elif name in _FLAGS:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{who} should be a boolean value, but got {value!r}")
        return bool(value)
    elif name in ("num_workers", "prefetch_factor"):
        return int_at_least(value, who, 0 if name == "num_workers" else 1)
    elif name == "shm_size":
        return optional_int(value, who, least=0)
    elif name in ("sampler", "batch_sampler"):
        check_iterable(value, who, "lists of indices" if name == "batch_sampler" else "indices")
    elif name in _FUNCTIONS or (name == "on_error" and callable(value)):
        check_callable(value, who)
    elif name == "multiprocessing_context" and not (isinstance(value, str) or _is_context(value)):
        raise TypeError(
            f"{who} option should be a valid context object or a string specifying the start method, but got"
            f" {value!r}"
        )
    elif name in _WORDS and not (isinstance(value, str) and value in _WORDS[name]):
        raise ValueError(f"{who} should be {' or '.join(map(repr, _WORDS[name]))}, but got {value!r}")
    return value


def _check_dataset(value: Any, who: str) -> None:
    refuse_set(value, who)
    if isinstance(value, type) or not (hasattr(value, "__getitem__") or hasattr(value, "__iter__")):
        raise TypeError(f"{who} should be an object that is indexable by [i], or iterable, but got {value!r}")


def _is_context(value: Any) -> bool:
    return hasattr(value, "get_start_method")


def _contradictions(given: dict[str, Any], defaults: dict[str, Any]) -> Iterator[str]:
    """Yield a message for each number out of range, and for arguments that exclude each other."""
    batch_size, last_batch, workers = given["batch_size"], given["last_batch"], given["num_workers"]
    has_sampler, has_batches = given["sampler"] is not None, given["batch_sampler"] is not None
    is_iterable = can_only_be_iterated(given["dataset"])
    if given["iterable_split"] not in (None, "none") and not is_iterable:
        yield f"iterable_split={given['iterable_split']!r} is for data sets that can only be iterated"
    if given["seed"] is not None and given["generator"] is not None:
        yield "seed and generator exclude each other: pass only one of them"
    if given["collate_fn"] is not None and given["batchify_fn"] is not None:
        yield "batchify_fn is another name for collate_fn; pass only one of them"
    if has_sampler and given["shuffle"]:
        yield "sampler option is mutually exclusive with shuffle: pass only one"
    # 1 is the default. So an explicit batch_size=1 is accepted, too.
    if has_batches and (batch_size != 1 or given["shuffle"] or has_sampler or given["drop_last"]):
        others = ", ".join(shown(defaults, {name: given[name] for name in defaults}))
        yield (
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last,"
            f" but got {others}"
        )
    if batch_size is None and given["drop_last"]:
        yield "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
    if last_batch is not None and (batch_size is None or has_batches):
        yield f"last_batch={last_batch!r} needs batch_size, and no batch_sampler"
    share = given["sampler"]
    if isinstance(share, ShardedSampler) and share.global_batch is not None:
        size = share.global_batch // share.num_replicas
        if (batch_size or 1) != size:
            yield f"batch_size must be {size}, global_batch / num_replicas, but got {batch_size}"
    if last_batch == "rollover" and not (has_sampler or is_iterable or hasattr(given["dataset"], "__len__")):
        yield "last_batch='rollover' needs a data set with a length"
    if not given["timeout"] >= 0:
        yield f"timeout option should be non-negative, but got {given['timeout']!r}"
    for name, words in _NEED_WORKERS.items() if not workers else ():
        if given[name] != defaults[name]:
            yield f"{name} {words}, but got num_workers=0 and {name}={given[name]!r}"
    context = given["multiprocessing_context"]
    if context is not None and given["method"] == "thread":
        yield "multiprocessing_context says how processes start; leave it out with method='thread'"
    if context is not None and not _is_context(context) and context not in CONTEXTS:
        yield (
            "multiprocessing_context option should specify a valid start method in"
            f" {list(CONTEXTS)}, but got {context!r}"
        )


def iterable_split(options: Any) -> str | None:
    """Return who reads a data set that can only be iterated, or None for a data set with indices."""
    dataset, last = options.dataset, options.last_batch
    if not can_only_be_iterated(dataset):
        return None
    # Other processes do not have the iterator.
    is_local = is_one_shot(dataset) and options.num_workers > 0 and options.method == "process"
    split: str = options.iterable_split or ("reader" if is_local else "none")
    if split != "reader" and is_local and isinstance(dataset, Generator):
        raise ValueError(
            f"DataLoader: with iterable_split={split!r} workers iterate the data set, but a generator cannot"
            " be sent to a process. Leave iterable_split out, or set it to 'reader'"
        )
    if last == "rollover" or (split == "workers" and (last == "pad" or not options.in_order)):
        raise ValueError(
            f"DataLoader: iterable_split={split!r} does not go with last_batch={last!r},"
            f" in_order={options.in_order}. Leave them out"
        )
    # To pad a batch, samples of another batch are needed.
    return "reader" if last == "pad" else split
