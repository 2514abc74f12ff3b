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
import pickle
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, fields
from functools import partial
from time import monotonic
from typing import NoReturn

from ..results import Record
from ..signals import SignalsHeld
from . import linux
from .forking import fork, is_safe, native_pools
from .interpreter import interpreter
from .linux import kill, watched
from .pickled_pipeline import PickledPipeline, open_pipeline
from .worker import Descriptors
from .worker_process import WorkerSetup, be_worker, leave, report_failure

# How long to wait for a killed process to end, before giving up on it. A process that waits for a disk or a
# network file system cannot be killed.
REAP_S = 10.0
# How long a template may take to notice that it must end, before it is killed. A template with workers gets
# longer, because only their parent can reap them. With a killed one they would be left to the first process.
GRACE_S = 0.25
REAPING_S = 2.0

# A message to a template is the number of a worker. A message from a template is its kind
# (`TemplateMessage`), the number of the worker, a value, and a number of bytes. A pickled record may follow.
_START = struct.Struct("<q")
_ANSWER = struct.Struct("<4q")
_MESSAGE_BYTES = 1 << 16


class TemplateMessage:
    """The kinds of messages from a template."""

    FORKED = 0  # the worker has this pid; its pidfd is attached
    ENDED = 1  # the worker ended with this wait status, or -1 if it is unknown, and had this much memory
    FAILED = 2  # the worker could not be forked, or for -1 the pipeline could not be unpickled; has a record
    UNSAFE = 3  # the pipeline has started threads, so no worker can be forked


class Template:
    """The template of a node, on the node's side."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._socket = channel
        self._pid = pid
        self._pidfd = watched(pid)
        self._has_workers = False
        _sockets.add(channel)
        channel.setblocking(False)

    @property
    def fds(self) -> list[int]:
        """The descriptors to poll. Call `answers` when one is readable."""
        return [fd for fd in (self._socket.fileno(), self._pidfd) if fd >= 0]

    def start(self, number: int) -> None:
        """Request a worker."""
        with suppress(ConnectionError):  # the template has ended; `answers` reports it, perhaps with a reason
            self._socket.send(_START.pack(number))

    def answers(self) -> Iterator[tuple[int, int, int, int, int, BaseException | None]]:
        """Yield the received messages: kind, worker, value, bytes, pidfd, error.

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
                message, fds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, 1)
            except ConnectionError:
                continue  # the template left messages unread: raised once, before its own messages
            except BlockingIOError:
                if not has_ended:
                    return
            if not message:
                raise _gone()
            kind, worker, value, nbytes = _ANSWER.unpack_from(message)
            pidfd, record = fds[0] if fds else -1, message[_ANSWER.size :]
            if pidfd >= 0:
                os.set_inheritable(pidfd, False)  # Python 3.11 ignores flags of `recv_fds`
            error = pickle.loads(record).rebuild() if record else None
            self._has_workers = self._has_workers or kind == TemplateMessage.FORKED
            yield kind, worker, value, nbytes, pidfd, error

    def close(self) -> None:
        """End the template and its remaining workers. Idempotent, also in several threads at once."""
        try:
            _sockets.remove(self._socket)
        except KeyError:
            return  # closed already, or by a daemon thread just now, at exit
        deadline = monotonic() + (REAPING_S if self._has_workers else GRACE_S)
        with suppress(OSError):  # the template has ended
            self._socket.shutdown(socket.SHUT_WR)
            while linux.is_readable(self._socket.fileno(), deadline - monotonic()):
                for *_, pidfd, _ in self.answers():
                    if pidfd >= 0:
                        os.close(pidfd)
        if not linux.is_readable(self._pidfd, deadline - monotonic()):
            kill(self._pidfd)
        linux.reap(self._pid, self._pidfd, REAP_S)
        self.forget()

    def forget(self) -> None:
        """Close the descriptors. In a forked child that is all, because the parent owns the template."""
        _sockets.discard(self._socket)
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def fresh_template(pickled: PickledPipeline, setup: WorkerSetup, mask: set[int]) -> Template:
    """Start a template that forks workers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            return Template(ours, _started(-1, pickled, setup, mask, theirs.fileno()))
    except BaseException:
        ours.close()
        raise


def fresh_worker(number: int, pickled: PickledPipeline, setup: WorkerSetup, mask: set[int]) -> int:
    """Start a template that becomes a worker. Return its pid."""
    return _started(number, pickled, setup, mask)


def _started(number: int, pickled: PickledPipeline, setup: WorkerSetup, mask: set[int], *channel: int) -> int:
    error_at = setup.spec.layout.error_at(max(number, 0))
    code = f"from {__name__} import be_template; be_template({number}, {error_at}, {pickled.place}, *fds)"
    fds = pickled.fd, *astuple(setup.fds), *channel
    return interpreter(code, fds, mask, pickled.surroundings)


# Sockets in use. Keep them alive, so that the garbage collector does not close one before its owner does.
_sockets: set[socket.socket] = set()


def _gone() -> ConnectionError:
    return ConnectionError("prefetch: the template process ended; see what it wrote to stderr")


# -------------------------------------------------------------------- in the template process


def be_template(number: int, error_at: int, place: tuple[int, int], pickled: int, *fds: int) -> NoReturn:
    """Open a pipeline. Then become worker `number`, or fork workers until the parent closes the channel or is
    gone, if `number` is -1."""
    for fd in (pickled, *fds):
        os.set_inheritable(fd, False)  # a process that an item starts may outlive the node
    inherited = Descriptors(*fds[: len(fields(Descriptors))])
    opened = partial(open_pipeline, pickled, place, inherited)
    if number < 0:
        _lead(socket.socket(fileno=fds[-1]), opened)
    try:
        setup = opened()
    except BaseException as error:
        with suppress(BrokenPipeError):
            report_failure(number, inherited, error_at, error)
        leave()
    be_worker(number, setup, signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def _lead(channel: socket.socket, opened: Callable[[], WorkerSetup]) -> NoReturn:
    """Fork workers, until the socket is closed or the parent is gone."""
    workers: dict[int, tuple[int, int]] = {}  # number and pid by pidfd
    try:
        setup = opened()
        if is_safe():
            native_pools()
            _serve(channel, setup, workers)
        else:
            channel.send(_ANSWER.pack(TemplateMessage.UNSAFE, -1, 0, 0))
    except ConnectionError:
        pass  # the node is closed, or the parent is gone
    except BaseException as error:
        _tell_error(channel, -1, error)
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
            if fd == setup.fds.parent:
                return
            if fd in workers:
                number, pid = workers.pop(fd)
                poll.unregister(fd)
                ended = linux.reap(pid, fd, REAP_S)
                os.close(fd)
                channel.send(_ANSWER.pack(TemplateMessage.ENDED, number, *(ended or (-1, 0))))
                continue
            message = channel.recv(_START.size)
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
                _tell_error(channel, number, error)
            else:
                workers[pidfd] = number, pid
                poll.register(pidfd, select.POLLIN)
                socket.send_fds(channel, [_ANSWER.pack(TemplateMessage.FORKED, number, pid, 0)], [pidfd])


def _forget(channel: socket.socket, fds: Iterable[int]) -> None:
    channel.close()
    for fd in fds:
        os.close(fd)


def _tell_error(channel: socket.socket, number: int, error: BaseException) -> None:
    with suppress(ConnectionError):
        channel.send(
            _ANSWER.pack(TemplateMessage.FAILED, number, 0, 0)
            + Record.of(error).dumps(_MESSAGE_BYTES - _ANSWER.size)
        )
