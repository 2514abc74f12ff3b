"""Blocks: the shared memory of one job, in which its indices go to the worker and its items come back.

A block is a slot of the segment::

    | header: 8 words | table: 2 words an item | tails and arrays, in the order in which they are written |

The worker first reads the indices, which lie after the header, and then writes over them. It writes the data
of an item, then its table entry, and then raises the count of finished items in the header. So the parent can
read every finished item at any time, even if the worker is stuck in the next item, or dead. What does not
fit the block ends the job: the block and the rest go into a file, which has the layout of a larger block.

Guarantees
----------
- Every word has one writer at a time, and eight aligned bytes are stored at once.
- An item is complete before it counts as finished, and before the next item begins.
- Data in a block is not copied again if it was written into memory of the block (`seqkit.empty`).

Units: offsets and sizes in bytes from the start of the block, unless a name says words.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Any, Final

import numpy as np

from ...core.buffers import INLINE_BYTES
from ..codec import Block, aligned
from ..pickling import dumps_for_workers
from ..protocol import Unsendable
from ..results import HEADER_BYTES, Entry, encoded_item, private
from . import linux

# A job of several items ends when its results reach this size, unless it must run whole.
GROUP_BYTES = 1 << 18

HEADER_WORDS = HEADER_BYTES // 8
_BEYOND = 1 << 63


class JobBlock:
    """The block of a job, for the parent and the worker.

    Header words: 0 the ticket of the job (0: the job is revoked; the parent writes); 1 how many items are
    finished; 2 when the current item began, in monotonic ns (below 0: minus the time
    that it has run, while it waits for a node below); 3 used bytes of the block (the worker writes
    words 1 to 3, the count last); 4 the last job whose result was read (the parent writes); 5 a job that is
    cancelled (any thread of the parent writes); 6 the number of the worker that began the job.
    """

    __slots__ = ("doubles", "memory", "words")

    def __init__(self, memory: Block) -> None:
        self.memory = memory
        self.words = memory.view(np.int64).data
        self.doubles = memory.view(np.float64).data

    def assign(self, ticket: int) -> None:
        """Assign the block to a job (parent)."""
        words = self.words
        words[1] = words[2] = words[3] = 0
        words[0] = ticket

    def revoke(self) -> None:
        """Make sure that the job is not begun, if it was not (parent)."""
        self.words[0] = 0

    def cancel(self, ticket: int) -> None:
        """Cancel a job, if it still has this block (parent, in any thread)."""
        self.words[5] = ticket

    def belongs_to(self, ticket: int) -> bool:
        """Return whether a job may be run (worker)."""
        return self.words[0] == ticket and self.words[5] != ticket

    def mark_read(self, ticket: int) -> None:
        """Record that the result of a job was read (parent)."""
        self.words[4] = ticket

    def was_read(self, ticket: int) -> bool:
        """Return whether the result of a job was read (worker)."""
        return self.words[4] >= ticket

    def begin(self, worker: int, now_ns: int) -> None:
        """Begin the job and its first item (worker)."""
        self.words[6], self.words[2] = worker, now_ns

    def worker(self) -> int:
        """Return the number of the worker that began the job."""
        return self.words[6]

    def __enter__(self) -> None:
        """Stop the clock of the current item (worker)."""
        self.words[2] -= monotonic_ns()  # negative: minus the time that it has run

    def __exit__(self, *_: object) -> None:
        """Let the clock of the current item go on (worker)."""
        self.words[2] += monotonic_ns()

    def ran_s(self) -> float | None:
        """Return how long the current item has run, in seconds, or None if no item has begun."""
        since_ns = self.words[2]
        if not since_ns:
            return None
        return (-since_ns if since_ns < 0 else monotonic_ns() - since_ns) / 1e9

    def finished(self) -> int:
        """Return how many items are finished."""
        return self.words[1]

    def used(self) -> int:
        """Return how many bytes the finished items use at most."""
        return self.words[3]

    def end_of(self, first: int, stop: int) -> int:
        """Return where the data of finished items ends, or 0 if they are numbers, which have no data."""
        words = self.words[HEADER_WORDS + 2 * first : HEADER_WORDS + 2 * stop]
        return max((end for code, end in zip(words[::2], words[1::2], strict=True) if code >= 0), default=0)


# -------------------------------------------------------------------- indices


class Packing:
    """The ways to send the indices of a job, and the three numbers of the record."""

    RANGE: Final = 0  # start, stop, step
    PICKLE: Final = 1  # number of bytes in the block, number of items
    FILE: Final = 2  # number of pickled bytes, number of items, descriptor of the parent's file


def pack(indices: Any, block: JobBlock) -> tuple[int, int, int, int]:
    """Write the indices of a job into its block. Return packing and three numbers.

    Raises `Unsendable` if the indices cannot be pickled, or there is no memory for a file.

    >>> block = JobBlock(np.zeros(256, np.uint8))
    >>> unpack(block, *pack([7, 3], block)), unpack(block, *pack(range(3, 9, 2), block))
    ([7, 3], range(3, 9, 2))
    """
    if isinstance(indices, range) and _fits_words(indices):
        return Packing.RANGE, indices.start, indices.stop, indices.step
    if isinstance(indices, np.ndarray):
        indices = indices.tolist()
    are_ints = isinstance(indices, list) and set(map(type, indices)) == {int}
    dumps = pickle.dumps if are_ints else dumps_for_workers  # by value: a worker may lack the class of a key
    try:
        data = dumps(indices, protocol=5)
    except Exception as error:
        raise Unsendable(error) from None
    stop = HEADER_BYTES + len(data)
    if stop <= len(block.memory):
        block.memory[HEADER_BYTES:stop] = np.frombuffer(data, np.uint8)
        return Packing.PICKLE, len(data), len(indices), 0
    try:
        return Packing.FILE, len(data), len(indices), to_file([data])
    except OSError as error:  # out of memory or descriptors
        raise Unsendable(error) from None


def unpack(block: JobBlock, packing: int, a: int, b: int, c: int, parent: int = 0) -> Any:
    """Return the indices that `pack` wrote in the process `parent`. Unpickling keys may raise anything."""
    if packing == Packing.RANGE:
        return range(a, b, c)
    if packing == Packing.FILE:
        return list(pickle.loads(from_file(parent, c, a).data))
    return list(pickle.loads(block.memory[HEADER_BYTES : HEADER_BYTES + a].data))


def _fits_words(indices: range) -> bool:
    return (  # without a loop, because every job calls this function
        -_BEYOND < indices.start < _BEYOND
        and -_BEYOND < indices.stop < _BEYOND
        and -_BEYOND < indices.step < _BEYOND
    )


# -------------------------------------------------------------------- items


def most_items(nbytes: int) -> int:
    """Return how many items fit a block of `nbytes` bytes. The table may take half of it."""
    return nbytes // 32


class Writer:
    """Write the items of one job into its block, each item as soon as it is finished.

    Data that does not fit is kept in `overflow` and ends the job, unless the job has no limit.

    Parameters
    ----------
    block : JobBlock
    items : int
        Number of items of the job.
    arena : uint8 array
        The memory of the block again, as an object of its own. User code may hold parts of it.
    record : callable
        Returns the record of an exception.
    limit : int or None
        The job ends when its results reach this size in bytes, or the block is full. None: it never does,
        and all data may lie in `overflow`.
    """

    def __init__(
        self,
        block: JobBlock,
        items: int,
        arena: Block,
        record: Callable[[BaseException], Any],
        limit: int | None = GROUP_BYTES,
    ) -> None:
        self._block = block
        self._limit = limit
        self._record = record
        self.arena = arena
        self._most = items if limit is None else min(items, most_items(len(block.memory)))
        self._start = self.used = HEADER_BYTES + 16 * self._most
        self._largest = 0
        self.buffers = 0
        self.overflow: list[tuple[int, Any]] = []  # data that did not fit, by offset
        self.allocated = False  # whether user code got memory of the block
        self._before = self._start, 0  # `used` and `buffers` before the last encoded item
        block.words[3] = self._start
        self.put, self._enter, self._retract = self._numbers_first(block.words, block.doubles)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
        """Return an array in the block, or None if the array is too small or does not fit."""
        nbytes = dtype.itemsize * math.prod(shape)
        at = aligned(self.used)
        if nbytes < INLINE_BYTES or dtype.hasobject or at + nbytes > len(self.arena):
            return None
        self.used, self.allocated = at + nbytes, True
        return self.arena[at : self.used].view(dtype).reshape(shape)

    def _numbers_first(
        self, words: Any, doubles: Any
    ) -> tuple[Callable[[Any], bool], Callable[..., bool], Callable[[], None]]:
        """Return `put`, and functions that enter an item into the table and remove it again.

        Closures cost half of methods.
        """
        count, at, most, encode = 0, HEADER_WORDS, self._most, self._encode

        def put(value: Any) -> bool:
            nonlocal count, at
            kind = type(value)
            if kind is int:
                try:
                    words[at + 1] = value
                except ValueError:  # beyond 64 bits
                    return encode(value)
                words[at] = Entry.INT
            elif kind is float:
                doubles[at + 1] = value
                words[at] = Entry.FLOAT
            else:
                return encode(value)
            count += 1
            at += 2
            words[1] = count
            return count < most

        def enter(code: int, end: int, is_published: bool) -> bool:
            nonlocal count, at
            words[at], words[at + 1] = code, end
            count += 1
            at += 2
            if is_published:
                words[1] = count
            return count < most

        def retract() -> None:
            nonlocal count, at
            count -= 1
            at -= 2

        return put, enter, retract

    def fail(self, error: BaseException) -> bool:
        """Write the error of the next item."""
        return self._encode(self._record(error), True)

    def replace_last(self, error: BaseException) -> None:
        """Replace the last item by an error, because its data cannot be sent."""
        self.overflow.clear()
        self.used, self.buffers = self._before
        self._retract()
        self.fail(error)

    def _encode(self, value: Any, is_failed: bool = False) -> bool:
        memory, before = self._block.memory, self.used
        is_failed, (form, tail, moved, start, buffers) = encoded_item(value, is_failed, memory, before)
        self._before = before, self.buffers
        for offset, buffer in moved:
            self._place(memory, offset, buffer)
        self._place(memory, start, memoryview(tail))
        self.used = end = start + len(tail)
        self.buffers += buffers
        # Data that does not fit must not be visible before it is sent.
        is_inside = not self.overflow
        if is_inside:
            self._block.words[3] = end
        more = self._enter(start << 3 | is_failed << 2 | form, end, is_inside or self._limit is None)
        self._largest = max(self._largest, end - before)
        return more and (self._limit is None or (is_inside and self._has_room(self._limit)))

    def _place(self, memory: Block, offset: int, buffer: memoryview) -> None:
        end = offset + buffer.nbytes
        if end > len(memory) or self.overflow:
            # An item of a job that goes on may have memory that the next item writes to.
            self.overflow.append((offset, buffer if self._limit is not None else memoryview(bytes(buffer))))
        else:
            memory[offset:end] = np.frombuffer(buffer, np.uint8)

    def _has_room(self, limit: int) -> bool:
        """Return whether the largest item so far would fit once more, and the job is below its limit."""
        if self.used - self._start > limit:
            return False
        return aligned(self.used) + self._largest <= len(self.arena)

    def contents(self) -> list[Any]:
        """Return the used part of the block, and then the data that did not fit it, in order."""
        position = self.overflow[0][0] if self.overflow else self.used
        within = min(position, len(self.arena))
        parts: list[Any] = [self._block.memory[:within].data, bytes(position - within)]
        for offset, buffer in self.overflow:
            parts += [bytes(offset - position), buffer]
            position = offset + buffer.nbytes
        return parts

    def forget(self) -> None:
        """Drop all memory. The writer is part of a cycle, and stays until it is collected."""
        self.overflow.clear()
        self.arena = _NOTHING


_NOTHING = np.empty(0, np.uint8)


# -------------------------------------------------------------------- files


def to_file(parts: Iterable[bytes | memoryview]) -> int:
    """Write data into a file in memory. Return its descriptor.

    Another process can read it with `from_file` as long as this process keeps the descriptor open.
    """
    fd = linux.memfd_create("seqkit-file")
    try:
        for part in parts:
            rest = memoryview(part).cast("B")
            while len(rest):
                rest = rest[os.write(fd, rest) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def from_file(pid: int, fd: int, nbytes: int) -> Block:
    """Return a copy of a file that another process has open. Raises OSError if it is gone.

    A mapping of the file would save the copy, but Python's `mmap` keeps a descriptor for each mapping.
    """
    memory = private(nbytes)
    with open(f"/proc/{pid}/fd/{fd}", "rb", buffering=0) as file:
        rest = memory.data
        while len(rest):
            if not (count := file.readinto(rest)):
                raise OSError(f"a file of {nbytes} bytes ends {len(rest)} bytes early")
            rest = rest[count:]
    return memory
