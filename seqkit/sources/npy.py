"""`npy` and `npz`: arrays of numpy in files, mapped into memory."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.indices import Plan
from ..core.source import Source
from ..core.view import View
from ..core.worker import Opened
from .columns import as_names, check_names, choose
from .files import existing, name_file
from .per_process import PerProcess

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
        If the file cannot be read, or holds objects. A read raises ValueError if the file was written again
        after the view was built.

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "squares.npy"
    >>> np.save(path, np.arange(5) ** 2)
    >>> list(npy(path)[::-2])
    [np.int64(16), np.int64(4), np.int64(0)]
    """
    return MappedRows(existing(path, "npy"))


class MappedRows(Source[Any], Opened):
    """The rows of a ``.npy`` file. Reading them fails if the file was written again since the view was built.

    The map would show the new values, and reading beyond a new end would kill the process.
    """

    def __init__(self, path: str, stamp: tuple[int, ...] = ()) -> None:
        self._path, self._stamp = path, stamp or _stamp(path)
        self._map: Any = None
        super().__init__(self._data)

    @property  # the data of a `Source`, which checks the file whenever they are read
    def _data(self) -> Any:
        if _stamp(self._path) != self._stamp:
            raise ValueError(f"npy: {self._path} was written again. Build the view again.")
        if self._map is None:
            self._map = _mapped(self._path)
        return self._map

    @_data.setter
    def _data(self, data: Any) -> None:
        pass

    def close(self) -> None:
        """Release the map of the file in this process."""
        self._map = None

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return View._iter(self, plan)  # the file is checked before each row

    def _arguments(self, sources: list[str]) -> str:
        return f"<ndarray of {self._n} in {os.path.basename(self._path)}>"

    def __reduce__(self) -> Any:
        return MappedRows, (self._path, self._stamp)


MappedRows._name = "npy"


def _stamp(path: str) -> tuple[int, ...]:
    """Return what changes when a file is written: its size, time and inode."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino


def _mapped(path: str) -> Any:
    try:
        mapped = np.load(path, mmap_mode="r")
    except Exception as error:
        name_file(error, path)
        raise
    if not isinstance(mapped, np.ndarray) or not mapped.shape:
        raise ValueError(f"npy: {path} has no array with rows. Use sources.npz, or numpy.load.")
    return np.asarray(mapped)  # each slice of a `numpy.memmap` runs Python code


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
    return PerProcess(open_fn, "npz", path, inheritable=_is_compressed(path))


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
            array = np.lib.format.read_array(file)
            array.flags.writeable = False
            return array
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
