"""`explain`: a drawing of an expression, for terminals and notebooks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, TypeVar

from ..core.errors import brief
from ..core.expression import name_of
from ..core.lengths import Unsized, is_measured
from ..core.source import Source, as_view
from ..core.units import size
from ..core.view import Indexable, View
from ..engine.frames import place
from ..engine.prefetch import Prefetch
from ..stores.add_cache.add_cache import AddCache
from ..views.collate import Collate
from .html import escape, frame, in_a_line, pre
from .subject import data_of, is_loader

__all__ = ["Explanation", "Line", "branches", "column", "drawing", "explain", "outline", "text_of"]


T = TypeVar("T")

_LONGEST = 60  # letters of a line before its notes


def outline(view: View[Any]) -> list[tuple[str, View[Any]]]:
    """Return the views of an expression, the outermost first, each with its line in the drawing.

    >>> from seqkit.core.source import as_view
    >>> [line for line, _ in outline(as_view("abc", "outline")[[2, 0]])]
    ['gather(<2 indices>)', '└─ <str of 3>']
    """
    return [(prefix + text, view) for prefix, text, view, same in branches(view) if view and not same]


def branches(root: View[Any], most: int | None = None) -> Iterator[tuple[str, str, View[Any] | None, int]]:
    """Yield the lines of an expression, the outermost view first. Of many sources `most` are drawn.

    A line has the branches before the view, such as ``"│  ├─ "``, the view and its arguments, the view itself
    (None for the line that counts the sources that are left out), and the number of the line above that shows
    the same view, or 0. The sources of that view are then left out.

    >>> import seqkit as sk
    >>> [prefix + text for prefix, text, *_ in branches(sk.concatenate(["a", "b"]))]
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
            yield prefix, label, None, 0
        else:
            mark, is_first = marks.get(_identity(view), 0), _identity(view) not in drawn
            text = f"{label}: {text_of(view)}" if label else text_of(view)
            yield prefix, text + f" [{mark}]" * (is_first and mark > 0), view, 0 if is_first else mark


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
    times: dict[int, int] = {}
    pending = [root]
    while pending:
        view = pending.pop()
        key = _identity(view)
        times[key] = times.get(key, 0) + 1
        if times[key] == 1:
            pending.extend(reversed(view._sources))
    return {key: number for number, key in enumerate((key for key, n in times.items() if n > 1), 1)}


def text_of(view: View[Any]) -> str:
    """Return a view and its arguments, without its sources.

    >>> import seqkit as sk
    >>> text_of(sk.batch("abc", 2))
    'batch(2)'
    """
    given = view._arguments([])
    if isinstance(given, str):
        return in_a_line(given or view._name)
    return in_a_line(f"{view._name}({', '.join(text for text in given if text != '[]')})")


_MOST_SOURCES = 10  # drawn of one view


@dataclass(frozen=True)
class Line:
    """A line of an `Explanation`.

    Attributes
    ----------
    branch : str
        The branches before the view, such as ``"│  ├─ "``.
    text : str
        The view with its arguments, such as ``"batch(32)"``.
    notes : tuple of str
        Its length, the data or file that it reads from, and its state.
    """

    branch: str
    text: str
    notes: tuple[str, ...] = ()


class Explanation(str):
    """The drawing that `explain` returns: a text that notebooks display.

    Attributes
    ----------
    lines : tuple of Line
        The same as data.

    Examples
    --------
    >>> import seqkit as sk
    >>> sk.explain(sk.batch("abc", 2)).lines[0].notes
    ('length 2',)
    """

    lines: tuple[Line, ...]

    def __new__(cls, lines: tuple[Line, ...]) -> Explanation:
        width = column(line.branch + line.text for line in lines)
        rows = (f"{line.branch + line.text:<{width}}   {', '.join(line.notes)}".rstrip() for line in lines)
        explanation = super().__new__(cls, "\n".join(map(in_a_line, rows)))
        explanation.lines = lines
        return explanation

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return frame(pre(escape(self)))


def explain(sequence: Indexable[Any] | Any) -> Explanation:
    """Return a drawing of an expression: one line for each view, the outermost first, with its length.

    Parameters
    ----------
    sequence : View, indexable, DataLoader or StreamLoader

    Returns
    -------
    Explanation
        A text with a display for notebooks.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed and is no loader.

    Notes
    -----
    Reads no item, opens no file and starts no worker. A view or an object that occurs several times has a
    number and is drawn once. Of more than 11 sources of a view the first 10 are drawn.

    Examples
    --------
    >>> import seqkit as sk
    >>> order = sk.shuffle(range(10), seed=1)
    >>> sk.explain(sk.batch(sk.collate(x=sk.smap(abs, order), y=order), 4))
    batch(4)                       length 3
    └─ collate()                   length 10
       ├─ x: smap(abs)             length 10
       │  └─ shuffle(seed=1) [1]   length 10
       │     └─ <range of 10>
       └─ y: shuffle(seed=1)       same as [1]
    """
    if not is_loader(sequence):
        return Explanation(tuple(_lines(as_view(sequence, "explain"))))
    loader: Any = sequence
    if not hasattr(type(loader), "view"):
        return Explanation((Line("", repr(loader)),))
    # Each epoch has a node of its own. One that runs shows the state of the loader.
    running = [node for node in loader.nodes() if node.engine.is_running()]
    found = [Line("", type(loader).__name__)]
    for line in _lines([*running, loader.view][0]):
        found.append(replace(line, branch=("   " if line.branch else "└─ ") + line.branch))
    return Explanation(tuple(found))


def _lines(view: View[Any]) -> Iterator[Line]:
    return (_line(*line) for line in branches(view, _MOST_SOURCES))


def _line(prefix: str, text: str, view: View[Any] | None, same: int) -> Line:
    if view is None:
        return Line(prefix, text)
    if same:
        return Line(prefix, text, (f"same as [{same}]",))
    functions = [f for f in view._functions() if name_of(f) == "<lambda>"]
    lambdas = [f"<lambda> at {os.path.basename(at)}" for f in functions if (at := _place_of(f))]
    notes = (*_length(view), *describe(view), *lambdas, *_state(view))
    return Line(prefix, text, notes)


def _length(view: View[Any]) -> list[str]:
    if isinstance(view, Source):
        return []  # its text says it: "<list of 3>"
    if not is_measured(view):
        return ["length not known yet"]
    n = view._n
    return [f"no length: {n.reason}" if isinstance(n, Unsized) else f"length {n:,}"]


def _state(view: View[Any]) -> list[str]:
    """Return the state of the workers of a node, or of a cache."""
    if isinstance(view, Prefetch):
        settings = {} if view.choice is None else view.choice.settings
        chosen = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        workers = view.engine.settings.workers
        state = f"{workers} worker{'s' * (workers > 1)} running" if view.engine.is_running() else "idle"
        if view.engine.closed or not workers:
            state = "closed" if view.engine.closed else "no workers"
        return [*[f"auto: {chosen}"] * bool(chosen), state]
    if isinstance(view, AddCache):
        return [f"{len(view.kept)} items kept"]
    return []


# -------------------------------------------------------------------- the data


def describe(view: View[Any]) -> list[str]:
    """Return a description of the data of a view without sources. Reads no item and opens no file.

    >>> import numpy as np
    >>> describe(as_view(np.zeros((8, 3), np.float32), "describe"))
    ['float32[8, 3]', '96 bytes']
    """
    if view._sources:
        return []
    data = data_of(view) if isinstance(view, Source) else view
    if type(data) in (list, tuple):
        return [f"first: {brief(first)}" for first in data[:1]]  # it is in memory already
    try:
        return _shape(data)
    except Exception:  # of an object of the user, which may be anything
        return []


def _shape(data: Any) -> list[str]:
    shape, dtype, nbytes = (attribute(data, name) for name in ("shape", "dtype", "nbytes"))
    if not isinstance(shape, tuple) or dtype is None:
        return []
    text = f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    return [text, size(nbytes)] if isinstance(nbytes, int) else [text]


def _place_of(function: Callable[..., Any]) -> str:
    """Return file and line of a function, or "" if it is not written in Python."""
    code = attribute(function, "__code__")
    return place(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else ""


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of any object, or None if there is none or reading it fails.

    Displays read the attributes of the user's objects with it.

    >>> attribute(3, "real"), attribute(3, "columns")
    (3, None)
    """
    try:
        return getattr(value, name, None)
    except Exception:
        return None
