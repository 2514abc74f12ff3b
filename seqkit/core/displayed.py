"""The display of objects in notebooks, which `seqkit.observe` draws when a notebook asks for it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Displayed", "html_of", "text_of_figures"]


class Displayed:
    """The base of objects that notebooks show as HTML. It costs nothing until then.

    >>> import seqkit as sk
    >>> "&lt;str of 3&gt;" in sk.DataLoader("abc")._repr_html_()
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_of(self)


def html_of(value: Any) -> str:
    """Return the HTML of a view, loader, sampler, batch of streams or statistics."""
    html: str = import_module("seqkit.observe.notebook").notebook(value)
    return html


def text_of_figures(value: Any) -> str:
    """Return the `repr` of an object with `_figures`, in readable units."""
    text: str = import_module("seqkit.observe.notebook").text_of_figures(value)
    return text
