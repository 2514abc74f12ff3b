"""Frames: show users the lines of their own code, in tracebacks, in warnings and in the texts of errors."""

from __future__ import annotations

import gc
import linecache
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

__all__ = [
    "frames_of_others",
    "hide_frames",
    "hiding_frames",
    "place",
    "user_line",
    "warn",
    "with_sources",
]

P = ParamSpec("P")
R = TypeVar("R")

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TESTING = _HERE + "testing" + os.sep
# Code that runs between a frame of seqkit and a frame of the user. Elsewhere it is the user's choice.
_STANDARD = os.path.dirname(os.__file__)
_CARRIERS = tuple(os.path.join(_STANDARD, name, "") for name in ("concurrent", "multiprocessing"))
# A line of a formatted traceback, and the source line under it.
_ENTRY = re.compile(r'^([ |]*)File "(.+?)", line (\d+)(.*)(\n\1  .*)?', re.MULTILINE)


def hide_frames(error: BaseException) -> None:
    """Remove the frames of seqkit from the tracebacks of an exception and of its causes.

    The frames of user code stay. Frames of executors and of cloudpickle are removed where seqkit called them.
    Call this function in an ``except`` block at the boundary to user code, followed by a bare ``raise``,
    which adds no frame. The environment variable ``SEQKIT_FULL_TRACEBACKS=1`` keeps all frames.

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
    first, last, is_hidden = None, None, True  # an exception is caught by seqkit, so seqkit was the caller
    while entry is not None:
        filename = entry.tb_frame.f_code.co_filename
        is_hidden = is_ours(filename) or (is_hidden and filename.startswith((*_CARRIERS, _cloudpickle())))
        if not is_hidden:
            first = first or entry
            if last is not None:
                last.tb_next = entry
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    return first


def is_ours(filename: str) -> bool:
    return filename.startswith(_HERE) and not filename.startswith(_TESTING)


class _Ours(dict[str, bool]):
    """Remembers `is_ours` for each file, because building a view asks it for each frame."""

    def __missing__(self, filename: str) -> bool:
        if len(self) > 10_000:  # a notebook has a file for each cell
            self.clear()
        self[filename] = ours = is_ours(filename)
        return ours


ours = _Ours()


def _cloudpickle() -> str:
    module = sys.modules.get("cloudpickle")
    return os.path.dirname(module.__file__ or _HERE) + os.sep if module else _HERE


def user_line(depth: int) -> tuple[str, int, str]:
    """Return file, line and function of the innermost frame of user code."""
    frame = _user_frame(depth + 1)
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _user_frame(depth: int) -> FrameType:
    """Return the innermost frame of user code, or the outermost frame if there is none."""
    frame = sys._getframe(depth + 1)
    while ours[frame.f_code.co_filename] and (outer := frame.f_back) is not None:
        frame = outer
    return frame


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


def warn(text: str, category: type[Warning]) -> None:
    """Issue a warning that points at the line of user code that called seqkit."""
    frame = _user_frame(1)
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})  # Python shows the same warning of a line once
    warnings.warn_explicit(
        text, category, frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), registry
    )


def place(filename: str, line: int) -> str:
    """Return a line of code as users know it: ``train.py:4``, or ``Cell In[3], line 4`` in a notebook.

    >>> place("train.py", 4)
    'train.py:4'
    """
    cell = _cell(filename)
    return f"{cell}, line {line}" if cell else f"{filename}:{line}"


def _cell(filename: str) -> str:
    """Return the name that IPython shows for the file of a cell, or "" for any other file."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(filename)
    return " ".join(name) if name else ""


def with_sources(trace: str) -> str:
    """Name the cells of a notebook in a formatted traceback, and add source lines that it lacks.

    A worker that was not forked has no source lines of cells. This process has them.
    """
    return _ENTRY.sub(_with_source, trace)


def _with_source(entry: re.Match[str]) -> str:
    indent, filename, line, rest, source = entry.groups(default="")
    known = "" if source else linecache.getline(filename, int(line)).strip()
    source = f"\n{indent}  {known}" if known else source
    where = f"{cell}, line {line}" if (cell := _cell(filename)) else f'File "{filename}", line {line}'
    return f"{indent}{where}{rest}{source}"
