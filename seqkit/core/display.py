"""The displays of objects in notebooks. `seqkit.observe` draws them, and is imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .tracebacks import hiding_frames

__all__ = ["LoaderDisplay", "as_html", "facts_as_html", "structure_as_text"]


def as_html(self: Any) -> str:
    """Return the drawing of an expression. Classes name this function ``_repr_html_``."""
    drawing: str = import_module("seqkit.observe").explain(self)._repr_html_()
    return drawing


class LoaderDisplay:
    """The methods of loaders that show what they do, as the methods of views."""

    _repr_html_ = as_html

    def explain(self) -> Any:
        """Return a drawing of this loader and of the views below it. See `seqkit.explain`."""
        return _observe("explain", self)

    def preview(self, n: int = 5, **options: Any) -> Any:
        """Show the first `n` batches as cards. See `seqkit.preview`."""
        return _observe("preview", self, n, **options)

    def trace(self, i: int, **options: Any) -> Any:
        """Compute batch `i`, and return its origin. See `seqkit.trace`."""
        return _observe("trace", self, i, **options)

    def watch(self, report: Any = None, **options: Any) -> Any:
        """Return an iterable of the same batches, with a display that updates itself. See `seqkit.watch`."""
        return _observe("watch", self, report, **options)


def _observe(name: str, *args: Any, **options: Any) -> Any:
    with hiding_frames():
        return getattr(import_module("seqkit.observe"), name)(*args, **options)


def facts_as_html(self: Any) -> str:
    """Return a table of the facts about an object that its method ``_facts()`` returns.

    ``_facts()`` returns a title, and pairs of a name and a text. Classes name this function ``_repr_html_``.
    """
    table: str = import_module("seqkit.observe.html").facts(*self._facts())
    return table


def structure_as_text(value: Any) -> str:
    """Return the structure of a value in one line, such as ``{image: uint8[256, 213, 3], label: int}``."""
    summarise = import_module("seqkit.observe.summary").summarise
    text: str = import_module("seqkit.observe.summary").structure([summarise(value)], is_part=True)
    return text
