"""Warnings about arguments that are legal and most likely not meant. Each names the remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from ..core.tracebacks import warn
from ..core.view import View, is_measured
from ..prefetch.resources import memory_limit_bytes, resident_bytes, usable_cpus
from ..samplers.base import Sampler
from ..samplers.batches import BatchSampler
from ..samplers.distributed import DistributedSampler, ShardedSampler, SplitSampler
from ..samplers.order import IntervalSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from ..samplers.weighted import WeightedRandomSampler
from .options import Options
from .state import chain_of, has_slice, is_a_share, sample_count

__all__ = ["advise", "warn_of_ranks"]

# Samplers whose length is known without reading or planning anything.
_MEASURED = (
    *(BatchSampler, DistributedSampler, IntervalSampler, RandomSampler, SequentialSampler),
    *(ShardedSampler, SplitSampler, SubsetRandomSampler, WeightedRandomSampler),
)


def advise(dataset: Any, options: Options, sampler: Any, length: Callable[[], int | None]) -> None:
    """Warn of a loader whose arguments are most likely not meant.

    Parameters
    ----------
    dataset : View, indexable or iterable
    options : Options
        With `iterable_split` if the data set can only be iterated.
    sampler : iterable or None
        The one that gives the keys to read.
    length : callable
        Returns the number of batches of an epoch, or None.
    """
    warn_of_too_much(options)
    if _may_leave_out_all(options, sampler) and _is_measured(dataset, sampler) and length() == 0:
        _warn_of_no_batch(dataset, options, sampler)
    if options.iterable_split == "none" and options.num_workers > 1 and _chooses_by_number(dataset):
        warn(
            f"DataLoader: the data set ({type(dataset).__name__}) chooses its part by get_worker_info().id,"
            " but one worker reads it, with id 0, so the other parts are missed. Set iterable_split to"
            " 'workers', and each worker reads its part",
            UserWarning,
        )


def _may_leave_out_all(options: Options, sampler: Any) -> bool:
    """Return whether these arguments leave out samples, so that none may be left."""
    drops = options.last == "discard" or any(getattr(part, "drop_last", False) for part in chain_of(sampler))
    return drops or is_a_share(sampler)


def _is_measured(dataset: Any, sampler: Any) -> bool:
    """Return whether the length is known without reading, planning, or code of a sampler of the user's."""
    if sampler is None:
        return not isinstance(dataset, View) or is_measured(dataset)
    return all(is_measured(part) if isinstance(part, View) else _is_sized(part) for part in chain_of(sampler))


def _is_sized(part: Any) -> bool:
    return isinstance(part, list | tuple | range | np.ndarray) or (
        type(part) in _MEASURED if isinstance(part, Sampler) else _is_known(part)
    )


def _warn_of_no_batch(dataset: Any, options: Options, sampler: Any) -> None:
    samples = sample_count(chain_of(sampler)[-1] if sampler is not None else dataset)
    size = options.batch_size if options.makes_batches else getattr(sampler, "batch_size", None)
    if samples and isinstance(size, int):  # with none, there is nothing to make batches of
        warn(
            f"DataLoader: an epoch has no batches, because {samples} samples do not fill a batch of"
            f" batch_size={size}, and short batches are left out. Set drop_last to False, or batch_size to at"
            f" most {samples}",
            UserWarning,
        )
    elif samples == 0 and is_a_share(sampler) and sample_count(dataset):
        warn(
            f"DataLoader: an epoch has no batches, because the sampler gives none of {sample_count(dataset)}"
            " samples to this process. Use fewer processes, or even='pad'",
            UserWarning,
        )


def _chooses_by_number(dataset: Any) -> bool:
    """Return whether a data set asks for the number of its worker, but not for the number of workers."""
    names = {name for code in _codes_of(type(dataset)) for name in code.co_names}
    return {"get_worker_info", "id"} <= names and "num_workers" not in names


def _codes_of(kind: type) -> Iterator[CodeType]:
    pending = [getattr(value, "__code__", None) for base in kind.__mro__ for value in vars(base).values()]
    while pending:
        code = pending.pop()
        if isinstance(code, CodeType):
            yield code
            pending.extend(code.co_consts)


def warn_of_ranks(dataset: Any, options: Options, sampler: Any) -> bool:
    """Warn if there are several processes and each reads all samples. Return whether there was a warning."""
    group: Any = sys.modules.get("torch.distributed")
    if group is None or not (group.is_available() and group.is_initialized()):
        return False
    processes = group.get_world_size()
    # An iterable data set, and indices that the user has chosen, may be a share.
    if processes < 2 or options.iterable_split is not None or _may_be_a_share(dataset, sampler):
        return False
    warn(
        f"DataLoader: torch.distributed has {processes} processes, and each of them reads all samples. Pass"
        " sampler=seqkit.samplers.DistributedSampler(dataset), or the data set seqkit.shard(dataset, rank,"
        f" {processes}). Ignore this warning if the data set is the share of its process",
        UserWarning,
    )
    return True


def _may_be_a_share(dataset: Any, sampler: Any) -> bool:
    if isinstance(dataset, View) and has_slice(dataset):
        return True
    return is_a_share(sampler) or any(not _is_known(part) for part in chain_of(sampler))


def _is_known(part: Any) -> bool:
    """Return whether a sampler is one of a library."""
    return isinstance(part, Sampler | View) or type(part).__module__.startswith("torch.utils.data")


def warn_of_too_much(options: Options) -> None:
    """Warn if there are more workers than CPUs, or more than fit into memory."""
    workers = options.num_workers
    cpus = usable_cpus() if workers else 0
    if workers > cpus:
        # In the words of PyTorch, for which programs have warning filters.
        warn(
            f"This DataLoader will create {workers} worker processes in total. Our suggested max number of"
            f" worker in current system is {cpus}, which is smaller than what this DataLoader is going to"
            " create. Set num_workers to that number, unless workers mostly wait",
            UserWarning,
        )
    if not workers or options.method != "process":
        return
    needed, limit = workers * resident_bytes(), memory_limit_bytes()
    if needed > limit:
        warn(
            f"DataLoader: {workers} workers that grow as large as this process need {needed >> 20} MiB, but"
            f" only {int(limit) >> 20} MiB are available",
            UserWarning,
        )
