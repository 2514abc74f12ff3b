"""Pickle slices of Arrow data without the rest: an array refers to the buffers of the whole table."""

from __future__ import annotations

from typing import Any

__all__ = ["compact"]

SPARE = 64 * 1024  # bytes that are not worth a copy


def compact(data: Any) -> Any:
    """Return a table, record batch or array with buffers of its own if it is a small part of larger ones.

    >>> import pyarrow as pa
    >>> first = pa.array(range(100_000)).slice(0, 10)
    >>> first.get_total_buffer_size(), compact(first).get_total_buffer_size()
    (800000, 80)
    """
    import pyarrow as pa

    if data.get_total_buffer_size() <= 2 * data.nbytes + SPARE:
        return data
    if isinstance(data, pa.Array):
        return compact(pa.RecordBatch.from_arrays([data], ["x"])).column(0)
    if isinstance(data, pa.ChunkedArray):
        return compact(pa.Table.from_arrays([data], ["x"])).column(0)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as stream:
        stream.write(data)
    with pa.ipc.open_stream(sink.getvalue()) as stream:
        return stream.read_all() if isinstance(data, pa.Table) else stream.read_next_batch()
