"""`starmap`: apply a function to the parts of each item of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, overload

from ..core.arguments import as_bool, check_callable
from ..core.expression import name_of
from ..core.source import as_view
from ..core.view import Indexable, U, View
from .smap import Smap

__all__ = ["starmap"]


@overload
def starmap(
    f: Callable[..., U], sequence: Indexable[Iterable[Any]], *, first: Literal[False] = False
) -> View[U]: ...
@overload
def starmap(f: Callable[..., Any], sequence: Indexable[Iterable[Any]], *, first: bool) -> View[Any]: ...
def starmap(f: Callable[..., Any], sequence: Indexable[Iterable[Any]], *, first: bool = False) -> View[Any]:
    """Return a lazy view of ``f(*item)`` for each item of a sequence, or ``f(**item)`` for mappings.

    Parameters
    ----------
    f : callable
        Called with the unpacked item, each time it is read.
    sequence : View or indexable
        Of tuples, lists or mappings.
    first : bool
        Call `f` with the first part only, and return the item with the result in its place. For samples such
        as (image, label), of which only the image is transformed. Not for mappings.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `f` is not callable, `sequence` cannot be indexed, or `first` is not a bool.

    Notes
    -----
    One call of `f` per access. After ``starmap`` of SeqTools and `itertools.starmap`, and ``transform_first``
    of Gluon.

    Examples
    --------
    >>> list(starmap(lambda name, count: f"{count} {name}s", [("cat", 2), ("dog", 3)]))
    ['2 cats', '3 dogs']
    >>> starmap(lambda x, y: x + y, [{"x": 1, "y": 2}])[0]
    3
    >>> list(starmap(str.upper, [("a", 0), ("b", 1)], first=True))
    [('A', 0), ('B', 1)]
    """
    check_callable(f, "starmap: f")
    spread = First if as_bool(first, "starmap: first") else Spread
    return Smap(spread(f), as_view(sequence, "starmap"), "starmap")


class Spread:
    """Call a function with the parts of an item as its arguments."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.__name__ = name_of(f)

    def __call__(self, item: Iterable[Any]) -> Any:
        return self.f(**item) if isinstance(item, Mapping) else self.f(*item)


class First(Spread):
    """Call a function with the first part of an item, and put the result in its place."""

    def __call__(self, item: Iterable[Any]) -> Any:
        if isinstance(item, Mapping | str | bytes):
            raise TypeError(f"starmap: first=True needs a tuple or list, got {type(item).__name__}")
        part, *rest = item
        return [self.f(part), *rest] if isinstance(item, list) else (self.f(part), *rest)
