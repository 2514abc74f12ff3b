"""The number of the next epoch, and the objects that follow it: a sampler, and objects with `set_epoch`."""

from __future__ import annotations

from typing import Any

from ..core.set_epoch import epoch_by_hand, listeners, tell
from ..core.source import Source
from ..core.view import View
from ..samplers.base import Sampler, pass_epoch
from ..views.uniter import Uniter
from .orders import chain_of, own_epoch

__all__ = ["Followers"]


class Followers:
    """The sampler of a loader, and the objects of the user that are told each epoch.

    Parameters
    ----------
    dataset : View, indexable or iterable
        It is told, or the objects below the view.
    sampler : iterable or None
        The one that gives the keys to read. Samplers of seqkit count epochs themselves, others are told.
    """

    def __init__(self, dataset: Any, sampler: Any) -> None:
        self.sampler = sampler
        self.listeners = tuple({id(one): one for one in _listeners(dataset, sampler)}.values())
        self._noted: int | None = 0  # the epoch of the sampler, unless other code has set it since

    def set_by_hand(self) -> int | None:
        """Return the epoch that the user has set on the sampler or a data set, or None."""
        own = own_epoch(self.sampler)
        if own is not None and own != self._noted:
            return own
        by_hand = map(epoch_by_hand, self.listeners)
        return next((epoch for epoch in by_hand if epoch is not None), None)

    def note(self) -> None:
        """Take the epoch of the sampler as one that the loader has set."""
        self._noted = own_epoch(self.sampler)

    def move_to(self, epoch: int) -> None:
        """Set the epoch of the sampler, and tell it to all others."""
        pass_epoch(self.sampler, epoch)
        self.tell(epoch, again=True)
        self.note()

    def tell(self, epoch: int, again: bool = False) -> None:
        """Tell an epoch to the objects that were told another one. With `again` to all."""
        tell(self.listeners, epoch, again)


def _listeners(dataset: Any, sampler: Any) -> list[Any]:
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
    return found
