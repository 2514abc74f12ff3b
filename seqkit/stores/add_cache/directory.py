"""The store of `add_cache`: a directory that any number of threads and processes may use at once."""

from __future__ import annotations

import json
import os
import pickle
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn

from ...core.buffers import pickle_apart
from ...core.epoch import AS_IT_STANDS, EpochPair
from ...core.whole_files import read_buffers, replace_file, write_buffers
from ..files import refuse_other

__all__ = ["ABSENT", "Directory"]

ABSENT: Any = object()

_HEADER = "seqkit-store.json"
_SUFFIX = ".item"


class Directory:
    """Items by index, each in a file of a directory.

    A file has a pickle, followed by the arrays of the item, which are writable when they are read. Files are
    written atomically. A damaged file counts as absent.

    Parameters
    ----------
    path : str
    length : int or None
        Length of the sequence. A directory for another length is refused.
    order : str or None
        The `order_digest` of the items. A directory with another one is refused.
    epoch : EpochPair
        Each epoch has a part of the directory, with items of its own.

    Raises
    ------
    ValueError
        If `path` is not a directory for these items. Checked again at the first read or write.
    """

    def __init__(self, path: str, length: int | None, order: str | None, epoch: EpochPair) -> None:
        self._path = path
        self._plan = {"version": 1, "length": length, "order": order}
        part = "order-{}-draws-{}".format(*epoch) if epoch != AS_IT_STANDS else ""
        self._folder = os.path.join(path, part)
        self._is_ours = self._check()

    def __contains__(self, i: int) -> bool:
        return os.path.exists(self._file(i))

    def get(self, i: int) -> Any:
        """Return an item, or `ABSENT`."""
        try:
            with open(self._file(i), "rb") as file:
                self._is_ours = self._is_ours or self._check()
                return _read(file)
        except FileNotFoundError:
            return ABSENT

    def put(self, i: int, item: Any) -> None:
        path = self._file(i)
        if not (self._is_ours and os.path.exists(self._header())):
            self._begin()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Not durable: that takes 20 times as long. A file that a power failure cut off counts as absent.
        replace_file(path, lambda file: _write(file, item), durable=False)

    def _begin(self) -> None:
        if not self._check():
            os.makedirs(self._path, exist_ok=True)
            replace_file(self._header(), lambda file: file.write(json.dumps(self._plan).encode()))
        self._is_ours = self._check()  # another process may have begun one at the same time

    def clear(self) -> None:
        """Remove all items, including those of other processes."""
        for found, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(found, name))

    def _header(self) -> str:
        return os.path.join(self._path, _HEADER)

    def _file(self, i: int) -> str:
        return os.path.join(self._folder, str(i)[-2:], f"{i}{_SUFFIX}")

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


# -------------------------------------------------------------------- files

_MAGIC = b"\x93SKITEM1"


def _write(file: BinaryIO, item: Any) -> None:
    pickled, buffers = pickle_apart(item)
    write_buffers(file, _MAGIC, [pickled, *buffers])


def _read(file: BinaryIO) -> Any:
    """Return the item in a file, or `ABSENT` if the file is damaged or its class no longer exists."""
    try:
        pickled, *buffers = read_buffers(bytearray(file.read()), _MAGIC)
        return pickle.loads(pickled, buffers=buffers)
    except MemoryError:
        raise
    except Exception:
        return ABSENT
