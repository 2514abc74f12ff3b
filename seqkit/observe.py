"""Looking at an expression without evaluating it."""

from __future__ import annotations

from html import escape
from typing import Any

from .indices import Unsized
from .view import Source, View, view

__all__ = ["explain", "notebook"]


def explain(sequence: Any) -> str:
    """Return a drawing of an expression: one line per view, the outermost first, with lengths.

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
    Evaluates no item.

    Examples
    --------
    >>> import seqkit as sk
    >>> print(sk.explain(sk.batch(sk.smap(abs, sk.shuffle(range(10), seed=1)), 4)))
    batch(4)                length 3
    └─ smap(abs)            length 10
       └─ shuffle(seed=1)   length 10
          └─ <range of 10>
    """
    rows = _rows(view(sequence), 0)
    width = max(len(text) for text, _ in rows)
    return "\n".join(f"{text:<{width}}{'   ' + note if note else ''}".rstrip() for text, note in rows)


def notebook(sequence: View[Any]) -> str:
    """Return the drawing of an expression as notebooks show it, in HTML.

    Examples
    --------
    >>> notebook(view([1, 2]))
    '<pre>&lt;list of 2&gt;</pre>'
    """
    return f"<pre>{escape(explain(sequence))}</pre>"


def _rows(node: View[Any], depth: int) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    pending = [(node, depth)]
    while pending:
        node, depth = pending.pop()
        lead = "   " * (depth - 1) + "└─ " if depth else ""
        rows.append((lead + _head(node), "" if isinstance(node, Source) else _note(node)))
        pending.extend((source, depth + 1) for source in reversed(node._sources))
    return rows


def _head(node: View[Any]) -> str:
    if isinstance(node, Source):
        return repr(node)
    arguments = [text for text in node._arguments([]) if text != "[]"]
    return f"{node._name}({', '.join(arguments)})"


def _note(node: View[Any]) -> str:
    n = node._n
    length = f"no length: {n.reason}" if isinstance(n, Unsized) else f"length {n}"
    return ", ".join([length, *node._remarks()])
