"""`materialize` into files: in parallel, complete or not at all, continued after a crash."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
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
    assert told[0] in [(2, N), (7, N)]
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
    assert not (tmp_path / "a.npy").exists()
    assert not (tmp_path / "a.parquet" / "_SUCCESS").exists()
    before = [int(line) for line in log.read_text().split()]
    log.with_suffix(".mended").touch()
    log.unlink()
    stored = sk.materialize(view, tmp_path / name, nworkers=nworkers)
    assert same(stored, [make(i) for i in range(N)])
    again = [int(line) for line in log.read_text().split()]
    assert {*before} | {*again} == {*range(N)}
    in_work = {i // 10 for i in {*before} & {*again}}
    assert len(in_work) <= 1 + nworkers
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


FULL_DISK = """
import os, random, resource, sys, warnings
import seqkit as sk

path, nworkers, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
full, parent, shares_memory = True, os.getpid(), nworkers and method == "process"

def make(i):
    if full and (os.getpid() != parent or not shares_memory):  # for which seqkit makes a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, unlimited[1]))
    if i % 10 == 3:
        raise OSError(28, "of the item")
    return {"x": random.randbytes(50_000), "i": i}

def write(on_error):
    view = sk.smap(make, range(100))
    return sk.materialize(view, path, nworkers=nworkers, method=method, on_error=on_error)

warnings.simplefilter("ignore")
try:
    write("skip")
except OSError as error:
    assert error.errno == 27, error
else:
    raise AssertionError("the full disk was taken for failed items")
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
assert os.path.exists(path + "/plan.json") and not os.path.exists(path + "/_SUCCESS")
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
    assert [*map(int, done.stdout.split())] == [i for i in range(100) if i % 10 != 3]


@pytest.mark.parametrize(("nworkers", "chunk_size"), [(0, 10), (2, 10), (2, 200)])
def test_a_disk_that_is_full_is_told(
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
        with pytest.raises(OSError, match="No space left"):
            write()
    assert os.listdir(tmp_path / "a.parquet") == ["plan.json"]
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

    with pytest.raises(sk.EvaluationError, match=r"\[2\] failed to be written: .* image file is truncated"):
        sk.materialize(sk.smap(Picture, range(4)), tmp_path / "a.npy", nworkers=nworkers)


# -------------------------------------------------------------------- the plan


def stopped(view: Any, path: Path, stop: int = 2, **options: Any) -> None:
    """Write some parts of a view, each of 2 items, and stop."""

    def report(done: int, total: int | None) -> None:
        if done >= stop:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sk.materialize(view, path, **{"nworkers": 0, "chunk_size": 2} | options, progress=report)


def test_the_plan_is_beside_the_parts(tmp_path: Path) -> None:
    needs("a.parquet")
    stopped(sk.smap(row, range(7)), tmp_path / "a.parquet", version="v1")
    assert {*os.listdir(tmp_path / "a.parquet")} == {"plan.json", "part-000000.parquet"}
    plan = json.loads((tmp_path / "a.parquet" / "plan.json").read_text())
    assert {**plan, "order": ""} == {
        "seqkit": 1,
        "n": 7,
        "k": 2,
        "order": "",
        "on_error": "raise",
        "version": "v1",
    }


OTHER_PLANS: dict[str, tuple[Any, dict[str, Any]]] = {
    "n is 12 there and 11 here": (range(11), {}),
    "k is 2 there and 3 here": (range(12), {"chunk_size": 3}),
    "on_error is 'raise' there and 'skip' here": (range(12), {"on_error": "skip"}),
    "version is 1 there and 2 here": (range(12), {"version": 2}),
    "version is 1 there and None here": (range(12), {"version": None}),
    "order is '": (sk.shuffle(range(12), seed=0), {}),
}


@pytest.mark.parametrize("message", OTHER_PLANS)
@BOTH
@pytest.mark.parametrize("is_finished", [False, True])
def test_another_plan_is_refused_field_by_field(
    make: Any, name: str, message: str, is_finished: bool, tmp_path: Path
) -> None:
    needs(name)
    path = tmp_path / name
    if is_finished:
        sk.materialize(sk.smap(make, range(12)), path, nworkers=0, chunk_size=2, version=1)
        if name == "a.npy":
            with pytest.raises(FileExistsError, match=r"a\.npy' exists already"):
                sk.materialize(sk.smap(make, range(12)), path, nworkers=0, chunk_size=2, version=1)
            return
    else:
        stopped(sk.smap(make, range(12)), path, version=1)
    items, options = OTHER_PLANS[message]
    if name == "a.npy" and "on_error" in options:
        return
    with pytest.raises(ValueError, match=f"has another plan: .*{message}.* Pass the same arguments"):
        sk.materialize(sk.smap(make, items), path, **{"nworkers": 0, "version": 1} | options)
    assert same(
        sk.materialize(sk.smap(make, range(12)), path, nworkers=0, version=1), [*map(make, range(12))]
    )


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
@pytest.mark.parametrize(
    "change",
    [
        lambda view: view.at_epoch(3),
        lambda view: sk.random_map(with_rng, range(6), seed=1),
        lambda view: sk.random_map(with_rng, [0, 1, 2, 3, 4, 5][::-1], seed=0)[::-1],
    ],
    ids=["epoch", "seed", "indices"],
)
def test_other_items_are_refused(name: str, change: Any, tmp_path: Path) -> None:
    needs(name)
    view = sk.random_map(with_rng, range(6), seed=0)
    as_rows = (lambda x: x) if name == "a.npy" else (lambda x: {"x": x})
    stopped(sk.smap(as_rows, view), tmp_path / name)
    with pytest.raises(ValueError, match="has another plan: order is"):
        sk.materialize(sk.smap(as_rows, change(view)), tmp_path / name, nworkers=0)


def with_rng(x: int, rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 60))


def test_shares_of_two_ranks_have_two_plans(tmp_path: Path) -> None:
    stopped(sk.shard(sk.view([*range(12)]), 0, 2), tmp_path / "a.npy")
    with pytest.raises(ValueError, match="has another plan: order is"):
        sk.materialize(sk.shard(sk.view([*range(12)]), 1, 2), tmp_path / "a.npy", nworkers=0)


def test_a_finished_folder_is_read(tmp_path: Path) -> None:
    needs("a.parquet")
    path, calls = tmp_path / "a.parquet", list[int]()

    def make(i: int) -> Any:
        calls.append(i)
        return row(i)

    for _ in range(3):  # as a script that is run again
        assert same(sk.materialize(sk.smap(make, range(N)), path, nworkers=0), [*map(row, range(N))])
    assert calls == [*range(N)]
    assert {*os.listdir(path)} == {"_SUCCESS", *(f"part-{p:06}.parquet" for p in range(50))}
    (path / "_SUCCESS").unlink()  # and it was lost: the parts are there
    (path / "plan.json").write_text(json.dumps(plan_of(path / "part-000000.parquet")))
    assert same(sk.materialize(sk.smap(make, range(N)), path, nworkers=0), [*map(row, range(N))])
    assert calls == [*range(N)]


def plan_of(path: Path) -> Any:
    from pyarrow.parquet import read_metadata

    return json.loads(read_metadata(path).metadata[b"seqkit"])["plan"]


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    needs("a.parquet")
    import pyarrow as pa
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    path.touch()
    view = sk.smap(row, range(4))
    for _ in range(2):
        with pytest.raises(FileExistsError, match="exists already, and materialize did not write it"):
            sk.materialize(view, path, nworkers=0)
        if path.is_file():
            path.unlink()
            path.mkdir()
            pyarrow.parquet.write_table(pa.table({"x": [1]}), path / "part-000000.parquet")
            (path / "_SUCCESS").touch()


@pytest.mark.parametrize(
    ("nbytes", "n", "rows"), [(10, 100, 2), (10, 64 * 100, 100), (10, 10**6, 8192), (2**24, 10**4, 3)]
)
def test_the_rows_of_a_part_follow_from_the_bytes_of_the_first_items(
    nbytes: int, n: int, rows: int, tmp_path: Path
) -> None:
    view = sk.smap(lambda i: np.zeros(nbytes if i == 2 else 1, "u1"), range(n))
    with pytest.raises(sk.EvaluationError):  # after the plan
        sk.materialize(view, tmp_path / "a.npy", nworkers=0)
    assert json.loads((tmp_path / "a.npy.partial" / "plan.json").read_text())["k"] == rows


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

    with pytest.raises(sk.WorkerDied, match=r"materialize: one of the items 30 to 39: worker"):
        sk.materialize(sk.smap(make, range(N)), tmp_path / "a.npy", nworkers=1, chunk_size=10)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([1, 2.5], r"source\[1\] failed to be written: .* before are int64 \(\), this one is float64 \(\)"),
        ([np.zeros(2), np.zeros(3)], r"The items before are float64 \(2,\), this one is float64 \(3,\)"),
    ],
)
def test_arrays_of_different_kinds_are_refused(items: list[Any], message: str, tmp_path: Path) -> None:
    for k in (1, 2):
        with pytest.raises(sk.EvaluationError, match=message) as caught:
            sk.materialize(items, tmp_path / f"{k}.npy", nworkers=0, chunk_size=k)
        assert caught.value.index == 1


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


# -------------------------------------------------------------------- workers, crashes, errors


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
    if name == "a.parquet":
        message = rf"{len(bad)} of 100 items failed and were left out\. item {min(bad)}: OSError: no picture"
        with pytest.warns(RuntimeWarning, match=message):
            stored = sk.materialize(view, tmp_path / name, nworkers=nworkers, on_error="skip")
        assert same(stored, [make(i) for i in range(N) if i not in bad])
    mended = sk.fallback(lambda error: make(error.index + 1000), view)
    replaced = sk.materialize(mended, tmp_path / f"b{name}", nworkers=nworkers)
    assert same(replaced, [make(i + 1000 * (i in bad)) for i in range(N)])


def test_errors_of_a_list_are_raised_under_any_policy() -> None:
    with sk.errstate("passthrough"), pytest.raises(ZeroDivisionError):
        sk.materialize(sk.smap(lambda i: 6 // (i - 2), range(4)))


def test_all_items_failed(tmp_path: Path) -> None:
    needs("a.parquet")
    with pytest.raises(ValueError, match=r"all 3 items failed\. The last error was: ZeroDivisionError"):
        sk.materialize(
            sk.smap(lambda i: 1 / 0, range(3)), tmp_path / "a.parquet", nworkers=0, on_error="skip"
        )


def test_items_that_do_not_fit_are_left_out_with_a_warning(tmp_path: Path) -> None:
    needs("a.parquet")
    items = [{"x": 1}, {"x": 2.5}, {"x": 3}]
    with pytest.warns(RuntimeWarning, match=r"item 1: TypeError: \['x'\] is double"):
        stored = sk.materialize(items, tmp_path / "a.parquet", nworkers=0, on_error="skip")
    assert list(stored) == [{"x": 1}, {"x": 3}]


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
    assert int(ours) == os.getpid()  # the first items, whose bytes decide
    assert len(others) == 1


def test_the_first_items_are_computed_in_the_calling_process(tmp_path: Path) -> None:
    def pid(i: int) -> int:
        return os.getpid()

    pids = [*sk.materialize(sk.smap(pid, range(50)), tmp_path / "a.npy", nworkers=2)]
    assert [k for k, each in enumerate(pids) if each == os.getpid()] == [0, 1, 2, 3]


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


def test_two_threads_do_not_write_to_one_path(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "a.npy"

    def make(i: int) -> int:
        if i == 5:
            with pytest.raises(RuntimeError, match="another process is writing to"):
                sk.materialize(sk.smap(int, range(6)), path, nworkers=0)
        return i

    assert [*sk.materialize(sk.smap(make, range(6)), path, nworkers=0)] == [*range(6)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"to": 3}, TypeError, r"materialize: to must be a path that ends in \.npy or \.parquet, got 3"),
        ({"to": "a.h5"}, ValueError, r"must end in \.npy or \.parquet, got 'a\.h5'"),
        ({"to": "a.csv"}, ValueError, r"materialize: to must end in \.npy or \.parquet, got 'a\.csv'\."),
        ({"to": "a.npy", "method": "fast"}, ValueError, "materialize: method must be one of"),
        (
            {"to": "a.npy", "on_error": "ignore"},
            ValueError,
            "on_error must be 'raise' or 'skip', got 'ignore'",
        ),
        ({"to": "a.npy", "on_error": print}, ValueError, r"on_error must .* For a function use fallback\("),
        ({"to": "a.npy", "on_error": "skip"}, ValueError, r"on_error='skip' is for \.parquet, got \.npy"),
        ({"on_error": "skip"}, ValueError, "materialize: on_error is for files, got to=None"),
        ({"nworkers": 2}, ValueError, "materialize: nworkers is for files, got to=None"),
        ({"chunk_size": 2}, ValueError, "materialize: chunk_size is for files, got to=None"),
        ({"version": 2}, ValueError, "materialize: version is for files, got to=None"),
        ({"to": "a.npy", "version": 1.5}, TypeError, "materialize: version must be a str or int, got 1.5"),
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
        ((1, 2), "a.npy", r"\.npy needs numbers or arrays of numbers, got tuple\. Convert it"),
        ([1, 2], "a.npy", r"\.npy needs numbers or arrays of numbers, got list"),
        ({"x": 1}, "a.npy", r"\.npy needs numbers or arrays of numbers, got dict"),
        (None, "a.npy", r"\.npy needs numbers or arrays of numbers, got NoneType"),
        (np.ma.zeros(2), "a.npy", r"\.npy needs numbers or arrays of numbers, got MaskedArray"),
        (
            np.zeros(2, "f4").view(np.recarray),
            "a.npy",
            r"\.npy needs numbers or arrays of numbers, got recarray",
        ),
        (2**64, "a.npy", r"\.npy needs numbers or arrays of numbers, got int"),
        ("text", "a.npy", r"\.npy needs numbers or arrays of numbers, got str"),
        (np.zeros(2), "a.parquet", r"\.parquet needs dicts, got ndarray\. Use \.npy"),
        ((1, 2), "a.parquet", r"\.parquet needs dicts, got tuple"),
    ],
)
def test_items_of_the_wrong_kind_are_refused(item: Any, name: str, message: str, tmp_path: Path) -> None:
    needs(name)
    with pytest.raises(sk.EvaluationError, match=rf"source\[0\] failed to be written: TypeError: {message}"):
        sk.materialize([item], tmp_path / name, nworkers=0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("library", "name"), [("polars", "DataFrame"), ("pyarrow", "table")])
def test_names_of_columns_are_not_lost(library: str, name: str, tmp_path: Path) -> None:
    table = getattr(pytest.importorskip(library), name)({"x": [1, 2]})
    with pytest.raises(sk.EvaluationError, match=r"\.npy .*got (\w*Table|DataFrame)"):
        sk.materialize([table], tmp_path / "a.npy", nworkers=0)


def test_dtype_of_another_library_is_refused(tmp_path: Path) -> None:
    rational = pytest.importorskip("numpy._core._rational_tests").rational  # as bfloat16 of ml_dtypes
    with pytest.raises(sk.EvaluationError, match=r"\.npy needs numbers .* got ndarray of rational"):
        sk.materialize([np.zeros(2, rational)], tmp_path / "a.npy", nworkers=0)
    assert os.listdir(tmp_path) == []
