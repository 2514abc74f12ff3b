"""The signature of a constructor that takes the fields of a dataclass, and hints for misspelt names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Concatenate, ParamSpec, TypeVar, get_type_hints

from ..core.misspelt import meant
from ..core.tracebacks import hiding_frames

__all__ = ["did_you_mean", "takes"]

P = ParamSpec("P")
A = TypeVar("A")
S = TypeVar("S")


def takes(
    arguments: Callable[P, A],
) -> Callable[[Callable[[S, A], None]], Callable[Concatenate[S, P], None]]:
    """Decorate ``__init__(self, given)``: it has the signature of a dataclass, and gets an object of it.

    The error of an unknown keyword argument suggests one that exists.
    """
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
                        hint = did_you_mean(name, parameters)
                        raise TypeError(f"DataLoader: no argument is called {name!r}{hint}")
                given = arguments(*args, **named)
            init(self, given)

        own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        wrapper.__signature__ = Signature([own, *parameters.values()])  # type: ignore[attr-defined]
        return wrapper

    return decorate


# Names that other libraries have for these arguments.
_OTHER_NAMES = {
    "bs": "batch_size",
    "max_buffered": "prefetch_factor",
    "n_workers": "num_workers",
    "nworkers": "num_workers",
    "start_hook": "worker_init_fn",
    "workers": "num_workers",
}


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question for a misspelt name, or nothing."""
    close = meant(name, names, _OTHER_NAMES)
    return f". Did you mean {close!r}?" if close else ""
