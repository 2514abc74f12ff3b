"""Where the groups of a plan begin, such as the files that `flatten` joins, so that jobs can end there.

A worker keeps the group that it read last. A job that ends in the middle of a group makes another worker
read this group too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.indices import as_list
from ..core.view import View

__all__ = ["cut_of"]


def cut_of(view: View[Any]) -> Callable[[Any], int] | None:
    """Return a function that returns how many indices of a chunk come before its last group begins.

    All of them, if they are of one group. None if the view reads no groups, or if finding them reads items.

    Examples
    --------
    >>> import seqkit as sk
    >>> words = sk.smap(str.upper, sk.flatten(["abc", "de", "fghi"], [3, 2, 4]))
    >>> len(words)
    9
    >>> cut = cut_of(words)
    >>> cut(range(7)), cut(range(5, 9)), cut([1, 2])
    (5, 4, 2)
    >>> cut_of(sk.view("abc"))
    """
    path = [view]  # to the view that reads groups
    while not hasattr(type(view), "group_sizes"):
        if len(view._sources) != 1 or view._reads_ahead:
            return None
        (view,) = view._sources
        path.append(view)
    return partial(_cut, path)


def _cut(path: list[View[Any]], indices: Any) -> int:
    count = len(indices)
    try:
        last = _group(path, indices, count - 1)
        if _group(path, indices, 0) == last:
            return count
        return bisect_left(range(count), True, key=lambda at: _group(path, indices, at) == last)
    except Exception:  # an index that cannot be read is the error of its item
        return count


def _group(path: list[View[Any]], indices: Any, position: int) -> int:
    i = as_list(indices[position : position + 1])[0]
    for view in path:
        _, (i, *_) = next(iter(view._parts(i)))
    return i
