"""`huggingface`: data sets of Hugging Face. A `Dataset` needs no wrapper, a column does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

from ..core.view import View
from .arrow import dtype_of_lists, in_microseconds
from .columns import ByPosition
from .files import existing
from .number_lists import number_list
from .per_process import PerProcess

__all__ = ["HuggingFaceColumn", "as_rows", "huggingface"]

TABLES = ("arrow", "pandas", "polars")  # formats in which `data[i]` is a table of one row


def as_rows(data: Any) -> Any:
    """Return a data set whose items and batches agree: itself, or a wrapper if it formats its rows.

    Raises
    ------
    TypeError
        If its items are tables.
    """
    kind = data.format["type"]
    if kind in TABLES:
        raise TypeError(
            f"view: items of a data set in {kind} format are tables, not rows. Use data.with_format(None), or"
            " the format 'numpy' or 'torch'."
        )
    if kind not in (None, "python", "custom"):
        return Formatted(data)
    return HuggingFaceRows(data) if kind != "custom" and _readers(data, data.format["columns"]) else data


class HuggingFaceRows(ByPosition):
    """The rows of a data set with lists of numbers or with times of day that may have nanoseconds."""

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._readers = _readers(data, data.format["columns"])

    def __getitem__(self, i: int) -> Any:
        return self._read([i], [self._data[i]])[0]

    def __getitems__(self, indices: list[int]) -> Any:
        return self._read(indices, self._data.__getitems__(indices))

    def _read(self, indices: list[int], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for name, read in self._readers.items():
            for row, value in zip(rows, read(indices, [row[name] for row in rows]), strict=True):
                row[name] = value
        return rows


Read = Callable[[list[int], list[Any]], list[Any]]


def _readers(data: Any, names: list[str]) -> dict[str, Read]:
    """Return the function that reads each column of lists of numbers, or of times in nanoseconds."""
    import pyarrow as pa

    found: dict[str, Read] = {}
    for name in names:
        kind = data.features.arrow_schema.field(name).type
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind  # as of Array2D
        if in_microseconds(kind) != kind:
            found[name] = partial(_times, data.with_format("arrow", columns=[name]), name)
        elif (dtype := dtype_of_lists(kind)) is not None:
            found[name] = partial(_number_lists, dtype)
    return found


def _times(data: Any, name: str, indices: list[int], values: list[Any]) -> list[Any]:
    column = data[indices][name]
    try:
        return column.cast(in_microseconds(column.type)).to_pylist()  # type: ignore[no-any-return]
    except Exception as error:
        error.add_note(f"column: {name}. Cast it: data.cast_column({name!r}, datasets.Value('int64'))")
        raise


def _number_lists(dtype: Any, indices: list[int], values: list[Any]) -> list[Any]:
    return [number_list(value, dtype) for value in values]


class Formatted(ByPosition):
    """The rows of a data set that makes arrays or tensors of them.

    Its batches are read in one call only if they have the types of single items. In a batch with a missing
    value, `datasets` makes floats of ints.
    """

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._agree: bool | None = None

    def __getitem__(self, i: int) -> Any:
        return self._data[i]

    def __getitems__(self, indices: list[int]) -> Any:
        if self._agree is None:
            i = indices[0]
            self._agree = self._is_full() and _types(self._data[i]) == _types(self._many([i, i])[0])
        return self._many(indices) if self._agree else [self._data[i] for i in indices]

    def _many(self, indices: list[int]) -> Any:
        return self._data.__getitems__(indices)

    def _is_full(self) -> bool:
        """Has it no missing value?"""
        table = self._data.data
        return all(map(_has_all, map(table.column, self._data.format["columns"])))


class HuggingFaceColumn(Formatted):
    """The values of a column by position. A batch is read in one call, as for `Formatted`."""

    def __init__(self, column: Any) -> None:
        super().__init__(column)
        data = column.source
        is_plain = hasattr(data, "features") and data.format["type"] in (None, "python")
        name = column.column_name
        self._read = _readers(data, [name]).get(name) if is_plain else None

    def __getitem__(self, i: int) -> Any:
        return self._data[i] if self._read is None else self._read([i], [self._data[i]])[0]

    def __getitems__(self, indices: list[int]) -> Any:
        return (
            super().__getitems__(indices) if self._read is None else self._read(indices, self._data[indices])
        )

    def _many(self, indices: list[int]) -> Any:
        return self._data[indices]

    def _is_full(self) -> bool:
        data, name = self._data.source, self._data.column_name
        if not hasattr(data, "data"):  # it is a column of structs
            return False
        return data.format["type"] in (None, "python") or _has_all(data.data.column(name))


def _has_all(column: Any) -> bool:
    """Has a column, with the lists and structs in it, no missing value?"""
    import pyarrow as pa
    from pyarrow import compute

    if column.null_count:
        return False
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        return _has_all(pa.chunked_array(chunks, column.type.storage_type))
    if pa.types.is_struct(column.type):
        return all(_has_all(compute.struct_field(column, k)) for k in range(column.type.num_fields))
    return not pa.types.is_nested(column.type) or _has_all(compute.list_flatten(column))


def _types(value: Any) -> Any:
    """Return the types and dtypes within a row."""
    if isinstance(value, dict):
        return {key: _types(each) for key, each in value.items()}
    return type(value), getattr(value, "dtype", None), getattr(value, "shape", None)


def huggingface(path: str | PathLike[str], split: str | None = None) -> View[dict[str, Any]]:
    """Return a view of the rows of a data set that `datasets` saved to disk.

    Parameters
    ----------
    path : path-like
        Where ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote.
    split : str, optional
        The split, such as ``"train"``. Needed if there are several.

    Returns
    -------
    View
        A batch is one call. Any other `datasets.Dataset` is read by ``view(dataset)``. The format may be
        None, ``"numpy"``, ``"torch"`` or another one with rows. Formats with tables (arrow, pandas, polars)
        are refused.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`, or, when it is first opened, no data set.
    ValueError
        When the data set is first opened: if a split is needed, or does not exist.

    Examples
    --------
    >>> import datasets
    >>> datasets.disable_progress_bars()
    >>> path = getfixture("tmp_path") / "cities"
    >>> datasets.Dataset.from_dict({"city": ["Oslo", "Rome"], "people": [7, 28]}).save_to_disk(path)
    >>> huggingface(path)[1]
    {'city': 'Rome', 'people': 28}
    """
    path = existing(path, "huggingface")
    return PerProcess(partial(_load, path, split), path=path)


def _load(path: str, split: str | None) -> Any:
    from datasets import load_from_disk

    data = load_from_disk(path)
    if not isinstance(data, dict):
        if split is not None:
            raise ValueError(f"huggingface: {path} is one data set without splits, got split={split!r}")
        return data
    if split not in data:
        raise ValueError(f"huggingface: split must be one of {list(data)}, got {split!r}")
    return data[split]
