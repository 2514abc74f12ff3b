"""`zarr`: the rows of Zarr arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..view import View
from .columns import Columns
from .files import existing
from .per_process import PerProcess

__all__ = ["Rows", "zarr"]

CACHE_BYTES = 64 * 1024 * 1024  # larger chunks are not kept


def zarr(store: str | PathLike[str], name: str | Sequence[str] | None = None) -> View[Any]:
    """Return a view of the rows of one or more Zarr arrays.

    Parameters
    ----------
    store : path-like
        A Zarr array or group. Each process opens it for reading when it first needs it.
    name : str or sequence of str, optional
        One name: items are the rows of this array of the group. Several: items are dicts from name to row.
        None (the default): the array itself, or all arrays of the group.

    Returns
    -------
    View
        A batch decodes every chunk once.

    Raises
    ------
    FileNotFoundError
        If there is no array or group.
    KeyError, ValueError
        When the store is first opened: if a name does not exist, or if lengths differ.

    Notes
    -----
    A row decodes its whole chunk, which is kept until a row of another chunk is read. See `shuffle_groups`.

    Examples
    --------
    >>> import numpy as np, zarr as library
    >>> path = getfixture("tmp_path") / "digits.zarr"
    >>> library.create_array(path, data=np.arange(12).reshape(6, 2), chunks=(3, 2)).shape
    (6, 2)
    >>> rows = zarr(path)
    >>> len(rows), rows[4]
    (6, array([8, 9]))
    """
    return PerProcess(partial(_open, existing(store, "zarr"), name))


def _open(store: str, name: str | Sequence[str] | None) -> Any:
    import zarr

    node: Any = zarr.open(store, mode="r")
    if not hasattr(node, "keys"):
        return Rows(node)
    if isinstance(name, str):
        return Rows(node[name])
    names = [key for key in node if hasattr(node[key], "shape")] if name is None else list(name)
    if not names:
        raise ValueError(f"zarr: {store} has no arrays at its top, but {list(node)}. Pass a name.")
    columns = {key: Rows(node[key]) for key in names}
    return columns[names[0]] if name is None and len(names) == 1 else Columns(columns, store)


class Rows:
    """The rows of a Zarr array. The chunks of the rows that were read last stay decoded."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.group_sizes: int = array.chunks[0]
        self._bytes_per_group = self.group_sizes * array.dtype.itemsize * math.prod(array.shape[1:])
        self._last: tuple[int, Any] = (-1, None)  # replaced as a whole, so threads may share it

    def __len__(self) -> int:
        return self._array.shape[0]  # type: ignore[no-any-return]

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} is out of range for {len(self)} rows")
        if self._bytes_per_group > CACHE_BYTES:
            return self._array[i]
        return self._group(i // self.group_sizes)[i % self.group_sizes].copy()

    def __getitems__(self, indices: list[int]) -> Any:
        wanted = np.asarray(indices, np.int64)
        groups = wanted // self.group_sizes
        if not len(wanted) or groups.min() != groups.max() or self._bytes_per_group > CACHE_BYTES:
            return self._array.oindex[wanted]
        return self._group(int(groups[0]))[wanted % self.group_sizes]

    def _group(self, number: int) -> Any:
        """Return the rows of a chunk, decoded now or by the last call."""
        last, rows = self._last
        if last != number:
            start = number * self.group_sizes
            rows = self._array[start : start + self.group_sizes]
            self._last = number, rows
        return rows

    def __reduce__(self) -> Any:
        return Rows, (self._array,)
