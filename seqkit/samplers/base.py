"""The base classes of samplers, and how a sampler of any kind is read.

A sampler is a view of indices and the number of the next epoch. `Sampler.order` is the view, and iterating
the sampler reads ``order.at_epoch(epoch)``. So every view is a sampler, too. Samplers know nothing of
loaders.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from itertools import islice
from typing import Any

from ..core.arguments import check_iterable, int_at_least
from ..core.iteration import is_one_shot
from ..core.lengths import Unsized
from ..core.randomness import as_seed
from ..core.set_epoch import has_method, listeners
from ..core.source import as_view
from ..core.view import Ordered, View

__all__ = [
    "NestedSampler",
    "Sampler",
    "SeededSampler",
    "begin_epoch",
    "chain_of",
    "order_of",
    "pass_epoch",
    "restore",
    "state_of",
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
    _kept: tuple[str, ...] = ()  # attributes that belong to the state

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
        """Return `order`, or None if the sampler must be iterated to find out. A resumed epoch is not cut."""
        return self.order if _has_order(self) else None

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more)."""
        self._epoch = int_at_least(epoch, f"{type(self).__name__}: epoch", 0)

    def __iter__(self) -> Iterator[Any]:
        # PyTorch calls `iter` twice in each epoch that has workers, so the epoch begins at the first `next`.
        epoch = self.epoch
        keys = self._draw(epoch)  # before the number changes, on which the order of a subclass may depend
        self._epoch = epoch + 1
        yield from keys

    def _draw(self, epoch: int) -> Iterable[Any]:
        order: Iterable[Any] = self.order.at_epoch(epoch)
        return order

    def __bool__(self) -> bool:
        return True  # also without a length

    def __len__(self) -> int:
        order = self.order
        if order is None:
            raise TypeError(f"{type(self).__name__} has no length")
        return len(order)

    def __repr__(self) -> str:
        """Show numbers, flags and samplers that are not the defaults, the length, and the epoch from 1 on."""
        shown = []
        for name, parameter in signature(type(self)).parameters.items():
            value = vars(self).get(name)
            if isinstance(value, int | float | str | Sampler) and value != parameter.default:
                shown.append(f"{name}={value!r}")
        with suppress(Exception):  # it has none, or its data source fails
            shown.append(f"len={len(self)}")
        shown += [f"epoch={self.epoch}"] * (self.epoch > 0)
        return f"{type(self).__name__}({', '.join(shown)})"

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the sampler besides its arguments, as a dict for JSON.

        >>> from seqkit.samplers import RandomSampler
        >>> RandomSampler(5, seed=3).state_dict()
        {'epoch': 0, 'seed': 3}
        """
        return {"epoch": self.epoch, **{name: getattr(self, name) for name in self._kept}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a sampler with the same arguments was when it returned `state`.

        Raises
        ------
        TypeError
            If `state` is not from `state_dict` of a sampler of this kind.
        """
        fields = self.state_dict()
        if not isinstance(state, Mapping) or any(name not in state for name in fields):
            raise TypeError(
                f"{type(self).__name__}: a state is a dict with {', '.join(fields)}, got {state!r}"
            )
        Sampler.set_epoch(self, state["epoch"])
        for name in self._kept:
            setattr(self, name, state[name])


class SeededSampler(Sampler):
    """A sampler with a seed."""

    _kept = ("seed",)

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.seed = as_seed(seed, f"{type(self).__name__}: seed")


def order_of(sampler: Any, epoch: int) -> View[Any] | None:
    """Return the keys of a sampler in an epoch as a view, or None if it must be iterated to find out.

    Views, sequences, arrays, tensors and columns are samplers, too.

    >>> from seqkit.samplers import RandomSampler
    >>> order_of(RandomSampler(5, seed=0), 3)[2] in range(5), order_of([4, 2], 3)[0], order_of({1}, 3)
    (True, 4, None)
    """
    if isinstance(sampler, Sampler):
        return sampler.at_epoch(epoch) if _has_order(sampler) else None
    if isinstance(sampler, View):
        return None if isinstance(sampler._n, Unsized) else sampler.at_epoch(epoch)
    # A subclass of a sequence may shuffle in its own `__iter__`.
    is_sequence = getattr(type(sampler), "__iter__", None) in _BY_INDEX or hasattr(type(sampler), "__array__")
    return as_view(sampler, "sampler") if is_sequence else None


# These give the items at 0, 1, 2, …
_BY_INDEX = [kind.__iter__ for kind in (list, tuple, range, str, bytes, array, Sequence)]


def _has_order(sampler: Sampler) -> bool:
    return type(sampler).__iter__ is Sampler.__iter__  # a subclass of the user's may iterate in its own way


def begin_epoch(sampler: Any, epoch: int) -> Iterator[Any]:
    """Begin an epoch of a sampler. Views get its number, and samplers count their epochs themselves.

    >>> list(begin_epoch([4, 2, 7], 0))
    [4, 2, 7]
    """
    # An iterator of its own: `iter` of an object that returns itself would begin again.
    return islice(sampler.at_epoch(epoch) if isinstance(sampler, View) else sampler, None)


def state_of(sampler: Any) -> Any:
    """Return the state of a sampler that has one, otherwise None.

    The order of a sampler of another library with `set_epoch` follows from that number, so it has none.
    """
    is_told = has_method(sampler, "set_epoch", 0) and not isinstance(sampler, Sampler)
    return sampler.state_dict() if has_method(sampler, "state_dict") and not is_told else None


def restore(sampler: Any, state: Any) -> None:
    """Put a sampler back to where it was when `state_of` returned a state."""
    if state is not None and has_method(sampler, "load_state_dict", state):
        sampler.load_state_dict(state)


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


class NestedSampler(Sampler):
    """A sampler that reads another sampler and shares its epochs.

    A subclass defines `_drawn`, for any keys, and `_over`, if a known order of them gives one of its own.
    """

    _was_drawn = False

    def __init__(self, sampler: Iterable[Any]) -> None:
        check_iterable(sampler, f"{type(self).__name__}: sampler")
        super().__init__()
        self.sampler = sampler

    @property
    def order(self) -> View[Any] | None:
        """The indices of epoch 0 as a view, or None if the inner sampler must be iterated to find out."""
        return NestedSampler.at_epoch(self, 0)  # the whole of it, also after a resume

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return the indices of an epoch as a view, or None if the inner sampler must be iterated."""
        order = order_of(self.sampler, epoch)
        return None if order is None else self._over(order)

    def _over(self, order: View[Any]) -> View[Any] | None:
        return None

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads: that of an inner sampler of seqkit."""
        return self.sampler.epoch if isinstance(self.sampler, Sampler) else self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more), also of the inner sampler."""
        super().set_epoch(epoch)
        pass_epoch(self.sampler, epoch)

    def _draw(self, epoch: int) -> Iterable[Any]:
        order = order_of(self, epoch)
        if order is not None:
            pass_epoch(self.sampler, epoch + 1)
            return order
        if self._was_drawn and is_one_shot(self.sampler):
            raise RuntimeError(
                f"{type(self).__name__}: sampler is an iterator, which gives one epoch only. Use a list"
            )
        self._was_drawn = True
        return self._drawn(begin_epoch(self.sampler, epoch))

    def _drawn(self, keys: Iterator[Any]) -> Iterable[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define _drawn(keys)")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the next epoch, and the state of the inner sampler if it has one."""
        return {**super().state_dict(), "sampler": state_of(self.sampler)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a sampler with the same arguments was, and load the state of the inner sampler."""
        super().load_state_dict(state)
        restore(self.sampler, state["sampler"])
