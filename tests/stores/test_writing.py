"""`materialize` into files: in parallel, complete or not at all, continued after a crash."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.stores.materialize.npy_writer import NpyWriter
from tests.helpers import mostly_stress

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
    # Item 0 and the last one in the file, the one that failed, and the one that each worker had begun.
    assert len({*before} & {*again}) <= 3 + nworkers
    if nworkers == 0:
        assert again == [0, 49, *range(50, N)]  # the first and the last one in the file are compared


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
    assert computed == [0, 49, *range(50, N)]


FULL_DISK = """
import os, resource, sys, warnings
import seqkit as sk

path, nworkers, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
full, parent, shares_memory = True, os.getpid(), nworkers and method == "process"

def make(i):
    if full and (os.getpid() != parent or not shares_memory):  # for which seqkit makes a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, unlimited[1]))
    if i % 10 == 3:
        raise OSError(28, "of the item")
    return {"x": bytes(2000), "i": i}

def write(on_error):
    view = sk.smap(make, range(100))
    return sk.materialize(view, path, nworkers=nworkers, method=method, on_error=on_error)

warnings.simplefilter("ignore")
for on_error in ("skip", lambda error: {"x": b"", "i": -1}):
    try:
        write(on_error)
    except OSError as error:
        assert error.errno == 27 and "Call again to continue" in error.__notes__[0], error
    else:
        raise AssertionError("the full disk was taken for failed items")
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
assert not os.path.exists(path) and os.path.exists(path + ".partial/plan.json")
full = False
print(*(row["i"] for row in write("skip")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
@pytest.mark.parametrize(("nworkers", "method"), mostly_stress((2, "process"), (0, "process"), (2, "thread")))
def test_a_full_disk_is_no_failed_item(nworkers: int, method: str, tmp_path: Path) -> None:
    needs("a.parquet")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a.parquet"), str(nworkers), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    written = [*map(int, done.stdout.split())]
    # Items that the callable replaced are written, those that failed in the last call are left out.
    assert [i for i in written if i >= 0] == [i for i in range(100) if i % 10 != 3]


def test_a_full_disk_is_told_while_an_item_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = NpyWriter.write

    def refuse(self: NpyWriter, i: int, record: Any) -> None:
        if i == 3:
            raise OSError(28, "No space left on device")
        write(self, i, record)

    monkeypatch.setattr(NpyWriter, "write", refuse)
    inverse = sk.smap(lambda x: 6 // x, [1, 2, 3, 0, 6])
    with pytest.raises(OSError, match="No space left"):
        sk.materialize(inverse, tmp_path / "a.npy", nworkers=0, on_error=lambda error: 0)


@pytest.mark.parametrize(("nworkers", "chunk_size"), [(0, 10), (2, 10), (2, 200)])
def test_a_disk_that_is_full_at_the_end_is_told(
    nworkers: int, chunk_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = pytest.importorskip("pyarrow.parquet")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    def write() -> Any:
        return sk.materialize(
            sk.smap(row, range(N)),
            tmp_path / "a.parquet",
            nworkers=nworkers,
            method="thread",
            chunk_size=chunk_size,
            on_error="skip",
        )

    with monkeypatch.context() as full:
        full.setattr(written, "write_table", refuse)
        with pytest.raises(OSError, match="No space left") as caught:
            write()
    assert "Call again to continue" in caught.value.__notes__[0]
    assert os.listdir(tmp_path) == ["a.parquet.partial"]
    assert same(write(), [row(i) for i in range(N)])


@pytest.mark.parametrize("nworkers", [0, 2])
def test_an_oserror_of_an_item_that_is_converted_is_its_own(nworkers: int, tmp_path: Path) -> None:
    class Picture:
        def __init__(self, i: int) -> None:
            self.i = i

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            if self.i == 2:
                raise OSError("image file is truncated")
            return np.array(self.i)

    with pytest.warns(RuntimeWarning, match=r"1 of 4 items failed .* image file is truncated"):
        stored = sk.materialize(
            sk.smap(Picture, range(4)), tmp_path / "a.npy", nworkers=nworkers, on_error="skip"
        )
    assert same(stored, [0, 1, 3])


NEARLY_FULL = """
import subprocess, sys, warnings
import numpy as np
import seqkit as sk

folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=True)

def make(i):
    return np.full(20_000 // (i != 3), i, np.uint8)

def write():
    return sk.materialize(sk.smap(make, range(100)), folder + "/a.npy", nworkers=0, on_error="skip")

try:
    write()
except OSError as error:
    assert error.errno == 28, error
else:
    raise AssertionError("the copy without item 3 fits")
subprocess.run(["mount", "-o", "remount,size=6m", folder], check=True)
warnings.simplefilter("ignore")
assert [row[-1] for row in write()] == [i for i in range(100) if i != 3]
"""


def test_a_copy_without_failed_items_needs_room(tmp_path: Path) -> None:
    alone = ["unshare", "--mount", "--propagation", "private"]
    try:
        subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a small disk")
    done = subprocess.run(
        [*alone, sys.executable, "-c", NEARLY_FULL, tmp_path], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["datetime64[s]", ">f4", "S3", "u1"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_a_copy_without_failed_items_is_of_any_dtype(dtype: str, shape: Any, tmp_path: Path) -> None:
    def make(i: int) -> Any:
        return np.full(shape, 7 // (i != 1), "u1").astype(dtype)

    with pytest.warns(RuntimeWarning, match="1 of 4 items failed"):
        stored = sk.materialize(sk.smap(make, range(4)), tmp_path / "a.npy", nworkers=0, on_error="skip")
    expected = np.full((3, *shape), 7, "u1").astype(dtype)
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == expected.dtype
    assert len(stored) == 3
    assert np.array_equal(found, expected)


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
    with pytest.raises(ValueError, match=r"item 0 differs"):
        sk.materialize(new, tmp_path / name, nworkers=0)
    assert len(sk.materialize(old, tmp_path / name, nworkers=0)) == 6


def times(factor: int, stop: int | None = None) -> Any:
    def make(i: int) -> Any:
        if i == stop:
            raise OSError("no picture")
        return {"x": i * factor}

    return sk.smap(make, range(6))


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_change_that_item_0_does_not_show_is_refused(name: str, tmp_path: Path) -> None:
    needs(name)
    views = [
        sk.smap(lambda row: row["x"], times(*each)) if name == "a.npy" else times(*each)
        for each in [(1, 3), (2,)]
    ]
    with pytest.raises(sk.EvaluationError, match="no picture"):
        sk.materialize(views[0], tmp_path / name, nworkers=0)
    with pytest.raises(ValueError, match=r"item 2 differs"):
        sk.materialize(views[1], tmp_path / name, nworkers=0)


def test_first_item_that_was_replaced_is_continued(tmp_path: Path) -> None:
    view = times(1, 0)
    with pytest.raises(ZeroDivisionError):
        sk.materialize(
            view,
            tmp_path / "a.parquet",
            nworkers=0,
            on_error=lambda error: {"x": -1},
            progress=lambda done, total: 1 / 0,
        )
    stored = sk.materialize(view, tmp_path / "a.parquet", nworkers=0, on_error=lambda error: {"x": -1})
    assert [row["x"] for row in stored] == [-1, 1, 2, 3, 4, 5]


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
    with pytest.raises(ValueError, match=r"a part of random_map\(.* epoch=3\)"):
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
        with pytest.raises(error, match=r"^materialize: "):
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


# -------------------------------------------------------------------- Parquet returns what it was given

UTC = datetime.UTC
COLUMNS: dict[str, list[Any]] = {
    "int": [1, -(2**63), 2**63 - 1, None],
    "float": [1.5, float("nan"), -0.0, None],
    "bool": [True, False, True, None],
    "str": ["a", "é\0", "", None],
    "bytes": [b"", b"\0a", b"z", None],
    "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, None],
    "datetime": [
        datetime.datetime(1, 1, 1),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
        None,
        None,
    ],
    "zone": [datetime.datetime(2020, 7, 1, tzinfo=UTC)] * 3 + [None],
    "time": [datetime.time(1, 2, 3, 4), datetime.time(0), None, None],
    "timedelta": [datetime.timedelta(-3, 0, 1), datetime.timedelta(100_000), None, None],
    "int8": [np.int8(-3), np.int8(127), np.int8(0), None],
    "uint64": [np.uint64(2**64 - 1), np.uint64(0), np.uint64(3), None],
    "float16": [np.float16(0.5), np.float16("nan"), np.float16(1), None],
    "float32": [np.float32(0.1), np.float32(np.inf), np.float32(0), None],
    "bool_": [np.True_, np.False_, np.True_, None],
    "str_": [np.str_("ab"), np.str_(""), np.str_("c"), None],
    "datetime64": [np.datetime64("2020-01-01", "ns"), np.datetime64("NaT", "ns")] * 2,
    "days": [np.datetime64("2500-01-01"), np.datetime64("NaT", "D")] * 2,
    "timedelta64": [np.timedelta64(3, "ms"), np.timedelta64("NaT", "ms")] * 2,
    "vectors": [np.array([0.1, np.nan], "f4"), np.ones(3, "f4"), np.empty(0, "f4"), None],
    "matrices": [np.arange(6, dtype="i1").reshape(2, 3), np.empty((0, 3), "i1"), np.ones((1, 3), "i1"), None],
    "tensors": [np.arange(24, dtype="u2").reshape(2, 3, 4), np.ones((5, 3, 4), "u2"), None, None],
    "fortran": [np.asfortranarray(np.arange(6.0).reshape(2, 3))] * 4,
    "big-endian": [np.arange(3, dtype=">i4")] * 4,
    "flags": [np.array([True, False])] * 4,
    "zero-dimensional": [np.array(3, "i2"), np.array(-1, "i2"), np.array(0, "i2"), None],
    "times": [np.array(["2020", "NaT"], "M8[us]"), np.array([], "M8[us]"), None, None],
    "texts": [np.array(["a", "bcd"]), np.array(["x"]), None, None],
    "lists": [[1, 2], [], [3], None],
    "nested": [[[1.5], []], [], [[]], None],
    "optional": [["a", None], [], [None], None],
    "tuples": [(1, "a", np.zeros((2, 2))), (2, None, np.ones((1, 2))), (None, None, None), None],
    "dicts": [{"x": {"y": np.int8(1)}}, {"x": None}, {"x": {"y": None}}, None],
    "lists of dicts": [[{"box": (0.5, 1.5), "id": 1}], [], [{"box": None, "id": None}], None],
    "lists of arrays": [[np.zeros(2, "f4")], [], [np.ones(3, "f4"), np.empty(0, "f4")], None],
    "nothing": [None] * 4,
    "empty": [[]] * 4,
    "late": [None, None, None, np.float32(0.5)],
    "late in lists": [[], [], [], [np.int8(1)]],
}


def identical(a: Any, b: Any) -> bool:
    """Return whether two values are equal and of the same types, dtypes and shapes."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(identical, a, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and np.array_equal(
            a, b, equal_nan=a.dtype.kind in "fmM"
        )
    if isinstance(a, np.generic) and a.dtype != b.dtype:
        return False
    return bool(a == b) or bool(a != a and b != b)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("as_row", [lambda value: {"x": value, "i": 1}, lambda value: (value, "a")])
def test_parquet_returns_what_it_was_given(name: str, as_row: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = [as_row(value) for value in COLUMNS[name]]
    for chunk_size in (3, None):
        path = tmp_path / f"{chunk_size}.parquet"
        stored = sk.materialize(rows, path, nworkers=0, chunk_size=chunk_size)
        assert identical(list(stored), rows)
        assert identical(stored._getmany([3, 0, 1]), [rows[3], rows[0], rows[1]])
        assert identical(list(sk.read(path)), rows)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([{1, 2}], r"\['x'\]: a set would come back as something else\. Allowed are"),
        ([2**63], r"\['x'\]: 9223372036854775808 does not fit into int64"),
        ([datetime.time(1, tzinfo=UTC)], r"\['x'\]: Parquet has no time with a zone"),
        ([1, 2.5], r"\['x'\] is float, in the items before int, and would be truncated"),
        ([1, True], r"\['x'\] is bool, in the items before int"),
        ([np.int8(1), 1], r"\['x'\] is int, in the items before numpy.int8"),
        (
            [np.zeros(2, "f4"), np.zeros(2)],
            r"\['x'\] is an array of float64 \(n\), in the items before .* float32",
        ),
        ([np.zeros((1, 2)), np.zeros((1, 3))], r"\['x'\] is an array of float64 \(n, 3\)"),
        ([np.ma.zeros(2)], r"\['x'\]: a MaskedArray would"),
        ([np.zeros(2, complex)], r"\['x'\]: Parquet has no type for the dtype complex128"),
        ([np.zeros((2, 0))], r"\['x'\]: an array of shape \(2, 0\) has no elements"),
        ([[1, "a"]], r"\['x'\]\[1\] is str, in the items before int"),
        ([[0.5, 2**53 + 1]], r"9007199254740993 is outside of the range"),
        ([{"a": 1}, {"b": 1}], r"\['x'\] has the keys \['b'\], in the items before \['a'\]"),
        ([(1, 2), (1, 2, 3)], r"\['x'\] is a tuple of 3, in the items before a tuple of 2"),
        ([{}], r"\['x'\]: an empty dict has no type in Parquet"),
        (["a", "é\udcff"], r"\['x'\]: text with '\\udcff' is no UTF-8\. Use bytes"),
        ([["a", "\udcff"]], r"\['x'\]: text with '\\udcff' is no UTF-8"),
        ([np.datetime64("2020", "ns"), None], r"None would come back as NaT"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused(
    values: list[Any], message: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    rows = [{"x": value} for value in values]
    with pytest.raises(sk.EvaluationError, match=message) as caught:
        sk.materialize(rows, tmp_path / "a.parquet", nworkers=0)
    assert caught.value.index == len(rows) - 1


def test_other_programs_read_plain_columns(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = [{"v": np.full(2, i, "f4"), "m": np.eye(2), "n": np.int8(i), "s": "a"} for i in range(3)]
    stored = sk.materialize(rows, tmp_path / "a.parquet", nworkers=0)
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert [each.tolist() for each in frame["v"]] == [[0, 0], [1, 1], [2, 2]]
    assert frame["n"].dtype == np.int8
    assert sk.sources.parquet(tmp_path / "a.parquet", ["n", "s"])[2] == {"n": np.int8(2), "s": "a"}
    batch = sk.default_collate(list(stored))
    assert (batch["v"].dtype, batch["v"].shape, batch["m"].shape) == (np.float32, (3, 2), (3, 2, 2))


# -------------------------------------------------------------------- workers, crashes, errors

STOPPED = """
import os, sys, time
import numpy as np
import seqkit as sk

log = os.open(sys.argv[2], os.O_APPEND | os.O_CREAT | os.O_WRONLY)

def make(i):
    time.sleep(0.001)
    os.write(log, b"%d\\n" % i)
    return np.full(3, i) if sys.argv[1].endswith("npy") else {"x": i, "v": np.full(i % 5, i, "f4")}

sk.materialize(sk.smap(make, range(2000)), sys.argv[1], nworkers=2)
"""


@pytest.mark.parametrize(
    ("name", "kills"), mostly_stress(("a.parquet", 1), ("a.npy", 1), ("a.npy", 20), ("a.parquet", 20))
)
def test_a_kill_at_any_moment_loses_only_the_items_in_work(name: str, kills: int, tmp_path: Path) -> None:
    needs(name)
    path, log = tmp_path / name, tmp_path / "log"
    random = np.random.default_rng(0)
    for _ in range(kills):
        program = subprocess.Popen([sys.executable, "-c", STOPPED, path, log])
        with suppress(subprocess.TimeoutExpired):
            program.wait(random.uniform(0.1, 1.0))
        program.kill()
        program.wait()
    if not path.exists():
        subprocess.run([sys.executable, "-c", STOPPED, path, log], check=True, timeout=50)
    stored = sk.read(path)
    assert len(stored) == 2000
    for i, item in enumerate(stored):
        assert identical(item, np.full(3, i) if name == "a.npy" else {"x": i, "v": np.full(i % 5, i, "f4")})
    computed = np.bincount([int(line) for line in log.read_text().split()])
    # Two workers, the item that each began while it ended, and the last item, which the next call compares.
    assert (computed[1:] - 1).sum() <= kills * 5


@BOTH
@pytest.mark.parametrize(
    ("nworkers", "bad"),
    [
        (0, {17}),
        (2, {0, 1, 99}),
        pytest.param(0, {0, 1, 99}, marks=pytest.mark.stress),
        pytest.param(2, {17}, marks=pytest.mark.stress),
    ],
)
def test_items_that_fail_are_left_out_or_replaced(
    make: Any, name: str, nworkers: int, bad: set[int], tmp_path: Path
) -> None:
    needs(name)

    def careful(i: int) -> Any:
        if i in bad:
            raise OSError(f"no picture {i}")
        return make(i)

    view = sk.smap(careful, range(N))
    message = rf"{len(bad)} of 100 items failed and were left out\. item {min(bad)}: OSError: no picture"
    with pytest.warns(RuntimeWarning, match=message):
        stored = sk.materialize(view, tmp_path / name, nworkers=nworkers, on_error="skip")
    assert same(stored, [make(i) for i in range(N) if i not in bad])
    replaced = sk.materialize(
        view, tmp_path / f"b{name}", nworkers=nworkers, on_error=lambda error: make(error.index + 1000)
    )
    assert same(replaced, [make(i + 1000 * (i in bad)) for i in range(N)])


def test_items_of_a_list_that_fail_are_left_out_or_replaced() -> None:
    view = sk.smap(lambda i: 6 // (i - 2), range(4))
    with pytest.warns(RuntimeWarning, match="1 of 4 items .*item 2: ZeroDivisionError"):
        assert list(sk.materialize(view, on_error="skip")) == [-3, -6, 6]
    assert list(sk.materialize(view, on_error=lambda error: error.index)) == [-3, -6, 2, 6]
    with sk.errstate("passthrough"), pytest.raises(ZeroDivisionError):
        sk.materialize(view)
    with pytest.raises(ValueError, match=r"all 3 items failed\. The last error was: ZeroDivisionError"):
        sk.materialize(sk.smap(lambda i: 1 / 0, range(3)), on_error="skip")


def test_errors_of_writing_are_not_swallowed(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"item 1: ValueError: items must have one shape and dtype"):
        stored = sk.materialize([1, 2.5, 3], tmp_path / "a.npy", nworkers=0, on_error="skip")
    assert list(stored) == [1, 3]


@pytest.mark.parametrize(
    ("make", "name", "pool"),
    [(pixels, "a.npy", ThreadPoolExecutor), (row, "a.parquet", ProcessPoolExecutor)],
    ids=["threads", "processes"],
)
def test_executors_compute_and_write(make: Any, name: str, pool: Any, tmp_path: Path) -> None:
    needs(name)
    options = {} if pool is ThreadPoolExecutor else {"mp_context": multiprocessing.get_context("spawn")}
    with pool(2, **options) as executor:
        stored = sk.materialize(sk.smap(make, range(N)), tmp_path / name, method=executor, chunk_size=30)
    assert same(stored, [make(i) for i in range(N)])


def test_threads_compute_and_write(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    stored = sk.materialize(sk.smap(row, range(N)), tmp_path / "a.parquet", nworkers=3, method="thread")
    assert same(stored, [row(i) for i in range(N)])


@pytest.mark.parametrize("nworkers", [None, 3])
def test_a_stream_is_read_by_one_worker(nworkers: int | None, tmp_path: Path) -> None:
    opened = tmp_path / "opened"

    def numbers() -> Iterator[int]:
        with open(opened, "a") as file:
            file.write(f"{os.getpid()} ")
        yield from range(200)

    stored = sk.materialize(sk.uniter(numbers, size=200), tmp_path / "a.npy", nworkers=nworkers)
    assert list(stored) == list(range(200))
    ours, *others = opened.read_text().split()
    assert int(ours) == os.getpid()  # the first item, whose type decides
    assert len(others) == 1


def test_only_the_first_item_is_computed_in_the_calling_process(tmp_path: Path) -> None:
    def pid(i: int) -> int:
        return os.getpid()

    pids = [*sk.materialize(sk.smap(pid, range(50)), tmp_path / "a.npy", nworkers=2)]
    assert [k for k, each in enumerate(pids) if each == os.getpid()] == [0]


def test_shards_of_several_ranks_are_read_together(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    view = sk.smap(row, range(N))
    folder = tmp_path / "shards"
    paths = [folder / f"rank-{rank}.parquet" for rank in range(3)]
    for rank, path in enumerate(paths):
        part = sk.shard(view, rank, 3, contiguous=True)
        sk.materialize(part, path, nworkers=0, chunk_size=8)
    expected = [row(i) for i in range(N)]
    assert same(sk.sources.parquet(paths), expected)
    assert same(sk.sources.parquet(folder), expected)
    assert same(sk.read(folder), expected)
    assert same(sk.read(folder / "*.parquet"), expected)
    unfinished = folder / "rank-3.parquet"
    unfinished.mkdir()
    (unfinished / "plan.json").write_text('{"seqkit": 1, "n": 5, "k": 2}')
    (unfinished / "part-000001.parquet").touch()
    message = r"rank-3\.parquet is not complete\. Of its 3 parts, 2 are missing: 'part-000000"
    for path in (folder, unfinished, folder / "*.parquet"):
        with pytest.raises(ValueError, match=message):
            sk.read(path)
    (unfinished / "plan.json").write_text("{}")  # a file of another program
    (unfinished / "part-000001.parquet").unlink()
    assert len(sk.read(folder)) == N


def test_two_processes_do_not_write_to_one_path(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "a.npy"
    code = "import sys, seqkit as sk; sk.materialize(range(3), sys.argv[1], nworkers=0)"

    def make(i: int) -> int:
        if i == 1:
            other = subprocess.run(
                [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=50
            )
            assert "RuntimeError: materialize: another process is writing to" in other.stderr
        return i

    assert [*sk.materialize(sk.smap(make, range(3)), path, nworkers=0)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"to": 3}, TypeError, r"materialize: to must be a path that ends in \.npy or \.parquet, got 3"),
        ({"to": "a.h5"}, ValueError, r"got 'a\.h5'\. Processes cannot write .* in parallel\. Use \.npy"),
        ({"to": "a.zarr"}, ValueError, r"got 'a\.zarr'\. Processes cannot write"),
        ({"to": "a.csv"}, ValueError, r"materialize: to must end in \.npy or \.parquet, got 'a\.csv'$"),
        ({"to": "a.npy", "method": "fast"}, ValueError, "materialize: method must be one of"),
        ({"to": "a.npy", "on_error": "ignore"}, ValueError, "on_error must be 'raise', 'skip' or callable"),
        ({"nworkers": 2}, ValueError, "materialize: nworkers is for files, got to=None"),
        ({"chunk_size": 2}, ValueError, "materialize: chunk_size is for files, got to=None"),
    ],
)
def test_other_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message), chdir(tmp_path):
        sk.materialize(sk.smap(lambda i: 1 / 0, range(3)), **arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("item", "name", "message"),
    [
        ((1, 2), "a.npy", r"\.npy needs numbers or arrays of numbers, got tuple\. Use \.parquet"),
        ({"x": 1}, "a.npy", r"\.npy needs numbers or arrays of numbers, got dict"),
        (np.ma.zeros(2), "a.npy", r"\.npy needs numbers or arrays of numbers, got MaskedArray"),
        (
            np.zeros(2, "f4").view(np.recarray),
            "a.npy",
            r"\.npy needs numbers or arrays of numbers, got recarray",
        ),
        ([2**53 + 1, 0.5], "a.npy", r"\.npy needs numbers or arrays of numbers, got list"),
        ("ends with zero\0", "a.npy", r"\.npy needs numbers or arrays of numbers, got str"),
        ([b"x", b"\0"], "a.npy", r"\.npy needs numbers or arrays of numbers, got list"),
        (np.zeros(2), "a.parquet", r"\.parquet needs dicts or tuples, got ndarray\. Use \.npy"),
        ("a", "a.parquet", r"\.parquet needs dicts or tuples, got str"),
    ],
)
def test_items_of_the_wrong_kind_are_refused(item: Any, name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        sk.materialize([item], tmp_path / name, nworkers=0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("library", "name"), [("polars", "DataFrame"), ("pyarrow", "table")])
def test_names_of_columns_are_not_lost(library: str, name: str, tmp_path: Path) -> None:
    table = getattr(pytest.importorskip(library), name)({"x": [1, 2]})
    with pytest.raises(TypeError, match=r"\.npy .*got (\w*Table|DataFrame)"):
        sk.materialize([table], tmp_path / "a.npy", nworkers=0)


def test_dtype_of_another_library_is_refused(tmp_path: Path) -> None:
    rational = pytest.importorskip("numpy._core._rational_tests").rational  # as bfloat16 of ml_dtypes
    with pytest.raises(TypeError, match=r"a \.npy file does not say that its numbers are rational"):
        sk.materialize([np.zeros(2, rational)], tmp_path / "a.npy", nworkers=0)
    assert os.listdir(tmp_path) == []


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    view = sk.smap(row, range(6))
    begun(view, tmp_path / "a.parquet")
    (journal,) = (tmp_path / "a.parquet.partial").glob("*.journal")
    content = bytearray(journal.read_bytes())
    content[-5] ^= 1
    journal.write_bytes(content)
    with pytest.raises(RuntimeError, match=r"item 0 in .*\.journal is damaged\. Delete this file"):
        sk.materialize(view, tmp_path / "a.parquet", nworkers=0)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Oslo"])
def test_timestamps_of_pandas_come_back(unit: Any, zone: str | None, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    time = pd.Timestamp("2020-07-01 12:00:01", tz=zone).as_unit(unit)
    stored = sk.materialize([{"t": time}, {"t": None}], tmp_path / "a.parquet", nworkers=0)
    found = stored[0]["t"]
    assert (type(found), found, found.unit) == (pd.Timestamp, time, unit)
    assert found.utcoffset() == time.utcoffset()
    assert stored[1]["t"] is None
