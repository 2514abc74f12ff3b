"""The store of `add_cache`: a directory that any number of threads and processes may use at once."""

from __future__ import annotations

import json
import mmap
import os
import pickle
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn

from ...core.buffers import pickle_apart
from ...core.plain import plain
from ...core.randomness import digest
from ...core.whole_files import read_buffers, replace_file, write_buffers
from ..files import refuse_other

__all__ = ["ABSENT", "Directory"]

ABSENT: Any = object()

_HEADER = "seqkit-store.json"
_SUFFIX = ".item"


class Directory:
    """Values by key, each in a file of a directory.

    A file has a pickle, followed by the arrays of the value. Large files are mapped into memory, private and
    writable, so changes stay in the process. Files are written atomically. A damaged file counts as absent.

    Parameters
    ----------
    path : str
    length : int or None
        Length of the sequence whose indices are the keys. A directory for another length is refused.
    scope : str
        Name of a part of the directory, with its own keys.
    order : str, optional
        The `order_digest` of the items, or None if they are named by key. A directory with another one is
        refused.

    Raises
    ------
    ValueError
        If `path` is not a directory for these values. Checked again at the first read or write.
    """

    def __init__(
        self, path: str, length: int | None = None, scope: str = "", order: str | None = None
    ) -> None:
        self._path = path
        self._plan = {"version": 1, "length": length, "order": order}
        self._folder = os.path.join(path, scope)
        self._is_ours = self._check()

    def __contains__(self, key: Any) -> bool:
        return os.path.exists(self._file(key))

    def get(self, key: Any) -> Any:
        """Return a value, or `ABSENT`."""
        try:
            with open(self._file(key), "rb") as file:
                self._is_ours = self._is_ours or self._check()
                return _read(file)
        except FileNotFoundError:
            return ABSENT

    def put(self, key: Any, value: Any) -> None:
        path = self._file(key)
        if not (self._is_ours and os.path.exists(self._header())):
            self._begin()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Not durable: that takes 20 times as long. A file that a power failure cut off counts as absent.
        replace_file(path, lambda file: _write(file, value), durable=False)

    def _begin(self) -> None:
        if not self._check():
            os.makedirs(self._path, exist_ok=True)
            replace_file(self._header(), lambda file: file.write(json.dumps(self._plan).encode()))
        self._is_ours = self._check()  # another process may have begun one at the same time

    def clear(self) -> None:
        """Remove all values, including those of other processes."""
        for found, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(found, name))

    def _header(self) -> str:
        return os.path.join(self._path, _HEADER)

    def _file(self, key: Any) -> str:
        key = plain(key)
        text = _text(key)
        name = text if type(key) is int else digest(text).hex()
        return os.path.join(self._folder, name[-2:], name + _SUFFIX)

    def _check(self) -> bool:
        """Raise ValueError for a foreign directory. Return whether the directory has a header."""
        listed = os.listdir(self._path) if os.path.isdir(self._path) else []  # another process may write now
        try:
            with open(self._header(), "rb") as file:
                header = json.load(file)
        except FileNotFoundError:
            if any(not name.startswith(".") for name in listed):
                self._refuse()
            return False
        except (ValueError, NotADirectoryError):
            self._refuse()
        refuse_other(header, self._plan, f"add_cache: store {self._path}")
        return True

    def _refuse(self) -> NoReturn:
        raise ValueError(f"add_cache: store {self._path} was not made by add_cache; use another path")


def _text(key: Any) -> str:
    """Return a key as text, the same in every process."""
    if isinstance(key, tuple):
        return "(" + "".join(_text(part) + "," for part in key) + ")"
    if isinstance(key, str | bytes | int | float | None):
        return repr(key)
    raise TypeError(f"a key must be a str, bytes, number, None or tuple of these, got {key!r}")


# -------------------------------------------------------------------- files

_MAGIC = b"\x93SKITEM1"
# A smaller file is read. Mapping it costs more, and a process can have only about 65,000 maps.
_MAPPED_BYTES = 1 << 16


def _write(file: BinaryIO, value: Any) -> None:
    pickled, buffers = pickle_apart(value)
    write_buffers(file, _MAGIC, [pickled, *buffers])


def _read(file: BinaryIO) -> Any:
    """Return the value in a file, or `ABSENT` if the file is damaged or its class no longer exists."""
    try:
        pickled, *buffers = read_buffers(_block(file), _MAGIC)
        return pickle.loads(pickled, buffers=buffers)
    except MemoryError:
        raise
    except Exception:
        return ABSENT


def _block(file: BinaryIO) -> bytearray | mmap.mmap:
    """Return the content of a file in writable memory."""
    if os.fstat(file.fileno()).st_size >= _MAPPED_BYTES:
        with suppress(OSError):  # too many maps
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return bytearray(file.read())
