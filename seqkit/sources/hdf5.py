"""`hdf5`: the rows of HDF5 data sets."""

from __future__ import annotations

import math
import os
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

__all__ = ["Hdf5Rows", "hdf5"]

CACHE_BYTES = 64 * 1024 * 1024  # of decompressed chunks, for each data set: HDF5's own 1 MiB holds few chunks
READ_BYTES = 64 * 1024  # in one read of an array without chunks


def hdf5(path: str | PathLike[str], name: str | Sequence[str] | None = None) -> View[Any]:
    """Return a view of the rows of one or more data sets in an HDF5 file.

    Parameters
    ----------
    path : path-like
        The file. Each process opens it for reading when it first needs it. ``close()`` of the view closes it,
        so that the file can be written again.
    name : str or sequence of str, optional
        One name: items are the rows of this data set. Several: items are dicts from name to row. None (the
        default): all data sets at the top of the file that have rows; a single one as with its name. Data
        sets without dimensions, such as a scalar ``fps``, have no rows.

    Returns
    -------
    View
        A batch is one read for each chunk that it touches.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ImportError
        If h5py is not installed.
    KeyError, ValueError
        When the file is first opened: if a name does not exist, if lengths differ, or if a link leads to
        nothing.

    Notes
    -----
    Numbers are read as they are stored: the attributes ``scale_factor`` and ``add_offset`` of NetCDF are not
    applied.

    Examples
    --------
    >>> import h5py, numpy as np
    >>> with h5py.File(path := getfixture("tmp_path") / "digits.h5", "w") as file:
    ...     file["image"], file["label"] = np.zeros((5, 8, 8)), np.arange(5)
    >>> rows = hdf5(path)
    >>> len(rows), rows[3]["label"], rows[3]["image"].shape, list(hdf5(path, "label")[::-2])
    (5, np.int64(3), (8, 8), [np.int64(4), np.int64(2), np.int64(0)])
    """
    need("h5py", "hdf5")
    path = existing(path, "hdf5")
    return PerProcess(partial(_open, path, as_names(name, "hdf5: name")), "hdf5", path)


def _open(path: str, name: Any) -> Any:
    import h5py

    file = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)
    known = list(file)
    if name is None:
        known = [key for key in known if isinstance(file[key], h5py.Dataset)] or known
    return choose("hdf5", path, name, known, partial(_column, file))


def _column(file: Any, key: str) -> Any:
    import h5py

    dataset = file[key]
    if not isinstance(dataset, h5py.Dataset):
        kind, names = type(dataset).__name__.lower(), list(getattr(dataset, "keys", list)())
        raise ValueError(
            f"hdf5: {key!r} is a {kind} and no data set. It has {names}. Pass a name such as 'group/images'."
        )
    if not dataset.shape:  # a scalar, or nothing at all
        return None
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        # HDF5 would return fill values.
        path = os.path.join(os.path.dirname(file.filename), source.file_name)
        if source.file_name != "." and "%" not in path and not os.path.exists(path):
            raise FileNotFoundError(f"hdf5: {key} is made of the file {source.file_name}, which is missing")
    return Hdf5Rows(dataset)


class Hdf5Rows(TableReader):
    """The rows of an `h5py.Dataset`. A batch is one read for each chunk that it touches."""

    takes_arrays = True

    def __init__(self, dataset: Any) -> None:
        self._data = dataset
        self.group_sizes = dataset.chunks[0] if dataset.chunks else None
        row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
        self._rows_per_read = self.group_sizes or max(1, READ_BYTES // max(row_bytes, 1))

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int) -> Any:
        return self._data[i]

    def __getitems__(self, indices: Indices) -> Any:
        # Not `dataset[indices]`, which takes 0.2 ms per row of a chunked array of several dimensions.
        wanted = as_array(indices)
        found = np.empty((len(wanted), *self._data.shape[1:]), self._data.dtype)
        reads = wanted // self._rows_per_read
        for read in np.unique(reads).tolist():
            places = np.flatnonzero(reads == read)
            rows = wanted[places]
            start = int(rows.min())
            found[places] = self._data[start : int(rows.max()) + 1][rows - start]
        return found

    def __reduce__(self) -> Any:
        if self._data.file.mode != "r":  # it may have values that are not in the file yet
            raise TypeError(f"hdf5: {self._data.file} is open for writing. Use sources.hdf5(path, name).")
        return _reopened, (self._data.file.filename, self._data.name)


def _reopened(path: str, name: str) -> Hdf5Rows:
    import h5py

    return Hdf5Rows(h5py.File(path, "r")[name])
