"""The lines of a drawing: each view of an expression once, with the branches that lead to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..core.source import Source
from ..core.view import View
from ..views.collate import Collate

__all__ = ["Branch", "branches", "outline", "text_of"]


@dataclass(frozen=True)
class Branch:
    """A line of a drawing.

    Attributes
    ----------
    view : View or None
        None for the line that counts the sources that are left out.
    prefix : str
        The branches before the view, such as ``"│  ├─ "``.
    label : str
        Name that `collate` gives to the view, or "".
    text : str
        The view and its arguments.
    mark : int
        Number of a view or object that occurs several times; 0 for others.
    is_first : bool
        False if the view was drawn above. Its sources are then left out.
    """

    view: View[Any] | None
    prefix: str
    label: str
    text: str
    mark: int = 0
    is_first: bool = True


def outline(view: View[Any]) -> list[tuple[str, View[Any]]]:
    """Return the views of an expression, the outermost first, each with its line in the drawing.

    >>> from seqkit.core.source import as_view
    >>> [line for line, _ in outline(as_view("abc", "outline")[[2, 0]])]
    ['gather(<2 indices>)', '└─ <str of 3>']
    """
    return [(line.prefix + line.text, line.view) for line in branches(view) if line.is_first and line.view]


def branches(root: View[Any], most: int | None = None) -> Iterator[Branch]:
    """Yield the lines of an expression, the outermost view first. Of many sources `most` are drawn.

    >>> import seqkit as sk
    >>> [line.prefix + line.text for line in branches(sk.concatenate(["a", "b"]))]
    ['concatenate()', '├─ <str of 1>', '└─ <str of 1>']
    """
    marks = _marks(root)
    drawn: set[int] = set()
    pending: list[tuple[View[Any] | None, str, str, str]] = [(root, "", "", "")]
    while pending:
        view, before, branch, label = pending.pop()
        if view is None:
            yield Branch(None, before + branch, "", label)
            continue
        key = _identity(view)
        yield Branch(view, before + branch, label, text_of(view), marks.get(key, 0), key not in drawn)
        if key in drawn:
            continue
        drawn.add(key)
        before += {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        inner = [(source, before, "├─ ", name) for source, name in _named_sources(view, most)]
        pending.extend([(s, b, "└─ " if i == 0 else t, n) for i, (s, b, t, n) in enumerate(reversed(inner))])


def _named_sources(view: View[Any], most: int | None) -> list[tuple[View[Any] | None, str]]:
    names = (view._column_names() if isinstance(view, Collate) else None) or [""] * len(view._sources)
    found: list[tuple[View[Any] | None, str]] = list(zip(view._sources, names, strict=True))
    if most is not None and len(found) > most + 1:
        found[most:] = [(None, f"… {len(found) - most:,} more")]
    return found


def _identity(view: View[Any]) -> int:
    """Return what is the same for two views that wrap one object."""
    return id(view._data) if isinstance(view, Source) else id(view)


def _marks(root: View[Any]) -> dict[int, int]:
    """Number the views that occur several times, in the order in which they are drawn."""
    seen: set[int] = set()
    repeated: dict[int, View[Any]] = {}
    order: list[int] = []
    pending = [root]
    while pending:
        view = pending.pop()
        key = _identity(view)
        if key in seen:
            repeated[key] = view
            continue
        seen.add(key)
        order.append(key)
        pending.extend(reversed(view._sources))
    return {key: number for number, key in enumerate((key for key in order if key in repeated), 1)}


def text_of(view: View[Any]) -> str:
    """Return a view and its arguments, without its sources.

    >>> import seqkit as sk
    >>> text_of(sk.batch("abc", 2))
    'batch(2)'
    """
    if isinstance(view, Source):
        return repr(view)
    arguments = [text for text in view._arguments([]) if text != "[]"]
    return f"{view._name}({', '.join(arguments)})"
