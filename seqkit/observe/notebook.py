"""`notebook`: the display of views, loaders, samplers, statistics and batches of streams as HTML.

Objects that are no views describe themselves: by `_explained`, the line above the view that they read, or by
`_figures`, rows of a name, a value and its unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cards import value as html_of_value
from .explain import explain
from .html import escape, faint, frame, table
from .summary import summarise
from .units import count, seconds, size

__all__ = ["notebook", "text_of_figures"]

_MOST_NUMBERS = 16


def notebook(value: Any) -> str:
    """Return the display of an object in HTML, for notebooks.

    Parameters
    ----------
    value : View, indexable, DataLoader, StreamLoader, Sampler, Statistics or StreamBatch

    Returns
    -------
    str

    Raises
    ------
    TypeError
        For other objects.

    Examples
    --------
    >>> "&lt;list of 2&gt;" in notebook([1, 2])
    True
    """
    if not hasattr(type(value), "_figures"):
        return explain(value)._repr_html_()
    title, rows = value._figures()
    cells = [
        [faint(escape(name)), _html(figure, unit)] for name, figure, unit in rows if _is_shown(figure, unit)
    ]
    return frame(f"<div><b>{escape(title)}</b></div>", table(cells))


def text_of_figures(value: Any) -> str:
    """Return an object with `_figures` as a text, without figures that are 0.

    >>> from seqkit.prefetch.statistics import Statistics
    >>> Statistics(items=1200, waited_ns=8_870_867, nbytes=1_234_567, chunk=4)
    Statistics(items=1,200, waited=8.9 ms, nbytes=1.2 MiB, chunk=4)
    """
    title, rows = value._figures()
    shown = (f"{name}={_text(figure, unit)}" for name, figure, unit in rows if _is_shown(figure, unit))
    return f"{title}({', '.join(shown)})"


def _text(figure: Any, unit: str) -> str:
    in_unit = _UNITS.get(unit)
    return summarise(figure).line() if in_unit is None else in_unit(figure)


def _short_list(numbers: list[int]) -> str:
    more = ", …" if len(numbers) > _MOST_NUMBERS else ""
    return f"[{', '.join(map(str, numbers[:_MOST_NUMBERS]))}{more}]"


def _is_shown(figure: Any, unit: str) -> bool:
    return unit in ("value", "list") or bool(figure)


_UNITS: dict[str, Callable[[Any], str]] = {
    "seconds": seconds,
    "bytes": size,
    "count": count,
    "list": _short_list,
}


def _html(figure: Any, unit: str) -> str:
    return html_of_value(summarise(figure)) if unit == "value" else escape(_text(figure, unit))
