"""Pickle values for other processes, which do not have this process's main module.

Guarantees
----------
- Lambdas, closures, and functions and classes of the main module travel by value. So do functions with
  `functools.lru_cache` and cached properties. This also holds in a child of `multiprocessing`.
- Classes keep their identity (see `classes`).
- Tensors travel by their memory, and slices of Arrow arrays without the rest of theirs. With
  `dumps_for_workers`, arrays over mapped files travel as references.

Relies on
---------
- Both processes have cloudpickle, which reduces a class to the form that `_ByValue` expects.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any, ClassVar

import cloudpickle
import numpy as np
from cloudpickle import cloudpickle as internals

from ..core.worker import MAIN
from .arrow import compacted
from .classes import fill, has_a_name, receive, reference, this_process
from .maps import Maps
from .tensors import reduce_tensor


def dumps(value: Any, **options: Any) -> bytes:
    """Pickle like `pickle.dumps`, but send tensors as their memory, and Arrow slices without the rest."""
    if "torch" in sys.modules or "pyarrow" in sys.modules:
        return _dumps(pickle.Pickler, value, options)
    return pickle.dumps(value, **options)


def dumps_by_value(value: Any, **options: Any) -> bytes:
    """Pickle for another machine. Lambdas, closures and definitions of the main module travel by value."""
    return _dumps(_ByValue, value, options)


def dumps_for_workers(value: Any, **options: Any) -> bytes:
    """Pickle by value for processes on this machine. Arrays over mapped files travel as references."""
    return _dumps(_ForWorkers, value, options)


def dumps_back(value: Any, **options: Any) -> bytes:
    """Pickle a result for the process that sent the pipeline."""
    return _dumps(_Back, value, options)


def globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the globals that a pickle of a function holds. A function that travels by name has none."""
    reduced = _ByValue(io.BytesIO()).reducer_override(function)
    return reduced[2][1]["__globals__"] if type(reduced) is tuple else {}


class _Reducers(dict[type, Any]):
    """A dispatch table: our reducers, then that of Arrow arrays, then those of `others`, which may change."""

    def __init__(self, ours: dict[type, Any], others: Mapping[type, Any]) -> None:
        super().__init__(ours)
        self._others = others

    def __missing__(self, kind: type) -> Any:
        arrow: Any = sys.modules.get("pyarrow")
        if issubclass(kind, getattr(arrow, "Array", ())):
            return _reduce_arrow
        return self._others[kind]


def _reduce_arrow(array: Any) -> Any:
    """Pickle an Arrow array. A slice has the memory of the whole array, so it is copied first.

    Tables and record batches pickle their columns, which are such arrays.
    """
    try:
        array = compacted(array)
    except Exception:  # Arrow may not know the size of a type, or how to copy it
        pass
    return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _dumps(pickler: type[pickle.Pickler], value: Any, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    main = sys.modules.get("__mp_main__")
    if main is not None and main is sys.modules["__main__"]:  # true in a child of `multiprocessing`
        cloudpickle.register_pickle_by_value(main)
    has_tensors = hasattr(sys.modules.get("torch"), "Tensor")  # False while torch is being imported
    if has_tensors or not issubclass(pickler, _ByValue):
        pickler = _with_reducers(pickler, has_tensors)  # type: ignore[arg-type]  # classes are hashable
    pickler(file, **options).dump(value)
    return file.getvalue()


@cache
def _with_reducers(pickler: type[pickle.Pickler], has_tensors: bool) -> type[pickle.Pickler]:
    """Return a subclass of a pickler that uses the reducers of this module, and `reduce_tensor`."""
    others = pickler.dispatch_table if issubclass(pickler, cloudpickle.Pickler) else copyreg.dispatch_table
    reducers = _Reducers({sys.modules["torch"].Tensor: reduce_tensor} if has_tensors else {}, others)
    # A class attribute, because pickle ignores the dispatch table of an instance if the class has one.
    return type(pickler.__name__, (pickler,), {"dispatch_table": reducers})


# -------------------------------------------------------------------- functions and properties that cache


def _reduce_cached(function: Any) -> Any:
    """Pickle a function with `functools.lru_cache` by name, or else by value with an empty cache."""
    if has_a_name(function) and function.__module__ not in MAIN:
        return function.__qualname__
    return _cached, (function.__wrapped__, function.cache_parameters())


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def _reduce_property(prop: cached_property[Any]) -> Any:
    """Pickle a cached property without its lock (Python 3.11)."""
    return _cached_property, (prop.func, prop.attrname)


def _cached_property(function: Callable[[Any], Any], name: str | None) -> cached_property[Any]:
    prop = cached_property(function)
    prop.attrname = name
    return prop


# -------------------------------------------------------------------- code


def _reduce_code(code: CodeType) -> Any:
    """Pickle code with the name of its file, which cloudpickle drops: tracebacks of workers show it."""
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _with_filename, (code.co_filename, make, arguments)


def _with_filename(filename: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return make(*arguments).replace(co_filename=filename)


# -------------------------------------------------------------------- picklers


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle, with classes that keep their qualified names and slots."""

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


class _ForWorkers(_ByValue):
    """Sends references to mapped files in place of their bytes."""

    def __init__(self, file: io.BytesIO, **options: Any) -> None:
        super().__init__(file, **options)
        self._maps = Maps()
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is np.ndarray or kind is np.memmap or kind is self._tensor:
            return self._maps.reduce(obj)
        return super().reducer_override(obj)


class _Back(_ByValue):
    """Sends references to the classes and functions that the receiver has."""

    def reducer_override(self, obj: Any) -> Any:
        reduced = reference(obj)
        return super().reducer_override(obj) if reduced is None else reduced

    def _reduce_class(self, kind: type, make: Any, arguments: tuple[Any, ...], state: Any) -> Any:
        return make, arguments, state, None, None, internals._class_setstate
