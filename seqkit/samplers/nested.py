"""`NestedSampler`: the base class of samplers that read another sampler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ..core.arguments import check_iterable
from ..core.iteration import is_one_shot
from ..core.set_epoch import has_method
from ..core.view import View
from .base import Sampler, chain_of, draw, order_of, pass_epoch, state_of

__all__ = ["NestedSampler"]


class NestedSampler(Sampler):
    """A sampler that reads another sampler and shares its epochs.

    A subclass defines `at_epoch`, and `_drawn` for inner samplers whose order is not known in advance.
    """

    _was_drawn = False

    def __init__(self, sampler: Iterable[Any]) -> None:
        check_iterable(sampler, f"{type(self).__name__}: sampler")
        super().__init__()
        self.sampler = sampler

    @property
    def order(self) -> View[Any] | None:
        """The indices of epoch 0 as a view, or None if the inner sampler must be iterated to find out."""
        return self.at_epoch(0)

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads: that of an inner sampler of seqkit."""
        return self.sampler.epoch if isinstance(self.sampler, Sampler) else self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more), also of the inner sampler."""
        super().set_epoch(epoch)
        pass_epoch(self.sampler, epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        order = order_of(self, epoch)
        if order is None:
            if self._was_drawn and is_one_shot(self.sampler):
                raise RuntimeError(
                    f"{type(self).__name__}: sampler is an iterator ({type(self.sampler).__name__}), which"
                    " gives one epoch only; pass something that can be iterated again"
                )
            self._was_drawn = True
            return self._drawn(draw(self.sampler, epoch, self._already_read(epoch)))
        pass_epoch(self.sampler, epoch + self._counts)
        return iter(order)

    def _already_read(self, epoch: int) -> int:
        """Return how many keys of the inner sampler are left out at the beginning of a resumed epoch."""
        return 0

    def _drawn(self, keys: Iterator[Any]) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define _drawn(keys)")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the next epoch, and the state of the inner sampler if it has one."""
        return {**super().state_dict(), "sampler": state_of(self.sampler)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super().set_epoch(state["epoch"])  # the inner sampler has a state, or a number that others set
        if state["sampler"] is not None and has_method(self.sampler, "load_state_dict", state["sampler"]):
            cast(Any, self.sampler).load_state_dict(state["sampler"])

    def resume_after(self, state: Mapping[str, Any], read: int) -> int:
        """Load the state of an epoch after `read` keys. Return how many keys the caller still has to skip.

        Raises
        ------
        ValueError
            In the middle of an epoch, if another number of processes shared it.
        """
        if read or state.get("place", (0, 0))[1]:
            self._check_shares(state)
        return super().resume_after(state, read)

    def _check_shares(self, state: Any) -> None:
        """Refuse a state of which a sampler inside shared the epoch with another number of processes."""
        for one in chain_of(self):
            own = getattr(one, "num_replicas", None) if isinstance(one, Sampler) else None
            if own is not None and state.get("num_replicas", own) != own:
                raise ValueError(
                    f"{type(self).__name__}: a state of {state['num_replicas']} processes resumes with as"
                    f" many only, got num_replicas={own}. Resume it at the end of an epoch, or let"
                    f" ShardedSampler share the {type(self).__name__}."
                )
            state = state.get("sampler") or {}
