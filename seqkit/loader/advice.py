"""Warnings about what is certain, silent and costly. Each names the remedy."""

from __future__ import annotations

from typing import Any

from ..core.expression import walk
from ..core.lengths import is_measured
from ..core.tracebacks import warn
from ..core.view import View
from ..engine.resources import usable_cpus
from ..samplers.distributed import process_group
from ..views.gather import Gather
from ..views.shard import Shard

__all__ = ["process_count", "warn_of_no_batch", "warn_of_one_reader", "warn_of_ranks", "warn_of_workers"]


def warn_of_workers(workers: int) -> None:
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


def warn_of_one_reader(dataset: Any, workers: int) -> None:
    """Warn that one worker reads an iterable data set, and the others have nothing to do."""
    warn(
        f"DataLoader: one of the {workers} workers reads the iterable data set ({type(dataset).__name__}),"
        " because iterable_split was not given. Set it to 'none' to keep it so, or to 'workers' if the data"
        " set divides itself among the workers",
        UserWarning,
    )


def warn_of_no_batch(keys: Any, size: int | None, had_batches: bool) -> bool:
    """Warn of an epoch without batches if it has samples, or if an earlier epoch had batches.

    `keys` is the sampler, or the data set if there is none. Return whether there was a warning.
    """
    is_known = hasattr(keys, "__len__") and (not isinstance(keys, View) or is_measured(keys))
    samples = len(keys) if is_known else 0
    if samples and size is not None and samples < size:
        problem = f"{samples} samples do not fill a batch of batch_size={size}. Set drop_last to False"
    elif had_batches:
        kind = type(keys).__name__
        problem = f"is {kind} an iterator that an earlier epoch has read? Make a new one in its __iter__"
    else:
        return False
    warn(f"DataLoader: an epoch has no batches: {problem}", UserWarning)
    return True


def warn_of_ranks(dataset: Any) -> bool:
    """Warn if there are several processes, and each shuffles and reads all samples.

    Return whether there was a warning.
    """
    count = process_count()
    if count < 2 or (isinstance(dataset, View) and any(map(_divides, walk(dataset)))):
        return False
    warn(
        f"DataLoader: torch.distributed has {count} processes, and each of them reads all samples. Pass"
        " sampler=seqkit.samplers.DistributedSampler(dataset), or the data set seqkit.shard(dataset, rank,"
        f" {count}). If that is meant, pass sampler=seqkit.samplers.RandomSampler(dataset)",
        UserWarning,
    )
    return True


def _divides(node: View[Any]) -> bool:
    return isinstance(node, Shard) or (isinstance(node, Gather) and isinstance(node._map, range))


def process_count() -> int:
    """Return the number of processes of PyTorch's process group, 1 if there is none."""
    group = process_group()
    return 1 if group is None else int(group.get_world_size())
