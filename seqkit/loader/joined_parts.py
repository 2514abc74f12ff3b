"""Join the blocks of the parts of a data set to batches, in the process of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from ..core.errors import EvaluationError
from ..core.iteration import Progress
from ..core.tracebacks import warn
from ..engine.errors import reraise
from .on_error import Recovered

__all__ = ["JoinedParts"]


class JoinedParts:
    """The work of an iterator over the batches of all parts, in runs. An error ends a run.

    Parameters
    ----------
    view : InTurn
        Unless its `on_error` is "raise", the others go on without the rest of a part that fails.
    rounds : iterator of StreamBatch
        Each has a block of every part that has not ended.
    read_before : int
        Number of batches to pass over.
    """

    def __init__(self, view: Any, rounds: Iterator[Any], read_before: int) -> None:
        self._view = view
        self._rounds = rounds
        self._size = view.blocks.size or 1
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
            if failure is None and count < self._size:
                self._samples.extend(value)
            elif self._passes_over():
                continue
            elif failure is not None:
                reraise(failure[0], self._view.joined, None, self._view.blocks.batches, failure[1])
            else:
                yield value
        is_closed = self._rounds not in self._view.begun
        if self._samples and self._view.options.last == "keep" and not is_closed:
            yield from self._join()
        progress.done = True
        if is_closed:
            raise RuntimeError("DataLoader: the loader is closed")
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
            skips_errors = self._view.options.on_error != "raise"
            if self._passes_over():
                self._last_error = None if skips_errors else error
                return self._next_round()
            if not skips_errors:
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
            value = self._view.joined._get(batch)
        except KeyboardInterrupt:
            self._samples[:0] = batch
            raise
        yield value
