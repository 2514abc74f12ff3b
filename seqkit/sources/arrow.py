"""Tables of Arrow in memory, and Arrow (Feather) files, read by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.adapters import TableReader
from ..core.indices import Indices, as_array
from ..core.lazy import need
from ..core.view import View
from ..engine.arrow import compact
from ..views.bases.columns import Rows
from .columns import ColumnOf, check_names
from .files import existing
from .per_process import PerProcess

__all__ = ["ArrowRows", "arrow", "column", "kinds_of"]

Read = Callable[[Any], Sequence[Any]]


class ArrowRows(TableReader):
    """The rows of a Table or RecordBatch by position, each a dict from column to value."""

    takes_arrays = True  # of indices: pyarrow takes three times as long to convert a list

    def __init__(self, table: Any) -> None:
        self.names = tuple(table.schema.names)
        check_names(self.names, "a Table")
        batches: list[Any] = table.to_batches() if hasattr(table, "to_batches") else []
        self._data = batches[0] if len(batches) == 1 else table  # a RecordBatch has the same methods, faster
        self._reads = [_reader(field.type) for field in table.schema]
        self._columns = list(zip(self.names, self._data.columns, self._reads, strict=True))

    def __len__(self) -> int:
        return self._data.num_rows  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self._data.nbytes  # type: ignore[no-any-return]

    def __getitem__(self, i: int) -> Any:
        i = range(len(self))[i]
        return {name: _values(name, column, read, i) for name, column, read in self._columns}

    def __getitems__(self, indices: Indices) -> Sequence[Any]:
        try:
            taken = self._data.take(as_array(indices))
        except NotImplementedError:  # pyarrow cannot take from some types
            return [self[int(i)] for i in indices]
        columns = zip(self.names, taken.columns, self._reads, strict=True)
        return Rows({name: _values(name, column, read) for name, column, read in columns}, len(indices))

    def select(self, names: Sequence[str]) -> ArrowRows:
        return ArrowRows(self._data.select(names))

    def __reduce__(self) -> Any:
        return ArrowRows, (compact(self._data),)


def column(array: Any) -> ColumnOf:
    """Return the values of an Array or ChunkedArray by position, as Python objects."""
    import pyarrow as pa

    return ColumnOf(ArrowRows(pa.table([array], names=[""])), "")


def _values(name: str, column: Any, read: Read, i: int | None = None) -> Any:
    """Return the values of a column, or its value at `i`."""
    try:
        if i is None:
            return read(column)
        return column[i].as_py() if read in (_plain, _numbers) else read(column.slice(i, 1))[0]
    except Exception as error:
        error.add_note(f"column: {name}")
        raise


def _reader(kind: Any) -> Read:
    """Return the function that makes a list of a column."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(kind, pa.FixedShapeTensorType):
        return _tensors
    if kind == pa.time64("ns"):
        return _times
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        if types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner):
            return _vectors
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return _numbers if is_number and kind not in (pa.uint64(), pa.float16()) else _plain


def kinds_of(schema: Any) -> dict[str, str]:
    """Return a word for the type of each column, the same for types with the same objects of Python."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(kind: Any) -> str:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_null(kind):
        return ""
    if types.is_integer(kind):
        return "int"
    if types.is_floating(kind):
        return "float"
    return str(kind).removeprefix("large_")


def _plain(column: Any) -> list[Any]:
    return column.to_pylist()  # type: ignore[no-any-return]


def _numbers(column: Any) -> Sequence[Any]:
    """Return bools, ints or floats. If none is missing, they lie in the memory of one array."""
    if column.null_count:
        return _plain(column)
    numbers: Any = np.asarray(column)
    return memoryview(numbers.astype(_OF_PYTHON[numbers.dtype.kind], copy=False))


_OF_PYTHON = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}  # of numbers of Python


def _times(column: Any) -> list[Any]:
    """Return times of day. Raise ArrowInvalid if one has nanoseconds, which pyarrow would drop."""
    return column.cast("time64[us]").to_pylist()  # type: ignore[no-any-return]


def _vectors(column: Any) -> list[Any]:
    """Return an array for each list of numbers, with the dtype of the column."""
    return [None if cell.values is None else _vector(cell.values) for cell in column]


def _vector(numbers: Any) -> Any:
    if numbers.null_count:
        return numbers.to_pylist()
    return np.array(numbers.to_numpy(zero_copy_only=False))


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
    ImportError
        If pyarrow is not installed.
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
    need("pyarrow", "arrow")
    path = existing(path, "arrow")
    return PerProcess(partial(_open, path), "arrow", path)


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
