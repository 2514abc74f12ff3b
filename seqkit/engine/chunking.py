"""Adapt the number of items in a job, and the number of pending chunks, to the cost of items.

Units: nanoseconds and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

# The target time between two results that reach the consumer, from any worker. It is long enough to make
# the cost of a result itself (some ten microseconds) small, and short enough to keep items coming. With
# many workers a chunk takes no longer than `LONGEST_NS`.
TARGET_NS = 500_000
LONGEST_NS = 5_000_000
# The same for executors, whose tasks cost more than a message to one of the engine's own workers.
TASK_NS = 5_000_000
CHUNK_BYTES = 256 * 1024
MAX_CHUNK = 4096
# Limits if the user does not set how much is computed ahead. At most `AHEAD_BYTES` are pending, but every
# worker has a job. Small chunks may be up to `MAX_DEPTH`, so that a slow item does not block the other
# workers.
AHEAD_BYTES = 1 << 30
SMALL_AHEAD_BYTES = 1 << 26
MAX_DEPTH = 64


def chunk_depth(max_buffered: int | None, workers: int) -> int:
    """Return how many chunks a consumer may have pending before their size is known."""
    return min(max_buffered or 2 * workers + 2, max(256, 2 * workers))


@dataclass
class Chunking:
    """Adapts the size and number of chunks.

    Parameters
    ----------
    workers : int
    max_buffered : int or None
        Most items pending. None: as many as the chunks hold.
    fixed : int or None
        Items per chunk, if the user has set it.
    target_ns : int
        Target time between two results that reach the consumer.
    least : int
        Items per chunk that nodes below need to work ahead. Fewer if so many would take much memory.

    Attributes
    ----------
    size : int
        Current number of items per chunk.
    depth : int
        Current limit of pending chunks per consumer.
    """

    workers: int
    max_buffered: int | None
    fixed: int | None = None
    target_ns: int = TARGET_NS
    least: int = 1

    def __post_init__(self) -> None:
        if self.max_buffered is not None:
            self.least = max(1, min(self.least, self.max_buffered // self.workers))
        self.size = self.fixed or self.least
        self._most_items = MAX_CHUNK
        self.depth = self._least_depth = chunk_depth(self.max_buffered, self.workers)
        self._item_ns: float | None = None
        self._item_bytes = 0.0

    def limit(self, items: int) -> None:
        """Limit the number of items of a chunk."""
        self._most_items = min(items, MAX_CHUNK)
        self.size = min(self.size, items)

    def size_near_end(self, left: int | None) -> int:
        """Return the size of the next chunk, if the plan has `left` more items (None: unknown).

        Long jobs at the end of a plan would leave some workers without one.
        """
        if self.least == 1 or left is None:
            return self.size
        return min(self.size, max(self.least // 4, -(-left // (2 * self.workers)), 1))

    @property
    def chunk_ns(self) -> int:
        """Target duration of a chunk."""
        return min(self.target_ns * self.workers, max(LONGEST_NS, self.target_ns))

    @property
    def hands_out_runs(self) -> bool:
        """Whether a consumer may get several chunks at once. An executor needs frequent calls instead."""
        return self.max_buffered is None and self.target_ns == TARGET_NS

    def measure(self, cost_ns: int, nbytes: int | None, items: int) -> None:
        """Adapt to the cost and size of a result."""
        if self.max_buffered is None:
            self.depth = self._depth_for(nbytes)
        if self.fixed is not None or not items:
            return
        item_ns = cost_ns / items
        self._item_ns = item_ns if self._item_ns is None else 0.5 * (self._item_ns + item_ns)
        self._item_bytes = max((nbytes or 0) / items, 0.5 * self._item_bytes)
        size = min(
            self.chunk_ns / max(self._item_ns, 1), CHUNK_BYTES / max(self._item_bytes, 1), self._most_items
        )
        if self.max_buffered is not None:
            size = min(size, self.max_buffered / (2 * self.workers))
        affordable = AHEAD_BYTES / (self.depth * max(self._item_bytes, 1))
        self.size = max(1, min(int(size), 8 * self.size), int(min(self.least, affordable)))

    def _depth_for(self, nbytes: int | None) -> int:
        """Return how many chunks of `nbytes` bytes may be pending."""
        depth, most = self._least_depth, AHEAD_BYTES // max(nbytes or 1, 1)
        if nbytes is not None:
            depth = max(depth, min(SMALL_AHEAD_BYTES // max(nbytes, 1), MAX_DEPTH))
        return min(depth, max(most, self.workers))
