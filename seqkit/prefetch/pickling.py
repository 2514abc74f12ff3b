"""Pickling for other processes, to which the main module of this one means nothing.

Guarantees
----------
- by value go lambdas, closures and what the main module defines, functions that cache and cached properties
  too; so they do in a child of `multiprocessing`, whose main module is known by a name of its own;
- classes that came by value go back as those that they were, and change nothing about them;
- tensors go by their memory, plainly or by value.

Relies on
---------
- whoever unpickles having cloudpickle, and this module;
- cloudpickle naming classes that it sends, and knowing them again as long as somebody holds them.
"""

from __future__ import annotations

import copyreg
import io
import operator
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from types import FunctionType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import cloudpickle

from ..context import MAIN
from .tensors import reduce_tensor

__all__ = [
    "adopting_loads",
    "came_by_value",
    "dumps",
    "dumps_back",
    "dumps_by_value",
    "refer_to_main",
    "sent_by_value",
]


def dumps(value: Any, **options: Any) -> bytes:
    """Pickle as `pickle.dumps` does, tensors by their memory."""
    return _dumps(pickle.Pickler, value, options)


def dumps_by_value(value: Any, **options: Any) -> bytes:
    """Pickle with cloudpickle: lambdas, closures and what the main module defines travel by value."""
    _know_main()
    return _dumps(_by_value, value, options)


def dumps_back(value: Any, **options: Any) -> bytes:
    """Pickle by value for the process that the pipeline came from."""
    _know_main()
    return _dumps(_Back if _by_value is _ByValue else _by_value, value, options)


class _Reducers(dict[type, Any]):
    """Who pickles what, by its type: some our way, others as ever, also those that are registered later."""

    def __init__(self, ours: dict[type, Any], others: Mapping[type, Any]) -> None:
        super().__init__(ours)
        self._others = others

    def __missing__(self, kind: type) -> Any:
        return self._others[kind]


def _dumps(pickler: type[pickle.Pickler], value: Any, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch = sys.modules.get("torch")
    if hasattr(torch, "Tensor"):  # and not only half imported
        pickler = _with_tensors(pickler)  # type: ignore[arg-type]  # it can be hashed
    pickler(file, **options).dump(value)
    return file.getvalue()


@cache
def _with_tensors(pickler: type[pickle.Pickler]) -> type[pickle.Pickler]:
    """Return the same pickler, which pickles tensors our way."""
    others = pickler.dispatch_table if issubclass(pickler, cloudpickle.Pickler) else copyreg.dispatch_table
    reducers = _Reducers({sys.modules["torch"].Tensor: reduce_tensor}, others)
    # An attribute of the class: that of an instance is too late for one whose class has it.
    return type(pickler.__name__, (pickler,), {"dispatch_table": reducers})


def _know_main() -> None:
    """Have cloudpickle know the main module by the name that it has in a child of `multiprocessing`."""
    main = sys.modules.get("__mp_main__")
    if main is not None and main is sys.modules["__main__"]:
        cloudpickle.register_pickle_by_value(main)


# -------------------------------------------------------------------- functions and properties that cache


def _reduce_cached(function: Any) -> Any:
    """Pickle what `functools.lru_cache` makes: by its name, or by value and with an empty cache."""
    try:
        found = operator.attrgetter(function.__qualname__)(sys.modules[function.__module__])
    except (AttributeError, KeyError):
        found = None
    if found is function and function.__module__ not in MAIN:
        return function.__qualname__
    return _cached, (function.__wrapped__, function.cache_parameters())


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def _reduce_property(prop: cached_property[Any]) -> Any:
    """Pickle a cached property, which has a lock before Python 3.12."""
    return _cached_property, (prop.func, prop.attrname)


def _cached_property(function: Callable[[Any], Any], name: str | None) -> cached_property[Any]:
    prop = cached_property(function)
    prop.attrname = name
    return prop


# -------------------------------------------------------------------- by value


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Mapping[type, Any]] = _Reducers(
        {
            **cloudpickle.Pickler.dispatch_table,
            type(lru_cache(len)): _reduce_cached,
            cached_property: _reduce_property,
        },
        copyreg.dispatch_table,
    )


class _ReferringToMain(_ByValue):
    """Leaves out what the main module defines: it is to be the reader's own, not a copy."""

    def reducer_override(self, obj: Any) -> Any:
        is_main = isinstance(obj, type | FunctionType) and obj.__module__ in MAIN
        if is_main and getattr(sys.modules["__main__"], obj.__qualname__, None) is obj:
            return NotImplemented
        return super().reducer_override(obj)


class _Back(_ByValue):
    """Names the classes that came by value: sent so once more, they would write over those that they were."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and came_by_value(obj):
            return _original, (_names[obj],)
        return super().reducer_override(obj)


# Classes that came by value, and what cloudpickle calls them, there and here.
_names: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def came_by_value(kind: type) -> bool:
    """Is this class, in the process that the pipeline came from, another object?"""
    try:
        return kind in _names
    except Exception:  # of its metaclass
        return False


def sent_by_value() -> list[type]:
    """Return the classes that went by value: who waits for their instances is to hold them."""
    return list(cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.values())


def _original(name: str) -> type:
    kind: type = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID[name]
    return kind


_by_value: type[cloudpickle.Pickler] = _ByValue


def refer_to_main() -> None:
    """Have this process, a fork of the reader's, refer to what their main module defines."""
    global _by_value
    _by_value = _ReferringToMain


# -------------------------------------------------------------------- back again


def adopting_loads(data: memoryview, *, buffers: Any = ()) -> Any:
    """Unpickle a pipeline, for a process that has another main module."""
    return _Unpickler(io.BytesIO(data), buffers=buffers).load()


class _Unpickler(pickle.Unpickler):
    """Puts classes of the parent's `__main__` that come by value onto this process's `__main__`.

    Their instances then travel back by plain pickle, as a reference, and meet the parent's own classes.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if module.startswith("cloudpickle") and name.startswith("_make_skeleton"):
            return _adopting(found)
        return found


def _adopting(make: Callable[..., type]) -> Callable[..., type]:
    def make_and_adopt(*args: Any) -> type:
        made = make(*args)
        _names[made] = args[-2]
        if made.__module__ in MAIN:
            main = sys.modules.setdefault(made.__module__, sys.modules["__main__"])
            main.__dict__.setdefault(made.__name__, made)
        return made

    return make_and_adopt
