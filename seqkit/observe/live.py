"""Displays that are updated: in a notebook, in a terminal, a bar, a function, or lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from ..core.errors import as_given
from ..core.progress import is_bar
from . import html
from .status import Status

__all__ = ["Display", "display_of", "is_terminal", "to_stderr"]

# Errors of a stream that is closed, full or gone. A display must not end the iteration that it shows.
_LOST = (OSError, ValueError)


def is_terminal() -> bool:
    """Is standard error a terminal? There may be none, as under ``pythonw``."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, *_LOST):
        return False


def to_stderr(text: str) -> None:
    """Write on standard error if that is possible. Letters that its encoding lacks become escapes."""
    stream = sys.stderr
    if stream is None:
        return
    with suppress(*_LOST):
        try:
            stream.write(text)
        except UnicodeEncodeError as error:
            stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        stream.flush()


class Display(Protocol):
    """Shows the latest `Status`."""

    def show(self, status: Status) -> None: ...
    def close(self) -> None: ...


def display_of(report: Any, who: str, title: str = "") -> Display:
    """Return a display. `title` names the pipeline."""
    if report is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        return _Notebook(title) if shell is not None and hasattr(shell, "kernel") else _TextLine(title)
    if is_bar(report) or (isinstance(report, type) and hasattr(report, "update")):
        return _Bar(report)
    if hasattr(report, "write"):
        return _Callback(partial(_write, report))
    if callable(report):
        return _Callback(report)
    raise TypeError(
        f"{who} must be a function of a Status, a bar of tqdm or a text file, got {as_given(report)}"
    )


def _write(file: Any, status: Status) -> None:
    file.write(json.dumps(status.to_dict()) + "\n")
    file.flush()


class _Callback:
    def __init__(self, report: Callable[[Status], Any]) -> None:
        self.show = report

    def close(self) -> None:
        pass


class _Bar:
    """A bar such as that of tqdm, which stays open, or its class, whose bar is closed at the end."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._is_own = bar, isinstance(bar, type)
        self._start = 0 if self._is_own else bar.n

    def show(self, status: Status) -> None:
        if isinstance(self._bar, type):
            self._bar = self._bar(total=status.total)
        if getattr(self._bar, "total", 0) is None:
            self._bar.total = status.total
        self._bar.update(self._start + status.done - self._bar.n)

    def close(self) -> None:
        if self._is_own and not isinstance(self._bar, type):
            self._bar.close()


class _TextLine:
    """A line on standard error, which is written over in a terminal."""

    def __init__(self, title: str) -> None:
        self._title = f"{title}: " if title else ""
        self._end = "" if is_terminal() else "\n"
        self._width = 0

    def show(self, status: Status) -> None:
        text = f"{self._title}{status}"
        if self._end:
            to_stderr(text + self._end)
        else:
            text = html.cut(text + " ")[:-1]  # a line that wraps could not be written over
            to_stderr("\r" + text.ljust(self._width))
            self._width = len(text)

    def close(self) -> None:
        if not self._end:
            to_stderr("\n")


class _Notebook:
    """The output of a cell, which is replaced."""

    def __init__(self, title: str) -> None:
        import IPython.display

        self._title = title
        self._display: Any = IPython.display
        self._handle = self._display.display(self._display.HTML(""), display_id=True)

    def show(self, status: Status) -> None:
        self._handle.update(self._display.HTML(as_html(status, self._title)))

    def close(self) -> None:
        pass


def as_html(status: Status, title: str = "") -> str:
    """Return a status as HTML: a bar and the figures.

    >>> as_html(Status(1, 4, 1.0, 1.0, 3.0, None)).count("width:25.0%")
    1
    """
    share = status.done / status.total if status.total else 0.0
    texts = [f"{html.bar(share)} {html.escape(status.position)}", *map(html.escape, status.figures.values())]
    return html.frame(html.scrolling(html.table([texts], [title or "items", *status.figures])))
