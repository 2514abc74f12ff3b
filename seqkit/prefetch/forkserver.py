"""The fork server: a fresh interpreter that forks workers for a process in which forking is not safe.

It boots in the time of one import of numpy; each worker after it takes milliseconds. A node has one of its
own, or shares one with others: a loader keeps one over its epochs.

Guarantees
----------
- the server has one thread, and ends with its `Server` or with the parent, however that ends;
- nodes in several threads may share it: one asks at a time, and every answer says what it answers;
- a worker of which the parent never heard, because something interrupted its launch, is killed;
- should somebody kill the server, another one boots for the next worker.

Relies on
---------
- Linux: pidfd, descriptors sent over a socket that keeps messages apart.
"""

from __future__ import annotations

import errno
import importlib
import os
import select
import signal
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from functools import partial
from itertools import count

import threadpoolctl

from .launch import Child, Shipment, ctrl_c_held, environment, interpreter, reap
from .resources import native_threads
from .worker import Descriptors, boot, leave

__all__ = ["ForkServer", "Server", "serve"]

# Number of the request; then number of the worker, head and end of the shipment; or -1, pid of a worker that
# is dead, and nothing.
_REQUEST = struct.Struct("<4q")
# Number of the request, pid, status if it was asked for. The pidfd of a new worker comes along.
_ANSWER = struct.Struct("<3q")
_REAP = -1


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
        self._socket: socket.socket | None = None
        self.pid = 0
        self._end: weakref.finalize[..., Server] | None = None

    def launch(self, number: int, fds: Descriptors, shipment: Shipment) -> Child:
        """Fork a worker."""
        request, sent = (number, *shipment.frame), [shipment.fd, *astuple(fds)]
        with self._exclusively() as is_free:
            if not is_free:
                raise RuntimeError("prefetch: a signal handler starts workers while workers are started")
            try:
                server = self._socket or self._boot()
                pid, _, received = self._ask(server, request, sent)
            except ConnectionError:
                self.close()
                server = self._boot()
                pid, _, received = self._ask(server, request, sent)
        if not received:  # there was no room for it in our table of descriptors
            os.kill(pid, signal.SIGKILL)  # nobody else gets its number before the server is asked about it
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return Child(pid, received[0], partial(self._reap, server))

    @contextmanager
    def _exclusively(self) -> Iterator[bool]:
        """Have the server to oneself in the block, unless a signal handler interrupts the one who has it."""
        with self._lock:
            before, self._busy = self._busy, True
            try:
                yield not before
            finally:
                self._busy = before

    def _boot(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ctrl_c_held():
            self.pid = interpreter(
                f"from seqkit.prefetch.forkserver import serve; serve({theirs.fileno()}, {self._preload!r})",
                (theirs.fileno(),),
                environment(native_threads()),
            )
            self._socket = ours
            # Runs when nobody has the server any more. Not at the interpreter's exit, when nodes that a
            # daemon thread still reads would miss it: it sees the end of this process.
            self._end = weakref.finalize(self, _end, ours, self.pid, os.getpid())
            self._end.atexit = False
        return ours

    def _ask(
        self, server: socket.socket, request: tuple[int, int, int], sent: Iterable[int] = ()
    ) -> tuple[int, int, list[int]]:
        number = next(self._numbers)
        socket.send_fds(server, [_REQUEST.pack(number, *request)], [*sent])
        while True:
            answered, pid, status, received = self._receive(server)
            if answered == number:
                return pid, status, received
            for pidfd in received:  # of a worker whose launch was interrupted
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                os.close(pidfd)

    def _receive(self, server: socket.socket) -> tuple[int, int, int, list[int]]:
        message, received, _, _ = socket.recv_fds(server, _ANSWER.size, 1)
        if not message:
            raise ConnectionError("prefetch: the fork server ended; see what it wrote to stderr")
        answered, pid, status = _ANSWER.unpack(message)
        return answered, pid, status, received

    def _reap(self, server: socket.socket, pid: int) -> int | None:
        with self._exclusively() as is_free, suppress(OSError):  # it is gone
            if is_free and server is self._socket:
                return self._ask(server, (_REAP, pid, 0))[1]
        return None  # nobody knows

    def close(self) -> None:
        """End the process, and every worker of it that is left. The next launch boots another one."""
        if self._end is not None:
            self._end()
        self._socket = None

    def forget(self) -> None:
        """In a forked child: the process is the parent's."""
        if self._socket is not None:
            self._socket.close()
        self._begin()

    def __reduce__(self) -> tuple[type[Server], tuple[tuple[str, ...]]]:
        return Server, (self._preload,)


def _end(server: socket.socket, pid: int, owner: int) -> None:
    if owner == os.getpid():
        with suppress(OSError):  # it is gone already
            # Whoever else holds the socket: the server sees its end, and ends.
            server.shutdown(socket.SHUT_RDWR)
        reap(pid)
    server.close()


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
        # Should Ctrl-C hit just now: it is the server who reaps it.
        enlist(self._server.launch(number, fds, self._shipment))

    def close(self) -> None:
        if not self._lasts:
            self._server.close()
        self._shipment.close()

    def forget(self) -> None:
        self._shipment.close()


# -------------------------------------------------------------------- in the server


def serve(fd: int, preload: Iterable[str]) -> None:
    """Be the fork server at the other end of a socket, until that is closed or the parent gone."""
    server = socket.socket(fileno=fd)
    parent = os.pidfd_open(os.getppid())
    for name in preload:
        with suppress(Exception):  # a worker that needs it will say what is wrong
            importlib.import_module(name)
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
            if number == _REAP:
                pids.discard(rest[0])
                server.send(_ANSWER.pack(request, rest[0], os.waitpid(rest[0], 0)[1]))
                continue
            pid = os.fork()
            if pid == 0:
                for own in (fd, parent):
                    os.close(own)
                boot(number, rest, received, libraries)
            pids.add(pid)
            received.append(os.pidfd_open(pid))
            socket.send_fds(server, [_ANSWER.pack(request, pid, 0)], received[-1:])
            for sent in received:
                os.close(sent)
    for pid in pids:  # of workers that the parent may never have heard of
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    leave()
