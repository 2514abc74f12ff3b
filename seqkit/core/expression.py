"""Expressions: a view and all views below it, walked, and as a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .view import View

__all__ = ["name_of", "only_selects", "text_of_expression", "walk"]

_MOST_VIEWS = 30  # shown in all
_MOST_SOURCES = 4  # shown of one view


def walk(root: View[Any], goes_below: Callable[[View[Any]], bool] = lambda view: True) -> Iterator[View[Any]]:
    """Yield a view and the views below it, each once however often it is read.

    `goes_below` says whether to yield the views below a view, too.

    >>> import seqkit as sk
    >>> pairs = sk.collate([letters := sk.view("ab"), letters])
    >>> list(walk(pairs)) == [pairs, letters], list(walk(pairs, lambda view: view is not pairs)) == [pairs]
    (True, True)
    """
    seen: set[int] = set()  # without it, each level that reads a view twice would double the time
    pending = [root]
    while pending:
        view = pending.pop()
        if id(view) not in seen:
            seen.add(id(view))
            yield view
            if goes_below(view):
                pending.extend(view._sources)


def only_selects(view: View[Any]) -> bool:
    """Are the items of a view those of ranges, lists and arrays, in another order or in lists?

    >>> import seqkit as sk
    >>> order = sk.batch(sk.shuffle(range(100), seed=0), 8)
    >>> only_selects(order), only_selects(sk.smap(abs, order))
    (True, False)
    """
    return not any(
        node._functions()
        or node._length_reads
        or node._reads_ahead
        or not (node._sources or isinstance(getattr(node, "_data", None), range | list | np.ndarray))
        for node in walk(view)
    )


def text_of_expression(view: View[Any], budget: Iterator[int] | None = None) -> str:
    """Return the text of a view and the views below it, for `repr`.

    >>> import seqkit as sk
    >>> text_of_expression(sk.batch(sk.view("abc"), 2))
    'batch(<str of 3>, 2)'
    """
    budget = iter(range(_MOST_VIEWS)) if budget is None else budget
    shown = view._sources[: _MOST_SOURCES + 1]
    inner = [text_of_expression(s, budget) if next(budget, None) is not None else "…" for s in shown]
    inner[_MOST_SOURCES:] = ["…"] * (len(inner) > _MOST_SOURCES)
    given = view._arguments(inner)
    return given if isinstance(given, str) else f"{view._name}({', '.join(given)})"


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for `repr`: its own name, or the name of its class.

    >>> import functools
    >>> name_of(abs), name_of(functools.partial(pow, 2)), name_of(functools.partial(int))
    ('abs', 'pow', 'int')
    """
    while isinstance(function, partial):
        function = function.func
    try:
        return str(function.__name__)
    except Exception:  # of an object without a name, or of a user's `__getattr__`
        return type(function).__name__
