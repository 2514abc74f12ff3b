"""Tables of Arrow in memory, and Arrow (Feather) files, read by position."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..prefetch.arrow import compacted
from ..view import View
from .columns import check_names
from .files import existing
from .per_process import PerProcess

__all__ = ["Column", "Rows", "arrow"]


class Column:
    """The values of an Array or ChunkedArray by position, as Python objects."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, i: int) -> Any:
        return self._array[i].as_py()

    def __getitems__(self, indices: list[int]) -> list[Any]:
        try:
            return self._array.take(np.asarray(indices, np.int64)).to_pylist()  # type: ignore[no-any-return]
        except NotImplementedError:  # pyarrow cannot take from some types
            return [self[i] for i in indices]

    def __reduce__(self) -> Any:
        return Column, (compacted(self._array),)


class Rows:
    """The rows of a Table or RecordBatch by position, each a dict from column to value."""

    takes_arrays = True  # of indices: pyarrow takes three times as long to convert a list

    def __init__(self, table: Any) -> None:
        check_names(table.schema.names, "a Table")
        batches: list[Any] = table.to_batches() if hasattr(table, "to_batches") else []
        self._table = batches[0] if len(batches) == 1 else table  # a RecordBatch has the same methods, faster

    def __len__(self) -> int:
        return self._table.num_rows  # type: ignore[no-any-return]

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {name: column[i].as_py() for name, column in self._named()}

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        try:
            return self._table.take(np.asarray(indices, np.int64)).to_pylist()  # type: ignore[no-any-return]
        except NotImplementedError:  # pyarrow cannot take from some types
            return [self[int(i)] for i in indices]

    def _named(self) -> Any:
        return zip(self._table.schema.names, self._table.columns, strict=True)

    def __reduce__(self) -> Any:
        return Rows, (compacted(self._table),)


def arrow(path: str | PathLike[str]) -> View[dict[str, Any]]:
    """Return a view of the rows of an Arrow or Feather file, each a dict from column to value.

    Parameters
    ----------
    path : path-like
        An Arrow file (also called Feather V2) or an Arrow stream. Each process maps it into memory when it
        first needs it.

    Returns
    -------
    View
        A batch is one call.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    pyarrow.ArrowInvalid
        When the file is first opened: if it has another format.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.feather
    >>> path = str(getfixture("tmp_path") / "cities.feather")
    >>> pyarrow.feather.write_feather(pa.table({"city": ["Oslo", "Rome"], "people": [7, 28]}), path)
    >>> arrow(path)[1]
    {'city': 'Rome', 'people': 28}
    """
    path = existing(path, "arrow")
    return PerProcess(partial(_open, path), path=path)


def _open(path: str) -> Any:
    import pyarrow as pa

    with pa.memory_map(path) as file:  # the buffers of the table keep the map
        try:
            table = pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
    check_names(table.schema.names, path, "arrow")
    return Rows(table)
