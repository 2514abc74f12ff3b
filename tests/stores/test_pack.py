"""What is special about `pack`: how items lie in arrays, in files, and in the memory of workers."""

import copy
import datetime
import enum
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.stores.pack.pack import Pack, load_packed, pack
from seqkit.testing import CountingSource, FailingSource, UnsizedSource
from seqkit.testing.subject import expect
from tests.helpers import for_each

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Point:
    x: int


class Colour(enum.Enum):
    RED = 1


class Moody:
    """Pickles, and then cannot be read if it is told so."""

    refuses = False

    def __reduce__(self):
        return _mood, (1,)


def _mood(x):
    if Moody.refuses:
        raise IndexError("not now")
    return x


def record(*values):
    return np.array(list(values), [("a", "i4"), ("b", "f8", (2,))])


# Items, how they lie in memory, and how many bytes that takes.
LAYOUTS = {
    "ints": ([3, 0, 2**70], "pickled", None),
    "floats": ([1.5, float("inf"), -0.0], "pickled", None),
    "bools and ints": ([True, 1, 0], "pickled", None),
    "complex numbers": ([1j, 2 + 1j], "pickled", None),
    "numpy ints": ([*np.arange(5)], "array", 40),
    "numpy floats": ([*np.arange(3, dtype=np.float16)], "array", 6),
    "numpy bools": ([*np.array([True, False])], "array", 2),
    "numpy dates": ([*np.array(["2020-01-01", "2021-01-01"], "M8[D]")], "array", 16),
    "numpy and Python ints": ([np.int64(1), 1], "pickled", None),
    "numpy ints of two kinds": ([np.int64(1), np.int32(1)], "pickled", None),
    "str": (["", "a", "é", "\U0001f600" * 3], "str", 15 + 5 * 4),
    "empty str": (["", ""], "str", 12),
    "str with lone surrogates": (["caf\udce9"], "str", 6 + 8),
    "bytes": ([b"", b"\0\xff"], "bytes", 2 + 12),
    "str and bytes": (["a", b"a"], "pickled", None),
    "numpy str": ([np.str_("a"), np.str_("bc")], "pickled", None),
    "arrays": ([np.full((2, 3), i, np.float32) for i in range(4)], "array", 96),
    "arrays without dimensions": ([np.array(3), np.array(4)], "pickled", None),
    "empty arrays": ([np.empty((0, 3))] * 2, "array", 0),
    "arrays of other lengths": ([np.arange(i, dtype=np.int16) for i in range(5)], "ragged", 20 + 24),
    "boxes": ([np.ones((i, 2, 2), ">i4") for i in (3, 0, 1)], "ragged", 64 + 16),
    "arrays of other widths": ([np.ones((2, 3)), np.ones((2, 4))], "pickled", None),
    "empty arrays of other lengths": ([np.ones((2, 0)), np.ones((3, 0))], "ragged", 12),
    "arrays of other dtypes": ([np.ones(2), np.ones(2, np.int8)], "pickled", None),
    "arrays and numbers": ([np.ones(2), 1.0], "pickled", None),
    "arrays of objects": ([np.array([None, {1: 2}])], "pickled", None),
    "arrays of dates": ([np.array(["2020"], "M8[Y]")] * 3, "array", 24),
    "arrays of records": ([record((1, (2, 3)), (4, (5, 6)))] * 2, "array", 80),
    "arrays of text": ([np.array(["ab", "c"])] * 2, "array", 32),
    "arrays in Fortran order": (
        [np.asfortranarray(np.arange(6).reshape(2, 3))] * 2,
        "array",
        96,
    ),
    "every other item of arrays": ([np.arange(6)[::2]] * 2, "array", 48),
    "dicts": ([{"a": 1, "b": [1, "x"]}] * 3, "pickled", None),
    "tuples": ([(1, "a"), ()], "pickled", None),
    "objects": ([Point(1), Colour.RED, datetime.date(2020, 1, 1), {1, 2}, len], "pickled", None),
    "None": ([None, None], "pickled", None),
    "nothing": ([], "pickled", 4),
}
every_layout = pytest.mark.parametrize("name", LAYOUTS)


def same(view, items):
    """See that a view gives the items, however it is asked, of the same types."""
    n = len(items)
    for found in (
        list(view),
        [view[i] for i in range(n)],
        list(view._getmany(range(n))),
        list(view._getmany(list(range(n)))),
        list(view._getmany(np.arange(n, dtype=np.uint8))),
        list(view[::-1])[::-1],
    ):
        expect("the items", found, items)
        assert [type(item) for item in found] == [type(item) for item in items]


# -------------------------------------------------------------------- items


@for_each("name", LAYOUTS)
def test_items_come_back_equal_in_value_and_type(name):
    items, _, _ = LAYOUTS[name]
    packed = pack(items)
    same(packed, items)
    same(copy.deepcopy(packed), items)
    same(pickle.loads(pickle.dumps(packed, protocol=5)), items)


@for_each("name", LAYOUTS)
def test_items_take_as_few_bytes_as_their_kind_allows(name):
    items, layout, nbytes = LAYOUTS[name]
    packed = pack(items)
    if layout is not None:
        assert repr(packed) == f"pack(<{len(items)} {layout}>)"
    if nbytes is not None:
        assert packed.nbytes == nbytes


@every_layout
def test_items_are_read_from_files_as_from_memory(name, tmp_path):
    items, _, _ = LAYOUTS[name]
    packed = pack(items)
    packed.save(tmp_path / "packed")
    loaded = load_packed(tmp_path / "packed")
    same(loaded, items)
    same(pickle.loads(pickle.dumps(loaded)), items)
    assert loaded.nbytes == packed.nbytes
    assert repr(loaded) == repr(packed)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(4, 3),
        np.arange(12)[::-2],
        np.array(["a", "bc"]),
        record((1, (2, 3)), (4, (5, 6))),
        np.empty((0, 3)),
        np.array([None, 1]),
    ],
    ids=str,
)
def test_an_array_gives_its_rows(array):
    packed = pack(array)
    same(packed, list(array))
    if not array.dtype.hasobject:
        assert np.shares_memory(packed._layout.arrays[0], array) or not array.size


def test_a_memory_mapped_array_is_not_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    packed = pack(mapped)
    assert np.shares_memory(packed._layout.arrays[0], mapped)
    same(packed, [np.array(row) for row in mapped])


def test_arrays_are_copies_to_write_to():
    for packed in (pack([np.zeros(2), np.zeros(2)]), pack([np.zeros(2), np.zeros(3)])):
        for array in (
            packed[0],
            next(iter(packed)),
            packed._getmany([0, 1])[0],
            packed._getmany(range(2))[0],
        ):
            array += 1
        assert packed[0].tolist() == [0, 0]


def test_arrays_are_copied_right_into_a_slot():
    asked = []

    def allocate(shape, dtype):
        asked.append((shape, dtype))
        return np.empty(shape, dtype)

    packed = pack([np.zeros((2, 3)), np.zeros((2, 3))])
    with sk.core.worker.evaluating(allocate):
        packed[1]
    assert asked == [((2, 3), np.dtype(float))]


def test_a_record_is_no_view_of_the_packed_ones():
    packed = pack(np.zeros(2, [("a", "i4")]))
    packed[0]["a"] = 5
    assert packed[0]["a"] == 0


def test_every_item_is_evaluated_once_when_it_is_packed():
    source = CountingSource("abc")
    packed = pack(source)
    assert list(packed) == list(packed) == ["a", "b", "c"]
    assert source.reads == {0: 1, 1: 1, 2: 1}


def test_a_mixture_keeps_what_came_before():
    source = CountingSource([1, 2, "x", None])
    assert list(pack(source)) == [1, 2, "x", None]
    assert set(source.reads.values()) == {1}


def test_sequences_of_unknown_length_are_packed_to_their_end():
    assert list(pack(UnsizedSource("abc"))) == ["a", "b", "c"]


def test_packing_what_is_packed_changes_nothing():
    assert list(pack(pack(["a", "bc"]))) == ["a", "bc"]


def test_long_plans_are_read():
    packed = pack(range(5000))
    assert list(packed) == list(range(5000))
    plan = [i * 7 % 5000 for i in range(10_000)]
    assert list(packed._iter(plan)) == plan
    assert list(sk.shuffle(packed, seed=0)) == list(sk.shuffle(range(5000), seed=0))


def test_batches_of_packed_arrays_are_one_array():
    packed = pack([np.full(3, i) for i in range(5)])
    batches = sk.batch(packed, 2, collate_fn=np.stack)
    assert [batch.tolist() for batch in batches] == [[[0] * 3, [1] * 3], [[2] * 3, [3] * 3], [[4] * 3]]


# -------------------------------------------------------------------- refused


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(TypeError, match=r"pack: item 1, a function, cannot be pickled: .*lambda"):
        pack([1, lambda: 2])


def test_a_failing_item_is_the_sources_error():
    with pytest.raises(EvaluationError, match=r"source\[1\] failed: ValueError: item 1"):
        pack(FailingSource("abc", {1}))


def test_packed_items_cannot_be_written():
    with pytest.raises(TypeError, match="pack does not support assignment"):
        pack([1, 2])[0] = 3


def test_an_item_that_cannot_be_read_affects_no_other(monkeypatch):
    packed = pack([Moody(), 5, Moody()])
    assert list(packed) == [1, 5, 1]
    monkeypatch.setattr(Moody, "refuses", True)
    with pytest.raises(EvaluationError, match=r"pack\[2\] failed: IndexError: not now") as caught:
        packed[-1]
    assert caught.value.view is packed
    items = iter(packed)
    for i in (0, 2):
        with pytest.raises(EvaluationError):
            next(items)
        assert i == 2 or next(items) == 5
    with pytest.raises(EvaluationError, match=r"pack\[2\]"):
        packed._getmany([1, 2, 0])


# -------------------------------------------------------------------- files


def test_a_file_is_replaced_once_it_is_complete(tmp_path):
    path = tmp_path / "packed"
    pack(["old"]).save(path)
    loaded = load_packed(path)
    pack(["brand new", "x"]).save(path)
    assert list(loaded) == ["old"]
    assert list(load_packed(path)) == ["brand new", "x"]
    assert [file.name for file in tmp_path.iterdir()] == ["packed"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "packed"
    pack(["old"]).save(path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        pack(["new"]).save(path)
    assert list(load_packed(path)) == ["old"]
    assert [file.name for file in tmp_path.iterdir()] == ["packed"]


def test_a_loaded_view_pickles_as_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pack(["x" * 10_000]).save("packed")
    pickled = pickle.dumps(load_packed("packed"))
    monkeypatch.chdir("/")
    assert len(pickled) < 500
    assert list(pickle.loads(pickled)) == ["x" * 10_000]
    pack(["another"]).save(tmp_path / "packed")
    with pytest.raises(ValueError, match="is another file than the one that was loaded"):
        pickle.loads(pickled)


def test_a_loaded_view_is_mapped(tmp_path):
    pack(["x"] * 1000).save(tmp_path / "packed")
    loaded = load_packed(tmp_path / "packed")
    for array in loaded._layout.arrays:
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert array.ctypes.data % 64 == 0


def damaged(path, change):
    """Return the path of a copy of a file with other content."""
    other = path.with_name("damaged")
    other.write_bytes(change(path.read_bytes()))
    return other


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "is of another kind or format"),
        (lambda data: b"PK\3\4" + data, "is of another kind or format"),
        (lambda data: data[:7] + b"2" + data[8:], "is of another kind or format"),
        (lambda data: data[:12], "is of another kind or format"),
        (lambda data: data[:12] + b"\xff" * 8 + data[20:], "is damaged"),
        (lambda data: data[:20] + b"\xff" * 8 + data[28:], "is damaged"),
        (lambda data: data[:70] + b"\xff" + data[71:], "is damaged"),
        (lambda data: data[:-1], "is damaged"),
        (lambda data: data + b"x", "is damaged"),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, change, why):
    path = tmp_path / "packed"
    pack(["some", "text"]).save(path)
    with pytest.raises(ValueError, match=f"load_packed: .*damaged {why}"):
        load_packed(damaged(path, change))


def test_items_of_a_dtype_of_another_library_keep_it(tmp_path):
    rational = pytest.importorskip("numpy._core._rational_tests").rational  # as bfloat16 of ml_dtypes
    for source in ([np.array([1, 2], rational)], np.array([[1, 2]], rational)):
        pack(source).save(tmp_path / "a")
        (item,) = load_packed(tmp_path / "a")
        assert (item.dtype, item.tolist()) == (np.dtype(rational), [rational(1), rational(2)])


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_packed(tmp_path / "none")


# -------------------------------------------------------------------- workers


def test_arrays_are_pickled_out_of_band():
    packed = pack([f"{i:05}" for i in range(10_000)])
    buffers = []
    pickled = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
    assert len(pickled) < 500
    assert sum(buffer.raw().nbytes for buffer in buffers) == packed.nbytes
    assert pickle.loads(pickled, buffers=buffers)[77] == "00077"


@pytest.mark.parametrize("start", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.stress)])
def test_workers_read_packed_items(start, tmp_path):
    packed = pack([Point(i) for i in range(20)])
    pack([np.full(3, i) for i in range(20)]).save(tmp_path / "packed")
    loaded = load_packed(tmp_path / "packed")
    with sk.prefetch(sk.collate([packed, loaded]), 2, "process", context=start) as ahead:
        for i, (point, array) in enumerate(ahead):
            assert point == Point(i)
            assert array.tolist() == [i] * 3


SCRIPT = """
import enum
from dataclasses import dataclass
import seqkit as sk
from seqkit.stores.pack.pack import pack

@dataclass(frozen=True)
class Point:
    x: int

class Colour(enum.Enum):
    RED = 1

def abscissa(item):
    return item[0].x

items = [(Point(i), {"colour": Colour.RED}) for i in range(10)]
with sk.prefetch(sk.smap(abscissa, pack(items)), 2, "process", context=CONTEXT) as ahead:
    assert list(ahead) == list(range(10))
with sk.prefetch(pack(items), 2, "process", context=CONTEXT) as ahead:
    assert list(ahead) == items
"""


@pytest.mark.parametrize("start", ["spawn", pytest.param("forkserver", marks=pytest.mark.stress)])
def test_classes_of_the_main_script_travel_with_the_items(start, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("CONTEXT", repr(start)))
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr


def test_the_view_is_a_leaf():
    packed = pack(["a"])
    assert isinstance(packed, Pack)
    assert packed.at_epoch(3) is packed
    assert sk.explain(sk.smap(str, packed)).splitlines()[1] == "└─ pack(<1 str>)   length 1"
