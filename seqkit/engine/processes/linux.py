"""Linux system calls of the process engine, on every build of Python.

Python has a function for a system call only if the C library and kernel headers of the build machine had
the call. Builds for old machines (conda, uv) therefore lack `os.memfd_create`, `os.pidfd_open` and others
on kernels that support them. In that case this module makes the system call itself, through ctypes.

Guarantees
----------
- Importing this module works on every platform, and imports neither ctypes nor fcntl.
- Descriptors returned here are closed on exec.
- A failed system call raises `OSError` with the errno of the kernel.

Relies on
---------
- Linux 5.3 or later. `missing` returns the reason why the engine cannot run, and never raises.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import stat
import sys
from contextlib import suppress
from functools import cache

# Constants that a build of Python may lack, with their values in Linux.
EPOLLEXCLUSIVE: int = getattr(select, "EPOLLEXCLUSIVE", 1 << 28)
_MADV_DONTDUMP: int = getattr(mmap, "MADV_DONTDUMP", 16)
_MFD_CLOEXEC = 1

# Numbers of memfd_create, by the start of the machine's name. A 32-bit Python may run on a 64-bit kernel.
_MEMFD_CREATE = (
    {"x86_64": 319, "aarch64": 279, "riscv64": 279, "loongarch64": 279, "ppc64": 360, "s390x": 350}
    if sys.maxsize > 1 << 32
    else {"x86_64": 356, "i": 356, "arm": 385, "aarch64": 385}
)
# These numbers are the same on all of these machines.
_PIDFD_SEND_SIGNAL = 424
_PIDFD_OPEN = 434

# Errors of a system that lacks or forbids a call. Others are temporary, such as too many open files.
_PERMANENT = (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.ENOENT)


# -------------------------------------------------------------------- system calls


def memfd_create(name: str) -> int:
    """Return a descriptor of new anonymous memory, of 0 bytes. `name` is shown in /proc only."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, _MFD_CLOEXEC)
    return _syscall(_memfd_number(), os.fsencode(name), _MFD_CLOEXEC)


def pidfd_open(pid: int) -> int:
    """Return a descriptor of a process. It becomes readable when the process ends."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    return _syscall(_PIDFD_OPEN, pid, 0)


def pidfd_send_signal(pidfd: int, number: int) -> None:
    """Send a signal to the process of `pidfd`. Raises `ProcessLookupError` after its end."""
    if hasattr(signal, "pidfd_send_signal"):
        signal.pidfd_send_signal(pidfd, number)
    else:
        _syscall(_PIDFD_SEND_SIGNAL, pidfd, number, 0, 0)


def dont_dump(memory: mmap.mmap) -> None:
    """Exclude a mapping from core dumps, if the system supports it.

    The dump of a crashed worker would otherwise read, and so allocate, a sparse segment of many GiB. A
    process that maps the segment again must call this for its own mapping. A forked process need not.
    """
    with suppress(OSError, AttributeError):
        memory.madvise(_MADV_DONTDUMP)


def _memfd_number() -> int:
    machine = os.uname().machine
    for beginning, number in _MEMFD_CREATE.items():
        if machine.startswith(beginning):
            return number
    raise OSError(errno.ENOSYS, f"the number of memfd_create on {machine} is not known")


def _syscall(number: int, *arguments: int | bytes) -> int:
    """Make a system call. An int is passed as a long, and bytes as a pointer."""
    _memfd_number()  # raises for machines whose numbers are not known
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = function(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def own_positions() -> None:
    """Open inherited files anew that are only read, so that no other process moves their positions."""
    import fcntl

    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # it was the listing itself, or the file may not be opened again
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            if flags & os.O_ACCMODE == os.O_RDONLY and stat.S_ISREG(os.fstat(fd).st_mode):
                position = os.lseek(fd, 0, os.SEEK_CUR)
                own = os.open(f"/proc/self/fd/{fd}", flags)
                os.lseek(own, position, os.SEEK_SET)
                os.dup2(own, fd, os.get_inheritable(fd))
                os.close(own)


# -------------------------------------------------------------------- check whether the engine can run


@cache
def missing() -> str:
    """Return why the engine cannot run here, as the end of a sentence, or "" if it can.

    The first call really makes the system calls, because a kernel, a container or Python itself may lack
    any of them.
    """
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    fds: list[int] = []
    name = ""
    try:
        name = "memfd_create"
        fds.append(memfd_create("seqkit-probe"))
        name = "pidfd_open"
        fds.append(pidfd_open(os.getpid()))
        name = "pidfd_send_signal"
        pidfd_send_signal(fds[-1], 0)  # only checks that a signal could be sent
        name = "/proc"
        os.stat("/proc/self/task")
    except (ImportError, OSError) as error:
        if isinstance(error, ImportError) or error.errno in _PERMANENT:
            return f"it needs Linux 5.3 or later, and {name} fails here ({error})"
    finally:
        for fd in fds:
            os.close(fd)
    return ""


# -------------------------------------------------------------------- the ends of processes


def watched(pid: int) -> int:
    """Return a pidfd of a new child. Without a pidfd the child cannot be monitored, so it is killed."""
    try:
        return pidfd_open(pid)
    except OSError:  # out of descriptors
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise


def kill(pidfd: int) -> None:
    """Kill a process unless it has ended."""
    with suppress(ProcessLookupError):
        pidfd_send_signal(pidfd, signal.SIGKILL)


def is_readable(fd: int, within_s: float = 0.0) -> bool:
    """Wait until a descriptor is readable. A pidfd is readable when its process has ended."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))


def has_ended(pid: int, within_s: float) -> bool:
    """Wait until a process has ended, which need not be a child. Return False if it cannot be watched."""
    try:
        pidfd = pidfd_open(pid)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    try:
        return is_readable(pidfd, within_s)
    finally:
        os.close(pidfd)


def reap(pid: int, pidfd: int, timeout_s: float) -> tuple[int, int] | None:
    """Wait until a child process ends. Return its wait status, and the most memory that it had, in bytes.

    Parameters
    ----------
    pid : int
    pidfd : int
        A descriptor of the same process.
    timeout_s : float
        The longest that this function may take.

    Returns
    -------
    (int, int) or None
        None if the process did not end in time, or if another part of the program waited for it.

    Notes
    -----
    Even a killed process may not end in time: a process that waits for a disk or a network file system
    cannot be interrupted.
    """
    if is_readable(pidfd, timeout_s):
        # The second while the interpreter ends: `os.wait4` waits, and then imports a module.
        with suppress(ChildProcessError, ImportError):
            _, status, usage = os.wait4(pid, 0)
            return status, usage.ru_maxrss << 10
    return None


# -------------------------------------------------------------------- waking a thread that polls


def make_wake() -> tuple[int, int]:
    """Return two descriptors: one to poll and `clear`, and one to pass to `wake`.

    This is a pipe rather than an eventfd, because every Python has pipes.
    """
    to_poll, to_wake = os.pipe()
    os.set_blocking(to_poll, False)
    os.set_blocking(to_wake, False)
    return to_poll, to_wake


def wake(fd: int) -> None:
    """Make the other end readable. Never blocks, and is safe in signal handlers and other threads."""
    with suppress(BlockingIOError):  # the pipe is full, so the other end is readable
        os.write(fd, b"!")


def clear(fd: int) -> None:
    """Make the descriptor unreadable until the next `wake`."""
    with suppress(BlockingIOError):
        os.read(fd, 1 << 16)
