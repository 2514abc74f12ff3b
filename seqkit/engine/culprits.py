"""Find objects that a pipeline holds, such as one that cannot be pickled, and name the way to them.

The search follows attributes, containers, closures and defaults, and nothing that is only a name in code. A
way in words: ``smap → `decode` → default `lock` (_thread.lock), train.py:4``.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import chain, islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..core.view import View
from .pickling import ByValue

__all__ = ["Unpicklable", "pickling_error", "unpicklable", "ways"]

MOST_OBJECTS = 300  # visited when workers start, in at most a millisecond
MOST_ITEMS = 20  # looked at in each container
DEPTH = 12
HEAP_TYPE = 1 << 9  # the flag of classes that a Python program defines
_LEAVES: tuple[type, ...] = (str, bytes, int, float, complex, range, type(None), type, ModuleType)

Reference = tuple[str, Any]  # how one object refers to another, and the other
Way = tuple[Reference, ...]


def ways(view: Any, is_wanted: Callable[[Any], bool]) -> Iterator[Reference]:
    """Yield the wanted objects among the first few hundred objects of a view, each after the way to it.

    Of the globals of functions and the attributes of classes, only wanted ones are looked at.
    """
    pending: deque[Way] = deque([((_label(view, type(view).__name__), view),)])
    seen: set[int] = set()

    @cache
    def of_class(kind: type) -> list[Reference]:
        bases = [vars(base) for base in kind.__mro__ if base.__flags__ & HEAP_TYPE and not _is_ours(base)]
        found = [item for names in bases for item in names.items() if is_wanted(item[1])]
        return [(f"attribute `{name}`", held) for name, held in found]

    while pending and len(seen) < MOST_OBJECTS:
        way = pending.popleft()
        value = way[-1][1]
        if is_wanted(value):
            yield _in_words(way), value
        elif id(value) not in seen and len(way) <= DEPTH:
            seen.add(id(value))
            # The containers in which a view keeps its functions mean nothing to users.
            is_hidden = isinstance(value, list | tuple) and not way[-1][0]
            steps = chain(_references(value), of_class(type(value)))  # type: ignore[arg-type]
            pending.extend((*way, (_label(held, "" if is_hidden else text), held)) for text, held in steps)
            if isinstance(value, FunctionType):
                found = [item for item in value.__globals__.copy().items() if is_wanted(item[1])]
                pending.extend((*way, (f"global `{name}`", held)) for name, held in found)


def unpicklable(value: Any, pickler: type[ByValue]) -> str | None:
    """Return the way to the object at which pickling fails, or None if it does not fail or is not found.

    Examples
    --------
    >>> import seqkit as sk, threading
    >>> def decode(path, lock=threading.Lock()): ...
    >>> unpicklable(sk.batch(sk.smap(decode, ["a.jpg"]), 2), ByValue)
    'batch → smap → `decode` → default `lock` (_thread.lock), ...:1'
    >>> unpicklable(sk.smap(len, ["a"]), ByValue)
    """
    pickling = pickler(io.BytesIO(), protocol=5, buffer_callback=lambda _: None)
    try:
        pickling.dump(value)
    except (Exception, SystemExit):
        return next((way for way, _ in ways(value, lambda held: held is pickling.latest)), None)
    return None


class Unpicklable(TypeError):
    """Says why a pipeline cannot be sent to workers."""


def pickling_error(view: Any, error: Exception, pickler: type[ByValue]) -> Unpicklable:
    """Return the error for a pipeline that cannot be pickled: the object, the reason and what to do.

    Parameters
    ----------
    view : View
    error : Exception
        What pickling the view raised.
    pickler : class
        What pickled the view.
    """
    return Unpicklable(
        f"prefetch: the pipeline cannot be pickled for workers: {unpicklable(view, pickler) or view._name}:"
        f" {type(error).__name__}: {error}."
        " Open files and connections in each process with sk.per_process, create locks inside the function,"
        " or use method='thread'."
    )


def _references(value: Any) -> Iterator[Reference]:
    """Yield the objects that a value refers to."""
    if isinstance(value, _LEAVES):
        return
    if isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, MethodType):
        yield from (("", value.__self__), ("", value.__func__))
    elif isinstance(value, BuiltinFunctionType):
        yield "", value.__self__
    elif isinstance(value, partial):
        yield "", value.func
        yield from _references([*value.args, *value.keywords.values()])
    elif isinstance(value, dict):
        yield from ((f"key {key!r}", item) for key, item in islice(value.items(), MOST_ITEMS))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"item {i}", item) for i, item in enumerate(islice(value, MOST_ITEMS)))
    else:
        with suppress(Exception):  # `__getattribute__` may be user code
            state: Any = object.__getstate__(value)
            for attributes in state if isinstance(state, tuple) else [state]:
                for name, held in (attributes or {}).items():
                    yield "" if _is_ours(type(value)) else f"attribute `{name}`", held


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("seqkit.")


def _of_function(function: FunctionType) -> Iterator[Reference]:
    code, defaults = function.__code__, function.__defaults__ or ()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has no value yet
            yield f"closure `{name}`", cell.cell_contents
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    for name, value in chain(zip(names, defaults, strict=True), (function.__kwdefaults__ or {}).items()):
        yield f"default `{name}`", value


def _label(value: Any, other: str) -> str:
    """Return how to name a step to a value: views and functions have names of their own."""
    if isinstance(value, View):
        return value._name
    if isinstance(value, FunctionType | MethodType | partial) or (callable(value) and not other):
        return f"`{getattr(value, '__name__', type(value).__name__)}`"
    return other


def _in_words(way: Way) -> str:
    """Return a way in words, with the type at its end and the place of the last function."""
    place = ""
    for _, value in way:
        if isinstance(value, FunctionType | MethodType):
            place = f", {os.path.basename(value.__code__.co_filename)}:{value.__code__.co_firstlineno}"
    last = type(way[-1][1])
    module = last.__module__.partition("._")[0]  # `numpy.random._generator` means nothing to users
    return f"{' → '.join(text for text, _ in way if text)} ({module}.{last.__qualname__}){place}"
