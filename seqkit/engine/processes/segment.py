"""Anonymous memory that processes share.

Guarantees
----------
- No file is ever visible in /dev/shm. The memory is freed with the last process that maps it.
- Pages are allocated only when they are written, so a segment may be generously large.
- A segment is not part of core dumps.

Units: sizes and offsets in bytes.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable

import numpy as np

from ..codec import Block
from . import linux

PAGE = mmap.PAGESIZE


class Segment:
    """Anonymous memory shared with the processes that hold its descriptor.

    The memory of `memfd_create` is not bounded by the size of /dev/shm.
    """

    fd = -1

    def __init__(self, fd: int, size: int, *, private: bool = False, new: bool = False) -> None:
        self.fd = fd  # this object closes it, even if the rest fails
        self.size = size
        if new:
            os.ftruncate(fd, size)
        flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
        self._map = mmap.mmap(fd, size, flags, mmap.PROT_READ | mmap.PROT_WRITE)
        linux.dont_dump(self._map)  # a core dump would allocate every page

    @classmethod
    def create(cls, size: int, name: str = "seqkit") -> Segment:
        return cls(linux.memfd_create(name), size, new=True)

    def block(self, offset: int, size: int) -> Block:
        """Return the bytes at an offset as an array. The mapping lives as long as the array or its
        views."""
        return np.frombuffer(self._map, np.uint8, size, offset)

    def at_end(self, call: Callable[[], None]) -> None:
        """Register a function to call before the memory is freed, when no block of it is left."""
        pid = os.getpid()
        weakref.finalize(self._map, lambda: call() if os.getpid() == pid else None).atexit = False

    def close(self) -> None:
        """Close the descriptor. Blocks stay valid. Dropping the segment has the same effect."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close
