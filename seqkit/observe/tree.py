"""The lines of a drawing: each view of an expression once, with the branches that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.source import Source
from ..core.view import View
from ..views.collate import Collate
from .html import in_a_line

__all__ = ["Branch", "branches", "column", "drawing", "outline", "text_of"]

T = TypeVar("T")

_LONGEST = 60  # letters of a line before its notes


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

    def below(part: tuple[View[Any] | None, str]) -> list[tuple[View[Any] | None, str]]:
        view = part[0]
        if view is None or _identity(view) in drawn:
            return []
        drawn.add(_identity(view))
        return _named_sources(view, most)

    root_part: tuple[View[Any] | None, str] = root, ""
    for prefix, (view, label) in drawing(root_part, below):
        if view is None:
            yield Branch(None, prefix, "", label)
        else:
            key = _identity(view)
            yield Branch(view, prefix, label, text_of(view), marks.get(key, 0), key not in drawn)


def drawing(root: T, below: Callable[[T], list[T]]) -> Iterator[tuple[str, T]]:
    """Yield each node of a tree with the branches before it, the root first.

    `below` is called for each node, after it was yielded.

    >>> for prefix, number in drawing(3, lambda n: list(range(n))):
    ...     print(prefix + str(number))
    3
    ├─ 0
    ├─ 1
    │  └─ 0
    └─ 2
       ├─ 0
       └─ 1
          └─ 0
    """
    pending = [(root, "", "")]
    while pending:
        node, before, branch = pending.pop()
        yield before + branch, node
        before += {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        inner = [(part, before, "├─ ") for part in below(node)]
        inner[-1:] = [(part, before, "└─ ") for part, _, _ in inner[-1:]]
        pending.extend(reversed(inner))


def column(heads: Iterable[str]) -> int:
    """Return where notes to the right of some lines begin. Lines of more than 60 letters do not move it.

    >>> column(["ab", "a" * 99])
    2
    """
    return max((len(head) for head in heads if len(head) <= _LONGEST), default=0)


def _named_sources(view: View[Any], most: int | None) -> list[tuple[View[Any] | None, str]]:
    names = (view._column_names() if isinstance(view, Collate) else None) or [""] * len(view._sources)
    found: list[tuple[View[Any] | None, str]] = list(zip(view._sources, names, strict=True))
    if most is not None and len(found) > most + 1:
        found[most:] = [(None, f"… {len(found) - most:,} more")]
    return found


def _identity(view: View[Any]) -> int:
    """Return a number that two views share if they wrap one object."""
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
        return in_a_line(repr(view))
    arguments = [text for text in view._arguments([]) if text != "[]"]
    return in_a_line(f"{view._name}({', '.join(arguments)})")
