"""Warnings about what is certain, silent and costly. Each names the remedy."""

from __future__ import annotations

from typing import Any

from ..core.expression import walk
from ..core.tracebacks import warn
from ..core.view import View
from ..engine.resources import usable_cpus
from ..samplers.base import chain_of
from ..samplers.batches import BatchSampler
from ..samplers.distributed import Share
from ..views.gather import Gather
from ..views.shard import Shard
from .options import Options
from .state_checks import process_count, sample_count

__all__ = [
    "warn_of_exhausted",
    "warn_of_no_batch",
    "warn_of_one_reader",
    "warn_of_ranks",
    "warn_of_too_many_workers",
]


def warn_of_too_many_workers(workers: int) -> None:
    """Warn if there are more worker processes than CPUs. More threads are usual where samples wait."""
    cpus = usable_cpus() if workers > 1 else workers
    if workers > cpus:
        # In the words of PyTorch, for which programs have warning filters.
        warn(
            f"This DataLoader will create {workers} worker processes in total. Our suggested max number of"
            f" worker in current system is {cpus}, which is smaller than what this DataLoader is going to"
            " create. Set num_workers to that number, unless workers mostly wait",
            UserWarning,
        )


def warn_of_one_reader(options: Options) -> None:
    """Warn that one worker reads an iterable data set, and the others have nothing to do."""
    warn(
        f"DataLoader: one of the {options.num_workers} workers reads the iterable data set"
        f" ({type(options.dataset).__name__}), because iterable_split was not given. Set it to 'none' to keep"
        " it so, or to 'workers' if the data set divides itself among the workers",
        UserWarning,
    )


def warn_of_no_batch(options: Options, sampler: Any) -> bool:
    """Warn of an epoch that has samples, but no batches. Return whether there was a warning."""
    inner = None if sampler is None else chain_of(sampler)[-1]
    samples = sample_count(options.dataset if inner is None else inner)
    # A loader that makes batches of keys has such a sampler of its own.
    made = sampler if isinstance(sampler, BatchSampler) else options
    size = made.batch_size
    if made.last == "rollover":
        return False  # the samples come in a later epoch
    if samples and size is not None and samples < size:
        problem = (
            f"{samples} samples do not fill a batch of batch_size={size}, and short batches are left out. Set"
            f" drop_last to False, or batch_size to at most {samples}"
        )
    elif isinstance(inner, Share | Shard) and (samples := sample_count(options.dataset)):
        problem = (
            f"the sampler gives none of {samples} samples to this process. Use fewer processes, or even='pad'"
        )
    else:
        return False
    warn(f"DataLoader: an epoch has no batches, because {problem}", UserWarning)
    return True


def warn_of_exhausted(options: Options, sampler: Any) -> bool:
    """Warn of an epoch without batches after one that had some. Return whether there was a warning."""
    what, source = ("data set", options.dataset) if sampler is None else ("sampler", options.given_sampler)
    warn(
        f"DataLoader: an epoch has no batches, although an earlier one had some. Does the {what}"
        f" ({type(source).__name__}) read an iterator that is at its end? Make a new one in its __iter__",
        UserWarning,
    )
    return True


def warn_of_ranks(options: Options, sampler: Any) -> bool:
    """Warn if there are several processes, and each shuffles and reads all samples.

    Return whether there was a warning. A sampler says that it is meant.
    """
    dataset, count = options.dataset, process_count() if options.shuffle else 1
    if count < 2 or (isinstance(dataset, View) and any(map(_divides, walk(dataset)))):
        return False
    warn(
        f"DataLoader: torch.distributed has {count} processes, and each of them reads all samples. Pass"
        " sampler=seqkit.samplers.DistributedSampler(dataset), or the data set seqkit.shard(dataset, rank,"
        f" {count}). If each process is to read all of its data set, pass"
        " sampler=seqkit.samplers.RandomSampler(dataset)",
        UserWarning,
    )
    return True


def _divides(node: View[Any]) -> bool:
    return isinstance(node, Shard) or (isinstance(node, Gather) and isinstance(node._map, range))
