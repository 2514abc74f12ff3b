"""`progress=` of functions that take long: a function of the user, or a bar of tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from .errors import brief
from .lazy import need

__all__ = ["Progress", "Report", "check_progress", "reporting"]

Report: TypeAlias = Callable[[int, int | None], Any]
Progress: TypeAlias = Report | Literal[True]


def check_progress(value: Any, who: str) -> None:
    """Raise TypeError unless a value is None, a bool or a function. Raise ImportError if tqdm is missing.

    >>> check_progress(3, "pack: progress")
    Traceback (most recent call last):
    TypeError: pack: progress must be True or a function of (done, total), got 3
    """
    if isinstance(value, type) or not (value is None or isinstance(value, bool) or callable(value)):
        raise TypeError(f"{who} must be True or a function of (done, total), got {brief(value)}")
    if value is True:
        need("tqdm", who)


@contextmanager
def reporting(progress: Progress | bool | None, what: str) -> Iterator[Report]:
    """Return a function of the number of items that are done and of all items, or None if it is unknown.

    A function of the user is returned as it is. True shows a bar of tqdm.

    >>> with reporting(lambda done, total: print(done, "of", total), "pack") as report:
    ...     report(1, 2)
    1 of 2
    """
    if progress is True:
        from tqdm.auto import tqdm

        with tqdm(desc=what) as bar:
            yield lambda done, total: _move(bar, done, total)
    else:
        yield progress or (lambda done, total: None)


def _move(bar: Any, done: int, total: int | None) -> None:
    bar.total = total
    bar.update(done - bar.n)
