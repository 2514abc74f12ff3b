"""Keep the identity of classes that no other process can import, between a process and its workers.

cloudpickle gives each class that it sends by value an identifier, under which both processes find the
class. This module adds two features. Workers send such a class back as a reference: instances are small,
and an older copy does not overwrite the consumer's class. Forked workers, which received no pickle, refer
to the classes that they inherited.

Guarantees
----------
- An instance that comes back from a worker has the class of this process, if the class travelled with the
  pipeline or was inherited by the fork. The attributes of the class are not changed.
- Classes at the top of the main module are found by name. A worker that is not forked gets them in its own
  main module, so that plain pickle works there.
- A class made by an item arrives as a new class, as cloudpickle delivers it.

Relies on
---------
- cloudpickle has its tracker, and passes the identifier as the last but one argument of its class
  constructors.
- A forked worker calls `gc.freeze()` before it runs user code.
"""

from __future__ import annotations

import gc
import operator
import os
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from cloudpickle import cloudpickle as internals

# The names of the main module. The second one is used in a child process of `multiprocessing`.
MAIN = ("__main__", "__mp_main__")

# How to pickle a class as a reference for the process that sent the pipeline. The tuple is empty if that
# process has no such class. All classes that were made from a pipeline's pickle are listed here.
_references: WeakKeyDictionary[type, tuple[Any, ...]] = WeakKeyDictionary()
_by_identifier: WeakValueDictionary[str, type] = internals._DYNAMIC_CLASS_TRACKER_BY_ID
# The classes that `_find_inherited` has found, by address and name.
_found: WeakValueDictionary[tuple[int, str], type] = WeakValueDictionary()
_ID = uuid4().hex  # the same in forks
_is_fork = False


def this_process() -> str:
    """Return an identifier of this process that is unique on all machines."""
    return f"{_ID}-{os.getpid()}"


def pickle_for_parent() -> None:
    """From now on, pickle for the process that this process was forked from."""
    global _is_fork
    _is_fork = True
    _references.clear()
    # Another thread may have held the lock at the time of the fork.
    internals._DYNAMIC_CLASS_TRACKER_LOCK = threading.Lock()


def has_a_name(obj: Any) -> bool:
    """Return whether a class or function can be found by its module and qualified name."""
    try:
        return operator.attrgetter(obj.__qualname__)(sys.modules[obj.__module__]) is obj
    except Exception:  # raised by a module or a metaclass with its own attribute lookup
        return False


def goes_by_value(kind: type) -> bool:
    """Return whether other processes cannot import a class."""
    return kind.__module__ in MAIN or not has_a_name(kind)


# -------------------------------------------------------------------- with a pipeline


def receive(sender: str, has_name: bool, make: Callable[..., type], *arguments: Any) -> type:
    """Return the class that came with a pipeline: the existing class, or a new one for `fill`."""
    identifier = arguments[-2]
    is_new = identifier not in _by_identifier
    kind = make(*arguments)
    if sender != this_process():
        _references[kind] = _find_by_identifier, (identifier, kind.__qualname__)
        if has_name and kind.__module__ in MAIN:
            _put_into_main(kind)
    elif is_new:
        _references[kind] = ()
    return kind


def fill(kind: type, state: Any) -> None:
    """Set the attributes of a class that came with a pipeline, unless it belongs to this process."""
    if kind in _references:
        internals._class_setstate(kind, state)


def _put_into_main(kind: type) -> None:
    main = sys.modules.setdefault(kind.__module__, sys.modules["__main__"]).__dict__
    if "." not in kind.__qualname__ and main.setdefault(kind.__qualname__, kind) in _references:
        main[kind.__qualname__] = kind  # the sender may have redefined the class


# -------------------------------------------------------------------- with a result


def reference(obj: Any) -> Any:
    """Return how to pickle a class or function as a reference, for the process that sent the pipeline.

    Return NotImplemented to pickle it by name, None to pickle it by value.
    """
    if _is_fork and isinstance(obj, type | FunctionType) and obj.__module__ in MAIN and has_a_name(obj):
        return NotImplemented
    if not issubclass(type(obj), type):
        return None
    found = _references.get(obj)
    if found is None and _is_fork:
        is_inherited = goes_by_value(obj) and _is_older_than_fork(obj)
        found = (_find_inherited, (obj.__bases__[0], id(obj), obj.__qualname__)) if is_inherited else ()
        _references[obj] = found  # search only once
    return found or None


def _is_older_than_fork(kind: type) -> bool:
    # A forked worker has frozen the garbage collector, which then lists only objects made after the fork.
    return all(one is not kind for one in gc.get_objects())


def _find_by_identifier(identifier: str, name: str) -> type:
    """Return the class that has this identifier in cloudpickle's tracker."""
    return _existing(_by_identifier.get(identifier), name)


def _find_inherited(base: type, address: int, name: str) -> type:
    """Return the class that a forked worker inherited, by its address."""
    if (address, name) not in _found:
        below: list[type] = type.__subclasses__(base)
        for kind in below:
            if id(kind) == address and kind.__qualname__ == name:
                _found[address, name] = kind
    return _existing(_found.get((address, name)), name)


def _existing(kind: type | None, name: str) -> type:
    if kind is None:
        raise LookupError(f"the class {name} of an item is gone: nothing in this process refers to it")
    return kind
