"""The protocol between the parent and the workers of a process node: records, cells, control words, layout.

Guarantees
----------
- A record is smaller than PIPE_BUF, so a write is all or nothing. Many workers can share one pipe without a
  lock. A worker that is killed at any instruction leaves no partial record.
- Every word has one writer at a time, and eight aligned bytes are stored at once.

The segment::

    | control words | cells | errors of workers that cannot start | slots: arrays |

Each job in flight has a cell. Its indices go to the worker through the cell, and the tails of its items
come back through it::

    | header words | table: two words an item | indices, then tails (payload) |

The worker writes an item's tail and table entry, and then raises the count of finished items in the header.
So the parent can read every finished item at any time, even if the worker is stuck in the next item, or
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

# ticket, cell, slot (-1: none), whether the job must be done as a whole, packing, three numbers, epoch,
# consumer, known: see `Job`
JOB = struct.Struct("<11q")
# ticket, worker, kind, number of items (or another number, see `Kind`), used bytes of the slot or the file,
# cost in ns, descriptor of a file of the worker that replaces the slot (-1: none), flags
RESULT = struct.Struct("<8q")

CELL_BYTES = 1 << 20
LEAST_CELL_BYTES = 1 << 17
HEADER_WORDS = 8

_BEYOND = 1 << 63
_WORKER_WORDS = 8  # one cache line per worker, so that workers do not slow each other down


class Kind:
    """The kinds of a result record. Plain numbers: Python 3.11 takes 80 ns to look up an enum member."""

    DONE: Final = 0  # finished items are in the cell, their arrays in the slot or the file
    SKIPPED: Final = 1  # the job was cancelled before it was begun
    BEGUN: Final = 2  # the worker's process runs; the number is its pid
    READY: Final = 3  # the worker has started; the number is its pid
    FAILED: Final = 4  # the start failed; the number is the size of a pickled record at `Layout.error_at`
    LET_GO: Final = 5  # user code no longer holds memory of a slot; the number is the slot


class Flag:
    """Bits of a result record's last word."""

    HAS_ARRAYS: Final = 1  # the items have data in the slot
    SURVIVES: Final = 2  # user code still holds memory of the slot; `LET_GO` follows
    IS_END: Final = 4  # the sequence ended after the last item


class Packing:
    """The ways to send the indices of a job, and their number in the record."""

    RANGE: Final = 0  # start, stop, step in the record
    ARRAY: Final = 1  # number of int64 in the cell
    PICKLE: Final = 2  # number of bytes in the cell
    FILE: Final = 3  # number of pickled bytes, in the file open under a descriptor of the parent


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all parts of the segment."""

    workers: int
    cells: int
    slots: int
    slot_bytes: int
    cell_bytes: int = CELL_BYTES

    @property
    def control_words(self) -> int:
        return _WORKER_WORDS * (self.workers + 1)

    @property
    def cells_at(self) -> int:
        return -(-self.control_words * 8 // PAGE) * PAGE

    @property
    def slots_at(self) -> int:
        return self.error_at(self.workers)

    def error_at(self, worker: int) -> int:
        """Return where a worker writes the error that prevents its start."""
        return self.cells_at + self.cells * self.cell_bytes + worker * LEAST_CELL_BYTES

    @property
    def size(self) -> int:
        return self.slots_at + self.slots * self.slot_bytes


class Cell:
    """A job's shared memory, for the parent and the worker.

    Header words: 0 the ticket of the cell's job (0: the job is cancelled; the parent writes); 1 how many
    items are finished; 2 when the current item began, in monotonic ns; 3 used bytes of the slot; 4 used
    bytes of the payload (the worker writes words 1 to 4, the count last); 5 the last job whose result was
    read (the parent writes).
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._bytes = block.data
        self.words = block.view(np.int64).data
        self.doubles = block.view(np.float64).data

    def assign(self, ticket: int) -> None:
        """Assign the cell to a job. With 0, cancel its job (parent)."""
        if ticket:
            for word in range(1, 5):
                self.words[word] = 0
        self.words[0] = ticket

    def belongs_to(self, ticket: int) -> bool:
        """Return whether a claimed job may be run (worker)."""
        return self.words[0] == ticket

    def let_go(self, ticket: int) -> None:
        """Record that the result of a job was read (parent)."""
        self.words[5] = ticket

    def is_over(self, ticket: int) -> bool:
        """Return whether the result of a job was read (worker)."""
        return self.words[5] >= ticket

    def finished(self) -> int:
        """Return how many items are finished."""
        return self.words[1]

    def most_items(self, items: int) -> int:
        """Return how many of a job's items fit the table."""
        return min(items, len(self.words) // 4)

    def table(self, first: int, stop: int) -> bytes:
        """Return the table entries of some items (parent)."""
        return bytes(self.words[HEADER_WORDS + 2 * first : HEADER_WORDS + 2 * stop])

    def payload(self, items: int) -> memoryview:
        """Return the payload of a job of `items` items."""
        return self._bytes[8 * (HEADER_WORDS + 2 * self.most_items(items)) :]

    def payload_bytes(self, items: int) -> bytes:
        """Return the used part of the payload (parent)."""
        used = self.words[4]
        if not used:
            return b""
        start = 8 * (HEADER_WORDS + 2 * self.most_items(items))
        return bytes(self._bytes[start : start + used])

    def indices(self) -> Block:
        """Return the memory for the indices. The worker overwrites it after reading the indices."""
        return self._block[8 * HEADER_WORDS :]


def cells_of(segment: Segment, layout: Layout) -> list[Cell]:
    """Return the cells of jobs."""
    size = layout.cell_bytes
    return [Cell(segment.block(layout.cells_at + i * size, size)) for i in range(layout.cells)]


class Control:
    """The words through which the parent and the workers see each other's state without messages."""

    def __init__(self, segment: Segment, layout: Layout) -> None:
        self._words = segment.block(0, 8 * layout.control_words).view(np.int64).data

    @property
    def urgent(self) -> int:
        """How many urgent jobs have been sent (the parent writes)."""
        return self._words[1]

    def announce(self, jobs: int) -> None:
        """Record that urgent jobs have been sent (parent)."""
        self._words[1] += jobs

    @property
    def closing(self) -> bool:
        """Whether workers must stop before their next job (the parent writes)."""
        return bool(self._words[0])

    def close(self) -> None:
        self._words[0] = 1

    def claim(self, worker: int, ticket: int, now_ns: int) -> None:
        """Record that a worker has taken a job from the pipe, and begins it (worker)."""
        at = _WORKER_WORDS * (worker + 1)
        words = self._words
        words[at + 1] = now_ns
        words[at] = ticket

    def finish(self, worker: int) -> None:
        """Record that a worker has delivered its job."""
        self._words[_WORKER_WORDS * (worker + 1)] = 0

    def claimed(self, worker: int) -> tuple[int, int]:
        """Return a worker's current ticket, and the start of its last job in monotonic ns. 0 means none."""
        at = _WORKER_WORDS * (worker + 1)
        return self._words[at], self._words[at + 1]

    def count(self, worker: int) -> int:
        """Return how often this was called before for a worker and its predecessors (the worker writes)."""
        at = _WORKER_WORDS * (worker + 1) + 2
        before = self._words[at]
        self._words[at] = before + 1
        return before

    def bury(self, worker: int) -> None:
        """Clear the claim of a dead worker (the parent writes)."""
        self.finish(worker)
        self._words[_WORKER_WORDS * (worker + 1) + 1] = 0


@dataclass(frozen=True, slots=True)
class Spec:
    """The data that a worker needs besides the pipeline. Plain data, so that it always pickles."""

    layout: Layout
    num_workers: int
    seed: int
    native_threads: int
    errors: str
    hook: Callable[..., Any] | None
    budget_ns: int  # how long a job of several items may take
    is_timed: bool  # whether workers must record when each item begins
    parent: int  # the pid of the parent
    end_hook: Callable[..., Any] | None = None


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
    """Return the memory of a file that another process has open. Raises OSError if it is gone."""
    file = Segment(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC), nbytes)
    return file.block(0, nbytes)


def pack(indices: Any, memory: Block) -> tuple[int, int] | bytes:
    """Write the indices of a job into its cell. Return packing and number, or the bytes that do not fit.

    Raises `Unsendable` if the indices cannot be pickled.

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
        indices = indices.tolist()  # a worker must always get ints, whatever their number
    try:
        data = pickle.dumps(indices, protocol=5)
    except Exception as error:
        raise Unsendable(error) from None
    if len(data) > len(memory):
        return data
    memory[: len(data)] = np.frombuffer(data, np.uint8)
    return Packing.PICKLE, len(data)


def fits_record(indices: Any) -> bool:
    """Return whether the indices are a range whose numbers fit a record."""
    return (  # without a loop, because every job calls this function
        isinstance(indices, range)
        and -_BEYOND < indices.start < _BEYOND
        and -_BEYOND < indices.stop < _BEYOND
        and -_BEYOND < indices.step < _BEYOND
    )


def _are_plain(indices: np.ndarray[Any, Any]) -> bool:
    """Return whether the indices are of an integer type of which int64 can hold all values."""
    return indices.ndim == 1 and indices.dtype.kind in "iu" and np.can_cast(indices.dtype, np.int64)


def unpack(packing: int, number: int, memory: Block) -> list[Any]:
    """Return the indices that `pack` wrote."""
    if packing == Packing.ARRAY:
        indices: list[Any] = memory[: 8 * number].view(np.int64).tolist()
        return indices
    return list(pickle.loads(memory[:number].data))
