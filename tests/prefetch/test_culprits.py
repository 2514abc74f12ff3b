"""Errors about pickling, and warnings before a fork, name the object and the way to it."""

from __future__ import annotations

import io
import sqlite3
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import seqkit as sk
from seqkit.prefetch.culprits import MOST_OBJECTS, fork_warning, pickling_advice, shared_handles, unpicklable
from seqkit.prefetch.pickling import dumps_by_value

LOCK = threading.Lock()
ARCHIVE = zipfile.ZipFile(io.BytesIO(), "w")


def with_global(x: Any) -> Any:
    with LOCK:
        return x


def from_archive(name: str) -> bytes:
    return ARCHIVE.read(name)


class Decoder:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __call__(self, x: Any) -> Any:
        return self.handle, x

    def decode(self, x: Any) -> Any:
        return self.handle, x


class Samples:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> Any:
        return self.handle, i


def enclosing(handle: Any) -> Any:
    return lambda x: (handle, x)


def with_default(x: Any, handle: Any = LOCK) -> Any:
    return handle, x


@pytest.fixture
def database() -> Iterator[Any]:
    opened = sqlite3.connect(":memory:")
    yield opened
    opened.close()


WAYS = [
    (lambda handle: sk.smap(enclosing(handle), [1]), "smap → `<lambda>` uses `handle`"),
    (lambda handle: sk.smap(Decoder(handle), [1]).batch(2), "batch → smap → `Decoder` → attribute `handle`"),
    (lambda handle: sk.smap(Decoder(handle).decode, [1]), "smap → `decode` → `Decoder` → attribute `handle`"),
    (lambda handle: sk.smap(partial(pow, handle), [1]), "smap → `partial` → item 0"),
    (lambda handle: sk.view(Samples(handle)).shuffle(), "shuffle → source → attribute `handle`"),
    (lambda handle: sk.smap(str, sk.smap(enclosing({"db": [handle]}), [1]).batch(1)), "key 'db' → item 0"),
]
every_way = pytest.mark.parametrize(("build", "text"), WAYS)


@every_way
def test_the_object_that_cannot_be_pickled_is_named(build: Any, text: str) -> None:
    found = unpicklable(build(threading.Lock()), dumps_by_value)
    assert found is not None
    assert text in found
    assert "(_thread.lock)" in found


@every_way
def test_handles_that_a_fork_would_share_are_named(build: Any, text: str, database: Any) -> None:
    (found,) = shared_handles(build(database))
    assert text in found
    assert "(sqlite3.Connection)" in found


def test_a_global_is_named_with_the_file_and_line_of_its_function() -> None:
    line = with_global.__code__.co_firstlineno
    # By value, as functions of the main module travel.
    function = type(with_global)(with_global.__code__, {"LOCK": LOCK, "__name__": "__main__"}, "with_global")
    found = unpicklable(sk.smap(function, [1]), dumps_by_value)
    assert found == f"smap → `with_global` uses global `LOCK` (_thread.lock), test_culprits.py:{line}"
    line = from_archive.__code__.co_firstlineno
    assert shared_handles(sk.smap(from_archive, ["a"])) == [
        f"smap → `from_archive` uses global `ARCHIVE` (zipfile.ZipFile), test_culprits.py:{line}"
    ]


def test_a_default_argument_is_named() -> None:
    function = type(with_default)(with_default.__code__, {"__name__": "__main__"}, "f", (LOCK,))
    found = unpicklable(sk.smap(function, [1]), dumps_by_value)
    assert found is not None
    assert "`f` uses default `handle`" in found


def test_no_object_is_named_if_the_pipeline_can_be_pickled() -> None:
    assert unpicklable(sk.smap(with_global, [1]), dumps_by_value) is None


def test_handles_of_per_process_are_not_shared() -> None:
    view = sk.per_process(lambda: zipfile.ZipFile(io.BytesIO(), "w"), zipfile.ZipFile.namelist, [1])
    with pytest.raises(sk.EvaluationError):
        view[0]
    assert shared_handles(view) == []


def test_closed_files_and_reference_cycles_are_skipped(tmp_path: Any) -> None:
    (tmp_path / "a").touch()
    with open(tmp_path / "a", "rb") as file:
        decoder = Decoder([file])
        decoder.handle.append(decoder)
        assert len(shared_handles(sk.smap(decoder, [1]))) == 1
    assert shared_handles(sk.smap(decoder, [1])) == []


class Counted:
    """Counts how many of its kind are looked into."""

    looked_into = 0

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        Counted.looked_into += 1
        return {"next": [Counted() for _ in range(10)]}


def test_search_before_a_fork_ends_after_some_hundred_objects() -> None:
    # The search has no limit of time. A bound on the objects keeps it below a millisecond.
    shared_handles(sk.smap(Counted.__init__, [Counted() for _ in range(10**4)]))
    shared_handles(sk.view(Samples([Counted() for _ in range(20)])))
    assert 0 < Counted.looked_into <= 2 * MOST_OBJECTS


def test_warning_before_a_fork_says_what_to_use(database: Any) -> None:
    assert fork_warning(sk.smap(str, [1])) is None
    text = fork_warning(sk.smap(from_archive, sk.view(Samples(database))))
    assert text is not None
    assert (
        "may read wrong data: smap → source → attribute `handle` (sqlite3.Connection) and 1 more. Open"
        in text
    )
    assert text.endswith("sk.per_process(open_fn, read, items).")


def test_message_about_pickling_is_one_line_with_the_object_the_reason_and_the_remedy() -> None:
    view = sk.smap(enclosing(LOCK), [1]).batch(2)
    with pytest.raises(TypeError) as caught:
        dumps_by_value(view)
    text = pickling_advice(view, caught.value, dumps_by_value)
    assert "batch → smap → `<lambda>` uses `handle` (_thread.lock), test_culprits.py:" in text
    assert "cannot pickle '_thread.lock' object. Open files" in text
    assert "\n" not in text


def test_closed_handles_are_skipped(tmp_path: Any) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        assert len(shared_handles(sk.smap(archive.read, ["a"]))) == 1
    assert shared_handles(sk.smap(archive.read, ["a"])) == []
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1, 2]
        assert len(shared_handles(sk.smap(file.get, ["x"]))) == 1
    assert shared_handles(sk.smap(file.get, ["x"])) == []
