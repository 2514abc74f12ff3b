"""Argument checks: each returns the checked value, or raises an error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, isasyncgenfunction, iscoroutinefunction, signature
from numbers import Real
from types import FunctionType, MethodType
from typing import Any, Literal

import numpy as np

from .errors import brief
from .plain import as_index, plain

_ASYNC = CO_COROUTINE | CO_ASYNC_GENERATOR

__all__ = [
    "WAYS_TO_END",
    "Last",
    "accepts",
    "as_bool",
    "as_last",
    "as_sequences",
    "check_callable",
    "check_iterable",
    "check_sequences",
    "int_at_least",
    "is_table",
    "number_at_least",
    "optional_int",
    "optional_number",
    "positive_int",
    "refuse_async",
    "refuse_set",
    "refuse_table",
]


def positive_int(value: Any, who: str, other: str = "") -> int:
    """Return an int of at least 1. `other` names further allowed values in the error message.

    >>> positive_int(3, "batch: k")
    3
    >>> positive_int(0, "batch: k")
    Traceback (most recent call last):
    ValueError: batch: k must be a positive int, got 0
    """
    return int_at_least(value, who, 1, other)


def int_at_least(value: Any, who: str, least: int, other: str = "") -> int:
    """Return an int of at least `least`. `other` names further allowed values in the error message.

    >>> int_at_least(-1, "repeat: times", 0)
    Traceback (most recent call last):
    ValueError: repeat: times must be an int of at least 0, got -1
    """
    kind = ("a positive int" if least == 1 else f"an int of at least {least}") + other
    try:
        number = as_index(value)
    except TypeError:
        raise TypeError(f"{who} must be {kind}, got {brief(value)}") from None
    if number < least:
        raise ValueError(f"{who} must be {kind}, got {brief(value)}")
    return number


def optional_int(value: Any, who: str, least: int = 1) -> int | None:
    """Return an int of at least `least`, or None.

    >>> optional_int(None, "cycle: limit")
    >>> optional_int(-1, "cycle: limit", least=0)
    Traceback (most recent call last):
    ValueError: cycle: limit must be an int of at least 0 or None, got -1
    """
    return None if value is None else int_at_least(value, who, least, " or None")


def optional_number(value: Any, who: str, unit: str) -> float | None:
    """Return a number above 0, or None.

    >>> optional_number(np.float32(0.5), "debug: max_rate", "calls per second")
    0.5
    >>> optional_number("2", "debug: max_rate", "calls per second")
    Traceback (most recent call last):
    TypeError: debug: max_rate must be a number of calls per second above 0 or None, got '2'
    """
    return (
        None
        if value is None
        else _number(value, f"{who} must be a number of {unit} above 0 or None", lambda x: x > 0)
    )


def number_at_least(value: Any, who: str, least: float) -> float:
    """Return a finite number of at least `least` as a float.

    >>> number_at_least(1, "FixedBucketSampler: ratio", 0)
    1.0
    """
    return _number(value, f"{who} must be a number of at least {least}", lambda x: least <= x < math.inf)


def _number(value: Any, rule: str, fits: Callable[[float], bool]) -> float:
    given = plain(value)
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{rule}, got {brief(value)}")
    number = float(given)
    if not fits(number):
        raise ValueError(f"{rule}, got {brief(value)}")
    return number


def as_bool(value: Any, who: str) -> bool:
    """Return a bool of Python or numpy as a bool of Python.

    >>> as_bool("no", "shard: contiguous")
    Traceback (most recent call last):
    TypeError: shard: contiguous must be a bool, got 'no'
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{who} must be a bool, got {brief(value)}")
    return bool(value)


def accepts(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a function can be called with these arguments, as far as its signature tells.

    >>> accepts(lambda epoch: 0, 3), accepts(lambda: 0, 3)
    (True, False)
    """
    try:
        signature(function, follow_wrapped=False).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        pass
    return True


def check_callable(value: Any, who: str, *, optional: bool = False, may_be_async: bool = False) -> None:
    """Raise TypeError unless a value is callable, or None if that is allowed.

    An async function is refused, except where a `prefetch` node can await its result.

    >>> check_callable("abs", "smap: f")
    Traceback (most recent call last):
    TypeError: smap: f must be callable, got 'abs'
    """
    if type(value) is FunctionType and not value.__code__.co_flags & _ASYNC:
        return  # the most common case, fast
    if not callable(value) and not (optional and value is None):
        raise TypeError(f"{who} must be callable{' or None' * optional}, got {brief(value)}")
    if not may_be_async:
        refuse_async(value, who)


def refuse_async(value: Any, who: str) -> None:
    """Raise TypeError for an async function, or an object or partial that calls one. Nothing awaits it.

    >>> async def fetch(url): ...
    >>> refuse_async(fetch, "smap: f")
    Traceback (most recent call last):
    TypeError: smap: f must be a plain function, got the async function fetch, which is not awaited ...
    """
    function = value
    while isinstance(function, partial):
        function = function.func
    called = function if isinstance(function, FunctionType | MethodType) else type(function).__call__
    if iscoroutinefunction(called) or isasyncgenfunction(called):
        name = getattr(value, "__name__", type(value).__name__)
        raise TypeError(
            f"{who} must be a plain function, got the async function {name}, which is not awaited here. Use"
            " it with smap, and read that with prefetch(..., method='async')"
        )


def is_table(value: Any) -> bool:
    """Return whether a value is a table of pandas, polars or Arrow. Iterating it gives columns, not rows.

    >>> is_table([{"x": 1}])
    False
    """
    # Not `value.columns`, which may be a cell of a row of pandas, and which polars computes for a LazyFrame.
    return hasattr(type(value), "columns") and hasattr(type(value), "shape")


def refuse_table(value: Any, who: str = "") -> None:
    """Raise TypeError for a table where items would be iterated."""
    if is_table(value):
        kind = type(value).__name__
        raise TypeError(f"{who}iterating a {kind} gives its columns. Pass seqkit.view(table) for its rows.")


def check_sequences(value: Any, who: str) -> None:
    """Raise TypeError unless a value is an iterable of sequences. A mapping or a table is not one.

    >>> check_sequences({"x": [1, 2]}, "concatenate: sequences")
    Traceback (most recent call last):
    TypeError: concatenate: sequences must be an iterable of sequences, got {'x': [1, 2]}
    """
    if not isinstance(value, Iterable) or isinstance(value, Mapping) or is_table(value):
        raise TypeError(f"{who} must be an iterable of sequences, got {brief(value)}")


def as_sequences(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sequences that are the arguments of a function, or one list of them.

    A list of tuples is taken for the samples of one sequence.

    >>> as_sequences(("ab", [1, 2])), as_sequences((["ab", [1, 2]],))
    (('ab', [1, 2]), ('ab', [1, 2]))
    >>> as_sequences(([(1, "a"), (2, "b")],))
    ([(1, 'a'), (2, 'b')],)
    """
    if len(given) != 1 or type(given[0]) not in (list, tuple):
        return given
    kinds = set(map(type, given[0]))
    are_sequences = kinds - {tuple} and all(issubclass(kind, Sequence | np.ndarray) for kind in kinds)
    return tuple(given[0]) if are_sequences else given


def refuse_set(value: Any, who: str) -> None:
    """Raise TypeError for a set, whose order may be another one in each run of the program.

    >>> refuse_set({3, 1}, "DataLoader: sampler")
    Traceback (most recent call last):
    TypeError: DataLoader: sampler: a set has no order, got set. Use sorted(s) or list(s).
    """
    if isinstance(value, set | frozenset):
        raise TypeError(f"{who}: a set has no order, got {type(value).__name__}. Use sorted(s) or list(s).")


def check_iterable(value: Any, who: str, what: str = "indices") -> None:
    """Refuse what cannot be iterated, sets and text; nothing is read."""
    refuse_set(value, who)
    if isinstance(value, type):
        raise TypeError(f"{who} should be an iterable of {what}, but got the class {value.__name__}")
    if isinstance(value, str | bytes) or not (hasattr(value, "__iter__") or hasattr(value, "__getitem__")):
        raise TypeError(f"{who} should be an iterable of {what}, but got {brief(value)}")


# What to do with a last group of fewer items, and what samplers and loaders may also do.
Last = Literal["keep", "discard", "pad"]
WAYS_TO_END = ("keep", "discard", "pad", "rollover")


def as_last(
    value: Any,
    who: str,
    *,
    drop_last: bool = False,
    pad: Any = None,
    default: Last = "keep",
    allowed: tuple[str, ...] = ("keep", "discard", "pad"),
) -> Any:
    """Return what to do with a last group that is short, such as a batch.

    Without a value, ``drop_last=True`` means "discard", and a fill value `pad` means "pad".

    >>> as_last(None, "DataLoader: last_batch", drop_last=True), as_last(None, "batch: last", pad=0)
    ('discard', 'pad')
    >>> as_last("pad", "DataLoader: last_batch", drop_last=True)
    Traceback (most recent call last):
    ValueError: DataLoader: drop_last=True means last_batch='discard', got last_batch='pad'
    """
    function, name = who.split(": ")
    if drop_last and value not in (None, "discard"):
        raise ValueError(f"{function}: drop_last=True means {name}='discard', got {name}={brief(value)}")
    if value is None:
        return "discard" if drop_last else default if pad is None else "pad"
    if value not in allowed:
        choices = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
        raise ValueError(f"{who} must be {choices}, got {brief(value)}")
    if pad is not None and value != "pad":
        raise ValueError(f"{function}: pad needs {name}='pad', got {name}={brief(value)}")
    return value
