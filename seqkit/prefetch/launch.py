"""Starting worker processes: by fork, by a fresh interpreter, or from a small fork server.

The launchers are ours because those of `multiprocessing` run an unguarded main script again, refuse
children to daemonic workers and join at exit. A script that uses seqkit runs its own code once.

Guarantees
----------
- a worker inherits exactly the descriptors of `worker.Descriptors`, and standard streams;
- a launch waits for no worker to boot, at most for the fork server; workers boot side by side;
- the pipeline is pickled once, with its arrays beside it in one segment that every worker maps
  copy-on-write: private and writable, but there once in all.

Relies on
---------
- Linux: memfd, pidfd, descriptors sent over a socket.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Protocol

import threadpoolctl

from ..view import View
from .codec import dumps_by_value, encode
from .slots import Segment
from .wire import Spec
from .worker import Descriptors, boot, leave, main

__all__ = ["Child", "Fork", "ForkServer", "Launcher", "Shipment", "Spawn", "ctrl_c_held"]


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
            return "ended"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        return f"exited with status {os.waitstatus_to_exitcode(status)}"


class Launcher(Protocol):
    """Starts workers; the bulk descriptor differs for every one."""

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        """Start a worker and hand it to `enlist`, before Ctrl-C can make anybody forget it."""

    def close(self) -> None: ...

    def forget(self) -> None:
        """In a forked child: close the descriptors, and leave everything else to the parent."""


def _reap(pid: int) -> int | None:
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # somebody else waited for it
        return None


def _child_of_ours(pid: int) -> Child:
    try:
        return Child(pid, os.pidfd_open(pid), _reap)
    except OSError:  # out of descriptors: a process that cannot be watched is not to be
        os.kill(pid, signal.SIGKILL)
        _reap(pid)
        raise


@contextmanager
def ctrl_c_held() -> Iterator[None]:
    """Hold SIGINT back from this thread inside the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
        # What is still buffered would be written by the child once more.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        with ctrl_c_held():  # from the child too, until it has learnt to ignore it
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


class Shipment:
    """Spec and pipeline, pickled once into a segment for every worker to map."""

    def __init__(self, spec: Spec, pipeline: View[Any]) -> None:
        try:
            frame = encode((spec, pipeline), None, 0, dumps_by_value)
        except Exception as error:
            raise TypeError(
                f"prefetch: {pipeline!r} cannot be shipped to workers that are not forked:"
                f" {type(error).__name__}: {error}."
                " Use context='fork' or method='thread', or make it picklable"
            ) from error
        self.head, self.end = frame.head, frame.end
        self._segment = Segment.create(frame.end, "seqkit-pipeline")
        frame.write(self._segment.block(0, frame.end))

    @property
    def fd(self) -> int:
        return self._segment.fd

    def arguments(self) -> tuple[int, int, int]:
        return self.fd, self.head, self.end

    def close(self) -> None:
        self._segment.close()


class Spawn:
    """Workers are fresh interpreters that map the shipment."""

    def __init__(self, shipment: Shipment, native_threads: int) -> None:
        self._shipment = shipment
        self._environment = _environment(native_threads)

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        passed = astuple(fds)
        call = f"boot({', '.join(map(str, (number, *self._shipment.arguments(), *passed)))})"
        with ctrl_c_held():
            pid = _interpreter(
                f"from seqkit.prefetch.worker import boot; {call}",
                (self._shipment.fd, *passed),
                self._environment,
            )
            enlist(_child_of_ours(pid))

    def close(self) -> None:
        self._shipment.close()

    def forget(self) -> None:
        self._shipment.close()


def _interpreter(code: str, fds: tuple[int, ...], environment: dict[str, str]) -> int:
    """Start a Python that sees the same modules; return its pid. It runs no main script."""
    path = [os.getcwd() if entry == "" else entry for entry in sys.path]
    process = subprocess.Popen(
        [sys.executable, *_flags(), "-c", f"import sys; sys.path[:] = {path!r}; {code}"],
        pass_fds=fds,
        env=environment,
        stdin=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C on the terminal is this process's affair
    )
    process.returncode = 0  # the pid is ours to wait for, also when this object is collected
    return process.pid


def _flags() -> list[str]:
    flags = [f"-W{option}" for option in sys.warnoptions]
    flags += ["-X" + name + ("" if value is True else f"={value}") for name, value in sys._xoptions.items()]
    return flags + ["-O"] * sys.flags.optimize + ["-B"] * sys.flags.dont_write_bytecode


def _environment(native_threads: int) -> dict[str, str]:
    environment = dict(os.environ)
    if native_threads:
        # Read when the libraries load, which spares a pool of threads that would then idle.
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM"):
            environment.setdefault(f"{name}_NUM_THREADS", str(native_threads))
    return environment


# -------------------------------------------------------------------- the fork server

_REQUEST = struct.Struct("<3q")  # number of the worker; head and end of the shipment
_REPLY = struct.Struct("<2q")  # pid, -1: started (its pidfd comes along); pid, status: ended


class ForkServer:
    """Workers are forks of one fresh, single-threaded interpreter that has imported seqkit only.

    It boots once per node, in the time of one import of numpy; each worker after it takes milliseconds, so
    replacements for dead workers come from here when this process has threads. Should somebody kill it,
    another one boots for the next worker.
    """

    def __init__(self, shipment: Shipment, native_threads: int) -> None:
        self._shipment = shipment
        self._environment = _environment(native_threads)
        self._ended: dict[int, int] = {}
        self._socket: socket.socket | None = None
        self._pid = 0

    def _boot(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ctrl_c_held():
            self._socket = ours
            self._pid = _interpreter(
                f"from seqkit.prefetch.launch import serve; serve({theirs.fileno()})",
                (theirs.fileno(),),
                self._environment,
            )
        return ours

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        try:
            child = self._launch(self._socket or self._boot(), number, fds)
        except ConnectionError:
            self._end()
            child = self._launch(self._boot(), number, fds)
        enlist(child)  # should Ctrl-C hit just now: it is the server who reaps it

    def _launch(self, server: socket.socket, number: int, fds: Descriptors) -> Child:
        request = _REQUEST.pack(number, self._shipment.head, self._shipment.end)
        socket.send_fds(server, [request], [self._shipment.fd, *astuple(fds)])
        while True:
            message, received, _, _ = socket.recv_fds(server, _REPLY.size, 1)
            if not message:
                raise ConnectionError("prefetch: the fork server ended; see what it wrote to stderr")
            pid, status = _REPLY.unpack(message)
            if status == -1:
                if not received:  # there was no room for it in our table of descriptors
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                return Child(pid, received[0], partial(self._reap, server))
            self._ended[pid] = status

    def _reap(self, server: socket.socket, pid: int) -> int | None:
        while pid not in self._ended and server is self._socket:
            try:
                message = server.recv(_REPLY.size)
            except ConnectionError:
                message = b""
            if not message:
                break
            ended, status = _REPLY.unpack(message)
            self._ended[ended] = status
        return self._ended.pop(pid, None)  # nobody knows, where the server is gone

    def _end(self) -> None:
        if self._socket is None:
            return
        try:
            # Whoever else holds the socket: the server sees its end, and ends.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already
        self._socket.close()
        self._socket = None
        if self._pid:
            _reap(self._pid)
            self._pid = 0

    def close(self) -> None:
        self._end()
        self._shipment.close()

    def forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._shipment.close()


def serve(fd: int) -> None:
    """Be the fork server at the other end of a socket, until that is closed or the parent gone."""
    server = socket.socket(fileno=fd)
    parent = os.pidfd_open(os.getppid())
    pids: dict[int, int] = {}  # by pidfd
    poll = select.poll()
    poll.register(server, select.POLLIN)
    poll.register(parent, select.POLLIN)
    try:
        while True:
            for ready, _ in poll.poll():
                if ready in pids:
                    poll.unregister(ready)
                    pid = pids.pop(ready)
                    os.close(ready)
                    server.send(_REPLY.pack(pid, os.waitpid(pid, 0)[1]))
                    continue
                message = b""
                if ready != parent:
                    message, received, _, _ = socket.recv_fds(server, _REQUEST.size, 8)
                if not message:
                    raise ConnectionError
                pid, pidfd = _fork_for(message, received, [fd, parent, *pids])
                pids[pidfd] = pid
                poll.register(pidfd, select.POLLIN)
                socket.send_fds(server, [_REPLY.pack(pid, -1)], [pidfd])
    except ConnectionError:
        # The node is closed, or its process gone; a worker may be left that it never heard of.
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        leave()


def _fork_for(message: bytes, received: list[int], own: list[int]) -> tuple[int, int]:
    """Fork a worker with the descriptors of a request; return its pid and pidfd."""
    number, head, end = _REQUEST.unpack(message)
    pid = os.fork()
    if pid == 0:
        for fd in own:
            os.close(fd)
        boot(number, received[0], head, end, *received[1:])
    for fd in received:
        os.close(fd)
    return pid, os.pidfd_open(pid)
