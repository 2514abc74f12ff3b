"""Rows made of columns: shared by the readers of tables."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, tee
from typing import Any, cast

import numpy as np

from ..core.adapters import TableReader, as_results, reads_many
from ..core.awaiting import Begin
from ..core.errors import fail_at_once
from ..core.indices import Indices, Plan, as_array, as_list, as_slice, each
from ..core.iteration import surviving
from ..core.source import Source
from ..core.view import View
from ..views.bases.columns import Columns, Rows

__all__ = [
    "ByPosition",
    "ColumnOf",
    "DictRows",
    "TableView",
    "agreeing",
    "as_names",
    "check_names",
    "choose",
    "chosen",
    "listed",
    "read_in_blocks",
    "read_many",
]

MOST_NAMES = 20  # in a message


def check_names(names: Sequence[Any], what: str, who: str = "view") -> None:
    """Raise ValueError if two columns have one name, because a row is a dict.

    >>> check_names(["x", "y", "x"], "a DataFrame")
    Traceback (most recent call last):
    ValueError: view: the columns of a DataFrame need different names, got 'x' twice. Rename one of them.
    """
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(
                f"{who}: the columns of {what} need different names, got {name!r} twice. Rename one of them."
            )


def as_names(names: Any, who: str) -> Any:
    """Return the argument that chooses columns: a str, a list of str or None.

    >>> as_names(("x", "y"), "npz: name")
    ['x', 'y']
    """
    if names is None or isinstance(names, str):
        return names
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{who} must be a str, a sequence of str or None, got {names!r}")
    if not names or len({*names}) < len([*names]):
        raise ValueError(f"{who} must have names that differ, got {names!r}. Leave it out to read all.")
    return list(names)


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
    columns: dict[str, Any] = {}
    for key in known if name is None else [name] if isinstance(name, str) else name:
        try:
            rows = column(key)
        except KeyError:
            raise KeyError(f"{who}: there is no {key!r} in {path}. It has {listed(known)}.") from None
        if rows is not None:
            columns[key] = rows
        elif name is not None:
            raise ValueError(f"{who}: {key!r} in {path} has no rows, because it has no dimensions")
    if not columns:
        raise ValueError(
            f"{who}: {path} has no arrays with rows at its top, but {listed(known)}. Pass a name."
        )
    is_one = isinstance(name, str) or (name is None and len(columns) == 1)
    return next(iter(columns.values())) if is_one else DictRows(columns, path)


def listed(names: Sequence[str]) -> str:
    """Return names for a message.

    >>> listed(["x", "y"]), listed([])
    ("'x', 'y'", 'nothing')
    """
    shown = ", ".join(map(repr, names[:MOST_NAMES])) + (", …" if len(names) > MOST_NAMES else "")
    return shown or "nothing"


class ByPosition(TableReader):
    """An object of a library that is read by position. A copy in another process is made of the object."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __reduce__(self) -> Any:
        return type(self), (self._data,)


class DictRows(TableReader):
    """The rows of several sequences of one length, each a dict.

    >>> DictRows({"x": [1, 2], "y": "ab"}, "letters.npz")[1]
    {'x': 2, 'y': 'b'}
    """

    takes_arrays = True

    def __init__(self, columns: Mapping[str, Any], where: str) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"the columns of {where} differ in length: {lengths}. Choose one by its name.")
        self._columns, self._where = dict(columns), where
        self.names = tuple(columns)
        self._n = next(iter(lengths.values()))
        sizes = [getattr(column, "group_sizes", None) for column in columns.values()]
        self.group_sizes = max((size for size in sizes if size), default=None)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {name: column[i] for name, column in self._columns.items()}

    def __getitems__(self, indices: Indices) -> Rows:
        read = {name: _many(column, indices) for name, column in self._columns.items()}
        return Rows(read, len(indices))

    def select(self, names: Sequence[str]) -> DictRows:
        return DictRows({name: self._columns[name] for name in names}, self._where)


def read_many(data: Any, indices: Indices) -> Sequence[Any] | None:
    """Return the items of an opened sequence in one call, or None if it has none for that."""
    if isinstance(data, np.ndarray):
        rows: Any = data[as_slice(indices) if isinstance(indices, range) else as_array(indices)]
        return rows  # type: ignore[no-any-return]
    if not reads_many(data):
        return None
    wanted = indices if getattr(data, "takes_arrays", False) else as_list(indices)
    found = data.__getitems__(wanted)
    return found if isinstance(found, Rows) else as_results(found, len(wanted), "__getitems__")


def read_in_blocks(view: View[Any], plan: Plan, size: int) -> Iterator[Any]:
    """Iterate a view with one batched read for `size` items. Items of a block that fails are read singly."""
    indices, ahead = tee(each(plan))
    ready: deque[Any] = deque()
    alone = 0

    def read(i: int) -> Any:
        nonlocal alone
        if not ready and not alone:
            block = list(islice(ahead, size))
            try:
                ready.extend(view._getmany(block))
            except Exception:
                alone = len(block)
        if ready:
            return ready.popleft()
        alone -= 1
        return view._get(i)

    return surviving(view, cast(Plan, indices), read)


def _many(data: Any, indices: Indices) -> Sequence[Any]:
    found = read_many(data, indices)
    return [data[i] for i in as_list(indices)] if found is None else found


def agreeing(
    who: str, paths: Sequence[str], files: Sequence[Mapping[str, str]], names: list[str] | None = None
) -> list[str]:
    """Return the names of the columns to read. Raise ValueError unless they are of one kind in all files.

    Parameters
    ----------
    who : str
        For messages.
    paths : sequence of str
    files : sequence of mapping of str to str
        The kind of each column of each file; "" if it has no values.
    names : list of str, optional
        None (the default): all columns.

    Examples
    --------
    >>> agreeing("csv", ["1.csv", "2.csv"], [{"zip": "string"}, {"zip": "int"}])
    Traceback (most recent call last):
    ValueError: csv: 'zip' is string in 1.csv and int in 2.csv. Convert one of them, or read the files apart.
    """
    first = files[0]
    wanted = list(first) if names is None else names
    kinds: dict[str, tuple[str, str]] = {}
    for path, file in zip(paths, files, strict=True):
        missing = [name for name in wanted if name not in file]
        if missing and file is first:
            raise ValueError(f"{who}: columns must be among {listed(list(file))}, got {missing}")
        if missing or (names is None and len(file) > len(first)):
            other = listed(missing or [name for name in file if name not in first])
            raise ValueError(
                f"{who}: all files must have the same columns, and only one of {paths[0]} and {path} has"
                f" {other}. Choose other columns, or read the files apart and use concatenate."
            )
        for name in wanted:
            if file[name] and kinds.setdefault(name, (file[name], path))[0] != file[name]:
                kind, other = kinds[name]
                raise ValueError(
                    f"{who}: {name!r} is {kind} in {other} and {file[name]} in {path}. Convert one of them,"
                    " or read the files apart."
                )
    return wanted


# -------------------------------------------------------------------- select


def chosen(rows: Any, names: tuple[str, ...]) -> Any:
    """Return the rows of some columns of a table, or the values of a single one.

    >>> chosen(DictRows({"x": [1, 2], "y": "ab"}, "letters.npz"), ("y",))[1]
    'b'
    """
    if not names or not {*rows.names} >= {*names}:
        raise ValueError(f"select: names must be some of {list(rows.names)}, got {list(names)}")
    found = rows.select(list(names))
    return found if len(names) > 1 else ColumnOf(found, names[0])


class ColumnOf(TableReader):
    """The values of a table that has a single column."""

    takes_arrays = True

    def __init__(self, rows: Any, name: str) -> None:
        self._data, self._name = rows, name
        self.concurrent = getattr(rows, "concurrent", False)
        self.group_sizes = getattr(rows, "group_sizes", None)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int) -> Any:
        return self._data[i][self._name]

    def ranges(self, indices: Any) -> Any:
        return self._data.ranges(indices)

    def begin(self, i: int) -> Begin:
        return partial(self._pick, self._data.begin(i))

    async def _pick(self, begin: Begin) -> Any:
        return (await begin())[self._name]

    def __getitems__(self, indices: Indices) -> list[Any]:
        return [row[self._name] for row in _many(self._data, indices)]


class TableView(Source[Any], Columns[Any]):
    """The view of a table in memory."""

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if not len(indices):
            return []
        try:
            found = read_many(self._data, indices)
        except Exception as error:
            fail_at_once(self, as_list(indices), error)
        return super()._getmany(indices) if found is None else found

    def _column_names(self) -> tuple[str, ...] | None:
        return self._data.names  # type: ignore[no-any-return]

    def _select(self, names: tuple[str, ...]) -> View[Any]:
        return TableView(chosen(self._data, names))


TableView._name = Source._name
