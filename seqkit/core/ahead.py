"""Ask the system for the bytes that a plan will read, so that they are in memory when an item needs them.

If a page of a file is not in memory, the system reads the pages around it too, up to several MiB. That helps
if the whole file is read. For a few items in random order most of these bytes are wasted. `Ahead` follows the
plan of a consumer and asks for just the pages of the next items. It pauses while they are in memory already.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .indices import Cursor, Indices, Plan, Translated, as_array
from .iteration import Progress, restarting
from .lengths import Length, Unsized

__all__ = ["Ahead", "Ranges", "advised", "is_mapped", "mapped_ranges", "runs"]

BYTES_AHEAD = 8 << 20  # asked for before they are read, of at most MOST_AHEAD indices of a plan
MOST_AHEAD = 1024
LONGEST = 128 << 10  # bytes of one call: the system reads no more of a longer one
ENOUGH = 64  # ranges in memory, after which a pause begins
PAUSE, LONGEST_PAUSE = 1024, 16384  # indices
FIRST_LEAD, LEAD_AFTER_PAUSE = 2, 8
Bytes = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """Bytes of a file, which is a memory map or a descriptor, from each of `starts` to that of `stops`.

    `files` is the number of files of its source.
    """

    file: Any
    starts: Bytes
    stops: Bytes
    files: int = 1


def runs(indices: Indices, width: int, n: Length) -> Bytes:
    """Return each of `indices`, and the `width` - 1 indices after each, without those outside ``range(n)``.

    >>> runs([0, 5, 8], 3, 10)
    array([0, 1, 2, 5, 6, 7, 8, 9])
    """
    found = as_array(indices).astype(np.int64, copy=False)
    if width > 1:
        found = (found[:, None] + np.arange(width)).ravel()
    return found[found >= 0] if isinstance(n, Unsized) else found[(found >= 0) & (found < n)]


def is_mapped(data: Any) -> bool:
    """Is an object an array whose rows are in a memory map?"""
    return isinstance(data, np.ndarray) and isinstance(_memory(data), mmap.mmap)


def _memory(array: Any) -> Any:
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def mapped_ranges(array: Any, indices: Indices, width: int) -> Iterator[Ranges]:
    """Yield the bytes of rows of an array in a memory map."""
    found, row, step = _memory(array), array.itemsize * math.prod(array.shape[1:]), array.strides[0]
    if step > 0 and row and array[:1].flags.c_contiguous:
        first = array.ctypes.data - np.frombuffer(found, np.uint8).ctypes.data
        begins = runs(indices, 1 if step == row else width, len(array))
        ends = np.minimum(begins + width, len(array)) if step == row else begins + 1
        yield Ranges(found, first + begins * step, first + (ends - 1) * step + row)


class Ahead:
    """Asks the system for the bytes of a plan of a view, ahead of its consumer.

    Parameters
    ----------
    view : View
    plan : Plan or None
        None if the plan can be drawn only once. Then `reach` gets the indices that were drawn.

    Attributes
    ----------
    position : int
        The next position of the plan at which `reach` has something to do.
    """

    def __init__(self, view: Any, plan: Plan | None) -> None:
        self._view = view
        self._cursor = None if plan is None else Cursor(plan)
        self._length = _length(plan)
        self._asked = 0  # the position of the first index that was not looked at
        self._lead = FIRST_LEAD  # how many indices to ask for ahead
        self._in_memory = 0  # ranges in a row that needed no disk
        self._pause = PAUSE
        self._sizes: dict[int, int] = {}  # of each file until now
        self._most_files = 1  # of a source
        self.position = 0

    def reach(self, position: int, drawn: Any = ()) -> None:
        """Ask for the items up to a position, before they are read, and for more after it.

        `drawn` are the indices that end at this position, and were drawn just now.
        """
        try:
            while position >= self.position:
                if self._cursor is None:
                    self._asked = position + 1
                    self._ask(drawn)
                    return
                if self.position > self._asked:  # after a pause
                    self._asked += len(self._cursor.take(self.position - self._asked))
                indices = self._cursor.take(max(1, self._lead // 2))
                if not len(indices):
                    self.position = sys.maxsize
                    return
                self._asked += len(indices)
                self._ask(indices)
        except Exception:  # reading the items raises it
            self.position = sys.maxsize

    def _ask(self, indices: Any) -> None:
        """Ask for the items at some indices, and decide when to look at the next ones."""
        count, ranges, nbytes, before = len(indices), 0, 0, _blocks()
        for file, starts, stops, files in self._view._ahead(indices, 1):
            ranges += len(starts)
            name, size = (id(file), len(file)) if isinstance(file, mmap.mmap) else _inode(file)
            self._sizes[name] = size
            self._most_files = max(self._most_files, files)
            for start, stop in zip(*_pages(starts, stops), strict=True):
                nbytes += stop - start
                for at in range(start, stop, LONGEST):
                    _will_need(file, at, min(LONGEST, stop - at))
        self._in_memory = 0 if _blocks() > before else self._in_memory + ranges
        if not nbytes or self._in_memory >= ENOUGH or self._is_whole(nbytes / count):
            self._lead = LEAD_AFTER_PAUSE
            self.position = self._asked + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        else:
            self._pause = PAUSE
            self._lead = min(BYTES_AHEAD * count // nbytes, MOST_AHEAD)
            self.position = self._asked - max(1, self._lead // 2)

    def _is_whole(self, nbytes: float) -> bool:
        """Does the plan read most of files that fit in memory? Then the system reads ahead by itself.

        `nbytes` is the size of an item. A plan of unknown length is as long as its items until now.
        """
        known = self._sizes.values()
        size = sum(known) / len(known) * max(len(known), self._most_files)
        return (self._length or self._asked) * nbytes > size / 10 and size < _free_memory()


def _will_need(file: Any, start: int, size: int) -> None:
    if isinstance(file, mmap.mmap):
        file.madvise(mmap.MADV_WILLNEED, start, size)
    else:
        os.posix_fadvise(file, start, size, os.POSIX_FADV_WILLNEED)


def _inode(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_ino, found.st_size


def _pages(starts: Bytes, stops: Bytes) -> tuple[list[int], list[int]]:
    """Return where the pages of ranges begin and end, sorted. Pages side by side are one range.

    >>> _pages(np.array([9000, 10, 4000]), np.array([9001, 20, 5000]))
    ([0], [12288])
    """
    if not len(starts):
        return [], []
    order = np.argsort(starts, kind="stable")
    first = starts[order] // mmap.PAGESIZE * mmap.PAGESIZE
    last = np.maximum.accumulate(-(-stops[order] // mmap.PAGESIZE) * mmap.PAGESIZE)
    begins = np.flatnonzero(np.concatenate([[True], first[1:] > last[:-1]]))
    return first[begins].tolist(), last[np.append(begins[1:], len(last)) - 1].tolist()


def _blocks() -> int:
    """Return how many blocks this thread has read from disks."""
    import resource  # not where it is missing

    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_inblock


def _free_memory() -> int:
    """Return how many bytes of files fit in memory, within the limits of control groups."""
    from pathlib import Path  # takes long, and few programs come here

    from .control_groups import control_groups, text_of

    free = 1024 * _fields(text_of(Path("/proc/meminfo")))["MemAvailable:"]
    for group in control_groups():
        for name in ("memory.max", "memory.high"):
            with suppress(KeyError, ValueError):  # there may be no limit
                limit, kept = int(text_of(group / name)), _fields(text_of(group / "memory.stat"))
                free = min(free, limit - kept["anon"] - kept["shmem"])
    return free


def _fields(text: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in map(str.split, text.splitlines())}


def _length(plan: Any) -> int | None:
    """Return how many indices a plan has, or None if that is unknown."""
    while isinstance(plan, Translated):
        plan = plan.plan
    return len(plan) if hasattr(plan, "__len__") else None


def advised(view: Any, plan: Plan) -> Iterator[Any]:
    """Iterate the items of a plan of a view in this thread, and ask the system for their bytes ahead."""
    items = view._iter(plan)
    if not view._advises:
        return items  # type: ignore[no-any-return]
    ahead = Ahead(view, plan)

    def run(progress: Progress) -> Iterator[Any]:
        try:
            while True:
                begun = progress.position
                ahead.reach(begun)
                most = ahead.position - begun
                yield from progress.counted(islice(items, most))
                if progress.position < begun + most:
                    break
        except Exception:
            progress.skipped += 1
            raise
        except BaseException:
            progress.interrupted = True
            raise
        progress.done = True

    return restarting(run)
