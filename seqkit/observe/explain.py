"""`explain`: a drawing of an expression, also for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

from ..core.indices import Unsized
from ..core.source import Source, as_view
from ..core.view import Indexable, View, is_measured

__all__ = ["explain", "notebook", "outline"]


def explain(sequence: Indexable[Any]) -> str:
    """Return a drawing of an expression: one line for each view, the outermost first, with its length.

    Parameters
    ----------
    sequence : View or indexable

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed.

    Notes
    -----
    Reads no item.

    Examples
    --------
    >>> import seqkit as sk
    >>> print(sk.explain(sk.batch(sk.smap(abs, sk.shuffle(range(10), seed=1)), 4)))
    batch(4)                 length 3
    └─ smap(abs)             length 10
       └─ shuffle(seed=1)    length 10
          └─ <range of 10>
    """
    rows = [(line, _note(node)) for line, node in outline(as_view(sequence, "explain"))]
    width = max(len(line) for line, _ in rows)
    return "\n".join(f"{line:<{width}}   {note}".rstrip() for line, note in rows)


def notebook(sequence: View[Any]) -> str:
    """Return the drawing of an expression in HTML, for notebooks.

    Examples
    --------
    >>> notebook(as_view([1, 2], "notebook"))
    '<pre>&lt;list of 2&gt;</pre>'
    """
    return f"<pre>{escape(explain(sequence))}</pre>"


def outline(node: View[Any]) -> list[tuple[str, View[Any]]]:
    """Return the views of an expression, the outermost first, each with its line in the drawing.

    >>> [line for line, _ in outline(as_view("abc", "outline")[[2, 0]])]
    ['gather(<2 indices>)', '└─ <str of 3>']
    """
    found: list[tuple[str, View[Any]]] = []
    pending = [(node, 0)]
    while pending:
        node, depth = pending.pop()
        found.append(("   " * (depth - 1) + "└─ " * (depth > 0) + _head(node), node))
        pending.extend((source, depth + 1) for source in reversed(node._sources))
    return found


def _head(node: View[Any]) -> str:
    if isinstance(node, Source):
        return repr(node)
    arguments = [text for text in node._arguments([]) if text != "[]"]
    return f"{node._name}({', '.join(arguments)})"


def _note(node: View[Any]) -> str:
    if isinstance(node, Source):
        return ""
    if not is_measured(node):
        return ", ".join(["length not known yet", *node._remarks()])
    n = node._n
    length = f"no length: {n.reason}" if isinstance(n, Unsized) else f"length {n}"
    return ", ".join([length, *node._remarks()])
