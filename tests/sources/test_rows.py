"""Batches of tables: the functions that take columns give what they give for dicts."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.views.bases.columns import Rows

N = 11
NAN = float("nan")
Collate = Callable[[Any], Any]


def of_pyarrow() -> Any:
    """Return a table with a column of each type."""
    pa = pytest.importorskip("pyarrow")
    numbers = [i % 4 for i in range(N)]
    floats = [0.1, NAN, float("inf"), -0.0] * N
    vectors = [[1, 2], [3, 4], [5, 6]] * N
    columns: dict[str, tuple[list[Any], Any]] = {
        "key": ([*range(N)], pa.int64()),
        **{str(kind): (numbers, kind) for kind in (pa.int8(), pa.int64(), pa.uint8(), pa.uint32())},
        **{str(kind): (floats, kind) for kind in (pa.float32(), pa.float64())},
        "uint64": (numbers, pa.uint64()),
        "large uint64": ([2**64 - 1] * N, pa.uint64()),
        "float16": ([*map(np.float16, numbers)], pa.float16()),
        "bool": ([True, False] * N, pa.bool_()),
        "ints and None": ([1, None] * N, pa.int64()),
        "floats and None": ([1.5, None] * N, pa.float32()),
        "bools and None": ([True, None] * N, pa.bool_()),
        "nulls": ([None] * N, pa.null()),
        "text": ([*map(str, range(N))], pa.string()),
        "large text": ([*map(str, range(N))], pa.large_string()),
        "text and None": (["a", None] * N, pa.string()),
        "bytes": ([b"a", b"b"] * N, pa.binary()),
        "date": ([date(2026, 1, 31)] * N, pa.date32()),
        "datetime": ([datetime(2026, 1, 31, 5)] * N, pa.timestamp("us")),
        "time": ([time(5, 6)] * N, pa.time64("us")),
        "nanoseconds": ([10**9 + 1] * N, pa.time64("ns")),
        "duration": ([timedelta(1)] * N, pa.duration("us")),
        "decimal": ([decimal.Decimal("1.5")] * N, pa.decimal128(5, 2)),
        "categories": (["a", "b"] * N, pa.dictionary(pa.int8(), pa.string())),
        "categories of ints": (numbers, pa.dictionary(pa.int8(), pa.int16())),
        "vectors": (vectors, pa.list_(pa.int16())),
        "vectors of one length": (vectors, pa.list_(pa.float32(), 2)),
        "ragged": ([[1], [2, 3]] * N, pa.list_(pa.int16())),
        "vectors and None": ([[1], None] * N, pa.list_(pa.int16())),
        "lists of text": ([["a"], ["b"]] * N, pa.list_(pa.string())),
        "structs": ([{"x": 1, "y": "a"}] * N, pa.struct({"x": pa.int16(), "y": pa.string()})),
        "maps": ([[("a", 1)]] * N, pa.map_(pa.string(), pa.int8())),
    }
    return pa.table({name: pa.array(values[:N], kind) for name, (values, kind) in columns.items()})


def chunked() -> Any:
    pa = pytest.importorskip("pyarrow")
    table = of_pyarrow()
    return pa.concat_tables([table.slice(0, 4), table.slice(4)])


def of_pandas() -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(
        {
            "key": range(N),
            "int8": np.arange(N, dtype=np.int8),
            "float32": np.linspace(0, 1, N, dtype=np.float32),
            "missing": [NAN, 1.0] * (N // 2) + [NAN],
            "Int64": pd.array([1, None] * (N // 2) + [3], "Int64"),
            "text": [*map(str, range(N))],
            "objects": [1, "a"] * (N // 2) + [None],
            "categories": pd.Categorical(["a", "b"] * (N // 2) + ["a"]),
            "numbers in categories": pd.Categorical([1, 2] * (N // 2) + [1]),
            "day": pd.date_range("2026-01-31", periods=N),
        }
    )


def of_columns() -> Any:
    """Return a `collate` of arrays and sequences."""
    dates = np.datetime64("2026-01-31") + np.arange(N)
    records = np.array([(i, i / 3) for i in range(N)], [("n", "i2"), ("x", "f8")])
    aligned = np.zeros(N, np.dtype([("n", "i1"), ("x", ">f8")], align=True))
    columns: dict[str, Any] = {
        "key": np.arange(N),
        **{code: np.arange(N).astype(code) for code in ("?", "i1", "u8", "f2", "f4", ">f8", "c8")},
        "images": np.arange(N * 6.0).reshape(N, 2, 3),
        "swapped": np.ones((N, 3), ">i4"),
        "dates": dates,
        "durations": dates - dates[0],
        "records": records,
        "aligned": aligned,
        "text": np.array([*map(str, range(N))]),
        "objects": np.array([1, "a"] * N, object)[:N],
        "empty": np.zeros((N, 0)),
        "masked": np.ma.masked_equal(np.arange(N), 3),
        "list": [1, 2.5] * (N // 2) + [3],
        "range": range(N),
        "letters": "abcdefghijk",
        "map": sk.smap(lambda i: np.full(2, i, np.int16), range(N)),
        "ragged": sk.smap(np.zeros, range(N)),
        "dicts": sk.smap(lambda i: {"x": i, "y": {"z": str(i)}}, range(N)),
    }
    return sk.collate(columns)


def kinds_of_text(batch: Any) -> Any:
    """Return a batch with the types and dtypes of all its parts, for comparison."""
    if isinstance(batch, dict):
        return [(name, kinds_of_text(part)) for name, part in batch.items()]
    if isinstance(batch, list | tuple):
        return type(batch).__name__, [*map(kinds_of_text, batch)]
    dtype = getattr(batch, "dtype", None)
    numbers = batch.tolist() if dtype is not None else batch
    mask = np.ma.getmaskarray(batch).tolist() if isinstance(batch, np.ma.MaskedArray) else None
    return type(batch).__name__, str(dtype), getattr(batch, "shape", None), mask, repr(numbers)


def outcomes(batches: Iterable[Any]) -> list[Any]:
    """Return each batch, or the type and text of its error."""
    found: list[Any] = []
    iterator = iter(batches)
    while True:
        try:
            found.append(kinds_of_text(next(iterator)))
        except StopIteration:
            return found
        except Exception as error:
            cause = error.__cause__ or error
            found.append((type(cause).__name__, str(cause), getattr(cause, "__notes__", [])))


def same(table: Any) -> Any:
    return table


def changed(rows: dict[str, Any]) -> dict[str, Any]:
    rows.update(added=len(rows))
    return rows


class Doubling(sk.View[Any]):
    """A view that changes the rows that its source has read, and returns the same sequence."""

    def __init__(self, source: Any) -> None:
        super().__init__((source,))

    def _get(self, i: int) -> Any:
        return self._getmany([i])[0]

    def _getmany(self, indices: Any) -> Any:
        rows = self._sources[0]._getmany(indices)
        for row in rows:
            row.update((name, [value, value]) for name, value in row.items())
        return rows

    def _rebuild(self, sources: Any) -> sk.View[Any]:
        return Doubling(sources[0])


def names(view: Any) -> list[str]:
    return [*view._column_names()]


WAYS: dict[str, Callable[[Any], sk.View[Any]]] = {
    "view": same,
    "reversed": lambda table: table[::-1],
    "shuffle": lambda table: sk.shuffle(table, seed=1),
    "gather": lambda table: sk.gather(table, [3, 3, 0, 10, 5]),
    "gather by a view": lambda table: sk.gather(table, sk.smap(abs, [-3, 3, 0])),
    "concatenate": lambda table: sk.concatenate([table, table[:3]]),
    "mix": lambda table: sk.mix([table, table[::-1]], seed=0),
    "other columns": lambda table: sk.concatenate([table[:2], sk.collate(other=[1, 2, 3])]),
    "columns in another order": lambda table: sk.concatenate([table[:2], table.select(*names(table)[::-1])]),
    "dicts": lambda table: sk.concatenate([table[:2], sk.view([{"other": 1}]), table]),
    "smap": lambda table: sk.smap(changed, table),
    "random_map": lambda table: sk.random_map(lambda row, rng: changed(row), table, seed=0),
    "changed in place": Doubling,
    "add_cache": sk.add_cache,
    "fallback": lambda table: sk.fallback(lambda error: 0, table),
    "prefetch below": lambda table: sk.prefetch(table, 2),
}


def as_dicts(collate: Collate) -> Collate:
    return lambda rows: collate([dict(row) if isinstance(row, dict) else row for row in rows])


def function(library: str) -> Collate:
    """Return the `default_collate` of seqkit, or that of seqkit.torch."""
    if library == "numpy":
        return sk.default_collate
    pytest.importorskip("torch")
    from seqkit.torch import default_collate

    return default_collate


def check(view: Any, collate: Collate, about: str) -> None:
    fast = outcomes(sk.batch(view, 4, collate_fn=collate))
    assert fast == outcomes(sk.batch(view, 4, collate_fn=as_dicts(collate))), about
    singly = sk.smap(lambda i: view[i], range(len(view)))
    assert fast == outcomes(sk.batch(singly, 4, collate_fn=collate)), about


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", [of_pyarrow, chunked, of_pandas, of_columns])
def test_batches_of_columns_are_those_of_dicts(make: Any, way: Any, library: str) -> None:
    table: Any = sk.view(make())
    for name in names(table)[1:]:
        check(way(table.select(name, "key")), function(library), name)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_batches_of_files_are_those_of_dicts(library: str, tmp_path: Path) -> None:
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    table = of_pyarrow().drop_columns(["float16"])  # which Parquet does not have
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    feather.write_feather(table, str(tmp_path / "a.feather"))
    np.savez(tmp_path / "a.npz", key=np.arange(N, dtype=np.int8), x=np.arange(N * 2.0).reshape(N, 2))
    with open(tmp_path / "a.csv", "w") as file:
        file.write("key,text,missing,x\n" + "".join(f"{i},t{i},{i or ''},{i / 2}\n" for i in range(N)))
    for path in sorted(tmp_path.iterdir()):
        view: Any = sk.read(path)
        for name in names(view)[1:]:
            for way in ("view", "shuffle", "concatenate", "smap"):
                check(WAYS[way](view.select(name, "key")), function(library), f"{path.name}: {name}")


def test_workers_and_loaders_deliver_the_same_batches() -> None:
    torch = pytest.importorskip("seqkit.torch")
    table = of_pyarrow().select(["key", "int8", "text", "vectors", "structs"])
    for module, library in ((sk, "numpy"), (torch, "torch")):
        plain = as_dicts(function(library))
        for options in ({"shuffle": True, "seed": 0}, {"sampler": [5, 3, 3]}, {"num_workers": 2}):
            batches = outcomes(module.DataLoader(table, 4, **options))
            assert batches == outcomes(module.DataLoader(table, 4, collate_fn=plain, **options))
        batches = outcomes(module.DataLoader(table, batch_sampler=[[5, 3], [0]]))
        assert batches == outcomes(module.DataLoader(table, batch_sampler=[[5, 3], [0]], collate_fn=plain))


@pytest.mark.parametrize("make", [of_pyarrow, of_pandas, of_columns])
def test_no_dicts_are_made_where_columns_are_taken(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = sk.view(make()).select("key", "text")
    monkeypatch.setattr(Rows, "_rows", None)
    for view in (table, table[::-1], sk.shuffle(table, seed=0), sk.concatenate([table, table])):
        assert len(sk.batch(view, 4, collate_fn=sk.default_collate)[1]["key"]) == 4
    assert len(list(sk.DataLoader(table, 4, shuffle=True, seed=0))) == 3
    assert len(list(sk.DataLoader(table, batch_sampler=[[1], [2, 3]]))) == 2


def test_functions_of_users_get_a_list_of_dicts() -> None:
    table = of_pyarrow().select(["key", "text"])
    for batch in (sk.batch(table, 2)[1], sk.batch(table, 2, collate_fn=lambda rows: rows)[1]):
        assert batch == [{"key": 2, "text": "2"}, {"key": 3, "text": "3"}]
        assert type(batch) is list
        assert {type(row) for row in batch} == {dict}
        assert type(batch[0]["key"]) is int


def test_rows_that_were_changed_are_collated_as_they_are() -> None:
    table = sk.collate(x=[1, 2, 3], y="abc")
    batch = sk.batch(Doubling(table), 2, collate_fn=sk.default_collate)[0]
    assert [part.tolist() for part in batch["x"]] == [[1, 2], [1, 2]]
    assert batch["y"] == [["a", "b"], ["a", "b"]]


def test_a_rule_of_the_user_for_dicts_gets_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    collate = function("torch")
    from torch.utils.data._utils.collate import default_collate_fn_map

    monkeypatch.setitem(default_collate_fn_map, dict, lambda batch, *, collate_fn_map: batch)
    assert sk.batch(of_pyarrow().select(["key"]), 2, collate_fn=collate)[0] == [{"key": 0}, {"key": 1}]
