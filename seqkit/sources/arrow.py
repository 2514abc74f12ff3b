"""Tables of Arrow in memory, and Arrow (Feather) files, read by position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.adapters import TableReader
from ..core.view import View
from ..engine.arrow import compact
from .columns import as_rows, check_names
from .files import existing
from .number_lists import number_list
from .per_process import PerProcess

__all__ = ["ArrowColumn", "ArrowRows", "arrow", "dtype_of_lists", "in_microseconds"]


class ArrowColumn(TableReader):
    """The values of an Array or ChunkedArray by position, as Python objects."""

    def __init__(self, array: Any) -> None:
        self._data = array
        self._read = _reader(array.type)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int) -> Any:
        return _value(self._data, i, self._read)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        try:
            return _values(self._data.take(np.asarray(indices, np.int64)), self._read)
        except NotImplementedError:  # pyarrow cannot take from some types
            return [self[int(i)] for i in indices]

    def __reduce__(self) -> Any:
        return ArrowColumn, (compact(self._data),)


class ArrowRows(TableReader):
    """The rows of a Table or RecordBatch by position, each a dict from column to value."""

    takes_arrays = True  # of indices: pyarrow takes three times as long to convert a list

    def __init__(self, table: Any) -> None:
        names = table.schema.names
        check_names(names, "a Table")
        batches: list[Any] = table.to_batches() if hasattr(table, "to_batches") else []
        self._data = batches[0] if len(batches) == 1 else table  # a RecordBatch has the same methods, faster
        self._names = names
        reads = [_reader(field.type) for field in table.schema]
        self._columns = list(zip(names, self._data.columns, reads, strict=True))

    def __len__(self) -> int:
        return self._data.num_rows  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self._data.nbytes  # type: ignore[no-any-return]

    def __getitem__(self, i: int) -> Any:
        values = [_value(column, i, read, name) for name, column, read in self._columns]
        return dict(zip(self._names, values, strict=True))

    def __getitems__(self, indices: list[int]) -> list[Any]:
        try:
            taken = self._data.take(np.asarray(indices, np.int64))
        except NotImplementedError:  # pyarrow cannot take from some types
            return [self[int(i)] for i in indices]
        pairs = zip(taken.columns, self._columns, strict=True)
        columns = [_values(column, read, name) for column, (name, _, read) in pairs]
        return as_rows(self._names, columns, len(indices))

    def __reduce__(self) -> Any:
        return ArrowRows, (compact(self._data),)


Read = Callable[[Any], list[Any]]


def _value(column: Any, i: int, read: Read | None, name: str | None = None) -> Any:
    if read is not None:
        return _values(column.slice(range(len(column))[i], 1), read, name)[0]
    try:
        return column[i].as_py()
    except Exception as error:
        _name_column(error, name)
        raise


def _values(column: Any, read: Read | None, name: str | None = None) -> list[Any]:
    try:
        if read is None:
            return column.to_pylist()  # type: ignore[no-any-return]
        return read(column.combine_chunks() if hasattr(column, "combine_chunks") else column)
    except Exception as error:
        _name_column(error, name)
        raise


def _name_column(error: Exception, name: str | None) -> None:
    """Add the name of a column to an error: Python has no value for one of its cells."""
    if name is not None:
        error.add_note(f"column: {name}")


def _reader(kind: Any) -> Read | None:
    """Return the function that reads values of a type, or None if pyarrow reads them."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return _tensors
    if (coarse := in_microseconds(kind)) != kind:
        return partial(_times, coarse)
    dtype = dtype_of_lists(kind)
    return None if dtype is None else partial(_number_lists, dtype)


def dtype_of_lists(kind: Any) -> Any:
    """Return the dtype of the numbers in nested lists, or None if a type is no list of numbers."""
    from pyarrow import types

    inner = kind
    while types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
        inner = inner.value_type
    is_number = types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner)
    return np.dtype(inner.to_pandas_dtype()) if is_number and inner is not kind else None


def in_microseconds(kind: Any) -> Any:
    """Return a type with its times of day in microseconds, the finest unit of `datetime.time`."""
    import pyarrow as pa

    def inner(field: Any) -> Any:
        return field.with_type(in_microseconds(field.type))

    if pa.types.is_struct(kind):
        return pa.struct([inner(kind.field(k)) for k in range(kind.num_fields)])
    if pa.types.is_map(kind):
        item = in_microseconds(kind.item_type)
        return kind if item == kind.item_type else pa.map_(kind.key_type, item)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_field), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(inner(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(inner(kind.value_field))
    return pa.time64("us") if kind == pa.time64("ns") else kind


def _number_lists(dtype: Any, column: Any) -> list[Any]:
    return [number_list(value, dtype) for value in column.to_pylist()]


def _times(kind: Any, column: Any) -> list[Any]:
    """Return values with times of day. Raise ArrowInvalid if one has nanoseconds, which pyarrow drops."""
    return column.cast(kind).to_pylist()  # type: ignore[no-any-return]


def _tensors(column: Any) -> list[Any]:
    return [each.to_numpy().copy() if each.is_valid else None for each in column]


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

    Notes
    -----
    A stream that ends between two batches is read to there. pyarrow does not say whether its writer was
    closed.

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
        is_stream = file.read(6) != b"ARROW1"
        file.seek(0)
        try:
            table = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(file).read_all()
        except pa.ArrowInvalid as error:
            error.add_note("It is no file of Arrow or Feather V2, or it was cut short.")
            raise
    check_names(table.schema.names, path, "arrow")
    return ArrowRows(table)
