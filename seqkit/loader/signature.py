"""The signature of a constructor that takes the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Concatenate, ParamSpec, TypeVar, get_type_hints

from ..core.tracebacks import hiding_frames

__all__ = ["takes"]

P = ParamSpec("P")
A = TypeVar("A")
S = TypeVar("S")


def takes(
    arguments: Callable[P, A],
) -> Callable[[Callable[[S, A], None]], Callable[Concatenate[S, P], None]]:
    """Decorate ``__init__(self, given)``: it has the signature of a dataclass, and gets an object of it."""
    types = get_type_hints(arguments)
    parameters = {
        name: p.replace(annotation=types[name]) for name, p in signature(arguments).parameters.items()
    }

    def decorate(init: Callable[[S, A], None]) -> Callable[Concatenate[S, P], None]:
        @wraps(init)
        def wrapper(self: S, /, *args: P.args, **named: P.kwargs) -> None:
            with hiding_frames():
                for name in named:
                    if name not in parameters:
                        raise TypeError(f"DataLoader: no argument is called {name!r}")
                init(self, arguments(*args, **named))

        own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        wrapper.__signature__ = Signature([own, *parameters.values()])  # type: ignore[attr-defined]
        return wrapper

    return decorate
