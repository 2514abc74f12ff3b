"""What parent and workers of a process node agree on: records, the control words, the segment's layout.

Guarantees
----------
- a record, with the small frame that may follow it, is below PIPE_BUF: a write is all or nothing, so many
  workers share one pipe without a lock, and one killed at any instruction leaves nothing half-written;
- every control word has one writer at a time, and eight aligned bytes are stored at once.

The segment::

    | control words, free map | job cells: indices that are no range | slots: results |

Units: offsets and sizes in bytes unless a name says words.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..codec import Block
from ..results import Unsendable
from .slots import PAGE, Segment

__all__ = [
    "CELL_BYTES",
    "FOLLOWED",
    "FOR_EVER",
    "JOB",
    "RESULT",
    "SHARED",
    "SMALL_BYTES",
    "Control",
    "Kind",
    "Layout",
    "Packing",
    "Spec",
    "pack",
    "unpack",
]

# ticket, slot (0: none, 1: one is reserved, SHARED + s: slot s, which others write too), cell, packing,
# three numbers, epoch
JOB = struct.Struct("<8q")
# ticket, worker, kind, head, end, cost in ns, slot (-1: none was taken), does memory of the slot survive?
# Of a result in a slot the last is: how many buffers it has there. Of a piece the last two are: how much is
# used of the slot that it shares, and for what (see `JointArena`).
RESULT = struct.Struct("<8q")
SHARED = 2
# Who keeps a slot for the life of the node.
FOR_EVER = 1 << 40
# A frame of up to this many bytes may follow its record, as long as the results of all jobs in flight fit
# a pipe so: a worker should not have to wait for a reader that is busy elsewhere.
SMALL_BYTES = 1024

# Room for the indices of one job: 131,072 of them, or that many bytes of pickled keys.
CELL_BYTES = 1 << 20

_BEYOND = 1 << 63
_WORKER_WORDS = 8  # a cache line each: workers do not slow one another down


class Kind:
    """What a result record says. Plain numbers: Python 3.11 takes 80 ns to find a member of an enum."""

    SLOT: Final = 0  # the frame lies in a slot
    SPLIT: Final = 1  # likewise, but its tail follows the record
    SMALL: Final = 2  # the frame, nothing but a tail, follows the record
    PIPE: Final = 3  # the frame follows in the worker's own pipe
    SKIPPED: Final = 4  # the job was revoked before it was begun
    READY: Final = 5  # the worker has started
    FAILED: Final = 6  # it could not; a pickled record follows in its pipe
    JOINT: Final = 7  # the frame follows the record, its arrays lie in a slot that others share
    JOINT_PIPE: Final = 8  # likewise, but the frame follows in the worker's own pipe
    OUTLIVED: Final = 9  # no result: memory of a slot that others share is still held


FOLLOWED = frozenset({Kind.SPLIT, Kind.SMALL, Kind.JOINT})  # by what lies between head and end


class Packing:
    """How the indices of a job travel."""

    RANGE: Final = 0  # start, stop, step in the record
    ARRAY: Final = 1  # that many int64 in the cell
    PICKLE: Final = 2  # that many bytes in the cell


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
        return 1 + self.workers * _WORKER_WORDS + self.cells + 3 * self.slots

    @property
    def free_map_at(self) -> int:
        return (self.control_words - 2 * self.slots) * 8

    @property
    def cells_at(self) -> int:
        return -(-self.control_words * 8 // PAGE) * PAGE

    @property
    def slots_at(self) -> int:
        return self.cells_at + self.cells * self.cell_bytes

    @property
    def size(self) -> int:
        return self.slots_at + self.slots * self.slot_bytes


def cell_blocks(segment: Segment, layout: Layout) -> list[Block]:
    """Return the memory of every cell."""
    size = layout.cell_bytes
    return [segment.block(layout.cells_at + i * size, size) for i in range(layout.cells)]


class Control:
    """The words through which parent and workers see each other's state without a message."""

    def __init__(self, segment: Segment, layout: Layout) -> None:
        self._words = segment.block(0, layout.free_map_at).view(np.int64).data
        self._assigned = 1 + layout.workers * _WORKER_WORDS
        self._kept = self._assigned + layout.cells
        self._end = self._kept + layout.slots

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

    def assign(self, cell: int, ticket: int) -> None:
        """A cell belongs to this job now; with 0, to none: it is revoked (parent writes)."""
        self._words[self._assigned + cell] = ticket

    def is_assigned(self, cell: int, ticket: int) -> bool:
        """May a job that has been claimed be run?"""
        return self._words[self._assigned + cell] == ticket

    def keep(self, slot: int, worker: int) -> None:
        """A worker has memory of a slot (worker writes)."""
        self._words[self._kept + slot] = worker + 1

    def let_go(self, slot: int) -> None:
        """Nobody has memory of a slot any more (the worker that had it writes)."""
        self._words[self._kept + slot] = 0

    def is_kept(self, slot: int) -> bool:
        return bool(self._words[self._kept + slot])

    def bury(self, worker: int) -> None:
        """Take back what a dead worker had: its claim, and the slots it kept (parent writes)."""
        self.finish(worker)
        self._words[2 + worker * _WORKER_WORDS] = 0
        for at in range(self._kept, self._end):
            if self._words[at] == worker + 1:
                self._words[at] = 0


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker needs to know besides the pipeline; plain data, so that it ships anywhere."""

    layout: Layout
    small_bytes: int
    gives_back: bool  # may workers give pages back to the system?
    num_workers: int
    seed: int
    native_threads: int
    errors: str
    hook: Callable[..., Any] | None


def pack(indices: Any, cell: Any) -> tuple[int, int, int, int]:
    """Return a job's packing and three numbers, after writing into its cell what does not fit them.

    Raises `Unsendable` where that cannot be done.

    >>> cell = np.zeros(64, np.uint8)
    >>> pack(range(5), cell), unpack(pack([7, 3], cell), cell), unpack(pack(["a"], cell), cell)
    ((0, 0, 5, 1), [7, 3], ['a'])
    """
    if isinstance(indices, range):
        start, stop, step = indices.start, indices.stop, indices.step
        if -_BEYOND < start < _BEYOND and -_BEYOND < stop < _BEYOND and -_BEYOND < step < _BEYOND:
            return Packing.RANGE, start, stop, step
    if isinstance(indices, np.ndarray) and not _are_plain(indices):
        indices = indices.tolist()
    if isinstance(indices, list) and set(map(type, indices)) == {int}:
        try:
            indices = np.array(indices, np.int64)
        except OverflowError:
            pass
    if isinstance(indices, np.ndarray):
        packing, data = Packing.ARRAY, np.ascontiguousarray(indices, np.int64).view(np.uint8)
        numbers = len(indices)
    else:
        packing, data = Packing.PICKLE, np.frombuffer(_pickled(indices), np.uint8)
        numbers = len(data)
    if len(data) > len(cell):
        raise Unsendable(
            ValueError(
                f"prefetch: the indices of one job take {len(data)} bytes, at most {len(cell)} fit;"
                " use smaller batches of keys, or ints"
            )
        )
    cell[: len(data)] = data
    return packing, numbers, 0, 0


def _pickled(indices: Any) -> bytes:
    try:
        return pickle.dumps(indices, protocol=5)
    except Exception as error:
        raise Unsendable(error) from None


def _are_plain(indices: np.ndarray[Any, Any]) -> bool:
    """Are these integers that int64 can hold, whatever their values?"""
    return indices.ndim == 1 and indices.dtype.kind in "iu" and np.can_cast(indices.dtype, np.int64)


def unpack(packed: tuple[int, int, int, int], cell: Any) -> Any:
    """Return the indices that `pack` wrote, as a range or a list."""
    packing, a, b, c = packed
    if packing == Packing.RANGE:
        return range(a, b, c)
    if packing == Packing.ARRAY:
        return cell[: 8 * a].view(np.int64).tolist()
    return pickle.loads(cell[:a].data)
