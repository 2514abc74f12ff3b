"""The state of a `DataLoader`: save and load the position of its consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from ..core.once import cached
from ..core.set_epoch import has_method
from ..core.view import View
from ..views.bases.order_digest import order_digest, refuse_other_order
from .attributes import Attributes
from .options import Options
from .state_checks import check_samples, check_share, check_state, share_of

__all__ = ["Resumable"]


class Resumable(Attributes):
    """The base class of `DataLoader` that has its state."""

    _items: View[Any]
    _nodes: WeakSet[Any]
    _engines: WeakSet[Any]
    _said: set[str]

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the latest iterator's consumer, as a small dict for JSON.

        The position is the batch that comes next: after the last batch, the first of the next epoch. A
        loader of the same data set and arguments continues there, with any number of workers; see
        `load_state_dict`.

        Raises
        ------
        RuntimeError
            If no position is known: with ``in_order=False``, with
            ``iterable_split="workers"``, and with ``last_batch="rollover"`` if the data set can only be
            iterated.
        """
        if not self._options.in_order:
            raise RuntimeError("DataLoader: with in_order=False no position says which batches were read")
        if self._pipeline.split == "workers":
            raise RuntimeError("DataLoader: with iterable_split='workers' there is no state_dict")
        if self._options.is_iterable and self._options.last == "rollover":
            raise RuntimeError(
                "DataLoader: with last_batch='rollover' a state of an iterable data set would have to contain"
                " the samples that are carried over"
            )
        position = self._epochs.position()
        share, order = share_of(self._epochs.sampler), self._dataset_order(position)
        return {
            "version": 1,
            **position,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "order": self._order(),
            **({} if share is None else {"share": share}),
            **({} if order is None else {"dataset_order": order}),
            **self._dataset_state(),
        }

    def _order(self) -> str:
        """Return the kind of the order, which a state belongs to."""
        if self._options.is_iterable:
            return f"{self.dataset.parts} parts" if self._pipeline.split == "parts" else "iterated"
        if self._epochs.sampler is not None:
            return "sampler" if self._options.given_sampler is not None else "rollover"
        if not self._options.shuffle:
            return "sequential"
        below = getattr(self.dataset, "_order_count", 0)  # salts the order
        return f"shuffle above {below} orders" if below else "shuffle"

    def _dataset_order(self, position: Mapping[str, Any]) -> str | None:
        """Return a digest of the order in which the data set gives its items, in the middle of an epoch."""
        return self._digest if position["batch"] else None

    @cached
    def _digest(self) -> str | None:
        return order_digest(self.dataset)

    def _warn_once(self, name: str, warn: Callable[[Options, Any], bool]) -> None:
        """Call a function that warns if need be, until it has."""
        if name not in self._said and warn(self._options, self._epochs.sampler):
            self._said.add(name)

    def _keeps_dataset_state(self) -> bool:
        """Return whether the data set has a state, and is read in step with the consumer of this process.

        A data set that can only be iterated is read again up to the position, which is exact for all of them.
        """
        data, options = self.dataset, self._options
        if options.is_iterable or options.num_workers:
            return False
        return has_method(data, "state_dict") and has_method(data, "load_state_dict", {})

    def _dataset_state(self) -> dict[str, Any]:
        return {"dataset": self.dataset.state_dict()} if self._keeps_dataset_state() else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin with the batch that came next when `state_dict` was called.

        The cost does not grow with the position, except for samplers without a known order and for data
        sets that can only be iterated: as many keys or samples are drawn as were read. Samples that were
        read before are neither transformed nor collated. Without workers, an indexable data set with
        `state_dict` and `load_state_dict` gets its state back. The number of workers and the method may be
        others, and the number of processes of a `DistributedSampler`, too.

        Parameters
        ----------
        state : dict
            From `state_dict` of a loader of the same data set, batch size, order and sampler.

        Raises
        ------
        TypeError
            If `state` is not such a dict.
        ValueError
            If it is of another seed, batch size or kind of order. In the middle of an epoch also if it is of
            another number of samples, or of another order of the data set or sampler, as far as the order is
            known in advance. Other samplers are checked at the next `iter`.
        """
        has_seed = self._options.seed is not None or self._options.generator is not None
        check_state(state, self.batch_size, self.seed if has_seed else None, self._order())
        refuse_other_order("DataLoader: the data set", state.get("dataset_order"), self._dataset_order(state))
        epochs = self._epochs
        before = epochs.number
        epochs.tell(state["epoch"])  # the number of samples may depend on the epoch
        try:
            check_samples(state, self._pipeline.samples())
            check_share(state, share_of(epochs.sampler))
        except ValueError:
            epochs.tell(before)
            raise
        own = self.seed
        if state["seed"] != own:
            self._close_nodes()
        self._set_seed(state["seed"])
        try:
            self._begin_at(state)
        except ValueError:
            self._set_seed(own)
            epochs.tell(before)
            raise

    def _begin_at(self, position: dict[str, Any]) -> None:
        self._epochs.load(position)
        if position.get("dataset") is not None and self._keeps_dataset_state():
            self.dataset.load_state_dict(position["dataset"])

    def __getstate__(self) -> dict[str, Any]:
        position = {**self._epochs.position(), **self._dataset_state()}
        return {**self.__dict__, "_nodes": None, "_engines": None, "_position": position}

    def __setstate__(self, state: dict[str, Any]) -> None:
        position = state.pop("_position")
        self.__dict__.update(state)
        self._nodes, self._engines = WeakSet(), WeakSet()
        self._begin_at(position)
