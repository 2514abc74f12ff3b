"""Find random generators in a pipeline whose numbers would repeat in every process worker.

A worker process starts with a copy of the pipeline. A generator in it, such as
``self.rng = np.random.default_rng(0)``, has the same state in every worker, and in every epoch for which
workers start again. The search follows only attributes and variables that the code of the items mentions,
and skips generators that this code seeds, sets or copies itself: a false warning would be worse than none.
"""

from __future__ import annotations

import dis
import random
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from .culprits import Way, is_internal, is_renewed, name_at_end, sentence, ways
from .hooks import introduce

__all__ = [
    "code_of",
    "is_generator",
    "mentioned",
    "names_in_class",
    "names_in_hook",
    "repetition_warning",
    "variables_around",
]

_GENERATORS = {("numpy", "Generator"), ("numpy", "RandomState"), ("random", "Random"), ("torch", "Generator")}
# Code that mentions one of these chooses the state of its generator for each item.
_RENEWS = {"seed", "manual_seed", "set_state", "setstate", "bit_generator", "deepcopy", "clone_state"}
# The methods of an object that are called for an item.
_ENTRIES = {
    *("__getitem__", "__getitems__", "__call__", "__iter__", "__next__", "__getattr__"),
    *("_get", "_getmany", "_iter"),
}


def repetition_warning(view: Any, hook: Callable[..., Any] | None = None) -> str | None:
    """Return the warning for generators that each process worker would have a copy of, or None.

    Parameters
    ----------
    view : View
    hook : callable, optional
        The start hook. A generator that it mentions is its own affair.

    Examples
    --------
    >>> import numpy as np, seqkit as sk
    >>> rng = np.random.default_rng(0)
    >>> repetition_warning(sk.smap(lambda x: x + rng.random(), [1, 2]))
    'prefetch: each process worker starts with the same copy of ... `rng` (numpy.random.Generator), ...'
    >>> repetition_warning(sk.random_map(lambda x, rng: x + rng.random(), [1, 2]))
    """
    own = names_in_hook(hook)
    for way in ways(view, is_generator):
        if _is_used(way, name_at_end(way)) and not is_renewed(way, own):
            return (
                "prefetch: each process worker starts with the same copy of a random generator, so its"
                f" numbers repeat in every worker and whenever workers start: {sentence(way)}. Use"
                " sk.random_map(f, items), which calls f(item, rng) with a generator for each item."
            )
    return None


def names_in_hook(hook: Callable[..., Any] | None) -> set[str]:
    """Return the names in the code of the user's start hook."""
    if isinstance(hook, partial) and hook.func is introduce:
        hook = hook.args[0]
    return mentioned(code_of(getattr(hook, "worker_init_fn", hook)))


def is_generator(value: Any) -> bool:
    """Is a value a random generator, other than the global ones of libraries?"""
    for kind in type(value).__mro__:
        if (kind.__module__.partition(".")[0], kind.__name__) in _GENERATORS:
            return not isinstance(value, random.SystemRandom) and not _is_global(value)
    return False


def _is_global(generator: Any) -> bool:
    """Return whether a generator is the one behind the functions of its module, which workers seed."""
    owners = (("random", "_inst"), ("numpy.random.mtrand", "_rand"), ("torch", "default_generator"))
    return any(generator is getattr(sys.modules.get(module), name, None) for module, name in owners)


def _is_used(way: Way, name: str) -> bool:
    """Return whether code of the items may draw from the generator at the end of a way.

    `name` is its attribute or variable.
    """
    codes = _codes_along(way)
    names = mentioned(codes)
    if not all(step.name in names for step in way if step.name):
        return False
    users = [code for code in codes if name in mentioned([code])]
    return not any(_RENEWS & mentioned([code]) or name in _stored(code) for code in users)


def _codes_along(way: Way) -> list[CodeType]:
    """Return the code that runs for an item: functions on the way, and methods that these call by name."""
    codes = [code for step in way for code in code_of(step.value)]
    names = mentioned(codes)
    is_bound = False  # then the item calls one method only
    for step in way:
        if not is_bound and not isinstance(step.value, FunctionType | MethodType):
            names |= _ENTRIES
        is_bound = isinstance(step.value, MethodType)
    members: dict[str, list[Any]] = {}
    for kind in {type(step.value) for step in way[:-1]}:
        for name, overriding in _methods(kind).items():
            members.setdefault(name, []).extend(overriding)
    while called := names & members.keys() - {"__init__"}:
        new = [code for name in called for member in members.pop(name) for code in code_of(member)]
        names |= mentioned(new)
        codes += new
    return codes


def _methods(kind: type) -> dict[str, list[Any]]:
    """Return the methods of a class by name, each with those that it calls through `super`."""
    found: dict[str, list[Any]] = {}
    for base in kind.__mro__:
        for name, member in () if is_internal(base) else vars(base).items():
            overriding = found.setdefault(name, [])
            if not overriding or "super" in mentioned(code_of(overriding[-1])):
                overriding.append(member)
    return found


def code_of(member: Any) -> list[CodeType]:
    """Return the code of a function, or of what wraps one."""
    codes = []
    while member is not None:
        if isinstance(member, FunctionType):
            codes.append(member.__code__)
        inner = (getattr(member, name, None) for name in ("__wrapped__", "__func__", "fget", "func"))
        is_wrapper = isinstance(
            member,
            FunctionType | MethodType | staticmethod | classmethod | property | cached_property | partial,
        )
        member = next(filter(None, inner), None) if is_wrapper else None
    return codes


def variables_around(function: FunctionType) -> dict[str, Any]:
    """Return the variables of outer functions that a function uses, by their names."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    found: dict[str, Any] = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it is not assigned yet
            pass
    return found


def names_in_class(value: Any) -> set[str]:
    """Return the names in the code of the class of an object, and of its base classes."""
    members = (member for base in type(value).__mro__ for member in vars(base).values())
    return mentioned([code for member in members for code in code_of(member)])


def mentioned(codes: list[CodeType]) -> set[str]:
    """Return the attributes, globals, outer variables, parameters and texts in code."""
    names: set[str] = set()
    for code in codes:
        names.update(code.co_names, code.co_freevars, _parameters(code))
        names.update(constant for constant in code.co_consts if isinstance(constant, str))
        names |= mentioned([constant for constant in code.co_consts if isinstance(constant, CodeType)])
    return names


def _parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _stored(code: CodeType) -> Iterator[str]:
    """Yield the names of the attributes and variables that code sets."""
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith("STORE_"):
            yield instruction.argval
        if isinstance(instruction.argval, CodeType):
            yield from _stored(instruction.argval)
