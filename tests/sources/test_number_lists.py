"""Columns of tables that are vectors: batches of them are arrays, with the dtype of the column."""

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


def pandas(values: list[Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame({"v": values, "s": ["a", "b", "c"]})


def huggingface(values: list[Any]) -> Any:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features({"v": datasets.List(datasets.Value("float32")), "s": datasets.Value("string")})
    return datasets.Dataset.from_dict({"v": values, "s": ["a", "b", "c"]}, features=kinds)


LIBRARIES = [pyarrow, fixed, chunked, tensors, polars, polars_array, pandas, huggingface]
every_library = pytest.mark.parametrize("table", LIBRARIES, ids=lambda make: make.__name__)


@every_library
def test_vectors_of_a_table_are_stacked(table: Any) -> None:
    made = table(VECTORS)
    expected = np.array(VECTORS, np.float64 if table is pandas else np.float32)
    rows = sk.view(made)
    for samples in (list(rows), list(rows._getmany([0, 1, 2])), list(pickle.loads(pickle.dumps(rows)))):
        batch = sk.default_collate(samples)
        assert batch["v"].dtype == expected.dtype
        assert batch["v"].tolist() == expected.tolist()
        assert batch["s"] == ["a", "b", "c"]
        assert sk.Dict({"v": sk.Stack()}, extra="drop")(samples)["v"].tolist() == expected.tolist()
    loader = sk.DataLoader(made, 3, num_workers=0)
    assert [batch["v"].shape for batch in loader] == [(3, 2)]


@every_library
def test_a_column_of_vectors_is_stacked(table: Any) -> None:
    column = sk.view(table(VECTORS)["v"])
    for samples in (list(column), list(column._getmany([0, 1, 2]))):
        assert sk.default_collate(samples).tolist() == VECTORS


@every_library
def test_cells_are_lists_as_before(table: Any) -> None:
    if table is tensors:
        return
    row = sk.view(table(VECTORS))[1]
    assert row == {"v": [3.0, 4.0], "s": "b"}
    assert row["v"] + [0] == [3.0, 4.0, 0]
    assert isinstance(row["v"], list)


@pytest.mark.parametrize("table", [pyarrow, polars, pandas, huggingface], ids=lambda make: make.__name__)
def test_cells_that_differ_in_length_or_lack_numbers_are_refused(table: Any) -> None:
    rows = list(sk.view(table([[1.0, 2.0], [3.0], [4.0, 5.0]])))
    with pytest.raises(ValueError, match=r"batch\[1\]\['v'\] .*\(1,\), batch\[0\]\['v'\] .*\(2,\)"):
        sk.default_collate(rows)
    assert sk.Dict({"v": sk.Pad()}, extra="drop")(rows)["v"].tolist() == [[1, 2], [3, 0], [4, 5]]
    rows = list(sk.view(table([[1.0, 2.0], [3.0, None], [4.0, 5.0]])))
    with pytest.raises((TypeError, ValueError), match=r"batch\[1\]\['v'\]"):
        sk.default_collate(rows)


def test_matrices_are_stacked_and_text_is_not() -> None:
    pa = pytest.importorskip("pyarrow")
    rows = list(sk.view(pa.table({"m": [[[1, 2], [3, 4]]] * 2, "w": [["a", "b"]] * 2})))
    batch = sk.default_collate(rows)
    assert batch["m"].shape == (2, 2, 2)
    assert batch["w"] == [["a", "a"], ["b", "b"]]


def test_lists_of_other_sources_are_taken_apart_as_in_pytorch() -> None:
    assert [part.tolist() for part in sk.default_collate(VECTORS)] == [[1.5, 3.0, 5.0], [2.0, 4.0, 6.0]]
