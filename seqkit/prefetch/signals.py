"""Delay Ctrl-C during steps that must not be interrupted, because no later code could finish or undo them.

Guarantees
----------
- Ctrl-C does not interrupt the block. A Ctrl-C that arrives during the block is raised once, after the
  block.
- It is then passed to the user's handler, which has been restored.

Relies on
---------
- Python runs signal handlers only in the main thread.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


class CtrlCHeld:
    """Delay Ctrl-C while a block runs.

    Python raises `KeyboardInterrupt` only in the main thread, no matter which thread gets the signal. So in
    the main thread, a temporary handler records the signal. This is not a generator-based context manager,
    because Ctrl-C could be raised between the generator's code and the block.
    """

    __slots__ = ("_handler", "_noted")

    def __enter__(self) -> None:
        self._handler: Any = None
        self._noted = False
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._handler = handler
            try:
                signal.signal(signal.SIGINT, self._note)
            except ValueError:  # Python's main thread was not the first to import `threading`
                self._handler = None
            except BaseException:  # raised by the handler of another signal
                signal.signal(signal.SIGINT, handler)
                raise

    def _note(self, *_: object) -> None:
        self._noted = True

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            try:
                signal.signal(signal.SIGINT, self._handler)
            except BaseException:  # raised by the handler of another signal
                signal.signal(signal.SIGINT, self._handler)
                raise
            if self._noted:
                signal.raise_signal(signal.SIGINT)


class CtrlCHeldFromChildren(CtrlCHeld):
    """Delay Ctrl-C also for processes that start in the block, until they ignore the signal themselves.

    The processes inherit the delay. If the main thread starts them, they inherit the handler. If another
    thread starts them, they inherit the blocked signal.
    """

    __slots__ = ("_mask",)

    def __enter__(self) -> None:
        self._mask: set[int] | None = None
        if threading.current_thread() is not threading.main_thread():
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        super().__enter__()

    def __exit__(self, *_: object) -> None:
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        super().__exit__()
