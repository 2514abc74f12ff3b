"""Ctrl-C, put off while something is half done that nobody could end or undo.

Guarantees
----------
- no Ctrl-C strikes in the block; one that came strikes when the block is over, once;
- it meets the handler of the user, which stands again by then.

Relies on
---------
- Python running signal handlers in the main thread alone.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


class CtrlCHeld:
    """Puts Ctrl-C off while a block runs.

    Python raises `KeyboardInterrupt` in the main thread alone, whichever thread gets the signal: there a
    handler of ours takes note of it. No generator: Ctrl-C would strike between its code and the block.
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
            except ValueError:  # `threading` was imported by another thread than Python's main one
                self._handler = None
            except BaseException:  # of the handler of another signal
                signal.signal(signal.SIGINT, handler)
                raise

    def _note(self, *_: object) -> None:
        self._noted = True

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            try:
                signal.signal(signal.SIGINT, self._handler)
            except BaseException:  # likewise
                signal.signal(signal.SIGINT, self._handler)
                raise
            if self._noted:
                signal.raise_signal(signal.SIGINT)


class CtrlCHeldFromChildren(CtrlCHeld):
    """Puts Ctrl-C off for processes, too, that begin in the block and have not learnt yet to ignore it.

    They inherit what puts it off here: in the main thread a handler, in others that the signal is blocked.
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
