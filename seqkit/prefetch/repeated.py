"""Names in code, for the last users of them."""

from __future__ import annotations

from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType
from typing import Any


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
