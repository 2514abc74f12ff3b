"""Other names of parameters: old ones, which are accepted with a warning, and those of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

from .misspelt import meant
from .tracebacks import hide_frames, warn

__all__ = ["named_elsewhere", "renamed"]

F = TypeVar("F", bound=Callable[..., Any])


def renamed(**old: str) -> Callable[[F], F]:
    """Decorate a function that has renamed parameters.

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

    return _reading(partial(_translated, old))


def _translated(old: dict[str, str], given: dict[str, Any], who: str) -> dict[str, Any]:
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
            raise TypeError(f"{who}: got {name} and {now}, the same parameter twice. Pass only {now}.")
        found[now] = value
    return found


def named_elsewhere(**words: str) -> Callable[[F], F]:
    """Decorate a function that has other parameter names in other libraries.

    Parameters
    ----------
    **words : str
        What to use instead, for each name elsewhere.

    Raises
    ------
    TypeError
        By the function, if it is called with one of these names, or with another one that it does not have.

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
    >>> paint(colr="red")
    Traceback (most recent call last):
    TypeError: paint: there is no parameter colr. Use color.
    >>> paint(size=3)
    Traceback (most recent call last):
    TypeError: paint: there is no parameter size. Its parameters are color.
    """

    return _reading(partial(_refused, words))


def _refused(words: dict[str, str], given: dict[str, Any], who: str) -> dict[str, Any]:
    """Return the arguments, or raise TypeError for a name of another library."""
    for name in given:
        if name in words:
            raise TypeError(f"{who}: there is no parameter {name}. Use {words[name]}.")
    return given


def _say_parameters(
    error: TypeError, who: str, args: tuple[Any, ...], given: dict[str, Any], function: Callable[..., Any]
) -> None:
    """Let the error of a call that does not fit a function say which parameter it has instead."""
    names = [name for name in signature(function).parameters if name != "self"]
    if names[0] == "sequences" and len(args) > 1:
        error.args = (f"{who}: the sequences are one argument. Pass a list of them: {who}([a, b]).",)
        return
    for name in given:
        if name not in names:
            close = meant(name, names)
            advice = f"Use {close}" if close else f"Its parameters are {', '.join(names)}"
            error.args = (f"{who}: there is no parameter {name}. {advice}.",)
            return


def _reading(read: Callable[..., dict[str, Any]]) -> Callable[[F], F]:
    """Return a decorator that has the named arguments of a call read by a function, which gets `who` too."""

    def decorate(function: F) -> F:
        who = function.__qualname__.removesuffix(".__init__").split("<locals>.")[-1]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:  # cheaper than a block of `hiding_frames`
                if not kwargs:
                    return function(*args)
                return function(*args, **read(kwargs, who))
            except Exception as error:
                if type(error) is TypeError and error.__traceback__ and error.__traceback__.tb_next is None:
                    _say_parameters(error, who, args, kwargs, function)  # the call itself failed
                hide_frames(error)
                raise

        return cast(F, call)

    return decorate
