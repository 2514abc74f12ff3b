"""`pack`: the items of a sequence in one or two arrays, which processes share without copying them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ..context import private_memory
from ..errors import fail
from ..indices import UNBOUNDED, Cursor, Indices, Plan
from ..source import as_view
from ..view import Indexable, T, View
from .lay_out import lay_out
from .layouts import LAYOUTS, Layout
from .packed_file import read_layout, write_layout

__all__ = ["Pack", "load_packed", "pack"]


def pack(sequence: Indexable[T]) -> Pack[T]:
    """Return the view of the same items, all computed now and laid side by side in memory.

    A list of a million objects is a million places that a forked worker writes to when it counts references,
    and so copies; and a million things to pickle for a worker that is not forked. Packed, they are one or two
    arrays, which all workers share.

    Parameters
    ----------
    sequence : View or indexable
        Of items that come to an end. Numbers, strings and bytes are stored as they are, and so are arrays of
        one dtype that differ at most in the length of their first dimension; mixtures, and anything else, are
        pickled one by one.

    Returns
    -------
    Pack
        Read-only. Items are made anew at each access, equal in value and type to the original ones.
        ``nbytes`` says how much memory they take, and ``save(path)`` writes them to a file for `load_packed`.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed or never ends, or an item cannot be pickled.

    Notes
    -----
    Per access: 0.1 to 0.4 µs for numbers and strings, a copy for arrays (right into the slot of a process
    worker, see `seqkit.empty`), `pickle.loads` for the rest. In memory: the bytes of the items, and 4 for
    each place (8 beyond 4 GiB) where sizes differ. A sequence that is an array is taken as it is. Known
    elsewhere as serialized list, ``FlatSerializedArray``.

    Examples
    --------
    >>> names = pack(["ant", "bee", "cicada"])
    >>> names[1], list(names[::-1]), names.nbytes
    ('bee', ['cicada', 'bee', 'ant'], 28)
    """
    source = as_view(sequence, "pack")
    if source._n is UNBOUNDED:
        raise TypeError("pack: the sequence must come to an end, and this one never does")
    with private_memory():
        return Pack(lay_out(source))


def load_packed(path: str | os.PathLike[str]) -> Pack[Any]:
    """Return the view of packed items that lie in a file, mapped into memory.

    Nothing is read before it is asked for, and all processes that read the file share the memory it takes.

    Parameters
    ----------
    path : path
        Of a file written by ``pack(…).save(path)``.

    Returns
    -------
    Pack
        It pickles as the path, so that workers map the file themselves.

    Raises
    ------
    TypeError
        If `path` is no path.
    OSError
        If there is no such file, or it cannot be read.
    ValueError
        If the file is something else, cut off, or of a later format.

    Notes
    -----
    As `pack`. Items that `pickle` has written run code when they are read: load files that you trust.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack([b"ab", b""]).save(f"{folder}/words")
    ...     list(load_packed(f"{folder}/words"))
    [b'ab', b'']
    """
    path = _absolute(path, "load_packed")
    return Pack(read_layout(path), path)


def _absolute(path: Any, who: str) -> str:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{who}: path must be a path, got {path!r}")
    return os.path.abspath(path)


class Pack(View[T]):
    """The view behind `pack` and `load_packed`.

    Attributes
    ----------
    nbytes : int
        Bytes that the items take.
    """

    def __init__(self, layout: Layout, path: str | None = None) -> None:
        super().__init__((), layout.length)
        self._layout = layout
        self._path = path  # of the file that the arrays are mapped from

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._layout.arrays())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the items to a file for `load_packed`; one that exists is replaced once all is written."""
        write_layout(self._layout, _absolute(path, "save"))

    def _get(self, i: int) -> Any:
        try:
            return self._layout.one(i)
        except Exception as error:
            fail(self, i, error)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if self._layout.runs_code:
            return super()._getmany(indices)
        return self._layout.many(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if self._layout.runs_code or not self._layout.small:
            return super()._iter(plan)
        return chain.from_iterable(map(self._layout.many, _blocks(plan)))

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is not None:
            return _load_again, (self._path, self._layout.length, self.nbytes)
        layout = self._layout
        return _revive, (layout.kind, layout.arrays(), layout.classes)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [f"<{self._layout.length} {self._layout.describe()}>"]


def _blocks(plan: Plan) -> Iterator[Indices]:
    cursor, size = Cursor(plan), 32
    while len(block := cursor.take(size)):
        yield block
        size = 1024


def _revive(kind: str, arrays: tuple[Any, ...], classes: tuple[type, ...]) -> Pack[Any]:
    layout = LAYOUTS[kind](*arrays)
    layout.classes = classes
    return Pack(layout)


def _load_again(path: str, length: int, nbytes: int) -> Pack[Any]:
    packed = load_packed(path)
    if (len(packed), packed.nbytes) != (length, nbytes):
        raise ValueError(f"load_packed: {path} is another file than the one that was loaded")
    return packed
