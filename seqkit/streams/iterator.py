"""One epoch of a `StreamLoader`: batches from lanes, until the end or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

from .batch import StreamBatch
from .lanes import Lanes, Row, Where

__all__ = ["Progress", "StreamIterator"]


class Progress:
    """How far an epoch was read. It outlives the iterator. The workers do not."""

    def __init__(self, iterator: StreamIterator) -> None:
        self._iterator = ref(iterator)
        self._last: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        iterator = self._iterator()
        return self._last if iterator is None else iterator.state()

    def keep(self, state: dict[str, Any]) -> None:
        self._last = state


class StreamIterator(Iterator[StreamBatch]):
    """One epoch of a `StreamLoader`. It survives errors, and owns its workers.

    Dropping it, or `close`, ends the workers and closes all open streams.
    """

    def __init__(
        self,
        epoch: int,
        lanes: Lanes,
        where: Where,
        collate: Callable[[list[Row], Any], StreamBatch],
        start: dict[str, Any] | None,
    ) -> None:
        self._epoch = epoch
        self._lanes = lanes
        self._where = where
        self._collate = collate
        self._is_closed = self._is_over = False
        self._failed_at: dict[str, Any] | None = None
        self._template: Any = None
        self._has_template = False
        if start is not None and start["lanes"] is not None:
            self._lanes.restore(start["batch"], start["lanes"])
        self.progress = Progress(self)

    def __next__(self) -> StreamBatch:
        if self._is_closed:
            raise StopIteration
        try:
            rows = self._lanes.read()
        except BaseException as error:
            self._recover(error)
            raise
        if rows is None:
            self._is_over = True
            self.close()
            raise StopIteration
        try:
            batch = self._collate(rows, self._padding_template(rows))
        except Exception:
            self._lanes.advance()
            raise
        self._lanes.advance()  # not after Ctrl-C, which must not lose the batch
        return batch

    def _recover(self, error: BaseException) -> None:
        """Prepare the next read after an error, or end the epoch if two errors left it at the same place."""
        if not isinstance(error, Exception):
            self._where.interrupt()
            return
        state = self.state()
        if state == self._failed_at:  # workers that cannot start would fail without end
            self.close()
        self._failed_at = state

    def _padding_template(self, rows: list[Any]) -> Any:
        """Return a chunk whose form rows of the padding value get."""
        if all(row.number >= 0 for row in rows):
            return None
        for row in rows:
            if row.number >= 0:
                return row.value
        if not self._has_template:
            self._template, self._has_template = self._lanes.first_chunk(), True
        return self._template

    def state(self) -> dict[str, Any]:
        """Return which epoch and batch come next, and where each lane reads on."""
        if self._is_over:
            return {"epoch": self._epoch + 1, "batch": 0, "lanes": None}
        return {"epoch": self._epoch, "batch": self._lanes.batch, "lanes": self._lanes.state()}

    def close(self) -> None:
        """End the workers and close all open streams. Idempotent."""
        self._is_closed = True
        self._where.close()

    def __del__(self) -> None:
        if hasattr(self, "progress"):  # otherwise it was not made completely
            self.progress.keep(self.state())
