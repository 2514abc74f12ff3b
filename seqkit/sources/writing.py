"""Write all items of a view to a file, in parallel, so that a crash loses only the pieces in progress.

Pieces are written into ``<path>.partial``. The folder becomes the result when all pieces are there and their
sizes are right. Until then the same call continues where the last one ended.
"""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile
from os import PathLike, fspath
from typing import Any, NoReturn

import numpy as np

from ..context import private_memory
from ..errors import EvaluationError, fail
from ..indices import Unsized
from ..prefetch import prefetch
from ..view import View
from ..views.stores import replace_file
from .files import Progress
from .npy import npy
from .parquet import parquet

__all__ = ["write"]

PIECE_BYTES = 8 * 1024 * 1024
PIECE_ROWS = 8192


def write(
    source: View[Any],
    to: str | PathLike[str],
    nworkers: int | None,
    chunk_size: int | None,
    progress: Progress | None,
) -> View[Any]:
    """Write the items of a view to a file, or continue to do so, and return a view of the file."""
    path = fspath(to)
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in WRITERS:
        raise ValueError(f"materialize: to must end in .npy or .parquet, got {path!r}")
    if os.path.exists(path):
        raise FileExistsError(f"materialize: {path!r} exists already. Delete it, or write somewhere else.")
    if isinstance(source._n, Unsized):
        raise TypeError(f"materialize: writing needs a length, and there is none: {source._n.reason}")
    if not source._n:
        raise ValueError("materialize: there are no items, so the type of the file is unknown")
    prefetch([], nworkers, "process")  # checks the argument before anything is written
    with private_memory():
        writer = WRITERS[suffix](source, path, chunk_size)
    pieces = Pieces(writer)
    try:
        _write_missing(pieces, nworkers, progress or (lambda done, total: None))
    except EvaluationError as error:
        raise pieces.without_pieces(error) from error.__cause__
    return writer.complete()


def _write_missing(pieces: Pieces, nworkers: int | None, progress: Progress) -> None:
    writer = pieces.writer
    done = writer.n - sum(map(writer.rows_of, pieces.numbers))
    with prefetch(pieces, nworkers, "process", in_order=False, chunk_size=1) as ahead:
        progress(done, writer.n)
        for k in ahead:
            writer.finished(k)
            done += writer.rows_of(k)
            progress(done, writer.n)


class Pieces(View[int]):
    """The view whose items write the missing pieces, in any process, and are the numbers of these pieces."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.numbers = writer.missing()
        super().__init__((writer.source,), len(self.numbers))

    def _get(self, i: int) -> int:
        self.writer.write_piece(self.numbers[i])
        return self.numbers[i]

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self.writer.indices(self.numbers[i])),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[int]:
        return self

    def without_pieces(self, error: EvaluationError) -> EvaluationError:
        """Return an error that names items, because users do not know pieces."""
        # The node that computes pieces failed: a worker was killed, or the disk is full.
        if error.view is not None and error.view._sources == (self,):
            indices = self.writer.indices(self.numbers[error.index])
            what = error.message.partition(": ")[2]
            text = f"materialize: items {indices[0]} to {indices[-1]} are written together: {what}"
            return type(error)(text, worker=error.worker)
        error.path = tuple(dropwhile(lambda step: step[0] is not self.writer.source, error.path))
        return error


class Writer(ABC):
    """Writes the items of a view in pieces.

    Parameters
    ----------
    source : View
    path : str
    chunk_size : int or None
        Items per piece, of a new file.
    """

    def __init__(self, source: View[Any], path: str, chunk_size: int | None) -> None:
        self.source = source
        self.n = len(source)
        self.path = path
        self.folder = f"{path}.partial"
        self._about = {"items": self.n, "expression": repr(source)}
        try:
            with open(os.path.join(self.folder, "plan.json")) as file:
                plan = json.load(file)
        except FileNotFoundError:
            self._begin(chunk_size)
        else:
            self._resume(plan, chunk_size)

    def _begin(self, chunk_size: int | None) -> None:
        first = self.source[0]
        self.chunk_size = chunk_size or self.suitable(first)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.begin([first, *self.source._getmany(self.indices(0)[1:])])
        self.finished(0)
        # Without this file, the folder is begun again.
        plan = json.dumps({**self._about, "chunk_size": self.chunk_size}).encode()
        replace_file(os.path.join(self.folder, "plan.json"), lambda file: file.write(plan))

    def _resume(self, plan: dict[str, Any], chunk_size: int | None) -> None:
        self.chunk_size = plan.pop("chunk_size")
        if plan != self._about or chunk_size not in (None, self.chunk_size):
            raise ValueError(
                f"materialize: {self.folder} holds a part of {plan['expression']}, {plan['items']} items in"
                f" pieces of {self.chunk_size}. Delete it to write {self._about['expression']}."
            )
        self.resume()
        if not self.begins_with(self.source[0]):
            raise ValueError(
                f"materialize: item 0 differs from the item 0 in {self.folder}. The function or the data has"
                " changed, or items are random without a seed. Delete the folder to begin again."
            )

    @property
    def pieces(self) -> range:
        return range(-(-self.n // self.chunk_size))

    def indices(self, k: int) -> range:
        return range(self.n)[k * self.chunk_size : (k + 1) * self.chunk_size]

    def rows_of(self, k: int) -> int:
        return len(self.indices(k))

    def write_piece(self, k: int) -> None:
        with private_memory():
            self.write(k, self.source._getmany(self.indices(k)))

    def refuse(self, i: int, reason: str) -> NoReturn:
        fail(self.source, i, ValueError(reason), "to be written")

    @abstractmethod
    def suitable(self, first: Any) -> int:
        """Return how many items a piece should have."""

    @abstractmethod
    def begin(self, items: Sequence[Any]) -> None:
        """Find the type of the file by the items of piece 0, and write them."""

    @abstractmethod
    def resume(self) -> None:
        """Find the type of the file by the pieces that were written."""

    @abstractmethod
    def begins_with(self, first: Any) -> bool:
        """Is this the item 0 that was written?"""

    @abstractmethod
    def write(self, k: int, items: Sequence[Any]) -> None:
        """Write a piece, in any process."""

    @abstractmethod
    def missing(self) -> list[int]:
        """Return the numbers of the pieces that are not complete."""

    @abstractmethod
    def finished(self, k: int) -> None:
        """Note that a piece is written. Called in the process of the caller."""

    @abstractmethod
    def complete(self) -> View[Any]:
        """Check the sizes, move the result to its place and return a view of it."""


class NpyWriter(Writer):
    """Writes arrays of one shape and dtype. Workers write their pieces into one mapped file."""

    @property
    def _data(self) -> str:
        return os.path.join(self.folder, "data.npy")

    @property
    def _marks(self) -> str:
        return os.path.join(self.folder, "done")

    def suitable(self, first: Any) -> int:
        return max(1, PIECE_BYTES // max(np.asarray(first).nbytes, 1))

    def begin(self, items: Sequence[Any]) -> None:
        first = np.asarray(items[0])
        if first.dtype.hasobject:
            raise TypeError(
                f"materialize: .npy needs numbers or arrays of numbers, got {type(items[0]).__name__}"
            )
        shape = (self.n, *first.shape)
        np.lib.format.open_memmap(self._data, "w+", first.dtype, shape).flush()
        with open(self._marks, "wb") as file:
            file.truncate(len(self.pieces))
        self.write(0, items)

    def resume(self) -> None:
        if os.path.getsize(self._marks) != len(self.pieces):
            raise ValueError(f"materialize: {self._marks} is damaged. Delete {self.folder} to begin again.")

    def begins_with(self, first: Any) -> bool:
        stored, found = np.load(self._data, mmap_mode="r")[0], np.asarray(first)
        if (found.shape, found.dtype) != (stored.shape, stored.dtype):
            return False
        if found.dtype.kind in "fc":  # sums of floats may be rounded in another order
            return bool(np.allclose(found, stored, rtol=1e-3, equal_nan=True))
        return bool(found.tobytes() == stored.tobytes())

    def write(self, k: int, items: Sequence[Any]) -> None:
        array = np.load(self._data, mmap_mode="r+")
        for i, item in zip(self.indices(k), items, strict=True):
            value = np.asarray(item)
            if value.shape != array.shape[1:] or value.dtype != array.dtype:
                self.refuse(
                    i,
                    f"items must have one shape and dtype. Item 0 is {array.dtype} {array.shape[1:]},"
                    f" item {i} is {value.dtype} {value.shape}",
                )
            array[i] = value

    def missing(self) -> list[int]:
        return np.flatnonzero(np.fromfile(self._marks, np.uint8) == 0).tolist()

    def finished(self, k: int) -> None:
        with open(self._marks, "r+b") as file:
            file.seek(k)
            file.write(b"\1")

    def complete(self) -> View[Any]:
        np.load(self._data, mmap_mode="r")  # raises ValueError if the file is too short
        if self.missing():
            raise RuntimeError(f"materialize: pieces {self.missing()} of {self.path} are missing")
        os.replace(self._data, self.path)
        shutil.rmtree(self.folder)
        return npy(self.path)


class ParquetWriter(Writer):
    """Writes dicts of one schema. Each piece is a file in a folder, in one row group."""

    def suitable(self, first: Any) -> int:
        return PIECE_ROWS

    def _part(self, k: int) -> str:
        return os.path.join(self.folder, f"part-{k:06}.parquet")

    def begin(self, items: Sequence[Any]) -> None:
        self._schema: Any = None
        self.write(0, items)
        self.resume()

    def resume(self) -> None:
        from pyarrow.parquet import read_schema

        self._schema = read_schema(self._part(0))

    def begins_with(self, first: Any) -> bool:
        from pyarrow.parquet import ParquetFile

        if not isinstance(first, dict) or first.keys() != {*self._names} or not self._fits([first]):
            return False
        stored = ParquetFile(self._part(0)).read_row_group(0).slice(0, 1)
        return repr(self._table([first]).to_pylist()) == repr(stored.to_pylist())  # equal for NaN, too

    def _table(self, items: Sequence[Any]) -> Any:
        import pyarrow as pa

        table = pa.Table.from_pylist(items)
        if self._schema is None:
            return table
        # A cast refuses values that it would change, such as 3.5 to an int.
        return table.select(self._schema.names).cast(self._schema)

    def _fits(self, items: Sequence[Any]) -> bool:
        try:
            self._table(items)
        except Exception:
            return False
        return True

    def write(self, k: int, items: Sequence[Any]) -> None:
        from pyarrow.parquet import write_table

        items = list(items)
        self._check_keys(k, items)
        try:
            table = self._table(items)
        except Exception as error:  # name the first item that does not fit those before it
            at = bisect_left(range(1, len(items)), True, key=lambda n: not self._fits(items[:n]))
            fail(self.source, self.indices(k)[at], error, "to be written")
        draft = f"{self._part(k)}.{os.getpid()}"
        write_table(table, draft, row_group_size=len(items))
        os.replace(draft, self._part(k))

    def _check_keys(self, k: int, items: Sequence[Any]) -> None:
        # pyarrow leaves out keys that are not in the schema.
        names = {*(items[0] if self._schema is None and isinstance(items[0], dict) else self._names)}
        for i, item in zip(self.indices(k), items, strict=False):
            if not isinstance(item, dict) or item.keys() != names:
                found = list(item) if isinstance(item, dict) else type(item).__name__
                self.refuse(i, f".parquet needs dicts with the keys of item 0, and item {i} is {found}")

    @property
    def _names(self) -> list[str]:
        return [] if self._schema is None else self._schema.names

    def finished(self, k: int) -> None:
        """Do nothing: a file appears when it is complete."""

    def missing(self) -> list[int]:
        return [k for k in self.pieces if not os.path.exists(self._part(k))]

    def complete(self) -> View[Any]:
        from pyarrow.parquet import read_metadata

        for k in self.pieces:
            if (rows := read_metadata(self._part(k)).num_rows) != self.rows_of(k):
                raise RuntimeError(f"materialize: {self._part(k)} has {rows} rows, not {self.rows_of(k)}")
        os.unlink(os.path.join(self.folder, "plan.json"))
        os.rename(self.folder, self.path)
        return parquet(self.path)


WRITERS: dict[str, Callable[[View[Any], str, int | None], Writer]] = {
    ".npy": NpyWriter,
    ".parquet": ParquetWriter,
}
