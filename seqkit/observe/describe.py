"""Describe a source in a few words, without reading an item: shape and dtype, columns, files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ..core.errors import brief
from ..core.source import Source
from ..core.tracebacks import place
from ..core.units import size
from ..core.view import View, name_of

__all__ = ["describe", "file_of", "functions", "is_stale", "place_of"]

# Attributes with the names of columns, of tables and of readers of files.
_COLUMNS = ("column_names", "columns", "_names", "_columns")
# Attributes with the file, or the files, of arrays, readers and views.
_FILES = ("filename", "_path", "_paths", "path")
_MOST_NAMES = 6


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
    found = _shape(data) or _columns(data) or _first(data)
    file = file_of(data)
    return [*found, f"file {file}"] if file else found


def _shape(data: Any) -> list[str]:
    shape, dtype = getattr(data, "shape", None), getattr(data, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return []
    text = f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    nbytes = getattr(data, "nbytes", None)
    return [text, size(nbytes)] if isinstance(nbytes, int) else [text]


def _columns(data: Any) -> list[str]:
    for name in _COLUMNS:
        names = getattr(data, name, None)
        if names is not None and not callable(names) and not hasattr(names, "dtype"):
            return [_names(list(names))]
        if names is not None and hasattr(names, "tolist"):  # an index of pandas
            return [_names(names.tolist())]
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
    opening = getattr(getattr(data, "_open_fn", None), "args", None)  # of a file that is not open yet
    if opening and isinstance(opening[0], list | tuple) and opening[0]:
        return _named(opening[0])
    for owner in (data, *(getattr(data, name, None) for name in ("base", "file", "store_path"))):
        for name in _FILES:
            found = getattr(owner, name, None)
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
    code = getattr(_inner(function), "__code__", None)
    return "" if code is None else place(code.co_filename, code.co_firstlineno)


def is_stale(function: Callable[..., Any]) -> bool:
    """Return whether a function was defined again with other code, in its module or notebook.

    >>> is_stale(is_stale), is_stale(abs)
    (False, False)
    """
    old = inspect.unwrap(_inner(function))
    if not isinstance(old, FunctionType) or old.__qualname__ != old.__name__:
        return False
    new = inspect.unwrap(_inner(old.__globals__.get(old.__name__)))
    if not isinstance(new, FunctionType) or new.__code__ == old.__code__:
        return False
    return new.__module__ == old.__module__ and new.__name__ == old.__name__


def _inner(function: Any) -> Any:
    """Return the function of a partial, of `starmap` or of a decorator."""
    for name in ("func", "f", "__wrapped__"):
        while not hasattr(function, "__code__") and callable(getattr(function, name, None)):
            function = getattr(function, name)
    return function
