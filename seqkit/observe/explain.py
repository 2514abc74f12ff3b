"""`explain`: a drawing of an expression, for terminals and notebooks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..core.indices import Unsized
from ..core.source import Source, as_view
from ..core.tracebacks import place
from ..core.view import Indexable, View, is_measured
from .describe import describe, file_of, functions
from .html import escape, faint, frame, in_a_line, pre
from .tree import Branch, branches, column

__all__ = ["Explanation", "Line", "explain"]

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
    origin : str
        Files and lines where the view was built and where its functions are defined.
    """

    branch: str
    text: str
    notes: tuple[str, ...] = ()
    origin: str = ""


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
        width = _width(lines)
        rows = (f"{line.branch + line.text:<{width}}   {', '.join(line.notes)}".rstrip() for line in lines)
        explanation = super().__new__(cls, "\n".join(map(in_a_line, rows)))
        explanation.lines = lines
        return explanation

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.lines,)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        width = _width(self.lines)
        runs = any(note.endswith(" running") for line in self.lines for note in line.notes)
        hint = faint("The state of this moment. Iterate sk.watch(…) to see it live.") if runs else ""
        return frame(pre("\n".join(_html_line(line, width) for line in self.lines)), hint)


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
    return Explanation(tuple(_lines(sequence, "")))


def _lines(sequence: Any, indent: str) -> list[Line]:
    """Return the lines of a view, an indexable or a loader. A loader describes itself by `_explained`."""
    if not hasattr(type(sequence), "_explained"):
        return [_line(branch, indent) for branch in branches(as_view(sequence, "explain"), _MOST_SOURCES)]
    text, notes, inner = sequence._explained()
    branch = indent and indent[:-3] + "└─ "
    found = [Line(branch, text, tuple(notes))]
    return found if inner is None else found + _lines(inner, indent + "   ")


def _line(branch: Branch, indent: str) -> Line:
    view, text = branch.view, branch.text
    prefix = indent[:-3] + "└─ " if indent and not branch.prefix else indent + branch.prefix
    if view is None:
        return Line(prefix, text)
    text = f"{branch.label}: {text}" if branch.label else text
    if not branch.is_first:
        return Line(prefix, text, (f"same as [{branch.mark}]",))
    found = functions(view)
    lambdas = [f"<lambda> at {os.path.basename(where)}" for name, where in found if name == "<lambda>"]
    about = [f"file {file}" for f in view._functions() if (file := file_of(f))] or describe(view)
    notes = (*_length(view), *about, *lambdas, *view._remarks())
    return Line(prefix, text + f" [{branch.mark}]" * (branch.mark > 0), notes, _origin(view, found))


def _length(view: View[Any]) -> list[str]:
    if isinstance(view, Source):
        return []  # its text says it: "<list of 3>"
    if not is_measured(view):
        return ["length not known yet"]
    n = view._n
    return [f"no length: {n.reason}" if isinstance(n, Unsized) else f"length {n:,}"]


def _origin(view: View[Any], found: list[tuple[str, str]]) -> str:
    file, line, where = view._site
    places = [f"{name} at {at}" for name, at in found if at]
    return "; ".join([f"{view._name} made at {place(file, line)} in {where}", *places])


def _width(lines: tuple[Line, ...]) -> int:
    return column(line.branch + line.text for line in lines)


def _html_line(line: Line, width: int) -> str:
    gap = " " * (max(width - len(line.branch + line.text), 0) + 3)
    title = f' title="{escape(line.origin)}"' if line.origin else ""
    head = f"{faint(line.branch) if line.branch else ''}<span{title}>{escape(line.text)}</span>"
    return head + (gap + faint(escape(", ".join(line.notes))) if line.notes else "")
