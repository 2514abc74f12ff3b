"""The displays of objects in notebooks. `seqkit.observe` draws them, and is imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["as_html", "facts_as_html", "structure_as_text"]


def as_html(self: Any) -> str:
    """Return the drawing of an expression. Classes name this function ``_repr_html_``."""
    drawing: str = import_module("seqkit.observe").notebook(self)
    return drawing


def facts_as_html(self: Any) -> str:
    """Return a table of the facts about an object that its method ``_facts()`` returns.

    ``_facts()`` returns a title, and pairs of a name and a text. Classes name this function ``_repr_html_``.
    """
    table: str = import_module("seqkit.observe.facts").facts(*self._facts())
    return table


def structure_as_text(value: Any) -> str:
    """Return the structure of a value in one line, such as ``{image: uint8[256, 213, 3], label: int}``."""
    summarise = import_module("seqkit.observe.summary").summarise
    text: str = import_module("seqkit.observe.structure").structure([summarise(value)], is_part=True)
    return text
