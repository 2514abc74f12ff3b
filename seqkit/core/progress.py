"""`progress=` of functions that take long: a function of the user, or a display of `seqkit.observe`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from .errors import as_given
from .lazy import load

__all__ = ["Progress", "Report", "check_progress", "reporting"]

Report: TypeAlias = Callable[[int, int | None], Any]
Progress: TypeAlias = Report | Literal[True] | Any


def check_progress(value: Any, who: str) -> None:
    """Raise TypeError unless a value is None, a bool, a function, or a bar such as that of tqdm.

    >>> check_progress(3, "pack: progress")
    Traceback (most recent call last):
    TypeError: pack: progress must be True, a function of (done, total) or a bar of tqdm, got 3
    """
    is_bar = hasattr(value, "update") and hasattr(value, "n")
    if isinstance(value, type) or not (value is None or isinstance(value, bool) or callable(value) or is_bar):
        raise TypeError(
            f"{who} must be True, a function of (done, total) or a bar of tqdm, got {as_given(value)}"
        )


@contextmanager
def reporting(progress: Progress | None, what: str, sequence: Any = None) -> Iterator[Report]:
    """Return a function of the number of items that are done and of all items, or None if it is unknown.

    A function of the user is returned as it is. True is the display of `seqkit.watch`, which also shows the
    nodes of `sequence`.

    >>> with reporting(lambda done, total: print(done, "of", total), "pack") as report:
    ...     report(1, 2)
    1 of 2
    """
    if progress is None or progress is False:
        yield lambda done, total: None
    elif callable(progress):
        yield progress
    elif progress is True:
        meter = load("meter")(what, sequence)
        try:
            yield meter.report
        finally:
            meter.close()
    else:
        begun = progress.n
        yield lambda done, total: progress.update(begun + done - progress.n)
