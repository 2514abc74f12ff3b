"""The main function of a worker process: become a worker, run the start hook, serve and leave.

Guarantees
----------
- A worker ends with the parent, even in the middle of an item. Signals to the process group are left to
  the parent.
- A worker runs no exit code of the parent's interpreter.

Relies on
---------
- Linux: pidfd.
"""

from __future__ import annotations

import _thread
import gc
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from typing import NoReturn, cast

from ...core import set_epoch
from ...core.errors import Policy, seterr
from ...core.worker import leave_worker, set_worker_info
from .. import stacks
from ..hooks import call_hook, flush_streams
from ..results import Record
from ..seeding import Seeding, drawing_alike
from ..torch_modes import in_modes
from . import linux
from .forking import native_pools
from .wire import ERROR_BYTES, Control, Kind
from .worker import Descriptors, Worker, WorkerSetup, tell
from .worker_signals import leave_signals_to_program, program_signals


def limit_threads(variables: MutableMapping[str, str], threads: int) -> None:
    """Limit the threads of libraries that are not loaded yet; 0 sets no limit.

    Libraries read these variables when they are loaded. So no pool of idle threads is created.
    """
    if threads:
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM"):
            variables.setdefault(f"{name}_NUM_THREADS", str(threads))


def be_worker(
    number: int, setup: WorkerSetup, mask: Iterable[int], forget: Callable[[], None] = lambda: None
) -> NoReturn:
    """Run as worker `number` until the parent closes the node, or is gone.

    Call this with all signals blocked; `mask` is the mask of the worker. `forget` closes the descriptors of
    the process that this process was forked from.
    """
    try:
        leave_signals_to_program(program_signals(), mask)
        forget()
        linux.own_positions()
        _end_with_parent(setup.fds)
        if threads := setup.spec.native_threads:
            limit_threads(os.environ, threads)
            for pool in native_pools().lib_controllers:  # not in a context manager, which would restore them
                pool.set_num_threads(threads)
            if torch := sys.modules.get("torch"):  # its own limits count more
                torch.set_num_threads(threads)
        with in_modes(setup.spec.modes):
            _work(number, setup)
    except BrokenPipeError:
        pass  # the parent is gone
    except BaseException:
        sys.excepthook(*sys.exc_info())
        leave(1)
    leave()


def _work(number: int, setup: WorkerSetup) -> None:
    spec, settings, fds = setup.spec, setup.spec.settings, setup.fds
    try:
        assert settings.seed is not None
        info = settings.info(number, "process")
        seeding = Seeding(info.seed, partial(Control(setup.segment, spec.layout).count, number))
        set_worker_info(info)
        set_epoch.telling = partial(drawing_alike, settings.seed)
        seterr(cast(Policy, spec.errors))
        stacks.answer(fds.segment, spec.layout.error_at(number))
        tell(fds, number, Kind.READY, items=os.getpid())
        call_hook(settings.start_hook, number)
    except BaseException as error:
        report_failure(number, fds, spec.layout.error_at(number), error)
        return
    Worker(number, setup, seeding).serve()
    leave_worker()


def report_failure(number: int, fds: Descriptors, error_at: int, error: BaseException) -> None:
    """Report to the parent that this worker cannot start."""
    data = Record.of(error).dumps(ERROR_BYTES)
    os.pwrite(fds.segment, data, error_at)
    tell(fds, number, Kind.FAILED, items=len(data))


def _end_with_parent(fds: Descriptors) -> None:
    """Turn a process into a worker, which ends with the parent."""
    # Exclude inherited objects from garbage collection, so that their pages stay shared.
    gc.freeze()

    def watch() -> None:
        poll = select.poll()
        poll.register(fds.parent, select.POLLIN)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    # `threading` is not used: it would wait for the thread to begin, and forks by user code would miss the
    # thread.
    _thread.start_new_thread(watch, ())


def leave(status: int = 0) -> NoReturn:
    """End the process without the exit code of the parent's interpreter (`atexit` hooks and finalisers)."""
    flush_streams()
    os._exit(status)
