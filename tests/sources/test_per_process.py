"""`per_process`: opened where it is read, once, again after a fork, and closed with the worker."""

from __future__ import annotations

import gc
import os
import pickle
import sqlite3
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.sources.handles import Handles
from tests.helpers import mostly_stress

N = 500


class Handle:
    """A sequence that notes in a file when it is opened and closed."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.owner = os.getpid(), threading.get_ident()
        self._note("open")

    def _note(self, what: str) -> None:
        with open(self._log, "a") as log:
            print(what, *self.owner, file=log)

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> tuple[int, tuple[int, int]]:
        return i, self.owner

    def close(self) -> None:
        self._note("close")


def noted(log: Path, what: str) -> list[tuple[int, int]]:
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(int(pid), int(thread)) for word, pid, thread in lines if word == what]


def owner(handle: Handle, i: int) -> tuple[int, tuple[int, int]]:
    return i, handle.owner


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_nothing_is_opened_until_it_is_read(log: Path) -> None:
    view = sk.per_process(partial(Handle, log))
    assert repr(view) == "per_process(Handle)"
    assert repr(sk.per_process(partial(Handle, log), owner, range(3))) == "per_process(owner, <range of 3>)"
    assert not log.exists()
    assert view[3][0] == 3
    assert len(view) == N
    assert len(noted(log, "open")) == 1


def test_handle_is_closed_when_the_view_is_dropped(log: Path) -> None:
    view = sk.per_process(partial(Handle, log))
    view[0]
    del view
    gc.collect()
    assert len(noted(log, "close")) == 1


@pytest.mark.parametrize(
    ("context", "with_read"),
    mostly_stress(
        ("fork", True), ("spawn", False), ("fork", False), ("spawn", True), ("forkserver", True), here=2
    ),
)
def test_each_process_opens_and_closes_its_own(context: Any, with_read: bool, log: Path) -> None:
    open_fn = partial(Handle, log)
    view = sk.per_process(open_fn, owner, range(N)) if with_read else sk.per_process(open_fn)
    assert view[0] == (0, (os.getpid(), threading.get_ident()))
    with view.prefetch(2, "process", context=context) as ahead:
        items = [*ahead]
    assert [i for i, _ in items] == [*range(N)]
    workers = {pid for _, (pid, _) in items}
    assert os.getpid() not in workers
    opened = [pid for pid, _ in noted(log, "open")]
    assert len(opened) == len({*opened})
    assert workers <= {*opened}
    assert workers <= {pid for pid, _ in noted(log, "close")}
    # The handle of this process is still open.
    assert os.getpid() not in {pid for pid, _ in noted(log, "close")}
    assert view[1][1][0] == os.getpid()


def test_threads_share_one_handle(log: Path) -> None:
    view = sk.per_process(partial(Handle, log))
    with view.prefetch(4, "thread") as ahead:
        assert [i for i, _ in ahead] == [*range(N)]
    assert len(noted(log, "open")) == 1
    assert noted(log, "close") == []  # the threads have ended, and the view still uses it
    assert view[0][0] == 0


def test_each_thread_opens_and_closes_its_own_where_asked(log: Path) -> None:
    view = sk.per_process(partial(Handle, log), per_thread=True)
    len(view)
    with view.prefetch(3, "thread") as ahead:
        threads = {thread for _, (_, thread) in ahead}
    assert threads <= {thread for _, thread in noted(log, "open")}
    assert threads <= {thread for _, thread in noted(log, "close")}


def test_threads_take_turns() -> None:
    busy = threading.Lock()

    def read(handle: Any, i: int) -> int:
        assert handle.acquire(blocking=False), "two threads read at the same time"
        try:
            return i
        finally:
            handle.release()

    with sk.per_process(lambda: busy, read, range(N)).prefetch(4, "thread") as ahead:
        assert [*ahead] == [*range(N)]


def test_read_may_read_the_same_handle() -> None:
    view = sk.per_process(lambda: [3, 4], lambda handle, i: handle[i] + (view[i - 1] if i else 0), range(2))
    assert [*view] == [3, 7]


def test_zip_is_read_right_by_forked_workers_that_inherit_an_open_one(tmp_path: Path) -> None:
    # A ZipFile that forked workers shared gave BadZipFile for 18 of 500 reads.
    names = [f"{i}.txt" for i in range(N)]
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, name * 200)
    view = sk.per_process(partial(zipfile.ZipFile, tmp_path / "a.zip"), zipfile.ZipFile.read, names)
    assert view[0] == b"0.txt" * 200
    with sk.shuffle(view, seed=0).prefetch(4, "process", context="fork") as ahead:
        texts = [*ahead]
    assert texts == [names[i].encode() * 200 for i in sk.shuffle(range(N), seed=0)]


def test_connection_of_sqlite_is_read_by_threads(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("CREATE TABLE t (x)")
    database.executemany("INSERT INTO t VALUES (?)", [(i * i,) for i in range(N)])
    database.commit()
    database.close()

    def read(db: sqlite3.Connection, i: int) -> int:
        return int(db.execute("SELECT x FROM t WHERE rowid = ?", (i + 1,)).fetchone()[0])

    view = sk.per_process(partial(sqlite3.connect, tmp_path / "a.db"), read, range(N), per_thread=True)
    with view.prefetch(4, "thread") as ahead:
        assert [*ahead] == [i * i for i in range(N)]
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(view.__getitem__, range(9))] == [i * i for i in range(9)]


def test_pickle_holds_the_function_alone(log: Path) -> None:
    view = sk.per_process(partial(Handle, log))
    view[0]
    again = pickle.loads(pickle.dumps(view))
    assert (len(again), len(noted(log, "open"))) == (N, 1)  # the length is known
    assert again[2][0] == 2
    assert len(noted(log, "open")) == 2


def test_errors_name_the_item_and_the_next_item_can_be_read() -> None:
    view = sk.per_process(lambda: zipfile.ZipFile("/nowhere.zip"), zipfile.ZipFile.read, ["a"])
    with pytest.raises(sk.EvaluationError, match="No such file"):
        view[0]
    view = sk.per_process(lambda: {0: "a", 1: 0, "n": 2})
    items = iter(view)
    assert (next(items), next(items)) == ("a", 0)
    with pytest.raises(sk.EvaluationError, match=r"per_process\[2\] failed: KeyError"):
        next(items)


def test_what_is_no_sequence_is_refused_with_a_remedy() -> None:
    with pytest.raises(TypeError, match=r"open_fn .*got lock"):
        len(sk.per_process(threading.Lock))
    with pytest.raises(sk.EvaluationError, match="open_fn returned None"):
        sk.per_process(lambda: None, pow, [1])[0]


def test_wrong_arguments_are_refused() -> None:
    refused: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        (("a.zip",), {}, "open_fn must be callable"),
        ((list, "read"), {}, "read must be callable"),
        ((list, len), {}, "read needs items. Pass both"),
        ((list, None, [1]), {}, "items needs read. Pass both"),
        ((list,), {"per_thread": 1}, "per_thread must be a bool"),
    ]
    for arguments, options, message in refused:
        with pytest.raises(TypeError, match=f"per_process: {message}"):
            sk.per_process(*arguments, **options)


def test_group_sizes_are_those_of_what_is_opened() -> None:
    class Groups(list[int]):
        group_sizes = (2, 1)

    assert sk.per_process(lambda: Groups([1, 2, 3])).group_sizes == (2, 1)
    assert sk.per_process(lambda: [1]).group_sizes is None


@pytest.fixture
def _threads_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_switch_often")
def test_threads_of_a_forked_process_open_one_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def open_list() -> list[int]:
        opened.append(os.getpid())
        return [3]

    def read(at_once: threading.Barrier) -> int:
        at_once.wait()
        return handles.call(sum)

    handles = Handles(open_list, per_thread=False)
    assert handles.call(sum) == 3
    for pid in range(-1, -100, -1):  # as if this were another process
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(read, [threading.Barrier(8)] * 8)) == [3] * 8
        assert opened.count(pid) == 1
