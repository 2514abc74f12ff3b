"""The stack of a worker that is stuck at an item, as text for the error of the item.

The stack of a process is written by `faulthandler`, whose signal handler is safe at any time, also inside a
C function that never returns to Python. The worker writes to the place in the segment where it would report
that it cannot start, and ends.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import traceback
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ..core.tracebacks import is_ours
from . import evaluate
from .frames import frames_of_others, with_sources

# How long a process may take to write its stack and end. It usually takes a few milliseconds.
WAIT_S = 0.1
_LINE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def of_thread(ident: int | None) -> str:
    """Return the stack of another thread below the item that it evaluates, or "" if it has none."""
    frame = frames_of_others().get(ident or 0)
    stack = [] if frame is None else traceback.walk_stack(frame)
    return _text((one.f_code.co_filename, line, one.f_code.co_name) for one, line in stack)


def of_coroutine(coroutine: Any) -> str:
    """Return the stack of a coroutine that waits, from the coroutine that the user wrote to the innermost."""
    entries: list[tuple[str, int, str]] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        entries.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        coroutine = coroutine.cr_await
    return _text(reversed(entries))


def of_process(pidfd: int, fd: int, at: int, most: int) -> str:
    """Ask a process that has called `answer` to write its stack and end. Return the stack, or "".

    The code of the process does not continue after that, so nothing sees the signal, such as a system call
    that it interrupts.
    """
    from .processes import linux  # only on Linux

    os.pwrite(fd, bytes(len(_written(fd, at, most))), at)  # erase the stack of an earlier worker
    with suppress(OSError):  # it has ended
        linux.pidfd_send_signal(pidfd, _signal())
        linux.is_readable(pidfd, WAIT_S)
    lines = _LINE.findall(_written(fd, at, most).decode(errors="replace"))
    return _text((file, int(line), name) for file, line, name in lines)


def answer(fd: int, at: int) -> None:
    """From now on, let this process write its stack into a file and end when `of_process` asks for it."""
    own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_CLOEXEC)  # with a position of its own
    os.lseek(own, at, os.SEEK_SET)
    signal.signal(_signal(), signal.SIG_DFL)  # a parent may have a handler
    faulthandler.register(_signal(), own, all_threads=False, chain=True)


def _signal() -> int:
    return signal.SIGRTMAX - 2  # few programs use real-time signals


def _written(fd: int, at: int, most: int) -> bytes:
    return os.pread(fd, most, at).partition(b"\0")[0]


def _text(entries: Iterable[tuple[str, int, str]]) -> str:
    """Return a stack, innermost entry last, without the frames of seqkit and of what called it.

    `entries` are files, lines and functions, from the innermost one on.
    """
    lines: list[str] = []
    for file, line, name in reversed([*entries]):
        if file == evaluate.__file__:
            lines.clear()
        elif not is_ours(file):
            lines.append(f'  File "{file}", line {line}, in {name}')
    return with_sources("\n".join(lines))
