"""Fork workers, if no other thread matters to them.

A forked process has one thread. A lock that another thread held stays locked in it, and a native pool whose
threads are gone may wait for them for ever.

Guarantees
----------
- `obstacles` names all other threads, except those that are known to be irrelevant to workers. Python threads
  are judged by their stacks, native threads by their names.

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
import warnings
from types import FrameType

import threadpoolctl

from ..frames import frames_of_others
from ..hooks import flush_streams
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
    "seqkit.engine.coroutines",  # the same
)
# Packages that a harmless thread may run code of while it waits or works. Excluded are packages that import,
# have a pool of threads, or hold the lock of a class. All imports run functions of `importlib`.
_PLUMBING = (sys.stdlib_module_names | {"tornado", "zmq", "jupyter_client", "traitlets", "decorator"}) - {
    "concurrent",
    "functools",
    "importlib",
    "multiprocessing",
    "subprocess",
}
# Modules whose functions start the function of a thread.
_STARTERS = ("threading", "_pydev_bundle.pydev_monkey")
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
    "Dummy-",
    "Thread-",
    "ThreadPoolExecu",
    "asyncio_",
    "seqkit-",
)
_NAME_BYTES = 15  # Linux cuts names
# How long a fork waits for threads of closed nodes.
ENDING_S = 10.0


def obstacles() -> list[str]:
    """Return what makes forking unsafe: each thread that matters, as users know it.

    Threads of closed nodes end with their items: this waits for them briefly.
    """
    await_ending(ENDING_S)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    matter = [ident for ident, frame in frames_of_others().items() if not _is_harmless(frame)]
    return [f"thread {names.get(ident, ident)!r}" for ident in matter] + _native_obstacles()


def _native_obstacles() -> list[str]:
    """Return the native threads and pools that make forking unsafe."""
    tasks = set(os.listdir("/proc/self/task"))
    threads = threading.enumerate()  # may have any name
    tasks.difference_update(str(thread.native_id) for thread in threads)
    names = {_name_of(task) for task in tasks} - {thread.name[:_NAME_BYTES] for thread in threads}
    nameless = {name for name in names if name == _name_of(str(os.getpid())) or name.startswith("python")}
    unknown = [name for name in sorted(names - nameless) if not name.startswith(_HARMLESS_NATIVE)]
    found = [f"native thread {name!r}" for name in unknown]
    if nameless and native_threads() != 1:
        # A forked process that uses more than one thread of GNU OpenMP waits for the others for ever.
        loaded = {pool.prefix for pool in native_pools().lib_controllers}
        found += ["an OpenMP pool (SEQKIT_NATIVE_THREADS is not 1)"] if "libgomp" in loaded else []
    return found


def _name_of(task: str) -> str:
    """Return the name of a thread of this process, or a harmless name if the thread has ended."""
    try:
        with open(f"/proc/self/task/{task}/comm", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return "python"


_pools: tuple[int, threadpoolctl.ThreadpoolController] | None = None


def native_pools() -> threadpoolctl.ThreadpoolController:
    """Return the native thread pools of this process. Search again if a module was imported since."""
    global _pools
    if _pools is None or _pools[0] != len(sys.modules):
        _pools = len(sys.modules), threadpoolctl.ThreadpoolController()
    return _pools[1]


def _is_harmless(innermost: FrameType | None) -> bool:
    """Return whether a thread is harmless, from its whole stack."""
    names = []
    frame = innermost
    while frame is not None:
        names.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    while names and names[-1] in _STARTERS:
        names.pop()
    # Without names, the target is a C function, which may do anything.
    return bool(names and _is_below(names[-1], _HARMLESS)) and all(
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
