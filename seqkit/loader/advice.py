"""Warnings about arguments that are legal and most likely not meant. Each names the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.processes import process_group
from ..core.set_epoch import has_method, takes_epoch
from ..core.tracebacks import warn
from ..core.view import View
from ..prefetch.repeated import code_of, mentioned, names_in_class
from ..prefetch.resources import usable_cpus
from ..samplers.base import Sampler, chain_of
from ..samplers.distributed import DistributedSampler
from ..samplers.random_order import RandomSampler
from ..views.bases.random import is_reordered
from ..views.gather.part_of_shuffle import warn_of_part_of_shuffle
from .options import Options
from .orders import forgets_its_order, has_slice, is_a_share, order_name
from .state_checks import sample_count

__all__ = [
    "warn_of_exhausted",
    "warn_of_forgotten_order",
    "warn_of_left_out_state",
    "warn_of_missed_parts",
    "warn_of_no_batch",
    "warn_of_other_samples",
    "warn_of_ranks",
    "warn_of_too_many_workers",
    "warn_of_uncalled_hook",
]


def warn_of_too_many_workers(options: Options) -> None:
    """Warn if there are more worker processes than CPUs. More threads are usual where samples wait."""
    workers = options.num_workers if options.method == "process" else 0
    cpus = usable_cpus() if workers else 0
    if workers > cpus:
        # In the words of PyTorch, for which programs have warning filters.
        warn(
            f"This DataLoader will create {workers} worker processes in total. Our suggested max number of"
            f" worker in current system is {cpus}, which is smaller than what this DataLoader is going to"
            " create. Set num_workers to that number, unless workers mostly wait",
            UserWarning,
        )


def warn_of_missed_parts(options: Options) -> None:
    """Warn of a data set that would read the part of worker 0 only, because one worker reads it."""
    dataset = options.dataset
    if _chooses_by_number(dataset):
        who = f"the data set ({type(dataset).__name__}) chooses its part by get_worker_info().id"
    elif "dataset" in mentioned(code_of(options.worker_init_fn)):
        who = "worker_init_fn may choose the part of the data set for each worker"
    else:
        return
    warn(
        f"DataLoader: {who}, but one worker reads it, with id 0, so the other parts are missed. Set"
        " iterable_split to 'workers', and each worker reads its part",
        UserWarning,
    )


def warn_of_uncalled_hook(dataset: Any) -> None:
    """Warn of a data set that changes at the end of each epoch in the way of Keras."""
    if has_method(dataset, "on_epoch_end") and not takes_epoch(dataset):
        warn(
            f"DataLoader: on_epoch_end of the data set ({type(dataset).__name__}) is not called, so what it"
            " changes, such as the order, stays the same. Give the data set set_epoch(epoch), which is called"
            " before each epoch, also in workers",
            UserWarning,
        )


def _chooses_by_number(dataset: Any) -> bool:
    """Return whether a data set asks for the number of its worker, but not for the number of workers."""
    names = names_in_class(dataset)
    return {"get_worker_info", "id"} <= names and "num_workers" not in names


def warn_of_no_batch(options: Options, sampler: Any) -> bool:
    """Warn of an epoch that has samples, but no batches. Return whether there was a warning."""
    samples = sample_count(options.dataset if sampler is None else chain_of(sampler)[-1])
    size = options.batch_size if options.makes_batches else getattr(sampler, "batch_size", None)
    if "rollover" in (options.last, getattr(sampler, "last", None)):
        return False  # the samples come in a later epoch
    if samples and isinstance(size, int) and samples < size:
        problem = (
            f"{samples} samples do not fill a batch of batch_size={size}, and short batches are left out. Set"
            f" drop_last to False, or batch_size to at most {samples}"
        )
    elif is_a_share(sampler) and (samples := sample_count(options.dataset)):
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
    """Warn if there are several processes and each reads all samples. Return whether there was a warning."""
    group = process_group()
    if group is None:
        return False
    processes = group.get_world_size()
    # An iterable data set, and indices that the user has chosen, may be a share.
    if processes < 2 or options.is_iterable or _may_be_a_share(options.dataset, sampler):
        return False
    warn(
        f"DataLoader: torch.distributed has {processes} processes, and each of them reads all samples. Pass"
        " sampler=seqkit.samplers.DistributedSampler(dataset), or the data set seqkit.shard(dataset, rank,"
        f" {processes}). Ignore this warning if the data set is the share of its process",
        UserWarning,
    )
    return True


def warn_of_other_samples(options: Options, sampler: Any) -> bool:
    """Warn of a loader with other samples in each epoch. Return whether there was a warning."""
    inner = [one for one in chain_of(options.given_sampler)[-1:] if isinstance(one, Sampler | View)]
    if warn_of_part_of_shuffle(options.dataset, "DataLoader") or any(
        warn_of_part_of_shuffle(getattr(one, "indices", one), "DataLoader: sampler") for one in inner
    ):
        return True
    dataset = options.dataset
    if sampler is None or not isinstance(dataset, View) or not is_reordered(dataset):
        return False
    given = chain_of(options.given_sampler)[-1:]
    if not given or not _gives_positions(given[0], sample_count(dataset) or 0):
        return False
    warn(
        "DataLoader: the sampler chooses positions of a shuffled data set, and other samples stand there in"
        " each epoch. Pass the data set before it is shuffled. The sampler determines the order",
        UserWarning,
    )
    return True


def warn_of_forgotten_order(options: Options, sampler: Any) -> bool:
    """Warn of a state without the order of its sampler. Return whether there was a warning."""
    if not forgets_its_order(sampler):
        return False
    warn(
        f"DataLoader: the state cannot hold the order of {order_name(sampler)}, which draws it from a"
        " generator in every epoch, so samples may come twice or be missed after a resume. Use shuffle=True,"
        " or a sampler of seqkit.samplers",
        UserWarning,
    )
    return True


def warn_of_left_out_state(options: Options, sampler: Any) -> bool:
    """Warn of a state without that of the data set. Return whether there was a warning."""
    warn(
        f"DataLoader: the state leaves out the state_dict of the data set ({type(options.dataset).__name__}),"
        " because workers read copies of it or read it ahead. Set num_workers to 0 to keep it",
        UserWarning,
    )
    return True


def _gives_positions(sampler: Any, n: int) -> bool:
    """Does a sampler choose some of n samples, or have a weight, length or key for each of them?"""
    if isinstance(sampler, RandomSampler | DistributedSampler):
        return False
    if hasattr(sampler, "weights") or getattr(sampler, "_covered", None) is not None:
        return True
    is_known = isinstance(sampler, Sampler | View | Sequence | np.ndarray) or hasattr(sampler, "indices")
    is_shared = isinstance(sampler, View) and has_slice(sampler)
    return is_known and not is_shared and (sample_count(sampler) or 0) < n


def _may_be_a_share(dataset: Any, sampler: Any) -> bool:
    if isinstance(dataset, View) and has_slice(dataset):
        return True
    return is_a_share(sampler) or not all(
        isinstance(part, Sampler | View) or type(part).__module__.startswith("torch.utils.data")
        for part in chain_of(sampler)
    )
