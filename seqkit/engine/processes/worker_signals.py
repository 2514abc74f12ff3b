"""Leave the program's signals to the parent.

Terminals and schedulers send signals to a whole process group or job: Ctrl-C, the request to write a
checkpoint, the warning before the end. They are meant for the program. Workers do nothing when they receive
one. This must not be seen by processes that an item starts. They inherit ignored and blocked signals, but not
handlers, so workers have handlers that do nothing.

Guarantees
----------
- A signal that the program handles, or that often reaches a group, runs no handler of the program in a
  worker, ends no worker and interrupts no system call that can be restarted.
- An executable that an item starts has the signal dispositions and the mask that it would have if the parent
  had started it. A process that an item forks has the default dispositions.
- Signals that the program ignores stay ignored.
- Signals with which items work (alarms, ends of children) and signals of faults have their default action.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable

_OF_GROUPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
_OF_ITEMS = {signal.SIGCHLD, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF}
_OF_FAULTS = {
    *(signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGBUS),
    *(signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP),
}

_ours: set[int] = set()  # signals for which this process does nothing


def program_signals() -> list[int]:
    """Return the signals that are the program's affair: those it handles, and those sent to groups."""
    handled = {number for number in signal.valid_signals() if callable(signal.getsignal(number))}
    found = (handled | _ours | _OF_GROUPS) - _OF_ITEMS - _OF_FAULTS
    return [int(number) for number in found if signal.getsignal(number) != signal.SIG_IGN]


def leave_signals_to_program(numbers: Iterable[int], mask: Iterable[int]) -> None:
    """Do nothing for these signals from now on. Then block only the signals of `mask`."""
    signal.set_wakeup_fd(-1)
    for number in numbers:
        signal.signal(number, _do_nothing)
        signal.siginterrupt(number, False)
    _ours.update(numbers)
    for number in _OF_ITEMS:
        signal.signal(number, signal.SIG_DFL)
    for number in _OF_FAULTS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _do_nothing(*_: object) -> None: ...


# In a process that user code has forked, signals such as those of `Process.terminate` have their default
# action. They are blocked during the fork, because a handler of this process would lose them.


_forking = threading.local()


def _before_fork() -> None:
    if _ours:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ours)


def _after_fork() -> None:
    if _ours:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    for number in _ours:
        if signal.getsignal(number) is _do_nothing:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
