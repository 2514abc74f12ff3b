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

import seqkit as sk
from seqkit.core import worker as contexts
from seqkit.core.worker import flush_streams
from seqkit.engine.processes import interpreter

from ..helpers import mostly_stress
from .kinds import CONTEXTS
from .scripts import finished
from .traces import children, reap_orphans

FRESH = [context for context in CONTEXTS if context != "fork"]

# -------------------------------------------------------------------- standard streams

WITHOUT_STREAMS = """
    import os, pathlib, sys

    context, closed, result = sys.argv[1:]
    if closed:
        for fd in map(int, closed):
            os.close(fd)
        os.execv(sys.executable, [sys.executable, __file__, context, "", result])

    import seqkit as sk

    def item(i):
        return i

    try:
        with sk.prefetch(sk.smap(item, range(4)), 2, "process", context=context) as node:
            pathlib.Path(result).write_text(str(list(node)))
    except RuntimeError as error:
        pathlib.Path(result).write_text(str(error))
        raise
"""


@pytest.mark.parametrize("closed", ["0", "12"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_need_standard_streams(context: str, closed: str, tmp_path: Path) -> None:
    result = tmp_path / "result"
    assert finished(tmp_path, WITHOUT_STREAMS, context, closed, str(result))[0] == 1
    assert "or error of this process is closed" in result.read_text()


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_start_where_python_has_no_standard_streams(context: str, tmp_path: Path) -> None:
    script = """
        import sys
        import seqkit as sk

        sys.stdout = sys.stderr = None
        with sk.prefetch(range(4), 2, "process", context=sys.argv[1]) as node:
            assert list(node) == [0, 1, 2, 3]
    """
    assert finished(tmp_path, script, context) == (0, "", "")


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_write_to_the_streams_of_the_parent(context: str, tmp_path: Path) -> None:
    script = """
        import sys
        import seqkit as sk

        with sk.prefetch(sk.smap(print, ["item"]), 1, "process", context=sys.argv[1]) as node:
            list(node)
    """
    assert finished(tmp_path, script, context) == (0, "item\n", "")


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


def test_entries_of_the_module_path_that_are_not_text_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/a", Path("/b"), b"/c", None, np.str_("/d")])
    assert interpreter.module_path() == ["/a", "/d"]
    assert [type(entry) for entry in interpreter.module_path()] == [str, str]


def test_relative_module_paths_are_resolved_against_the_current_and_the_original_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", "lib", "/abs"])
    monkeypatch.setattr(contexts, "ORIGIN", "/was")
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert interpreter.module_path() == [here, "/was", f"{here}/lib", "/was/lib", "/abs"]
    monkeypatch.setattr(contexts, "ORIGIN", here)
    assert interpreter.module_path() == [here, f"{here}/lib", "/abs"]


@pytest.mark.parametrize("context", FRESH)
def test_modules_beside_the_program_are_found_after_a_change_of_directory(
    context: str, tmp_path: Path
) -> None:
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
        for module in (beside_it, in_lib):
            with sk.prefetch(sk.smap(module.item, range(4)), 1, "process", context=sys.argv[1]) as node:
                assert list(node) == [0, 1, 2, 3]
    """
    assert finished(tmp_path, script, context) == (0, "", "")


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_start_where_the_directory_was_deleted(context: str, tmp_path: Path) -> None:
    script = """
        import os, pathlib, sys
        import seqkit as sk

        gone = pathlib.Path(__file__).parent / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()
        sys.path.insert(0, "")
        with sk.prefetch(range(4), 1, "process", context=sys.argv[1]) as node:
            assert list(node) == [0, 1, 2, 3]
    """
    assert finished(tmp_path, script, context) == (0, "", "")


def test_seqkit_is_imported_where_the_directory_was_deleted(tmp_path: Path) -> None:
    script = """
        import os, pathlib

        gone = pathlib.Path(__file__).parent / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

        import seqkit
        from seqkit.core.worker import ORIGIN

        assert ORIGIN is None
    """
    assert finished(tmp_path, script) == (0, "", "")


# -------------------------------------------------------------------- arguments and flags


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_have_the_arguments_of_the_program(context: str, tmp_path: Path) -> None:
    script = """
        import sys
        import seqkit as sk

        def arguments(_):
            import sys

            return sys.argv

        for argv in (sys.argv, ["-m", "x", "-c", "ü 'q' \\udc80", ""], [], [None, 3]):
            sys.argv = argv
            with sk.prefetch(sk.smap(arguments, [0]), 1, "process", context=CONTEXT) as node:
                found = list(node)
            assert found == [[str(argument) for argument in argv]] or CONTEXT == "fork", found
    """
    assert finished(tmp_path, script.replace("CONTEXT", repr(context)), "--rate", "3") == (0, "", "")


def text_hash(_: int) -> tuple[int, str | None]:
    return hash("seqkit"), os.environ.get("PYTHONHASHSEED")


def hashes(context: Any) -> tuple[int, str | None]:
    """Return the hash of a text in one worker of a new node, and the hash seed that its children get."""
    with sk.prefetch(sk.smap(text_hash, range(1)), 1, "process", context=context) as node:
        return node[0]


@pytest.mark.parametrize("context", FRESH)
def test_workers_have_the_hash_seed_of_the_environment(context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    seven = hashes(context)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert seven[1] == "7"
    assert hashes(context)[0] != seven[0]


@pytest.mark.parametrize("context", FRESH)
def test_workers_start_with_a_module_path_of_any_length(
    context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = [*sys.path, *(f"/opt/{'x' * 140}/{i}" for i in range(1000))]
    monkeypatch.setattr(sys, "path", path)
    with sk.prefetch(sk.smap(lambda _: sys.path, range(1)), 1, "process", context=context) as node:
        assert node[0] == interpreter.module_path()


@pytest.mark.parametrize("context", FRESH)
def test_arguments_of_the_program_may_hold_any_text(context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "a\0b", "c"])
    with sk.prefetch(sk.smap(lambda _: sys.argv, range(1)), 1, "process", context=context) as node:
        assert node[0] == ["program", "a\0b", "c"]


@pytest.mark.parametrize("context", FRESH)
@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("frozen", True, "no Python is known"),
        ("executable", None, "no Python is known"),
        ("executable", "", "no Python is known"),
    ],
)
def test_without_a_python_to_start_workers_are_refused(
    context: str, attribute: str, value: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(interpreter.subprocess, "Popen", lambda *_, **__: started.append(1))
    monkeypatch.setattr(sys, attribute, value, raising=False)
    refused = pytest.raises(RuntimeError, match=f"prefetch: {reason}.* Use context='fork'")
    with sk.prefetch(range(4), 2, "process", context=context) as node, refused:
        node[0]
    assert not started
    with sk.prefetch(range(4), 2, "process", context="fork") as node:
        assert list(node) == [0, 1, 2, 3]


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


@pytest.mark.parametrize(
    ("given", "found"), [({}, "1"), ({"SEQKIT_NATIVE_THREADS": "0"}, None), ({"OMP_NUM_THREADS": "3"}, "3")]
)
@pytest.mark.parametrize("context", CONTEXTS)
def test_libraries_loaded_by_an_item_use_the_limited_number_of_threads(
    context: str, given: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("SEQKIT_NATIVE_THREADS", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    pipeline: Any = sk.smap(lambda _: os.environ.get("OMP_NUM_THREADS"), [0])
    with sk.prefetch(pipeline, 1, "process", context=context) as node:
        assert list(node) == [found]
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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_takes_in_a_worker_what_numpy_takes(dtype: Any) -> None:
    def arrays(_: int) -> list[npt.NDArray[Any]]:
        made = [sk.empty(shape, dtype) for shape in SHAPES]
        for array in made:
            array[...] = np.zeros((), array.dtype)
        return made

    with sk.prefetch(sk.smap(arrays, [0]), 1, "process", context="fork") as node:
        (found,) = node
    expected = [np.empty(shape, dtype) for shape in SHAPES]
    assert [(array.shape, array.dtype) for array in found] == [(a.shape, a.dtype) for a in expected]


def test_empty_lays_arrays_of_such_shapes_and_dtypes_into_the_slot() -> None:
    def is_placed(shape: Any, dtype: Any) -> bool:
        return sk.empty(shape, dtype).base is not None

    pipeline: Any = sk.starmap(is_placed, [(np.array(5000), "f8"), ((np.int8(100), 50), ("f4", (3,)))])
    with sk.prefetch(pipeline, 1, "process", context="fork") as node:
        assert list(node) == [True, True]


@pytest.mark.parametrize("shape", ["abc", 2.0, (2.0, 3), -5, {}, object()], ids=str)
def test_empty_refuses_in_a_worker_what_numpy_refuses(shape: Any) -> None:
    def refusal(_: int) -> str:
        try:
            sk.empty(shape)
        except (TypeError, ValueError) as error:
            return repr(error)
        return "none"

    with sk.prefetch(sk.smap(refusal, [0]), 1, "process", context="fork") as node:
        assert list(node) == [refusal(0)]
    assert refusal(0) != "none"


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
