"""`Columns`: the base of views whose items may have named columns, which `select` picks out.

And `Rows`, the items that such a view has read at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, cast

from ...core.tracebacks import hiding_frames
from ...core.view import T_co, View

__all__ = ["Columns", "Rows", "collated", "selected"]


class Columns(View[T_co]):
    """A view that passes a selection of columns on to its sources, down to a `collate` with names."""

    def _column_names(self) -> tuple[str, ...] | None:
        """Return the names of the columns, or None if the items have no named columns."""
        first = self._sources[0] if self._sources else None
        return first._column_names() if isinstance(first, Columns) else None

    @hiding_frames()
    def select(self, *names: str) -> View[Any]:
        """Return the view of some columns: of one name its values, of several names dicts.

        Works on tables and on `collate` with names, and on their items in another order: slices, `gather`,
        `shuffle`, `random_split`, `concatenate` and others. The order stays the same, and the other columns
        are not read.

        Parameters
        ----------
        *names : str
            At least one.

        Raises
        ------
        TypeError
            If a name is not a str, if the items have no named columns, or if the view may need all columns.
        ValueError
            Without names, or for an unknown name.

        Examples
        --------
        >>> import seqkit as sk
        >>> points = sk.collate(x=[1, 2, 3], y="abc")
        >>> list(points.select("y")), points[::-1].select("y", "x")[0]
        (['a', 'b', 'c'], {'y': 'c', 'x': 3})
        >>> train, test = sk.random_split(points, [2, 1], seed=0)
        >>> list(train.select("y")) == [point["y"] for point in train]
        True
        """
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    f"select: names of columns must be strings, got {name!r}."
                    " Use gather to select items by index."
                )
        return selected(self, names)

    def _select(self, names: tuple[str, ...]) -> View[Any]:
        selection: Any = self._rebuild(tuple(selected(source, names) for source in self._sources))
        if hasattr(self, "_salt"):
            selection._salt = self._salt  # the order stays, although fewer orders may be below
        return cast(View[Any], selection)


def selected(view: View[Any], names: tuple[str, ...]) -> View[Any]:
    """Return the view of some columns of a view, or raise TypeError if its items have none.

    >>> import seqkit as sk
    >>> selected(sk.smap(str, [1]), ("x",))
    Traceback (most recent call last):
    TypeError: select: items of smap(str, <list of 1>) have no named columns. Select from a table ...
    """
    if not isinstance(view, Columns) or view._column_names() is None:
        raise TypeError(
            f"select: items of {view!r} have no named columns. Select from a table or a named collate."
        )
    return view._select(names)


class Rows(Sequence[Any]):
    """Rows that were read at once, each a dict. They are made when the first one is asked for.

    Attributes
    ----------
    columns : mapping of names to sequences, or None
        None after the first row was asked for, because rows can be changed.

    Examples
    --------
    >>> rows = Rows({"x": [1, 2], "y": "ab"}, 2)
    >>> rows.columns, rows[1], rows.columns
    ({'x': [1, 2], 'y': 'ab'}, {'x': 2, 'y': 'b'}, None)
    """

    def __init__(self, columns: Mapping[Any, Sequence[Any]], n: int) -> None:
        self.columns: Mapping[Any, Sequence[Any]] | None = columns
        self._n = n
        self._made: list[dict[Any, Any]] = []

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._rows()[i]

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        return iter(self._rows())

    def _rows(self) -> list[dict[Any, Any]]:
        if self.columns is not None:
            names = [*self.columns]
            values = zip(*self.columns.values(), strict=True) if names else repeat((), self._n)
            self._made = [dict(zip(names, row, strict=False)) for row in values]
            self.columns = None
        return self._made


def collated(collate_fn: Any, items: Sequence[Any], takes: bool = False) -> Any:
    """Return a batch of items. A function gets a list of them, or the items as they are if it `takes` them.

    A function that has `collate_columns` gets the columns of `Rows`.
    """
    if isinstance(items, Rows) and items and items.columns and hasattr(collate_fn, "collate_columns"):
        return collate_fn.collate_columns(items.columns)
    return collate_fn(items if takes or isinstance(items, list) else list(items))
