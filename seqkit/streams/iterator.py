"""One epoch of a `StreamLoader`: batches from lanes, until the end or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .batch import StreamBatch
from .lanes import Lanes, NoChunk, Row
from .reading import InConsumer

__all__ = ["StreamIterator"]

_NONE = object()  # no chunk, which may be anything


class StreamIterator(Iterator[StreamBatch]):
    """One epoch of a `StreamLoader`. It survives errors, and owns the open streams.

    Dropping it, or `close`, closes all open streams and ends the workers.
    """

    is_closed = True  # until it is made completely

    def __init__(
        self, lanes: Lanes, where: InConsumer, collate: Callable[[list[Row], Any], StreamBatch]
    ) -> None:
        self._lanes = lanes
        self._where = where
        self._collate = collate
        self.first_batch = lanes.batch  # for `watch`
        self._failed_at: Any = None
        self._form: Any = _NONE  # of the first chunk of the epoch, for batches of padding only
        self.is_closed = False

    def __next__(self) -> StreamBatch:
        if self.is_closed:
            raise StopIteration
        try:
            rows = self._lanes.read()
        except BaseException as error:
            self._recover(error)
            raise
        if rows is None:
            self._lanes.is_over = True
            self.close()
            raise StopIteration
        try:
            batch = self._collate(rows, self._padding_form(rows))
        except NoChunk:
            self.close()
            raise
        except Exception:
            self._lanes.batch += 1
            raise
        self._lanes.batch += 1  # not after Ctrl-C, which must not lose the batch
        return batch

    def _recover(self, error: BaseException) -> None:
        """Prepare the next read after an error, or end the epoch if two errors left it at the same place."""
        if not isinstance(error, Exception):
            self._lanes.interrupt()
            return
        at = self._lanes.state(0)
        if at == self._failed_at or isinstance(error, NoChunk):
            self.close()  # otherwise workers that cannot start would fail without end
        self._failed_at = at

    def _padding_form(self, rows: list[Row]) -> Any:
        """Return the form that rows of the padding value get: that of the first chunk beside them.

        If there is none, it is that of the first chunk of the epoch. After a resume that chunk is read again.
        """
        chunk = next((row.value for row in rows if row.stream is not None), _NONE)
        if chunk is not _NONE:
            if self._lanes.batch == 0:
                self._form = chunk
            return chunk
        if self._form is _NONE:
            self._form = self._lanes.first_chunk()
        return self._form

    def close(self) -> None:
        """Close all open streams and end the workers. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._where.close()

    __del__ = close
