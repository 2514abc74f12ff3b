"""Pickle values for other processes, which do not have this process's main module.

Guarantees
----------
- Lambdas, closures, and functions and classes of the main module travel by value. So do functions with
  `functools.lru_cache` and cached properties. This also holds in a child of `multiprocessing`.
- Classes keep their identity (see `classes`).
- Tensors travel by their memory, and slices of Arrow data without the rest of theirs. With
  `dumps_for_workers`, arrays over mapped files travel as references.

Relies on
---------
- Both processes have cloudpickle, which reduces a class to the form that `ByValue` expects.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any, ClassVar

import cloudpickle
import numpy as np
from cloudpickle import cloudpickle as internals

from .arrow import compact
from .classes import MAIN, fill, has_a_name, receive, reference, this_process
from .maps import Maps
from .tensors import reduce_tensor


def dumps(value: Any, **options: Any) -> bytes:
    """Pickle like `pickle.dumps`, but send tensors as their memory, and Arrow slices without the rest."""
    if "torch" in sys.modules or "pyarrow" in sys.modules:
        return _dumps(_Plain, value, options)
    return pickle.dumps(value, **options)


def dumps_by_value(value: Any, **options: Any) -> bytes:
    """Pickle for another machine. Lambdas, closures and definitions of the main module travel by value."""
    return _dumps(ByValue, value, options)


def dumps_for_workers(value: Any, **options: Any) -> bytes:
    """Pickle by value for processes on this machine. Arrays over mapped files travel as references."""
    return _dumps(ForWorkers, value, options)


def dumps_back(value: Any, **options: Any) -> bytes:
    """Pickle a result for the process that sent the pipeline."""
    return _dumps(Back, value, options)


def _dumps(pickler: type[pickle.Pickler], value: Any, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    main = sys.modules.get("__mp_main__")
    if main is not None and main is sys.modules["__main__"]:  # true in a child of `multiprocessing`
        cloudpickle.register_pickle_by_value(main)
    pickler(file, **options).dump(value)
    return file.getvalue()


# -------------------------------------------------------------------- reducers


class _Reducers(dict[type, Any]):
    """A dispatch table: these reducers, then those of tensors and Arrow arrays, then those of `others`."""

    def __init__(self, ours: dict[type, Any], others: Mapping[type, Any]) -> None:
        super().__init__(ours)
        self._others = others

    def __missing__(self, kind: type) -> Any:
        torch, arrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
        if kind is getattr(torch, "Tensor", None):
            return reduce_tensor
        if issubclass(kind, getattr(arrow, "Array", ())):
            return _reduce_arrow
        return self._others[kind]


def _reduce_arrow(array: Any) -> Any:
    """Pickle an Arrow array. A slice refers to the buffers of the whole array, so it is copied first.

    Tables and record batches pickle their columns, which are such arrays.
    """
    try:
        array = compact(array)
    except Exception:  # Arrow may not know the size of a type, or how to copy it
        pass
    return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _reduce_cached(function: Any) -> Any:
    """Pickle a function with `functools.lru_cache` by name, or else by value with an empty cache."""
    if has_a_name(function) and function.__module__ not in MAIN:
        return function.__qualname__
    return _cached, (function.__wrapped__, function.cache_parameters())


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def _reduce_property(prop: cached_property[Any]) -> Any:
    """Pickle a cached property without its lock (Python 3.11)."""
    return cached_property, (prop.func,), {"attrname": prop.attrname}


def _reduce_code(code: CodeType) -> Any:
    """Pickle code with the name of its file, for tracebacks. cloudpickle puts a placeholder there."""
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if part == "<dynamic-code>" else part for part in arguments)


# -------------------------------------------------------------------- picklers


class _Plain(pickle.Pickler):
    dispatch_table: ClassVar[Mapping[type, Any]] = _Reducers({}, copyreg.dispatch_table)  # type: ignore[misc]


class ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle, with classes that keep their qualified names and slots.

    Attributes
    ----------
    latest : object
        The object that was pickled last. If pickling fails, it fails at this object.
    """

    latest: Any = None

    dispatch_table: ClassVar[Mapping[type, Any]] = _Reducers(
        {
            **cloudpickle.Pickler.dispatch_table,
            type(lru_cache(len)): _reduce_cached,
            cached_property: _reduce_property,
            CodeType: _reduce_code,
        },
        copyreg.dispatch_table,
    )

    def reducer_override(self, obj: Any) -> Any:
        self.latest = obj
        reduced = super().reducer_override(obj)
        if type(reduced) is not tuple or len(reduced) != 6 or not issubclass(type(obj), type):
            return reduced
        make, arguments, state = reduced[:3]
        if make is internals._make_skeleton_class:  # drops the qualified name, and sets slots too late
            namespace = {**arguments[3], "__qualname__": obj.__qualname__}
            if "__slots__" in vars(obj) and not issubclass(obj, tuple):  # `typing.NamedTuple` refuses them
                namespace["__slots__"] = vars(obj)["__slots__"]
            arguments = *arguments[:3], namespace, *arguments[4:]
        return self._reduce_class(obj, make, arguments, state)

    def _reduce_class(self, kind: type, make: Any, arguments: tuple[Any, ...], state: Any) -> Any:
        return receive, (this_process(), has_a_name(kind), make, *arguments), state, None, None, fill


class ForWorkers(ByValue):
    """Sends references to mapped files in place of their bytes."""

    def __init__(self, file: io.BytesIO, **options: Any) -> None:
        super().__init__(file, **options)
        self._maps = Maps()

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in (np.ndarray, np.memmap):
            return self._maps.reduce(obj)
        return super().reducer_override(obj)


class Back(ByValue):
    """Sends references to the classes and functions that the receiver has."""

    def reducer_override(self, obj: Any) -> Any:
        reduced = reference(obj)
        return super().reducer_override(obj) if reduced is None else reduced

    def _reduce_class(self, kind: type, make: Any, arguments: tuple[Any, ...], state: Any) -> Any:
        return make, arguments, state, None, None, internals._class_setstate
