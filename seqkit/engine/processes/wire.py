"""The protocol between the parent and the workers of a process node: records, control words, layout.

Guarantees
----------
- A record is smaller than PIPE_BUF, so a write is all or nothing. Many workers can share one pipe without a
  lock. A worker that is killed at any instruction leaves no partial record.
- Every word has one writer at a time, and eight aligned bytes are stored at once.

The segment::

    | control words | errors of workers that cannot start | slots |

Each job in flight has a slot, see `block.py`.

Units: offsets and sizes in bytes unless a name says words.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..settings import Settings
from ..torch_modes import Modes
from .segment import PAGE, Segment

# ticket, slot, whether the job is whole (1) and timed (2), packing and three numbers (see `block.pack`),
# epoch, order (see `Job`)
JOB = struct.Struct("<9q")
URGENT = (1 << 62) - 1  # the order of urgent jobs, which are never skipped
# ticket, worker, kind, number of items (or another number, see `Kind`), used bytes of the slot or the file,
# cost in ns, descriptor of a file of the worker that replaces the slot (-1: none), flags
RESULT = struct.Struct("<8q")

# Most bytes of the error of a worker that cannot start.
ERROR_BYTES = 1 << 17

_WORKER_WORDS = 8  # one cache line per worker, so that workers do not slow each other down


class Kind:
    """The kinds of a result record. Plain numbers: Python 3.11 takes 80 ns to look up an enum member."""

    DONE: Final = 0  # finished items are in the slot or the file
    SKIPPED: Final = 1  # the job was not begun, because it was cancelled
    READY: Final = 2  # the worker's process runs; the number is its pid
    FAILED: Final = 4  # the start failed; the number is the size of the pickled error, see `error_at`
    ALIKE: Final = 6  # a generator draws as in the other workers; the number is its place in the spec


class Flag:
    """Bits of a result record's last word."""

    HAS_ARRAYS: Final = 1  # the items have arrays in the slot
    RETAINED: Final = 2  # user code still holds memory of the slot
    IS_END: Final = 4  # the sequence ended after the last item


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """The positions of all parts of the segment."""

    workers: int
    slots: int
    slot_bytes: int

    @property
    def control_words(self) -> int:
        return _WORKER_WORDS * (self.workers + 1)

    @property
    def errors_at(self) -> int:
        return -(-self.control_words * 8 // PAGE) * PAGE

    @property
    def slots_at(self) -> int:
        return self.error_at(self.workers)

    def error_at(self, worker: int) -> int:
        """Return where a worker writes the error that prevents its start."""
        return self.errors_at + worker * ERROR_BYTES

    def slot_at(self, slot: int) -> int:
        return self.slots_at + slot * self.slot_bytes

    @property
    def size(self) -> int:
        return self.slots_at + self.slots * self.slot_bytes


class Control:
    """The words through which the parent and the workers see each other's state without messages."""

    def __init__(self, segment: Segment, layout: SegmentLayout) -> None:
        self._words = segment.block(0, 8 * layout.control_words).view(np.int64).data

    @property
    def order(self) -> int:
        """See `Backend.order` (the only worker writes, or the parent after the worker's death)."""
        return self._words[2]

    def reorder(self) -> None:
        self._words[2] += 1

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

    def clear_claim(self, worker: int) -> None:
        """Clear the claim of a dead worker (the parent writes)."""
        self.finish(worker)
        self._words[_WORKER_WORDS * (worker + 1) + 1] = 0


@dataclass(frozen=True, slots=True)
class Spec:
    """The data that a worker needs besides the pipeline."""

    settings: Settings  # with a seed, and the pid of the parent
    layout: SegmentLayout
    budget_ns: int  # how long a job of several items may take
    native_threads: int
    errors: str
    modes: Modes
    generators: tuple[tuple[str, bytes], ...] = ()  # that functions hold, see `generators.py`
