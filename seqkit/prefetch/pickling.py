"""Pickling for other processes, to which the main module of this one means nothing.

Guarantees
----------
- by value go lambdas, closures and what the main module defines, functions that cache and cached properties
  too; so they do in a child of `multiprocessing`, whose main module is known by a name of its own;
- classes that came by value go back as those that they were, and change nothing about them; so they do within
  the process that they are of, and from a fork of it;
- tensors go by their memory, plainly or by value.

Relies on
---------
- whoever unpickles having cloudpickle, and this module;
- cloudpickle making a class of arguments the last but one of which is the class's name with it, filling the
  class afterwards, and knowing it by that name as long as somebody holds it.
"""

from __future__ import annotations

import copyreg
import io
import operator
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from itertools import chain, count
from types import FunctionType, MemberDescriptorType
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

import cloudpickle

from ..context import MAIN
from .tensors import reduce_tensor

__all__ = [
    "dumps",
    "dumps_back",
    "dumps_by_value",
    "goes_by_value",
    "has_a_name",
    "refer_to_classes",
    "refer_to_reader",
]


def dumps(value: Any, **options: Any) -> bytes:
    """Pickle as `pickle.dumps` does, tensors by their memory."""
    return _dumps(pickle.Pickler, value, options)


def dumps_by_value(value: Any, **options: Any) -> bytes:
    """Pickle with cloudpickle: lambdas, closures and what the main module defines travel by value.

    Classes that do are added to a list `sent`: who waits for their instances is to hold them.
    """
    _know_main()
    return _dumps(_ByValue, value, options)


def dumps_back(value: Any, **options: Any) -> bytes:
    """Pickle by value for the process that the pipeline came from."""
    _know_main()
    return _dumps(_BackFromFork if _is_fork else _Back, value, options)


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
    if has_a_name(function) and function.__module__ not in MAIN:
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
    """Sends classes so that whoever receives them knows whose they are, and what they are called there."""

    dispatch_table: ClassVar[Mapping[type, Any]] = _Reducers(
        {
            **cloudpickle.Pickler.dispatch_table,
            type(lru_cache(len)): _reduce_cached,
            cached_property: _reduce_property,
        },
        copyreg.dispatch_table,
    )

    def __init__(self, file: io.BytesIO, *, sent: list[type] | None = None, **options: Any) -> None:
        super().__init__(file, **options)
        self._sent = sent

    def reducer_override(self, obj: Any) -> Any:
        reduced = super().reducer_override(obj)
        if type(reduced) is tuple and len(reduced) == 6 and issubclass(type(obj), type):
            return self._sending(obj, *reduced[:3])
        return reduced

    def _sending(self, kind: type, make: Callable[..., type], arguments: tuple[Any, ...], state: Any) -> Any:
        if self._sent is not None:
            self._sent.append(kind)
        origin = self._origin(kind)
        return _made, (origin, make, *arguments), (origin, state), None, None, _fill

    def _origin(self, kind: type) -> _Origin:
        return _Origin(_here(), kind.__qualname__, _slots(kind), has_a_name(kind))


class _Back(_ByValue):
    """Names the classes that came from where this goes."""

    def reducer_override(self, obj: Any) -> Any:
        if issubclass(type(obj), type) and (name := _name(obj)) is not None:
            return _original, (name,)
        return super().reducer_override(obj)

    def _origin(self, kind: type) -> _Origin:
        return _Origin(None, kind.__qualname__, _slots(kind))


class _BackFromFork(_Back):
    """Leaves out what the main module defines, and says which other classes are the reader's, not a copy."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and obj.__module__ in MAIN and has_a_name(obj):
            return NotImplemented
        return super().reducer_override(obj)

    def _origin(self, kind: type) -> _Origin:
        return super()._origin(kind)._replace(inherited=_inherited_as(kind))


_is_fork = False


def refer_to_reader() -> None:
    """Have this process, a fork of the reader's, refer to what both have."""
    global _is_fork
    _is_fork = True
    # Another thread of the reader's, which is not here, may have had it.
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_LOCK = threading.Lock()


# -------------------------------------------------------------------- classes

# The classes that cloudpickle has a name for, whether they are of this process or of another one.
_known: WeakValueDictionary[str, type] = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID
# Those that were made of what came, and those of them that are known where the pipeline came from.
_foreign: WeakSet[type] = WeakSet()
_names: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_HERE = uuid4().hex  # and in forks of this process


class _Origin(NamedTuple):
    """Whose a class is: of a process `home`; none for one that goes back to where the pipeline came from."""

    home: str | None
    qualname: str
    slots: Any
    has_a_name: bool = False  # at home
    inherited: int | None = None


def _here() -> str:
    return f"{_HERE}-{os.getpid()}"


def has_a_name(obj: Any) -> bool:
    """Is this class or function to be found where it says that it was defined?"""
    try:
        return operator.attrgetter(obj.__qualname__)(sys.modules[obj.__module__]) is obj
    except Exception:  # of a module or a metaclass that has its own way with attributes
        return False


def goes_by_value(kind: type) -> bool:
    """Does this class mean nothing, by its name, to other processes?"""
    return kind.__module__ in MAIN or not has_a_name(kind)


def _slots(kind: type) -> Any:
    """Return the slots that a class was made with; None if without."""
    members = vars(kind)
    are_real = any(type(member) is MemberDescriptorType for member in members.values())
    return members.get("__slots__") if are_real or not kind.__dictoffset__ else None


# Classes of this process, as forks of it have them: by address, and by numbers that are never used again.
# What is made afterwards, here or there, may lie at the address of one that is gone. Workers give no numbers,
# as they fork none: those that come back are of this process.
_numbers: dict[int, tuple[ref[type], int]] = {}
_numbered: dict[int, ref[type]] = {}
_count = count()


def refer_to_classes() -> None:
    """Number all classes, for forks of this process to say which one is meant."""
    # There may be thousands of classes, and every start of a worker comes by here: what `_inherited_as`
    # asks is spelled out below, so that no class costs a call of a Python function.
    new: Iterable[type] = [object]
    found: set[int] = set()
    while new:
        for kind in new:
            found.add(id(kind))
            known = _numbers.get(id(kind))
            if known is None or known[0]() is not kind:
                number, one = next(_count), ref(kind)
                _numbered[number] = one  # before the other: another thread may number it, too
                _numbers[id(kind)] = one, number
        below: Iterable[type] = chain.from_iterable(map(type.__subclasses__, new))
        new = [kind for kind in below if id(kind) not in found]
    if len(_numbered) > 2 * len(found):
        for number, one in list(_numbered.items()):
            if one() is None:
                _numbered.pop(number, None)


def _inherited_as(kind: type) -> int | None:
    one, number = _numbers.get(id(kind), (None, None))
    return number if one is not None and one() is kind else None


def _name(kind: type) -> str | None:
    try:
        return _names.get(kind)
    except Exception:  # of its metaclass
        return None


def _original(name: str) -> type:
    kind = _known.get(name)
    if kind is None:
        raise LookupError("its class, which came from this process, is there no more")
    return kind


def _made(origin: _Origin, make: Callable[..., type], *arguments: Any) -> type:
    """Return the class that is meant: the one that is here already, or a new one that is to be filled."""
    name = arguments[-2]
    kind = _shared(origin)
    if kind is None:
        kind = _known.get(name)
    if kind is None:
        new = _new(origin, make, *arguments)
        type.__setattr__(new, "__qualname__", origin.qualname)
        _foreign.add(new)  # before another thread finds it
        kind = cloudpickle.cloudpickle._lookup_class_or_track(name, new)
    if _is_elsewhere(origin) and kind in _foreign:
        _names[kind] = name
    return kind


def _new(origin: _Origin, make: Callable[..., type], *arguments: Any) -> type:
    """Make a class of which cloudpickle does not know yet."""
    *before, _, extra = arguments
    if origin.slots is not None:  # cloudpickle adds them when they mean nothing any more
        with suppress(Exception):  # of a metaclass that sees to slots itself
            *first, members = before
            made = make(*first, {**members, "__slots__": origin.slots}, None, extra)
            if vars(made)["__slots__"] == origin.slots:
                return made
    return make(*before, None, extra)


def _shared(origin: _Origin) -> type | None:
    """Return the class that the sender has inherited from this process."""
    one = None if origin.inherited is None else _numbered.get(origin.inherited)
    return None if one is None else one()


def _fill(kind: type, content: tuple[_Origin, Any]) -> None:
    """Give a class its attributes, but none that is of this process."""
    origin, state = content
    if _shared(origin) is kind or (not _is_elsewhere(origin) and kind not in _foreign):
        return
    cloudpickle.cloudpickle._class_setstate(kind, state)
    if origin.has_a_name and kind.__module__ in MAIN:
        _adopt(kind)


def _is_elsewhere(origin: _Origin) -> bool:
    """Is a class of another process? What this one, as a fork of that, has of it may be older."""
    return origin.home is not None and origin.home != _here()


def _adopt(kind: type) -> None:
    """Put a class of the other main module onto the one of this process.

    Its instances then go by plain pickle, as a reference, and meet the class of that name.
    """
    main = sys.modules.setdefault(kind.__module__, sys.modules["__main__"]).__dict__
    if "." not in kind.__qualname__ and _name(main.setdefault(kind.__qualname__, kind)) is not None:
        main[kind.__qualname__] = kind  # and not the one that had the name there before
