"""Displays that are updated: in a notebook, in a terminal, a bar, a function, or lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..core.errors import as_given
from . import html

if TYPE_CHECKING:
    from .watch import Status

__all__ = ["Display", "display_of"]


class Display(Protocol):
    """Shows the latest `Status`."""

    def show(self, status: Status) -> None: ...
    def close(self) -> None: ...


def display_of(report: Any) -> Callable[[], Display]:
    """Return a function that begins a display."""
    if report is None:
        return _begun
    if hasattr(report, "update") and hasattr(report, "n"):
        return lambda: _TqdmBar(report)
    if hasattr(report, "write"):
        return lambda: _Callback(lambda status: _write(report, status))
    if callable(report):
        return lambda: _Callback(report)
    raise TypeError(
        f"watch: report must be a function of a Status, a bar such as tqdm or a text file, got"
        f" {as_given(report)}"
    )


def _begun() -> Display:
    """Return the display that suits the surroundings."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and hasattr(shell, "kernel"):
        return _Notebook()
    if sys.stderr.isatty():
        try:
            return _Rich()
        except ImportError:
            pass
    return _TextLine()


def _write(file: Any, status: Status) -> None:
    file.write(json.dumps(status.to_dict()) + "\n")
    file.flush()


class _Callback:
    def __init__(self, report: Callable[[Status], Any]) -> None:
        self.show = report

    def close(self) -> None:
        pass


class _TqdmBar:
    """A bar such as that of tqdm, which has the figures as its postfix. It stays open."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._start = bar.n

    def show(self, status: Status) -> None:
        if getattr(self._bar, "total", 0) is None:
            self._bar.total = status.total
        if hasattr(self._bar, "set_postfix"):
            shown = ("waited", "workers", "slots", "memory", "replaced")
            figures = {name: text for name, text in status.figures.items() if name in shown}
            self._bar.set_postfix(figures, refresh=False)
        self._bar.update(self._start + status.done - self._bar.n)

    def close(self) -> None:
        pass


class _TextLine:
    """A line on standard error, which is written over in a terminal."""

    def __init__(self) -> None:
        self._end = "" if sys.stderr.isatty() else "\n"
        self._width = 0

    def show(self, status: Status) -> None:
        text = str(status)
        begin = "" if self._end else "\r"
        print(begin + text.ljust(self._width), end=self._end, file=sys.stderr, flush=True)
        self._width = 0 if self._end else len(text)

    def close(self) -> None:
        if not self._end:
            print(file=sys.stderr, flush=True)


class _Rich:
    """A bar and a table of figures, drawn by rich without its thread."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), auto_refresh=False)
        self._live.start()

    def show(self, status: Status) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(*[""] * (2 + len(status.figures)), padding=(0, 2))
        for column in table.columns:
            column.no_wrap = True
        bar = ProgressBar(status.total, status.done, width=20, pulse=status.total is None)
        figures = [f"[dim]{name}[/] {text}" for name, text in status.figures.items()]
        table.add_row(bar, status.position, *figures)
        self._live.update(table, refresh=True)

    def close(self) -> None:
        self._live.stop()


class _Notebook:
    """The output of a cell, which is replaced."""

    def __init__(self) -> None:
        import IPython.display

        self._display: Any = IPython.display
        self._handle = self._display.display(self._display.HTML(""), display_id=True)

    def show(self, status: Status) -> None:
        share = status.done / status.total if status.total else 0.0
        names = ["items", *status.figures]
        texts = [f"{html.bar(share)} {html.escape(status.position)}"]
        texts += [html.escape(text) for text in status.figures.values()]
        self._handle.update(self._display.HTML(html.frame(html.table([texts], names))))

    def close(self) -> None:
        pass
