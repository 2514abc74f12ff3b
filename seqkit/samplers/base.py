"""What samplers have in common: epochs that are counted, seeds, states.

They stand on their own and know nothing of loaders. An epoch's order is a pure function of
(seed, epoch), and the epoch advances with every `iter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import check_iterable, positive_int
from ..indices import each
from ..randomness import as_seed

__all__ = [
    "EpochSampler",
    "NestedSampler",
    "Order",
    "SeededSampler",
    "check_sequence",
    "order_of",
    "pass_epoch",
    "sample_count",
]

# Indices that can be indexed.
Order = Sequence[Any] | npt.NDArray[Any]


class EpochSampler:
    """A sampler that counts its epochs: the base class of all of them.

    A subclass defines `order`, or `_draw` where the indices of an epoch cannot be known ahead.

    Examples
    --------
    >>> class EveryOther(EpochSampler):
    ...     def order(self, epoch):
    ...         return range(epoch % 2, 6, 2)
    >>> sampler = EveryOther()
    >>> list(sampler), list(sampler), sampler.epoch
    ([0, 2, 4], [1, 3, 5], 2)
    """

    def __init__(self) -> None:
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0."""
        self._epoch = positive_int(epoch, f"{type(self).__name__}: epoch", least=0)

    def order(self, epoch: int) -> Order | None:
        """Return what epoch number `epoch` gives, as a sequence; None where only drawing can tell."""
        return None

    def __iter__(self) -> Iterator[Any]:
        epoch = self.epoch
        self._epoch += 1
        return self._draw(epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        order: Any = self.order(epoch)
        if order is None:
            raise NotImplementedError(f"{type(self).__name__} must define order(epoch) or _draw(epoch)")
        return each(order)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on, but for the arguments.

        >>> RandomSampler(5, seed=3).state_dict()
        {'epoch': 0, 'seed': 3}
        """
        return {"epoch": self.epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next `iter` go on where that of a sampler of the same arguments would have.

        Raises
        ------
        TypeError, ValueError
            If `state` is not from `state_dict` of such a sampler.
        """
        fields = self.state_dict()
        if not isinstance(state, Mapping) or any(name not in state for name in fields):
            raise TypeError(
                f"{type(self).__name__}: a state is a dict with {', '.join(fields)}, got {state!r}"
            )
        self._restore(state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.set_epoch(state["epoch"])


class SeededSampler(EpochSampler):
    """A sampler whose epochs are random: functions of its seed and their number."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.seed = as_seed(seed, f"{type(self).__name__}: seed")

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on: its number, and the seed."""
        return {**super().state_dict(), "seed": self.seed}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.seed = as_seed(state["seed"], f"{type(self).__name__}: seed")


class NestedSampler(EpochSampler):
    """A sampler that draws from another one, whose epochs are its own."""

    def __init__(self, sampler: Iterable[Any]) -> None:
        check_iterable(sampler, f"{type(self).__name__}: sampler")
        super().__init__()
        self.sampler = sampler

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads: as the inner sampler has it, if it counts them."""
        return getattr(self.sampler, "epoch", self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0, of the inner sampler too."""
        super().set_epoch(epoch)
        pass_epoch(self.sampler, epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on: its number, and the state of the inner sampler if any."""
        inner = self.sampler.state_dict() if hasattr(self.sampler, "state_dict") else None
        return {**super().state_dict(), "sampler": inner}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        if state["sampler"] is not None and hasattr(self.sampler, "load_state_dict"):
            self.sampler.load_state_dict(state["sampler"])


def pass_epoch(sampler: Any, epoch: int) -> None:
    """Tell a sampler which epoch comes next, if it wants to know."""
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def order_of(sampler: Any, epoch: int) -> Order | None:
    """Return what a sampler gives in an epoch, as a sequence; None where only drawing can tell.

    Sequences and arrays are samplers, too, whose epochs are all alike.

    >>> order_of(RandomSampler(5, seed=0), 3)[2] in range(5), order_of([4, 2], 3), order_of({1}, 3)
    (True, [4, 2], None)
    """
    if isinstance(sampler, EpochSampler):
        # A class of the user's may draw in a way of its own.
        return sampler.order(epoch) if type(sampler).__iter__ is EpochSampler.__iter__ else None
    return sampler if isinstance(sampler, Sequence | np.ndarray) else None


def sample_count(data_source: Any, who: str, name: str = "data_source") -> int:
    """Return how many samples a number or a data source stands for.

    >>> sample_count("abc", "RandomSampler"), sample_count(4, "RandomSampler")
    (3, 4)
    """
    if hasattr(data_source, "__len__"):
        return len(data_source)
    return positive_int(data_source, f"{who}: {name} (an int, or anything with len)", least=0)


def check_sequence(values: Any, who: str) -> None:
    """Refuse what has no length, or cannot be indexed."""
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise TypeError(f"{who} should be a sequence or an array, but got {values!r}")
