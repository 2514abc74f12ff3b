"""How a worker ends: nothing of the parent's is done there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqkit as sk

from .kinds import CONTEXTS, KINDS, PROCESSES, Kind
from .scripts import finished
from .traces import append

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
