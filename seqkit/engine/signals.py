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
        if callable(handler):
            self._handler = handler
            try:
                signal.signal(signal.SIGINT, self._note)
            except ValueError:  # this is not the main thread
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


class SignalsHeld(CtrlCHeld):
    """Delay Ctrl-C, and block all signals of this thread, until processes that start in the block are set up.

    The processes inherit the blocked signals. They then unblock them with `mask`, which is the former mask of
    this thread. No handler of this program runs in them.
    """

    __slots__ = ("mask",)

    def __enter__(self) -> None:
        self.mask = {int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())}
        super().__enter__()

    def __exit__(self, *_: object) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        finally:
            super().__exit__()
