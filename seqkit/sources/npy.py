"""`npy` and `npz`: arrays of numpy in files, mapped into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.indices import Plan
from ..core.source import Source
from ..core.view import View
from ..core.worker import Opened
from .columns import as_names, check_names, choose, read_in_blocks
from .files import existing, naming, written_again
from .per_process import PerProcess

__all__ = ["npy", "npz"]

BLOCK_BYTES = 64 * 1024  # of small rows that are read at once in an iteration


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
            raise written_again("npy", self._path)
        array = self._map
        if array is None:
            array = self._map = _mapped(self._path)
        return array

    @_data.setter
    def _data(self, data: Any) -> None:
        pass

    def close(self) -> None:
        """Release the map of the file in this process."""
        self._map = None

    def _iter(self, plan: Plan) -> Iterator[Any]:
        # The file is checked before each block, which is copied, or before a large row.
        row_bytes = self._data.nbytes // max(1, int(self._n))
        return read_in_blocks(self, plan, max(1, BLOCK_BYTES // max(1, row_bytes)))

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
    with naming(path):
        mapped = np.load(path, mmap_mode="r")
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
    return PerProcess(open_fn, "npz", path, inheritable=True)


def _open(path: str, name: Any) -> Any:
    with open(path, "rb") as file, np.load(file) as archive:
        check_names(archive.files, path, "npz")
        return choose("npz", path, name, archive.files, lambda key: _rows(archive[key]))


def _rows(array: Any) -> Any:
    array.flags.writeable = False
    return array if array.shape else None
