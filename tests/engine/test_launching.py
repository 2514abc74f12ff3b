"""What a new worker finds: its descriptors, standard streams, modules, arguments, flags and variables."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import threadpoolctl

import seqkit as sk
from seqkit.core import worker as contexts
from seqkit.engine.hooks import flush_streams
from seqkit.engine.processes import interpreter

from ..helpers import mostly_stress
from .kinds import CONTEXTS
from .scripts import finished
from .traces import children, reap_orphans

FRESH = [context for context in CONTEXTS if context != "fork"]

# -------------------------------------------------------------------- standard streams

WITHOUT_STREAMS = """
    import os, pathlib, sys

    closed, result = sys.argv[1:]
    if closed:
        for fd in map(int, closed):
            os.close(fd)
        os.execv(sys.executable, [sys.executable, __file__, "", result])

    import seqkit as sk

    for context in ("fork", "forkserver", "spawn"):
        try:
            list(sk.prefetch(range(4), 2, "process", context=context))
        except RuntimeError as error:
            with open(result, "a") as file:
                file.write(f"{error}\\n")
"""


def test_workers_need_standard_streams(tmp_path: Path) -> None:
    for closed in ("0", "12"):
        result = tmp_path / closed
        assert finished(tmp_path, WITHOUT_STREAMS, closed, str(result))[0] == 0
        assert result.read_text().count("or error of this process is closed") == 3


def test_workers_write_to_the_streams_of_the_parent_and_start_where_python_has_none(tmp_path: Path) -> None:
    script = """
        import sys
        import seqkit as sk

        def read(items):
            for context in ("fork", "forkserver", "spawn"):
                with sk.prefetch(items, 1, "process", context=context) as node:
                    list(node)

        read(sk.smap(print, ["item"]))
        sys.stdout = sys.stderr = None
        read(range(4))
    """
    assert finished(tmp_path, script) == (0, 3 * "item\n", "")


def test_streams_of_any_kind_are_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []

    class Stream:
        def flush(self) -> None:
            flushed.append(self)

    monkeypatch.setattr(sys, "stderr", last := Stream())
    closed = io.StringIO()
    closed.close()
    for stdout in (None, "no stream", closed):
        monkeypatch.setattr(sys, "stdout", stdout)
        flush_streams()
    assert flushed == [last] * 3


# -------------------------------------------------------------------- modules


def test_the_module_path_has_text_only_and_relative_entries_for_both_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", "lib", Path("/b"), b"/c", None, np.str_("/abs")])
    monkeypatch.setattr(contexts, "ORIGIN", "/was")
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert interpreter.module_path() == [here, "/was", f"{here}/lib", "/was/lib", "/abs"]
    assert {type(entry) for entry in interpreter.module_path()} == {str}
    monkeypatch.setattr(contexts, "ORIGIN", here)
    assert interpreter.module_path() == [here, f"{here}/lib", "/abs"]


def test_modules_beside_the_program_are_found_after_a_change_of_directory(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name in ("beside_it", "lib/in_lib"):
        (tmp_path / f"{name}.py").write_text("def item(i):\n    return i\n")
    script = """
        import os, pathlib, sys

        os.chdir(pathlib.Path(__file__).parent)
        sys.path[0] = ""
        sys.path.insert(0, "lib")
        sys.path.append(pathlib.Path("/no/text"))

        import seqkit as sk
        import beside_it, in_lib

        os.chdir("elsewhere")
        for context, module in (("forkserver", beside_it), ("spawn", in_lib)):
            with sk.prefetch(sk.smap(module.item, range(4)), 1, "process", context=context) as node:
                assert list(node) == [0, 1, 2, 3]
    """
    assert finished(tmp_path, script) == (0, "", "")


def test_seqkit_is_imported_and_workers_start_where_the_directory_was_deleted(tmp_path: Path) -> None:
    script = """
        import os, pathlib, sys

        gone = pathlib.Path(__file__).parent / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

        import seqkit as sk
        from seqkit.core.worker import ORIGIN

        assert ORIGIN is None
        sys.path.insert(0, "")
        for context in ("fork", "forkserver", "spawn"):
            with sk.prefetch(range(4), 1, "process", context=context) as node:
                assert list(node) == [0, 1, 2, 3]
    """
    assert finished(tmp_path, script) == (0, "", "")


# -------------------------------------------------------------------- arguments and flags


def found_in(context: str, function: Any) -> Any:
    """Return what a function returns in a worker of a new node."""
    with sk.prefetch(sk.smap(lambda _: function(), [0]), 1, "process", context=context) as node:  # type: ignore[arg-type]
        return node[0]


def test_workers_have_arguments_and_module_paths_of_any_text_and_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, *(f"/opt/{'x' * 140}/{i}" for i in range(1000))])
    for argv in (["-m", "x", "-c", "ü 'q' \udc80", ""], ["program", "a\0b", "c"], [], [None, 3]):
        monkeypatch.setattr(sys, "argv", argv)
        for context in FRESH:
            found = found_in(context, lambda: (sys.argv, sys.path))
            assert found == ([str(argument) for argument in argv], interpreter.module_path())


def test_without_a_python_to_start_workers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(interpreter.subprocess, "Popen", lambda *_, **__: started.append(1))
    for attribute, value in (("frozen", True), ("executable", None), ("executable", "")):
        with monkeypatch.context() as patch:
            patch.setattr(sys, attribute, value, raising=False)
            for context in FRESH:
                with pytest.raises(RuntimeError, match=r"no Python is known.* Use context='fork'"):
                    found_in(context, os.getpid)
    assert not started
    assert found_in("fork", os.getppid) == os.getpid()


@pytest.mark.parametrize("context", FRESH)
@pytest.mark.parametrize(
    "flags",
    mostly_stress("-I", "-X dev -W error::ImportWarning", "-E -s", "-P", "-S -B", "-bb -OO", here=2),
)
def test_workers_have_the_flags_of_the_interpreter(context: str, flags: str, tmp_path: Path) -> None:
    script = """
        import os, sys

        context, path, *flags = sys.argv[1:]
        if flags:
            os.execv(sys.executable, [sys.executable, *flags, __file__, context, path])
        sys.path[:] = eval(path)

        import seqkit as sk

        def flags(_):
            import sys

            return list(sys.flags), sys.flags.safe_path, sys._xoptions, set(sys.warnoptions)

        with sk.prefetch(sk.smap(flags, [0]), 1, "process", context=context) as node:
            (found,) = node
        assert found == flags(0), (found, flags(0))
        print("good")
    """
    path = repr(sys.path)
    # What the interpreter itself says under such flags goes to stderr.
    code, out, err = finished(tmp_path, script, context, path, *flags.split())
    assert (code, out) == (0, "good\n"), err[-2000:]


# -------------------------------------------------------------------- variables


def test_libraries_in_a_worker_use_the_limited_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> tuple[str | None, set[int]]:
        import threadpoolctl

        found = threadpoolctl.threadpool_info()
        return os.environ.get("OMP_NUM_THREADS"), {library["num_threads"] for library in found}

    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))

    # The main thread, and the one that waits for the end of the parent. Libraries have none that would idle.
    assert [found_in(context, tasks) for context in FRESH] == [2, 2]
    assert threadpoolctl.threadpool_info()
    for variables, loaded_later, loaded in (
        ({}, "1", {1}),
        ({"SEQKIT_NATIVE_THREADS": "2"}, "2", {2}),
        ({"SEQKIT_NATIVE_THREADS": "0"}, None, threads()[1]),
        ({"OMP_NUM_THREADS": "3"}, "3", {1}),
    ):
        with monkeypatch.context() as patch:
            patch.delenv("OMP_NUM_THREADS", raising=False)
            patch.delenv("SEQKIT_NATIVE_THREADS", raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            before = dict(os.environ)
            for context in CONTEXTS:
                assert found_in(context, threads) == (loaded_later, loaded), (variables, context)
            assert dict(os.environ) == before


# -------------------------------------------------------------------- arrays of `empty`

SHAPES: list[Any] = [
    5000,
    np.int16(5000),
    np.array(5000),
    np.array([50, 100]),
    (np.array(50), 100),
    [50, 100],
    range(50, 52),
    (),
]
DTYPES: list[Any] = [
    "f4",
    np.dtype(("f4", (3,))),
    np.dtype((np.dtype(("u1", (3,))), (2, 5))),
    np.dtype([("x", "f4", (3,)), ("y", "i8")]),
    None,
]


def test_empty_takes_in_a_worker_what_numpy_takes_and_lays_it_into_the_slot() -> None:
    def arrays(dtype: Any) -> list[npt.NDArray[Any]]:
        made = [sk.empty(shape, dtype) for shape in SHAPES]
        for array in made:
            array[...] = np.zeros((), array.dtype)
        return made

    with sk.prefetch(sk.smap(arrays, DTYPES), 1, "process", context="fork") as node:
        for found, dtype in zip(node, DTYPES, strict=True):
            expected = [np.empty(shape, dtype) for shape in SHAPES]
            assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in expected]
    calls: list[Any] = [(np.array(5000), "f8"), ((np.int8(100), 50), "f4")]
    is_placed: Any = sk.starmap(lambda shape, dtype: sk.empty(shape, dtype).base is not None, calls)
    with sk.prefetch(is_placed, 1, "process", context="fork") as node:
        assert list(node) == [True, True]


def test_empty_refuses_in_a_worker_what_numpy_refuses() -> None:
    def refusal(shape: Any) -> str:
        try:
            sk.empty(shape)
        except (TypeError, ValueError) as error:
            return repr(error)
        return "none"

    shapes: list[Any] = ["abc", 2.0, (2.0, 3), -5, {}, object]
    with sk.prefetch(sk.smap(refusal, shapes), 1, "process", context="fork") as node:
        assert list(node) == list(map(refusal, shapes))
    assert "none" not in map(refusal, shapes)


# -------------------------------------------------------------------- the main module

CHILDREN = """
    import multiprocessing, sys
    from functools import cached_property, lru_cache
    import seqkit as sk

    class Point:
        def __init__(self, x):
            self.x = x

        @cached_property
        def twice(self):
            return 2 * self.x

    @lru_cache(maxsize=9)
    def point(i):
        return Point(i)

    def read():
        for context in (None, "fork", "forkserver", "spawn"):
            points = sk.smap(lambda i: point(i // 2), range(6))
            with sk.prefetch(points, 1, "process", context=context) as node:
                for i, found in enumerate(node):
                    assert type(found) is Point, (context, type(found))
                    assert found.twice == 2 * (i // 2)
            assert point(0) is point(0)
        print("read", flush=True)

    if __name__ == "__main__":
        if sys.argv[1] == "main":
            read()
        else:
            child = multiprocessing.get_context(sys.argv[1]).Process(target=read)
            child.start()
            child.join()
            sys.exit(child.exitcode)
"""


@pytest.mark.parametrize("where", ["main", "fork", "forkserver", "spawn"])
def test_what_the_main_module_defines_is_known_in_children_of_multiprocessing_too(
    where: str, tmp_path: Path
) -> None:
    before = children()
    assert finished(tmp_path, CHILDREN, where) == (0, "read\n", "")
    reap_orphans(before)  # servants of `multiprocessing`


def test_a_signal_handler_amid_a_fork_of_ours_starts_no_workers(tmp_path: Path) -> None:
    code = """
        import os, signal

        def strike():
            if strikes:
                signal.raise_signal(strikes.pop())

        def read(*_):
            try:
                list(others)
            except RuntimeError as error:
                print(error, flush=True)

        strikes = []
        signal.signal(signal.SIGUSR1, read)
        os.register_at_fork(before=strike)  # the last of the hooks, which run backwards
        import seqkit as sk
        squares = sk.prefetch(sk.smap(lambda i: i * i, range(9)), 2, method="process", context="fork")
        others = sk.prefetch(range(9), 2, method="process", context="fork")
        list(squares), squares.close()
        import concurrent.futures.thread  # whose hook, the first, takes a lock that is not reentrant

        descriptors = len(os.listdir("/proc/self/fd"))
        squares.restart()
        strikes.append(signal.SIGUSR1)
        squares.start()
        assert not strikes
        assert list(squares) == [i * i for i in range(9)]
        assert list(others) == list(range(9))
        squares.close(), others.close()
        assert len(os.listdir("/proc/self/fd")) == descriptors
    """
    status, out, err = finished(tmp_path, code)
    assert (status, err) == (0, "")
    assert "a signal handler cannot start workers while workers are started" in out
