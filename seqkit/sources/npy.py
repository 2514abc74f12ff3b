"""`npy` and `npz`: arrays of numpy in files, mapped into memory."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np

from ..source import as_view
from ..view import View
from .columns import Columns
from .files import existing
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
        If the file cannot be read, or holds objects.

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "squares.npy"
    >>> np.save(path, np.arange(5) ** 2)
    >>> list(npy(path)[::-2])
    [np.int64(16), np.int64(4), np.int64(0)]
    """
    # A plain array over the map: each slice of a `numpy.memmap` runs Python code.
    return as_view(np.asarray(np.load(fspath(path), mmap_mode="r")), "npy")


def npz(path: str | PathLike[str], name: str | Sequence[str] | None = None) -> View[Any]:
    """Return a view of the rows of one or more arrays in a ``.npz`` file.

    Parameters
    ----------
    path : path-like
    name : str or sequence of str, optional
        One name: items are the rows of this array. Several: items are dicts from name to row. None (the
        default): all arrays of the file; a single one as with its name.

    Returns
    -------
    View

    Raises
    ------
    FileNotFoundError
        If there is no file.
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
    return PerProcess(partial(_open, existing(path, "npz"), name), inheritable=True)


_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _open(path: str, name: str | Sequence[str] | None) -> Any:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if isinstance(name, str):
            return _array(path, archive, members[name])
        names = list(members) if name is None else list(name)
        if not names:
            raise ValueError(f"npz: {path} holds no arrays")
        arrays = {key: _array(path, archive, members[key]) for key in names}
    return arrays[names[0]] if name is None and len(names) == 1 else Columns(arrays, path)


def _array(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    with archive.open(info) as file:
        if info.compress_type != zipfile.ZIP_STORED:
            return np.lib.format.read_array(file)
        version = np.lib.format.read_magic(file)
        if version not in _READ_HEADER:  # of an array with names that are not Latin
            return np.load(path)[info.filename.removesuffix(".npy")]
        shape, is_fortran, dtype = _READ_HEADER[version](file)
        if dtype.hasobject:
            raise ValueError(f"npz: {info.filename} of {path} holds objects. Save it with another dtype.")
        start = _start_of_data(path, info) + file.tell()
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if is_fortran else "C")


def _start_of_data(path: str, info: zipfile.ZipInfo) -> int:
    """Return where the bytes of a member begin, after its local header."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        name_length, extra_length = struct.unpack("<26x2H", file.read(30))
    return info.header_offset + 30 + int(name_length) + int(extra_length)
