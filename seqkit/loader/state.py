"""The state of a `DataLoader`: what was delivered of an order, and what the order depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.arguments import int_at_least
from ..core.randomness import digest
from ..core.set_epoch import has_method
from ..core.source import as_view
from ..samplers.base import order_of
from ..samplers.distributed import ShardedSampler, SplitSampler, world_of
from ..views.bases.order_digest import order_digest, refuse_other_order
from .advice import process_count
from .checks import can_only_be_iterated
from .epoch import Position, checksum
from .keys import AtKeys, Samples
from .pipeline import Pipeline

__all__ = ["Units", "batch_of", "check_state", "keeps_dataset_state", "state_at"]

_FIELDS = ("version", "epoch", "delivered", "unit", "order")


class Units:
    """How the batches of a loader count in the order that all processes share.

    Attributes
    ----------
    unit : str
        "samples", or "batches" for a batch sampler.
    share : ShardedSampler or None
        The sampler that deals the order to processes, if it can go on with another number of them.
    step : int
        Units that all processes read with one batch of each.
    world : int
        Number of processes that must be the same after a resume. 1 if it does not matter.
    is_checked : bool
        Whether the state has a checksum of the keys that a sampler of another library gave.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        has_batches = pipeline.options.batch_sampler is not None
        self.unit = "batches" if has_batches else "samples"
        outer = pipeline.batch_sampler if has_batches else pipeline.sampler
        is_dealt = isinstance(outer, ShardedSampler) and not outer.contiguous
        self.share = outer if is_dealt else None
        self.step = (pipeline.size or 1) * (outer.num_replicas if is_dealt else 1)
        self.world = 1
        if pipeline.has_sampler and not is_dealt:
            parts = process_count() if pipeline.is_foreign else 1
            if isinstance(pipeline.innermost, SplitSampler):
                parts = pipeline.innermost.num_replicas
            self.world = max(parts, world_of(pipeline.keys))
        self.is_checked = pipeline.is_foreign and not is_dealt and self.world == 1

    def base(self) -> int:
        """Return how many units other numbers of processes have read of the epoch."""
        return 0 if self.share is None else int(self.share.read)

    def resume(self, delivered: int, batches: int | None) -> int:
        """Return the batch at which an epoch of so many batches goes on.

        The rest of a shared order is dealt anew if the batches of the processes do not end there.
        """
        batch, rest = divmod(delivered - self.base(), self.step)
        is_beyond = batches is not None and batch > batches
        if self.share is not None and (rest or is_beyond):
            self.share.read, batch = delivered, 0
        elif is_beyond:
            raise ValueError(f"DataLoader: the state is behind batch {batch}, but an epoch has {batches}")
        return batch


def state_at(pipeline: Pipeline, position: Position, foreign_epoch: int | None) -> dict[str, Any]:
    """Return the state of a loader whose consumer is at a position.

    `foreign_epoch` is the number that a sampler of another library was told last.
    """
    units, options = Units(pipeline), pipeline.options
    delivered = position.base + position.batch * units.step
    has_seed = options.shuffle or not options.seed is options.generator is None
    state = {
        "seed": pipeline.seed if has_seed else None,
        "global_batch": None if pipeline.size is None else units.step,
        "sampler": position.sampler,
        "sampler_epoch": foreign_epoch if pipeline.is_foreign else None,
        "dataset": options.dataset.state_dict() if keeps_dataset_state(options) else None,
        "keys": position.crcs[0] if position.crcs and delivered else None,
        "world": units.world if units.world > 1 else None,
    }
    return {
        "version": 1,
        "epoch": position.epoch,
        "delivered": delivered,
        "unit": units.unit,
        "order": fingerprint(pipeline, position.epoch) if delivered else None,
        **{name: value for name, value in state.items() if value is not None},
    }


def keeps_dataset_state(options: Any) -> bool:
    """Return whether the data set has a state, and is read in step with the consumer of this process.

    A data set that can only be iterated is read again up to the position, which is exact for all of them.
    """
    data = options.dataset
    is_in_step = not options.num_workers and not can_only_be_iterated(data)
    return is_in_step and has_method(data, "state_dict") and has_method(data, "load_state_dict", {})


def fingerprint(pipeline: Pipeline, epoch: int) -> str:
    """Return a digest of the order in which all processes together read the data set.

    It is computed once in an epoch, because that takes long for large arrays of indices.
    """
    key = pipeline.seed, epoch
    if key not in pipeline.fingerprints:
        pipeline.fingerprints = {key: _fingerprint(pipeline)}
    return pipeline.fingerprints[key]


def _fingerprint(pipeline: Pipeline) -> str:
    options, units = pipeline.options, Units(pipeline)
    data = options.dataset if pipeline.split else as_view(options.dataset, "DataLoader")
    facts: list[Any] = [order_digest(data), pipeline.seed if options.shuffle else None]
    if pipeline.has_sampler:
        order = order_of(pipeline.given_sampler if units.share is None else units.share.sampler, 0)
        if isinstance(pipeline.innermost, SplitSampler):
            order = None  # each part has an order of its own
        elif order is not None and units.share is None and units.world == 1:
            order = AtKeys(Samples(data), order)  # its digest has the indices, too
        keys = pipeline.given_sampler if units.world == 1 and isinstance(pipeline.given_sampler, list) else []
        facts += [order_digest(order), checksum(keys, 0)]
    return digest(repr(facts)).hex()


def check_state(state: Any, pipeline: Pipeline) -> None:
    """Refuse a value that is no state of a loader with these arguments."""
    if not isinstance(state, Mapping) or any(name not in state for name in _FIELDS):
        raise TypeError(f"DataLoader: a state is a dict with {', '.join(_FIELDS)}, but got {state!r}")
    for name in ("epoch", "delivered"):
        int_at_least(state[name], f"DataLoader: {name} of a state", 0)
    options, unit = pipeline.options, Units(pipeline).unit
    if state["version"] != 1:
        raise ValueError(f"DataLoader: the state is of version {state['version']!r}, known is 1")
    if state["unit"] != unit:
        raise ValueError(f"DataLoader: the state counts {state['unit']}, but this loader counts {unit}")
    is_begun = pipeline.last == "rollover" and (state["epoch"] or state["delivered"])
    if is_begun and state.get("global_batch") != pipeline.size:
        raise ValueError(
            f"DataLoader: the state is of batches of {state.get('global_batch')}, but this loader has batches"
            f" of {pipeline.size}. With last_batch='rollover' batches go on from epoch to epoch, so use the"
            " batch size of the state"
        )
    is_given = options.seed is not None or options.generator is not None
    if is_given and state.get("seed", pipeline.seed) != pipeline.seed:
        raise ValueError(
            f"DataLoader: the state is of seed={state['seed']}, but this loader has another seed. Leave"
            " out seed and generator to take the seed of the state"
        )


def batch_of(state: Mapping[str, Any], pipeline: Pipeline, batches: int | None) -> int:
    """Return the batch with which an epoch of so many batches goes on, in the middle of it.

    Refuse a state of another order, batch size or number of processes.
    """
    units = Units(pipeline)
    if state.get("world", 1) != units.world:
        raise ValueError(
            f"DataLoader: the state is in the middle of an epoch of {state.get('world', 1)} processes, but"
            f" this loader has {units.world}. Resume with as many processes, or give the loader a"
            " seqkit.samplers.DistributedSampler or ShardedSampler that deals out what is left"
        )
    refuse_other_order(
        "DataLoader: the data set or sampler", state["order"], fingerprint(pipeline, state["epoch"])
    )
    if (state["delivered"] - units.base()) % units.step and units.share is None:
        raise ValueError(
            f"DataLoader: the state is behind {state['delivered']} samples, where no batch of {units.step}"
            " ends. Use the batch size of the state until the end of the epoch"
        )
    return units.resume(state["delivered"], batches)
