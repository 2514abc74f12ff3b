"""Files that are written whole: they are replaced at once, and may hold several buffers."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO
from zlib import crc32

__all__ = ["read_buffers", "replace_file", "write_buffers"]

_HEAD = struct.Struct("<8sIq")  # magic, checksum of the first buffer, number of buffers
_ALIGNMENT = 64


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
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_buffers(file: BinaryIO, magic: bytes, buffers: Sequence[Any]) -> None:
    """Write the sizes of some buffers, and the buffers, each at a multiple of 64 bytes."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    file.write(_HEAD.pack(magic, crc32(buffers[0]), len(sizes)) + struct.pack(f"<{len(sizes)}q", *sizes))
    for buffer in buffers:
        file.write(bytes(-file.tell() % _ALIGNMENT))
        file.write(buffer)


def read_buffers(block: Any, magic: bytes) -> list[memoryview]:
    """Return the buffers in the content of a file. Raise ValueError if it is of another kind, or damaged."""
    view, end = memoryview(block), _HEAD.size
    found, checksum, count = _HEAD.unpack_from(view) if len(view) >= end else (b"", 0, 0)
    if found != magic:
        raise ValueError("is of another kind or format")
    if 0 < count <= len(view) // 8 - 2:
        sizes = struct.unpack_from(f"<{count}q", view, end)
        end += 8 * count
        starts = []
        for size in sizes:
            starts.append(end + -end % _ALIGNMENT)
            end = starts[-1] + size
        buffers = [view[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        if end == len(view) and crc32(buffers[0]) == checksum:
            return buffers
    raise ValueError("is damaged")
