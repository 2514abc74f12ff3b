"""`SerializableFunc`: a function that is pickled with its code, and not by name."""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

import cloudpickle

from .arguments import check_callable

__all__ = ["SerializableFunc"]

P = ParamSpec("P")
R = TypeVar("R")


class SerializableFunc(Generic[P, R]):
    """Pickle a function with its code, and with the objects of its module that it uses.

    A plain function is pickled by name: unpickling imports its module in the version of that time and place.
    A decorated function behaves as it did when it was pickled, even if the module is missing or was edited.

    Parameters
    ----------
    func : callable
        A function of a module, a lambda or a closure. A decorated function is not decorated again.

    Raises
    ------
    TypeError
        If `func` is not callable. Pickling raises it if an object that the function uses cannot be pickled.

    Notes
    -----
    A call costs about 0.1 µs more. Built on cloudpickle. Functions, classes and values of the same module are
    pickled by value. Those of other modules are pickled by name, so decorate functions there too. Unpickling
    neither executes nor registers a module, so modules of the same name do not conflict. The pickle can be
    read by the same version of Python. `prefetch` does not need this class, unless modules are edited while
    workers run. After ``SerializableFunc`` of SeqTools.

    Examples
    --------
    >>> @SerializableFunc
    ... def double(x):
    ...     '''Twice x.'''
    ...     return 2 * x
    >>> pickle.loads(pickle.dumps(double))(4), double.__name__, double.__doc__
    (8, 'double', 'Twice x.')
    """

    __wrapped__: Callable[P, R]

    def __init__(self, func: Callable[P, R]) -> None:
        if isinstance(func, SerializableFunc):
            func = func.__wrapped__
        check_callable(func, "SerializableFunc: func")
        functools.update_wrapper(self, func)  # sets __wrapped__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"SerializableFunc({self.__wrapped__!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        func = self.__wrapped__
        with _lock:
            if _included:  # within the pickle of another one, because functions may call each other
                _include(func)
                return SerializableFunc, (func,)
            try:
                _included.append(None)
                _include(func)
                return _revive, (cloudpickle.dumps(func),)
            except Exception as error:
                name = getattr(func, "__qualname__", repr(func))
                raise TypeError(
                    f"SerializableFunc: {name} cannot be pickled with what it uses: {error}"
                ) from error
            finally:
                for module in filter(None, _included):
                    cloudpickle.unregister_pickle_by_value(module)
                _included.clear()


def _revive(pickled: bytes) -> SerializableFunc[..., Any]:
    return SerializableFunc(pickle.loads(pickled))


# cloudpickle has one list of modules to pickle by value in each process. These were added by a pickle in
# progress. None stands for the pickle itself.
_lock = threading.RLock()
_included: list[ModuleType | None] = []


def _include(func: Callable[..., Any]) -> None:
    """Pickle the objects of the module of a function by value."""
    module = sys.modules.get(getattr(func, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or not isinstance(func, FunctionType):
        return  # objects without a module, or of the main module, are pickled by value anyway
    if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.register_pickle_by_value(module)
        _included.append(module)
