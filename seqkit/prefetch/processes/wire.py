"""What the parent and the workers of a process node agree on: records, cells, control words, layout.

Guarantees
----------
- a record is below PIPE_BUF: a write is all or nothing, so many workers share one pipe without a lock, and
  one killed at any instruction leaves nothing half-written;
- every word has one writer at a time, and eight aligned bytes are stored at once.

The segment::

    | control words | cells | errors of workers that cannot start | slots: arrays |

Each job in flight has a cell, through which its indices go to the worker and the tails of its items come
back::

    | header words | table: two words an item | indices, then tails (payload) |

The worker writes an item's tail and table entry, and then raises the count of finished items in the header.
So the parent can read every finished item at any time, even if the worker is stuck in the next one, or
dead.

Units: offsets and sizes in bytes unless a name says words.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..codec import Block
from ..protocol import Unsendable
from . import linux
from .segment import PAGE, Segment

# ticket, cell, slot (-1: none), must it be done as a whole?, packing, three numbers, epoch
JOB = struct.Struct("<9q")
# ticket, worker, kind, number of items (or what the kind says), used bytes of the slot or the file, cost
# in ns, descriptor of a file of the worker's that has taken the slot's place (-1: none), flags
RESULT = struct.Struct("<8q")

CELL_BYTES = 1 << 20
LEAST_CELL_BYTES = 1 << 17
HEADER_WORDS = 8

_BEYOND = 1 << 63
_WORKER_WORDS = 8  # a cache line each: workers do not slow one another down


class Kind:
    """What a result record means. Plain numbers: Python 3.11 takes 80 ns to find a member of an enum."""

    DONE: Final = 0  # finished items are in the cell, their arrays in the slot or the file
    SKIPPED: Final = 1  # the job was cancelled before it was begun
    BEGUN: Final = 2  # the worker's process, of this number, runs
    READY: Final = 3  # the worker, of this process, has started
    FAILED: Final = 4  # it could not: so many bytes of a pickled record are at `Layout.error_at`
    LET_GO: Final = 5  # user code no longer holds memory of the slot of this number


class Flag:
    """Bits of a result record's last word."""

    HAS_ARRAYS: Final = 1  # something in the slot belongs to the items
    SURVIVES: Final = 2  # user code still holds memory of the slot; `LET_GO` follows
    IS_END: Final = 4  # the sequence ended behind the last item


class Packing:
    """How the indices of a job travel."""

    RANGE: Final = 0  # start, stop, step in the record
    ARRAY: Final = 1  # so many int64 in the cell
    PICKLE: Final = 2  # so many bytes in the cell
    FILE: Final = 3  # so many bytes, pickled, in the file open under a descriptor of the parent


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in the segment."""

    workers: int
    cells: int
    slots: int
    slot_bytes: int
    cell_bytes: int = CELL_BYTES

    @property
    def control_words(self) -> int:
        return 1 + self.workers * _WORKER_WORDS

    @property
    def cells_at(self) -> int:
        return -(-self.control_words * 8 // PAGE) * PAGE

    @property
    def slots_at(self) -> int:
        return self.error_at(self.workers)

    def error_at(self, worker: int) -> int:
        """Return where a worker writes the error that keeps it from starting."""
        return self.cells_at + self.cells * self.cell_bytes + worker * LEAST_CELL_BYTES

    @property
    def size(self) -> int:
        return self.slots_at + self.slots * self.slot_bytes


class Cell:
    """A job's shared memory, as both sides see it.

    Header words: 0 the ticket of the job it belongs to (0: the job is cancelled; the parent writes); 1 how
    many items are finished; 2 when the current item began, in monotonic ns; 3 used bytes of the slot; 4 used
    bytes of the payload (the worker writes these, the count last); 5 the last job whose result was read (the
    parent writes).
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._bytes = block.data
        self.words = block.view(np.int64).data
        self.doubles = block.view(np.float64).data

    def assign(self, ticket: int) -> None:
        """Give the cell to a job; with 0, cancel its job (parent)."""
        if ticket:
            for word in range(1, 5):
                self.words[word] = 0
        self.words[0] = ticket

    def belongs_to(self, ticket: int) -> bool:
        """May a job that has been claimed be run? (worker)"""
        return self.words[0] == ticket

    def let_go(self, ticket: int) -> None:
        """The result of a job was read (parent)."""
        self.words[5] = ticket

    def is_over(self, ticket: int) -> bool:
        """Was the result of a job read? (worker)"""
        return self.words[5] >= ticket

    def finished(self) -> int:
        """Return how many items are finished."""
        return self.words[1]

    def most_items(self, items: int) -> int:
        """Return how many of a job's items the table has room for."""
        return min(items, len(self.words) // 4)

    def table(self, first: int, stop: int) -> bytes:
        """Return the table entries of some items (parent)."""
        return bytes(self.words[HEADER_WORDS + 2 * first : HEADER_WORDS + 2 * stop])

    def payload(self, items: int) -> memoryview:
        """Return the payload of a job of so many items."""
        return self._bytes[8 * (HEADER_WORDS + 2 * self.most_items(items)) :]

    def payload_bytes(self, items: int) -> bytes:
        """Return the used part of the payload (parent)."""
        start = 8 * (HEADER_WORDS + 2 * self.most_items(items))
        return bytes(self._bytes[start : start + self.words[4]])

    def indices(self) -> Block:
        """Return the memory for the indices, which the worker overwrites once it has read them."""
        return self._block[8 * HEADER_WORDS :]


def cells_of(segment: Segment, layout: Layout) -> list[Cell]:
    """Return the cells of jobs."""
    size = layout.cell_bytes
    return [Cell(segment.block(layout.cells_at + i * size, size)) for i in range(layout.cells)]


class Control:
    """The words through which parent and workers see each other's state without a message."""

    def __init__(self, segment: Segment, layout: Layout) -> None:
        self._words = segment.block(0, 8 * layout.control_words).view(np.int64).data

    @property
    def closing(self) -> bool:
        """Shall workers stop before their next job? (parent writes)"""
        return bool(self._words[0])

    def close(self) -> None:
        self._words[0] = 1

    def claim(self, worker: int, ticket: int, now_ns: int) -> None:
        """A worker has taken a job from the pipe, and begins it."""
        at = 1 + worker * _WORKER_WORDS
        words = self._words
        words[at + 1] = now_ns
        words[at] = ticket

    def finish(self, worker: int) -> None:
        """A worker has delivered its job."""
        self._words[1 + worker * _WORKER_WORDS] = 0

    def claimed(self, worker: int) -> tuple[int, int]:
        """Return the ticket a worker is at and when it began its last one in monotonic ns; 0 for none."""
        at = 1 + worker * _WORKER_WORDS
        return self._words[at], self._words[at + 1]

    def count(self, worker: int) -> int:
        """Return how often this was asked for a worker before, its predecessors included (worker writes)."""
        at = 3 + worker * _WORKER_WORDS
        before = self._words[at]
        self._words[at] = before + 1
        return before

    def bury(self, worker: int) -> None:
        """Take back the claim of a dead worker (parent writes)."""
        self.finish(worker)
        self._words[2 + worker * _WORKER_WORDS] = 0


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker needs to know besides the pipeline; plain data, so that it ships anywhere."""

    layout: Layout
    num_workers: int
    seed: int
    native_threads: int
    errors: str
    hook: Callable[..., Any] | None
    budget_ns: int  # how long a job of several items may take
    is_timed: bool  # must workers say when each item begins?
    parent: int  # its pid


def to_file(parts: Iterable[bytes | memoryview]) -> int:
    """Write what fits no other place into a file in memory; return its descriptor.

    Another process reads it with `from_file` for as long as this one keeps the descriptor.
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
    """Return the memory of a file that another process has open. Raises OSError if it has gone."""
    file = Segment(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC), nbytes)
    return file.block(0, nbytes)


def pack(indices: Any, memory: Block) -> tuple[int, int] | bytes:
    """Write the indices of a job into its cell; return packing and number, or the bytes that do not fit.

    Raises `Unsendable` if they cannot be pickled.

    >>> memory = np.zeros(64, np.uint8)
    >>> pack([7, 3], memory), unpack(Packing.ARRAY, 2, memory)
    ((1, 2), [7, 3])
    """
    if isinstance(indices, np.ndarray) and not _are_plain(indices):
        indices = indices.tolist()
    if isinstance(indices, list) and set(map(type, indices)) == {int}:
        try:
            indices = np.array(indices, np.int64)
        except OverflowError:
            pass
    if isinstance(indices, np.ndarray) and 8 * len(indices) <= len(memory):
        memory[: 8 * len(indices)].view(np.int64)[:] = indices
        return Packing.ARRAY, len(indices)
    if isinstance(indices, np.ndarray):
        indices = indices.tolist()  # a worker must get ints however many there are
    try:
        data = pickle.dumps(indices, protocol=5)
    except Exception as error:
        raise Unsendable(error) from None
    if len(data) > len(memory):
        return data
    memory[: len(data)] = np.frombuffer(data, np.uint8)
    return Packing.PICKLE, len(data)


def fits_record(indices: Any) -> bool:
    """Is this a range of numbers that a record has room for?"""
    return isinstance(indices, range) and all(
        -_BEYOND < number < _BEYOND for number in (indices.start, indices.stop, indices.step)
    )


def _are_plain(indices: np.ndarray[Any, Any]) -> bool:
    """Are these integers that int64 can hold, whatever their values?"""
    return indices.ndim == 1 and indices.dtype.kind in "iu" and np.can_cast(indices.dtype, np.int64)


def unpack(packing: int, number: int, memory: Block) -> list[Any]:
    """Return the indices that `pack` wrote."""
    if packing == Packing.ARRAY:
        indices: list[Any] = memory[: 8 * number].view(np.int64).tolist()
        return indices
    return list(pickle.loads(memory[:number].data))
