"""Find the object in a pipeline that cannot be pickled, and objects of some kind that functions hold.

Both searches name the way to the object: ``smap → `decode` uses global `lock` (_thread.lock), train.py:4``.
They follow attributes, containers, closures and defaults, and nothing that is only a name in code. Of the
globals of a function, the first search follows those that its pickle holds.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from .pickling import globals_of

__all__ = ["Unpicklable", "pickling_error", "sentence", "unpicklable", "ways"]

MOST_OBJECTS = 300  # visited when workers start, in at most a millisecond
MOST_ITEMS = 20  # looked at in each container
DEPTH = 12
HEAP_TYPE = 1 << 9  # the flag of classes that a Python program defines
_LEAVES: tuple[type, ...] = (
    *(str, bytes, int, float, complex, range),
    *(type(None), type, ModuleType),
)
_KNOWN = (FunctionType, BuiltinFunctionType, MethodType, partial, dict, list, tuple)


class Reference(NamedTuple):
    """How one object refers to another."""

    text: str
    value: Any


Way = tuple[Reference, ...]


def ways(view: Any, is_wanted: Callable[[Any], bool]) -> Iterator[Way]:
    """Yield the ways to the wanted objects among the first few hundred objects of a view.

    Of the globals of functions and the attributes of classes, only wanted ones are looked at.
    """
    pending: deque[Way] = deque([(Reference(_name(view), view),)])
    seen: set[int] = set()

    @cache
    def of_class(kind: type) -> list[Reference]:
        bases = [base for base in kind.__mro__ if base.__flags__ & HEAP_TYPE and not _is_internal(base)]
        attributes = [item for base in bases for item in vars(base).items()]
        return [Reference(f"attribute `{name}`", value) for name, value in attributes if is_wanted(value)]

    while pending and len(seen) < MOST_OBJECTS:
        way = pending.popleft()
        value = way[-1].value
        if is_wanted(value):
            yield way
        elif id(value) not in seen:
            seen.add(id(value))
            if len(way) <= DEPTH:
                pending.extend((*way, step) for step in _references(value))
                pending.extend((*way, step) for step in of_class(type(value)))  # type: ignore[arg-type]
            if isinstance(value, FunctionType):
                found = [item for item in value.__globals__.copy().items() if is_wanted(item[1])]
                pending.extend((*way, Reference(f"global `{name}`", held)) for name, held in found)


def unpicklable(view: Any, dumps: Callable[[Any], Any]) -> str | None:
    """Return the way to the innermost object that `dumps` cannot pickle, or None if there is none.

    Parameters
    ----------
    view : View
    dumps : callable
        Raises any exception for a value that cannot be pickled.

    Examples
    --------
    >>> import cloudpickle, seqkit as sk, threading
    >>> def decode(path, lock=threading.Lock()): ...
    >>> unpicklable(sk.batch(sk.smap(decode, ["a.jpg"]), 2), cloudpickle.dumps)
    'batch → smap → `decode` uses default `lock` (_thread.lock), ...:1'
    >>> unpicklable(sk.smap(len, ["a"]), cloudpickle.dumps)
    """
    if _pickles(view, dumps):
        return None
    way: Way = (Reference(_name(view), view),)
    seen = {id(view)}
    while True:
        for step in _carried(way[-1].value):
            if id(step.value) not in seen and not _pickles(step.value, dumps):
                seen.add(id(step.value))
                way = (*way, step)
                break
        else:
            return sentence(way)


class Unpicklable(TypeError):
    """Says why a pipeline cannot be sent to workers."""


def pickling_error(view: Any, error: Exception, dumps: Callable[[Any], Any]) -> Unpicklable:
    """Return the error for a pipeline that cannot be pickled: the object, the reason and what to do.

    Parameters
    ----------
    view : View
    error : Exception
        What pickling the view raised.
    dumps : callable
        See `unpicklable`.
    """
    culprit = unpicklable(view, dumps) or _name(view)
    return Unpicklable(
        f"prefetch: the pipeline cannot be pickled for workers: {culprit}: {type(error).__name__}: {error}."
        " Open files and connections in each process with sk.per_process, create locks inside the function,"
        " or use method='thread'."
    )


def _pickles(value: Any, dumps: Callable[[Any], Any]) -> bool:
    try:
        dumps(value)
    except (Exception, SystemExit):
        return False
    return True


# -------------------------------------------------------------------- references of an object


def _references(value: Any) -> Iterator[Reference]:
    """Yield the objects that a value refers to."""
    if isinstance(value, _LEAVES):
        return
    if isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, MethodType):
        yield Reference("", value.__self__)
        yield Reference("", value.__func__)
    elif isinstance(value, BuiltinFunctionType):
        yield Reference("", value.__self__)
    elif isinstance(value, partial):
        yield Reference(_label(value.func, ""), value.func)
        yield from _references([*value.args, *value.keywords.values()])
    elif isinstance(value, dict):
        yield from (Reference(f"key {key!r}", item) for key, item in islice(value.items(), MOST_ITEMS))
    elif isinstance(value, list | tuple):
        fields = () if _is_internal(type(value)) else getattr(value, "_fields", ())  # of a named tuple
        names = [f"attribute `{name}`" for name in fields]
        for i, item in enumerate(value[:MOST_ITEMS]):
            yield Reference(_label(item, names[i] if i < len(names) else f"item {i}"), item)
    else:
        yield from _of_attributes(value, getattr(value, "__dict__", None))
        slots = (name for kind in type(value).__mro__ for name in _listed(vars(kind).get("__slots__")))
        yield from _of_attributes(
            value, {name: getattr(value, name) for name in slots if hasattr(value, name)}
        )


def _is_internal(kind: type) -> bool:
    """Return whether a class is seqkit's own."""
    return kind.__module__.startswith("seqkit.")


def _listed(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots or ())


def _of_attributes(owner: Any, attributes: Any) -> Iterator[Reference]:
    if not isinstance(attributes, dict):
        return
    for name, value in list(attributes.items()):
        if name != "_site":
            name = "" if _is_internal(type(owner)) else name
            yield Reference(_label(value, name and f"attribute `{name}`"), value)


def _carried(value: Any) -> Iterator[Reference]:
    """Yield the objects that a pickle of the value holds, as its ``__reduce__`` returns them."""
    if isinstance(value, (*_LEAVES, *_KNOWN)):
        yield from _references(value)
        if isinstance(value, FunctionType):
            found = globals_of(value)
            yield from (Reference(f"uses global `{name}`", held) for name, held in found.items())
        return
    try:
        reduced = value.__reduce_ex__(4)
    except (Exception, SystemExit):
        return
    if isinstance(reduced, tuple):
        for part in reduced[1:3]:
            attributes = part[1] if isinstance(part, tuple) and len(part) == 2 and part[0] is None else part
            if isinstance(attributes, dict):
                yield from _of_attributes(value, attributes)
            elif isinstance(attributes, tuple):
                yield from (Reference(_label(item, ""), item) for item in attributes)


def _of_function(function: FunctionType) -> Iterator[Reference]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Reference(f"uses `{name}`", cell.cell_contents)
        except ValueError:  # it has no value yet
            pass
    code = function.__code__
    names = code.co_varnames[: code.co_argcount][-len(function.__defaults__ or ()) :]
    for name, value in zip(names, function.__defaults__ or (), strict=False):
        yield Reference(f"uses default `{name}`", value)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield Reference(f"uses default `{name}`", value)


# -------------------------------------------------------------------- in words


def _name(view: Any) -> str:
    return getattr(view, "_name", type(view).__name__)


def _label(value: Any, other: str) -> str:
    if isinstance(getattr(value, "_sources", None), tuple):
        return _name(value)
    if isinstance(value, FunctionType | MethodType | partial) or (callable(value) and not other):
        return f"`{getattr(value, '__name__', type(value).__name__)}`"
    return other


def sentence(way: Way) -> str:
    """Return a way in words, with the type at its end and the place of the last function."""
    text, place, is_hidden = "", "", False
    for step in way:
        # The containers in which a view keeps its functions mean nothing to users.
        is_hidden = not step.text or (is_hidden and step.text.startswith("item "))
        label = _label(step.value, "") if is_hidden else step.text
        if label:
            text += (" " if label.startswith("uses") else " → ") * bool(text) + label
        if isinstance(step.value, FunctionType | MethodType):
            code = step.value.__code__
            place = f", {os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    last = type(way[-1].value)
    module = last.__module__.partition("._")[0]  # `numpy.random._generator` means nothing to users
    return f"{text} ({module}.{last.__qualname__}){place}"
