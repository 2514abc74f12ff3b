"""The store of `add_cache`: a directory that any number of threads and processes may use at once."""

from __future__ import annotations

import errno
import json
import mmap
import os
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn
from zlib import crc32

from ..core.plain import plain
from ..core.randomness import digest

__all__ = ["ABSENT", "Directory", "replace_file"]

ABSENT: Any = object()


def replace_file(path: str, write: Callable[[BinaryIO], object], durable: bool = True) -> None:
    """Write a file atomically: readers find the whole new file, or the old one.

    With `durable`, it is there after a power failure too. Waiting for the disk takes milliseconds.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        with open(draft, "xb") as file:
            write(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
        if durable:
            _sync_folder(folder)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _sync_folder(folder: str) -> None:
    """Let the disk have the names of the files in a folder."""
    handle = os.open(folder or os.curdir, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Directory:
    """Values by key, each in a file of a directory.

    A file has a pickle, followed by the arrays of the value. Large files are mapped into memory, private and
    writable, so changes stay in the process. Files are written atomically. A file that cannot be read counts
    as absent, and so does a damaged one, see `_unpacked`.

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

    HEADER = "seqkit-store.json"
    VERSION = 1
    SUFFIX = ".item"

    def __init__(
        self, path: str, length: int | None = None, scope: str = "", order: str | None = None
    ) -> None:
        import hashlib  # noqa: F401  `digest` uses it, and no item should wait for an import

        self.path = path
        self._length = length
        self._order = order
        self._folder = os.path.join(self.path, scope)
        self._is_ours = self._check()

    def __contains__(self, key: Any) -> bool:
        return os.path.exists(self._file(key))

    def get(self, key: Any) -> Any:
        """Return a value, or `ABSENT`."""
        try:
            with open(self._file(key), "rb") as file:
                self._is_ours = self._is_ours or self._check()
                block, is_checked = _block(file)
        except OSError as error:
            if error.errno in _UNREADABLE:
                return ABSENT
            raise
        try:
            return _unpacked(memoryview(block), is_checked)
        except MemoryError:
            raise
        except Exception:  # truncated by a power failure, or of a class that no longer exists
            return ABSENT

    def put(self, key: Any, value: Any) -> None:
        path = self._file(key)
        self._begin()
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # Not durable: that takes 20 times as long as writing an item, and a checksum tells lost blocks.
            replace_file(path, lambda file: _write(file, value), durable=False)
        except PermissionError:
            if not _is_private(path):
                raise

    def _begin(self) -> None:
        """Write the header, unless there is one."""
        if self._is_ours and os.path.exists(self._header()):
            return
        if not self._check():
            header = {"version": self.VERSION, "length": self._length, "order": self._order}
            os.makedirs(self.path, exist_ok=True)
            replace_file(self._header(), lambda file: file.write(json.dumps(header).encode()))
        self._is_ours = self._check()

    def clear(self) -> None:
        """Remove all values, including those of other processes."""
        for found, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(self.SUFFIX):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(found, name))

    def _header(self) -> str:
        return os.path.join(self.path, self.HEADER)

    def _file(self, key: Any) -> str:
        key = plain(key)
        text = _text(key)
        name = text if type(key) is int else digest(text).hex()
        return os.path.join(self._folder, name[-2:], name + self.SUFFIX)

    def _check(self) -> bool:
        """Raise ValueError for a foreign directory. Return whether the directory has a header."""
        listed = _listed(self.path)  # before the header, which another process may write in between
        try:
            with open(self._header(), "rb") as file:
                header = json.load(file)
            version, length, order = header["version"], header["length"], header["order"]
        except FileNotFoundError:
            if any(not name.startswith(".") for name in listed):
                self._refuse("is not empty, and was not made by add_cache")
            return False
        except (ValueError, LookupError, TypeError, NotADirectoryError):
            self._refuse("was not made by add_cache")
        if version != self.VERSION:
            self._refuse(f"has format {version}, this seqkit knows {self.VERSION}")
        if length != self._length:
            self._refuse(f"was made for {_of_length(length)}, this is for {_of_length(self._length)}")
        if order != self._order:
            self._refuse(
                "holds the items of another order, share or seed (without a seed each program draws its own:"
                " pass the same seed to shuffle, random_split or whatever draws it)"
            )
        return True

    def _refuse(self, why: str) -> NoReturn:
        raise ValueError(f"add_cache: store {self.path} {why}; remove it or use another path")


def _of_length(length: int | None) -> str:
    return "items named by key" if length is None else f"length {length}"


def _listed(path: str) -> list[str]:
    return os.listdir(path) if os.path.isdir(path) else []


def _text(key: Any) -> str:
    """Return a key as text, the same in every process."""
    if isinstance(key, tuple):
        return "(" + "".join(_text(part) + "," for part in key) + ")"
    if isinstance(key, str | bytes | int | float | None):
        return repr(key)
    raise TypeError(f"a key must be a str, bytes, number, None or tuple of these, got {key!r}")


# -------------------------------------------------------------------- files

# Errors of a file that is missing, belongs to another user, or is on a damaged disk.
_UNREADABLE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE}
_MAGIC = b"\x93SEQKIT"
_HEAD = struct.Struct("<7sBqq")  # magic, version, bytes of the pickle, number of buffers
_TAIL = struct.Struct("<I4s")  # checksum of everything before, and `_END`
_VERSION = 1
_END = b"\x93END"
# A smaller buffer stays in the pickle, which costs less than a separate buffer.
_INLINE_BYTES = 4096
_ALIGNMENT = 64
# A smaller file is read. Mapping it costs more, and a process can have only about 65,000 maps.
_MAPPED_BYTES = 1 << 16


def _write(file: BinaryIO, value: Any) -> None:
    buffers: list[memoryview] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _INLINE_BYTES:
            return True
        buffers.append(raw)
        return False

    pickled = pickle.dumps(value, protocol=5, buffer_callback=aside)
    head = _HEAD.pack(_MAGIC, _VERSION, len(pickled), len(buffers))
    head += struct.pack(f"<{len(buffers)}q", *(raw.nbytes for raw in buffers))
    parts: list[bytes | memoryview] = [head, pickled, *buffers]
    checksum, end = 0, 0
    for part in parts:
        gap = bytes(-end % _ALIGNMENT if isinstance(part, memoryview) else 0)
        checksum = crc32(part, crc32(gap, checksum))
        end += len(gap) + len(part)
        file.write(gap)
        file.write(part)
    file.write(_TAIL.pack(checksum, _END))


def _block(file: BinaryIO) -> tuple[bytearray | mmap.mmap, bool]:
    """Return the content of a file in writable memory, and whether its checksum is worth reading all of it.

    Items that are mapped would lose their laziness. They are checked only if a part of the file is a hole.
    Parts that a power failure keeps from the disk are holes, and other holes are rare.
    """
    size = os.fstat(file.fileno()).st_size
    if size >= _MAPPED_BYTES:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), _first_hole(file, size) < size
        except OSError:
            pass  # too many maps
    return bytearray(file.read()), True


def _first_hole(file: BinaryIO, size: int) -> int:
    """Return where the first hole of a file begins, or its size if it has none, or none is known."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE)
    except (AttributeError, OSError):  # not on Windows, nor on every file system
        return size


def _is_private(path: str) -> bool:
    """Is a file, or a folder of it, closed to this user? Its items stay those of another user."""
    try:
        with open(path, "rb"):
            return False
    except OSError as error:
        return isinstance(error, PermissionError)


def _unpacked(block: memoryview, is_checked: bool) -> Any:
    """Return the value in a file. Raise an error if the file lacks its end, or if a checksum differs."""
    magic, version, length, count = _HEAD.unpack_from(block)
    if magic != _MAGIC or version != _VERSION:
        raise ValueError("not an item of a store")
    checksum, mark = _TAIL.unpack_from(block, len(block) - _TAIL.size)
    block = block[: -_TAIL.size]
    if mark != _END or (is_checked and crc32(block) != checksum):
        raise ValueError("damaged")
    sizes = struct.unpack_from(f"<{count}q", block, _HEAD.size)
    start = _HEAD.size + 8 * count
    pickled = block[start : start + length]
    end, buffers = start + length, []
    for size in sizes:
        start = end + -end % _ALIGNMENT
        end = start + size
        buffers.append(block[start:end])
    if end > len(block):
        raise ValueError("cut off")
    return pickle.loads(pickled, buffers=buffers)
