"""A table of facts about an object: figures of a node, a sampler, a batch of streams."""

from __future__ import annotations

from collections.abc import Iterable

from .html import escape, faint, frame, pre, table

__all__ = ["facts"]


def facts(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a title with a table of names and texts below it.

    >>> "2,000" in facts("Statistics", [("items", "2,000")])
    True
    """
    cells = [[faint(escape(name)), escape(text)] for name, text in rows]
    return frame(pre(escape(title)), table(cells))
