"""The worker processes of a node: start them, detect deaths, replace and end them.

Guarantees
----------
- A worker is forked if that is safe or requested. Otherwise it comes from a template. This is checked again
  for every worker.
- A few workers are started at a time. So the first item does not wait for the last worker.
- A worker that was forked while other threads lived, and does not begin within `BEGIN_S`, is killed and
  started from a template.
- A worker that cannot be started ends the node with an error.
- Ctrl-C during a start leaves no process and no descriptor behind.
- A process that cannot be killed delays the end of a node by at most `REAP_S`.

Relies on
---------
- Methods are called by one thread at a time.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from ...core import units
from ...core.tracebacks import frames_of_others, warn
from ..classes import pickle_for_parent
from ..protocol import Failed, PrefetchError
from ..signals import SignalsHeld
from . import forking, linux
from .pickled_pipeline import PickledPipeline, size_warning
from .template import REAP_S, Template, TemplateMessage, fresh_template, fresh_worker
from .worker_process import WorkerSetup, be_worker

# How long a worker that was forked while other threads lived may take to begin. It usually takes
# milliseconds.
BEGIN_S = 10.0
# How many workers are started before the node looks for results again.
STARTED_AT_ONCE = 4
# Limit of successive workers with one number that die before they begin a job. They may have been killed
# from outside, but the replacement must not continue without limit.
MOST_DEATHS = 3


_SIGNALS = {number.value: number.name for number in signal.Signals}


class Death(NamedTuple):
    """How a worker ended, and a sentence for users about what the reason may be."""

    cause: str
    hint: str = ""


def how_ended(status: int | None = None, most_bytes: int = 0) -> Death:
    """Return how a process ended, from its wait status and the most memory that it had.

    >>> how_ended(3 << 8).cause
    'exited with status 3'
    >>> how_ended(9, 64 << 20).cause
    'was killed by signal 9 (SIGKILL)'
    >>> how_ended(9, 64 << 20).hint
    '. Did it run out of memory? It used up to 64.0 MiB.'
    """
    if status is None:
        return Death("ended (its exit status is not known)")
    if not os.WIFSIGNALED(status):
        return Death(f"exited with status {os.waitstatus_to_exitcode(status)}")
    number = os.WTERMSIG(status)
    used = f" It used up to {units.size(most_bytes)}." if most_bytes else ""
    return Death(
        f"was killed by signal {number} ({_SIGNALS.get(number, 'a real-time signal')})",
        f". Did it run out of memory?{used}" if number == signal.SIGKILL else "",
    )


@dataclass(slots=True, eq=False)
class WorkerHandle:
    """A worker, on the parent's side."""

    number: int
    deaths: int = 0  # how many workers with this number have died since one of them has begun a job
    pid: int = 0  # 0 until the template or the worker itself has reported it
    pidfd: int = -1
    is_child: bool = True  # False for a child of the template, which reports its end
    begins_by: float | None = None  # deadline for a worker that was forked while other threads lived
    death: Death | None = None
    # The transport writes these.
    is_ready: bool = False
    stopped: int = 0  # the job for which the worker was killed
    stack: str = ""  # where the worker was then

    def has_ended(self, within_s: float) -> bool:
        return self.death is not None or (self.pidfd >= 0 and linux.is_readable(self.pidfd, within_s))

    def kill(self) -> None:
        if self.pidfd >= 0:
            linux.kill(self.pidfd)


@dataclass(eq=False)
class Team:
    """Start and monitor the workers of a node.

    Parameters
    ----------
    setup : WorkerSetup
    context : "fork", "forkserver", "spawn" or None
        How workers start. None checks whether forking is safe.
    poll : select.poll
        The poll object for the descriptors for which `notice` is to be called.
    isolate : callable
        Called first in a forked worker, to close the parent's descriptors.
    """

    setup: WorkerSetup
    context: str | None
    poll: select.poll
    isolate: Callable[[], None]
    handles: dict[int, WorkerHandle] = field(default_factory=dict)  # living or starting workers, by number
    _template: Template | None = None
    _pickled: PickledPipeline | None = None
    _by_fd: dict[int, WorkerHandle] = field(default_factory=dict)  # by `pidfd`
    _missing: list[WorkerHandle] = field(default_factory=list)  # workers to be started
    _obstacles: list[str] = field(default_factory=list)  # what made this team choose "forkserver"
    _dead: list[WorkerHandle] = field(default_factory=list)
    _failures: list[Failed] = field(default_factory=list)

    # ---------------------------------------------------------------- starting

    def start(self) -> None:
        """Begin to start workers. `start_missing` starts the others."""
        self._missing += map(WorkerHandle, range(self.setup.spec.num_workers))
        self._start_missing()

    def _start_missing(self) -> None:
        if _local.starting is not None:  # a fork inside the fork hooks of another might deadlock on its locks
            raise PrefetchError("prefetch: a signal handler cannot start workers while workers are started")
        _local.starting = self
        try:
            for handle in self._missing[:STARTED_AT_ONCE]:
                self._start_worker(handle)
                del self._missing[0]
        finally:
            _local.starting = None

    def _forks(self) -> bool:
        return self.context == "fork" or (self.context is None and forking.is_safe())

    def _start_worker(self, handle: WorkerHandle) -> None:
        try:
            if self._template is None:
                if self._forks() and self._begin(handle, self._fork):
                    return
                if self._pickled is None:
                    self._pickled = PickledPipeline(self.setup.spec, self.setup.pipeline)
                    self._announce(self._pickled.nbytes)
            self._begin(handle, self._start_elsewhere)
        except BlockingIOError as error:
            error.strerror = (
                f"{error.strerror}. prefetch: no further process can be started. Use fewer workers, or raise"
                " the limit of processes (`ulimit -u`, or that of the container)"
            )
            raise

    def pickled_bytes(self) -> int:
        """Return the size of the pickled pipeline, or 0 if no worker needed it."""
        return 0 if self._pickled is None else self._pickled.nbytes

    def _announce(self, nbytes: int) -> None:
        """Warn of a large pickle, and once in a program of workers that are not forked unasked."""
        global _has_announced
        obstacles = self._obstacles
        if self.context is None:
            obstacles = forking.obstacles()
        if text := size_warning(nbytes):
            warn(text, RuntimeWarning)  # Python shows the same warning only once
        if obstacles and not _has_announced:
            _has_announced = True
            warn(
                "prefetch: workers are not forked from this process, because forking is unsafe beside"
                f" {_some(obstacles)}. They import modules anew and do not see what the program has set at"
                " run time: variables of modules, default dtypes, warning filters, log levels. Set them in"
                " start_hook (DataLoader: worker_init_fn). Hashes of text and the order of sets differ there"
                " from this process, unless PYTHONHASHSEED is set before the program starts. Choose a context"
                " to avoid this warning: 'forkserver' for the same start, 'fork' if your threads allow it",
                RuntimeWarning,
            )

    def _begin(self, handle: WorkerHandle, begin: Callable[[WorkerHandle, set[int]], bool]) -> bool:
        """Begin to start a worker. Return whether it was begun."""
        with (held := SignalsHeld()):
            if not begin(handle, held.mask):
                return False
            self.handles[handle.number] = handle
            if handle.is_child:
                self._watch(handle)
            return True

    def _fork(self, handle: WorkerHandle, mask: set[int]) -> bool:
        """Fork a worker, unless another thread matters by now."""
        forking.native_pools()  # search here, so that the workers need not search
        pid = forking.fork() if self.context == "fork" else forking.fork_if_harmless()
        if pid == 0:
            be_worker(handle.number, self.setup, mask, self._forget_the_parents)
        if pid > 0:
            handle.pid, handle.pidfd, handle.is_child = pid, linux.watched(pid), True
            if frames_of_others():
                handle.begins_by = monotonic() + BEGIN_S
        return pid > 0

    def _forget_the_parents(self) -> None:
        """Close the parent's descriptors in a forked worker."""
        self.isolate()
        _local.starting = None
        self.forget()
        pickle_for_parent()

    def _start_elsewhere(self, handle: WorkerHandle, mask: set[int]) -> bool:
        """Start a worker that is not forked from this process."""
        assert self._pickled is not None
        handle.is_child = self.context == "spawn"
        if handle.is_child:
            handle.pid = fresh_worker(handle.number, self._pickled, self.setup, mask)
            handle.pidfd = linux.watched(handle.pid)
            return True
        if self._template is None:
            self._template = fresh_template(self._pickled, self.setup, mask)
            self._watch_template(self._template)
        self._template.start(handle.number)
        return True

    def _watch(self, handle: WorkerHandle) -> None:
        self._by_fd[handle.pidfd] = handle
        self.poll.register(handle.pidfd, select.POLLIN)

    def _watch_template(self, template: Template) -> None:
        for fd in template.fds:
            self.poll.register(fd, select.POLLIN)

    # ---------------------------------------------------------------- events

    def patience_s(self, wait_s: float) -> float:
        """Return how long to poll, at most `wait_s`. Call `do_what_is_due` after that."""
        if self._missing or self._failures:
            return 0.0
        due = [handle.begins_by for handle in self.handles.values() if handle.begins_by is not None]
        return max(0.0, min([wait_s, *(deadline - monotonic() for deadline in due)]))

    def do_what_is_due(self) -> None:
        """Kill workers that have not begun in time."""
        now = monotonic()
        for handle in self.handles.values():
            if handle.begins_by is not None and handle.begins_by <= now:
                self.context = "forkserver"  # for later workers
                self._obstacles = forking.obstacles()
                handle.begins_by = None
                handle.kill()

    def notice(self, fd: int) -> None:
        """Handle a readable descriptor. Descriptors of other owners are ignored."""
        handle = self._by_fd.get(fd)
        if handle is None:
            if self._template is not None and fd in self._template.fds:
                self._read_template(self._template)
        else:
            self._mark_dead(handle, linux.reap(handle.pid, fd, 0.0) if handle.is_child else None)

    def _read_template(self, template: Template) -> None:
        try:
            for kind, worker, value, nbytes, pidfd, error in template.answers():
                handle = self.handles.get(worker)
                if kind == TemplateMessage.UNSAFE:
                    self.context = "spawn"
                    self._do_without(template)
                    return
                if handle is None:  # the template itself failed, so there is an error
                    self._failures += [Failed(min(self.handles, default=0), error)] if error else []
                elif kind == TemplateMessage.FORKED:
                    handle.pid, handle.pidfd = value, pidfd
                    if pidfd < 0:  # no free descriptor was left to receive it
                        # The pid is not reused before the template has reaped the process.
                        os.kill(value, signal.SIGKILL)
                    elif handle.stopped:
                        handle.kill()
                elif kind == TemplateMessage.ENDED:
                    self._mark_dead(handle, None if value < 0 else (value, nbytes))
                elif error is not None:
                    del self.handles[worker]
                    self._failures.append(Failed(worker, error))
            self._watch_template(template)
        except ConnectionError as error:
            self._lose(template, str(error))

    def _lose(self, template: Template, reason: str) -> None:
        """Continue without a template that has ended. Its workers live on, except those not yet begun."""
        self._close(template)
        for handle in self.handles.values():
            if handle.is_child or handle.death is not None:
                continue
            if handle.pidfd < 0:
                self._mark_dead(handle, None, reason)
            else:
                self._watch(handle)

    def _do_without(self, template: Template) -> None:
        """Start the workers in another way that a template cannot start."""
        self._close(template)
        for handle in list(self.handles.values()):
            if not handle.is_child and not handle.pid:
                # Start it when no event of the closed descriptors is left.
                self._missing.append(self.handles.pop(handle.number))

    def _close(self, template: Template) -> None:
        for fd in template.fds:
            with suppress(KeyError):
                self.poll.unregister(fd)
        self._template = None
        template.close()

    def _mark_dead(self, handle: WorkerHandle, ended: tuple[int, int] | None, cause: str = "") -> None:
        handle.death, handle.begins_by = Death(cause) if cause else how_ended(*(ended or ())), None
        self._dead.append(handle)
        if self._by_fd.pop(handle.pidfd, None) is not None:
            self.poll.unregister(handle.pidfd)
        if handle.pidfd >= 0:
            os.close(handle.pidfd)
            handle.pidfd = -1

    def dead(self) -> list[WorkerHandle]:
        """Return the workers that have died. Call `replace` for each."""
        dead, self._dead = self._dead, []
        return dead

    def failures(self) -> list[Failed]:
        """Return the reasons why the node cannot go on. Empty if it can."""
        failures, self._failures = self._failures, []
        return failures

    # ---------------------------------------------------------------- replacing

    def replace(self, handle: WorkerHandle, has_worked: bool) -> bool:
        """Have a dead worker replaced by `start_missing`. Return whether that counts as a restart."""
        death = handle.death
        assert death is not None
        del self.handles[handle.number]
        deaths = 0 if has_worked else handle.deaths + 1
        if deaths > MOST_DEATHS:
            end = death.cause
            if handle.pid:
                end = f"process {handle.pid} {end} before its first item{death.hint}"
            self._failures.append(Failed(handle.number, RuntimeError(end)))
            return False
        self._missing.append(WorkerHandle(handle.number, deaths))
        return True

    def start_missing(self) -> None:
        """Start the workers that are to be started."""
        if self._missing:
            try:
                self._start_missing()
            except (OSError, RuntimeError, TypeError) as error:
                self._failures.append(Failed(self._missing.pop(0).number, error))

    # ---------------------------------------------------------------- shut down

    def wait(self, grace_s: float) -> None:
        """Give the workers time to end."""
        if self._template is not None:
            self._read_template(self._template)
        deadline = monotonic() + grace_s
        left = {handle.pidfd for handle in self.handles.values()} - {-1}
        waiting = select.poll()
        for pidfd in left:
            waiting.register(pidfd, select.POLLIN)
        while left and (ended := waiting.poll(max(0.0, deadline - monotonic()) * 1000)):
            for pidfd, _ in ended:
                waiting.unregister(pidfd)
                left.discard(pidfd)

    def end(self) -> None:
        """Kill the remaining workers, and free all resources."""
        for handle in self.handles.values():
            handle.kill()
        self.wait(REAP_S)
        for handle in self.handles.values():
            if handle.is_child and handle.death is None:
                linux.reap(handle.pid, handle.pidfd, 0.0)
        if self._template is not None:
            self._template.close()
        self.forget()

    def forget(self) -> None:
        """Close the descriptors. In a forked child that is all, because the parent owns the processes."""
        for handle in self.handles.values():
            if handle.pidfd >= 0:
                with suppress(OSError):
                    os.close(handle.pidfd)
        self.handles.clear()
        self._missing.clear()
        self._by_fd.clear()
        if self._template is not None:
            self._template.forget()
            self._template = None
        if self._pickled is not None:
            self._pickled.close()
            self._pickled = None


_has_announced = False


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class _Starting(threading.local):
    starting: Team | None = None


_local = _Starting()


def starting() -> Team | None:
    """Return the team for which this thread is starting a worker."""
    return _local.starting
