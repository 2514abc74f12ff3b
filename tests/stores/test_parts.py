"""The parts of a Parquet folder: which types fit together, and a kill at any moment."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

pa = pytest.importorskip("pyarrow")
K = 4
NOW = datetime.datetime(2020, 7, 1, 12)
UTC = datetime.UTC
OSLO = datetime.timezone(datetime.timedelta(hours=2))

# A value of the items before, one of a later item, and whether both are kept.
CHANGES: dict[str, tuple[Any, Any, bool]] = {
    "a value, then None": ({"x": 1}, {"x": None}, True),
    "None, then a value": ({"x": None}, {"x": np.float32(0.5)}, True),
    "an empty list, then one with elements": ({"x": []}, {"x": [1, 2]}, True),
    "None in a nested dict, then a value": ({"x": {"y": None}}, {"x": {"y": "a"}}, True),
    "None in a list of dicts, then a value": ({"x": [{"y": None}]}, {"x": [{"y": b"a"}, {"y": None}]}, True),
    "a vector, then a longer one": ({"x": np.ones(2, "f4")}, {"x": np.ones(5, "f4")}, True),
    "the same keys in another order": ({"x": 1, "y": 2}, {"y": 3, "x": 4}, True),
    "an int, then a float": ({"x": 1}, {"x": 1.5}, False),
    "a float, then an int": ({"x": 1.5}, {"x": 1}, False),
    "a bool, then an int": ({"x": True}, {"x": 1}, False),
    "an int, then text": ({"x": 1}, {"x": "1"}, False),
    "text, then bytes": ({"x": "a"}, {"x": b"a"}, False),
    "numpy.int8, then int": ({"x": np.int8(1)}, {"x": 1}, False),
    "a vector of float32, then of float64": ({"x": np.ones(2, "f4")}, {"x": np.ones(2)}, False),
    "a list of ints, then of floats": ({"x": [1, 2]}, {"x": [0.5]}, False),
    "a new key": ({"x": 1}, {"x": 1, "y": 2}, False),
    "a missing key": ({"x": 1, "y": 2}, {"x": 1}, False),
    "a new key in a nested dict": ({"x": {"y": 1}}, {"x": {"y": 1, "z": 2}}, False),
    "a missing key in a list of dicts": ({"x": [{"y": 1, "z": 1}]}, {"x": [{"y": 1}]}, False),
    "a time, then one with a zone": ({"x": NOW}, {"x": NOW.replace(tzinfo=UTC)}, False),
    "a time zone, then another one": ({"x": NOW.replace(tzinfo=UTC)}, {"x": NOW.replace(tzinfo=OSLO)}, False),
    "a date, then a time": ({"x": NOW.date()}, {"x": NOW}, False),
}
PLACES = {"first part": 1, "later part": K, "within a part": K + 2}


def is_kept(before: Any, after: Any, at: int, path: Path) -> bool:
    rows = [before] * at + [after] * (3 * K - at)
    try:
        stored = sk.materialize(rows, path, nworkers=0, chunk_size=K)
    except sk.EvaluationError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert refused.index == at
        text = str(refused)
        assert text.startswith(f"source[{at}] failed to be written: TypeError: ")
        assert "['x']" in text or "keys" in text
        assert "Convert one of them" in text or "Use None for missing values" in text
        assert not (path / "_SUCCESS").exists()
        return False
    assert [plain(row) for row in stored] == [plain(row) for row in rows]
    assert len({str(pa.parquet.read_schema(part)) for part in path.glob("*.parquet")}) == 1
    return True


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | np.ndarray):
        return [plain(part) for part in value]
    return value


@pytest.mark.parametrize("change", CHANGES)
def test_only_null_gives_way(change: str, tmp_path: Path) -> None:
    before, after, kept = CHANGES[change]
    for number, at in enumerate(PLACES.values()):
        assert is_kept(before, after, at, tmp_path / f"{number}.parquet") == kept


COLUMNS: dict[str, tuple[list[Any], Any]] = {
    "int": ([1, -(2**63), 2**63 - 1, None], pa.int64()),
    "float": ([1.5, float("inf"), -0.0, None], pa.float64()),
    "bool": ([True, False, None], pa.bool_()),
    "str": (["a", "é\0", "", None], pa.string()),
    "bytes": ([b"", b"\0a", None], pa.binary()),
    "date": ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None], pa.date32()),
    "datetime": ([datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59), None], None),
    "zone": ([NOW.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "time": ([datetime.time(1, 2, 3, 4), None], pa.time64("us")),
    "timedelta": ([datetime.timedelta(-3, 0, 1), None], pa.duration("us")),
    "int8": ([np.int8(-3), np.int8(127), None], pa.int8()),
    "uint64": ([np.uint64(2**64 - 1), np.uint64(0), None], pa.uint64()),
    "float32": ([np.float32(0.5), np.float32(np.inf), None], pa.float32()),
    "vectors": ([np.array([0.5, 1], "f4"), np.empty(0, "f4"), None], pa.list_(pa.float32())),
    "vectors of int8": ([np.array([1, 2], "i1"), None], pa.list_(pa.int8())),
    "rows of a matrix": ([list(np.eye(2, dtype="f4"))], pa.list_(pa.list_(pa.float32()))),
    "texts": ([np.array(["a", "bcd"]), None], pa.list_(pa.string())),
    "lists": ([[1, 2], [], [3], None], pa.list_(pa.int64())),
    "numbers in a list": ([[1, 2.5], [0.5, None]], pa.list_(pa.float64())),
    "tuples": ([(1, 2), None], pa.list_(pa.int64())),
    "nested": ([[[1.5], []], [], [[]], None], pa.list_(pa.list_(pa.float64()))),
    "dicts": ([{"y": {"z": np.int8(1)}}, {"y": None}], pa.struct([("y", pa.struct([("z", pa.int8())]))])),
    "seconds": ([np.datetime64(1, "s"), np.datetime64("NaT", "s")], pa.timestamp("ms")),
    "nothing": ([None, None], pa.null()),
    "empty": ([[], []], pa.list_(pa.null())),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_and_types_survive(name: str, tmp_path: Path) -> None:
    values, kind = COLUMNS[name]
    stored = sk.materialize(
        [{"x": value} for value in values], tmp_path / "a.parquet", chunk_size=1, nworkers=0
    )
    found = [plain(row["x"]) for row in stored]
    if name == "seconds":
        assert found == [datetime.datetime(1970, 1, 1, 0, 0, 1), None]
    else:
        assert found == [list(value) if isinstance(value, tuple) else plain(value) for value in values]
    schema = pa.parquet.read_schema(tmp_path / "a.parquet" / "part-000000.parquet")
    assert kind is None or schema.field("x").type == kind
    assert pa.parquet.read_table(tmp_path / "a.parquet").num_rows == len(values)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {1, 2},
            r"\['x'\], a set, is no value of Parquet: ValueError: it would become \[1, 2\]",
        ),
        (2**63, r"\['x'\], a int, is no value of Parquet: OverflowError"),
        (datetime.time(1, tzinfo=UTC), r"\['x'\], a time, .* it would become datetime\.time\(1, 0\)"),
        (np.ma.zeros(2), r"\['x'\], a MaskedArray, .* it would lose its mask"),
        (np.eye(2), r"\['x'\], a ndarray, .* one-dimensional arrays"),
        (np.zeros(2, complex), r"\['x'\], a ndarray, is no value of Parquet"),
        ([1, "a"], r"\['x'\], a list, is no value of Parquet"),
        ([0.5, 2**53 + 1], r"\['x'\], a list, .* 9007199254740993 is outside of the range"),
        ([{"y": 1}, {"z": 1}], r"\['x'\]\[…\] has the keys \['z'\], and in the items before \['y'\]"),
        ([NOW, NOW.replace(tzinfo=UTC)], r"\['x'\]\[…\] is timestamp\[us, tz=UTC\], and timestamp\[us\]"),
        (np.array([{"y": 1}, {"z": 1}]), r"\['x'\]\[…\] has the keys"),
        ({}, r"\['x'\] must be a dict with text as keys, got \[\]"),
        ({1: 2}, r"\['x'\] must be a dict with text as keys, got \[1\]"),
        ("é\udcff", r"\['x'\], a str, is no value of Parquet: UnicodeEncodeError"),
    ],
)
def test_values_that_would_come_back_as_others_are_refused(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(sk.EvaluationError, match=message):
        sk.materialize([{"x": None}, {"x": value}], tmp_path / "a.parquet", nworkers=0)


def test_nanoseconds_that_would_be_lost_are_refused(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for value in (pandas.Timestamp(1), pandas.Timedelta(1)):
        with pytest.raises(sk.EvaluationError, match="it would become"):
            sk.materialize([{"x": value}], tmp_path / "a.parquet", nworkers=0)


def test_skipped_items_stand_in_the_metadata_of_their_part(tmp_path: Path) -> None:
    def make(i: int) -> Any:
        if i in (1, 4, 5, 6, 7):
            raise OSError(f"no picture {i}")
        return {"x": i}

    view, path = sk.smap(make, range(12)), tmp_path / "a.parquet"
    with pytest.warns(RuntimeWarning, match=r"5 of 12 items failed .* item 1: OSError: no picture 1; item 4"):
        stored = sk.materialize(view, path, nworkers=0, chunk_size=4, on_error="skip")
    assert [row["x"] for row in stored] == [0, 2, 3, 8, 9, 10, 11]
    assert [pa.parquet.read_metadata(part).num_rows for part in sorted(path.glob("*.parquet"))] == [3, 0, 4]
    assert (
        b'"4": "OSError: no picture 4"'
        in pa.parquet.read_metadata(path / "part-000001.parquet").metadata[b"seqkit"]
    )


def test_a_part_that_is_empty_before_any_type_is_known_gets_the_type_at_the_end(tmp_path: Path) -> None:
    def make(i: int) -> Any:
        return {"x": 1 / (i >= stop), "y": None if i < 5 else "a"}

    view, path, stop = sk.smap(make, range(8)), tmp_path / "a.parquet", 0
    sk.materialize(view, path, nworkers=0, chunk_size=2, on_error="skip")
    plan = json.loads(pa.parquet.read_metadata(path / "part-000000.parquet").metadata[b"seqkit"])["plan"]
    for file in path.iterdir():  # as after a kill between the plan and the first part
        file.unlink()
    (path / "plan.json").write_text(json.dumps(plan))
    stop = 4
    with pytest.warns(RuntimeWarning, match="4 of 8 items failed"):
        stored = sk.materialize(view, path, nworkers=0, on_error="skip")
    assert [row["y"] for row in stored] == [None, "a", "a", "a"]
    assert len({str(pa.parquet.read_schema(part).remove_metadata()) for part in path.glob("*.parquet")}) == 1


def test_a_type_that_two_workers_find_at_the_same_time_is_refused_by_item(tmp_path: Path) -> None:
    """Each part is written by itself, so the second one is refused by the calling process."""
    rows = [{"x": None}] * 8 + [{"x": 1}] * 4 + [{"x": None}, {"x": 0.5}, {"x": 0.5}, {"x": None}]
    path = tmp_path / "a.parquet"
    view = sk.smap(dict, rows)
    for _ in range(2):
        with pytest.raises(sk.EvaluationError, match=r"smap\[13\] failed .* \['x'\] is double, and int64"):
            sk.materialize(view, path, nworkers=1, method="thread", chunk_size=4)
    rows[13:15] = [{"x": 2}] * 2  # code is not compared
    assert [row["x"] for row in sk.materialize(view, path, nworkers=0)] == [None] * 8 + [1] * 4 + [
        None,
        2,
        2,
        None,
    ]


def test_other_programs_read_the_folder(tmp_path: Path) -> None:
    rows = [{"v": np.full(2, i, "f4"), "n": np.int8(i), "s": "a"} for i in range(3)]
    stored = sk.materialize(rows, tmp_path / "a.parquet", nworkers=0)
    assert stored[2]["n"] == 2
    assert sk.sources.parquet(tmp_path / "a.parquet", ["n", "s"])[2] == {"n": 2, "s": "a"}
    assert sk.default_collate(list(stored))["v"].dtype == np.float32
    assert sk.read(tmp_path / "a.parquet")[1]["s"] == "a"
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).read_parquet(tmp_path / "a.parquet")
        assert [each.tolist() for each in frame["v"].to_list()] if library == "pandas" else True
        assert list(frame["n"]) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"columns must be among .*, got \['town'\]"):
        sk.sources.parquet(tmp_path / "a.parquet", ["n", "town"])


# -------------------------------------------------------------------- kills

# Forks a child for each kill. The child writes the folder, and kills itself at one event of one part.
KILLS = """
import os, signal, sys
import numpy as np
import pyarrow.parquet
import seqkit as sk

pyarrow.scalar(0)  # imports pandas once, and not in each child
folder, log = sys.argv[1:]
N, K = 48, 4
killed = None

def make(i):
    if killed == ("item", i // K) and i % K == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with open(log, "a") as file:
        print(i, file=file)
    return {"x": i, "v": np.full(i % 3, i, "f4"), "late": None if i < 30 else "a"}

def write(path):
    return sk.materialize(sk.smap(make, range(N)), path, nworkers=0, chunk_size=K)

replace, replaced = os.replace, 0

def replace_and_count(*names):
    global replaced
    for event in ("before", "after"):
        if killed == (event, replaced):
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "before":
            replace(*names)
    replaced += 1

os.replace = replace_and_count
kills = [("item", p) for p in range(N // K)] if sys.argv[2].endswith("items") else []
kills = kills or [(event, p) for p in (0, 0, 1, 3) for event in ("before", "after")]
for killed in kills:
    child = os.fork()
    if not child:
        write(folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), (killed, status)
killed = None
write(folder)
print(len(kills))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("events", ["items", "files"])
def test_a_kill_in_each_part_costs_that_part(events: str, tmp_path: Path) -> None:
    path, log = tmp_path / "a.parquet", tmp_path / f"log-{events}"
    command = [sys.executable, "-c", KILLS, path, log]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    computed = np.bincount([int(line) for line in log.read_text().split()], minlength=48)
    assert computed.min() == 1
    # Of each kill: the items of the part in work that were computed.
    assert computed.sum() <= 48 + int(done.stdout) * 4
    assert (computed.reshape(-1, 4) - 1).sum(1).max() <= 4 * (1 if events == "items" else int(done.stdout))

    def make(i: int) -> Any:
        return {"x": i, "v": np.full(i % 3, i, "f4"), "late": None if i < 30 else "a"}

    sk.materialize(sk.smap(make, range(48)), tmp_path / "b.parquet", nworkers=0, chunk_size=4)
    assert contents(path) == contents(tmp_path / "b.parquet")


# Kills a program at every 10 ms of its 200 parts, each time in a new folder, and lets the next one finish.
AT_ANY_TIME = """
import os, signal, sys, time
import numpy as np
import pyarrow.parquet
import seqkit as sk

pyarrow.scalar(0)
base = sys.argv[1]

def make(i):
    time.sleep(0.0005)
    os.write(log, b"%d\\n" % i)
    return {"x": i, "v": np.full(i % 3, i, "f4"), "late": None if i < 300 else "a"}

def begin(folder):
    child = os.fork()
    if not child:
        sk.materialize(sk.smap(make, range(400)), folder, nworkers=2, chunk_size=2)
        os._exit(0)
    return child

delay = 0.0
while True:
    folder = f"{base}/{delay:.2f}.parquet"
    log = os.open(folder + ".log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    child = begin(folder)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    was_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    if not was_killed:
        break
    assert os.waitpid(begin(folder), 0)[1] == 0
    delay += 0.01
print(delay)
"""


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_a_kill_at_every_10_ms_costs_the_parts_in_work(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AT_ANY_TIME, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stderr
    folders = sorted(tmp_path.glob("*.parquet"))
    print(len(folders), "kills, until", done.stdout, "seconds")
    expected = contents(folders[-1])  # of the program that was not killed
    assert len(expected) == 201
    most = 0
    for folder in folders:
        assert contents(folder) == expected
        computed = np.bincount([int(line) for line in Path(f"{folder}.log").read_text().split()])
        assert computed.min() == 1
        again = np.flatnonzero(computed.reshape(-1, 2).max(1) > 1)
        most = max(most, len(again))
    print("parts that were computed again, at most:", most)
    assert most <= 2  # the parts in work of two workers


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
