"""Describe a source in a few words, without reading an item: shape and dtype, columns, files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import CodeType
from typing import Any

from ..core.errors import brief
from ..core.source import Source
from ..core.tracebacks import place
from ..core.units import size
from ..core.view import View, attribute, name_of
from ..views.starmap import Spread

__all__ = ["describe", "file_of", "functions", "place_of"]

# Attributes with the names of columns, of tables and of readers of files.
_COLUMNS = ("column_names", "columns", "_names", "_columns")
# Attributes with the file, or the files, of arrays, readers and views.
_FILES = ("filename", "_path", "_paths", "path")
_MOST_NAMES = 6
_MOST_WRAPPERS = 16  # around a function


def describe(view: View[Any]) -> list[str]:
    """Return a description of the data below a view without sources. Reads no item and opens no file.

    >>> import numpy as np
    >>> from seqkit.core.source import as_view
    >>> describe(as_view(np.zeros((8, 3), np.float32), "describe"))
    ['float32[8, 3]', '96 bytes']
    """
    if view._sources:
        return []
    data = view._wrapped() if isinstance(view, Source) else view
    try:
        found = _shape(data) or _columns(data) or _first(data)
    except Exception:  # of an object of the user, which may be anything
        found = []
    file = file_of(data)
    return [*found, f"file {file}"] if file else found


def _shape(data: Any) -> list[str]:
    shape, dtype = attribute(data, "shape"), attribute(data, "dtype")
    if not isinstance(shape, tuple) or dtype is None:
        return []
    text = f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    nbytes = attribute(data, "nbytes")
    return [text, size(nbytes)] if isinstance(nbytes, int) else [text]


def _columns(data: Any) -> list[str]:
    for name in _COLUMNS:
        names = attribute(data, name)
        if callable(tolist := attribute(names, "tolist")):  # an index of pandas
            names = tolist()
        if isinstance(names, Collection) and not isinstance(names, str | bytes):
            return [_names(list(names))]
    return []


def _names(names: list[Any]) -> str:
    shown = ", ".join(map(str, names[:_MOST_NAMES])) + (", …" if len(names) > _MOST_NAMES else "")
    return f"columns {shown}"


def _first(data: Any) -> list[str]:
    """Return the first element of a list or tuple. It is in memory already."""
    if type(data) in (list, tuple) and data:
        first = data[0]
        if isinstance(first, str | os.PathLike) and os.path.isabs(first):
            return [f"first: …/{os.path.basename(first)}"]
        return [f"first: {_shape(first)[0] if _shape(first) else brief(first)}"]
    return []


def file_of(data: Any) -> str:
    """Return the name of the file, or of the first of several files, that an object reads; "" if unknown.

    >>> import io
    >>> file_of(io.StringIO())
    ''
    """
    try:
        return _file_of(data)
    except Exception:  # of an object of the user, which may be anything
        return ""


def _file_of(data: Any) -> str:
    opening = attribute(attribute(data, "_open_fn"), "args")  # of a file that is not open yet
    if isinstance(opening, tuple) and opening and isinstance(opening[0], list | tuple) and opening[0]:
        return _named(opening[0])
    for owner in (data, *(attribute(data, name) for name in ("base", "file", "store_path"))):
        for name in _FILES:
            found = attribute(owner, name)
            if isinstance(found, str | os.PathLike) and str(found):
                return os.path.basename(os.fspath(found).rstrip("/")) or str(found)
            if isinstance(found, list | tuple) and found:
                return _named(found)
    return ""


def _named(paths: Sequence[Any]) -> str:
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    return f"{os.path.basename(str(paths[0]))}{more}"


def functions(view: View[Any]) -> list[tuple[str, str]]:
    """Return the names of the user's functions of a view, each with its file and line.

    >>> import seqkit as sk
    >>> functions(sk.smap(abs, range(3))), functions(sk.smap(lambda x: x, range(3)))[0][0]
    ([('abs', '')], '<lambda>')
    """
    return [(name_of(f), place_of(f)) for f in view._functions()]


def place_of(function: Callable[..., Any]) -> str:
    """Return file and line of a function, or "" if it is not written in Python.

    >>> place_of(abs), place_of(describe).rpartition("/")[2].startswith("describe.py:")
    ('', True)
    """
    code = attribute(_inner(function), "__code__")
    return place(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else ""


def _inner(function: Any) -> Any:
    """Return the function of a partial, of `starmap` or of a decorator."""
    for _ in range(_MOST_WRAPPERS):
        is_spread = isinstance(function, Spread)
        name = "func" if isinstance(function, partial) else "f" if is_spread else "__wrapped__"
        inner = attribute(function, name)
        if not callable(inner):
            break
        function = inner
    return function
