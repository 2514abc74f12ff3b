"""Write dicts or tuples to a `.parquet` file or folder: records first, then the files in order."""

import json
import os
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from itertools import dropwhile
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.errors import EvaluationError, fail
from ...core.view import View
from ...sources.parquet import parquet
from ...sources.row_types import KEY, encoded, is_complete, joined, type_of
from .journal import Journal, Records, as_record
from .target import Ahead, Target

__all__ = ["ParquetWriter"]

PART_ROWS = 8192
PART_BYTES = 64 * 1024 * 1024


class ParquetWriter(Target):
    """Writes dicts or tuples of one type: first to journals, and when all are there to files of many rows."""

    def type(self) -> Any:
        return self._kind

    def begin(self, first: Any) -> None:
        if not isinstance(first, dict | tuple):
            raise TypeError(
                f"materialize: .parquet needs dicts or tuples, got {type(first).__name__}. Use .npy for"
                " numbers and arrays, or return {'x': item}."
            )
        if find_spec("pyarrow") is None:
            raise ImportError("materialize: .parquet needs pyarrow. Install it: pip install pyarrow")
        self._journal = Journal(self.folder)
        self._kind: Any = None
        self._kind = self._type_of(self.first, first)
        self._compared = is_complete(self._kind)  # when items are put

    def resume(self, kind: Any) -> None:
        self._journal = Journal(self.folder)
        self._kind = kind
        self._compared = is_complete(kind)

    def prepare(self) -> None:
        with suppress(Exception):  # `complete` raises it
            import pyarrow.parquet

            pyarrow.array([])  # imports pandas, if it is installed

    def stored(self, i: int) -> Any:
        return Records.of(self.folder, self.n).read([i])[0]

    def record(self, i: int, item: Any) -> bytes:
        self._type_of(i, item)
        return as_record(i, item)

    def write(self, i: int, record: bytes) -> None:
        self._journal.append(record)

    def _type_of(self, i: int, item: Any) -> Any:
        """Return the type of all items, with what this one adds to it. Refuse the item if it does not fit."""
        kind = self._kind
        if kind is not None and not _is_row(kind, item):
            wanted = "dicts with the keys" if kind[0] == "dict" else "tuples of the length"
            found = list(item) if isinstance(item, dict | tuple) else type(item).__name__
            self.refuse(i, f".parquet needs {wanted} of item {self.first}, and item {i} is {found}")
        try:
            return joined(kind, type_of(item))
        except (TypeError, ValueError) as error:
            self.refuse(i, f"item {i}{error}" if str(error)[:1] in "[ " else f"item {i}: {error}")

    def done(self) -> npt.NDArray[np.bool_]:
        return Records.of(self.folder, self.n).file >= 0

    def complete(self, kept: npt.NDArray[np.intp], ahead: Ahead) -> None:
        records = Records.of(self.folder, self.n)
        missing = kept[records.file[kept] < 0]
        if len(missing):
            raise RuntimeError(f"materialize: items {missing.tolist()} of {self.path} are missing")
        parts = Parts(self, records, self._pieces(records, kept), self._final_type(records, kept))
        shutil.rmtree(parts.folder, ignore_errors=True)
        os.makedirs(parts.folder)
        with ahead(parts) if len(parts) > 1 else nullcontext(parts) as node:
            try:
                for failure in node:
                    self.check(failure)
            except EvaluationError as error:
                steps = dropwhile(lambda step: step[0] is not self.source, error.path)
                error.path = tuple(steps)
                raise
        parts.check_sizes()
        os.rename(parts.folder, self.path)

    def _pieces(self, records: Records, kept: npt.NDArray[np.intp]) -> list[list[int]]:
        """Return the items of each file."""
        rows = self.chunk_size or PART_ROWS
        pieces: list[list[int]] = []
        size = 0
        for i, nbytes in zip(kept.tolist(), records.nbytes[kept].tolist(), strict=True):
            is_large = self.chunk_size is None and size + nbytes > PART_BYTES
            if not pieces or len(pieces[-1]) == rows or is_large:
                pieces.append([])
                size = 0
            pieces[-1].append(i)
            size += nbytes
        return pieces

    def _final_type(self, records: Records, kept: npt.NDArray[np.intp]) -> Any:
        """Return the type of all items. What the first one leaves open, others say."""
        for start in range(0, len(kept), PART_ROWS):
            if is_complete(self._kind):
                break
            indices = kept[start : start + PART_ROWS].tolist()
            for i, item in zip(indices, records.read(indices), strict=True):
                self._kind = self._type_of(i, item)
        return self._kind

    def view(self) -> View[Any]:
        return parquet(self.path)


def _is_row(kind: Any, item: Any) -> bool:
    if kind[0] == "dict":
        return isinstance(item, dict) and item.keys() == kind[1].keys()
    return type(item) is tuple and len(item) == len(kind[1])


class Parts(View[OSError | None]):
    """The view whose items write the files of a Parquet folder, each in one row group.

    An item is None, or the error of the file, such as of a full disk.
    """

    def __init__(self, target: ParquetWriter, records: Records, pieces: list[list[int]], kind: Any) -> None:
        super().__init__((target.source,), len(pieces))
        self._target = target
        self._records = records
        self._pieces = pieces
        self._kind = kind
        self.folder = target.within("parts")

    def _path(self, k: int) -> str:
        return os.path.join(self.folder, f"part-{k:06}.parquet")

    def _get(self, k: int) -> OSError | None:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        indices = self._pieces[k]
        items = self._records.read(indices)
        if not self._target._compared:
            for i, item in zip(indices, items, strict=True):
                self._target._type_of(i, item)
        try:
            rows = encoded(self._kind, items)
        except Exception as error:  # name the first item that does not fit
            at = bisect_left(range(1, len(items)), True, key=lambda n: not self._fits(items[:n]))
            fail(self._sources[0], indices[at], error, "to be written")
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
        about = json.dumps({"version": 1, "row": self._kind}).encode()
        draft = f"{self._path(k)}.{os.urandom(4).hex()}"
        try:
            write_table(table.replace_schema_metadata({KEY: about}), draft, row_group_size=len(items))
            os.replace(draft, self._path(k))
        except OSError as error:
            return error.with_traceback(None)
        return None

    def _fits(self, items: Sequence[Any]) -> bool:
        try:
            encoded(self._kind, items)
        except Exception:
            return False
        return True

    def check_sizes(self) -> None:
        from pyarrow.parquet import read_metadata

        for k, indices in enumerate(self._pieces):
            if (rows := read_metadata(self._path(k)).num_rows) != len(indices):
                raise RuntimeError(f"materialize: {self._path(k)} has {rows} rows, not {len(indices)}")

    def _parts(self, k: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._pieces[k]),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[OSError | None]:
        return self
