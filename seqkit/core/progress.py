"""`progress=` of functions that take long: a function of the user, a bar, or none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Literal, TypeAlias

from .errors import as_given

__all__ = ["Progress", "Report", "check_progress", "reporting"]

Report: TypeAlias = Callable[[int, int | None], Any]
Progress: TypeAlias = Report | Literal[True] | Any


def check_progress(value: Any, who: str) -> None:
    """Raise TypeError unless a value is None, a bool, a function of two numbers, or a bar such as tqdm's.

    >>> check_progress(3, "filter: progress")
    Traceback (most recent call last):
    TypeError: filter: progress must be True, a function of (done, total) or a bar such as tqdm, got 3
    """
    if not (value is None or isinstance(value, bool) or callable(value) or _is_bar(value)):
        raise TypeError(
            f"{who} must be True, a function of (done, total) or a bar such as tqdm, got {as_given(value)}"
        )


@contextmanager
def reporting(progress: Progress | None, what: str) -> Iterator[Report]:
    """Return a function of the number of items that are done and of all items, or None if it is unknown.

    True shows a bar of tqdm, or a line of text if tqdm is not installed. A class such as ``tqdm`` makes a
    bar. An instance is moved and left open.

    >>> with reporting(lambda done, total: print(done, "of", total), "pack") as report:
    ...     report(1, 2)
    1 of 2
    """
    if progress is None or progress is False:
        yield lambda done, total: None
    elif progress is True or isinstance(progress, type):
        bar = _Bar(_tqdm() if progress is True else progress, what)
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield _moving(progress) if _is_bar(progress) else progress


def _is_bar(value: Any) -> bool:
    return hasattr(value, "update") and hasattr(value, "n") and not isinstance(value, type)


def _tqdm() -> Callable[..., Any]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line
    bar: Callable[..., Any] = tqdm
    return bar


class _Bar:
    """A bar that is made when the number of items is known."""

    def __init__(self, make: Callable[..., Any], what: str) -> None:
        self._make = make
        self._what = what
        self._bar: Any = None

    def __call__(self, done: int, total: int | None) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, initial=done, desc=self._what)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _moving(bar: Any) -> Report:
    start = bar.n

    def report(done: int, total: int | None) -> None:
        if total is not None and getattr(bar, "total", total) is None:
            bar.total = total
        bar.update(start + done - bar.n)

    return report


class _Line:
    """A bar without tqdm: one line on standard error, at most twice a second."""

    def __init__(self, total: int | None, initial: int, desc: str) -> None:
        self.n = initial
        self._text = f"\r{desc}: {{}}" + (f" of {total}" if total is not None else "")
        self._due = 0.0

    def update(self, more: int) -> None:
        self.n += more
        if monotonic() >= self._due:
            self._due = monotonic() + 0.5
            print(self._text.format(self.n), end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(self._text.format(self.n), file=sys.stderr, flush=True)
