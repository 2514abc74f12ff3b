"""What arguments of loaders and samplers may be, and which go together. The words are PyTorch's."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from ..checks import check_iterable, optional_int
from ..prefetch.resources import memory_limit_bytes, resident_bytes, usable_cpus
from ..randomness import as_seed

__all__ = [
    "as_collate_fn",
    "as_context",
    "as_last_batch",
    "as_loader_seed",
    "as_timeout",
    "as_workers",
    "check_clashes",
    "check_kinds",
    "check_last_batch",
    "check_persistent",
    "check_streams",
    "warn_of_too_much",
]

LAST = ("keep", "discard", "rollover", "pad")


def as_workers(num_workers: Any, prefetch_factor: Any) -> tuple[int, int | None]:
    """Return the number of workers and of the batches ahead per worker: 2 by default, None without workers.

    >>> as_workers(3, None), as_workers(0, None)
    ((3, 2), (0, None))
    """
    workers = _as_int(num_workers, "num_workers")
    if workers < 0:
        raise ValueError(
            "DataLoader: num_workers option should be non-negative; use num_workers=0 to disable"
            f" multiprocessing. Got {num_workers!r}"
        )
    if prefetch_factor is None:
        return workers, 2 if workers else None
    ahead = _as_int(prefetch_factor, "prefetch_factor")
    if not workers:
        raise ValueError(
            "DataLoader: prefetch_factor option could only be specified in multiprocessing. Let"
            f" num_workers > 0 to enable multiprocessing, otherwise leave prefetch_factor None, not {ahead}"
        )
    if ahead < 1:
        raise ValueError(
            f"DataLoader: prefetch_factor option should be non-negative and not 0, but got {ahead}"
        )
    return workers, ahead


def as_timeout(timeout: Any, workers: int) -> float | None:
    """Return how many seconds a batch may take, None for any number.

    >>> as_timeout(0, 0), as_timeout(2, 1)
    (None, 2.0)
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number):
        raise TypeError(f"DataLoader: timeout option should be a number of seconds, but got {timeout!r}")
    if not timeout >= 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, but got {timeout!r}")
    if timeout and not workers:
        raise ValueError(
            "DataLoader: timeout option needs num_workers > 0: nobody can interrupt what computes in the"
            f" reading thread. Got timeout={timeout!r}"
        )
    return float(timeout) or None


def as_context(context: Any, workers: int) -> str | None:
    """Return the start method that a context of `multiprocessing` stands for.

    >>> import multiprocessing
    >>> as_context(multiprocessing.get_context("spawn"), 2), as_context(None, 0)
    ('spawn', None)
    """
    if context is None:
        return None
    if not workers:
        raise ValueError(
            "DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers >"
            " 0), but got num_workers=0"
        )
    method = context.get_start_method() if hasattr(context, "get_start_method") else context
    if not isinstance(method, str):
        raise TypeError(
            "DataLoader: multiprocessing_context option should be a valid context object or a string"
            f" specifying the start method, but got {context!r}"
        )
    from ..prefetch.settings import CONTEXTS  # the engine, which samplers and collation do without

    if method not in CONTEXTS:
        raise ValueError(
            "DataLoader: multiprocessing_context option should specify a valid start method in"
            f" {list(CONTEXTS)}, but got {context!r}"
        )
    return method


def as_last_batch(last_batch: Any, drop_last: bool) -> str:
    """Return what becomes of a last batch that is short; `drop_last` is another word for "discard".

    >>> as_last_batch(None, True), as_last_batch("pad", False)
    ('discard', 'pad')
    """
    if last_batch is None:
        return "discard" if drop_last else "keep"
    if last_batch not in LAST:
        raise ValueError(f"DataLoader: last_batch should be one of {', '.join(LAST)}, but got {last_batch!r}")
    if drop_last and last_batch != "discard":
        raise ValueError(
            f"DataLoader: drop_last=True means last_batch='discard', but got last_batch={last_batch!r}"
        )
    return str(last_batch)


def check_last_batch(last_batch: Any, batch_size: Any, batch_sampler: Any, is_stream: bool) -> None:
    """Refuse `last_batch` where the loader makes no batches, or does not know which one is the last."""
    if last_batch is not None and (batch_size is None or batch_sampler is not None):
        raise ValueError(f"DataLoader: last_batch={last_batch!r} needs batch_size, and no batch_sampler")
    if is_stream and last_batch in ("rollover", "pad"):
        raise ValueError(
            f"DataLoader: last_batch={last_batch!r} needs a data set with indices; this one can only be"
            " iterated"
        )


def check_persistent(persistent_workers: bool, workers: int) -> None:
    if persistent_workers and not workers:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0")


def as_collate_fn(collate_fn: Any, batchify_fn: Any) -> Any:
    """Return the function under either of its names."""
    if collate_fn is not None and batchify_fn is not None:
        raise ValueError("DataLoader: batchify_fn is another name for collate_fn; leave one of them out")
    return batchify_fn if collate_fn is None else collate_fn


def as_loader_seed(seed: Any, generator: Any) -> int:
    """Return the seed of a loader: given, or drawn once from a generator or the system."""
    if seed is not None and generator is not None:
        raise ValueError("DataLoader: seed and generator exclude each other: leave one of them out")
    if seed is not None:
        return as_seed(seed, "DataLoader: seed")
    try:
        return as_seed(generator, "DataLoader: generator")
    except TypeError:
        raise TypeError(
            "DataLoader: generator should be an int of at least 0, a SeedSequence, a Generator of numpy or"
            f" torch, or None, but got {generator!r}"
        ) from None


def check_streams(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """Refuse arguments that need indices, of which a data set that can only be iterated has none."""
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got"
                f" {name}={value!r}: what can only be iterated has no indices"
            )


def warn_of_too_much(workers: int, method: str) -> None:
    """Warn where there are more workers than CPUs, or where they would not fit into memory."""
    if not workers:
        return
    cpus = usable_cpus()
    if workers > cpus:
        warnings.warn(
            f"DataLoader: This DataLoader will create {workers} workers in total. This process may use {cpus}"
            " CPUs: more workers than that pay only if they mostly wait",
            UserWarning,
            stacklevel=5,
        )
    if method != "process":
        return
    needed, limit = workers * resident_bytes(), memory_limit_bytes()
    if needed > limit:
        warnings.warn(
            f"DataLoader: {workers} workers that grow as large as this process need {needed >> 20} MiB, but"
            f" {int(limit) >> 20} MiB is all there is",
            UserWarning,
            stacklevel=5,
        )


def _as_int(value: Any, name: str) -> int:
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"DataLoader: {name} option should be an int, but got {value!r}")


def check_kinds(
    dataset: Any,
    sampler: Any,
    batch_sampler: Any,
    collate_fn: Any,
    batchify_fn: Any,
    worker_init_fn: Any,
    transform: Any,
    batch_transform: Any,
    on_error: Any,
    method: Any,
    shm_size: Any,
    **others: Any,
) -> None:
    """Refuse arguments of `DataLoader` that are of no use by themselves."""
    if not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")) or isinstance(dataset, type):
        raise TypeError(
            "DataLoader: dataset should be indexable by [i], or iterable, but got"
            f" {dataset.__name__ if isinstance(dataset, type) else type(dataset).__name__}"
        )
    if sampler is not None:
        check_iterable(sampler, "DataLoader: sampler")
    if batch_sampler is not None:
        check_iterable(batch_sampler, "DataLoader: batch_sampler", "lists of indices")
    if on_error not in ("raise", "skip", "replace") and not callable(on_error):
        raise ValueError(
            f"DataLoader: on_error should be 'raise', 'skip', 'replace' or callable, but got {on_error!r}"
        )
    functions = {
        "collate_fn": collate_fn,
        "batchify_fn": batchify_fn,
        "worker_init_fn": worker_init_fn,
        "transform": transform,
        "batch_transform": batch_transform,
    }
    for name, value in functions.items():
        if value is not None and not callable(value):
            raise TypeError(f"DataLoader: {name} should be callable or None, but got {value!r}")
    if method not in ("process", "thread"):
        raise ValueError(f"DataLoader: method should be 'process' or 'thread', but got {method!r}")
    optional_int(shm_size, "DataLoader: shm_size", least=0)


def check_clashes(batch_size: Any, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    """Refuse arguments of `DataLoader` that exclude each other.

    >>> check_clashes(1, True, [2, 0], None, False)
    Traceback (most recent call last):
    ValueError: DataLoader: sampler option is mutually exclusive with shuffle: leave one of them out
    """
    if sampler is not None and shuffle:
        raise ValueError(
            "DataLoader: sampler option is mutually exclusive with shuffle: leave one of them out"
        )
    # 1 is the default, so that it cannot be told from no batch_size at all.
    one = not isinstance(batch_size, bool) and batch_size == 1
    if batch_sampler is not None and not (one and not shuffle and sampler is None and not drop_last):
        raise ValueError(
            "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and"
            f" drop_last, but got batch_size={batch_size!r}, shuffle={shuffle}, sampler={sampler!r},"
            f" drop_last={drop_last}"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with"
            " drop_last: leave one of them out"
        )
