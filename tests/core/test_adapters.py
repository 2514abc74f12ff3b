"""Objects whose `[i]` does not mean item i are read by position, or refused with what to use."""

from __future__ import annotations

import random
import subprocess
import sys
import tarfile
import zipfile
from collections import UserDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk


def test_labels_of_a_shuffled_frame_do_not_matter() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"path": [f"{i}.png" for i in range(20)], "label": range(20)})
    mixed = frame.sample(frac=1, random_state=0)
    assert [*mixed.index] != [*range(20)]
    pairs = sk.collate([mixed["path"], mixed["label"]])
    assert [*pairs] == [(f"{label}.png", label) for label in mixed["label"].tolist()]
    assert [pairs[i] for i in range(20)] == [*pairs]
    assert [item for batch in sk.batch(pairs, 3) for item in batch] == [*pairs]
    rows = sk.view(mixed)
    assert [rows[i] for i in (0, -1)] == [mixed.iloc[i].to_dict() for i in (0, -1)]
    assert [row["label"] for row in rows[::-1]] == mixed["label"].tolist()[::-1]


def test_values_of_a_frame_keep_their_types() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "small": np.arange(3, dtype=np.int8),
            "half": np.arange(3, dtype=np.float32),
            "day": pd.date_range("2020-01-01", periods=3),
            "kind": pd.Categorical(["a", "b", "a"]),
            "maybe": pd.array([1, None, 3], dtype="Int64"),
        }
    )
    for row in (sk.view(frame)[1], sk.view(frame).__getitems__([2, 1])[1]):
        assert (type(row["small"]), type(row["half"])) == (np.int8, np.float32)
        assert row["day"] == pd.Timestamp("2020-01-02")
        assert row["kind"] == "b"
        assert row["maybe"] is pd.NA


def test_empty_frames_and_frames_without_columns() -> None:
    pd = pytest.importorskip("pandas")
    assert [*sk.view(pd.DataFrame({"a": []}))] == []
    bare = sk.view(pd.DataFrame(index=range(3)))
    assert [*bare] == [{}, {}, {}]
    assert bare.__getitems__([0, 2]) == [{}, {}]


def test_columns_with_one_name_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="need different names, got 'a' twice"):
        sk.view(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_frame_of_polars_is_read_in_a_forked_process_after_its_threads_began() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": np.arange(20_000), "b": [f"x{i}" for i in range(20_000)]})
    frame.group_by("a").len().sort("a")
    with sk.batch(frame, 4096).prefetch(1, "process", context="fork", timeout=30) as ahead:
        assert [row["a"] for batch in ahead for row in batch] == [*range(20_000)]


def test_a_batch_of_rows_is_one_call() -> None:
    pa = pytest.importorskip("pyarrow")
    from seqkit.sources.arrow import ArrowRows

    calls = []

    class Counting:
        schema = pa.schema([("a", pa.int64())])
        num_rows = 9
        columns = (pa.array(range(9)),)

        def take(self, indices: Any) -> Any:
            calls.append(list(indices))
            return pa.table({"a": indices})

    view = sk.batch(ArrowRows(Counting()), 3)
    assert view[1] == [{"a": 3}, {"a": 4}, {"a": 5}]
    assert calls == [[3, 4, 5]]


def test_array_without_len_has_the_length_of_its_first_axis() -> None:
    class Chunked:
        shape = (5, 2)

        def __getitem__(self, i: int) -> int:
            return i

    assert len(sk.view(Chunked())) == 5
    assert [*sk.view(Chunked())[::2]] == [0, 2, 4]


def test_zarr_array_has_a_length() -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.array(np.arange(10).reshape(5, 2))
    view = sk.view(array)
    assert len(view) == 5
    assert view[-1].tolist() == [8, 9]
    assert [row.tolist() for row in sk.batch(view, 2)[1]] == [[4, 5], [6, 7]]


def test_h5py_dataset_is_read_in_any_order_and_goes_to_spawned_workers(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(40).reshape(20, 2)
        with pytest.raises(TypeError, match=r"opened with mode 'r\+'. Use sources.hdf5"):
            sk.view(file["x"]).prefetch(1, "process", context="spawn").start()
    with h5py.File(tmp_path / "a.h5") as file:
        view = sk.view(file["x"])
        assert [row.tolist() for row in view.__getitems__([3, 1, 3])] == [[6, 7], [2, 3], [6, 7]]
        with sk.shuffle(view, seed=0).prefetch(1, "process", context="spawn") as ahead:
            assert [row[0] // 2 for row in ahead] == [*sk.shuffle(range(20), seed=0)]


def test_data_sets_of_hugging_face_are_read_by_position() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list([{"a": i} for i in range(9)])
    assert sk.view(data)[-1] == {"a": 8}
    assert sk.batch(data, 4)[1] == [{"a": i} for i in range(4, 8)]
    assert [*sk.batch(sk.view(data["a"]), 4)[1]] == [4, 5, 6, 7]
    with pytest.raises(TypeError, match=r"Choose a split, such as data\['train'\]"):
        sk.view(datasets.DatasetDict({"train": data}))


def test_numbers_of_a_categorical_column_have_one_type() -> None:
    pd = pytest.importorskip("pandas")
    column = pd.Series([1, 2, 1], dtype="category")
    for view in (sk.view(column), sk.smap(lambda row: row["a"], pd.DataFrame({"a": column}))):
        single, many = [*map(view.__getitem__, range(3))], list(view.__getitems__([0, 1, 2]))
        assert [*map(type, single)] == [*map(type, many)]


def test_handles_of_pyarrow_are_refused_with_what_to_use(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.dataset
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pyarrow.parquet.ParquetFile(tmp_path / "a.parquet") as file:
        for opened in (file, pyarrow.dataset.dataset(tmp_path / "a.parquet")):
            with pytest.raises(TypeError, match=r"Use sources\.parquet"):
                sk.view(opened)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {1, 2}, r"batch: a set has no order, got set. Use sorted\(s\)"),
        (lambda: frozenset([1]), r"batch: a set has no order, got frozenset"),
        (lambda: (i for i in "ab"), r"batch: a generator can be read only once .* Use list\(generator\)"),
        (
            lambda: {"a": 1},
            r"this dict has other keys, such as 'a'. For a dict of columns use collate\(d\), for a",
        ),
        (lambda: UserDict({"a": 1}), "this UserDict has other keys"),
    ],
)
def test_an_object_without_positions_is_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sk.batch(make(), 2)


def test_dicts_that_can_be_read_at_0_1_2_are_sequences() -> None:
    assert [*sk.view({0: "a", 1: "b"})] == ["a", "b"]
    assert [*sk.view({})] == []
    assert sk.view(defaultdict(int, {5: 1}))[0] == 0


def test_dict_with_a_sampler_of_its_keys_is_read() -> None:
    loader = sk.DataLoader({"a": 1, "b": 2}, 2, sampler=["b", "a"])
    assert [batch.tolist() for batch in loader] == [[2, 1]]


def test_open_archives_are_refused_with_the_function_to_use(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive, tarfile.open(tmp_path / "a.tar", "w") as tar:
        for opened, function in ((archive, "zip_members"), (tar, "tar_members")):
            with pytest.raises(TypeError, match=f"Use sources.{function}"):
                sk.view(opened)


def test_lists_arrays_and_data_sets_import_no_sources() -> None:
    code = """
import sys, numpy as np, seqkit as sk

class Data:
    def __len__(self): return 3
    def __getitem__(self, i): return i

for data in ([1], (1,), "ab", np.zeros(3), range(3), Data(), {0: 1}):
    sk.batch(data, 2)[0]
assert not [name for name in sys.modules if name.startswith("seqkit.sources")]
libraries = {"pandas", "polars", "pyarrow", "h5py", "zarr", "datasets", "sqlite3", "zipfile"}
assert not libraries & {*sys.modules}, libraries & {*sys.modules}
from seqkit import sources
assert not libraries & {*sys.modules}, libraries & {*sys.modules}
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr


def test_rooms_are_attributes_of_the_package_and_imported_when_they_are_used() -> None:
    code = """
import sys, seqkit as sk
rooms = ["observe", "sources", "testing"]
assert not [name for name in rooms if f"seqkit.{name}" in sys.modules]
assert {*rooms, "torch"} <= {*dir(sk)}
for name in rooms:
    assert getattr(sk, name) is sys.modules[f"seqkit.{name}"]
sys.modules["torch"] = None  # as if it were not installed
assert not hasattr(sk, "torch")
try:
    sk.torch
except AttributeError as error:
    assert "torch" in str(error.__cause__), error
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr


# -------------------------------------------------------------------- `__getitems__`


class Rows:
    """A data set whose batches may hold something else than its items."""

    def __init__(self, one: Any, in_a_batch: Any) -> None:
        self.one = one
        self.in_a_batch = in_a_batch
        self.singles = self.batches = 0

    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> Any:
        self.singles += 1
        return self.one(i)

    def __getitems__(self, indices: list[int]) -> Any:
        self.batches += 1
        return [self.in_a_batch(i) for i in indices]


ALIKE: list[tuple[Any, Any]] = [
    (int, int),
    (np.float32, np.float32),
    (lambda i: {"x": i, "name": "a"}, lambda i: {"name": "a", "x": i}),
    (lambda i: (np.arange(i), i), lambda i: (np.arange(i), i)),
    (lambda i: [i] * i, lambda i: [i] * i),
    (lambda i: [i] * np.random.randint(9), lambda i: [i] * np.random.randint(9)),
]
UNLIKE: list[tuple[Any, Any]] = [
    (int, float),
    (int, np.int64),
    (lambda i: (i, i), lambda i: [i, i]),
    (lambda i: (i, i), lambda i: (i, i, i)),
    (lambda i: {"x": i}, lambda i: {"y": i}),
    (lambda i: {"x": i}, lambda i: {"x": np.int64(i)}),
    (lambda i: {"x": (i, "a")}, lambda i: {"x": (i, b"a")}),
    (lambda i: UserDict({"x": i}), lambda i: {"x": i}),
    (lambda i: np.array([i]), lambda i: np.array([i]).view(np.recarray)),
    (lambda i: np.array([i]), lambda i: np.array([i], np.float32)),
    (lambda i: np.array([i]), lambda i: np.array([[i]])),
    (lambda i: [i], lambda i: [float(i)]),
]


@pytest.mark.parametrize(("one", "in_a_batch"), [*ALIKE[:-1], *UNLIKE])
def test_what_a_process_opens_is_read_as_the_object_itself(one: Any, in_a_batch: Any) -> None:
    opened = sk.sources.per_process(lambda: Rows(one, in_a_batch))
    assert str(list(sk.batch(opened, 5))) == str(list(sk.batch(sk.view(Rows(one, in_a_batch)), 5)))
    assert str(opened[1:4:2].prefetch(1, "thread")[1]) == str(one(3))


def test_a_batch_of_columns_is_refused_also_in_what_a_process_opens() -> None:
    class Table(Rows):
        def __getitems__(self, indices: list[int]) -> Any:
            return {"x": indices}

    for view in (sk.view(Table(int, int)), sk.sources.per_process(lambda: Table(int, int))):
        with pytest.raises(sk.EvaluationError, match="__getitems__ returned a dict, not a list of 2 items"):
            sk.batch(view, 2)[0]


@pytest.mark.parametrize(("one", "in_a_batch"), ALIKE)
def test_batches_that_hold_the_items_are_read_at_once(one: Any, in_a_batch: Any) -> None:
    data = Rows(one, in_a_batch)
    assert len(list(sk.batch(sk.view(data), 5))) == 2
    assert (data.singles, data.batches) == (1, 2)  # one item, to compare


@pytest.mark.parametrize(("one", "in_a_batch"), UNLIKE)
def test_batches_that_hold_something_else_are_read_item_by_item(one: Any, in_a_batch: Any) -> None:
    data = Rows(one, in_a_batch)
    view = sk.view(data)
    for batch in sk.batch(view, 5):
        assert {type(item) for item in batch} == {type(one(1))}
    assert str(sk.batch(view, 5)[1]) == str([one(i) for i in range(5, 10)])
    assert data.batches == 1
    with sk.DataLoader(data, 5, collate_fn=str) as loader:
        assert list(loader) == [str([one(i) for i in range(first, first + 5)]) for first in (0, 5)]


def test_a_data_set_that_is_read_in_batches_only_is_believed() -> None:
    def fail(i: int) -> int:
        raise NotImplementedError

    assert list(sk.batch(sk.view(Rows(fail, int)), 5)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_the_comparison_leaves_the_global_generators_where_they_are() -> None:
    torch = pytest.importorskip("torch")

    def draw(i: int) -> tuple[float, float, float]:
        return random.random(), np.random.random(), torch.rand(1).item()

    def drawn(data: Any) -> list[Any]:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        return [sk.view(data)._getmany([0, 1]), draw(0)]

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = [draw(0), draw(1), draw(0)]
    assert drawn(Rows(draw, draw)) == [expected[:2], expected[2]]


class FailsAtFour:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 4:
            raise KeyError("row 4 is broken")
        return i

    def __getitems__(self, indices):
        return [self[i] for i in indices]


@pytest.mark.parametrize("build", [sk.view, lambda rows: sk.sources.per_process(lambda: rows)])
def test_an_error_of_many_items_names_the_one_that_fails(build):
    with pytest.raises(sk.EvaluationError, match=r"\[4\] failed: KeyError: 'row 4 is broken'") as caught:
        sk.batch(build(FailsAtFour()), 6)[0]
    with pytest.raises(sk.EvaluationError, match=r"\[4\]"):
        caught.value.view[caught.value.index]
