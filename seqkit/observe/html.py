"""HTML for notebooks, with inline styles only: exported pages and repositories keep no style sheets.

Colours are those of the page (``currentColor``) and transparent tints of it, so that a display is readable on
a light and on a dark background.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escape
from shutil import get_terminal_size

__all__ = [
    *("ALARM", "MONO", "card", "cut", "escape", "faint", "frame", "in_a_line", "pre", "row"),
    *("table", "text", "visible", "width"),
]

MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
LINE = "1px solid rgba(128,128,128,0.35)"
TINT = "rgba(128,128,128,0.08)"
ALARM = "#d9534f"  # a red, readable on both


def escape(text: object) -> str:
    """Return a text for HTML, also inside the quotes of an attribute.

    >>> escape("<lambda>")
    '&lt;lambda&gt;'
    """
    return _escape(visible(str(text)), quote=True)


def visible(text: str) -> str:
    """Return a text with its invisible characters as escapes, except spaces and line breaks.

    Control characters would move the cursor of a terminal, marks of direction would reorder a line, and lone
    surrogates cannot be encoded.

    >>> visible("a\\x1b[2J b"), visible("\\u202eabc")
    ('a\\\\x1b[2J b', '\\\\u202eabc')
    """
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() or x == "\n" else repr(x)[1:-1] for x in text)


def in_a_line(text: str) -> str:
    """Return a name of the user as one line without invisible characters.

    >>> in_a_line("a\\nb")
    'a\\\\nb'
    """
    return visible(text).replace("\n", "\\n")


def width() -> int:
    """Return the number of letters in a line of the terminal, or 120 if there is none."""
    return get_terminal_size((120, 24)).columns


def cut(line: str, letters: int = 0) -> str:
    """Return a line cut at so many letters. 0 (the default): those of a line of the terminal.

    A line with an error may wrap.

    >>> len(cut("a" * 9999)) < 9999, cut("abc")
    (True, 'abc')
    """
    letters = letters or width() * (4 if "✗" in line or " failed: " in line else 1)
    return line if len(line) <= letters else line[: letters - 1] + "…"


def frame(*parts: str) -> str:
    """Return one display: its parts below each other, in a font and size that do not depend on the page.

    >>> frame("<b>3</b>").endswith("<b>3</b></div>")
    True
    """
    style = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;text-align:left"
    return f'<div style="{style}">{"".join(parts)}</div>'


def pre(text: str, white_space: str = "pre") -> str:
    """Return HTML as lines of a monospace font. Spaces and line breaks count. With "pre-wrap", lines wrap.

    >>> pre("a<b>b</b>").endswith("a<b>b</b></pre>")
    True
    """
    style = f"{MONO};font-size:12.5px;line-height:1.4;margin:0;padding:4px 0;background:transparent;border:0"
    return f'<pre style="{style};color:inherit;overflow-x:auto;white-space:{white_space}">{text}</pre>'


def text(found: object) -> str:
    """Return the text of an object as a display. Lines that are longer than the page wrap.

    >>> text("a < b").count("a &lt; b")
    1
    """
    return frame(pre(escape(found), "pre-wrap"))


def faint(text: str) -> str:
    """Return HTML that stands back.

    >>> faint("length 3")
    '<span style="opacity:0.65">length 3</span>'
    """
    return f'<span style="opacity:0.65">{text}</span>'


def row(cards: Iterable[str]) -> str:
    """Return cards side by side, in as many lines as the page needs.

    >>> row(["<i></i>"]).count("<i></i>")
    1
    """
    style = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start;margin:6px 0"
    return f'<div style="{style}">{"".join(cards)}</div>'


def card(title: str, *parts: str, colour: str = "") -> str:
    """Return a box with a title. A colour such as `ALARM` marks its edge and its title.

    >>> "item 3" in card("item 3", "<i></i>", colour=ALARM)
    True
    """
    edge = f"1px solid {colour}" if colour else LINE
    head = f'<div style="font-weight:600;color:{colour or "inherit"};margin-bottom:4px">{title}</div>'
    style = (
        f"display:inline-block;flex:none;vertical-align:top;border:{edge};border-radius:6px;padding:8px 10px"
        f";background:{TINT};max-width:22em;min-width:7em;box-sizing:border-box;overflow:hidden"
    )
    return f'<div style="{style}">{head}{"".join(parts)}</div>'


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells in HTML.

    >>> table([["<b>a</b>", "1"]]).count("<td")
    2
    """
    style = "padding:2px 14px 2px 0;border:0;background:transparent;vertical-align:top;text-align:left"
    cells = ("".join(f'<td style="{style}">{text}</td>' for text in texts) for texts in rows)
    body = "".join(f'<tr style="background:transparent">{row}</tr>' for row in cells)
    whole = "border-collapse:collapse;border:0;margin:2px 0;width:auto;font-size:inherit;color:inherit"
    return f'<table style="{whole}"><tbody>{body}</tbody></table>'
