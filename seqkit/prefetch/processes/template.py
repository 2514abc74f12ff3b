"""Templates: processes that hold the pipeline of a node, and fork its workers.

A template is used where forking this process is not safe. It is a fresh interpreter, which unpickles the
pipeline once. Its workers share the memory of the pipeline copy-on-write, and start in milliseconds.

Guarantees
----------
- starting a worker waits neither for an interpreter to boot nor for a pipeline to be unpickled: answers are
  messages on a socket, which the node polls with everything else;
- a template has one node and one thread;
- a template ends with the node's end of the socket, or with the parent, however that ends. It kills and
  reaps its workers first;
- a worker that dies early, or a fork that fails, costs that worker only;
- a worker has the directory, variables and module path that the parent had when the pipeline was pickled.

Relies on
---------
- Linux: pidfd, descriptors sent over a socket that keeps messages apart.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from typing import NoReturn

from ...context import flush_streams
from ..results import Record
from ..signals import CtrlCHeldFromChildren
from . import linux
from .launch import be_worker, fork, interpreter, kill, leave, native_pools, open_shipment, watched
from .shipment import Shipment
from .worker import Descriptors

# How long a killed process may take to end; then it is left alone. One that waits for a disk or a network
# file system cannot be killed.
REAP_S = 2.0
# How long a template may take to see that it is to end, before it is killed.
GRACE_S = 0.25

# To a template: the number of a worker. From a template: what it says, the number of the worker, and a value.
# A pickled record may follow.
_START = struct.Struct("<q")
_ANSWER = struct.Struct("<3q")
_MESSAGE_BYTES = 1 << 16


class Says:
    """What a template says."""

    FORKED = 0  # the worker has this pid; its pidfd comes along
    ENDED = 1  # the worker ended with this wait status, or -1 if it is not known
    FAILED = 2  # the worker could not be forked, or for -1 the pipeline could not be unpickled; with a record


class Template:
    """The template of a node, as the node sees it."""

    def __init__(self, shipment: Shipment, fds: Descriptors) -> None:
        with CtrlCHeldFromChildren():
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                code = f"from {__name__} import be_template; be_template({shipment.place}, *fds)"
                self._pid = interpreter(code, (theirs.fileno(), shipment.fd, *astuple(fds)))
            self._pidfd = watched(self._pid)
            _sockets.add(self._socket)
        self._socket.setblocking(False)

    @property
    def fds(self) -> list[int]:
        """The descriptors to poll; then call `answers`."""
        return [fd for fd in (self._socket.fileno(), self._pidfd) if fd >= 0]

    def start(self, number: int) -> None:
        """Ask for a worker."""
        with suppress(ConnectionError):  # it has ended: `answers` will say so, and perhaps why
            self._socket.send(_START.pack(number))

    def answers(self) -> Iterator[tuple[int, int, int, int, BaseException | None]]:
        """Yield the messages that have come: what it says, worker, value, pidfd, error.

        Raises `ConnectionError` when the template has ended.
        """
        # A child that was forked meanwhile may hold the other end of the socket, which then has no end.
        has_ended = linux.is_readable(self._pidfd)
        while True:
            message, fds = b"", list[int]()
            try:
                message, fds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, 1)
            except ConnectionError:
                continue  # it left something unread: this comes once, and before what it said
            except BlockingIOError:
                if not has_ended:
                    return
            if not message:
                raise _gone()
            says, worker, value = _ANSWER.unpack_from(message)
            pidfd, record = fds[0] if fds else -1, message[_ANSWER.size :]
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
        if not linux.is_readable(self._pidfd, deadline - time.monotonic()):
            kill(self._pidfd)
        linux.reap(self._pid, self._pidfd, REAP_S)
        self.forget()

    def forget(self) -> None:
        """Close the descriptors: in a forked child the template is the parent's."""
        _sockets.discard(self._socket)
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


# Those in use: the garbage collector must not find a socket before its owner, who closes it.
_sockets: set[socket.socket] = set()


def _gone() -> ConnectionError:
    return ConnectionError("prefetch: the template process ended; see what it wrote to stderr")


# -------------------------------------------------------------------- in the process


def be_template(place: Sequence[int], fd: int, *fds: int) -> NoReturn:
    """Receive a pipeline, and fork workers, until the socket is closed or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=fd)
    workers: dict[int, tuple[int, int]] = {}  # number and pid by pidfd
    try:
        for one in (fd, *fds):
            os.set_inheritable(one, False)  # what an item starts may live longer than the node
        _serve(channel, place, fds, workers)
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
    channel: socket.socket, place: Sequence[int], fds: Sequence[int], workers: dict[int, tuple[int, int]]
) -> None:
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
