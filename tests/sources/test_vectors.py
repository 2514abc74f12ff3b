"""Columns of tables that are vectors: cells are arrays with the dtype of the column."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import seqkit as sk

VECTORS = [[1.5, 2.0], [3.0, 4.0], [5.0, 6.0]]


def pyarrow(values: list[Any]) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({"v": pa.array(values, pa.list_(pa.float32())), "s": ["a", "b", "c"]})


def fixed(values: list[Any]) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({"v": pa.array(values, pa.list_(pa.float32(), 2)), "s": ["a", "b", "c"]})


def chunked(values: list[Any]) -> Any:
    pa = pytest.importorskip("pyarrow")
    table = pyarrow(values)
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


def tensors(values: list[Any]) -> Any:
    pa = pytest.importorskip("pyarrow")
    array = pa.FixedShapeTensorArray.from_numpy_ndarray(np.array(values, "f4"))
    return pa.table({"v": array, "s": ["a", "b", "c"]})


def polars(values: list[Any]) -> Any:
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        {"v": values, "s": ["a", "b", "c"]}, schema={"v": pl.List(pl.Float32), "s": pl.String}
    )


def polars_array(values: list[Any]) -> Any:
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        {"v": values, "s": ["a", "b", "c"]}, schema={"v": pl.Array(pl.Float32, 2), "s": pl.String}
    )


def huggingface(values: list[Any]) -> Any:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features({"v": datasets.List(datasets.Value("float32")), "s": datasets.Value("string")})
    return datasets.Dataset.from_dict({"v": values, "s": ["a", "b", "c"]}, features=kinds).with_format(
        "numpy"
    )


LIBRARIES = [pyarrow, fixed, chunked, tensors, polars, polars_array, huggingface]
every_library = pytest.mark.parametrize("table", LIBRARIES, ids=lambda make: make.__name__)


@every_library
def test_vectors_of_a_table_are_arrays_of_their_own(table: Any) -> None:
    rows = sk.view(table(VECTORS))
    for samples in (list(rows), list(rows._getmany([0, 1, 2])), list(pickle.loads(pickle.dumps(rows)))):
        batch = sk.default_collate(samples)
        assert batch["v"].dtype == np.float32
        assert batch["v"].tolist() == VECTORS
        assert list(batch["s"]) == ["a", "b", "c"]
    row = rows[0]
    row["v"] += 1
    assert rows[0]["v"].tolist() == VECTORS[0]
    loader = sk.DataLoader(table(VECTORS), 3, num_workers=0)
    assert [batch["v"].shape for batch in loader] == [(3, 2)]


@every_library
def test_a_column_of_vectors_is_stacked(table: Any) -> None:
    column = sk.view(table(VECTORS)["v"])
    for samples in (list(column), list(column._getmany([0, 1, 2]))):
        assert sk.default_collate(samples).tolist() == VECTORS


@pytest.mark.parametrize("table", [pyarrow, polars], ids=lambda make: make.__name__)
def test_cells_that_lack_numbers_stay_lists(table: Any) -> None:
    rows = list(sk.view(table([[1.0, 2.0], [3.0, None], None])))
    assert rows[0]["v"].tolist() == [1, 2]
    assert [row["v"] for row in rows[1:]] == [[3.0, None], None]


def test_vectors_of_ints_and_bools_keep_their_dtype_and_texts_are_lists() -> None:
    pa = pytest.importorskip("pyarrow")
    columns = {"i": pa.array([[1, 2]], pa.list_(pa.int8())), "b": [[True]], "w": [["a"]], "m": [[[1]]]}
    row = sk.view(pa.table(columns))[0]
    assert (row["i"].dtype, row["b"].dtype) == (np.int8, np.bool_)
    assert (row["w"], row["m"]) == (["a"], [[1]])
