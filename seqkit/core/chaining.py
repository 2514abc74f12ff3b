"""Method chaining: every function whose first argument is a sequence, as a method of `View`.

The methods are attached in one place, so that the base class does not import the combinators::

    sk.view(paths).smap(decode).shuffle(seed=0).batch(32).prefetch(4)

Type checkers read chaining.pyi instead, which names the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, getdoc, signature
from typing import Any, Generic, TypeVar

from .lazy import load
from .tracebacks import hide_frames

__all__ = ["Chainable", "Displayed", "attach"]

T_co = TypeVar("T_co", covariant=True)


class _Method:
    """A method that imports its function when it is first used. The method itself then takes its place.

    The object is passed as argument number `position`, or as the first member of a list for None.
    """

    def __init__(self, position: int | None) -> None:
        self._position = position

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, view: Any, kind: type | None = None) -> Any:
        made = _method(load(self._name), self._name, self._position)
        setattr(self._owner, self._name, made)
        return made.__get__(view, kind)


def _method(function: Callable[..., Any], name: str, position: int | None) -> Any:
    place = position or 0
    before = ", ".join(list(signature(function).parameters)[:place])

    @wraps(function)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if len(args) < place:
            raise TypeError(f"{name}: {before} comes first, and by position: view.{name}({before}, …)")
        try:  # cheaper than a block of `hiding_frames`
            if position is None:
                return function([self, *args], **kwargs)
            return function(*args[:place], self, *args[place:], **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    method.__name__ = name
    place_of_view = "the first of the sequences" if position is None else "the sequence"
    method.__doc__ = f"Method of `seqkit.{name}`: {place_of_view} is this view.\n\n{getdoc(function)}"
    method.__signature__ = _signature(function, place, position is None)  # type: ignore[attr-defined]
    return method


def _signature(function: Callable[..., Any], place: int, joins: bool) -> Signature:
    here = Parameter("self", Parameter.POSITIONAL_ONLY)
    if joins:
        return Signature(
            [here, Parameter("others", Parameter.VAR_POSITIONAL), Parameter("named", Parameter.VAR_KEYWORD)]
        )
    parameters = list(signature(function).parameters.values())
    if parameters[place].kind is not Parameter.VAR_POSITIONAL:  # further sequences may follow
        del parameters[place]
    before_it = [p.replace(kind=Parameter.POSITIONAL_ONLY) for p in parameters[:place]]
    return Signature([here, *before_it, *parameters[place:]])


def attach(owner: type, name: str, position: int | None = 0) -> None:
    """Make a function of the table a method of a class. It is imported when it is first used."""
    method = _Method(position)
    method.__set_name__(owner, name)
    setattr(owner, name, method)


class Displayed:
    """The base of views and loaders, with the methods that display them."""

    explain = _Method(0)
    preview = _Method(0)
    trace = _Method(0)
    watch = _Method(0)

    def _repr_html_(self) -> str:
        drawing: str = load("explain")(self)._repr_html_()
        return drawing


class Chainable(Displayed, Generic[T_co]):
    """The base class of `View`, to which the methods are attached. Items have type `T_co`."""
