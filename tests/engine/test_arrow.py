"""Slices of Arrow data travel without the rest of the table, in views, in items and between processes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import codec, pickling

pa = pytest.importorskip("pyarrow")

N = 100_000
TEXTS = pa.array([str(i) for i in range(N)])
PAIRS = pa.array([[i, i] for i in range(N)], pa.list_(pa.int64(), 2))
COLUMNS = {
    "x": pa.array(np.arange(N)),
    "text": TEXTS,
    "list": pa.array([[i] for i in range(N)]),
    "struct": pa.array([{"a": i} for i in range(N)]),
    "kind": pa.array(["a", "b"] * (N // 2)).dictionary_encode(),
    "gaps": pa.array([None, 1] * (N // 2)),
    "extension": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), [2]), PAIRS),
    "chunked": pa.chunked_array([TEXTS[: N // 2], TEXTS[N // 2 :]]),
}
TABLE = pa.table(COLUMNS)
PLAIN = pa.table({"x": COLUMNS["x"], "text": TEXTS})
PARTS = [column.slice(N // 2 - 5, 10) for column in (*COLUMNS.values(), TABLE, TABLE.to_batches()[0])]


def test_a_slice_is_pickled_without_the_rest() -> None:
    for part in PARTS:
        for dumps in (
            pickling.dumps,
            pickling.dumps_by_value,
            pickling.dumps_for_workers,
            pickling.dumps_back,
        ):
            data = dumps({"part": [part]}, protocol=5)
            assert len(data) < 8000
            (found,) = pickle.loads(data)["part"]
            assert found.equals(part)
            assert found.type == part.type if hasattr(part, "type") else found.schema == part.schema


def test_a_view_of_a_slice_is_pickled_without_the_rest() -> None:
    for part in [*PARTS[:3], PLAIN.slice(50, 10), PLAIN.to_batches()[0].slice(50, 10), PARTS[-3]]:
        data = pickle.dumps(sk.view(part))
        assert len(data) < 8000
        assert [*pickle.loads(data)] == [*sk.view(part)]


def test_whole_arrays_travel_out_of_band_and_are_not_copied() -> None:
    for whole in (COLUMNS["x"], TABLE):
        buffers: list[pickle.PickleBuffer] = []
        data = pickling.dumps(whole, protocol=5, buffer_callback=buffers.append)
        assert pickle.loads(data, buffers=buffers).equals(whole)
        sent = {np.frombuffer(buffer.raw(), np.uint8).__array_interface__["data"][0] for buffer in buffers}
        assert COLUMNS["x"].buffers()[1].address in sent


def test_items_that_are_slices_travel_without_the_rest() -> None:
    assert len(codec.encode(PARTS[-2])[1]) < 8000
    with sk.smap(lambda i: PLAIN.slice(i, 2), range(20)).prefetch(1, "process") as ahead:
        items = list(ahead)
    assert items == [PLAIN.slice(i, 2) for i in range(20)]
    assert sum(item.get_total_buffer_size() for item in items) < 100_000


def test_slices_of_a_data_set_travel_without_the_rest() -> None:
    datasets: Any = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": list(range(N))}).select(range(10))
    assert len(pickling.dumps_for_workers(data)) < 8000
