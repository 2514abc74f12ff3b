"""The base classes of samplers, and how a sampler of any kind is read.

A sampler is a view of indices and the number of the next epoch. `Sampler.order` is the view, and iterating
the sampler reads ``order.at_epoch(epoch)``. So every view is a sampler, too. Samplers know nothing of
loaders.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from itertools import islice
from typing import Any, cast

import numpy.typing as npt

from ..core.arguments import check_iterable, int_at_least
from ..core.display import facts_as_html
from ..core.errors import brief
from ..core.indices import Unsized
from ..core.iteration import is_one_shot
from ..core.plain import plain
from ..core.randomness import as_seed
from ..core.set_epoch import epoch_of, has_method, takes_epoch
from ..core.source import as_view
from ..core.values import is_single
from ..core.view import Ordered, View, is_measured, only_selects
from ..views.smap.smap import smap

__all__ = [
    "NestedSampler",
    "Order",
    "Sampler",
    "SeededSampler",
    "as_key",
    "check_keys",
    "check_sequence",
    "draw",
    "keys_of",
    "order_of",
    "pass_epoch",
    "sample_count",
    "whole_order",
]

# Indices or keys that can be indexed.
Order = Sequence[Any] | npt.NDArray[Any]

_MOST_INDICES = 8  # shown in notebooks


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
    _covered: int | None = None  # the number of samples, if it was given a value for each of them

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
        epoch = self.epoch
        self._epoch = epoch + 1
        return self._draw(epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        order: View[Any] = self.order
        return iter(order.at_epoch(epoch))

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

    _repr_html_ = facts_as_html

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the arguments, the length, and the first indices if the order is known by arithmetic."""
        name, _, arguments = repr(self).partition("(")
        order = self.at_epoch(self.epoch)
        facts = [("arguments", arguments.removesuffix(")"))]
        if order is None or not only_selects(order) or not is_measured(order):
            return name, facts  # to find the order may read items
        shown = [*map(brief, order.head(_MOST_INDICES)), *["…"] * (order._n > _MOST_INDICES)]
        return name, [*facts, (f"epoch {self.epoch} reads", ", ".join(shown))]

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
        """Number of the epoch that the next `iter` reads: that of the inner sampler, if it counts epochs."""
        own = epoch_of(self.sampler)
        return self._epoch if own is None else own

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
        pass_epoch(self.sampler, epoch + 1)
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
        super()._restore(state)
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
        inner: Any = self
        while isinstance(state, Mapping):
            own = getattr(inner, "num_replicas", None)
            if own is not None and state.get("num_replicas", own) != own:
                raise ValueError(
                    f"{type(self).__name__}: a state of {state['num_replicas']} processes resumes with as"
                    f" many only, got num_replicas={own}. Resume it at the end of an epoch, or let"
                    f" ShardedSampler share the {type(self).__name__}."
                )
            inner, state = getattr(inner, "sampler", None), state.get("sampler")


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
    is_sequence = isinstance(sampler, Sequence) and not _iterates_in_its_own_way(sampler)
    return as_view(sampler, "sampler") if is_sequence or hasattr(type(sampler), "__array__") else None


def _iterates_in_its_own_way(sequence: Sequence[Any]) -> bool:
    """Return whether a class of the user's has an `__iter__` written in Python, which may shuffle."""
    iterate: Any = type(sequence).__iter__
    return iterate is not Sequence.__iter__ and hasattr(iterate, "__code__")


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
    own = epoch_of(sampler)
    epoch = epoch if own is None else own
    order = order_of(sampler, epoch) if start else None
    keys = iter(sampler.at_epoch(epoch) if isinstance(sampler, View) else sampler)
    return islice(keys, start, None) if order is None else iter(order[start:])


def state_of(sampler: Any) -> Any:
    """Return the state of a sampler that has one, otherwise None."""
    return sampler.state_dict() if has_method(sampler, "state_dict") else None


def pass_epoch(sampler: Any, epoch: int) -> None:
    """Call ``sampler.set_epoch(epoch)`` if the sampler has that method."""
    if takes_epoch(sampler):
        sampler.set_epoch(epoch)


def keys_of(indices: Order, who: str) -> View[Any]:
    """Return given indices or keys as a view. They become plain Python values. A bool is not a key.

    >>> import numpy as np
    >>> list(keys_of(np.array([2, 0]), "SequentialSampler: indices"))
    [2, 0]
    """
    check_sequence(indices, who)
    return smap(partial(as_key, who), as_view(indices, who))


def as_key(who: str, key: Any) -> Any:
    """Return an index or key as a plain Python value. A bool is refused, because it would mean 0 or 1.

    >>> import numpy as np
    >>> as_key("SequentialSampler: indices", np.int32(2))
    2
    """
    value = key if type(key) is int else plain(key)
    if isinstance(value, bool):
        raise TypeError(
            f"{who} must be indices or keys, got {key!r}, a bool. Pass numpy.flatnonzero(mask) for a mask."
        )
    return value


def check_keys(indices: Order, who: str) -> None:
    """Refuse what is not a sequence of keys, such as a mask. A view is checked when it is read."""
    check_sequence(indices, who)
    if not isinstance(indices, View) and len(indices):
        as_key(who, as_view(indices, who)._get(0))


def sample_count(data_source: Any, who: str, name: str = "data_source") -> int:
    """Return a number of samples, given as an int or as a data source with a length.

    >>> sample_count("abc", "RandomSampler"), sample_count(4, "RandomSampler")
    (3, 4)
    """
    if hasattr(data_source, "__len__") and not is_single(data_source):
        return len(data_source)
    return int_at_least(data_source, f"{who}: {name} (an int, or anything with len)", 0)


def check_sequence(values: Any, who: str) -> None:
    """Refuse an object that has no length or cannot be indexed."""
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise TypeError(f"{who} should be a sequence or an array, but got {values!r}")
