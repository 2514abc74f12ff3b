"""The worker processes of a node: start them, detect deaths, replace and end them.

Guarantees
----------
- A worker is forked if that is safe or requested. This is checked again for every worker, until one is not
  forked. That one and all later workers of the node come from a template.
- A few workers are started at a time. So the first item does not wait for the last worker.
- A worker that was forked while other threads lived, and does not begin within `BEGIN_S`, is killed and
  replaced by one from a template.
- A worker that cannot be started ends the node with an error.
- Ctrl-C during a start leaves no process and no descriptor behind.
- A process that cannot be killed delays the end of a node by at most `REAP_S`.

Relies on
---------
- Methods are called by one thread at a time.
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal, NamedTuple

from ...core import units
from ...core.tracebacks import warn
from ..classes import pickle_for_parent
from ..frames import frames_of_others
from ..protocol import Failed, PrefetchError
from ..signals import SignalsHeld
from . import forking, linux
from .pickled_pipeline import PickledPipeline
from .template import REAP_S, Template, TemplateMessage, start_interpreter
from .worker import WorkerSetup
from .worker_process import be_worker

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


def how_ended(ended: tuple[int, int] | None) -> Death:
    """Return how a process ended, from its wait status and the most memory that it had.

    >>> how_ended((3 << 8, 0)).cause
    'exited with status 3'
    >>> how_ended((9, 64 << 20)).cause
    'was killed by signal 9 (SIGKILL)'
    >>> how_ended((9, 64 << 20)).hint
    '. Did it run out of memory? It used up to 64.0 MiB.'
    """
    if ended is None:
        return Death("ended (its exit status is not known)")
    status, most_bytes = ended
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
    is_child: bool = False  # otherwise it is a child of the template, which reports its end
    state: Literal["starting", "ready", "dead"] = "starting"  # a ready one may be at its start hook
    begins_by: float = math.inf  # when it is killed if it is still starting
    # The transport writes these.
    stopped: int = 0  # the job for which the worker was killed
    stack: str = ""  # where the worker was then

    def has_ended(self, within_s: float) -> bool:
        if self.state == "dead":
            return True
        if self.pidfd < 0:  # the template's message has not arrived yet
            return self.pid > 0 and linux.has_ended(self.pid, within_s)
        return linux.is_readable(self.pidfd, within_s)

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
    _dead: list[tuple[WorkerHandle, Death]] = field(default_factory=list)
    _failures: list[Failed] = field(default_factory=list)

    # ---------------------------------------------------------------- starting

    def start(self) -> None:
        """Begin to start workers. `start_missing` starts the others."""
        self._missing += map(WorkerHandle, self.setup.spec.settings.numbers)
        self._start_missing()

    def start_missing(self) -> list[Failed]:
        """Start a few of the missing workers. Return the reasons why the node cannot go on."""
        try:
            self._start_missing()
        except (OSError, RuntimeError, TypeError) as error:
            self._failures.append(Failed(self._missing.pop(0).number, error))
        failures, self._failures = self._failures, []
        return failures

    def _start_missing(self) -> None:
        for handle in self._missing[:STARTED_AT_ONCE]:
            if starting.team is not None:  # a fork inside the fork hooks of another might wait for its locks
                raise PrefetchError(
                    "prefetch: a signal handler cannot start workers while workers are started"
                )
            starting.team = self
            try:
                self._start_worker(handle)
                del self._missing[0]
            except BlockingIOError as error:
                error.strerror = (
                    f"{error.strerror}. prefetch: no further process can be started. Use fewer workers, or"
                    " raise the limit of processes (`ulimit -u`, or that of the container)"
                )
                raise
            finally:
                starting.team = None

    def _start_worker(self, handle: WorkerHandle) -> None:
        pickled = self._pickle()
        with (held := SignalsHeld()):
            if pickled is None:
                handle.pid = self._fork(handle, held.mask)
            elif self.context == "spawn":
                handle.pid = start_interpreter(handle.number, pickled, self.setup, held.mask)
            else:
                self._ask_template(handle.number, pickled, held.mask)
            if handle.pid:
                handle.is_child, handle.pidfd = True, linux.watched(handle.pid)
                self._watch(handle)
            self.handles[handle.number] = handle

    def _pickle(self) -> PickledPipeline | None:
        """Return the pickled pipeline, or None if the next worker is to be forked from this process."""
        if self._pickled is None:
            obstacles = forking.obstacles() if self.context is None else []
            if self.context in (None, "fork") and not obstacles:
                return None
            self._pickled = PickledPipeline(self.setup.spec, self.setup.pipeline)
            _announce(obstacles)
        return self._pickled

    def pickled_bytes(self) -> int:
        """Return the size of the pickled pipeline, or 0 if no worker needed it."""
        return 0 if self._pickled is None else self._pickled.nbytes

    def _fork(self, handle: WorkerHandle, mask: set[int]) -> int:
        forking.native_pools()  # search here, so that the workers need not search
        if frames_of_others():
            handle.begins_by = monotonic() + BEGIN_S
        pid = forking.fork()
        if pid == 0:
            be_worker(handle.number, self.setup, mask, self._forget_the_parents)
        return pid

    def _forget_the_parents(self) -> None:
        """Close the parent's descriptors in a forked worker."""
        self.isolate()
        self.forget()
        pickle_for_parent()

    def _ask_template(self, number: int, pickled: PickledPipeline, mask: set[int]) -> None:
        """Have a template fork a worker. Start the template if there is none."""
        if self._template is None:
            self._template = Template(number, pickled, self.setup, mask)
            for fd in self._template.fds:
                self.poll.register(fd, select.POLLIN)
        self._template.start(number)

    def _watch(self, handle: WorkerHandle) -> None:
        self._by_fd[handle.pidfd] = handle
        self.poll.register(handle.pidfd, select.POLLIN)

    # ---------------------------------------------------------------- events

    def patience_s(self, wait_s: float) -> float:
        """Return how long to poll, at most `wait_s`. Call `dead` and `start_missing` after that."""
        if self._missing or self._failures:
            return 0.0
        deadlines = [handle.begins_by for handle in self.handles.values() if handle.state == "starting"]
        return max(0.0, min([wait_s, *(deadline - monotonic() for deadline in deadlines)]))

    def notice(self, fd: int) -> None:
        """Handle a readable descriptor. Descriptors of other owners are ignored."""
        handle = self._by_fd.get(fd)
        if handle is not None:
            self._mark_dead(handle, how_ended(linux.reap(handle.pid, fd, 0.0)))
        elif self._template is not None and fd in self._template.fds:
            self._read_template(self._template)

    def _read_template(self, template: Template) -> None:
        try:
            for kind, worker, pid_or_status, most_bytes, pidfd in template.answers():
                if kind == TemplateMessage.UNSAFE:
                    self.context = "spawn"  # for the workers that `_lose` marks as dead
                    continue
                handle = self.handles[worker]
                if kind == TemplateMessage.ENDED:
                    self._mark_dead(handle, how_ended((pid_or_status, most_bytes)))
                    continue
                handle.pid, handle.pidfd = pid_or_status, pidfd
                if pidfd < 0:  # no free descriptor was left to receive it
                    os.kill(handle.pid, signal.SIGKILL)  # not reused before the template has reaped it
                elif handle.stopped:
                    handle.kill()
        except ConnectionError as error:
            self._lose(template, Death(str(error)))

    def _lose(self, template: Template, reason: Death) -> None:
        """Continue without a template that has ended. Its workers live on, except those not yet begun."""
        for fd in template.fds:
            self.poll.unregister(fd)
        self._template = None
        template.close()
        for handle in self.handles.values():
            if not handle.is_child and handle.state != "dead":
                if handle.pidfd < 0:
                    self._mark_dead(handle, reason)
                else:
                    self._watch(handle)

    def _mark_dead(self, handle: WorkerHandle, death: Death) -> None:
        handle.state = "dead"
        self._dead.append((handle, death))
        if self._by_fd.pop(handle.pidfd, None) is not None:
            self.poll.unregister(handle.pidfd)
        if handle.pidfd >= 0:
            os.close(handle.pidfd)
            handle.pidfd = -1

    def dead(self) -> list[tuple[WorkerHandle, Death]]:
        """Kill workers that have not begun in time. Return those that have died, for `replace`."""
        for handle in self.handles.values():
            if handle.state == "starting" and handle.begins_by <= monotonic():
                if self.context is None:
                    _announce([f"a thread that keeps forked workers from their start ({BEGIN_S:g} s)"])
                self.context, handle.begins_by = "forkserver", math.inf  # for later workers
                handle.kill()
        dead, self._dead = self._dead, []
        return dead

    def replace(self, handle: WorkerHandle, death: Death, has_worked: bool) -> bool:
        """Have a dead worker replaced by `start_missing`. Return whether that counts as a restart."""
        del self.handles[handle.number]
        deaths = 0 if has_worked else handle.deaths + 1
        if deaths > MOST_DEATHS:
            end = death.cause
            if handle.pid:
                end = f"process {handle.pid} {end} before its first item{death.hint}"
            self._failures.append(Failed(handle.number, RuntimeError(end)))
            return False
        self._missing.append(WorkerHandle(handle.number, deaths))
        return bool(handle.pid)

    # ---------------------------------------------------------------- shut down

    def wait(self, grace_s: float) -> None:
        """Give the workers time to end."""
        deadline = monotonic() + grace_s
        for handle in self.handles.values():
            handle.has_ended(deadline - monotonic())

    def end(self) -> None:
        """Kill the remaining workers, and free all resources."""
        for handle in self.handles.values():
            handle.kill()
        deadline = monotonic() + REAP_S
        for handle in self.handles.values():
            if handle.pidfd >= 0:
                linux.reap(handle.pid, handle.pidfd, deadline - monotonic())
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
        if self._template is not None:
            self._template.forget()
            self._template = None
        if self._pickled is not None:
            self._pickled.segment.close()
            self._pickled = None


class _Starting(threading.local):
    team: Team | None = None


# The team for which this thread starts a worker.
starting = _Starting()
_has_announced = False


def _announce(obstacles: list[str]) -> None:
    """Warn, once in a program, of workers that are not forked although the user chose no start method."""
    global _has_announced
    if _has_announced or not obstacles:
        return
    _has_announced = True
    more = f" and {len(obstacles) - 3} more" if len(obstacles) > 3 else ""
    warn(
        "prefetch: workers are not forked from this process, because forking is unsafe beside"
        f" {', '.join(obstacles[:3])}{more}. They import modules anew and do not see what the program has"
        " set at run time: variables of modules, default dtypes, warning filters, log levels. Set them in"
        " start_hook (DataLoader: worker_init_fn). Hashes of text and the order of sets differ there from"
        " this process, unless PYTHONHASHSEED is set before the program starts. Choose a context to avoid"
        " this warning: 'forkserver' for the same start, 'fork' if your threads allow it",
        RuntimeWarning,
    )
