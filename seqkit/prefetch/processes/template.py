"""Templates: processes that hold the pipeline of a node, and fork its workers.

A template is used where forking this process is not safe. It unpickles the pipeline once. Its workers share
the memory of the pipeline copy-on-write, and start in milliseconds. Templates are forked from a *base*, a
fresh interpreter. A loader keeps its base over the epochs, so that its modules are imported once.

Guarantees
----------
- starting a worker waits neither for a base to boot nor for a pipeline to be unpickled: answers are messages
  on a socket, which the node polls with everything else;
- a template has one node and one thread. Nodes that share a base do not disturb one another;
- a template ends with the node's end of the socket, or with the parent, however that ends. It kills and
  reaps its workers first. A base ends with its `Base`, or with the parent;
- a worker that dies early, or a fork that fails, costs that worker only;
- a worker has the directory, variables and module path that the parent had when the pipeline was pickled.

Relies on
---------
- Linux: pidfd, descriptors sent over a socket that keeps messages apart.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import signal
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from typing import NoReturn

from ...context import flush_streams
from ..results import Record
from ..signals import CtrlCHeldFromChildren
from . import linux
from .launch import (
    be_worker,
    fork,
    interpreter,
    kill,
    leave,
    native_pools,
    open_shipment,
    watched,
)
from .shipment import Shipment
from .worker import Descriptors

# How long a killed process may take to end; then it is left alone. One that waits for a disk or a network
# file system cannot be killed.
REAP_S = 2.0
# How long a template or a base may take to see that it is to end, before it is killed.
GRACE_S = 0.25

# To a template: first `Shipment.place`, with the descriptors of the shipment and of workers; then numbers of
# workers.
_PLACE = struct.Struct("<3q")
_START = struct.Struct("<q")
# From a template: what it says, the number of the worker, and a value. A pickled record may follow.
_ANSWER = struct.Struct("<3q")
_MESSAGE_BYTES = 1 << 16


class Says:
    """What a template says."""

    BORN = 0  # the template has begun; its pidfd comes along
    FORKED = 1  # the worker has this pid; its pidfd comes along
    ENDED = 2  # the worker ended with this wait status, or -1 if it is not known
    FAILED = 3  # the worker could not be forked, or for -1 the pipeline could not be unpickled; with a record


class Template:
    """The template of a node, as the node sees it."""

    def __init__(self, shipment: Shipment, fds: Descriptors, base: Base) -> None:
        self._pidfd = -1
        self._base = base
        with CtrlCHeldFromChildren():
            self._socket, theirs = _socket_pair()
            base.templates.add(self)
            with theirs:
                base.fork_template(theirs)
            self._socket.setblocking(False)
            self._send(_PLACE.pack(*shipment.place), [shipment.fd, *astuple(fds)])

    @property
    def fds(self) -> list[int]:
        """The descriptors to poll; then call `answers`, after which there may be more of them."""
        return [fd for fd in (self._socket.fileno(), self._pidfd) if fd >= 0]

    def start(self, number: int) -> None:
        """Ask for a worker."""
        self._send(_START.pack(number))

    def _send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._socket, [message], fds)
        except ConnectionError:
            raise _gone() from None

    def answers(self) -> Iterator[tuple[int, int, int, int, BaseException | None]]:
        """Yield the messages that have come: what it says, worker, value, pidfd, error.

        Raises `ConnectionError` when the template has ended.
        """
        if self._socket.fileno() < 0:  # the garbage collector found the base first
            raise _gone()
        # A child that was forked meanwhile may hold the other end of the socket, which then has no end.
        has_ended = self._pidfd >= 0 and linux.is_readable(self._pidfd, 0)
        while True:
            message, fds = b"", list[int]()
            with suppress(ConnectionError):  # it left something unread
                try:
                    message, fds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, 1)
                except BlockingIOError:
                    if not has_ended:
                        return
            if not message:
                raise _gone()
            says, worker, value = _ANSWER.unpack_from(message)
            pidfd, record = fds[0] if fds else -1, message[_ANSWER.size :]
            if says == Says.BORN:
                self._pidfd = pidfd
            else:
                yield says, worker, value, pidfd, pickle.loads(record).rebuild() if record else None

    def close(self) -> None:
        """End the template and the workers that it still has."""
        deadline = time.monotonic() + GRACE_S
        with suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_WR)
            while linux.is_readable(self._socket.fileno(), deadline - time.monotonic()):
                for _, _, _, pidfd, _ in self.answers():
                    if pidfd >= 0:
                        os.close(pidfd)
        # It is to be gone before its base, which reaps it.
        if self._pidfd >= 0 and not linux.is_readable(self._pidfd, deadline - time.monotonic()):
            kill(self._pidfd)
            linux.is_readable(self._pidfd, REAP_S)
        self.forget()

    def forget(self) -> None:
        """Close the descriptors: in a forked child the template is the parent's."""
        self._base.templates.discard(self)
        _sockets.discard(self._socket)
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class Base:
    """A fresh interpreter from which templates are forked. There is none before the first template.

    Parameters
    ----------
    preload : tuple of str
        Modules that it imports. They must not change while it lives: the workers would not see it.
    """

    def __init__(self, preload: tuple[str, ...] = ()) -> None:
        self._preload = preload
        self.pid = 0  # of the process, if there is one
        self.templates: set[Template] = set()
        self._lock = threading.RLock()
        _bases.add(weakref.ref(self, _bases.discard))

    def fork_template(self, theirs: socket.socket) -> None:
        """Have a template forked that listens to a socket."""
        with self._lock:
            if self.pid and linux.is_readable(self._pidfd, 0):  # somebody killed it; its templates go on
                self._end()
            if not self.pid:
                self._boot()
            socket.send_fds(self._socket, [b"!"], [theirs.fileno()])

    def _boot(self) -> None:
        self._socket, its_end = _socket_pair()
        with its_end:
            code = f"from {__name__} import be_base; be_base(*fds, {self._preload!a})"
            pid = interpreter(code, (its_end.fileno(),))
        self._pidfd, self.pid = watched(pid), pid

    def close(self) -> None:
        """End the process, after the templates that are still there: nobody else would reap them."""
        for template in list(self.templates):
            template.close()
        with self._lock:
            if self.pid:
                self._end()

    def _end(self) -> None:
        with suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_RDWR)
        if not linux.is_readable(self._pidfd, GRACE_S):  # it may be at an import
            kill(self._pidfd)
        linux.reap(self.pid, self._pidfd, REAP_S)
        self.forget()

    __del__ = close

    def forget(self) -> None:
        """Close the descriptors: in a forked child the process is the parent's."""
        if self.pid:
            _sockets.discard(self._socket)
            self._socket.close()
            os.close(self._pidfd)
        self.pid, self._lock, self.templates = 0, threading.RLock(), set()

    def __reduce__(self) -> tuple[type[Base], tuple[tuple[str, ...]]]:
        return Base, (self._preload,)


# Those in use: the garbage collector must not find a socket before its owner, who closes it.
_sockets: set[socket.socket] = set()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return our end of a socket that keeps messages apart, and the other one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _sockets.add(ours)
    return ours, theirs


def _gone() -> ConnectionError:
    return ConnectionError("prefetch: the template process ended; see what it wrote to stderr")


# A plain set, which is copied at once: others are collected, and made meanwhile.
_bases: set[weakref.ref[Base]] = set()


def _after_fork_in_child() -> None:
    for reference in list(_bases):
        if (base := reference()) is not None:
            base.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)


# -------------------------------------------------------------------- in the processes


def be_base(fd: int, preload: Iterable[str]) -> NoReturn:
    """Fork templates, until the socket is closed or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # templates leave nothing to wait for
    base = socket.socket(fileno=fd)
    parent = linux.pidfd_open(os.getppid())
    for name in preload:
        with suppress(Exception):  # a worker that needs it will say what is wrong
            importlib.import_module(name)
    native_pools()  # searched once, not by every template
    poll = select.poll()
    poll.register(base, select.POLLIN)
    poll.register(parent, select.POLLIN)
    while all(ready != parent for ready, _ in poll.poll()):
        message, fds, _, _ = socket.recv_fds(base, 1, 1)
        if not message:
            break
        with suppress(OSError):  # no process: the node sees the end of its socket
            if not fork():
                _be_template(fds[0], partial(_forget, base, [parent]))
        for one in fds:
            os.close(one)
    with suppress(ChildProcessError):  # the last template is to be gone first, as nobody else reaps it
        os.waitpid(-1, 0)
    leave()


def _be_template(fd: int, forget: Callable[[], None]) -> NoReturn:
    """Receive a pipeline, and fork workers, until the socket is closed or the parent is gone."""
    channel = socket.socket(fileno=fd)
    workers: dict[int, tuple[int, int]] = {}  # number and pid by pidfd
    try:
        forget()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        os.set_inheritable(fd, False)
        own = linux.pidfd_open(os.getpid())
        socket.send_fds(channel, [_ANSWER.pack(Says.BORN, -1, os.getpid())], [own])
        os.close(own)
        message, fds, _, _ = socket.recv_fds(channel, _PLACE.size, 8)
        if message:
            _serve(channel, _PLACE.unpack(message), fds, workers)
    except ConnectionError:
        pass  # the node is closed, or the parent gone
    except BaseException as error:
        _tell_error(channel, -1, error)
    for pidfd in workers:
        kill(pidfd)
    for pidfd, (_, pid) in workers.items():
        linux.reap(pid, pidfd, REAP_S)
    leave()


def _serve(
    channel: socket.socket, place: tuple[int, ...], fds: list[int], workers: dict[int, tuple[int, int]]
) -> None:
    for fd in fds:
        os.set_inheritable(fd, False)  # what an item starts may live longer than the node
    shipped, *rest = fds
    outfit = open_shipment(shipped, place, Descriptors(*rest))
    flush_streams()
    native_pools()
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(outfit.fds.parent, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == outfit.fds.parent:
                return
            if fd in workers:
                number, pid = workers.pop(fd)
                poll.unregister(fd)
                status = linux.reap(pid, fd, REAP_S)
                os.close(fd)
                channel.send(_ANSWER.pack(Says.ENDED, number, -1 if status is None else status))
                continue
            message = channel.recv(_START.size)
            if not message:
                return
            (number,) = _START.unpack(message)
            try:
                pid = fork()
                if not pid:
                    be_worker(number, outfit, partial(_forget, channel, workers))
                pidfd = watched(pid)
            except OSError as error:
                _tell_error(channel, number, error)
            else:
                workers[pidfd] = number, pid
                poll.register(pidfd, select.POLLIN)
                socket.send_fds(channel, [_ANSWER.pack(Says.FORKED, number, pid)], [pidfd])


def _forget(channel: socket.socket, fds: Iterable[int]) -> None:
    channel.close()
    for fd in fds:
        os.close(fd)


def _tell_error(channel: socket.socket, number: int, error: BaseException) -> None:
    with suppress(ConnectionError):
        channel.send(
            _ANSWER.pack(Says.FAILED, number, 0) + Record.of(error).dumps(_MESSAGE_BYTES - _ANSWER.size)
        )
