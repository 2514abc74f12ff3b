"""Objects of the user that have `set_epoch`: data sets and samplers that change from epoch to epoch.

Views tell their sources which epoch they read, in every process, so a data set follows the epochs of a loader
in workers too.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from .arguments import accepts

__all__ = ["has_method", "listeners", "tell"]

# Attributes with the objects that a data set or sampler of PyTorch wraps.
_WRAPPED = ("dataset", "datasets", "sampler", "batch_sampler")
_NESTED_AT_MOST = 8


# The last epoch passed to each object, by its id. Objects are not hashed, because they may define `==`.
_told: dict[int, int] = {}
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
    if has_method(data, "set_epoch", 0):
        return (data,)
    # Only the instance's own attributes: a property could read files.
    own = getattr(data, "__dict__", {})
    inner = [own[name] for name in _WRAPPED if name in own]
    parts = [part for one in inner for part in (one if isinstance(one, list | tuple) else [one])]
    return tuple(found for part in parts for found in listeners(part, depth - 1))


def has_method(data: Any, name: str, *arguments: Any) -> bool:
    """Return whether an object has a method that takes these arguments."""
    with suppress(Exception):  # of a `__getattr__` of the user
        method = getattr(data, name, None)
        return callable(method) and accepts(method, *arguments)
    return False


def tell(objects: Iterable[Any], epoch: int, again: bool = False) -> None:
    """Call ``set_epoch(epoch)`` of each object that was last told another epoch in this process.

    With ``again=True`` also of the others, because the user may have set them to another epoch since.
    """
    for one in objects:
        if again or _told.get(id(one)) != epoch:
            with _lock:
                if again or _told.get(id(one)) != epoch:
                    with telling(epoch):
                        one.set_epoch(epoch)
                    _remember(one, epoch)


def _remember(one: Any, epoch: int) -> None:
    try:
        if id(one) not in _told:
            weakref.finalize(one, _told.pop, id(one), None).atexit = False
    except TypeError:  # without weak references. It is told again before every read
        return
    _told[id(one)] = epoch
