"""Start processes: when to fork, how to boot a fresh interpreter, and how a worker begins.

The start methods of `multiprocessing` are not used. They run an unguarded main script again, refuse
children to daemonic workers and join at exit. A script that uses seqkit runs its own code once.

Guarantees
----------
- A worker inherits exactly the descriptors of `worker.Descriptors` and the standard streams. A fresh
  interpreter has standard streams even if this process closed its own.
- Without an explicit "fork", a fork happens only if all other Python threads are known to be irrelevant to
  workers.
- A worker ends with the parent, even in the middle of an item. Ctrl-C is left to the parent.

Relies on
---------
- Linux: pidfd.
- `sys._current_frames` shows every thread that runs Python code. A native thread without a Python frame,
  such as a thread of an idle BLAS pool, is not seen.
"""

from __future__ import annotations

import _thread
import gc
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, NoReturn, cast

import threadpoolctl

from ... import context
from ...context import flush_streams, leave_worker, set_worker_info
from ...errors import Policy, seterr
from ...view import View
from .. import stacks
from ..codec import Form, decode
from ..hooks import call_hook, worker_info
from ..resources import in_units, native_threads
from ..results import Record
from ..seeding import Seeding, libraries_changed_by
from . import linux
from .segment import Segment
from .shipment import Shipment
from .wire import ERROR_BYTES, Control, Kind, Spec
from .worker import Descriptors, Worker, tell


@dataclass(frozen=True, slots=True)
class Outfit:
    """The data that all workers of a node share."""

    spec: Spec
    pipeline: View[Any]
    segment: Segment
    fds: Descriptors


# -------------------------------------------------------------------- children

_SIGNALS = {number.value: number.name for number in signal.Signals}


def watched(pid: int) -> int:
    """Return a pidfd of a new child. Without a pidfd the child cannot be monitored, so it is killed."""
    try:
        return linux.pidfd_open(pid)
    except OSError:  # out of descriptors
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            for _ in range(1000):  # one second in total
                if os.waitpid(pid, os.WNOHANG)[0]:
                    break
                time.sleep(0.001)
        raise


def kill(pidfd: int) -> None:
    """Kill a process unless it has ended."""
    with suppress(ProcessLookupError):
        linux.pidfd_send_signal(pidfd, signal.SIGKILL)


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
    used = f" It used up to {in_units(most_bytes)}." if most_bytes else ""
    return Death(
        f"was killed by signal {number} ({_SIGNALS.get(number, 'a real-time signal')})",
        f". Did it run out of memory?{used}" if number == signal.SIGKILL else "",
    )


# -------------------------------------------------------------------- fork only if it is safe

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


# -------------------------------------------------------------------- pipelines for other interpreters


def surroundings() -> bytes:
    """Return variables, directory and module path of this process, pickled for workers that are not
    forks."""
    return pickle.dumps((environment(), context.current_directory(), module_path()))


def open_shipment(shipped: int, place: Sequence[int], fds: Descriptors) -> Outfit:
    """Apply the surroundings of the process that made a shipment. Return the content of the shipment."""
    linux.tie_to(fds.tether)  # otherwise a process whose parent dies during an import would not end
    head, end, size = place
    content = Segment(shipped, size, private=True)
    variables, directory, sys.path[:] = pickle.loads(content.block(end, size - end).data)
    os.environ.clear()
    os.environ.update(variables)
    if directory is not None:
        with suppress(OSError):  # the directory may have been deleted
            os.chdir(directory)
    block = content.block(0, end)
    spec, pipeline = decode(Form.BUFFERS, block[head:].data, block)
    return Outfit(spec, pipeline, Segment(fds.segment, spec.layout.size), fds)


# -------------------------------------------------------------------- fresh interpreters


def interpreter(code: str, fds: tuple[int, ...]) -> int:
    """Start a Python that has the same modules and arguments. Return its pid. It runs no main script.

    The code can use the descriptors in `fds`.
    """
    if not _has_streams():
        raise RuntimeError(
            "prefetch: standard input, output or error of this process is closed. Workers that are not forked"
            " need all three: open them, for example with `< /dev/null > /dev/null 2>&1`"
        )
    argv = list(map(str, getattr(sys, "argv", ())))
    same = f"import sys; sys.path[:] = {module_path()!a}; sys.argv[:1] = {argv[:1]!a}; fds = {fds}"
    process = subprocess.Popen(
        # Arguments are separate from the code, because the system allows longer arguments in total.
        [sys.executable, *_flags(), "-c", f"{same}; {code}", *argv[1:]],
        pass_fds=fds,
        env=environment(),
        stdin=subprocess.DEVNULL,
        process_group=0,  # only this process handles Ctrl-C on the terminal
    )
    process.returncode = 0  # the engine waits for the pid, so the Popen object must not, even when collected
    return process.pid


def _has_streams() -> bool:
    """Return whether the standard streams are open, and the engine uses none of their numbers."""
    try:
        return all(map(os.get_inheritable, range(3)))
    except OSError:
        return False


def module_path() -> list[str]:
    """Return `sys.path` for another process.

    A relative entry stands for two directories. One is the current directory, in which this process would
    search now. The other is the initial directory, in which it found the modules that it imported then.
    """
    bases = dict.fromkeys(base for base in (context.current_directory(), context.ORIGIN) if base)
    path: list[str] = []
    entries: list[Any] = sys.path
    for entry in entries:
        if isinstance(entry, str):  # Python ignores all other entries, too
            entry = str(entry)  # the repr of a subclass may be anything
            path += [entry] if os.path.isabs(entry) else [_below(base, entry) for base in bases]
    return path


def _below(base: str, entry: str) -> str:
    return os.path.join(base, entry) if entry else base


def _flags() -> list[str]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    if context.current_directory() is None:
        flags.append("-P")  # Python 3.13 fails if it searches for modules in a deleted directory
    return flags


def environment() -> dict[str, str]:
    """Return the environment variables for a fresh Python, with limits for the threads of its libraries."""
    # Copy one variable at a time, because `dict` fails if another thread deletes a variable.
    variables = {name: value for name in os.environ if (value := os.environ.get(name)) is not None}
    _limit_threads(variables, native_threads())
    return variables


# -------------------------------------------------------------------- in the worker process

_pools: tuple[int, threadpoolctl.ThreadpoolController] | None = None


def native_pools() -> threadpoolctl.ThreadpoolController:
    """Return the native thread pools of this process. Search again if a module was imported since."""
    global _pools
    if _pools is None or _pools[0] != len(sys.modules):
        _pools = len(sys.modules), threadpoolctl.ThreadpoolController()
    return _pools[1]


def _limit_threads(variables: MutableMapping[str, str], threads: int) -> None:
    """Limit the threads of libraries that are not loaded yet; 0 sets no limit.

    Libraries read these variables when they are loaded. So no pool of idle threads is created.
    """
    if threads:
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM"):
            variables.setdefault(f"{name}_NUM_THREADS", str(threads))


def be_worker(number: int, outfit: Outfit, forget: Callable[[], None] = lambda: None) -> NoReturn:
    """Run as worker `number` until the parent closes the node, or is gone.

    `forget` closes the descriptors of the process that this process was forked from.
    """
    try:
        forget()
        _settle(outfit.fds)
        if threads := outfit.spec.native_threads:
            _limit_threads(os.environ, threads)
            for pool in native_pools().lib_controllers:  # not in a context manager, which would restore them
                pool.set_num_threads(threads)
        with outfit.spec.modes.entered():
            _work(number, outfit)
    except BrokenPipeError:
        pass  # the parent is gone
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    leave()


def _work(number: int, outfit: Outfit) -> None:
    spec, fds, segment = outfit.spec, outfit.fds, outfit.segment
    try:
        info = worker_info(number, spec.num_workers, spec.seed, "process")
        seeding = Seeding(info.seed, partial(Control(segment, spec.layout).count, number), spec.seed)
        set_worker_info(info)
        seterr(cast(Policy, spec.errors))
        if spec.is_timed:
            stacks.answer(fds.segment, spec.layout.error_at(number))
        tell(fds, number, Kind.BEGUN, items=os.getpid())
        if spec.hook is not None:
            seeding.left_alone = libraries_changed_by(partial(call_hook, spec.hook, number))
    except BaseException as error:
        _report_failure(number, fds, spec.layout.error_at(number), error)
        return
    tell(fds, number, Kind.READY, items=os.getpid())
    _stand_back()  # not earlier, because a start beside busy processes would take longer
    Worker(number, spec, fds, segment, outfit.pipeline, seeding).serve()
    leave_worker()


def _report_failure(number: int, fds: Descriptors, error_at: int, error: BaseException) -> None:
    """Report to the parent that this worker cannot start."""
    data = Record.of(error).dumps(ERROR_BYTES)
    os.pwrite(fds.segment, data, error_at)
    tell(fds, number, Kind.FAILED, items=len(data))


def _settle(fds: Descriptors) -> None:
    """Turn a process into a worker: reset the parent's signal handlers, and end with the parent."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Exclude inherited objects from garbage collection, so that their pages stay shared.
    gc.freeze()
    linux.tie_to(fds.tether)

    def watch() -> None:
        poll = select.poll()
        poll.register(fds.parent, select.POLLIN)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    # The tether breaks only when every inherited copy of its other end is closed. A pidfd reports at once.
    # `threading` is not used: it would wait for the thread to begin, and forks by user code would miss the
    # thread.
    _thread.start_new_thread(watch, ())


def _stand_back() -> None:
    """Tell the scheduler not to interrupt the consumer when a job wakes this process.

    The scheduler expects the writer of a pipe to wait for an answer, and gives the writer's processor to
    the process that it wakes. The consumer would hand out a third fewer small items while a processor is
    idle (`python -m tests.benchmarks transport`). The share of processor time stays the same.
    """
    with suppress(OSError, AttributeError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def leave() -> NoReturn:
    """End the process without the exit code of the parent's interpreter (`atexit` hooks and finalisers)."""
    flush_streams()
    os._exit(0)


def spawn(number: int, shipment: Shipment, outfit: Outfit) -> int:
    """Start a worker as a fresh interpreter. Return its pid."""
    error_at = outfit.spec.layout.error_at(number)
    code = f"from {__name__} import _boot; _boot({number}, {error_at}, {shipment.place}, *fds)"
    return interpreter(code, (shipment.fd, *astuple(outfit.fds)))


def _boot(number: int, error_at: int, place: Sequence[int], shipped: int, *rest: int) -> NoReturn:
    for fd in (shipped, *rest):
        os.set_inheritable(fd, False)  # a process that an item starts may outlive the node
    fds = Descriptors(*rest)
    try:
        outfit = open_shipment(shipped, place, fds)
    except BaseException as error:
        with suppress(BrokenPipeError):
            _report_failure(number, fds, error_at, error)
        leave()
    be_worker(number, outfit)
