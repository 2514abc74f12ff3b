"""`materialize` into files: in parallel, complete or not at all, continued after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
    assert told[0] == (7, N)
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
    assert not {*range(10)} & {*again}
    if nworkers == 0:
        assert again == [*range(50, N)]


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
    assert computed == [*range(50, N)]


def test_part_of_another_sequence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with pytest.raises(sk.EvaluationError):
        sk.materialize(
            sk.smap(FailingAt(pixels, tmp_path / "calls", 9), range(N)), path, nworkers=0, chunk_size=1
        )
    with pytest.raises(ValueError, match=r"holds a part of .*100 items in pieces of 1\. Delete it"):
        sk.materialize(sk.smap(pixels, range(N + 1)), path, nworkers=0)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([1, 2.5], r"Item 0 is int64 \(\), item 1 is float64 \(\)"),
        ([np.zeros(2), np.zeros(3)], r"Item 0 is float64 \(2,\), item 1 is float64 \(3,\)"),
    ],
)
def test_arrays_of_different_kinds_are_refused(items: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        sk.materialize(items, tmp_path / "a.npy", nworkers=0)
    with pytest.raises(sk.EvaluationError, match=message):
        sk.materialize(items, tmp_path / "b.npy", nworkers=0, chunk_size=1)


@pytest.mark.parametrize("items", [[{"a": 1}, {"b": 1}], [{"a": 1}, {"a": 1, "b": 2}], [{"a": 1}, 2]])
def test_rows_with_other_keys_are_refused(items: list[Any], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for k in (1, 2):
        with pytest.raises((ValueError, sk.EvaluationError), match="with the keys of item 0, and item 1 is"):
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
    rows = sk.smap(lambda i: {"x": i if i < 5 else i + 0.5}, range(10))
    with pytest.raises(sk.EvaluationError, match="truncated"):
        sk.materialize(rows, tmp_path / "rows.parquet", nworkers=0, chunk_size=5)


def test_columns_that_a_parquet_file_lacks_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    sk.materialize([{"city": "Oslo", "people": 7}], tmp_path / "rows.parquet", nworkers=0)
    assert sk.sources.parquet(tmp_path / "rows.parquet", "city")[0] == {"city": "Oslo"}
    with pytest.raises(ValueError, match=r"columns must be among .*, got \['town'\]"):
        sk.sources.parquet(tmp_path / "rows.parquet", ["city", "town"])
