"""`select` of every table: only the named columns are read."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

ROWS = [{"name": f"n{i}", "x": i, "y": i * 10} for i in range(6)]


def columns() -> dict[str, Any]:
    return {key: [row[key] for row in ROWS] for key in ROWS[0]}


def in_memory(library: str) -> Callable[[Path], sk.View[Any]]:
    def make(folder: Path) -> sk.View[Any]:
        module = pytest.importorskip(library)
        if library == "pyarrow":
            return sk.view(module.table(columns()))
        if library == "datasets":
            return sk.view(module.Dataset.from_dict(columns()))
        return sk.view(module.DataFrame(columns()))

    return make


def csv(folder: Path) -> sk.View[Any]:
    pytest.importorskip("pyarrow")
    lines = [",".join(ROWS[0]), *(",".join(map(str, row.values())) for row in ROWS)]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return sk.read(folder / "a.csv")


def parquet(folder: Path) -> sk.View[Any]:
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pytest.importorskip("pyarrow").table(columns()), folder / "a.parquet", row_group_size=2)
    return sk.read(folder / "a.parquet")


def feather(folder: Path) -> sk.View[Any]:
    library = pytest.importorskip("pyarrow.feather")
    library.write_feather(pytest.importorskip("pyarrow").table(columns()), str(folder / "a.feather"))
    return sk.read(folder / "a.feather")


def several_files(folder: Path) -> sk.View[Any]:
    library = pytest.importorskip("pyarrow.feather")
    table = pytest.importorskip("pyarrow").table(columns())
    for k in range(2):
        library.write_feather(table.slice(3 * k, 3), str(folder / f"{k}.feather"))
    return sk.read(folder / "*.feather")


def sqlite(folder: Path) -> sk.View[Any]:
    database = sqlite3.connect(folder / "a.db")
    database.execute("CREATE TABLE t (name, x, y)")
    database.executemany("INSERT INTO t VALUES (:name, :x, :y)", ROWS)
    database.commit()
    database.close()
    return sources.sqlite(folder / "a.db", "t")


def npz(folder: Path) -> sk.View[Any]:
    np.savez(folder / "a.npz", **{key: np.array(values) for key, values in columns().items()})
    return sk.read(folder / "a.npz")


def hdf5(folder: Path) -> sk.View[Any]:
    with pytest.importorskip("h5py").File(folder / "a.h5", "w") as file:
        for key in ("x", "y"):
            file[key] = columns()[key]
        file["name"] = [name.encode() for name in columns()["name"]]
    return sk.read(folder / "a.h5")


def huggingface(folder: Path) -> sk.View[Any]:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(columns()).save_to_disk(folder / "a")
    return sk.read(folder / "a", open_fn=datasets.load_from_disk)


def by_hand(folder: Path) -> sk.View[Any]:
    return sk.per_process(lambda: pytest.importorskip("pandas").DataFrame(columns()))


TABLES: dict[str, Callable[[Path], sk.View[Any]]] = {
    **{library: in_memory(library) for library in ("pandas", "polars", "pyarrow", "datasets")},
    **{
        make.__name__: make for make in (csv, parquet, feather, several_files, sqlite, npz, hdf5, huggingface)
    },
    "per_process": by_hand,
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_selected_from_every_table(name: str, tmp_path: Path) -> None:
    view: Any = TABLES[name](tmp_path)
    assert list(view.select("x")) == [row["x"] for row in ROWS]
    assert list(view.select("y", "x")) == [{"y": row["y"], "x": row["x"]} for row in ROWS]
    assert list(view.select("x")._getmany([5, 0, 0])) == [5, 0, 0]
    assert list(sk.shuffle(view, seed=0).select("x")) == [row["x"] for row in sk.shuffle(view, seed=0)]
    assert list(view[::-2].select("x")) == [5, 3, 1]
    for selected in (view.select("x"), view.select("x", "y")):
        assert list(selected) == list(selected._getmany(range(6)))
        if name != "per_process":
            assert list(pickle.loads(pickle.dumps(selected))) == list(selected)
    with pytest.raises(ValueError, match=r"select: names must be some of \[.*'x'.*\], got \['z'\]"):
        view.select("z")


def test_parquet_decodes_the_selected_columns_only(tmp_path: Path) -> None:
    view: Any = parquet(tmp_path)
    library = pytest.importorskip("pyarrow.parquet")
    read, found = library.ParquetFile.read_row_group, []

    def noting(self: Any, number: int, columns: Any = None, **options: Any) -> Any:
        found.append(columns)
        return read(self, number, columns=columns, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.ParquetFile, "read_row_group", noting)
        assert list(view.select("x")) == list(range(6))
    assert found == [["x"]] * 3


def test_rows_without_names_have_no_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    view: Any = sk.read(tmp_path / "a.npz")
    with pytest.raises(TypeError, match="have no named columns"):
        view.select("x")
