"""One epoch of a `StreamLoader`: batches from lanes, until the end or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import ref

from .batch import StreamBatch
from .lanes import Lanes, NoChunk, Row, Where
from .padding import form_of

__all__ = ["StreamIterator", "StreamProgress"]

_NONE = object()  # no chunk, which may be anything


class StreamProgress:
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
        self.first_batch: int = 0 if start is None else start["batch"]
        self._failed_at: dict[str, Any] | None = None
        self._form: Any = _NONE  # of the first chunk, for batches of padding only
        self._is_form_of_first = False  # not of the first chunk after a resume
        if start is not None and start["lanes"] is not None:
            self._lanes.restore(start["batch"], start["lanes"], start["lost"])
        self.progress = StreamProgress(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

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
            batch = self._collate(rows, self._padding_form(rows))
        except NoChunk:
            self.close()
            raise
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
        if state == self._failed_at or isinstance(error, NoChunk):
            self.close()  # otherwise workers that cannot start would fail without end
        self._failed_at = state

    def _padding_form(self, rows: list[Row]) -> Any:
        """Return the form that rows of the padding value get: that of the first chunk beside them.

        If there is none, it is that of the first chunk of the epoch. After a resume it is read once more, if
        streams can be read again.
        """
        chunk = next((row.value for row in rows if row.number >= 0), _NONE)
        if chunk is not _NONE:
            if self._form is _NONE:
                self._form, self._is_form_of_first = form_of(chunk), rows[0].batch == 0
            return chunk
        if not self._is_form_of_first:
            try:
                self._form = form_of(self._lanes.first_chunk())
            except NoChunk:
                if self._form is _NONE:
                    raise
            self._is_form_of_first = True
        return self._form

    def state(self) -> dict[str, Any]:
        """Return which epoch and batch come next, and where each lane reads on."""
        if self._is_over:
            return {"epoch": self._epoch + 1, "batch": 0, "lanes": None, "lost": []}
        lanes = self._lanes
        return {
            "epoch": self._epoch,
            "batch": lanes.batch,
            "lanes": lanes.state(),
            "lost": sorted(lanes.lost),
        }

    def nodes(self) -> Sequence[Any]:
        """Return the nodes that read the streams."""
        nodes: Sequence[Any] = self._where.nodes
        return nodes

    def close(self) -> None:
        """End the workers and close all open streams. Idempotent."""
        self._is_closed = True
        self._where.close()

    def __del__(self) -> None:
        if hasattr(self, "progress"):  # otherwise it was not made completely
            self.progress.keep(self.state())
