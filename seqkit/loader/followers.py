"""The data sets and samplers that follow the epochs of a loader, because they have `set_epoch`."""

from __future__ import annotations

from typing import Any

from ..core.set_epoch import listeners
from ..core.source import Source
from ..core.view import View
from ..samplers.base import Sampler
from ..samplers.batches import InfiniteSampler
from ..views.uniter import Uniter
from .state import chain_of

__all__ = ["followers", "own_epoch"]


def followers(dataset: Any, sampler: Any) -> tuple[Any, ...]:
    """Return the objects of the user that are told each epoch: in a data set, and in a sampler.

    Samplers of seqkit count epochs themselves.
    """
    found: list[Any] = []
    pending = [dataset]
    while pending:
        node = pending.pop()
        if isinstance(node, View):
            pending.extend(node._sources)
        if isinstance(node, Source):
            found.extend(listeners(node._data))
        elif isinstance(node, Uniter):
            found.extend(listeners(node._passes.iterable))
        elif not isinstance(node, View):
            found.extend(listeners(node))
    foreign = [one for one in chain_of(sampler) if not isinstance(one, Sampler | View)]
    if foreign:
        found.extend(one for one in listeners(foreign[0]) if not isinstance(one, Sampler))
    return tuple({id(one): one for one in found}.values())


def own_epoch(sampler: Any) -> int | None:
    """Return the epoch of a sampler of seqkit, or None if it has none that tells when the user set it."""
    parts = chain_of(sampler)
    if not isinstance(sampler, Sampler) or any(isinstance(part, InfiniteSampler) for part in parts):
        return None
    return sampler.epoch
