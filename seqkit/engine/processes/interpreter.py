"""Start fresh interpreters with the surroundings of this process: variables, module path, arguments, flags.

The start methods of `multiprocessing` are not used. They run an unguarded main script again, refuse
children to daemonic workers and join at exit. A script that uses seqkit runs its own code once.

Guarantees
----------
- A fresh interpreter inherits exactly the descriptors that it is given, besides the standard streams.
- Module path and arguments may be of any length, and hold any text.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple

from ...core import worker
from ..protocol import PrefetchError
from ..resources import native_threads
from . import linux
from .worker_process import limit_threads


class Surroundings(NamedTuple):
    """The environment variables, directory and module path of a process."""

    variables: dict[str, str]
    directory: str | None
    path: list[str]

    @classmethod
    def of_this_process(cls) -> Surroundings:
        variables = dict(os.environ)
        limit_threads(variables, native_threads())
        return cls(variables, worker.current_directory(), module_path())


def interpreter(code: str, fds: tuple[int, ...], surroundings: Surroundings) -> int:
    """Start a Python that has the same arguments and flags. Return its pid. It runs no main script.

    The code can use the descriptors in `fds`. Signals that are blocked now are blocked there, too.
    """
    if getattr(sys, "frozen", False) or not sys.executable:  # a frozen program would start itself again
        raise PrefetchError(
            "prefetch: no Python is known that could run workers, because this program is frozen or"
            f" sys.executable is {sys.executable!r}. Use context='fork' if your threads allow it, or"
            " method='thread'"
        )
    argv = list(map(str, getattr(sys, "argv", ())))
    variables, directory, path = surroundings
    if directory is None or not os.access(directory, os.X_OK):
        directory = "/"  # it was deleted: Python 3.13 does not start in such a directory
    same = f"import sys; sys.path[:] = {path!a}; sys.argv[:] = {argv!a}; fds = {fds}"
    fd = linux.memfd_create("seqkit-start")  # the system limits the length of an argument
    try:
        os.pwrite(fd, f"{same}; {code}".encode("ascii"), 0)
        start = f"with open({fd}, 'rb') as file: code = file.read()\nexec(code)"
        process = subprocess.Popen(
            [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", start],  # type: ignore[attr-defined]
            pass_fds=(*fds, fd),
            env=variables,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            process_group=0,  # only this process handles Ctrl-C on the terminal
        )
    finally:
        os.close(fd)
    process.returncode = 0  # the engine waits for the pid, so the Popen object must not, even when collected
    return process.pid


def require_streams() -> None:
    """Raise an error if a standard stream is closed: what prints would write into files of the engine."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            raise PrefetchError(
                "prefetch: standard input, output or error of this process is closed. Process workers need"
                " all three: open them, for example with `< /dev/null > /dev/null 2>&1`"
            ) from None


def module_path() -> list[str]:
    """Return `sys.path` for another process.

    A relative entry stands for two directories. One is the current directory, in which this process would
    search now. The other is the initial directory, in which it found the modules that it imported then.
    """
    bases = dict.fromkeys(base for base in (worker.current_directory(), worker.ORIGIN) if base)
    # Python ignores entries that are no text. The repr of a subclass of text may be anything.
    entries = [str(entry) for entry in list[Any](sys.path) if isinstance(entry, str)]
    return [
        os.path.join(base, entry) if entry else base
        for entry in entries
        for base in ([""] if os.path.isabs(entry) else bases)
    ]
