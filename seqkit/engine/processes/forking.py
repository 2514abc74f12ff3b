"""Fork workers, if no other thread matters to them.

A forked process has one thread. A lock that another thread held stays locked in it, and a native pool whose
threads are gone may wait for them for ever.

Guarantees
----------
- Without an explicit "fork", a fork happens only if all other threads are known to be irrelevant to workers.
  Python threads are judged by their stacks, native threads by their names.

Relies on
---------
- `sys._current_frames` shows every thread that runs Python code.
- A native thread has the name of the thread that started it, unless its library gives it another one.
  Pools without names of their own (OpenBLAS, MKL, OpenMP, Arrow, DuckDB, OpenCV) work in a forked process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from types import FrameType
from typing import Any

import threadpoolctl

from ...core.tracebacks import frames_of_others
from ...core.worker import flush_streams
from ..resources import native_threads
from ..threads import await_ending

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
    "seqkit.engine.threads",  # idle workers; a busy worker has frames of other modules, too
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
# How the names of native threads begin that do not matter: threads that serve this process only, and threads
# whose library works without them. In Python 3.14 a native thread may have the name of a Python thread that
# has ended.
_HARMLESS_NATIVE = (
    "NCCL",
    "ZMQbg",
    "cuda",
    "jemalloc_bg_thd",
    "polars-ooc-clea",  # runs after the import, before the first query starts the pool
    "pt_",  # PyTorch
    "python",
    "Dummy-",
    "Thread-",
    "ThreadPoolExecu",
    "asyncio_",
    "seqkit-",
)
_NAME_BYTES = 15  # Linux cuts names
# Longer than a fork takes to begin, and short enough for a thread that gets the interpreter first.
_SWITCH_S = 0.1

# How long a fork waits for threads of closed nodes.
ENDING_S = 10.0

_judging = threading.Lock()


def threads_that_matter() -> set[int]:
    """Return the identifiers of the threads that make forking unsafe."""
    return {ident for ident, frame in frames_of_others().items() if not _is_harmless(frame)}


def is_safe() -> bool:
    """Return whether all other threads are known to be irrelevant to a forked worker.

    Threads of closed nodes end with their items: this waits for them briefly.
    """
    await_ending(ENDING_S)
    return not threads_that_matter() and not _native_obstacles()


def obstacles() -> list[str]:
    """Return what makes forking unsafe: each thread that matters, as users know it."""
    matter = threads_that_matter()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [f"thread {names.get(ident, ident)!r}" for ident in matter] + _native_obstacles()


def _native_obstacles() -> list[str]:
    """Return the native threads and pools that make forking unsafe."""
    try:
        names = {task: _name_of(task) for task in os.listdir("/proc/self/task")}
    except OSError:  # no /proc
        return []
    may_use_openmp = native_threads() != 1
    if not may_use_openmp and all(name.startswith(_HARMLESS_NATIVE) for name in names.values()):
        return []
    threads = threading.enumerate()  # may have any name
    own = {name_of_process := _name_of(str(os.getpid())), *(thread.name[:_NAME_BYTES] for thread in threads)}
    for thread in threads:
        names.pop(str(thread.native_id), None)
    unknown = {name for name in names.values() if name not in own and not name.startswith(_HARMLESS_NATIVE)}
    found = [f"native thread {name!r}" for name in sorted(unknown)]
    nameless = [name for name in names.values() if name.startswith((name_of_process, "python"))]
    if may_use_openmp and _may_be_openmp(len(nameless)):
        found.append("an OpenMP pool (SEQKIT_NATIVE_THREADS is not 1)")
    return found


def _may_be_openmp(threads: int) -> bool:
    """Return whether some of the threads without a name may belong to a pool of GNU OpenMP.

    A forked process that uses more than one thread of this pool waits for the others for ever.
    """
    pools = native_pools().lib_controllers
    of_blas = sum(pool.num_threads - 1 for pool in pools if pool.user_api == "blas")
    return threads > of_blas and any(pool.prefix == "libgomp" for pool in pools)


def _name_of(task: str) -> str:
    """Return the name of a thread of this process, or a harmless name if the thread has ended."""
    try:
        fd = os.open(f"/proc/self/task/{task}/comm", os.O_RDONLY)
    except OSError:
        return "python"
    try:
        return os.fsdecode(os.read(fd, 64)).rstrip("\n")
    finally:
        os.close(fd)


_pools: tuple[int, threadpoolctl.ThreadpoolController] | None = None


def native_pools() -> threadpoolctl.ThreadpoolController:
    """Return the native thread pools of this process. Search again if a module was imported since."""
    global _pools
    if _pools is None or _pools[0] != len(sys.modules):
        _pools = len(sys.modules), threadpoolctl.ThreadpoolController()
    return _pools[1]


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

    Call this if `is_safe`, because native threads are not looked for again. A thread that waits for the
    interpreter does not get it between the last check of the stacks and the fork, unless a function
    registered with `os.register_at_fork` waits for that thread.
    """
    if threads_that_matter() or not _judging.acquire(blocking=False):
        return -1
    try:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            time.sleep(0)  # lets a thread run that began to wait under the old interval
            return -1 if threads_that_matter() else fork()
        finally:
            sys.setswitchinterval(interval)
    finally:
        _judging.release()
