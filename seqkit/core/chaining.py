"""Method chaining: every function whose first argument is a sequence, as a method of `View`.

The methods are attached in one place, so that the base class does not import the combinators::

    sk.view(paths).smap(decode).shuffle(seed=0).batch(32).prefetch(4)

Type checkers read chaining.pyi instead, which names the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, getdoc, signature
from typing import Any, Generic, TypeVar

from .tracebacks import hide_frames, hiding_frames

__all__ = ["Chainable", "attach", "attach_joining", "attach_lazily"]

T_co = TypeVar("T_co", covariant=True)


class Chainable(Generic[T_co]):
    """The base class of `View`, to which the methods are attached. Items have type `T_co`."""


def attach(function: Callable[..., Any], position: int = 0, name: str = "") -> None:
    """Make `function` a method of every view. The view is passed as argument number `position`."""

    name = name or function.__name__
    before = ", ".join(list(signature(function).parameters)[:position])

    @wraps(function)
    def method(self: Chainable[Any], /, *args: Any, **kwargs: Any) -> Any:
        if len(args) < position:
            raise TypeError(f"{name}: {before} comes first, and by position: view.{name}({before}, …)")
        try:  # cheaper than a block of `hiding_frames`
            return function(*args[:position], self, *args[position:], **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    method.__name__ = name
    parameters = list(signature(function).parameters.values())
    if parameters[position].kind is not Parameter.VAR_POSITIONAL:  # further sequences may follow
        del parameters[position]
    here = Parameter("self", Parameter.POSITIONAL_ONLY)
    before_it = [p.replace(kind=Parameter.POSITIONAL_ONLY) for p in parameters[:position]]
    method.__signature__ = Signature([here, *before_it, *parameters[position:]])  # type: ignore[attr-defined]
    method.__doc__ = f"Method of `seqkit.{name}`: the sequence is this view.\n\n{getdoc(function)}"
    setattr(Chainable, name, method)


def attach_joining(function: Callable[..., Any]) -> None:
    """Make a function of a list of sequences a method of every view. The view is the first of the list."""
    name = function.__name__

    def method(self: Chainable[Any], /, *others: Any, **named: Any) -> Any:
        with hiding_frames():
            return function([self, *others], **named)  # which refuses names

    method.__module__, method.__name__ = function.__module__, name
    method.__doc__ = f"Return ``seqkit.{name}([view, *others])``.\n\n{getdoc(function)}"
    setattr(Chainable, name, method)


def attach_lazily(name: str, module: str) -> None:
    """Make the function `name` of `module` a method of every view, without importing it now."""
    setattr(Chainable, name, _LazyMethod(name, module))


class _LazyMethod:
    """A method that imports its function when it is first used. `attach` then replaces it."""

    def __init__(self, name: str, module: str) -> None:
        self._name = name
        self._module = module

    def __get__(self, view: Any, kind: type | None = None) -> Any:
        attach(getattr(import_module(self._module), self._name))
        return vars(Chainable)[self._name].__get__(view, kind)
