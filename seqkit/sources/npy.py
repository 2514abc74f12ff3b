"""`npy` and `npz`: arrays of numpy in files, mapped into memory."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from errno import EMFILE
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.source import as_view
from ..core.view import View
from .columns import as_names, check_names, choose
from .files import existing, name_file
from .per_process import PerProcess, read_many

__all__ = ["npy", "npz"]


def npy(path: str | PathLike[str]) -> View[Any]:
    """Return a view of the rows of a ``.npy`` file, which is mapped into memory.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    View
        Of read-only rows. Workers map the same file. Nothing is copied to them.

    Raises
    ------
    OSError, ValueError
        If the file cannot be read, or holds objects.

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "squares.npy"
    >>> np.save(path, np.arange(5) ** 2)
    >>> list(npy(path)[::-2])
    [np.int64(16), np.int64(4), np.int64(0)]
    """
    return as_view(_mapped(existing(path, "npy")), "npy")


def _mapped(path: str) -> Any:
    try:
        # A plain array over the map: each slice of a `numpy.memmap` runs Python code.
        mapped = np.load(path, mmap_mode="r")
        if not isinstance(mapped, np.ndarray):
            mapped.close()
            raise ValueError(f"npy: {path} is an archive of several arrays. Use sources.npz.")
        array = np.asarray(mapped)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == EMFILE:
            error.add_note("Too many files are open. Pass a pattern to sources.read, which keeps few open.")
        name_file(error, path)
        raise
    offset = getattr(mapped, "offset", 0)
    if offset and os.path.getsize(path) > offset + array.nbytes:
        raise ValueError(f"npy: {path} has more bytes after its array. Read several arrays with numpy.load.")
    if not array.shape:
        raise ValueError(f"npy: {path} is a single {array.dtype}, not an array with rows. Use numpy.load.")
    return array


def npy_of_many(path: str) -> View[Any]:
    """Return the view of one of many files. It can be closed between two reads, because it copies rows."""
    return PerProcess(partial(_copies, _mapped, existing(path, "npy")), path=path)


def npz_of_many(path: str, name: str | Sequence[str] | None = None) -> View[Any]:
    """Return the view of one of many files. It can be closed between two reads, because it copies rows."""
    name = as_names(name, "npz: name")
    return PerProcess(partial(_copies, _open, existing(path, "npz"), name), path=path)


def _copies(open_fn: Callable[..., Any], *arguments: Any) -> Copies:
    return Copies(open_fn(*arguments))


class Copies:
    """The rows of mapped arrays, without the map: it keeps its file open for as long as it lives."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitems__(self, indices: list[int]) -> Any:
        return read_many(self._data, indices)

    def __getitem__(self, i: int) -> Any:
        row = self._data[i]
        return {key: _copied(value) for key, value in row.items()} if isinstance(row, dict) else _copied(row)


def _copied(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray) else value


def npz(path: str | PathLike[str], name: str | Sequence[str] | None = None) -> View[Any]:
    """Return a view of the rows of one or more arrays in a ``.npz`` file.

    Parameters
    ----------
    path : path-like
    name : str or sequence of str, optional
        One name: items are the rows of this array. Several: items are dicts from name to row. None (the
        default): all arrays of the file that have rows; a single one as with its name. Arrays without
        dimensions, such as a scalar ``fps``, have no rows.

    Returns
    -------
    View

    Raises
    ------
    FileNotFoundError, zipfile.BadZipFile
        If there is no file, or it has another format.
    KeyError, ValueError
        When the file is first opened: if a name does not exist, or if lengths differ.

    Notes
    -----
    Arrays written by `numpy.savez` are mapped into memory. Those of `numpy.savez_compressed` are decompressed
    when the file is opened, once per process, and once for all forked workers if the program has read the
    length.

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "points.npz"
    >>> np.savez(path, x=np.arange(5.0), y=np.arange(5) % 2)
    >>> npz(path)[3]
    {'x': np.float64(3.0), 'y': np.int64(1)}
    >>> npz(path, "x")[-1]
    np.float64(4.0)
    """
    path = existing(path, "npz")
    open_fn = partial(_open, path, as_names(name, "npz: name"))
    return PerProcess(open_fn, inheritable=_is_compressed(path), path=path)


def _is_compressed(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())
    except zipfile.BadZipFile as error:
        name_file(error, path)
        raise


_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _open(path: str, name: Any) -> Any:
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        known = [info.filename.removesuffix(".npy") for info in infos]
        check_names(known, path, "npz")
        members = dict(zip(known, infos, strict=True))
        # One map for all arrays, because each map keeps a file open. A plain array, as in `_mapped`.
        mapped = np.asarray(np.memmap(path, np.uint8, "r"))
        return choose("npz", path, name, known, lambda key: _rows(path, archive, members[key], mapped))


def _rows(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, mapped: Any) -> Any:
    try:
        array = _array(path, archive, info, mapped)
    except ValueError as error:
        raise ValueError(f"npz: {info.filename!r} of {path} cannot be read: {error}") from error
    return array if array.shape else None


def _array(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, mapped: Any) -> Any:
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in _READ_HEADER:  # of an array with names that are not Latin
            return np.load(path)[info.filename.removesuffix(".npy")]
        shape, is_fortran, dtype = _READ_HEADER[version](file)
        if dtype.hasobject:
            raise ValueError("it holds objects. Save it with another dtype, or choose other names")
        if info.compress_type != zipfile.ZIP_STORED:
            file.seek(0)
            return np.lib.format.read_array(file)
        start = _start_of_data(path, info) + file.tell()
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.zeros(shape, dtype)
    return mapped[start : start + size].view(dtype).reshape(shape, order="F" if is_fortran else "C")


def _start_of_data(path: str, info: zipfile.ZipInfo) -> int:
    """Return where the bytes of a member begin, after its local header."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        name_length, extra_length = struct.unpack("<26x2H", file.read(30))
    return info.header_offset + 30 + int(name_length) + int(extra_length)
