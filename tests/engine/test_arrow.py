"""Slices of Arrow data travel without the rest of the table, in views, in items and between processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import codec, pickling

pa = pytest.importorskip("pyarrow")

N = 100_000
TABLE = pa.table(
    {
        "x": np.arange(N),
        "text": [str(i) for i in range(N)],
        "list": [[i, i] for i in range(N)],
        "struct": [{"a": i} for i in range(N)],
        "kind": pa.array(["a", "b"] * (N // 2)).dictionary_encode(),
        "gaps": pa.array([None, 1] * (N // 2)),
    }
)
SLICE = TABLE.slice(N // 2, 10)
PARTS = {
    "table": SLICE,
    "batch": SLICE.to_batches()[0],
    "column": SLICE["text"],
    "array": SLICE["list"].chunk(0),
    "within a dict": {"rows": [SLICE]},
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    "dumps", [pickling.dumps, pickling.dumps_by_value, pickling.dumps_for_workers, pickling.dumps_back]
)
def test_a_slice_is_pickled_without_the_rest(name: str, dumps: Callable[..., bytes]) -> None:
    data = dumps(PARTS[name], protocol=5)
    assert len(data) < 8000
    assert pickle.loads(data) == PARTS[name]


@pytest.mark.parametrize("name", ["table", "batch", "column", "array"])
def test_a_view_of_a_slice_is_pickled_without_the_rest(name: str) -> None:
    data = pickle.dumps(sk.view(PARTS[name]))
    assert len(data) < 8000
    assert [*pickle.loads(data)] == [*sk.view(PARTS[name])]


def test_a_whole_table_is_not_copied() -> None:
    buffers: list[pickle.PickleBuffer] = []
    pickling.dumps(TABLE, protocol=5, buffer_callback=buffers.append)
    addresses = {buffer.address for column in TABLE.columns for buffer in column.chunk(0).buffers() if buffer}
    sent = {np.frombuffer(buffer.raw(), np.uint8).__array_interface__["data"][0] for buffer in buffers}
    assert sent & addresses


def test_items_that_are_slices_travel_without_the_rest() -> None:
    assert len(codec.encode(SLICE)[1]) < 8000
    with sk.smap(lambda i: TABLE.slice(i, 2), range(20)).prefetch(1, "process") as ahead:
        items = list(ahead)
    assert items == [TABLE.slice(i, 2) for i in range(20)]
    assert sum(item.get_total_buffer_size() for item in items) < 100_000


def test_slices_of_a_data_set_travel_without_the_rest() -> None:
    datasets: Any = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": list(range(N))}).select(range(10))
    assert len(pickling.dumps_for_workers(data)) < 8000
