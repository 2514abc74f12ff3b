"""The length of a view: an int, `UNBOUNDED`, `UNKNOWN`, or not found yet.

A length that is not found yet is found when it is first needed, see `View._length`. That may read items, in
`filter` and `flatten`, and in the views above them. Sequences of unknown length are iterated, read forwards,
or cut by `head`.
"""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from .expression import walk

if TYPE_CHECKING:
    from .view import View

__all__ = [
    "LAST",
    "UNBOUNDED",
    "UNKNOWN",
    "Length",
    "Unsized",
    "has_length",
    "is_measured",
    "needed_length",
    "sized",
    "streams",
    "unsized_range",
]

_SomeView = TypeVar("_SomeView", bound="View[Any]")


class Unsized(float):
    """The length of a sequence that has none. It is greater than every index, and says why `len` fails."""

    reason: str
    remedy: str

    def __new__(cls, reason: str, remedy: str) -> Unsized:
        self = super().__new__(cls, "inf")
        self.reason, self.remedy = reason, remedy
        return self

    def __reduce__(self) -> str:
        return "UNBOUNDED" if self is UNBOUNDED else "UNKNOWN"


UNBOUNDED = Unsized("it never ends", "Take a part of it with head(n)")
UNKNOWN = Unsized(
    "its end is only known once it is reached", "Read it with materialize, or give uniter a size"
)

Length = int | Unsized

# The last index of a sequence without a length, as far as a `range` has a length.
LAST = sys.maxsize - 1


def is_measured(view: View[Any]) -> bool:
    """Is the length of a view known, or can it be found without reading items?

    >>> import seqkit as sk
    >>> odd = sk.filter(lambda x: x % 2, range(5))
    >>> is_measured(sk.batch("abc", 2)), is_measured(sk.batch(odd, 2))
    (True, False)
    """
    unknown = walk(view, lambda node: node._known is None)
    return not any(node._known is None and node._length_reads for node in unknown)


def has_length(view: View[Any]) -> bool:
    """Has a view a length, or none because it never ends, which is known without reading items?

    >>> import seqkit as sk
    >>> odd = sk.filter(lambda x: x % 2, range(5))
    >>> has_length(sk.batch("abc", 2)), has_length(odd), has_length(sk.uniter(iter("ab")))
    (True, False, False)
    """
    return is_measured(view) and view._n is not UNKNOWN


def streams(view: View[Any]) -> bool:
    """Is iterating to the end cheaper than finding the length first?

    >>> import seqkit as sk
    >>> odd = sk.filter(lambda x: x % 2, range(5))
    >>> streams(sk.batch(odd, 2)), streams(sk.shuffle(odd))
    (True, False)
    """
    while view._known is None and view._streams:
        if view._length_reads:
            return True
        view = view._sources[-1]
    return False


def sized(view: _SomeView) -> _SomeView:
    """Return a view, after finding its length unless that reads items.

    `_length` may refuse the lengths of the sources. Wrong lengths then fail when the view is built, or at
    the first need of the length if a source must be scanned first.
    """
    if not view._length_reads:
        for source in view._sources:
            if source._known is None and not is_measured(source):
                return view
        view._n  # noqa: B018 - finds it
    return view


def needed_length(view: View[Any], who: str) -> int:
    """Return the length of a view, or raise TypeError naming the caller, which needs it.

    >>> import seqkit as sk
    >>> needed_length(sk.cycle("abc"), "shuffle")
    Traceback (most recent call last):
    TypeError: shuffle: the sequence needs a length, and has none: it never ends. Take a ...
    """
    n = view._n
    if isinstance(n, Unsized):
        raise TypeError(f"{who}: the sequence needs a length, and has none: {n.reason}. {n.remedy}.")
    return n


def unsized_range(key: slice, n: Unsized, who: str) -> range:
    """Return the indices a slice selects from a sequence without a length.

    >>> unsized_range(slice(2, 8, 3), UNBOUNDED, "cycle")
    range(2, 8, 3)
    """
    bounds = [operator.index(bound) for bound in (key.start, key.stop) if bound is not None]
    is_open = (key.start if key.step is not None and operator.index(key.step) < 0 else key.stop) is None
    if is_open or min(bounds, default=0) < 0:
        raise IndexError(f"{who}: a slice from or to the end needs a length, and there is none: {n.reason}")
    return range(LAST + 1)[key]
