"""`starmap`: apply a function to the parts of each item of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.arguments import check_callable
from ..core.source import as_view
from ..core.view import Indexable, U, View
from .smap import Smap, Spread

__all__ = ["starmap"]


def starmap(f: Callable[..., U], sequence: Indexable[Iterable[Any]]) -> View[U]:
    """Return a lazy view of ``f(*item)`` for each item of a sequence, or ``f(**item)`` for mappings.

    Parameters
    ----------
    f : callable
        Called with the unpacked item, each time it is read.
    sequence : View or indexable
        Of tuples, lists or mappings.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable, or `sequence` cannot be indexed.

    Notes
    -----
    One call of `f` per access. After ``starmap`` of SeqTools and `itertools.starmap`.

    Examples
    --------
    >>> list(starmap(lambda name, count: f"{count} {name}s", [("cat", 2), ("dog", 3)]))
    ['2 cats', '3 dogs']
    >>> starmap(lambda x, y: x + y, [{"x": 1, "y": 2}])[0]
    3
    """
    check_callable(f, "starmap: f")
    return Smap(Spread(f), as_view(sequence, "starmap"), "starmap")
