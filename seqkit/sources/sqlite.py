"""`sqlite`: rows of a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.adapters import TableReader
from ..core.plain import plain
from ..core.values import values_of
from ..core.view import Indexable, View
from .columns import check_names
from .files import existing, naming
from .per_process import PerProcess

__all__ = ["sqlite"]


def sqlite(
    path: str | PathLike[str],
    query: str,
    ids: Indexable[Any] | str | None = None,
) -> View[dict[str, Any]]:
    """Return a view of the rows of a SQLite database, each a dict from column to value.

    Parameters
    ----------
    path : path-like
        The database. Each thread of each process opens it for reading when it first needs it.
    query : str
        The name of a table, or a query with one ``?`` for the id of a row:
        ``"SELECT image, label FROM samples WHERE rowid = ?"``. Views of SQLite, and tables without row ids,
        need a query.
    ids : indexable or str, optional
        The ids in the order of the view, which are read now, or a query that selects them. None (the
        default): all row ids of the table `query`, in order.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        If a query has no `ids`. When a row is read: if the query has two columns of one name.
    FileNotFoundError
        If there is no file.
    sqlite3.Error
        If the database cannot be read, or the table has no row ids.

    Notes
    -----
    One query per row, and one transaction per batch. A query must find one row.

    Examples
    --------
    >>> import sqlite3
    >>> path = getfixture("tmp_path") / "cities.db"
    >>> with sqlite3.connect(path) as db:
    ...     _ = db.execute("CREATE TABLE cities (name, people)")
    ...     _ = db.executemany("INSERT INTO cities VALUES (?, ?)", [("Oslo", 7), ("Rome", 28)])
    >>> db.close()
    >>> sqlite(path, "cities")[1]
    {'name': 'Rome', 'people': 28}
    >>> big = "SELECT rowid FROM cities WHERE people > 10"
    >>> list(sqlite(path, "SELECT name FROM cities WHERE rowid = ?", big))
    [{'name': 'Rome'}]
    """
    name = existing(path, "sqlite")
    if not isinstance(query, str):
        raise TypeError(f"sqlite: query must be a str, got {query!r}")
    with naming(name), closing(_connect(name)) as database:
        if "?" not in query:
            table = '"' + query.replace('"', '""') + '"'
            query = f"SELECT * FROM {table} WHERE _rowid_ = ?"
            ids = f"SELECT _rowid_ FROM {table} ORDER BY _rowid_" if ids is None else ids
        if ids is None:
            raise ValueError(
                "sqlite: a query needs ids. Pass a sequence of ids, or a query that selects them."
            )
        if isinstance(ids, str):
            ids = [row[0] for row in database.execute(ids)]
        found = values_of(ids, "sqlite: ids")
    return PerProcess(partial(SqliteRows, name, query, found), "sqlite", name, per_thread=True, block=256)


def _connect(path: str) -> sqlite3.Connection:
    # A thread that ends leaves its connection to another one, which closes it.
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)


class SqliteRows(TableReader):
    """The rows that a query finds in a database for some ids. Used by one thread."""

    def __init__(self, path: str, query: str, ids: Sequence[Any]) -> None:
        self._path, self._query, self._ids = path, query, ids
        self._database = _connect(path)
        columns = self._database.execute(query, (None,)).description
        self.names = tuple(column[0] for column in columns)
        check_names(self.names, "the query", "sqlite")

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, i: int) -> dict[str, Any]:
        key = plain(self._ids[i])
        rows = self._database.execute(self._query, (key,)).fetchmany(2)
        if len(rows) != 1:
            found = "several rows" if rows else "no row"
            raise LookupError(f"sqlite: id {key!r} has {found}, one is needed")
        return dict(zip(self.names, rows[0], strict=True))

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        self._database.execute("BEGIN")  # SQLite locks the file for each transaction
        try:
            return [self[i] for i in indices]
        finally:
            self._database.execute("COMMIT")

    def select(self, names: Sequence[str]) -> SqliteRows:
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        return SqliteRows(self._path, f"SELECT {columns} FROM ({self._query})", self._ids)

    def close(self) -> None:
        self._database.close()
