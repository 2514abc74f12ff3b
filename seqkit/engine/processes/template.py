"""Templates: fresh interpreters that unpickle the pipeline of a node, and fork its workers.

With the start method "spawn", each worker has a template of its own, which becomes the worker.

Guarantees
----------
- Starting a worker does not wait for an interpreter to boot or a pipeline to be unpickled. Answers are
  messages on a socket, which the node polls together with its other descriptors.
- A template has one node and one thread.
- A template ends when the node closes its end of the socket, or when the parent ends for any reason. It
  first kills and reaps its workers.
- A worker that dies early affects no other worker.
- A worker has the directory, variables and module path that the parent had when the pipeline was pickled.

Relies on
---------
- Linux: pidfd, and descriptors sent over a socket that preserves message boundaries.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, fields
from functools import partial
from typing import NoReturn

from ..signals import SignalsHeld
from . import linux, worker_signals
from .forking import fork, native_pools, obstacles
from .interpreter import interpreter
from .linux import kill, watched
from .pickled_pipeline import PickledPipeline, open_pipeline
from .worker import Descriptors, WorkerSetup
from .worker_process import be_worker, leave, report_failure

# How long to wait for a killed process to end, before giving up on it. A process that waits for a disk or a
# network file system cannot be killed.
REAP_S = 10.0
# How long a template may take to notice that it must end, before it is killed. A template with workers gets
# longer, because only their parent can reap them. With a killed one they would be left to the first process.
GRACE_S = 0.25
REAPING_S = 2.0

# A message to a template is the number of a worker. A message from a template is its kind
# (`TemplateMessage`), the number of the worker, and two more numbers.
_START = struct.Struct("<q")
_ANSWER = struct.Struct("<4q")


class TemplateMessage:
    """The kinds of messages from a template."""

    FORKED = 0  # the worker has this pid; its pidfd is attached
    ENDED = 1  # the worker ended with this wait status, and had this much memory
    UNSAFE = 2  # the pipeline has started threads, so the template ends, and no worker can be forked


class Template:
    """The template of a node, on the node's side. If it cannot start, worker `number` has failed."""

    def __init__(self, number: int, pickled: PickledPipeline, setup: WorkerSetup, mask: set[int]) -> None:
        self._has_workers = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        try:
            with theirs:
                self._pid = start_interpreter(number, pickled, setup, mask, theirs.fileno())
            self._pidfd = watched(self._pid)
        except BaseException:
            self._socket.close()
            raise

    @property
    def fds(self) -> list[int]:
        """The descriptors to poll. Call `answers` when one is readable."""
        return [fd for fd in (self._socket.fileno(), self._pidfd) if fd >= 0]

    def start(self, number: int) -> None:
        """Request a worker."""
        with suppress(ConnectionError):  # the template has ended, which `answers` reports
            self._socket.send(_START.pack(number))

    def answers(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the received messages: kind, worker, pid or wait status, bytes, pidfd.

        Raises `ConnectionError` when the template has ended.
        """
        if self._pidfd < 0:
            raise _gone()  # at exit, a daemon thread has closed it
        # A child forked since then may hold the other end of the socket. Then the socket does not report
        # its end.
        has_ended = linux.is_readable(self._pidfd)
        while True:
            message, fds = b"", list[int]()
            try:
                message, fds, _, _ = socket.recv_fds(self._socket, _ANSWER.size, 1)
            except ConnectionError:
                continue  # the template left messages unread: raised once, before its own messages
            except BlockingIOError:
                if not has_ended:
                    return
            if not message:
                raise _gone()
            pidfd = fds[0] if fds else -1
            if fds:
                os.set_inheritable(pidfd, False)  # Python 3.11 ignores flags of `recv_fds`
                self._has_workers = True
            kind, worker, *numbers = _ANSWER.unpack(message)
            yield kind, worker, *numbers, pidfd

    def close(self) -> None:
        """End the template and its remaining workers. Idempotent, also in several threads at once."""
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd < 0:
            return  # closed already, or by a daemon thread just now, at exit
        with suppress(OSError):  # the template has ended
            self._socket.shutdown(socket.SHUT_WR)
        if not linux.is_readable(pidfd, REAPING_S if self._has_workers else GRACE_S):
            kill(pidfd)
        linux.reap(self._pid, pidfd, REAP_S)
        os.close(pidfd)
        self._socket.close()

    def forget(self) -> None:
        """Close the descriptors. In a forked child that is all, because the parent owns the template."""
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def _gone() -> ConnectionError:
    return ConnectionError("prefetch: the template process ended; see what it wrote to stderr")


def start_interpreter(
    number: int, pickled: PickledPipeline, setup: WorkerSetup, mask: set[int], *channel: int
) -> int:
    """Start a template that becomes a worker, or forks workers if it has a channel. Return its pid."""
    error_at = setup.spec.layout.error_at(number)
    signals = f"{worker_signals.program_signals()}, {[*mask]}"
    code = f"from {worker_signals.__name__} import leave_signals_to_program as leave; leave({signals})"
    code += f"; from {__name__} import be_template; be_template({number}, {error_at}, {pickled.place}, *fds)"
    return interpreter(code, (pickled.segment.fd, *astuple(setup.fds), *channel), pickled.surroundings)


# -------------------------------------------------------------------- in the template process


def be_template(number: int, error_at: int, place: tuple[int, int], pickled: int, *fds: int) -> NoReturn:
    """Open a pipeline. Then become worker `number`. With a channel, fork workers instead until the parent
    closes it or is gone."""
    for fd in (pickled, *fds):
        os.set_inheritable(fd, False)  # a process that an item starts may outlive the node
    count = len(fields(Descriptors))
    inherited, channels = Descriptors(*fds[:count]), fds[count:]
    try:
        setup = open_pipeline(pickled, place, inherited)
    except BaseException as error:
        with suppress(BrokenPipeError):
            report_failure(number, inherited, error_at, error)
        leave()
    if not channels:
        be_worker(number, setup, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    channel = socket.socket(fileno=channels[0])
    workers: dict[int, tuple[int, int]] = {}  # number and pid by pidfd
    with suppress(ConnectionError):  # the node is closed, or the parent is gone
        if obstacles():
            channel.send(_ANSWER.pack(TemplateMessage.UNSAFE, -1, 0, 0))
        else:
            native_pools()
            _serve(channel, setup, workers)
    for pidfd in workers:
        kill(pidfd)
    for pidfd, (_, pid) in workers.items():
        linux.reap(pid, pidfd, REAP_S)
    leave()


def _serve(channel: socket.socket, setup: WorkerSetup, workers: dict[int, tuple[int, int]]) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(setup.fds.parent, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in workers:
                number, pid = workers.pop(fd)
                poll.unregister(fd)
                ended = linux.reap(pid, fd, REAP_S) or (0, 0)
                os.close(fd)
                channel.send(_ANSWER.pack(TemplateMessage.ENDED, number, *ended))
                continue
            message = b"" if fd == setup.fds.parent else channel.recv(_START.size)
            if not message:
                return
            (number,) = _START.unpack(message)
            try:
                with (held := SignalsHeld()):
                    pid = fork()
                    if not pid:
                        be_worker(number, setup, held.mask, partial(_forget, channel, workers))
                pidfd = watched(pid)
            except OSError as error:
                report_failure(number, setup.fds, setup.spec.layout.error_at(number), error)
            else:
                workers[pidfd] = number, pid
                poll.register(pidfd, select.POLLIN)
                socket.send_fds(channel, [_ANSWER.pack(TemplateMessage.FORKED, number, pid, 0)], [pidfd])


def _forget(channel: socket.socket, fds: Iterable[int]) -> None:
    channel.close()
    for fd in fds:
        os.close(fd)
