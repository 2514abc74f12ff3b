"""How many items a job has, and how many chunks are pending: adapted to what items cost.

Units: nanoseconds and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

# A chunk is so large that the consumer gets a message about so often, from whichever worker: enough that
# the message's own cost (some ten microseconds) is small, little enough that items keep coming. With many
# workers a chunk takes no longer than `LONGEST_NS`.
TARGET_NS = 500_000
LONGEST_NS = 5_000_000
CHUNK_BYTES = 256 * 1024
MAX_CHUNK = 4096
# Unless the user says how much is computed ahead: at most this many bytes, as long as every worker has a
# job. And so many chunks while they are small, so that a slow item does not hold the other workers up.
AHEAD_BYTES = 1 << 30
SMALL_AHEAD_BYTES = 1 << 26
MAX_DEPTH = 64


def chunk_depth(max_buffered: int | None, workers: int) -> int:
    """Return how many chunks a consumer may have pending before anything is known about their size."""
    return min(max_buffered or 2 * workers + 2, max(256, 2 * workers))


@dataclass
class Chunking:
    """Adapts the size and number of chunks.

    Parameters
    ----------
    workers : int
    max_buffered : int or None
        Most items pending; None: as many as the chunks hold.
    fixed : int or None
        Items per chunk, if the user has chosen it.
    target_ns : int
        How often the consumer should get a message.

    Attributes
    ----------
    size : int
        Items per chunk at present.
    depth : int
        Chunks that a consumer may have pending at present.
    """

    workers: int
    max_buffered: int | None
    fixed: int | None = None
    target_ns: int = TARGET_NS

    def __post_init__(self) -> None:
        self.size = self.fixed or 1
        self.depth = self._least_depth = chunk_depth(self.max_buffered, self.workers)
        self._nbytes: int | None = -1  # of the last result
        self._item_ns: float | None = None
        self._item_bytes = 0.0

    @property
    def chunk_ns(self) -> int:
        """How long a chunk should take."""
        return min(self.target_ns * self.workers, max(LONGEST_NS, self.target_ns))

    @property
    def hands_out_runs(self) -> bool:
        """May a consumer get several chunks at once? An executor needs it to come back often."""
        return self.max_buffered is None and self.target_ns == TARGET_NS

    def measure(self, cost_ns: int, nbytes: int | None, items: int) -> None:
        """Adapt to a result of some items."""
        if nbytes != self._nbytes and self.max_buffered is None:
            self._nbytes = nbytes
            self.depth = self._depth_for(nbytes)
        if self.fixed is not None or not items:
            return
        item_ns = cost_ns / items
        self._item_ns = item_ns if self._item_ns is None else 0.5 * (self._item_ns + item_ns)
        self._item_bytes = max((nbytes or 0) / items, 0.5 * self._item_bytes)
        size = min(self.chunk_ns / max(self._item_ns, 1), CHUNK_BYTES / max(self._item_bytes, 1), MAX_CHUNK)
        if self.max_buffered is not None:
            size = min(size, self.max_buffered / (2 * self.workers))
        self.size = max(1, min(int(size), 8 * self.size))

    def _depth_for(self, nbytes: int | None) -> int:
        """Return how many chunks of so many bytes may be pending."""
        depth, most = self._least_depth, AHEAD_BYTES // max(nbytes or 1, 1)
        if nbytes is not None:
            depth = max(depth, min(SMALL_AHEAD_BYTES // max(nbytes, 1), MAX_DEPTH))
        return min(depth, max(most, self.workers))
