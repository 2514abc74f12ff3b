"""Objects whose `[i]` does not mean item i are read by position, or refused with what to use."""

from __future__ import annotations

import subprocess
import sys
from collections import UserDict, defaultdict
from collections.abc import Callable
from itertools import islice
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
        with pytest.raises(TypeError, match=r"open for writing\. Use sources\.hdf5"):
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
    with pytest.raises(TypeError, match="this DatasetDict has other keys, such as 'train'"):
        sk.view(datasets.DatasetDict({"train": data}))


def test_numbers_of_a_categorical_column_have_one_type() -> None:
    pd = pytest.importorskip("pandas")
    column = pd.Series([1, 2, 1], dtype="category")
    for view in (sk.view(column), sk.smap(lambda row: row["a"], pd.DataFrame({"a": column}))):
        single, many = [*map(view.__getitem__, range(3))], list(view.__getitems__([0, 1, 2]))
        assert [*map(type, single)] == [*map(type, many)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {1, 2}, r"batch: a set has no order, got set. Use sorted\(s\)"),
        (lambda: frozenset([1]), r"batch: a set has no order, got frozenset"),
        (
            lambda: (i for i in "ab"),
            r"got generator. Make a list of it, or pass it to uniter",
        ),
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


class IntList(list[int]):
    pass


def torch_tensor(items: list[int]) -> Any:
    return pytest.importorskip("torch").tensor(items)


class Rows:
    """A data set that is read in batches."""

    def __init__(self) -> None:
        self.singles = self.batches = 0

    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> Any:
        self.singles += 1
        return i

    def __getitems__(self, indices: list[int]) -> Any:
        self.batches += 1
        return list(indices)


class Longer(Rows):
    def __len__(self) -> int:
        return 20


class Faster(Rows):
    def __getitems__(self, indices: list[int]) -> Any:
        self.batches += 1
        return np.asarray(indices)


class Scaled(Rows):
    def __getitem__(self, i: int) -> Any:
        return 10.0 * super().__getitem__(i)


class Mixed(Scaled):
    """Its `__getitem__` is that of a class derived from the one with `__getitems__`."""


class Again(Scaled):
    def __getitems__(self, indices: list[int]) -> Any:
        self.batches += 1
        return [self[i] for i in indices]


class Single(Rows):
    __getitems__ = None  # type: ignore[assignment]


class Wrapper:
    """Forwards what it does not have, as wrappers of tables do."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, i: int) -> Any:
        return 10.0 * self.inner[i]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)


class Added(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.__getitems__ = super().__getitems__  # type: ignore[method-assign]


KINDS: list[tuple[Any, bool]] = [
    (Rows, True),
    (Longer, True),
    (Faster, True),
    (Again, True),
    (Scaled, False),
    (Mixed, False),
    (Single, False),
    (Added, False),
    (lambda: Wrapper(Rows()), False),
    (lambda: Wrapper(Wrapper(Again())), False),
]


@pytest.mark.parametrize(("make", "is_read_at_once"), KINDS)
def test_a_batch_is_read_in_one_call_if_that_gives_the_items(make: Any, is_read_at_once: bool) -> None:
    data, other = make(), make()
    wanted = [other[i] for i in range(6)]
    readers: list[Any] = [
        sk.batch(sk.view(data), 3),
        sk.batch(sk.sources.per_process(lambda: data), 3)[:2],
        sk.DataLoader(data, 3, collate_fn=list),
        sk.DataLoader(data, 3, sampler=range(6), collate_fn=list),
        sk.DataLoader(data, batch_sampler=[[0, 1, 2], [3, 4, 5]], collate_fn=list),
    ]
    for reader in readers:
        data.batches = data.singles = 0
        found = [item for batch in islice(reader, 2) for item in batch]
        assert found == wanted
        assert {type(item) for item in found} <= {type(wanted[0]), np.int64}
        assert (data.batches == 2) is is_read_at_once
        assert not (is_read_at_once and data.singles and make is not Again)


def test_a_data_set_may_be_readable_in_batches_only() -> None:
    class Table(Rows):
        def __getitem__(self, i: int) -> Any:
            raise NotImplementedError

        def __getitems__(self, indices: list[int]) -> Any:
            if 5 in indices:
                raise OSError("no such row")
            return list(indices)

    view = sk.batch(sk.view(Table()), 5)
    assert view[0] == [0, 1, 2, 3, 4]
    with pytest.raises(sk.EvaluationError, match=r"\[5\] failed: NotImplementedError"):
        view[1]


NO_RESULTS: list[tuple[Any, str]] = [
    (lambda items: {"x": items}, "a dict, not a list"),
    (lambda items: UserDict(zip(items, items, strict=True)), "a UserDict, not a list"),
    (lambda items: (items, items), "a tuple, not a list"),
    (lambda items: tuple(items), "a tuple, not a list"),
    (lambda items: set(items), "a set, not a list"),
    (lambda items: dict.fromkeys(items).keys(), "a dict_keys, not a list"),
    (lambda items: "ab", "a str, not a list"),
    (lambda items: (item for item in items), "a generator, not a list"),
    (lambda items: range(len(items)), "a range, not a list"),
    (lambda items: sk.view(items), "a Source, not a list"),
    (lambda items: None, "a NoneType, not a list"),
    (lambda items: np.array(3), "a ndarray, not a list"),
    (lambda items: pytest.importorskip("pandas").Series(items), "a Series, not a list"),
    (lambda items: pytest.importorskip("pandas").DataFrame({"x": items}), "a DataFrame, not a list"),
    (lambda items: pytest.importorskip("polars").Series(items), "a Series, not a list"),
    (lambda items: pytest.importorskip("pyarrow").array(items), "Array, not a list"),
    (lambda items: [*items, 0], "[0-9]+ items for [0-9]+"),
    (lambda items: [item for item in items if item % 2], "[0-9]+ items for [0-9]+"),
    (lambda items: np.zeros((len(items) + 1, 1)), "[0-9]+ items for [0-9]+"),
]


def readers_of(view: Any) -> list[Callable[[], Any]]:
    return [
        lambda: view[2],
        lambda: list(view),
        lambda: next(iter(view)),
        lambda: sk.batch(view, 2)[1],
        lambda: list(sk.DataLoader(view, 2, collate_fn=list)),
        lambda: list(sk.DataLoader(view, 2, sampler=[2, 4], collate_fn=list)),
        lambda: np.asarray(view),
        lambda: list(sk.prefetch(view, 1, "thread")),
        lambda: list(sk.smap(repr, view)),
    ]


@pytest.mark.parametrize(("f", "message"), NO_RESULTS)
def test_what_is_no_list_of_results_is_refused_however_it_is_read(f: Any, message: str) -> None:
    class Table(Rows):
        def __getitems__(self, indices: list[int]) -> Any:
            return f(indices)

    f.__name__ = "columns"
    for view in (sk.view(Table()), sk.sources.per_process(Table)):
        with pytest.raises(sk.EvaluationError, match=f"__getitems__ returned .*{message}"):
            sk.batch(view, 2)[0]


@pytest.mark.parametrize(
    "f",
    [list, np.asarray, lambda items: torch_tensor(items), IntList],
)
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


def test_sparse_matrices_and_lazy_frames_are_refused_when_the_view_is_built() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    for make in (sparse.csr_matrix, sparse.csr_array, sparse.coo_array):
        with pytest.raises(TypeError, match=r"^view: a scipy\.\w+ is not a sequence .* smap\(lambda i"):
            sk.view(make(np.eye(3)))
    pd, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=1)
    for lazy in (frame, frame["a"], frame["a"].to_dask_array()):
        with pytest.raises(TypeError, match=r"^batch: a dask\.\w+ is not a sequence .* Call \.compute\(\)"):
            sk.batch(lazy, 2)
