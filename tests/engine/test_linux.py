"""The system calls of the engine: through Python's functions, and through ctypes where Python lacks them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from seqkit.engine.processes import linux

from .traces import state

WRAPPERS = ((os, "memfd_create"), (os, "pidfd_open"), (signal, "pidfd_send_signal"))


@pytest.fixture(params=["python", "ctypes"])
def through(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hide Python's functions in one of two runs."""
    if request.param == "ctypes":
        hide(monkeypatch)
    elif not all(hasattr(module, name) for module, name in WRAPPERS):
        pytest.skip("this Python lacks the functions")
    return str(request.param)


def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in WRAPPERS:
        monkeypatch.delattr(module, name, raising=False)


@pytest.fixture(autouse=True)
def _probe_again() -> Iterator[None]:
    linux.missing.cache_clear()
    yield
    linux.missing.cache_clear()


@pytest.fixture
def child() -> Iterator[int]:
    """Yield the pid of a child process that sleeps."""
    path = shutil.which("sleep")
    assert path is not None
    pid = os.posix_spawn(path, ["sleep", "60"], os.environ)
    yield pid
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


@pytest.fixture
def pidfd(child: int) -> Iterator[int]:
    fd = linux.pidfd_open(child)
    yield fd
    os.close(fd)


def is_readable(fd: int, timeout_s: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


# -------------------------------------------------------------------- system calls


@pytest.mark.usefixtures("through")
def test_memfd_is_memory_that_is_closed_on_exec() -> None:
    fd = linux.memfd_create("seqkit-test")
    try:
        assert not os.get_inheritable(fd)
        assert os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:seqkit-test")
        os.ftruncate(fd, mmap.PAGESIZE)
        with mmap.mmap(fd, mmap.PAGESIZE) as memory:
            memory[:3] = b"abc"
            assert os.pread(fd, 4, 0) == b"abc\0"
    finally:
        os.close(fd)
    with pytest.raises(OSError, match="Invalid argument"):  # the error of the kernel
        linux.memfd_create("x" * 1000)


@pytest.mark.usefixtures("through")
def test_a_signal_through_a_pidfd_ends_the_process_and_makes_it_readable(child: int) -> None:
    fd = linux.pidfd_open(child)
    try:
        assert not os.get_inheritable(fd)
        assert not is_readable(fd)
        linux.pidfd_send_signal(fd, signal.SIGTERM)
        assert is_readable(fd, 20)
        assert os.waitpid(child, 0)[1] == signal.SIGTERM
        with pytest.raises(ProcessLookupError):
            linux.pidfd_send_signal(fd, signal.SIGTERM)
        with pytest.raises(ProcessLookupError):
            linux.pidfd_open(child)
    finally:
        os.close(fd)


@pytest.mark.skipif(sys.maxsize < 1 << 32, reason="these are 64-bit machines")
def test_memfd_create_has_the_number_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    class Libc:
        def __init__(self, *_: object, **__: object) -> None:
            def syscall(called: Any, *_: object) -> int:
                calls.append(called.value)
                return 7

            self.syscall = syscall

    hide(monkeypatch)
    monkeypatch.setattr(ctypes, "CDLL", Libc)
    for machine in ("x86_64", "aarch64", "riscv64", "ppc64le", "s390x"):
        monkeypatch.setattr(os, "uname", lambda machine=machine: SimpleNamespace(machine=machine))
        assert linux.memfd_create("seqkit-test") == linux.pidfd_open(1) == 7
    assert calls == [319, 434, 279, 434, 279, 434, 360, 434, 350, 434]


def test_an_unknown_machine_makes_no_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="alpha", release="6.1"))
    for call in (lambda: linux.memfd_create("x"), lambda: linux.pidfd_open(1)):
        with pytest.raises(OSError, match="on alpha is not known") as caught:
            call()
        assert caught.value.errno == errno.ENOSYS
    assert "memfd_create fails here" in linux.missing()


def test_a_system_that_cannot_leave_memory_out_of_core_dumps_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linux, "_MADV_DONTDUMP", 12345)
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        linux.dont_dump(memory)
    linux.dont_dump(SimpleNamespace())  # type: ignore[arg-type]


def test_constants_are_those_of_python() -> None:
    assert getattr(select, "EPOLLEXCLUSIVE", linux.EPOLLEXCLUSIVE) == linux.EPOLLEXCLUSIVE


# -------------------------------------------------------------------- can the engine run here?


@pytest.mark.usefixtures("through")
def test_the_engine_can_run_here() -> None:
    assert linux.missing() == ""


def failing(code: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def test_the_reason_names_a_system_call_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in WRAPPERS:
        for code in (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EMFILE):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, failing(code), raising=False)
                error = f"[Errno {code}] {os.strerror(code)}"
                expected = f"it needs Linux 5.3 or later, and {name} fails here ({error})"
                assert linux.missing() == ("" if code == errno.EMFILE else expected)  # may go
            linux.missing.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing(errno.ENOENT))
        assert "and /proc fails here ([Errno 2]" in linux.missing()


def test_the_reason_names_a_python_without_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch)
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert "memfd_create fails here (import of ctypes halted" in linux.missing()


ELSEWHERE = """
import select, signal, sys, mmap, os

for module in ("ctypes", "fcntl"):
    sys.modules[module] = None
for module in (mmap, os, select, signal):
    for name in dir(module):
        if name.startswith(("MADV", "EPOLL", "epoll", "poll", "memfd", "pidfd", "uname", "waitpid")):
            delattr(module, name)
sys.platform = "darwin"

from seqkit.engine.processes import linux

print(linux.missing())
"""


def test_other_platforms_can_import_it() -> None:
    run = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True)
    assert (run.stderr, run.stdout) == ("", "it needs Linux, this is darwin\n")


# -------------------------------------------------------------------- the ends of processes


def test_reap_returns_the_wait_status_of_a_process_that_has_ended(child: int, pidfd: int) -> None:
    began = time.monotonic()
    assert linux.reap(child, pidfd, 0.05) is None
    assert 0.05 <= time.monotonic() - began < 5
    assert linux.reap(child, pidfd, -1) is None
    assert state(child) in "RS"
    linux.pidfd_send_signal(pidfd, signal.SIGKILL)
    status, most_bytes = linux.reap(child, pidfd, 20) or (0, 0)
    assert (status, most_bytes > 1 << 20) == (signal.SIGKILL, True)
    assert linux.reap(child, pidfd, 20) is None  # another part of the program has waited for it


def test_a_child_that_cannot_be_watched_is_killed(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "pidfd_open", failing(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        linux.watched(child)
    assert state(child) == "gone"


# -------------------------------------------------------------------- waking a thread that polls


def test_wake_makes_the_other_end_readable_until_it_is_cleared() -> None:
    to_poll, to_wake = linux.make_wake()
    try:
        assert not os.get_inheritable(to_poll)
        assert not os.get_inheritable(to_wake)
        linux.clear(to_poll)  # without a wake
        assert not is_readable(to_poll)
        for times in (1, 2, 100_000):  # the last fills the pipe
            for _ in range(times):
                linux.wake(to_wake)
            assert is_readable(to_poll)
            linux.clear(to_poll)
            assert not is_readable(to_poll)
    finally:
        os.close(to_poll)
        os.close(to_wake)
