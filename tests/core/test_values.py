"""The values of the user are read by position, and are plain Python values: every place, with every type."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqkit as sk
from seqkit import samplers, sources
from seqkit.core.plain import as_index, is_flag, plain
from seqkit.core.values import by_position, values_of
from seqkit.samplers.keys import as_lengths

from ..helpers import for_each

pa: Any = pytest.importorskip("pyarrow")
pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
torch: Any = pytest.importorskip("torch")

# -------------------------------------------------------------------- the types


def backwards(values: list[Any]) -> Any:
    return pd.Series(values, index=range(len(values))[::-1])


def in_pieces(values: list[Any]) -> Any:
    return pa.chunked_array([values[:2], values[2:]])


SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "array": np.array,
    "array of objects": lambda values: np.array(values, object),
    "numpy scalars": lambda values: list(np.array(values)),
    "arrays without dimensions": lambda values: [np.array(x) for x in values],
    "Series": pd.Series,
    "Series with an index backwards": backwards,
    "Series with names": lambda values: pd.Series(values, index=[f"row {i}" for i in range(len(values))]),
    "Index": pd.Index,
    "Categorical": pd.Categorical,
    "polars": pl.Series,
    "Arrow": pa.array,
    "ChunkedArray": in_pieces,
    "scalars of Arrow": lambda values: list(pa.array(values)),
    "view": sk.view,
    "view of numpy scalars": lambda values: sk.smap(lambda x: np.array(x)[()], values),
    "dict of positions": lambda values: dict(enumerate(values)),
}
NUMBERS: dict[str, Callable[[list[Any]], Any]] = {
    **SEQUENCES,
    "tensor": torch.tensor,
    "tensors": lambda values: list(torch.tensor(values)),
    "Series of tensors": lambda values: backwards(list(torch.tensor(values))),
    "view of tensors": lambda values: sk.smap(torch.tensor, values),
    "array of ints": lambda values: array("q", values),
    "uint8": lambda values: np.array(values, np.uint8),
    "nullable Series": lambda values: pd.Series(values, index=range(len(values))[::-1], dtype="Int64"),
}
ONCE = {"iterator": iter, "generator": lambda values: (x for x in values)}


# -------------------------------------------------------------------- the places


def split(**labels: Any) -> list[list[int]]:
    return [sorted(part) for part in sk.random_split(range(8), [0.5, 0.5], seed=0, **labels)]


def lengths_of_streams(lengths: Any) -> list[int]:
    loader = sk.streams.StreamLoader([3, 1, 2], range, 1, lengths=lengths, collate_fn=list, pad_value=0)
    return [len(loader), *(batch.stream.item() for batch in loader)]


class Place(NamedTuple):
    values: list[Any]
    use: Callable[[Any], Any]
    takes_iterators: bool = True
    takes_dicts: bool = True


PLACES = {
    "random_split groups": Place([0] * 4 + [1] * 4, lambda x: split(groups=x)),
    "random_split stratify": Place([0, 1] * 4, lambda x: split(stratify=x)),
    "random_split lengths": Place([3, 5], lambda x: list(map(list, sk.random_split(range(8), x, seed=0)))),
    "mix weights": Place(
        [3, 1], lambda x: list(sk.mix(["abcdef", "xy"], x, seed=0)), takes_dicts=False
    ),  # a dict has the weights of stages
    "shuffle_groups sizes": Place([1, 3], lambda x: list(sk.shuffle_groups("abcd", x, seed=0))),
    "split edges": Place([1, 3], lambda x: list(sk.split("abcde", x))),
    "flatten lengths": Place([2, 0, 1], lambda x: list(sk.flatten(["ab", "", "c"], x))),
    "gather": Place([3, 0, 1], lambda x: list(sk.gather("abcd", x)), takes_dicts=False),
    "view[...]": Place([3, 0, 1], lambda x: list(sk.view("abcd")[x]), False, False),
    "case": Place([1, 0, 1], lambda x: list(sk.case(x, "abc", "xyz")), False),
    "switch": Place([1, 0, 1], lambda x: list(sk.switch(x, "abc", "xyz")), False),
    "SequentialSampler": Place([3, 0, 1], lambda x: list(samplers.SequentialSampler(4, indices=x)), False),
    "SubsetRandomSampler": Place([3, 0, 1], lambda x: list(samplers.SubsetRandomSampler(x, seed=0)), False),
    "SortedSampler": Place([3, 0, 1], lambda x: list(samplers.SortedSampler(x)), False),
    "WeightedRandomSampler": Place([3, 0, 1], lambda x: list(samplers.WeightedRandomSampler(x, 9, seed=0))),
    "FixedBucketSampler": Place([3, 9, 2, 8, 4], lambda x: list(samplers.FixedBucketSampler(x, 2, 2))),
    "FixedBucketSampler keys": Place(
        [5, 9], lambda x: list(samplers.FixedBucketSampler([3, 9, 2, 8, 4], 2, bucket_keys=x))
    ),
    "SortedBucketSampler": Place(
        [3, 9, 2, 8, 4], lambda x: list(samplers.SortedBucketSampler(x, 2, 2)), False
    ),
    "TokenBudgetBatchSampler": Place(
        [3, 9, 2, 8, 4], lambda x: list(samplers.TokenBudgetBatchSampler(x, 12))
    ),
    "BudgetBatchSampler lengths": Place(
        [3, 9, 2, 8, 4], lambda x: list(samplers.BudgetBatchSampler(range(5), x, 11)), False
    ),
    "BudgetBatchSampler keys": Place(
        [3, 1, 0],
        lambda x: list(samplers.BudgetBatchSampler(x, {0: 3, 1: 9, 3: 8}, 18)),
        takes_dicts=False,
    ),
    "DataLoader sampler": Place(
        [3, 0, 1],
        lambda x: [b.tolist() for b in sk.DataLoader({0: 5, 1: 6, 3: 8}, 2, sampler=x)],
        takes_dicts=False,
    ),
    "DataLoader batch": Place(
        [3, 0, 1],
        lambda x: [b.tolist() for b in sk.DataLoader({0: 5, 1: 6, 3: 8}, batch_sampler=[x])],
        False,
        False,
    ),
    "StreamLoader lengths": Place([3, 1, 2], lengths_of_streams),
}


@for_each("place", PLACES)
@for_each("kind", NUMBERS)
def test_values_of_every_type_mean_what_they_mean_in_a_list(place: str, kind: str) -> None:
    values, use, _, takes_dicts = PLACES[place]
    given = NUMBERS[kind](values)
    if isinstance(given, dict) and not takes_dicts:
        pytest.skip("the keys of a dict mean something else")
    if kind == "tuple" and place == "view[...]":
        pytest.skip("view[1, 2] is refused, as an index of two dimensions")
    assert use(given) == use(values)


@for_each("place", [name for name, place in PLACES.items() if place.takes_iterators])
@for_each("kind", ONCE)
def test_values_may_come_from_an_iterator(place: str, kind: str) -> None:
    values, use, *_ = PLACES[place]
    assert use(ONCE[kind](values)) == use(values)


@for_each("kind", SEQUENCES)
@for_each("labels", [["a", "b"] * 4, [True, False] * 4, [0.5, 1.5] * 4])
def test_labels_of_every_type_are_equal_if_their_values_are(kind: str, labels: list[Any]) -> None:
    given = SEQUENCES[kind](labels)
    assert split(groups=given) == split(groups=labels)
    given = SEQUENCES[kind](labels)
    assert split(stratify=given) == split(stratify=labels)
    keys = SEQUENCES[kind](labels)
    if not isinstance(keys, dict):
        assert list(samplers.SortedSampler(keys, True)) == list(samplers.SortedSampler(labels, True))


@pytest.mark.parametrize("kind", [*NUMBERS, *ONCE])
def test_ids_of_every_type_are_found_in_a_database(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "letters.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE letters (name)")
        database.executemany("INSERT INTO letters VALUES (?)", ["a", "b", "c", "d"])
    database.close()
    rows = sources.sqlite(
        path, "SELECT name FROM letters WHERE rowid = ?", {**NUMBERS, **ONCE}[kind]([4, 1, 2])
    )
    assert [row["name"] for row in rows] == ["d", "a", "b"]
    assert rows[1] == {"name": "a"}


SINGLE = {
    "int": int,
    "numpy": np.int64,
    "small": np.uint8,
    "array": np.array,
    "tensor": torch.tensor,
    "Arrow": pa.scalar,
}


@pytest.mark.parametrize("kind", SINGLE)
def test_single_values_of_every_type_are_one_key(kind: str) -> None:
    make = SINGLE[kind]
    assert sk.view("abc")[make(1)] == "b"
    if kind != "array":
        sizes = {make(5): 1, make(9): 3}
        sampler = samplers.FixedBucketSampler([3, 9], 2, bucket_keys=[5, 9], batch_sizes=sizes)
        assert sampler.batch_sizes == {5: 1, 9: 3}
    if kind != "Arrow":
        assert sk.batch("abc", make(2))[0] == ["a", "b"]
        assert list(sk.shuffle(range(9), make(3))) == list(sk.shuffle(range(9), 3))


@for_each("kind", [kind for kind in NUMBERS if "dict" not in kind])
def test_a_loader_resumes_a_sampler_of_every_type(kind: str) -> None:
    def loader() -> Any:
        return sk.DataLoader(range(10, 14), 2, sampler=NUMBERS[kind]([3, 0, 1, 2]), collate_fn=list)

    first, second = loader(), loader()
    assert next(iter(first)) == [13, 10]
    second.load_state_dict(first.state_dict())
    assert list(second) == [[11, 12]]
    assert list(loader().view) == [[13, 10], [11, 12]]
    (last,) = samplers.BatchSampler(NUMBERS[kind]([3, 0, 1]), 2).at_epoch(0)[1]
    assert plain(last) == 1


@pytest.mark.parametrize(
    "make", [np.array, np.int64, lambda n: torch.tensor(n)], ids=["array", "numpy", "tensor"]
)
def test_a_number_of_samples_may_be_a_number_of_any_type(make: Any) -> None:
    assert list(samplers.SequentialSampler(make(3))) == [0, 1, 2]
    assert len(samplers.DistributedSampler(make(7), make(2), make(1))) == 4


def test_labels_of_files_and_data_sets_are_read_at_once(tmp_path: Path) -> None:
    h5py, datasets = pytest.importorskip("h5py"), pytest.importorskip("datasets")
    labels = [0] * 4 + [1] * 4
    with h5py.File(tmp_path / "labels.h5", "w") as file:
        file["labels"] = labels
        assert split(groups=file["labels"]) == split(groups=labels)
        assert list(samplers.SortedSampler(file["labels"], True)) == list(
            samplers.SortedSampler(labels, True)
        )
        assert list(samplers.WeightedRandomSampler(file["labels"], 3, seed=0)) == list(
            samplers.WeightedRandomSampler(labels, 3, seed=0)
        )
    column = datasets.Dataset.from_dict({"label": labels})["label"]
    assert split(stratify=column) == split(stratify=labels)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_reading_a_column_of_polars_starts_no_threads() -> None:
    code = """
import os, polars as pl, seqkit as sk
from seqkit import samplers
before = len(os.listdir("/proc/self/task"))
column = pl.Series([1, 2, 1, 2])
sk.random_split(range(4), [0.5, 0.5], groups=column)
samplers.SortedSampler(column), samplers.FixedBucketSampler(column, 2)
samplers.WeightedRandomSampler(column, 2)
sk.mix(["a"] * 4, column), sk.gather("abc", column)
assert len(os.listdir("/proc/self/task")) == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_table_is_no_list_of_sequences() -> None:
    table = pd.DataFrame({"ab": [1, 2], "cd": [3, 4]})
    for join in (sk.concatenate, sk.collate, sk.mix):
        with pytest.raises(TypeError, match="sequences must be an iterable of sequences"):
            join(table)


# -------------------------------------------------------------------- what is no label, and no index


def test_nan_is_one_label() -> None:
    labels = [1.0, float("nan"), float("nan"), 2.0]
    for given in (
        labels,
        np.array(labels),
        torch.tensor(labels),
        pd.Series(labels),
        np.array(labels, object),
    ):
        assert any(
            {1, 2} <= set(part) for part in sk.random_split(range(4), [0.5, 0.5], seed=0, groups=given)
        )


def test_parts_of_labels_are_plain_too() -> None:
    eyes = [(torch.tensor(patient), np.str_("left")) for patient in (1, 1, 2, 2)]
    parts = [sorted(part) for part in sk.random_split(range(4), [0.5, 0.5], seed=0, groups=eyes)]
    assert sorted(parts) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (torch.tensor([[1, 0], [1, 0]]), "must be single values, got Tensor of shape (2,) at position 0"),
        (np.array([[1, 0], [1, 0]]), "must be single values, got ndarray of shape (2,) at position 0"),
        (torch.tensor(3), "must be hashable, one for each item: a sequence, got tensor(3)"),
        (3, "must be hashable, one for each item: a sequence, got 3"),
        (list, "must be hashable, one for each item: a sequence, got <class 'list'>"),
        (sk.cycle([1, 2]), "must end, got cycle(<list of 2>). Select a part of it with head(n)."),
    ],
    ids=repr,
)
def test_what_is_no_sequence_of_labels_is_refused(labels: Any, text: str) -> None:
    with pytest.raises(TypeError, match="random_split: groups"):
        sk.random_split("ab", [1, 1], groups=labels)


@pytest.mark.parametrize("labels", [pd.DataFrame({"x": [1, 1]}), {1, 2}, {"x": 1, "y": 2}], ids=type)
def test_columns_sets_and_other_keys_are_no_labels(labels: Any) -> None:
    with pytest.raises(TypeError, match="random_split: groups"):
        sk.random_split("ab", [1, 1], groups=labels)


MASKS = {**SEQUENCES, "tensor": torch.tensor, "tensors": lambda x: list(torch.tensor(x)), "list": list}
MASKS["nullable Series"] = lambda values: pd.Series(values, dtype="boolean")


@for_each("kind", [kind for kind in MASKS if "view" not in kind and "dict" not in kind])
def test_bools_are_a_mask_or_refused(kind: str) -> None:
    mask = MASKS[kind]([True, False, True])
    assert list(sk.gather("abc", mask)) == ["a", "c"]
    if kind != "tuple":
        assert list(sk.view("abc")[mask]) == ["a", "c"]
    with pytest.raises(TypeError, match=r"SubsetRandomSampler: indices must be indices or keys, .* a bool"):
        samplers.SubsetRandomSampler(mask)
    with pytest.raises(TypeError, match=r"SequentialSampler: indices must be indices or keys, .* a bool"):
        samplers.SequentialSampler(3, indices=mask)
    with pytest.raises(TypeError, match=r"DataLoader: sampler must be .* Pass numpy.flatnonzero\(mask\)"):
        list(sk.DataLoader("abc", sampler=mask))
    with pytest.raises(TypeError, match="DataLoader: sampler must be indices or keys"):
        list(sk.DataLoader("abc", batch_sampler=[mask]))


@for_each("indices", [[True, 1, 0], [0, np.True_], [0, torch.tensor(True)], [True, None]])
def test_bools_among_indices_are_refused(indices: Any) -> None:
    with pytest.raises(TypeError, match=r"gather: indexes must be ints, or bools only \(a mask\), got"):
        sk.gather("abc", indices)


def test_sets_and_dicts_are_no_indices() -> None:
    for indices in ({1, 0}, {0: 1, 1: 0}):
        with pytest.raises(TypeError, match="gather: indexes must be a sequence of ints"):
            sk.gather("abc", indices)


# -------------------------------------------------------------------- the functions themselves


def test_plain_leaves_other_objects_alone() -> None:
    for value in (
        np.array([1]),
        torch.tensor([1]),
        [np.int64(1)],
        pd.NA,
        np.longdouble(3),
        object(),
    ):
        assert plain(value) is value


def test_plain_values_have_plain_types() -> None:
    for value in (np.int8(3), np.array(3), torch.tensor(3), pa.scalar(3)):
        assert type(plain(value)) is int
        assert as_index(value) == 3
        assert not is_flag(value)
    with_gradient = torch.tensor(0.5, requires_grad=True)
    assert plain(with_gradient) == 0.5
    assert plain(torch.tensor(0.5, dtype=torch.bfloat16)) == 0.5


@for_each("value", [True, np.True_, np.array(True), torch.tensor(True), pa.scalar(True)])
def test_a_flag_is_no_index(value: Any) -> None:
    assert is_flag(value)
    with pytest.raises(TypeError, match="a bool is not an index"):
        as_index(value)


@pytest.mark.parametrize("values", [iter([1.5]), [torch.tensor(1.5, requires_grad=True)]], ids=repr)
def test_numbers_are_read_where_numpy_cannot(values: Any) -> None:
    assert as_lengths(values, "x").tolist() == [[1.5]]


def test_sequences_without_a_length_are_read_to_their_end() -> None:
    from seqkit.testing import UnsizedSource

    assert values_of(UnsizedSource([np.int64(3), 4]), "x") == [3, 4]
    assert list(by_position(sk.filter(bool, [0, 2]), "x")) == [2]


MASKED = np.ma.array([3, 1, 2], mask=[0, 1, 0])
MISSING: dict[str, Callable[[], Any]] = {
    "keys": lambda: samplers.SortedSampler(MASKED),
    "list of keys": lambda: samplers.SortedSampler([3, None, 2]),
    "weights": lambda: samplers.WeightedRandomSampler(MASKED, 2),
    "lengths": lambda: samplers.FixedBucketSampler(MASKED, 2),
    "indices": lambda: sk.view(range(9))[MASKED],
    "mask": lambda: sk.view(range(3))[MASKED > 1],
    "gather": lambda: sk.gather(range(9), MASKED),
    "split": lambda: sk.split(range(9), MASKED),
}


@for_each("place", MISSING)
def test_missing_values_are_refused_where_a_number_is_needed(place: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"must be|must compare"):
        MISSING[place]()
