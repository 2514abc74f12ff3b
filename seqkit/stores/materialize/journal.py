"""Items by index in files that only grow: what was written survives the process that wrote it.

A record is ``| magic | index | length | checksum | pickle |``, written with one call to the end of a file of
its process. A process that is killed leaves at most one incomplete record, at the end of its file.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ...sources.handles import Handles

__all__ = ["Journal", "Records", "as_record", "write_all"]

_HEAD = struct.Struct("<4sqqI")
_MAGIC = b"SKJ1"
_SUFFIX = ".journal"


class Journal:
    """Writes records in any number of processes and threads. Each process has a file of its own."""

    def __init__(self, folder: str) -> None:
        self._file = Handles(partial(_new_file, folder))

    def append(self, record: bytes) -> None:
        self._file.call(_append, record)


def as_record(i: int, item: Any) -> bytes:
    payload = pickle.dumps(item, protocol=5)
    return _HEAD.pack(_MAGIC, i, len(payload), crc32(payload)) + payload


def _new_file(folder: str) -> Any:
    return open(os.path.join(folder, os.urandom(8).hex() + _SUFFIX), "xb", buffering=0)


def _append(file: Any, record: bytes) -> None:
    start = file.tell()
    left = memoryview(record)
    try:
        while len(left):
            left = left[file.write(left) :]
    except BaseException:  # behind an incomplete record no other could be read
        file.truncate(start)
        file.seek(start)
        raise


@dataclass
class Records:
    """Where the record of each of `n` items is. `file` is -1 where there is none."""

    paths: list[str]
    file: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    nbytes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, folder: str, n: int) -> Records:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
        found = cls(
            [os.path.join(folder, name) for name in names],
            np.full(n, -1, np.int32),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
        )
        for number, path in enumerate(found.paths):
            with open(path, "rb") as file:
                found._scan(number, file)
        return found

    def _scan(self, number: int, file: BinaryIO) -> None:
        end = os.fstat(file.fileno()).st_size
        if not end:
            return
        with mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ) as block:
            place = 0
            while place + _HEAD.size <= end:
                magic, i, nbytes, _ = _HEAD.unpack_from(block, place)
                following = place + _HEAD.size + nbytes
                if magic != _MAGIC or not 0 <= i < len(self.file) or not place < following <= end:
                    return  # an incomplete record
                self.file[i], self.start[i], self.nbytes[i] = number, place, nbytes
                place = following

    def read(self, indices: Sequence[int]) -> list[Any]:
        """Return the items at some indices."""
        with ExitStack() as stack:
            numbers = np.unique(self.file[list(indices)]).tolist()
            files = {number: stack.enter_context(open(self.paths[number], "rb", 0)) for number in numbers}
            return [self._item(i, files[int(self.file[i])]) for i in indices]

    def _item(self, i: int, file: Any) -> Any:
        length = _HEAD.size + int(self.nbytes[i])
        record = os.pread(file.fileno(), length, int(self.start[i]))
        payload = memoryview(record)[_HEAD.size :]
        if len(record) != length or crc32(payload) != _HEAD.unpack_from(record)[3]:
            raise RuntimeError(
                f"materialize: item {i} in {file.name} is damaged. Delete this file to compute its"
                " items again."
            )
        return pickle.loads(payload)


def write_all(file: Any, data: Any, offset: int) -> None:
    """Write all bytes of an array or of bytes at an offset of an open file."""
    left = memoryview(data).cast("B")
    while len(left):
        written = os.pwrite(file.fileno(), left, offset)
        left, offset = left[written:], offset + written
