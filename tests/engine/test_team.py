"""Whether workers are forked; workers that do not begin, do not end or cannot be started."""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib.util
import math
import os
import signal
import sys
import textwrap
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import engine, threads
from seqkit.engine.processes import forking, linux, team, template, worker_process

from ..helpers import mostly_stress
from .kinds import CONTEXTS
from .scripts import finished
from .traces import children, drawn, pids_of, until
from .traces import state as state_of

FORK = os.fork


def parents(node: Any) -> set[int]:
    """The processes that forked the workers of a node of `os.getppid()`."""
    return set(node)


def a_node(nworkers: int = 2, context: Any = None, count: int = 8) -> Any:
    return sk.prefetch(sk.smap(lambda _: os.getppid(), range(count)), nworkers, "process", context=context)


# -------------------------------------------------------------------- threads that are judged


@contextmanager
def thread(target: Callable[[], object], end: Callable[[], object]) -> Iterator[threading.Thread]:
    """Have a thread about."""
    one = threading.Thread(target=target)
    one.start()
    try:
        yield one
    finally:
        end()
        one.join()


def module(name: str, source: str) -> types.ModuleType:
    """Return a module that was never imported, as a thread's frames show it."""
    made = types.ModuleType(name)
    exec(source, made.__dict__)
    return made


WAITS = "def run(event):\n    event.wait()\n"
CALLS = "def run(call):\n    call()\n"
# The modules of a thread's functions, the outermost first, and whether workers are forked beside it.
STACKS = [
    ("tqdm._monitor", True),
    ("tqdm.std", False),
    ("ipykernel.heartbeat", True),
    ("ipykernels", False),
    ("IPython.core.history", True),
    ("IPython.lib.backgroundjobs", False),
    ("_pydevd_bundle.pydevd_comm", True),
    ("pydevd", True),
    ("__main__", False),
    ("queue", False),  # of the standard library, which any thread may run
    ("seqkit.loader.loader", False),
    ("tqdm._monitor selectors", True),
    ("tqdm._monitor users_code", False),
    ("tqdm._monitor concurrent.futures.thread", False),  # has a lock
    ("_pydev_bundle.pydev_monkey tqdm._monitor", True),  # a debugger starts all threads
    ("_pydev_bundle.pydev_monkey users_code", False),
]


def test_the_modules_on_the_stack_of_a_thread_decide_whether_it_matters_for_forks() -> None:
    for stack, is_safe in STACKS:
        event = threading.Event()
        *outer, inner = stack.split()
        run = partial(module(inner, WAITS).run, event)
        for name in reversed(outer):
            run = partial(module(name, CALLS).run, run)
        with thread(run, event.set) as one:
            expected = [] if is_safe else [f"thread {one.name!r}"]
            assert until(lambda expected=expected: forking.obstacles() == expected), stack
            if stack in ("tqdm._monitor", "tqdm.std"):
                with a_node() as node:
                    assert (parents(node) == {os.getpid()}) == is_safe


def test_threads_within_a_function_in_c_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, begun, enough = threading.Lock(), threading.Event(), threading.Event()
    lock.acquire()
    with thread(lock.acquire, lock.release):
        assert forking.obstacles()
    matrix = np.ones((600, 600))

    def multiply() -> None:
        while not enough.is_set():
            begun.set()
            matrix @ matrix

    with thread(multiply, enough.set):
        begun.wait()
        assert forking.obstacles()


def test_an_import_in_another_thread_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Code of a module of this name does not matter, but its import does.
    (tmp_path / "decorator.py").write_text("import sys\nsys._begun.set()\nsys._enough.wait()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "decorator", raising=False)
    begun, enough = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "_begun", begun, raising=False)
    monkeypatch.setattr(sys, "_enough", enough, raising=False)
    source = "def run():\n    import decorator\n"
    with thread(module("ipykernel.lazy", source).run, enough.set):
        assert begun.wait(20)
        assert forking.obstacles()
    sys.modules.pop("decorator")


def test_an_idle_thread_pool_matters_unless_fork_is_chosen() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with a_node() as node:
            assert os.getpid() not in parents(node)
        with a_node(context="fork") as node:
            assert parents(node) == {os.getpid()}


def test_idle_workers_of_thread_nodes_do_not_matter_and_busy_ones_do() -> None:
    begun, enough = threading.Event(), threading.Event()

    def item(x: int) -> int:
        if x:
            begun.set()
            enough.wait()
        return x

    with sk.prefetch(sk.smap(item, range(2)), 1, "thread", chunk_size=1, max_buffered=1) as threads:
        assert threads[0] == 0
        assert until(lambda: not forking.obstacles())
        iterator = iter(threads)
        next(iterator)
        until(begun.is_set)
        assert forking.obstacles()
        enough.set()
        assert list(iterator) == [1]


def test_an_idle_loop_of_coroutines_does_not_matter() -> None:
    async def item(x: int) -> int:
        return x

    with sk.prefetch(sk.smap(item, range(2)), 1, "async") as ahead:
        assert list(ahead) == [0, 1]
        assert until(lambda: not forking.obstacles())


# -------------------------------------------------------------------- native threads and pools


@contextmanager
def native_thread(name: str | None) -> Iterator[None]:
    """Have a thread about that Python does not know, as the library of this name starts it."""
    libc, ident, semaphore = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.create_string_buffer(64)
    libc.sem_init(semaphore, 0, 0)
    assert libc.pthread_create(ctypes.byref(ident), None, libc.sem_wait, semaphore) == 0
    if name is not None:
        assert libc.pthread_setname_np(ident, name.encode()) == 0
    try:
        yield
    finally:
        libc.sem_post(semaphore)
        libc.pthread_join(ident, None)


def test_native_threads_are_judged_by_their_names() -> None:
    harmless = ["ZMQbg/IO/0", "jemalloc_bg_thd", "cuda-EvtHandlr", "pt_nccl_watchdg", "NCCL Service 0"]
    harmless.append("polars-ooc-clea")  # after the import alone
    for name in (None, *harmless):  # without a name: BLAS, OpenMP, Arrow, DuckDB, OpenCV
        with native_thread(name):
            assert forking.obstacles() == []
    for name in ("polars-0", "tokio-rt-worker", "lance-cpu", "tf_XLAEigen", "grpc_global_tim", "anything"):
        with native_thread(name):
            assert forking.obstacles() == [f"native thread {name!r}"]
    with native_thread(None), a_node() as node:
        assert parents(node) == {os.getpid()}
    with native_thread("polars-0"), a_node() as node, a_node(context="fork") as chosen:
        assert os.getpid() not in parents(node)
        assert parents(chosen) == {os.getpid()}


def test_the_name_of_a_python_thread_does_not_matter() -> None:
    event = threading.Event()
    harmless = module("tqdm._monitor", CALLS)
    with thread(partial(harmless.run, event.wait), event.set) as one:
        Path(f"/proc/self/task/{one.native_id}/comm").write_text("polars-0")
        assert until(lambda: not forking.obstacles())
    event.clear()
    with thread(partial(harmless.run, event.wait), event.set) as one:
        one.name = "the user's own thread"
        with native_thread(one.name[:15]):  # Python 3.14 gives its threads their names, and what they start
            assert until(lambda: not forking.obstacles())


def needs(library: str) -> None:
    """Skip a test without a library, and import it nowhere: it may start threads."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")


# Code that starts the threads of a library, and whether workers are forked beside them.
LIBRARIES = {
    "torch": ("import torch\nx = torch.ones(300, 300)", "float((x @ x + x).sum())", True),
    "polars": (
        "import polars as pl\ndf = pl.DataFrame({'g': [1, 2, 3]})",
        "df.filter(pl.col('g') > 1).height",
        False,
    ),
    "numpy": ("import numpy as np\na = np.ones((300, 300))", "float((a @ a).sum())", True),
    "pyarrow": (
        "import pyarrow as pa, pyarrow.compute as pc\nt = pa.table({'a': range(99)})",
        "t.group_by('a').aggregate([('a', 'sum')]).num_rows",
        True,
    ),
    "cv2": (
        "import cv2, numpy as np\na = np.ones((999, 999))",
        "float(cv2.GaussianBlur(a, (9, 9), 0).sum())",
        True,
    ),
    "duckdb": ("import duckdb", "duckdb.sql('select sum(i) from range(99999) t(i)').fetchall()[0][0]", True),
    "jax": ("import jax.numpy as jnp\na = jnp.ones((99, 99))", "float((a @ a).sum())", False),
    "grpc": ("import grpc", "str(grpc.insecure_channel('localhost:1').close())", False),
}


@pytest.mark.parametrize("library", mostly_stress(*LIBRARIES, here=2))
def test_workers_can_use_a_library_that_the_parent_has_used(library: str, tmp_path: Path) -> None:
    needs(library)
    start, use, is_forked = LIBRARIES[library]
    script = f"""
        import os
        import seqkit as sk
        {textwrap.indent(start, " " * 8).strip()}

        def used(_):
            return {use}, os.getppid()

        def read():
            with sk.prefetch(sk.smap(used, range(4)), 2, "process") as node:
                items, parents = map(set, zip(*node))
            return items, parents == {{os.getpid()}}

        items, is_forked = read()  # after the import alone
        assert is_forked
        assert items == {{used(0)[0]}}
        assert read() == (items, {is_forked})
    """
    code, _, err = finished(tmp_path, script)
    assert code == 0, err
    assert ("workers are not forked" in err) != is_forked


@pytest.mark.stress
@pytest.mark.parametrize("threads", ["1", "2"])
def test_workers_that_use_several_native_threads_are_not_forked_beside_openmp(
    threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("torch")
    monkeypatch.setenv("SEQKIT_NATIVE_THREADS", threads)
    script = """
        import os, torch
        import seqkit as sk

        def total(_):
            return float((ones @ ones + ones).sum()), os.getppid()

        torch.set_num_threads(2)
        ones = torch.ones(300, 300)
        expected, _ = total(0)
        with sk.prefetch(sk.smap(total, range(4)), 2, "process") as node:
            for found, parent in node:
                assert found == expected
                print(parent == os.getpid())
    """
    code, out, err = finished(tmp_path, script)
    assert code == 0, err
    assert out.split() == [str(threads == "1")] * 4


def test_a_pipeline_that_starts_threads_in_a_template_gets_fresh_interpreters(tmp_path: Path) -> None:
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading\n"
        "lock = threading.Lock()\n"
        "lock.acquire()\n"
        "threading.Thread(target=lock.acquire, daemon=True).start()\n"
        "def item(i):\n"
        "    import os\n"
        "    return i, os.getppid()\n"
    )
    script = """
        import os, pathlib, sys, warnings

        sys.path.append(str(pathlib.Path(__file__).parent))
        warnings.simplefilter("error", RuntimeWarning)
        import seqkit as sk
        from seqkit.engine.processes import linux, template
        from starts_a_thread import item

        started, start = [], template.interpreter
        template.interpreter = lambda *arguments: started.append(1) or start(*arguments)
        for is_late in (False, True):
            with sk.prefetch(sk.smap(item, range(4)), 2, "process", context="forkserver") as node:
                node.start()
                if is_late:  # and the template has not read which workers were asked for
                    pidfd = node.engine._scheduler.backend._team._template._pidfd
                    assert linux.is_readable(pidfd, 20)
                assert list(node) == [(i, os.getpid()) for i in range(4)]
                assert node.statistics().restarts == 0
        assert len(started) == 6  # twice the template and two workers
    """
    assert finished(tmp_path, script) == (0, "", "")


def test_workers_that_are_not_forked_unasked_are_announced_once(tmp_path: Path) -> None:
    script = """
        import queue, sys, threading, warnings
        import seqkit as sk

        def start(context=None):
            with sk.prefetch(range(4), 1, "process", context=context) as node:
                list(node)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start()
            threading.Thread(target=queue.Queue().get, name="the logger", daemon=True).start()
            start("forkserver")
            assert not caught
            start()
            start()
        (warning,) = caught
        assert warning.filename == __file__
        text = str(warning.message)
        assert "beside thread 'the logger'. They import modules anew" in text, text
        assert "start_hook" in text and "'forkserver'" in text
    """
    assert finished(tmp_path, script) == (0, "", "")


# -------------------------------------------------------------------- start methods


def test_a_fork_waits_for_threads_of_closed_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "GRACE_S", 0.0)
    begun, go_on = threading.Event(), threading.Event()

    def item(_: int) -> None:
        begun.set()
        go_on.wait(20)
        for _ in range(100):
            time.sleep(0.001)

    with sk.prefetch(sk.smap(item, range(4)), 1) as closed:

        def read() -> None:
            with suppress(RuntimeError):  # the node is closed
                list(closed)

        consumer = threading.Thread(target=read)
        consumer.start()
        begun.wait()
    consumer.join()
    timer = threading.Timer(0.1, go_on.set)
    timer.start()
    with a_node() as node:
        assert parents(node) == {os.getpid()}
    timer.join()


def test_a_fork_waits_once_for_a_thread_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    stuck: Any = types.SimpleNamespace(join=waits.append)
    monkeypatch.setattr(threads, "_ending", [stuck])
    forking.obstacles()
    forking.obstacles()
    assert len(waits) == 1
    assert 0 < waits[0] <= forking.ENDING_S


def test_the_start_method_of_multiprocessing_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for explicit, chosen, default, expected in (
        ("fork", "spawn", "fork", "fork"),
        (None, None, "fork", None),
        (None, "fork", "fork", None),
        (None, "spawn", "fork", "spawn"),
        (None, "forkserver", "fork", "forkserver"),
        (None, "forkserver", "forkserver", None),  # Python 3.14
        (None, "fork", "forkserver", None),
    ):
        methods = [default, *{"fork", "spawn", "forkserver"} - {default}]
        fake = types.SimpleNamespace(
            get_start_method=lambda allow_none, chosen=chosen: chosen,
            get_all_start_methods=lambda methods=methods: methods,
        )
        monkeypatch.setitem(sys.modules, "multiprocessing", fake)
        assert engine.start_method(explicit) == expected


def test_a_fork_beside_irrelevant_threads_does_not_warn(tmp_path: Path) -> None:
    script = """
        import os, sys, threading, warnings
        import seqkit as sk

        warnings.simplefilter("error")
        fork = os.fork
        def warning_fork():  # as Python 3.12 does
            warnings.warn("multi-threaded", DeprecationWarning)
            return fork()
        os.fork = warning_fork
        threads = sk.prefetch(range(4), 1)
        assert list(threads) == [0, 1, 2, 3]
        assert threading.active_count() > 1
        with sk.prefetch(range(4), 2, "process") as node:
            assert list(node) == [0, 1, 2, 3]
    """
    assert finished(tmp_path, script) == (0, "", "")


# -------------------------------------------------------------------- many workers


@pytest.mark.parametrize("context", [None, *CONTEXTS])
def test_many_workers_are_started_a_few_at_a_time(context: Any) -> None:
    many = 2 * team.STARTED_AT_ONCE + 1
    with sk.prefetch(range(400), many, "process", context=context, chunk_size=1) as node:
        node.start()
        backend: Any = node.engine._scheduler.backend  # type: ignore[union-attr]
        assert len(backend._team.handles) == team.STARTED_AT_ONCE
        assert list(node) == list(range(400))
        assert until(lambda: len(list(node)) == 400 and len(set(pids_of(node))) == many)
        assert node.statistics().restarts == 0


# -------------------------------------------------------------------- workers that do not begin


def idle_threads() -> Any:
    """Return a node whose threads do not matter to forks."""
    node = sk.prefetch(range(4), 1)
    assert list(node) == [0, 1, 2, 3]
    assert until(lambda: not forking.obstacles())
    return node


def test_a_forked_worker_that_does_not_begin_is_replaced_by_one_of_a_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(team, "BEGIN_S", 0.2)
    monkeypatch.setattr(team, "_has_announced", False)
    parent = os.getpid()
    settle = worker_process._end_with_parent

    def hang(fds: Any) -> None:
        if os.getppid() == parent:
            signal.pause()
        settle(fds)

    monkeypatch.setattr(worker_process, "_end_with_parent", hang)
    with idle_threads(), a_node() as node:
        with pytest.warns(RuntimeWarning, match="a thread that keeps forked workers from their start"):
            (found,) = parents(node)
        assert found != parent
        assert node.statistics().restarts == 2


def test_a_start_hook_may_take_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "BEGIN_S", 600)
    go = os.pipe()
    with idle_threads(), sk.prefetch(range(4), 1, "process", start_hook=lambda _: os.read(go[0], 1)) as node:
        backend: Any = node.start().engine._scheduler.backend  # type: ignore[union-attr]
        (handle,) = backend._team.handles.values()
        assert until(lambda: not backend.receive(0.01) and handle.state == "ready")
        assert handle.begins_by < math.inf
        handle.begins_by = 0.0  # as if the hook had taken longer
        assert backend.receive(0.01) == []
        os.write(go[1], b"!")
        assert list(node) == [0, 1, 2, 3]
        assert node.statistics().restarts == 0
    for fd in go:
        os.close(fd)


# -------------------------------------------------------------------- workers that cannot be started


def killed(node: Any, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: all(state_of(pid) in ("Z", "gone") for pid in pids))


def refusing(times: float, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have no process forked, so many times; return a list that grows with every attempt."""
    attempts: list[int] = []

    def fork() -> int:
        attempts.append(1)
        if len(attempts) <= times:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return FORK()

    monkeypatch.setattr(os, "fork", fork)
    return attempts


def test_a_replacement_that_cannot_be_started_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_node(3, context="fork") as node:
        list(node)
        first, *others = pids_of(node)
        attempts = refusing(1, monkeypatch)
        killed(node, [first])
        found: list[Any] = []
        assert until(lambda: found.extend(drawn(iter(node))) or isinstance(found[-1], BaseException))
        assert (
            "worker 0 could not start: BlockingIOError: [Errno 11] Resource temporarily unavailable"
            in str(found[-1])
        )
        assert len(attempts) == 1
        node.restart()
        assert len(list(node)) == 8
        assert not set(pids_of(node)) & set(others)


def test_a_node_that_cannot_start_at_all_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    refusing(float("inf"), monkeypatch)
    with (
        a_node(context="fork") as node,
        pytest.raises(BlockingIOError, match=r"unavailable\. prefetch: no further process"),
    ):
        node.start()
    assert children() == before


# -------------------------------------------------------------------- processes that do not end


def test_closing_leaves_a_process_alone_that_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (team, template):
        monkeypatch.setattr(module, "REAP_S", 0.05)
    monkeypatch.setattr(linux, "kill", lambda pidfd: None)  # as in an uninterruptible sleep
    node = a_node(1, "fork").start()
    (pid,) = pids_of(node)
    os.kill(pid, signal.SIGSTOP)
    node.close()
    assert state_of(pid) == "T"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_the_garbage_collector_does_not_run_while_stacks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python 3.11 would hang if it freed a `threading.local` then.
    frames, seen = sys._current_frames, list[bool]()
    monkeypatch.setattr(sys, "_current_frames", lambda: (seen.append(gc.isenabled()), frames())[1])
    forking.obstacles()
    assert seen == [False]
    assert gc.isenabled()
