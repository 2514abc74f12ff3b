"""`materialize` into files: in parallel, complete or not at all, continued after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

N = 100


def row(i: int) -> dict[str, Any]:
    return {"name": f"name {i}", "number": i, "half": i / 2}


def pixels(i: int) -> Any:
    return np.full((2, 3), i, np.int16)


class FailingAt:
    """Computes `pixels` or `row`, counts the calls in a file, and fails at one item until it is mended."""

    def __init__(self, make: Any, log: Path, at: int) -> None:
        self._make = make
        self._log = log
        self._at = at

    def __call__(self, i: int) -> Any:
        with open(self._log, "a") as log:
            print(i, file=log)
        if i == self._at and not self._log.with_suffix(".mended").exists():
            raise OSError("no such picture")
        return self._make(i)


BOTH = pytest.mark.parametrize(
    ("make", "name"), [(pixels, "a.npy"), pytest.param(row, "a.parquet")], ids=["npy", "parquet"]
)


def needs(name: str) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")


def same(view: Any, expected: list[Any]) -> bool:
    return len(view) == len(expected) and all(
        np.array_equal(a, b) for a, b in zip(view, expected, strict=True)
    )


@BOTH
@pytest.mark.parametrize("nworkers", [0, 2])
def test_file_has_the_items_in_order(make: Any, name: str, nworkers: int, tmp_path: Path) -> None:
    needs(name)
    told: list[tuple[int, int | None]] = []
    stored = sk.materialize(
        sk.smap(make, range(N)),
        tmp_path / name,
        nworkers=nworkers,
        chunk_size=7,
        progress=lambda done, total: told.append((done, total)),
    )
    expected = [make(i) for i in range(N)]
    assert same(stored, expected)
    assert same(sk.read(tmp_path / name), expected)
    assert told[0] == (1, N)
    assert told[-1] == (N, N)
    assert [*told] == sorted(told)
    assert os.listdir(tmp_path) == [name]


@BOTH
@pytest.mark.parametrize("nworkers", [0, 2])
def test_next_call_computes_only_the_missing_pieces(
    make: Any, name: str, nworkers: int, tmp_path: Path
) -> None:
    needs(name)
    log = tmp_path / "calls"
    view = sk.smap(FailingAt(make, log, at=50), range(N))
    with pytest.raises(sk.EvaluationError, match="no such picture"):
        sk.materialize(view, tmp_path / name, nworkers=nworkers, chunk_size=10)
    assert not (tmp_path / name).exists()
    before = [int(line) for line in log.read_text().split()]
    log.with_suffix(".mended").touch()
    log.unlink()
    stored = sk.materialize(view, tmp_path / name, nworkers=nworkers)
    assert same(stored, [make(i) for i in range(N)])
    again = [int(line) for line in log.read_text().split()]
    assert {*before} | {*again} == {*range(N)}
    assert not {*range(1, 10)} & {*again}
    if nworkers == 0:
        assert again == [0, *range(50, N)]  # item 0 is compared with the one in the file


KILLED = """
import os, signal, sys
import seqkit as sk

def make(i):
    if i == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return i * i

sk.materialize(sk.smap(make, range(100)), sys.argv[1], nworkers=0, chunk_size=10)
"""


def test_program_that_was_killed_continues(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    killed = subprocess.run([sys.executable, "-c", KILLED, path], timeout=50)
    assert killed.returncode == -signal.SIGKILL
    computed: list[int] = []

    def make(i: int) -> int:
        computed.append(i)
        return i * i

    stored = sk.materialize(sk.smap(make, range(N)), path, nworkers=0)
    assert [*stored] == [i * i for i in range(N)]
    assert computed == [0, *range(50, N)]


def test_part_of_another_sequence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with pytest.raises(sk.EvaluationError):
        sk.materialize(
            sk.smap(FailingAt(pixels, tmp_path / "calls", 9), range(N)), path, nworkers=0, chunk_size=1
        )
    with pytest.raises(ValueError, match=r"holds a part of .*100 items in pieces of 1\. Delete it"):
        sk.materialize(sk.smap(pixels, range(N + 1)), path, nworkers=0)


def begun(view: Any, path: Path) -> None:
    """Write the first piece of a view, and fail at the second."""
    with pytest.raises(ZeroDivisionError):
        sk.materialize(view, path, nworkers=0, chunk_size=2, progress=lambda done, total: 1 / 0)


def with_changed_rows(value: Any) -> Any:
    def make(i: int) -> Any:
        return {"x": float(i), "y": value}

    return sk.smap(make, range(6))


def with_changed_pixels(value: Any) -> Any:
    def make(i: int) -> Any:
        return np.array([i, value])

    return sk.smap(make, range(6))


@pytest.mark.parametrize(
    ("view", "name", "values"),
    [
        (with_changed_pixels, "a.npy", (1, 2)),
        (with_changed_pixels, "a.npy", (1, 2.0)),
        (with_changed_rows, "a.parquet", ("a", "b")),
        (with_changed_rows, "a.parquet", (1, None)),
        (with_changed_rows, "a.parquet", (1, "a")),
    ],
)
def test_pieces_of_a_changed_function_are_refused(
    view: Any, name: str, values: tuple[Any, Any], tmp_path: Path
) -> None:
    needs(name)
    old, new = map(view, values)
    begun(old, tmp_path / name)
    assert repr(old) == repr(new)
    with pytest.raises(ValueError, match=r"item 0 differs from .*\.partial\. .* Delete the folder to begin"):
        sk.materialize(new, tmp_path / name, nworkers=0)
    assert len(sk.materialize(old, tmp_path / name, nworkers=0)) == 6


@pytest.mark.parametrize(
    ("view", "name"),
    [
        (sk.smap(lambda i: np.array([i, np.nan]), range(6)), "a.npy"),
        (sk.smap(lambda i: {"x": i, "y": np.nan, "z": None, "t": {"u": [i]}}, range(6)), "a.parquet"),
        (sk.smap(lambda i: {"x": i if i < 2 else 0.5}, range(6))[::-1], "a.parquet"),
        (sk.smap(lambda i: i, range(6)), "a.npy"),
        (sk.smap(str, range(6)), "a.npy"),
    ],
)
def test_unchanged_items_of_any_kind_are_continued(view: Any, name: str, tmp_path: Path) -> None:
    needs(name)
    begun(view, tmp_path / name)
    assert len(sk.materialize(view, tmp_path / name, nworkers=0)) == 6


def test_pieces_of_another_epoch_are_refused(tmp_path: Path) -> None:
    def with_same_start(x: int, rng: np.random.Generator) -> int:
        return x and int(rng.integers(1 << 60))

    view = sk.random_map(with_same_start, range(6), seed=0)
    assert "epoch=3" in repr(view.at_epoch(3))
    begun(view, tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"holds a part of random_map\(.*Delete it to write .* epoch=3\)"):
        sk.materialize(view.at_epoch(3), tmp_path / "a.npy", nworkers=0)


@pytest.mark.parametrize("nworkers", [0, 2])
def test_a_failing_item_is_named_and_not_its_piece(nworkers: int, tmp_path: Path) -> None:
    def fails(i: int) -> int:
        return 1 // (i - 50)

    inner = sk.smap(fails, range(100))
    view = sk.gather(inner, range(100)[::-1])
    with pytest.raises(sk.EvaluationError, match=r"smap\[50\] failed: ZeroDivisionError") as caught:
        sk.materialize(view, tmp_path / "a.npy", nworkers=nworkers, chunk_size=5)
    error = caught.value
    assert error.view is inner
    assert error.index == 50
    assert "pieces" not in str(error)
    assert {frame.filename for frame in traceback.extract_tb(error.__traceback__)} == {__file__}


@pytest.mark.parametrize("nworkers", [0, 2])
def test_the_path_to_a_failing_item_begins_at_the_written_view(nworkers: int, tmp_path: Path) -> None:
    view = sk.batch(sk.smap(lambda i: 1 // (i - 50), range(100)), 2, collate_fn=np.asarray)
    with pytest.raises(sk.EvaluationError, match=r"path: batch\[25\] → smap\[50\]"):
        sk.materialize(view, tmp_path / "a.npy", nworkers=nworkers, chunk_size=3)


def test_the_items_of_a_killed_worker_are_named(tmp_path: Path) -> None:
    def make(i: int) -> int:
        if i == 33:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    with pytest.raises(sk.WorkerDied, match=r"materialize: item 33: worker"):
        sk.materialize(sk.smap(make, range(N)), tmp_path / "a.npy", nworkers=1, chunk_size=10)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([1, 2.5], r"source\[1\] failed to be written: .* Item 0 is int64 \(\), item 1 is float64 \(\)"),
        ([np.zeros(2), np.zeros(3)], r"Item 0 is float64 \(2,\), item 1 is float64 \(3,\)"),
    ],
)
def test_arrays_of_different_kinds_are_refused(items: list[Any], message: str, tmp_path: Path) -> None:
    for k in (1, 2):
        with pytest.raises(sk.EvaluationError, match=message) as caught:
            sk.materialize(items, tmp_path / f"{k}.npy", nworkers=0, chunk_size=k)
        assert caught.value.index == 1


@pytest.mark.parametrize("items", [[{"a": 1}, {"b": 1}], [{"a": 1}, {"a": 1, "b": 2}], [{"a": 1}, 2]])
def test_rows_with_other_keys_are_refused(items: list[Any], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for k in (1, 2):
        with pytest.raises(sk.EvaluationError, match="with the keys of item 0, and item 1 is"):
            sk.materialize(items, tmp_path / f"{k}.parquet", nworkers=0, chunk_size=k)


def test_wrong_arguments_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    view = sk.smap(lambda i: 1 / 0, range(3))
    (tmp_path / "there.npy").touch()
    refused: list[tuple[Any, Any, dict[str, Any]]] = [
        (ValueError, tmp_path / "a.csv", {}),
        (FileExistsError, tmp_path / "there.npy", {}),
        (TypeError, tmp_path / "a.npy", {"nworkers": "two"}),
        (ValueError, tmp_path / "a.npy", {"chunk_size": 0}),
        (TypeError, tmp_path / "a.npy", {"progress": 3}),
    ]
    for error, path, options in refused:
        with pytest.raises(error, match=r"^(materialize|prefetch): "):
            sk.materialize(view, path, **options)
    with pytest.raises(ValueError, match="there are no items"):
        sk.materialize([], tmp_path / "a.npy")
    with pytest.raises(TypeError, match="writing needs a length"):
        sk.materialize(sk.uniter(iter([1, 2])), tmp_path / "a.npy")
    with pytest.raises(TypeError, match="numbers or arrays of numbers"):
        sk.materialize([None], tmp_path / "a.npy")


def test_a_later_piece_whose_numbers_would_be_truncated_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = sk.smap(lambda i: {"x": i if i < 7 else i + 0.5}, range(10))
    with pytest.raises(sk.EvaluationError, match=r"smap\[7\] failed to be written: .*truncated"):
        sk.materialize(rows, tmp_path / "rows.parquet", nworkers=0, chunk_size=5)


def test_a_row_that_does_not_fit_those_before_it_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = [{"x": i if i != 7 else "seven"} for i in range(10)]
    with pytest.raises(sk.EvaluationError, match=r"source\[7\] failed to be written") as caught:
        sk.materialize(rows, tmp_path / "rows.parquet", nworkers=0)
    assert caught.value.index == 7


def test_columns_that_a_parquet_file_lacks_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    sk.materialize([{"city": "Oslo", "people": 7}], tmp_path / "rows.parquet", nworkers=0)
    assert sk.sources.parquet(tmp_path / "rows.parquet", "city")[0] == {"city": "Oslo"}
    with pytest.raises(ValueError, match=r"columns must be among .*, got \['town'\]"):
        sk.sources.parquet(tmp_path / "rows.parquet", ["city", "town"])
