"""Where the groups of a plan begin, such as the files that `flatten` joins, so that jobs can end there.

A worker keeps the group that it read last. A job that ends in the middle of a group makes another worker
read this group too.
"""

from __future__ import annotations

from typing import Any

from ..core.indices import as_list
from ..core.view import View

__all__ = ["Borders"]


class Borders:
    """The groups that the items of a view are read from.

    Examples
    --------
    >>> import seqkit as sk
    >>> words = sk.smap(str.upper, sk.flatten(["abc", "de", "fghi"], [3, 2, 4]))
    >>> len(words)
    9
    >>> borders = Borders.of(words)
    >>> borders.cut(range(7)), borders.cut(range(5, 9)), borders.cut([1, 2])
    (5, 4, 2)
    >>> Borders.of(sk.view("abc")) is None
    True
    """

    def __init__(self, path: list[View[Any]]) -> None:
        self._path = path  # from the view to the one that reads groups

    @classmethod
    def of(cls, view: View[Any]) -> Borders | None:
        """Return the borders of a view, or None if it reads no groups, or if finding them reads items."""
        path = [view]
        while not view._reads_groups:
            if len(view._sources) != 1 or view._reads_ahead:
                return None
            (view,) = view._sources
            path.append(view)
        return cls(path) if all(node._has_parts for node in path) else None

    def cut(self, indices: Any) -> int:
        """Return how many indices come before the last group begins. All of them if they are of one group."""
        low, high = 0, len(indices) - 1
        try:
            last = self._group(indices, high)
            if self._group(indices, low) == last:
                return len(indices)
            while high - low > 1:
                middle = (low + high) // 2
                if self._group(indices, middle) == last:
                    high = middle
                else:
                    low = middle
        except Exception:  # an index that cannot be read is the error of its item
            return len(indices)
        return high

    def _group(self, indices: Any, position: int) -> int:
        i = as_list(indices[position : position + 1])[0]
        for view in self._path:
            _, (i, *_) = next(iter(view._parts(i)))
        return i
