"""Objects of the user that have `set_epoch`: data sets and samplers that change from epoch to epoch.

Views tell their sources which epoch they read, in every process, so a data set follows the epochs of a loader
in workers too.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .arguments import accepts

__all__ = [
    "Mark",
    "adopt",
    "epoch_by_hand",
    "epoch_of",
    "has_method",
    "listeners",
    "mark_of",
    "takes_epoch",
    "tell",
]

# Attributes with the objects that a data set or sampler of PyTorch wraps.
_WRAPPED = ("dataset", "datasets", "sampler", "batch_sampler")
_NESTED_AT_MOST = 8


class Mark(int):
    """The number of an epoch, put in place of the number that an object keeps.

    If another number is found there later, even an equal one, the user has set it since.

    Attributes
    ----------
    by_user : bool
        Whether the user had set this number, and loaders follow it.
    is_placed : bool
        False if the object does not keep the number in an attribute of its own.
    """

    by_user = False
    is_placed = False

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)  # a copy in another process is a plain number


# The last epoch passed to each object, by its id. Objects are not hashed, because they may define `==`.
_told: dict[int, Mark] = {}
_lock = threading.Lock()
# Entered with the epoch around each call of `set_epoch`. Workers set it, so that all of a node draw the same.
telling: Callable[[int], AbstractContextManager[Any]] = nullcontext


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held the old one when this process was forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def listeners(data: Any, depth: int = _NESTED_AT_MOST) -> tuple[Any, ...]:
    """Return the object if it has `set_epoch`, otherwise the objects with `set_epoch` that it wraps.

    >>> class Corpus:
    ...     def set_epoch(self, epoch): ...
    >>> class Subset:
    ...     def __init__(self, dataset):
    ...         self.dataset = dataset
    >>> corpus = Corpus()
    >>> listeners(corpus) == listeners(Subset(corpus)) == (corpus,), listeners([1, 2])
    (True, ())
    """
    if isinstance(data, type) or depth == 0:
        return ()
    if takes_epoch(data):
        return (data,)
    # Only the instance's own attributes: a property could read files.
    own = getattr(data, "__dict__", {})
    inner = [own[name] for name in _WRAPPED if name in own]
    parts = [part for one in inner for part in (one if isinstance(one, list | tuple) else [one])]
    return tuple(found for part in parts for found in listeners(part, depth - 1))


def takes_epoch(data: Any) -> bool:
    """Return whether an object has a method ``set_epoch(epoch)``. One with other parameters is not meant."""
    return has_method(data, "set_epoch", 0)


def has_method(data: Any, name: str, *arguments: Any) -> bool:
    """Return whether an object has a method that takes these arguments."""
    method = getattr(data, name, None)
    return callable(method) and accepts(method, *arguments)


def epoch_of(data: Any) -> int | None:
    """Return the attribute `epoch` of an object if it is a number, otherwise None."""
    epoch: Any = getattr(data, "epoch", None)
    is_number = hasattr(epoch, "__index__") and not getattr(epoch, "ndim", False)
    return int(epoch) if is_number and not isinstance(epoch, bool) else None


def tell(objects: Iterable[Any], epoch: int, again: bool = False) -> None:
    """Call ``set_epoch(epoch)`` of each object that was last told another epoch in this process.

    With ``again=True`` also of objects that the user may have set since, but not if it was to this epoch.
    """
    for one in objects:
        if again or _told.get(id(one)) != epoch:
            with _lock:
                if again or _told.get(id(one)) != epoch:
                    by_user = epoch_by_hand(one) == epoch
                    if not by_user:
                        with telling(epoch):
                            one.set_epoch(epoch)
                    _note(one, epoch, by_user)


def adopt(objects: Iterable[Any], epoch: int) -> None:
    """Note the objects that the user has set to an epoch."""
    for one in objects:
        if epoch_by_hand(one) == epoch and not isinstance(_kept_by(one), Mark):
            _note(one, epoch, by_user=True)


def mark_of(one: Any) -> Mark | None:
    """Put the mark of the latest epoch of an object in its place again, and return it."""
    mark = _told.get(id(one))
    if mark is not None:
        _put(one, mark)
    return mark


def _note(one: Any, epoch: int, by_user: bool) -> None:
    mark = Mark(epoch)
    mark.by_user = by_user
    try:
        if id(one) not in _told:
            weakref.finalize(one, _told.pop, id(one), None).atexit = False
    except TypeError:  # without weak references. It is told again before every read
        return
    _put(one, mark)
    _told[id(one)] = mark


def _put(one: Any, mark: Mark) -> None:
    name = _place(one)
    if name and vars(one)[name] == mark:
        vars(one)[name] = mark
        mark.is_placed = True


def _place(one: Any) -> str | None:
    """Return the attribute of an object in which its `set_epoch` keeps the number, or None."""
    own = getattr(one, "__dict__", {})
    code = getattr(getattr(one, "set_epoch", None), "__code__", None)
    names = ("epoch", *(name for name in getattr(code, "co_names", ()) if "epoch" in name.lower()))
    return next((name for name in names if isinstance(own.get(name), int)), None)


def _kept_by(one: Any) -> int | None:
    name = _place(one)
    return vars(one)[name] if name else epoch_of(one)


def epoch_by_hand(one: Any, taken: Mark | None = None) -> int | None:
    """Return the epoch that the user has set on an object, or None if it was last set by `tell`.

    `taken` is the mark of a number that the caller has followed already. Only objects that keep the number in
    an attribute can be asked.
    """
    number, told = _kept_by(one), _told.get(id(one))
    if number is None or isinstance(number, bool) or number < 0:
        return None
    if isinstance(number, Mark):
        return int(number) if number.by_user and number is not taken else None
    is_told = number == (told or 0) and not (told is not None and told.is_placed)
    return None if is_told else int(number)
