"""`hdf5`: the rows of HDF5 data sets."""

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

__all__ = ["Rows", "hdf5"]

CACHE_BYTES = 64 * 1024 * 1024  # of decompressed chunks, for each data set: HDF5's own 1 MiB holds few chunks
READ_BYTES = 64 * 1024  # in one read of an array without chunks


def hdf5(path: str | PathLike[str], name: str | Sequence[str] | None = None) -> View[Any]:
    """Return a view of the rows of one or more data sets in an HDF5 file.

    Parameters
    ----------
    path : path-like
        The file. Each process opens it for reading when it first needs it.
    name : str or sequence of str, optional
        One name: items are the rows of this data set. Several: items are dicts from name to row. None (the
        default): all data sets at the top of the file; a single one as with its name.

    Returns
    -------
    View
        A batch is one read for each chunk that it touches.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    KeyError, ValueError
        When the file is first opened: if a name does not exist, or if lengths differ.

    Examples
    --------
    >>> import h5py, numpy as np
    >>> with h5py.File(path := getfixture("tmp_path") / "digits.h5", "w") as file:
    ...     file["image"], file["label"] = np.zeros((5, 8, 8)), np.arange(5)
    >>> rows = hdf5(path)
    >>> len(rows), rows[3]["label"], rows[3]["image"].shape, list(hdf5(path, "label")[::-2])
    (5, np.int64(3), (8, 8), [np.int64(4), np.int64(2), np.int64(0)])
    """
    return PerProcess(partial(_open, existing(path, "hdf5"), name))


def _open(path: str, name: str | Sequence[str] | None) -> Any:
    import h5py

    file = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)
    if isinstance(name, str):
        return Rows(file[name])
    names = [key for key in file if isinstance(file[key], h5py.Dataset)] if name is None else list(name)
    if not names:
        raise ValueError(f"hdf5: {path} has no data sets at its top, but {list(file)}. Pass a name.")
    columns = {key: Rows(file[key]) for key in names}
    return columns[names[0]] if name is None and len(names) == 1 else Columns(columns, path)


class Rows:
    """The rows of an `h5py.Dataset`. A batch is one read for each chunk that it touches."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.group_sizes = dataset.chunks[0] if dataset.chunks else None
        row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
        self._rows_per_read = self.group_sizes or max(1, READ_BYTES // max(row_bytes, 1))

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, i: int) -> Any:
        return self._dataset[i]

    def __getitems__(self, indices: list[int]) -> Any:
        # Not `dataset[indices]`, which takes 0.2 ms per row of a chunked array of several dimensions.
        wanted = np.asarray(indices, np.int64)
        found = np.empty((len(wanted), *self._dataset.shape[1:]), self._dataset.dtype)
        reads = wanted // self._rows_per_read
        for read in np.unique(reads).tolist():
            places = np.flatnonzero(reads == read)
            rows = wanted[places]
            start = int(rows.min())
            found[places] = self._dataset[start : int(rows.max()) + 1][rows - start]
        return found

    def __reduce__(self) -> Any:
        file, name = self._dataset.file, self._dataset.name
        if file.mode != "r" or name is None:
            raise TypeError(
                f"hdf5: only a data set of a file opened for reading goes to another process, got {name} of"
                f" {file.filename} opened with mode {file.mode!r}. Use sources.hdf5(path, name)."
            )
        return _reopened, (file.filename, name)


def _reopened(path: str, name: str) -> Rows:
    import h5py

    return Rows(h5py.File(path, "r")[name])
