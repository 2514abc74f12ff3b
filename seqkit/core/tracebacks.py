"""Frames: show users the lines of their own code, in tracebacks, in warnings and in the texts of errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

__all__ = ["hide_frames", "hiding_frames", "is_ours", "user_line", "warn"]

P = ParamSpec("P")
R = TypeVar("R")

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TESTING = _HERE + "testing" + os.sep


def hide_frames(error: BaseException) -> None:
    """Remove the frames of seqkit from the tracebacks of an exception and of its causes.

    All other frames stay. Call this function in an ``except`` block at the boundary to user code, followed by
    a bare ``raise``, which adds no frame. The environment variable ``SEQKIT_FULL_TRACEBACKS=1`` keeps all
    frames.

    Other interruptions than Ctrl-C keep their frames. They show the place where it happened.
    """
    if not isinstance(error, Exception | KeyboardInterrupt):
        return
    if os.environ.get("SEQKIT_FULL_TRACEBACKS", "0") not in ("", "0"):
        return
    seen: set[int] = set()
    shown: BaseException | None = error
    while shown is not None and id(shown) not in seen:
        seen.add(id(shown))
        BaseException.with_traceback(shown, _of_user(shown.__traceback__))  # works for frozen classes too
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


class hiding_frames:  # noqa: N801 - used like `suppress`
    """Call `hide_frames` for the errors that leave a block, or a decorated function of the public interface.

    A decorated function is called directly, which is cheaper than a block around the call.
    """

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                hide_frames(error)
                raise

        return wrapper

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            hide_frames(error)


def _of_user(entry: TracebackType | None) -> TracebackType | None:
    """Unlink the hidden entries of a traceback, and return its first entry."""
    shown = list[TracebackType]()
    while entry is not None:
        if not is_ours(entry.tb_frame.f_code.co_filename):
            shown.append(entry)
        entry = entry.tb_next
    for one, following in zip(shown, [*shown[1:], None], strict=False):
        one.tb_next = following
    return shown[0] if shown else None


def is_ours(filename: str) -> bool:
    return filename.startswith(_HERE) and not filename.startswith(_TESTING)


def user_line() -> tuple[str, int, str]:
    """Return file, line and function of the innermost frame of user code."""
    frame = _user_frame()
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _user_frame() -> FrameType:
    """Return the innermost frame of user code, or the outermost frame if there is none."""
    frame = sys._getframe()
    while is_ours(frame.f_code.co_filename) and (outer := frame.f_back) is not None:
        frame = outer
    return frame


def warn(text: str, category: type[Warning]) -> None:
    """Issue a warning that points at the line of user code that called seqkit."""
    frame = _user_frame()
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})  # Python shows the same warning of a line once
    warnings.warn_explicit(
        text, category, frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), registry
    )
