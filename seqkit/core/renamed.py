"""Other names of parameters: old ones, which are accepted with a warning, and those of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .tracebacks import hiding_frames, warn

__all__ = ["named_elsewhere", "renamed"]

F = TypeVar("F", bound=Callable[..., Any])


def renamed(**old: str) -> Callable[[F], F]:
    """Decorate a function some of whose parameters had other names.

    Parameters
    ----------
    **old : str
        The name of the parameter now, for each old name.

    Raises
    ------
    TypeError
        By the function, if a call uses both names of a parameter.

    Notes
    -----
    One call more for each call of the function.

    Examples
    --------
    >>> import warnings
    >>> @renamed(colour="color")
    ... def paint(color): return color
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     paint(colour="red"), str(caught[0].message)
    ('red', 'paint: the parameter colour is called color now. The old name will stop working.')
    """

    def decorate(function: F) -> F:
        who = function.__qualname__.removesuffix(".__init__").split("<locals>.")[-1]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                kwargs = _translated(kwargs, old, who)
            return function(*args, **kwargs)

        return cast(F, call)

    return decorate


def _translated(given: dict[str, Any], old: dict[str, str], who: str) -> dict[str, Any]:
    """Return arguments by their names of today, with a warning for each old name."""
    if old.keys().isdisjoint(given):
        return given
    found: dict[str, Any] = {}
    for name, value in given.items():
        now = old.get(name, name)
        if now is not name:
            warn(
                f"{who}: the parameter {name} is called {now} now. The old name will stop working.",
                FutureWarning,
            )
        if now in found or (now is not name and now in given):
            with hiding_frames():
                raise TypeError(f"{who}: got {name} and {now}, the same parameter twice. Pass only {now}.")
        found[now] = value
    return found


def named_elsewhere(**words: str) -> Callable[[F], F]:
    """Decorate a function of which other libraries call parameters by other names.

    Parameters
    ----------
    **words : str
        What to use instead, for each name elsewhere.

    Raises
    ------
    TypeError
        By the function, if it is called with one of these names.

    Notes
    -----
    One call more for each call of the function.

    Examples
    --------
    >>> @named_elsewhere(colour="color")
    ... def paint(color): return color
    >>> paint(colour="red")
    Traceback (most recent call last):
    TypeError: paint: there is no parameter colour. Use color.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs and not words.keys().isdisjoint(kwargs):
                name = next(name for name in kwargs if name in words)
                with hiding_frames():
                    raise TypeError(f"{function.__name__}: there is no parameter {name}. Use {words[name]}.")
            return function(*args, **kwargs)

        return cast(F, call)

    return decorate
