"""`per_process`: files and connections that every worker opens for itself."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast, overload

import numpy as np

from ..core.adapters import as_results, length_of, reads_many, recognise
from ..core.arguments import as_bool, check_callable
from ..core.errors import fail, fail_at_once
from ..core.expression import name_of
from ..core.indices import Indices, as_array, as_list
from ..core.lengths import Unsized
from ..core.source import as_view
from ..core.units import plural, size
from ..core.view import Indexable, T, U, V, View
from ..views.smap import smap
from .files import name_file
from .handles import Handles

__all__ = ["PerProcess", "WithHandle", "open_sequence", "per_process", "read_many"]


@overload
def per_process(
    open_fn: Callable[[], Indexable[T]], read: None = None, items: None = None, *, per_thread: bool = False
) -> View[T]: ...
@overload
def per_process(
    open_fn: Callable[[], V], read: Callable[[V, T], U], items: Indexable[T], *, per_thread: bool = False
) -> View[U]: ...
def per_process(
    open_fn: Callable[[], Any],
    read: Callable[[Any, Any], Any] | None = None,
    items: Indexable[Any] | None = None,
    *,
    per_thread: bool = False,
) -> View[Any]:
    """Return a view of data behind a file or connection that each process opens for itself.

    Nothing is opened until an item or the length is needed. Each process opens its own handle when it first
    reads, also after a fork, and closes it when the worker ends. A pickle holds only the functions.

    Parameters
    ----------
    open_fn : callable
        Opens the file or connection, without arguments: ``lambda: h5py.File(path)["images"]``.
    read : callable, optional
        ``read(handle, item)`` returns an item of the view. None (the default): `open_fn` returns a sequence
        with ``len`` and ``[i]``, or a table, and its items are those of the view.
    items : View or indexable, optional
        Arguments for `read`, such as names, keys or rows of a table. Needed with `read`.
    per_thread : bool
        False (the default): the threads of a process share one handle, and use it one at a time. True: each
        thread opens its own. Needed for `sqlite3`; faster with thread workers.

    Returns
    -------
    View
        With `read`, the view of ``read(handle, item)`` for each of `items`.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or only one of `read` and `items` is given. If `open_fn` returns no
        sequence and there is no `read`: when the length is needed.

    Notes
    -----
    About 0.5 µs more per access than reading by hand. The handle is closed with its ``close`` method, or by
    dropping it if it has none.

    Examples
    --------
    >>> import io, zipfile
    >>> with zipfile.ZipFile(path := getfixture("tmp_path") / "letters.zip", "w") as archive:
    ...     for letter in "abc": archive.writestr(letter, letter * 3)
    >>> letters = per_process(lambda: zipfile.ZipFile(path), zipfile.ZipFile.read, ["b", "c"])
    >>> list(letters)
    [b'bbb', b'ccc']
    >>> list(per_process(lambda: [1, 2, 3])[::-1])
    [3, 2, 1]
    """
    check_callable(open_fn, "per_process: open_fn")
    check_callable(read, "per_process: read", optional=True)
    per_thread = as_bool(per_thread, "per_process: per_thread")
    if (read is None) != (items is None):
        given, missing = ("read", "items") if items is None else ("items", "read")
        raise TypeError(f"per_process: {given} needs {missing}. Pass both, or neither for a sequence.")
    if read is None or items is None:
        return PerProcess(open_fn, per_thread=per_thread)
    return smap(WithHandle(Handles(open_fn, per_thread), read), as_view(items, "per_process"))


class WithHandle:
    """``read(handle, item)`` as a function of `item`. Errors name the file, if there is one."""

    def __init__(self, handles: Handles, read: Callable[[Any, Any], Any], path: str | None = None) -> None:
        self._handles = handles
        self._read = read
        self._path = path
        self.__name__ = name_of(read).removeprefix("_")

    def __call__(self, item: Any) -> Any:
        try:
            return self._handles.call(self._read, item)
        except Exception as error:
            name_file(error, self._path)
            raise


class PerProcess(View[Any]):
    """The view behind `per_process`: the items of a sequence that each process opens.

    With `inheritable`, a forked process uses the sequence of its parent. It must be data in memory. With
    `path`, the sequence is a file of this path: errors name it, and it may be closed between two reads.
    """

    _length_reads = True  # the sequence is opened

    def __init__(
        self,
        open_fn: Callable[[], Any],
        per_thread: bool = False,
        inheritable: bool = False,
        path: str | None = None,
    ) -> None:
        super().__init__(())
        self._open_fn = open_fn
        self._path = path
        is_bounded = path is not None and not inheritable
        self._handles = Handles(partial(open_sequence, open_fn), per_thread, inheritable, is_bounded)

    @property
    def group_sizes(self) -> Any:
        """Rows per group that is read in one piece, as the opened object has it; None if it has none."""
        return self._opening(getattr, "group_sizes", None)

    def _length(self) -> int:
        return int(self._opening(length_of))

    def _opening(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._handles.call(function, *arguments)
        except Exception as error:
            name_file(error, self._path)
            raise

    def _get(self, i: int) -> Any:
        try:
            return self._handles.call(operator.getitem, i)
        except Exception as error:
            name_file(error, self._path)
            fail(self, i, error)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if not len(indices):
            return []
        try:
            many: Sequence[Any] | None = self._handles.call(read_many, indices)
        except Exception as error:
            name_file(error, self._path)
            fail_at_once(self, as_list(indices), error)
        return super()._getmany(indices) if many is None else many

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._open_fn,)

    def _arguments(self, sources: list[str]) -> list[str]:
        path, n = self._path, self._known
        if not path:
            return [name_of(self._open_fn)]
        nbytes = size(os.path.getsize(path)) if os.path.isfile(path) else ""
        about = plural(n, "item") if isinstance(n, int) else nbytes
        return [os.path.basename(path) + (f", {about}" if about else "")]


def open_sequence(open_fn: Callable[[], Any]) -> Any:
    """Open a sequence, which is read by position."""
    opened = open_fn()
    data = recognise(opened, "per_process")
    if not hasattr(data, "__getitem__") or isinstance(length_of(data), Unsized):
        raise TypeError(
            f"per_process: open_fn must return a sequence with len() and [i], got {type(opened).__name__}. To"
            " read from a handle, pass read= and items=."
        )
    return data


def read_many(data: Any, indices: Indices) -> Sequence[Any] | None:
    """Return the items of an opened sequence in one call, or None if it has none for that."""
    if isinstance(data, np.ndarray):
        return cast(Sequence[Any], data[as_array(indices)])
    if not reads_many(data):
        return None
    wanted = as_array(indices) if getattr(data, "takes_arrays", False) else as_list(indices)
    return as_results(data.__getitems__(wanted), len(wanted), "__getitems__")
