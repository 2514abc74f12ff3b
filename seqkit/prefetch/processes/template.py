"""The fork server: a fresh interpreter that forks workers for a process in which forking is not safe.

It boots in the time of one import of numpy; each worker after it takes milliseconds. A node has one of its
own, or shares one with others: a loader keeps one over its epochs.

Guarantees
----------
- the server has one thread, and ends with its `Server` or with the parent, however that ends;
- nodes in several threads may share it: one asks at a time, and every answer says what it answers;
- a worker begins once the parent can hear of it; of one whose launch was interrupted nothing stays;
- should somebody kill the server, another one boots for the next worker;
- a worker has the directory, variables and module path that the parent has when it is launched.

Relies on
---------
- Linux: pidfd, descriptors sent over a socket that keeps messages apart.
"""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from itertools import count
from typing import TypeVar

import threadpoolctl

from ...context import flush_streams
from ..resources import current_directory
from ..signals import CtrlCHeld, CtrlCHeldFromChildren
from .launch import AmidAStart, Child, environment, interpreter, module_path, reap
from .shipment import Shipment
from .worker import Descriptors, boot, leave

__all__ = ["ForkServer", "Server", "serve"]

# Number of the request; then number of the worker, head and end of the shipment; or -1, pid of a worker that
# is dead, and nothing; or -2 and nothing, with the surroundings in a file, which needs no answer.
_REQUEST = struct.Struct("<4q")
# Number of the request, pid, status if it was asked for. The pidfd of a new worker comes along.
_ANSWER = struct.Struct("<3q")
_REAP = -1
_MOVE = -2

# How long a server may take to see that it is to end; one that still imports does not look.
GRACE_S = 0.25

T = TypeVar("T")


class Server:
    """The server as the parent sees it; there is no process before the first launch.

    Parameters
    ----------
    preload : tuple of str
        Modules that it imports before it forks, which its workers then have. None that may change while it
        lives: they would not see it.
    """

    def __init__(self, preload: tuple[str, ...] = ()) -> None:
        self._preload = preload
        self._begin()
        _servers.add(weakref.ref(self, _servers.discard))

    def _begin(self) -> None:
        self._lock = threading.RLock()  # held from a request to its answer
        self._busy = False
        self._numbers = count(1)
        self._process: _Process | None = None

    @property
    def pid(self) -> int:
        """Of its process; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    def launch(
        self, number: int, fds: Descriptors, shipment: Shipment, enlist: Callable[[Child], None]
    ) -> None:
        """Fork a worker and hand it to `enlist`."""
        # No context manager of ours, in whose beginning Ctrl-C might strike and leave it busy for ever.
        with self._lock:
            before, self._busy = self._busy, True
            try:
                if before:
                    raise AmidAStart
                self._launch((number, *shipment.frame), [shipment.fd, *astuple(fds)], enlist)
            finally:
                self._busy = before

    def _launch(
        self, request: tuple[int, int, int], sent: list[int], enlist: Callable[[Child], None]
    ) -> None:
        def begin(pid: int, _: int, received: list[int]) -> None:
            if not received:  # there was no room for it in our table of descriptors
                # The number is not used again before the server is asked about it.
                os.kill(pid, signal.SIGKILL)
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            enlist(Child(pid, received[0], partial(self._reap, process)))

        process = self._process or self._boot()
        try:
            process.move()
            self._ask(process, request, sent, begin)
        except OSError as error:
            if process is not self._process:
                raise RuntimeError(
                    "prefetch: the fork server was closed while workers were started"
                ) from None
            if not isinstance(error, ConnectionError):
                raise
            self.close()
            process = self._boot()
            self._ask(process, request, sent, begin)

    def _boot(self) -> _Process:
        with CtrlCHeldFromChildren():
            process = self._process = _Process(self._preload)
            # Runs when nobody has the server any more. Not at the interpreter's exit, when nodes that a
            # daemon thread still reads would miss it: it sees the end of this process.
            weakref.finalize(self, process.end).atexit = False
        return process

    def _ask(
        self,
        process: _Process,
        request: tuple[int, int, int],
        sent: Iterable[int],
        use: Callable[[int, int, list[int]], T],
    ) -> T:
        """Ask for something, and do with the answer what cannot be put off by Ctrl-C."""
        number = next(self._numbers)
        process.send(_REQUEST.pack(number, *request), [*sent])
        while True:
            process.wait()
            with CtrlCHeld():
                answered, pid, status, received = process.receive()
                if answered == number:
                    return use(pid, status, received)
                for pidfd in received:  # of a worker whose launch was interrupted
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    os.close(pidfd)

    def _reap(self, process: _Process, pid: int) -> int | None:
        """Return the status of a dead worker; None if nobody knows, where its server is gone."""
        with self._lock:
            before, self._busy = self._busy, True
            try:
                if not before and process is self._process:
                    with suppress(OSError):
                        return self._ask(process, (_REAP, pid, 0), (), lambda pid, status, _: status)
            finally:
                self._busy = before
        return None

    def close(self) -> None:
        """End the process, and every worker of it that is left. The next launch boots another one."""
        process, self._process = self._process, None  # nobody is to find the old one while it ends
        if process is not None:
            process.end()

    def forget(self) -> None:
        """In a forked child: the process is the parent's."""
        if self._process is not None:
            self._process.forget()
        self._begin()

    def __reduce__(self) -> tuple[type[Server], tuple[tuple[str, ...]]]:
        return Server, (self._preload,)


class _Process:
    """A running server: its socket, its pid, and its pidfd.

    A child that is forked while it starts may hold the other end of the socket: only the pidfd tells for sure
    of its death.
    """

    def __init__(self, preload: tuple[str, ...]) -> None:
        self._told = _surroundings()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = interpreter(
                f"from seqkit.prefetch.processes.template import serve; serve(*fds, {preload!a})",
                (theirs.fileno(),),
                self._told[0],
            )
        self._owner = os.getpid()
        self._pidfd = os.pidfd_open(self.pid)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)

    def wait(self) -> None:
        """Wait for an answer."""
        if all(fd == self._pidfd for fd, _ in self._poll.poll()):
            raise _ended()

    def send(self, request: bytes, fds: list[int]) -> None:
        """Send a request, with descriptors."""
        try:
            socket.send_fds(self.socket, [request], fds)
        except ConnectionError:
            raise _ended() from None

    def move(self) -> None:
        """Have the workers to come begin in the surroundings of now."""
        now = _surroundings()
        if now == self._told:
            return
        # A file, as messages have a limit that variables may exceed.
        with CtrlCHeld(), open(os.memfd_create("seqkit-surroundings"), "wb") as file:
            pickle.dump(now, file)
            file.seek(0)
            self.send(_REQUEST.pack(0, _MOVE, 0, 0), [file.fileno()])
        self._told = now

    def receive(self) -> tuple[int, int, int, list[int]]:
        """Return the answer that has come: number of the request, pid, status, descriptors."""
        try:
            message, received, _, _ = socket.recv_fds(self.socket, _ANSWER.size, 1)
        except ConnectionError:  # it left our request unread
            raise _ended() from None
        if not message:
            raise _ended()
        number, pid, status = _ANSWER.unpack(message)
        return number, pid, status, received

    def end(self) -> None:
        """End it, once; in a forked child it is the parent's."""
        if self._owner != os.getpid() or self._pidfd < 0:
            return
        with suppress(OSError):  # it is gone already
            # Whoever else holds the socket: the server sees its end, and ends.
            self.socket.shutdown(socket.SHUT_RDWR)
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        if not ended.poll(GRACE_S * 1000):
            os.kill(self.pid, signal.SIGKILL)
        reap(self.pid)
        self.forget()

    def forget(self) -> None:
        """Close the descriptors, once."""
        self.socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _ended() -> ConnectionError:
    return ConnectionError("prefetch: the fork server ended; see what it wrote to stderr")


def _surroundings() -> tuple[dict[str, str], str | None, list[str]]:
    """Return variables, directory and module path for workers of now."""
    return environment(), current_directory(), module_path()


# A plain set, which is copied at once: others are collected, and made meanwhile.
_servers: set[weakref.ref[Server]] = set()


def _after_fork_in_child() -> None:
    for reference in list(_servers):
        if (server := reference()) is not None:
            server.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)


class ForkServer:
    """Workers are forks of a server, which they share the imports of.

    Parameters
    ----------
    shipment : Shipment
    server : Server
    lasts : bool
        Does the server outlive the node?
    """

    def __init__(self, shipment: Shipment, server: Server, lasts: bool = False) -> None:
        self._shipment = shipment
        self._server = server
        self._lasts = lasts

    def launch(self, number: int, fds: Descriptors, enlist: Callable[[Child], None]) -> None:
        self._server.launch(number, fds, self._shipment, enlist)

    def close(self) -> None:
        if not self._lasts:
            self._server.close()
        self._shipment.close()

    def forget(self) -> None:
        self._shipment.close()


# -------------------------------------------------------------------- in the server


def serve(fd: int, preload: Iterable[str]) -> None:
    """Be the fork server at the other end of a socket, until that is closed or the parent gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignores it would leave nothing to wait for
    server = socket.socket(fileno=fd)
    parent = os.pidfd_open(os.getppid())
    for name in preload:
        with suppress(Exception):  # a worker that needs it will say what is wrong
            importlib.import_module(name)
    flush_streams()  # or every worker would write it once more
    libraries = threadpoolctl.ThreadpoolController()  # found once, not by every worker
    poll = select.poll()
    poll.register(server, select.POLLIN)
    poll.register(parent, select.POLLIN)
    pids: set[int] = set()
    with suppress(ConnectionError):
        while all(ready != parent for ready, _ in poll.poll()):
            message, received, _, _ = socket.recv_fds(server, _REQUEST.size, 8)
            if not message:
                break
            request, number, *rest = _REQUEST.unpack(message)
            if number == _MOVE:
                _move(*received)
                continue
            if number == _REAP:
                pids.discard(rest[0])
                server.send(_ANSWER.pack(request, rest[0], os.waitpid(rest[0], 0)[1]))
                continue
            told, tell = os.pipe()
            pid = os.fork()
            if pid == 0:
                for own in (fd, parent, tell):
                    os.close(own)
                _begin(told, number, rest, received, libraries)
            pids.add(pid)
            os.close(told)
            received.append(os.pidfd_open(pid))
            socket.send_fds(server, [_ANSWER.pack(request, pid, 0)], received[-1:])
            os.write(tell, b"!")
            for sent in (tell, *received):
                os.close(sent)
    for pid in pids:  # of workers that the parent may never have heard of
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    leave()


def _move(fd: int) -> None:
    """Be where the parent is, for workers to inherit it."""
    with open(fd, "rb") as file:
        variables, directory, sys.path[:] = pickle.load(file)
    os.environ.clear()
    os.environ.update(variables)
    if directory is not None:
        with suppress(OSError):  # it was deleted meanwhile
            os.chdir(directory)


def _begin(
    told: int,
    number: int,
    frame: list[int],
    received: list[int],
    libraries: threadpoolctl.ThreadpoolController,
) -> None:
    """Be a worker, once the parent knows of it: else it has asked another server for another one."""
    try:
        if os.read(told, 1):
            os.close(told)
            boot(number, frame, received, libraries)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)
