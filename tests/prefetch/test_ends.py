"""How a worker ends: its end hook runs, its files are complete, and nothing of the parent's is done there."""

from __future__ import annotations

import gc
import os
import sys
import types
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.prefetch import settings, threads
from seqkit.prefetch.processes import transport

from .kinds import CONTEXTS, KINDS, PROCESSES, Kind
from .scripts import finished
from .traces import append, is_gone, pids_of, state, until

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)

# -------------------------------------------------------------------- the end hook


@every_kind
@pytest.mark.parametrize("how", ["close", "drop"])
def test_an_end_hook_runs_once_in_every_worker_after_its_last_item(
    kind: Kind, how: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def item(i: int) -> int:
        append(log, "item ")
        return i

    def hook(worker: int) -> None:
        info = sk.get_worker_info()
        assert info is not None
        assert info.id == worker
        append(log, f"end{worker} ")

    ahead = kind.ahead(sk.smap(item, range(30)), 2, end_hook=hook)
    assert list(ahead) == list(range(30))
    pids_of(ahead) if kind.method == "process" else None
    if how == "close":
        ahead.close()
    del ahead
    assert until(lambda: len(log.read_text().split()) == 32)
    assert sorted(log.read_text().split()[-2:]) == ["end0", "end1"]


@every_kind
def test_iterators_of_a_worker_are_closed_before_its_end_hook(kind: Kind, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def numbers() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            append(log, "closed ")

    with kind.ahead(sk.uniter(numbers), 1, end_hook=lambda: append(log, "ended ")) as ahead:
        assert ahead[3] == 3
    assert log.read_text() == "closed ended "


@every_kind
def test_an_end_hook_does_not_run_where_the_start_hook_failed(kind: Kind, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def fails() -> None:
        raise OSError("no licence")

    ahead = kind.ahead(range(3), 1, start_hook=fails, end_hook=lambda: append(log, "ended"))
    with ahead, pytest.raises(RuntimeError, match="no licence"):
        list(ahead)
    assert not log.exists()


@every_kind
def test_closing_waits_for_end_hooks_and_for_no_item(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "GRACE_S", 0.05)
    monkeypatch.setattr(transport, "GRACE_S", 0.05)
    log, fifo = tmp_path / "log", tmp_path / "fifo"
    os.mkfifo(fifo)

    def item(i: int) -> int:
        if i == 1:
            append(log, "busy ")
            fifo.read_bytes()
        return i

    def hook() -> None:
        import time

        time.sleep(0.2)  # longer than a worker without a hook may take to end
        append(log, "ended ")

    ahead = kind.ahead(sk.smap(item, range(2)), 2, end_hook=hook, chunk_size=1)
    iterator = iter(ahead)
    assert next(iterator) == 0
    assert until(lambda: log.exists() and "busy" in log.read_text())
    ahead.close()
    assert log.read_text() == "busy ended "
    if kind.method == "thread":  # the abandoned thread reads to the end
        os.close(os.open(fifo, os.O_WRONLY))
        assert until(lambda: log.read_text() == "busy ended ended ")


@every_kind_of_process
def test_an_end_hook_has_a_deadline(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "END_HOOK_S", 0.05)

    def hook() -> None:
        import time

        time.sleep(3600)

    ahead = kind.ahead(range(3), 1, end_hook=hook)
    list(ahead)
    (pid,) = pids_of(ahead)
    ahead.close()
    assert until(lambda: is_gone(pid))


def test_an_error_of_an_end_hook_is_shown_and_affects_nothing_else(tmp_path: Path) -> None:
    script = """
        import sys
        import seqkit as sk

        def hook():
            print("in the hook")
            raise OSError("cannot upload")

        with sk.prefetch(range(4), 1, sys.argv[1], end_hook=hook) as node:
            assert list(node) == [0, 1, 2, 3]
        print("after")
    """
    for method in ("thread", "process"):
        code, out, err = finished(tmp_path, script, method)
        assert (code, out) == (0, "in the hook\nafter\n")
        assert "OSError: cannot upload" in err


# -------------------------------------------------------------------- files and exit code


@every_kind_of_process
def test_files_that_a_worker_has_opened_are_complete_after_its_end(kind: Kind, tmp_path: Path) -> None:
    def item(i: int) -> int:
        import builtins
        import gzip

        kept: Any = builtins  # any module that is not sent along
        if not hasattr(kept, "files_of_a_test"):
            opened = open(tmp_path / "text", "w"), gzip.open(tmp_path / "gz", "wt")  # noqa: SIM115
            kept.files_of_a_test = opened
        for file in kept.files_of_a_test:
            file.write(f"{i} ")
        return i

    with kind.ahead(sk.smap(item, range(5)), 1) as ahead:
        list(ahead)
    assert (tmp_path / "text").read_text() == "0 1 2 3 4 "
    content = zlib.decompressobj(wbits=31).decompress((tmp_path / "gz").read_bytes())
    assert content == b"0 1 2 3 4 "


PARENT = """
    import atexit, os, pathlib, sys, tempfile, weakref
    import seqkit as sk

    class Thing:
        pass

    folder, log = tempfile.TemporaryDirectory(), open("log", "w")
    thing = Thing()
    ran = pathlib.Path("ran").absolute()

    def note(what):
        with open(ran, "a") as file:
            file.write(f"{what} {os.getpid()}\\n")

    atexit.register(note, "atexit")
    weakref.finalize(thing, note, "finalize")
    log.write("once")
    with sk.prefetch(sk.smap(abs, range(9)), 2, "process", context=sys.argv[1]) as node:
        assert list(node) == list(range(9))
    assert os.path.isdir(folder.name)
    assert not ran.exists()
    print(os.getpid(), folder.name)
"""


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_worker_runs_no_exit_code_of_the_parent(
    context: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = finished(tmp_path, PARENT, context)
    assert (code, err) == (0, "")
    pid, folder = out.split()
    assert not os.path.exists(folder)
    assert (tmp_path / "log").read_text() == "once"
    assert sorted((tmp_path / "ran").read_text().splitlines()) == [f"atexit {pid}", f"finalize {pid}"]


# -------------------------------------------------------------------- idle workers of notebooks


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = types.SimpleNamespace(get_ipython=object)
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    monkeypatch.setattr(settings, "IDLE_S", 0.1)


def has_ended(pid: int) -> bool:
    return state(pid) in ("Z", "gone")


@every_kind_of_process
@pytest.mark.parametrize("nworkers", [2, 7])
@pytest.mark.usefixtures("notebook")
def test_workers_of_a_notebook_end_without_an_iterator_and_start_again(kind: Kind, nworkers: int) -> None:
    parent = os.getpid()
    with kind.ahead(sk.smap(lambda x: (x, os.getppid()), range(20)), nworkers) as node:
        for _ in range(3):
            items, parents = zip(*node, strict=True)
            assert items == tuple(range(20))
            workers = pids_of(node)
            assert until(lambda workers=workers: all(map(has_ended, workers)))
            assert until(lambda parents=parents: all(map(has_ended, {*parents} - {parent})))
        assert [item for item, _ in node[:5]] == list(range(5))
        assert node[7][0] == 7
        assert until(lambda: all(map(has_ended, pids_of(node))))  # a scan is no iterator
        assert node.statistics().restarts == 0


@pytest.mark.usefixtures("notebook")
def test_workers_of_a_notebook_wait_while_an_iterator_is_open() -> None:
    with PROCESSES[0].ahead(range(20), 2) as read, PROCESSES[0].ahead(range(20), 2) as other:
        iterator = iter(read)
        assert next(iterator) == 0
        workers = pids_of(read)
        assert list(other) == list(range(20))
        assert until(lambda: all(map(has_ended, pids_of(other))))
        assert list(iterator) == list(range(1, 20))
        assert pids_of(read) == workers
        assert read.statistics().restarts == 0
        del iterator
        assert until(lambda: all(map(has_ended, workers)))


@pytest.mark.usefixtures("notebook")
def test_workers_with_state_do_not_end() -> None:
    hooked = PROCESSES[0].ahead(range(20), 2, start_hook=lambda: None)
    single = PROCESSES[0].ahead(range(20), 1)
    for node in (hooked, single):
        assert node._settings.idle_s() == 0
    with sk.DataLoader(range(20), num_workers=2, persistent_workers=True) as loader:
        next(iter(loader))
        assert [node._settings.idle_s() for node in nodes_of(loader)] == [0]


def nodes_of(loader: Any) -> list[sk.Prefetch]:
    return [
        found
        for found in gc.get_objects()
        if type(found) is sk.Prefetch and found._settings.item_seed is not None
    ]


def test_workers_of_other_programs_do_not_end() -> None:
    assert PROCESSES[0].ahead(range(20), 2)._settings.idle_s() == 0


def test_workers_that_start_while_the_interpreter_ends_leave_no_traceback(tmp_path: Path) -> None:
    script = """
        import atexit

        kept = []

        @atexit.register
        def late():
            import seqkit as sk

            kept.append(sk.DataLoader(range(8), 2, num_workers=2, persistent_workers=True))
            print([batch.tolist() for batch in kept[0]])
    """
    assert finished(tmp_path, script) == (0, "[[0, 1], [2, 3], [4, 5], [6, 7]]\n", "")
