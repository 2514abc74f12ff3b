"""Rows made of columns: shared by the readers of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core.adapters import TableReader
from .per_process import read_many

__all__ = ["ByPosition", "DictRows", "as_names", "as_rows", "check_names", "choose"]

MOST_NAMES = 20  # in a message


def check_names(names: Sequence[Any], what: str, who: str = "view") -> None:
    """Raise ValueError if two columns have one name, because a row is a dict.

    >>> check_names(["x", "y", "x"], "a DataFrame")
    Traceback (most recent call last):
    ValueError: view: the columns of a DataFrame need different names, got 'x' twice. Rename one of them.
    """
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise ValueError(
                f"{who}: the columns of {what} need different names, got {name!r} twice. Rename one of them."
            )
        seen.add(name)


def as_names(names: Any, who: str) -> Any:
    """Return the argument that chooses columns: a str, a list of str or None.

    >>> as_names(("x", "y"), "npz: name")
    ['x', 'y']
    """
    if names is None or isinstance(names, str):
        return names
    found = list(names) if isinstance(names, Iterable) else [names]
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in found):
        raise TypeError(f"{who} must be a str, a sequence of str or None, got {names!r}")
    if not found:
        raise ValueError(f"{who} must not be empty. Leave it out to read all.")
    if len(set(found)) < len(found):
        raise ValueError(f"{who} must not have a name twice, got {found}")
    return found


def choose(
    who: str, path: str, name: Any, known: Sequence[str], column: Callable[[str], Sequence[Any] | None]
) -> Any:
    """Return the rows of one array of a file, or of several as dicts.

    Parameters
    ----------
    who, path : str
        For messages.
    name : str, list of str or None
        The arrays to read. None: all of `known` that have rows.
    known : sequence of str
        Names of arrays in the file.
    column : callable
        Returns the rows of an array, or None if it has none because it has no dimensions. Raises KeyError if
        there is no such array.

    Examples
    --------
    >>> columns = {"x": [3, 4], "fps": None}
    >>> choose("npz", "a.npz", None, ["x", "fps"], columns.__getitem__)
    [3, 4]
    >>> choose("npz", "a.npz", "y", ["x", "fps"], columns.__getitem__)
    Traceback (most recent call last):
    KeyError: "npz: there is no 'y' in a.npz. It has 'x', 'fps'."
    """
    if name is None:
        columns = {key: rows for key in known if (rows := column(key)) is not None}
        if not columns:
            raise ValueError(
                f"{who}: {path} has no arrays with rows at its top, but {listed(known)}. Pass a name."
            )
        return next(iter(columns.values())) if len(columns) == 1 else DictRows(columns, path)
    columns = {}
    for key in [name] if isinstance(name, str) else name:
        try:
            rows = column(key)
        except KeyError:
            raise KeyError(f"{who}: there is no {key!r} in {path}. It has {listed(known)}.") from None
        if rows is None:
            raise ValueError(f"{who}: {key!r} in {path} has no rows, because it has no dimensions")
        columns[key] = rows
    return columns[name] if isinstance(name, str) else DictRows(columns, path)


def listed(names: Sequence[str]) -> str:
    """Return names for a message.

    >>> listed(["x", "y"]), listed([])
    ("'x', 'y'", 'nothing')
    """
    shown = ", ".join(map(repr, names[:MOST_NAMES])) + (", …" if len(names) > MOST_NAMES else "")
    return shown or "nothing"


def as_rows(names: Sequence[Any], columns: Iterable[Sequence[Any]], n: int) -> list[dict[Any, Any]]:
    """Return a dict for each row of some columns of length `n`.

    >>> as_rows(["x", "y"], [[1, 2], "ab"], 2)
    [{'x': 1, 'y': 'a'}, {'x': 2, 'y': 'b'}]
    """
    if not names:
        return [{} for _ in range(n)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


class ByPosition(TableReader):
    """An object of a library that is read by position. A copy in another process is made of the object."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __reduce__(self) -> Any:
        return type(self), (self._data,)


class DictRows:
    """The rows of several sequences of one length, each a dict.

    >>> DictRows({"x": [1, 2], "y": "ab"}, "letters.npz")[1]
    {'x': 2, 'y': 'b'}
    """

    def __init__(self, columns: Mapping[str, Any], where: str) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"the columns of {where} differ in length: {lengths}. Choose one by its name.")
        self._columns = dict(columns)
        self._n = next(iter(lengths.values()))
        sizes = [getattr(column, "group_sizes", None) for column in columns.values()]
        self.group_sizes = max((size for size in sizes if size), default=None)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {name: column[i] for name, column in self._columns.items()}

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        read = [_many(column, indices) for column in self._columns.values()]
        return as_rows(list(self._columns), read, len(indices))


def _many(column: Any, indices: list[int]) -> Any:
    found = read_many(column, indices)
    return [column[i] for i in indices] if found is None else found
