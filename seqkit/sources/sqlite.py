"""`sqlite`: rows of a SQLite database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.indices import as_list
from ..core.plain import plain
from ..core.source import as_view
from ..core.values import values_of
from ..core.view import Indexable, View
from ..views.smap import smap
from .columns import check_names, listed
from .files import existing, name_file
from .handles import Handles
from .per_process import WithHandle

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
        The name of a table or of a view, or a query with one ``?`` for the id of a row:
        ``"SELECT image, label FROM samples WHERE rowid = ?"``.
    ids : View, indexable or str, optional
        The ids in the order of the view, or a query that selects them. A list, array, tensor or column is
        read now, by position. None (the default): all row ids of the table `query`, in order.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        If `query` has no ``?``, or if there are no `ids` and the table has no row ids. If the query has two
        columns of one name.
    FileNotFoundError
        If there is no file.
    sqlite3.Error
        If the database cannot be read.

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
    if not isinstance(ids, View | range | str | None):
        ids = values_of(ids, "sqlite: ids")
    if not isinstance(query, str):
        raise TypeError(f"sqlite: query must be a str, got {query!r}")
    try:
        with closing(_connect(name)) as database:
            query, ids = _prepared(database, name, query, ids)
    except sqlite3.Error as error:
        name_file(error, name)
        raise
    handles = Handles(partial(SqliteRows, name, query), per_thread=True, bounded=True)
    return smap(WithHandle(handles, SqliteRows.read, name), as_view(ids, "sqlite"), batched=True)


def _prepared(database: sqlite3.Connection, path: str, query: str, ids: Any) -> tuple[str, Any]:
    """Return a query for the row of an id, and the ids."""
    known = [
        row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    ]
    if query in known or not any(letter.isspace() for letter in query):
        if query not in known:
            raise sqlite3.OperationalError(
                f"sqlite: there is no table {query!r} in {path}. It has {listed(known)}."
            )
        table = '"' + query.replace('"', '""') + '"'
        # A table may have a column rowid of any values. A view may have a column of that name only.
        rowid = "_rowid_" if _has_ids(database, table, "_rowid_") else "rowid"
        if ids is None:
            if not _has_ids(database, table, rowid):
                raise ValueError(
                    f"sqlite: {query!r} in {path} has no row ids. Pass a query with ? for a key, and the"
                    f" keys: 'SELECT * FROM {query} WHERE key = ?', 'SELECT key FROM {query}'."
                )
            ids = f"SELECT {rowid} FROM {table} ORDER BY {rowid}"
        query = f"SELECT * FROM {table} WHERE {rowid} = ?"
    if "?" not in query:
        raise ValueError(f"sqlite: query needs a ? for the id of a row, got {query!r}")
    if ids is None:
        raise ValueError("sqlite: a query needs ids. Pass a sequence of ids, or a query that selects them.")
    columns = database.execute(query, (None,)).description
    check_names([column[0] for column in columns], "the query", "sqlite")
    return query, [row[0] for row in database.execute(ids)] if isinstance(ids, str) else ids


def _has_ids(database: sqlite3.Connection, table: str, name: str) -> bool:
    try:
        return bool(database.execute(f"SELECT {name} FROM {table} LIMIT 1").fetchone() != (None,))
    except sqlite3.OperationalError:
        return False


def _connect(path: str) -> sqlite3.Connection:
    # A thread that ends leaves its connection to another one, which closes it.
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)


class SqliteRows:
    """The rows that a query finds in an opened database. Used by one thread."""

    def __init__(self, path: str, query: str) -> None:
        self._database = _connect(path)
        self._cursor = self._database.cursor()
        self._query = query
        self._names: list[str] = []

    def read(self, keys: Any) -> list[dict[str, Any]]:
        """Return the rows of some ids. In one transaction, because SQLite locks the file for each."""
        self._cursor.execute("BEGIN")
        try:
            return [self._row(plain(key)) for key in as_list(keys)]
        finally:
            self._cursor.execute("COMMIT")

    def _row(self, key: Any) -> dict[str, Any]:
        rows = self._cursor.execute(self._query, (key,)).fetchmany(2)
        if len(rows) != 1:
            found = "several rows" if rows else "no row"
            raise LookupError(f"sqlite: id {key!r} has {found}, one is needed")
        if not self._names:
            self._names = [column[0] for column in self._cursor.description]
        return dict(zip(self._names, rows[0], strict=True))

    def close(self) -> None:
        self._database.close()
