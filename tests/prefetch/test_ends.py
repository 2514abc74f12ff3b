"""How a worker ends: nothing of the parent's is done there."""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.prefetch import settings

from .kinds import CONTEXTS, KINDS, PROCESSES, Kind
from .scripts import finished
from .traces import append, pids_of, state, until

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)


@every_kind
def test_iterators_of_a_worker_are_closed_when_it_ends(kind: Kind, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def numbers() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            append(log, "closed")

    with kind.ahead(sk.uniter(numbers), 1) as ahead:
        assert ahead[3] == 3
    assert log.read_text() == "closed"


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
