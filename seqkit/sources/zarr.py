"""`zarr`: the rows of Zarr arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.adapters import TableReader
from ..core.indices import Indices, as_array
from ..core.lazy import need
from ..core.view import View
from .columns import as_names, choose
from .files import existing
from .per_process import PerProcess

__all__ = ["ZarrRows", "zarr"]

CACHE_BYTES = 64 * 1024 * 1024  # larger groups of rows are not kept


def zarr(store: str | PathLike[str], name: str | Sequence[str] | None = None) -> View[Any]:
    """Return a view of the rows of one or more Zarr arrays.

    Parameters
    ----------
    store : path-like
        A Zarr array or group. Each process opens it for reading when it first needs it.
    name : str or sequence of str, optional
        One name: items are the rows of this array of the group. Several: items are dicts from name to row.
        None (the default): the array itself, or all arrays of the group that have rows. Arrays without
        dimensions, such as a scalar ``fps``, have no rows.

    Returns
    -------
    View
        A batch decodes every chunk once. ``group_sizes`` is the number of rows in a chunk, or in a shard if
        the array has shards.

    Raises
    ------
    FileNotFoundError
        If there is no array or group.
    ImportError
        If zarr is not installed.
    KeyError, ValueError
        When the store is first opened: if a name does not exist, or if lengths differ.

    Notes
    -----
    A row decodes its whole chunk or shard, which is kept until a row of another one is read. Chunks of more
    than 64 MiB are not kept: each row is read alone. See `shuffle_groups`.

    Numbers are read as they are stored: the attributes ``scale_factor`` and ``add_offset`` of xarray are not
    applied.

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
    need("zarr", "zarr")
    path = existing(store, "zarr")
    return PerProcess(partial(_open, path, as_names(name, "zarr: name")), "zarr", path)


def _open(store: str, name: Any) -> Any:
    import zarr

    # Consolidated metadata do not know what was appended or created since they were written.
    node: Any = zarr.open(store, mode="r", use_consolidated=False)
    rows = partial(_rows, store)
    if not hasattr(node, "keys"):  # an array
        return choose("zarr", store, name, [""] if name is None else [], lambda key: rows(node))
    known = list(node)
    if name is None:
        known = [key for key in known if hasattr(node[key], "shape")] or known
    return choose("zarr", store, name, known, lambda key: rows(node[key]))


def _rows(store: str, node: Any) -> Any:
    if not hasattr(node, "shape"):
        raise ValueError(f"zarr: {node.name!r} is a group and no array. It has {list(node)}. Pass a name.")
    return ZarrRows(node) if node.shape else None


class ZarrRows(TableReader):
    """The rows of a Zarr array. The chunk or shard of the rows that were read last stays decoded."""

    takes_arrays = True

    def __init__(self, array: Any) -> None:
        self._data = array
        unit = getattr(array, "shards", None) or array.chunks  # a shard is a file of several chunks
        self.group_sizes: int = unit[0]
        self._bytes_per_group = self.group_sizes * array.dtype.itemsize * math.prod(array.shape[1:])
        self._last: tuple[int, Any] = (-1, None)  # replaced as a whole, so threads may share it

    def __len__(self) -> int:
        return self._data.shape[0]  # type: ignore[no-any-return]

    def __getitem__(self, i: int) -> Any:
        if self._bytes_per_group > CACHE_BYTES:
            return self._data[i][()]  # a number or string is an array without dimensions
        row = self._group(i // self.group_sizes)[i % self.group_sizes]
        return row.copy() if isinstance(row, np.ndarray) else row

    def __getitems__(self, indices: Indices) -> Any:
        wanted = as_array(indices)
        groups = wanted // self.group_sizes
        if not len(wanted) or groups.min() != groups.max() or self._bytes_per_group > CACHE_BYTES:
            return self._data.oindex[wanted]
        return self._group(int(groups[0]))[wanted % self.group_sizes]

    def _group(self, number: int) -> Any:
        """Return the rows of a chunk, decoded now or by the last call."""
        last, rows = self._last
        if last != number:
            start = number * self.group_sizes
            rows = self._data[start : start + self.group_sizes]
            self._last = number, rows
        return rows

    def __reduce__(self) -> Any:
        return ZarrRows, (self._data,)
