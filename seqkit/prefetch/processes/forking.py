"""Fork workers, if no other thread matters to them.

Guarantees
----------
- Without an explicit "fork", a fork happens only if all other Python threads are known to be irrelevant to
  workers.

Relies on
---------
- `sys._current_frames` shows every thread that runs Python code. A native thread without a Python frame,
  such as a thread of an idle BLAS pool, is not seen.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import warnings
from types import FrameType
from typing import Any

from ...context import flush_streams

# Modules (with their submodules) whose threads do nothing that workers could miss or wait for.
_HARMLESS = (
    "tqdm._monitor",
    "ipykernel",
    "IPython.core.history",
    "zmq.utils.garbage",
    "debugpy",
    "pydevd",
    "_pydevd_bundle",
    "_pydev_bundle",
    "seqkit.prefetch.threads",  # idle workers; a busy worker has frames of other modules, too
)
# Packages that a harmless thread may run code of while it waits or works. Excluded are packages that
# import, have a pool of threads, or hold the lock of a class.
_PLUMBING = (sys.stdlib_module_names | {"tornado", "zmq", "jupyter_client", "traitlets", "decorator"}) - {
    "_frozen_importlib",
    "_frozen_importlib_external",
    "concurrent",
    "functools",
    "importlib",
    "multiprocessing",
    "runpy",
    "subprocess",
    "zipimport",
}
_THREAD: Any = threading.Thread
_BOOTSTRAP = {method.__code__ for method in (_THREAD._bootstrap, _THREAD._bootstrap_inner, _THREAD.run)}
_EVENT_WAIT = threading.Event.wait.__code__
# Longer than a fork takes to begin, and short enough for a thread that gets the interpreter first.
_SWITCH_S = 0.1

_judging = threading.Lock()


def frames_of_others() -> dict[int, FrameType]:
    """Return the innermost frame of each other thread that runs Python code."""
    # Python 3.11 hangs if the garbage collector frees a `threading.local` inside this call.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        frames = sys._current_frames()
    finally:
        if was_enabled:
            gc.enable()
    # A frame that refers to itself would keep the consumer's objects until the next garbage collection.
    del frames[threading.get_ident()]
    return frames


def threads_that_matter() -> set[int]:
    """Return the identifiers of the threads that make forking unsafe."""
    return {ident for ident, frame in frames_of_others().items() if not _is_harmless(frame)}


def is_safe() -> bool:
    """Return whether all other threads are known to be irrelevant to a forked worker."""
    return not threads_that_matter()


def _is_harmless(innermost: FrameType | None) -> bool:
    """Return whether a thread is harmless, from its whole stack."""
    codes, names = [], []
    frame = innermost
    while frame is not None:
        name = frame.f_globals.get("__name__")
        # A debugger starts all threads through its own function.
        if frame.f_code not in _BOOTSTRAP and name != "_pydev_bundle.pydev_monkey":
            codes.append(frame.f_code)
            names.append(name if isinstance(name, str) else "")
        frame = frame.f_back
    if not names:  # the target is a C function, which may do anything
        return False
    if _EVENT_WAIT in codes and set(names) == {"threading"}:  # the target is `Event.wait`, or it is a `Timer`
        return True
    return _is_below(names[-1], _HARMLESS) and all(
        name.partition(".")[0] in _PLUMBING or _is_below(name, _HARMLESS) for name in names
    )


def _is_below(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)


def fork() -> int:
    """Fork, no matter what other threads do. Return the result of `os.fork`."""
    flush_streams()  # otherwise the child would write the buffered output again
    with warnings.catch_warnings():
        # CPython 3.12 warns about any other thread. The threads were checked, or the user chose to fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def fork_if_harmless() -> int:
    """Fork if no other thread matters to a worker. Return the result of `os.fork`, or -1 without a fork.

    A thread that waits for the interpreter does not get it between the last check of the stacks and the
    fork, unless a function registered with `os.register_at_fork` waits for that thread.
    """
    if not is_safe() or not _judging.acquire(blocking=False):
        return -1
    try:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            time.sleep(0)  # lets a thread run that began to wait under the old interval
            return fork() if is_safe() else -1
        finally:
            sys.setswitchinterval(interval)
    finally:
        _judging.release()
