"""Frames of other threads, and tracebacks of workers as users know their code."""

from __future__ import annotations

import gc
import linecache
import re
import sys
import threading
from types import FrameType

__all__ = ["frames_of_others", "place", "with_sources"]

# A line of a formatted traceback, and the source line under it.
_ENTRY = re.compile(r'^([ |]*)File "(.+?)", line (\d+)(.*)(\n\1  .*)?', re.MULTILINE)


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
