"""The base classes of samplers, and how a sampler of any kind is read.

A sampler is a view of indices and the number of the next epoch. `Sampler.order` is the view, and iterating
the sampler reads ``order.at_epoch(epoch)``. So every view is a sampler, too. Samplers know nothing of
loaders.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import islice
from typing import Any

from ..core.arguments import int_at_least
from ..core.errors import brief
from ..core.lengths import Unsized
from ..core.randomness import as_seed
from ..core.set_epoch import has_method, listeners
from ..core.source import as_view
from ..core.view import Ordered, View

__all__ = [
    "Sampler",
    "SeededSampler",
    "chain_of",
    "draw",
    "order_of",
    "pass_epoch",
    "state_of",
    "whole_order",
]


class Sampler(Ordered, Iterable[Any]):
    """A view of indices, and the number of the epoch that the next `iter` reads.

    A subclass defines `order`.

    Examples
    --------
    >>> import seqkit as sk
    >>> class Shuffled(Sampler):
    ...     order = sk.shuffle(range(100), seed=0)
    >>> sampler = Shuffled()
    >>> first, second = list(sampler), list(sampler)
    >>> first == list(sampler.order), second == list(sampler.order.at_epoch(1)), sampler.epoch
    (True, True, 2)
    """

    _epoch = 0  # also of a subclass whose `__init__` does not call this class
    _counts = True  # False: iterating shows the next epoch of a loader, and does not count as one

    # A subclass may define a property or, where the order never changes, an attribute.
    @property
    def order(self) -> Any:
        """The indices of an epoch, as a view. Its random nodes are keyed by ``order.at_epoch(epoch)``."""
        raise NotImplementedError(f"{type(self).__name__} must define order, a view of indices")

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return the indices of an epoch as a view, or None if the sampler must be iterated to find out."""
        order: View[Any] = self.order
        return order.at_epoch(epoch)

    def whole_order(self) -> View[Any] | None:
        """Return the indices of epoch 0 as a view, which `View.at_epoch` keys for other epochs.

        Returns None if the sampler must be iterated to find out. A resumed epoch is not cut.
        """
        return whole_order(self)

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more)."""
        self._epoch = int_at_least(epoch, f"{type(self).__name__}: epoch", 0)

    def __iter__(self) -> Iterator[Any]:
        # PyTorch calls `iter` twice in each epoch that has workers, so the epoch begins at the first `next`.
        yield from self._begin()

    def _begin(self) -> Iterator[Any]:
        """Begin an epoch and count it. Return its keys."""
        epoch = self.epoch
        keys = self._draw(epoch)  # before the number changes, on which the order of a subclass may depend
        self._epoch = epoch + self._counts
        return keys

    def _draw(self, epoch: int) -> Iterator[Any]:
        order: Any = self.at_epoch(epoch)
        return iter(order)

    def __bool__(self) -> bool:
        return True  # also without a length

    def __len__(self) -> int:
        order = self.order
        if order is None:
            raise TypeError(f"{type(self).__name__} has no length")
        return len(order)

    def __repr__(self) -> str:
        """Show the arguments that are not the defaults, the length, and the epoch unless it is 0."""
        defaults = {name: given.default for name, given in signature(type(self)).parameters.items()}
        known = {name: vars(self)[name] for name in defaults if name in vars(self)}
        shown = [f"{n}={_shown(v)}" for n, v in known.items() if not _is_default(v, defaults[n])]
        try:
            shown.append(f"len={len(self)}")
        except Exception:
            pass  # it has none, or its data source fails
        shown += [f"epoch={self.epoch}"] * (self.epoch > 0)
        return f"{type(self).__name__}({', '.join(shown)})"

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the sampler besides its arguments, as a dict for JSON.

        >>> from seqkit.samplers import RandomSampler
        >>> RandomSampler(5, seed=3).state_dict()
        {'epoch': 0, 'seed': 3}
        """
        return {"epoch": self.epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a sampler with the same arguments was when it returned `state`.

        Raises
        ------
        TypeError, ValueError
            If `state` is not from `state_dict` of a sampler of this kind.
        """
        fields = self.state_dict()
        if not isinstance(state, Mapping) or any(name not in state for name in fields):
            raise TypeError(
                f"{type(self).__name__}: a state is a dict with {', '.join(fields)}, got {state!r}"
            )
        self._restore(state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.set_epoch(state["epoch"])

    def resume_after(self, state: Mapping[str, Any], read: int) -> int:
        """Load the state of an epoch after `read` keys. Return how many keys the caller still has to skip."""
        self.load_state_dict(state)
        return read


def _is_default(value: Any, default: Any) -> bool:
    if value is default or (isinstance(value, float) and value == math.inf):  # no limit
        return True
    return isinstance(value, bool | int | float | str) and bool(value == default)


def _shown(value: Any) -> str:
    """Return an argument in a few words."""
    if isinstance(value, Sampler | View):
        return repr(value)
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return brief(value)
    return f"<{type(value).__name__} of {len(value)}>"


class SeededSampler(Sampler):
    """A sampler with a seed."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.seed = as_seed(seed, f"{type(self).__name__}: seed")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the next epoch and the seed."""
        return {**super().state_dict(), "seed": self.seed}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.seed = as_seed(state["seed"], f"{type(self).__name__}: seed")


def order_of(sampler: Any, epoch: int) -> View[Any] | None:
    """Return the keys of a sampler in an epoch as a view, or None if it must be iterated to find out.

    Views, sequences, arrays, tensors and columns are samplers, too.

    >>> from seqkit.samplers import RandomSampler
    >>> order_of(RandomSampler(5, seed=0), 3)[2] in range(5), order_of([4, 2], 3)[0], order_of({1}, 3)
    (True, 4, None)
    """
    if isinstance(sampler, Sampler):
        # A subclass of the user's may iterate in its own way.
        return sampler.at_epoch(epoch) if type(sampler).__iter__ is Sampler.__iter__ else None
    if isinstance(sampler, View):
        return None if isinstance(sampler._n, Unsized) else sampler.at_epoch(epoch)
    # A subclass of a sequence may shuffle in its own `__iter__`.
    is_sequence = getattr(type(sampler), "__iter__", None) in _BY_INDEX or hasattr(type(sampler), "__array__")
    return as_view(sampler, "sampler") if is_sequence else None


# These give the items at 0, 1, 2, …
_BY_INDEX = [kind.__iter__ for kind in (list, tuple, range, str, bytes, array, Sequence)]


# An epoch that is never read, and so never resumed.
_NEVER = 1 << 62


def whole_order(sampler: Any) -> View[Any] | None:
    """Return the keys of epoch 0 as a view that `at_epoch` keys, or None if they must be iterated.

    >>> from seqkit.samplers import RandomSampler
    >>> sampler = RandomSampler(5, seed=0)
    >>> list(whole_order(sampler).at_epoch(3)) == list(sampler.at_epoch(3))
    True
    """
    order = order_of(sampler, _NEVER)
    return None if order is None else order.at_epoch(0)


def draw(sampler: Any, epoch: int, start: int = 0) -> Iterator[Any]:
    """Begin an epoch of a sampler and return its keys from number `start` on.

    `epoch` is the number of the epoch for samplers that do not count epochs themselves.

    >>> list(draw([4, 2, 7], 0, start=1))
    [2, 7]
    """
    epoch = sampler.epoch if isinstance(sampler, Sampler) else epoch
    order = order_of(sampler, epoch) if start else None
    if type(sampler).__iter__ is Sampler.__iter__:
        keys = sampler._begin()
    else:
        keys = iter(sampler.at_epoch(epoch) if isinstance(sampler, View) else sampler)
    return islice(keys, start, None) if order is None else iter(order[start:])


def state_of(sampler: Any) -> Any:
    """Return the state of a sampler that has one, otherwise None."""
    return sampler.state_dict() if has_method(sampler, "state_dict") else None


def chain_of(sampler: Any) -> list[Any]:
    """Return a sampler and the samplers inside it, up to the first that is not one of seqkit."""
    found = [] if sampler is None else [sampler]
    while found and isinstance(found[-1], Sampler) and hasattr(found[-1], "sampler"):
        found.append(found[-1].sampler)
    return found


def pass_epoch(sampler: Any, epoch: int) -> None:
    """Call ``set_epoch(epoch)`` of a sampler, or of the samplers and data sets that it wraps."""
    for one in listeners(sampler):
        one.set_epoch(epoch)
