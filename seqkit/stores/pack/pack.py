"""`pack`: the items of a sequence in one or two arrays, which processes share without copies."""

from __future__ import annotations

import mmap
import os
from ast import literal_eval
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import brief, fail
from ...core.indices import Indices
from ...core.lengths import UNBOUNDED
from ...core.progress import Progress, check_progress, reporting
from ...core.source import as_view
from ...core.tracebacks import hiding_frames
from ...core.view import Indexable, T, View
from ...core.whole_files import read_buffers, replace_file, write_buffers
from ...core.worker import private_memory
from .lay_out import lay_out
from .layouts import LAYOUTS, Layout

__all__ = ["Pack", "load_packed", "pack"]

_MAGIC = b"\x93SKPACK1"


def pack(sequence: Indexable[T], *, progress: Progress | None = None) -> Pack[T]:
    """Return the view of the same items, all computed now and stored in one or two arrays.

    A forked worker copies the objects of a long list page by page, because it counts references to them. A
    worker that is not forked must unpickle them all. All workers share packed arrays.

    Parameters
    ----------
    sequence : View or indexable
        Not unbounded. Strings, bytes, numpy scalars, and arrays of one dtype that differ only in the length
        of their first dimension are stored directly. Mixtures and other objects are pickled one by one.
        Python numbers are pickled too: make an array of them, whose items are numpy scalars.
    progress : True or callable, optional
        True shows a bar of tqdm. A function is called with the number of items that are stored and
        of all items, which is None if it is unknown.

    Returns
    -------
    Pack
        Read-only. Each access makes a new item of the same type and value. ``nbytes`` is the size in bytes,
        and ``save(path)`` writes a file for `load_packed`.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or is unbounded, if an item cannot be pickled, or for a wrong
        `progress`.

    Notes
    -----
    Per access: 0.1 to 0.4 µs for numpy scalars and strings, a copy of an array (in a process worker
    into shared memory, see `seqkit.empty`), `pickle.loads` for other items. Memory: the bytes of the items.
    Items of different sizes need 4 bytes more each (8 beyond 4 GiB). An array is not copied. Known elsewhere
    as serialized list, ``FlatSerializedArray``.

    Examples
    --------
    >>> names = pack(["ant", "bee", "cicada"])
    >>> names[1], list(names[::-1]), names.nbytes
    ('bee', ['cicada', 'bee', 'ant'], 28)
    """
    source = as_view(sequence, "pack")
    if source._n is UNBOUNDED:
        raise TypeError("pack: the sequence must end, got an unbounded one. Use sequence[:n].")
    check_progress(progress, "pack: progress")
    with hiding_frames(), private_memory(), reporting(progress, "pack") as report:
        return Pack(lay_out(source, report))


def load_packed(path: str | os.PathLike[str]) -> Pack[Any]:
    """Return the view of the packed items in a file, which is mapped into memory.

    Items are read when they are requested. All processes that map the file share its memory.

    Parameters
    ----------
    path : path
        A file written by ``pack(…).save(path)``.

    Returns
    -------
    Pack
        Its pickle is the path, so workers map the file themselves.

    Raises
    ------
    TypeError
        If `path` is not a path.
    OSError
        If the file does not exist or cannot be read.
    ValueError
        If the file is not a file of packed items, is truncated, or has a later format.

    Notes
    -----
    Costs as much as `pack`. Reading pickled items runs code, so load only files that you trust.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack([b"ab", b""]).save(f"{folder}/words")
    ...     list(load_packed(f"{folder}/words"))
    [b'ab', b'']
    """
    path = _absolute(path, "load_packed")
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.read(1) else b""
    try:
        about, *raw = read_buffers(content, _MAGIC)
    except ValueError as error:
        raise ValueError(f"load_packed: {path} {error}") from None
    kind, described = literal_eval(str(about, "utf-8"))
    arrays = [
        np.ndarray(shape, np.lib.format.descr_to_dtype(dtype), buffer)
        for (dtype, shape), buffer in zip(described, raw, strict=True)
    ]
    return Pack(LAYOUTS[kind](*arrays), path)


def _absolute(path: Any, who: str) -> str:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{who}: path must be a path, got {brief(path)}")
    return os.path.abspath(os.path.expanduser(path))


class Pack(View[T]):
    """The view that `pack` and `load_packed` return.

    Attributes
    ----------
    nbytes : int
        Size of the items in bytes.
    """

    def __init__(self, layout: Layout, path: str | None = None) -> None:
        super().__init__((), layout.length)
        self._layout = layout
        self._path = path  # of the file that the arrays are mapped from

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._layout.arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the items to a file for `load_packed`. An existing file is replaced at the end."""
        layout = self._layout
        arrays = [np.ascontiguousarray(values) for values in layout.arrays]
        described = [(np.lib.format.dtype_to_descr(values.dtype), values.shape) for values in arrays]
        about = repr((layout.kind, described)).encode()
        raw = [values.reshape(-1).view(np.uint8).data if values.size else b"" for values in arrays]
        replace_file(_absolute(path, "save"), lambda file: write_buffers(file, _MAGIC, [about, *raw]))

    def _get(self, i: int) -> Any:
        try:
            return self._layout.one(i)
        except Exception as error:
            fail(self, i, error)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if self._layout.kind == "pickled":  # reading an item runs code, which may fail for this item alone
            return super()._getmany(indices)
        return self._layout.many(indices)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is not None:
            return _load_again, (self._path, self._layout.length, self.nbytes)
        layout = self._layout
        return _revive, (layout.kind, layout.arrays, layout.classes)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [f"<{self._layout.length} {self._layout.kind}>"]


def _revive(kind: str, arrays: tuple[Any, ...], classes: tuple[type, ...]) -> Pack[Any]:
    layout = LAYOUTS[kind](*arrays)
    layout.classes = classes
    return Pack(layout)


def _load_again(path: str, length: int, nbytes: int) -> Pack[Any]:
    packed = load_packed(path)
    if (len(packed), packed.nbytes) != (length, nbytes):
        raise ValueError(f"load_packed: {path} is another file than the one that was loaded")
    return packed
