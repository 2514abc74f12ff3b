"""The samplers that a loader shows as `sampler` and `batch_sampler` if it was given none.

The loader does not read them. They show its order, and their epoch is the loader's epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Self
from weakref import ref

from ..core.source import view
from ..core.view import View
from ..samplers.base import Sampler
from ..samplers.batches import BatchSampler
from ..samplers.random_order import RandomSampler
from ..samplers.sequential import SequentialSampler
from ..views.shuffle import shuffle
from .options import Options

__all__ = ["OwnBatchSampler", "OwnRandomSampler", "OwnSampler", "OwnSequentialSampler", "own_samplers"]


def own_samplers(loader: Any, options: Options, seed: int) -> tuple[Any, Any]:
    """Return a sampler and a batch sampler that show the order of a loader, or None if there is none."""
    if not hasattr(options.dataset, "__len__"):
        return None, None
    sampler: OwnSampler = OwnSequentialSampler(options.dataset)
    if options.shuffle:
        sampler = OwnRandomSampler(options.dataset, seed, getattr(options.dataset, "_random_count", 0))
    sampler.attach(loader)
    if options.batch_size is None:
        return sampler, None
    batch_sampler = OwnBatchSampler(sampler, options.batch_size, last=options.last)
    batch_sampler.attach(loader)
    return sampler, batch_sampler


class OwnSampler(Sampler):
    """The base class of the samplers of a loader.

    After `attach`, and as long as the loader exists, the epoch is the loader's, and iterating does not count.
    Otherwise it is an ordinary sampler.
    """

    _loader: Any = staticmethod(lambda: None)

    def attach(self, loader: Any) -> None:
        """Make the epoch of a loader the epoch of this sampler."""
        self._loader = ref(loader)

    def detached(self) -> Self:
        """Return a copy that counts epochs itself, for another loader that reads it."""
        detached = copy(self)
        inner = getattr(self, "sampler", None)
        if isinstance(inner, OwnSampler):
            detached.sampler = inner.detached()
        return detached

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` of the loader reads."""
        loader = self._loader()
        return super().epoch if loader is None else int(loader.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` of the loader reads."""
        loader = self._loader()
        if loader is None:
            super().set_epoch(epoch)
        else:
            loader.set_epoch_as_sampler(epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        if self._loader() is None:
            return super()._draw(epoch)
        return iter(self.at_epoch(epoch) or ())

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and self._loader() is not None:
            raise AttributeError(
                f"{type(self).__name__}: this sampler only shows the order of a DataLoader, so {name} cannot"
                " be set. Make a loader with other arguments, or with a sampler of your own"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_loader"}


class OwnSequentialSampler(OwnSampler, SequentialSampler):
    """The order of a loader with ``shuffle=False``. The length is not asked for before it is needed."""

    def __init__(self, data_source: Any) -> None:
        super().__init__(0)
        self.data_source = data_source


class OwnRandomSampler(OwnSampler, RandomSampler):
    """The order of a loader with ``shuffle=True``.

    `random_count` is the number of random views of the data set, which salts the order.
    """

    def __init__(self, data_source: Any, seed: int, random_count: int) -> None:
        super().__init__(data_source, seed=seed)
        self._random_count = random_count

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        indices: View[int] = view(range(len(self)))
        indices._random_count = self._random_count
        return shuffle(indices, self.seed)


class OwnBatchSampler(OwnSampler, BatchSampler):
    """The batches of a loader, as lists of indices."""
