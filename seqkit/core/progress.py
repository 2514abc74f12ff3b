"""`progress=` of functions that take long: a function of the user, or a display of `seqkit.observe`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal, TypeAlias

from .errors import as_given

__all__ = ["Progress", "Report", "check_progress", "is_bar", "reporting"]

Report: TypeAlias = Callable[[int, int | None], Any]
Progress: TypeAlias = Report | Literal[True] | Any


def check_progress(value: Any, who: str) -> None:
    """Raise TypeError unless a value is None, a bool, a function, a bar such as that of tqdm, or a file.

    >>> check_progress(3, "pack: progress")
    Traceback (most recent call last):
    TypeError: pack: progress must be True, a function of (done, total), a bar of tqdm or a text file, got 3
    """
    is_known = value is None or isinstance(value, bool) or (callable(value) and not isinstance(value, type))
    if not (is_known or is_bar(value) or hasattr(value, "write")):
        raise TypeError(
            f"{who} must be True, a function of (done, total), a bar of tqdm or a text file, got"
            f" {as_given(value)}"
        )


@contextmanager
def reporting(progress: Progress | None, what: str, sequence: Any = None) -> Iterator[Report]:
    """Return a function of the number of items that are done and of all items, or None if it is unknown.

    A function of the user is returned as it is. Other values of `progress` are displays of `seqkit.watch`,
    which also show the nodes of `sequence`.

    >>> with reporting(lambda done, total: print(done, "of", total), "pack") as report:
    ...     report(1, 2)
    1 of 2
    """
    if progress is None or progress is False:
        yield lambda done, total: None
    elif callable(progress):
        yield progress
    else:
        meter = import_module("seqkit.observe.watch").meter_of(progress, what, sequence)
        try:
            yield meter.report
        finally:
            meter.close()


def is_bar(value: Any) -> bool:
    """Is a value a bar such as that of tqdm?

    >>> is_bar(3)
    False
    """
    return hasattr(value, "update") and hasattr(value, "n") and not isinstance(value, type)
