"""`hdf5`: the rows of HDF5 data sets."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.adapters import TableReader
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
        The file. Each process opens it for reading when it first needs it.
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
    KeyError, ValueError
        When the file is first opened: if a name does not exist, if lengths differ, or if a link leads
        nowhere.

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
    path = existing(path, "hdf5")
    return PerProcess(partial(_open, path, as_names(name, "hdf5: name")), path=path)


def _open(path: str, name: Any) -> Any:
    import h5py

    file = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)
    known: list[str] = []
    if name is None:
        known = [key for key in file if isinstance(_item(file, key), h5py.Dataset | None)] or list(file)
    else:
        file.visititems(lambda key, item: known.append(key) if isinstance(item, h5py.Dataset) else None)
    return choose("hdf5", path, name, known, partial(_column, file))


def _column(file: Any, key: str) -> Any:
    import h5py

    dataset = _item(file, key)
    if dataset is None:
        try:
            where = file.id.links.get_val(key.encode())
        except RuntimeError:
            raise KeyError(key) from None
        path, target = where if isinstance(where, tuple) else (b"", where)
        place = f"{target.decode()!r}" + (f" of {path.decode()}" if path else "")
        raise ValueError(f"hdf5: {key!r} is a link to {place}, where there is nothing. Choose other names.")
    if not isinstance(dataset, h5py.Dataset):
        kind, names = type(dataset).__name__.lower(), list(getattr(dataset, "keys", list)())
        raise ValueError(
            f"hdf5: {key!r} is a {kind} and no data set. It has {names}. Pass a name such as 'group/images'."
        )
    if not dataset.shape:  # a scalar, or nothing at all
        return None
    if _has_references(dataset.dtype):
        raise ValueError(
            f"hdf5: {key!r} holds references, which mean nothing outside the file. Choose other names."
        )
    _check_sources(dataset)
    return Hdf5Rows(dataset)


def _item(file: Any, key: str) -> Any:
    """Return an object of the file, or None if there is none, perhaps because a link leads nowhere."""
    try:
        return file[key]
    except (KeyError, OSError):
        return None


def _has_references(dtype: Any) -> bool:
    import h5py

    if dtype.names:
        return any(_has_references(dtype[name]) for name in dtype.names)
    if (inner := h5py.check_vlen_dtype(dtype)) is not None or dtype.subdtype is not None:
        return _has_references(np.dtype(dtype.base if inner is None else inner))
    return h5py.check_ref_dtype(dtype) is not None


def _check_sources(dataset: Any) -> None:
    """Refuse a virtual data set whose sources are missing: HDF5 would return fill values."""
    import h5py

    folder = os.path.dirname(dataset.file.filename)
    for source in {source[1:3] for source in dataset.virtual_sources()} if dataset.is_virtual else ():
        name, key = source
        if "%" in name + key:  # a pattern of names
            continue
        if name != "." and not os.path.exists(path := os.path.join(folder, name)):
            raise FileNotFoundError(f"hdf5: {dataset.name} is made of the file {name}, which is missing")
        with nullcontext(dataset.file) if name == "." else h5py.File(path, "r") as file:
            if not isinstance(_item(file, key), h5py.Dataset):
                raise ValueError(
                    f"hdf5: {dataset.name} is made of {key} in {name}, where there is no data set"
                )
            _check_sources(file[key])


class Hdf5Rows(TableReader):
    """The rows of an `h5py.Dataset`. A batch is one read for each chunk that it touches."""

    def __init__(self, dataset: Any) -> None:
        self._data = dataset
        self.group_sizes = dataset.chunks[0] if dataset.chunks else None
        row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
        self._rows_per_read = self.group_sizes or max(1, READ_BYTES // max(row_bytes, 1))

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int) -> Any:
        return self._data[i]

    def __getitems__(self, indices: list[int]) -> Any:
        # Not `dataset[indices]`, which takes 0.2 ms per row of a chunked array of several dimensions.
        wanted = np.asarray(indices, np.int64)
        found = np.empty((len(wanted), *self._data.shape[1:]), self._data.dtype)
        reads = wanted // self._rows_per_read
        for read in np.unique(reads).tolist():
            places = np.flatnonzero(reads == read)
            rows = wanted[places]
            start = int(rows.min())
            found[places] = self._data[start : int(rows.max()) + 1][rows - start]
        return found

    def __reduce__(self) -> Any:
        file, name = self._data.file, self._data.name
        if file.mode != "r" or name is None:
            raise TypeError(
                f"hdf5: only a data set of a file opened for reading goes to another process, got {name} of"
                f" {file.filename} opened with mode {file.mode!r}. Use sources.hdf5(path, name)."
            )
        return _reopened, (file.filename, name)


def _reopened(path: str, name: str) -> Hdf5Rows:
    import h5py

    return Hdf5Rows(h5py.File(path, "r")[name])
