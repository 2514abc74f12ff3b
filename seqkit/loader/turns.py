"""Join the blocks of the parts of a data set to batches, in the process of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from ..core.errors import EvaluationError
from ..core.iteration import Progress
from ..core.tracebacks import warn
from ..core.view import View
from ..prefetch.errors import reraise
from .on_error import Recovered

__all__ = ["Turns"]


class Turns:
    """The work of an iterator over the batches of all parts, in runs. An error ends a run.

    Parameters
    ----------
    rounds : iterator of StreamBatch
        Each has a block of every part that has not ended.
    begun : set
        Contains `rounds` until it is closed.
    blocks, joined
        See `InTurn`.
    keeps_last : bool
        Whether to yield a last batch that is short.
    read_before : int
        Number of batches to pass over.

    Attributes
    ----------
    skips_errors : bool
        Whether to go on without the rest of a part that fails, with a warning.
    """

    skips_errors = False

    def __init__(
        self,
        rounds: Iterator[Any],
        begun: WeakSet[Any],
        blocks: Any,
        joined: View[Any],
        keeps_last: bool,
        read_before: int,
    ) -> None:
        self._rounds = rounds
        self._begun = begun
        self._batches = blocks.batches
        self._joined = joined
        self._size = blocks.size or 1
        self._keeps_last = keeps_last
        self._left = read_before  # batches to pass over
        self._last_error: EvaluationError | None = None  # of a batch that was passed over
        self._blocks: deque[Any] = deque()  # the rest of the current round
        self._samples: list[Any] = []  # of short blocks

    def __call__(self, progress: Progress) -> Iterator[Any]:
        while True:
            while len(self._samples) >= self._size:
                yield from self._join()
            if not self._blocks and not self._next_round():
                break
            count, value, failure = self._blocks.popleft()
            if failure is not None:
                if self._passes_over():
                    continue
                reraise(failure[0], self._joined, None, self._batches, failure[1])
            if count == self._size:
                if not self._passes_over():
                    yield value
                continue
            self._samples.extend(value)
        progress.done = True
        if self._rounds not in self._begun:
            raise RuntimeError("DataLoader: the loader is closed")
        if self._samples and self._keeps_last:
            try:
                yield from self._join()
            except KeyboardInterrupt:
                progress.done = False
                raise
        if self._last_error is not None and self._left:
            raise self._last_error

    def _passes_over(self) -> bool:
        """Return whether the next batch was read before, and count it."""
        was_read = self._left > 0
        self._left -= was_read
        return was_read

    def _next_round(self) -> bool:
        """Read a block of each part. Return whether there is one."""
        try:
            found = next(self._rounds, None)
        except EvaluationError as error:
            part, block = error.index
            old, new = f"chunk {block} of stream {part}", f"batch {block} of part {part}"
            error.message = error.message.replace(old, new)
            if self._passes_over():
                self._last_error = None if self.skips_errors else error
                return self._next_round()
            if not self.skips_errors:
                raise
            warn(f"DataLoader: went on without the rest of part {part}: {error.message}", RuntimeWarning)
            self._blocks.append((self._size, Recovered([], [(part, error.message)]), None))
            return True
        self._blocks.extend([] if found is None else found.data)
        return bool(self._blocks)

    def _join(self) -> Iterator[Any]:
        batch: Any = self._samples[: self._size]
        del self._samples[: self._size]
        if self._passes_over():
            return
        try:
            value = self._joined._get(batch)
        except KeyboardInterrupt:
            self._samples[:0] = batch
            raise
        yield value
