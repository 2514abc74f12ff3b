"""Starting worker processes: by fork, or as fresh interpreters.

The launchers are ours because those of `multiprocessing` run an unguarded main script again, refuse
children to daemonic workers and join at exit. A script that uses seqkit runs its own code once.

Guarantees
----------
- a worker inherits exactly the descriptors of `worker.Descriptors`, and standard streams, which a fresh
  interpreter has also where this process closed its own;
- a launch waits for no worker to boot: they boot side by side.

Relies on
---------
- Linux: pidfd.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import threadpoolctl

from ...context import flush_streams
from ...view import View
from .. import resources
from ..signals import CtrlCHeldFromChildren
from .shipment import Shipment
from .slots import Segment
from .wire import Spec
from .worker import Descriptors, leave, main

__all__ = [
    "AmidAStart",
    "Child",
    "Fork",
    "Launcher",
    "Spawn",
    "environment",
    "interpreter",
    "module_path",
    "reap",
]


class AmidAStart(RuntimeError):
    """Workers are to be started by a signal handler that came where workers are started."""

    def __init__(self) -> None:
        super().__init__("prefetch: a signal handler starts workers while workers are started")


@dataclass(slots=True)
class Child:
    """A worker process: `reap` says how it ended, once its `pidfd` is readable."""

    pid: int
    pidfd: int
    reap: Callable[[int], int | None]

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def cause(self) -> str:
        """Say how the process ended; reaps it, so call it once."""
        status = self.reap(self.pid)
        if status is None:
            return "ended (somebody else waited for it, and knows how)"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return f"was killed by signal {number} ({_SIGNALS.get(number, 'a real-time signal')})"
        return f"exited with status {os.waitstatus_to_exitcode(status)}"


_SIGNALS = {number.value: number.name for number in signal.Signals}


class Launcher(Protocol):
    """Starts workers; the bulk descriptor differs for every one."""

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        """Start a worker and hand it to `enlist`, before Ctrl-C can make anybody forget it."""

    def close(self) -> None: ...

    def forget(self) -> None:
        """In a forked child: close the descriptors, and leave everything else to the parent."""


def reap(pid: int) -> int | None:
    """Wait for a child of this process; return its status."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # somebody else waited for it
        return None


def _child_of_ours(pid: int) -> Child:
    try:
        return Child(pid, os.pidfd_open(pid), reap)
    except OSError:  # out of descriptors: a process that cannot be watched is not to be
        os.kill(pid, signal.SIGKILL)
        reap(pid)
        raise


class Fork:
    """Workers are forks of this process: nothing is pickled, nothing imported.

    Parameters
    ----------
    isolate : callable
        Called in the child first, to close what it must not keep.
    """

    def __init__(
        self, spec: Spec, pipeline: View[Any], segment: Segment, isolate: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._pipeline = pipeline
        self._segment = segment
        self._isolate = isolate
        # Found once, not by every child, for which it takes three times as long.
        self._libraries = threadpoolctl.ThreadpoolController()

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        flush_streams()  # or the child would write it once more
        with CtrlCHeldFromChildren():
            with warnings.catch_warnings():
                # CPython warns of every other thread, numpy's idle BLAS threads included. Where Python
                # threads live, the node prefers the fork server; here forking was asked for.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                self._be_worker(number, fds)
            enlist(_child_of_ours(pid))

    def _be_worker(self, number: int, fds: Descriptors) -> None:
        try:
            self._isolate()
            _limit_threads(os.environ, self._spec.native_threads)
            main(number, self._spec, fds, self._segment, self._pipeline, self._libraries)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        finally:
            leave()

    def close(self) -> None:
        pass

    def forget(self) -> None:
        pass


class Spawn:
    """Workers are fresh interpreters that map the shipment."""

    def __init__(self, shipment: Shipment) -> None:
        self._shipment = shipment
        self._environment = environment()

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        shipment = self._shipment
        passed = (shipment.fd, *astuple(fds))
        with CtrlCHeldFromChildren():
            pid = interpreter(
                f"from seqkit.prefetch.processes.worker import boot; boot({number}, {shipment.frame}, fds)",
                passed,
                self._environment,
            )
            enlist(_child_of_ours(pid))

    def close(self) -> None:
        self._shipment.close()

    def forget(self) -> None:
        self._shipment.close()


def interpreter(code: str, fds: tuple[int, ...], environment: dict[str, str]) -> int:
    """Start a Python that sees the same modules and arguments; return its pid. It runs no main script.

    The code finds the descriptors in `fds`.
    """
    argv = list(map(str, getattr(sys, "argv", ())))
    with _beyond_streams(fds) as numbers:
        same = f"import sys; sys.path[:] = {module_path()!a}; sys.argv[:1] = {argv[:1]!a}; fds = {numbers}"
        process = subprocess.Popen(
            # The system lets arguments be longer than it lets code be.
            [sys.executable, *_flags(), "-c", f"{same}; {code}", *argv[1:]],
            pass_fds=numbers,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=_stream(1),
            stderr=_stream(2),
            process_group=0,  # Ctrl-C on the terminal is this process's affair
        )
    process.returncode = 0  # the pid is ours to wait for, also when this object is collected
    return process.pid


@contextmanager
def _beyond_streams(fds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Have descriptors under numbers that are not those of a child's standard streams.

    Where this process closed its own, ours may have got their numbers.
    """
    with ExitStack() as copies:
        numbers = []
        for fd in fds:
            if fd <= 2:
                fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
                copies.callback(os.close, fd)
            numbers.append(fd)
        yield tuple(numbers)


def _stream(number: int) -> int | None:
    """Return what a child is to have as a standard stream: ours; nothing that talks where we have none."""
    try:
        is_ours = os.get_inheritable(number)  # else it is a descriptor of the engine's
    except OSError:
        is_ours = False
    return None if is_ours else subprocess.DEVNULL


def module_path() -> list[str]:
    """Return `sys.path` for another process.

    What is relative means two directories: the current one, in which this process would look now, and the
    one it began in, in which it found what it imported then.
    """
    bases = dict.fromkeys(base for base in (resources.current_directory(), resources.ORIGIN) if base)
    path: list[str] = []
    entries: list[Any] = sys.path
    for entry in entries:
        if isinstance(entry, str):  # Python, too, passes over everything else
            entry = str(entry)  # a subclass may show itself as anything
            path += [entry] if os.path.isabs(entry) else [_below(base, entry) for base in bases]
    return path


def _below(base: str, entry: str) -> str:
    return os.path.join(base, entry) if entry else base


# Flags that decide what is imported, from where, and as what.
_FLAGS = {
    "isolated": "I",
    "ignore_environment": "E",
    "no_user_site": "s",
    "safe_path": "P",
    "no_site": "S",
    "bytes_warning": "b",
    "optimize": "O",
    "dont_write_bytecode": "B",
}


def _flags() -> list[str]:
    # Not those of `subprocess`, which know a few -X options only, and fail where a program empties
    # `sys.warnoptions`.
    flags = [f"-W{option}" for option in sys.warnoptions]
    flags += ["-X" + name + ("" if value is True else f"={value}") for name, value in sys._xoptions.items()]
    if resources.current_directory() is None:
        flags.append("-P")  # 3.13 fails where it looks for modules in a directory that was deleted
    return flags + ["-" + letter for name, letter in _FLAGS.items() for _ in range(getattr(sys.flags, name))]


def environment() -> dict[str, str]:
    """Return the variables for a worker's Python, whose libraries are to have few threads."""
    # One by one: another thread may delete some meanwhile, over which `dict` fails.
    variables = {name: value for name in os.environ if (value := os.environ.get(name)) is not None}
    _limit_threads(variables, resources.native_threads())
    return variables


def _limit_threads(variables: MutableMapping[str, str], threads: int) -> None:
    """Have libraries that are still to be loaded start few threads; 0 leaves them alone.

    This is read when they load, which spares a pool of threads that would then idle.
    """
    if threads:
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM"):
            variables.setdefault(f"{name}_NUM_THREADS", str(threads))
