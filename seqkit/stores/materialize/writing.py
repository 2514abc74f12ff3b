"""Write all items of a view to a file, in parallel, so that a crash loses only the items in work.

Each process writes an item as soon as it is computed, into the folder ``<path>.partial``. The folder becomes
the result when all items are there. Until then the same call continues where the last one ended.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import dropwhile
from os import PathLike, fspath
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.casting import int_changed, lost_missing
from ...core.errors import EndOfSequence, EvaluationError, as_given, fail, summary
from ...core.indices import Plan, Unsized
from ...core.iteration import surviving
from ...core.progress import Progress, Report, reporting
from ...core.view import View
from ...core.worker import private_memory
from ...prefetch import prefetch
from ...sources.handles import Handles
from ...sources.npy import npy
from ...sources.parquet import parquet
from ...sources.row_types import KEY, encoded, is_complete, joined, type_of
from ..directory import replace_file
from .journal import Journal, Records, write_all
from .materialize import OnError, report_failed, tolerating

__all__ = ["write"]

PART_ROWS = 8192
PART_BYTES = 64 * 1024 * 1024
FORMAT = 2  # of the folder
_END: Any = object()


def write(
    source: View[Any],
    to: str | PathLike[str],
    nworkers: int | None,
    chunk_size: int | None,
    progress: Progress | None,
    method: Any,
    on_error: OnError,
) -> View[Any]:
    """Write the items of a view to a file, or continue to do so, and return a view of the file."""
    path = _checked_path(to)
    if isinstance(source._n, Unsized):
        raise TypeError(f"materialize: writing needs a length, and there is none: {source._n.reason}")
    if not source._n:
        raise ValueError("materialize: there are no items, so the type of the file is unknown")
    ahead = partial(prefetch, nworkers=nworkers, method=method, in_order=False)
    try:
        ahead([])  # checks the arguments before anything is written
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("prefetch: ", "materialize: ", 1)) from None
    with _alone(f"{path}.partial") as folder:
        target = WRITERS[_suffix(path)](source, path, folder, chunk_size)
        written = Written(source, target)
        with reporting(progress, "materialize") as report:
            failed = target.start(on_error)
            failed |= _write_missing(written, ahead, on_error, report)
        report_failed(failed, target.n)
        target.complete(np.delete(np.arange(target.n), list(failed)), ahead)
        shutil.rmtree(folder, ignore_errors=True)  # a worker of a killed call may still be writing
    return target.view()


def _suffix(path: str) -> str:
    return os.path.splitext(path.rstrip(os.sep))[1].lower()


def _checked_path(to: Any) -> str:
    if not isinstance(to, str | PathLike) or not isinstance(fspath(to), str):
        raise TypeError(f"materialize: to must be a path that ends in .npy or .parquet, got {as_given(to)}")
    path = os.path.abspath(to)
    suffix = _suffix(path)
    if suffix not in WRITERS:
        hint = ELSEWHERE.get(suffix, "")
        raise ValueError(f"materialize: to must end in .npy or .parquet, got {fspath(to)!r}{hint}")
    if os.path.lexists(path):
        raise FileExistsError(
            f"materialize: {fspath(to)!r} exists already. Delete it, or write somewhere else."
        )
    return path


_SERIAL = (
    ". Processes cannot write such a file in parallel. Use .npy for arrays of one shape, .parquet for dicts"
    " or tuples of arrays, numbers and text"
)
ELSEWHERE = {".h5": _SERIAL, ".hdf5": _SERIAL, ".zarr": _SERIAL, ".npz": _SERIAL}


@contextmanager
def _alone(folder: str) -> Iterator[str]:
    """Make a folder that only this process may write to, with its workers. Remove it if nothing was begun."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "ab") as file:
        try:
            import fcntl

            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise RuntimeError(
                f"materialize: another process is writing to {folder}. Let one process write, or let each"
                " write a part of its own, such as seqkit.shard(view, rank, world_size)."
            ) from None
        except (ImportError, OSError):  # a system, or a file system, without locks
            pass
        try:
            yield folder
        finally:
            if not os.path.exists(os.path.join(folder, "plan.json")):
                shutil.rmtree(folder, ignore_errors=True)


# -------------------------------------------------------------------- computing

Ahead: TypeAlias = Callable[[View[Any]], Any]


class Written(View[int]):
    """The view whose items write the items of a view, in any process, and are their indices."""

    def __init__(self, source: View[Any], target: Target) -> None:
        super().__init__((source,), source._n)
        self.target = target

    def _get(self, i: int) -> int:
        with private_memory():
            self.target.put(i, self._sources[0]._get(i))
        return i

    def _iter(self, plan: Plan) -> Iterator[int]:
        items = self._sources[0]._iter(plan)

        def read(i: int) -> int:
            with private_memory():
                item = next(items, _END)
                if item is _END:
                    raise EndOfSequence(f"the sequence ends before index {i}")
                self.target.put(i, item)
            return i

        return surviving(self, plan, read)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[int]:
        return Written(sources[0], self.target)


def _write_missing(written: Written, ahead: Ahead, on_error: OnError, report: Report) -> dict[int, str]:
    """Compute the missing items. Return the errors of items that failed, by index, if they are skipped."""
    target, failed = written.target, dict[int, str]()
    todo = np.flatnonzero(~target.done())
    done = target.n - len(todo)
    report(done, target.n)
    with ahead(written._take(todo)) as node, tolerating(on_error):
        items = iter(node)
        for k in range(len(todo)):
            if k == 1:
                target.prepare()  # while workers compute
            try:
                next(items)
            except EvaluationError as error:
                i = _index(error, written, node, todo)
                if i is None:
                    raise
                error = _of_user(error, i, written, node)
                if on_error == "raise":
                    raise error from error.__cause__
                _recover(target, i, error, on_error, failed)
            done += 1
            report(done, target.n)
    return failed


def _index(error: EvaluationError, written: Written, node: Any, todo: Any) -> int | None:
    """Return the index of the item that failed."""
    for view, i in ((error.view, error.index), *error.path):
        if view is written:
            return int(i)
        if view is node:  # a worker was killed
            return int(todo[i])
    return None


def _of_user(error: EvaluationError, i: int, written: Written, node: Any) -> EvaluationError:
    """Return an error that names the views of the user only."""
    if error.view is node:
        text = f"materialize: item {i}: {error.message.partition(': ')[2]}"
        return type(error)(text, worker=error.worker)
    error.path = tuple(dropwhile(lambda step: step[0] is not written._sources[0], error.path))
    return error


def _recover(
    target: Target, i: int, error: EvaluationError, on_error: OnError, failed: dict[int, str]
) -> None:
    if callable(on_error):
        target.put(i, on_error(error))
    else:
        failed[i] = summary(error.__cause__ or error)


# -------------------------------------------------------------------- writers


class Target(ABC):
    """Writes the items of a view, each as soon as it is computed.

    Parameters
    ----------
    source : View
    path : str
        Where the result belongs.
    folder : str
        Where it is written.
    chunk_size : int or None
        Rows of a Parquet file.
    """

    def __init__(self, source: View[Any], path: str, folder: str, chunk_size: int | None) -> None:
        self.source = source
        self.n: int = len(source)
        self.path = path
        self.folder = folder
        self.chunk_size = chunk_size
        self.about: dict[str, Any] = {"format": FORMAT, "items": self.n, "expression": repr(source)}
        self.first = 0  # the first item that did not fail

    def start(self, on_error: OnError) -> dict[int, str]:
        """Write the first item, or check that it is that of the folder. Return errors of items before it."""
        try:
            with open(self.within("plan.json")) as file:
                plan = json.load(file)
        except FileNotFoundError:
            return self._begin(on_error)
        self._resume(plan)
        return {}

    def _begin(self, on_error: OnError) -> dict[int, str]:
        failed: dict[int, str] = {}
        item = self._first_item(on_error, failed)
        for name in os.listdir(self.folder):
            if name != "lock":  # files of a call that was killed before its plan was written
                os.unlink(self.within(name))
        self.begin(item)
        self.put(self.first, item)
        self._save_plan()
        return failed

    def _first_item(self, on_error: OnError, failed: dict[int, str]) -> Any:
        with private_memory(), tolerating(on_error):
            while True:
                try:
                    return self.source._get(self.first)
                except EvaluationError as error:
                    if callable(on_error):
                        return on_error(error)
                    if on_error == "raise" or self.first == self.n - 1:
                        raise
                    failed[self.first] = summary(error.__cause__ or error)
                    self.first += 1

    def _save_plan(self) -> None:
        plan = {**self.about, "chunk_size": self.chunk_size, "first": self.first, "type": self.type()}
        text = json.dumps(plan).encode()
        replace_file(self.within("plan.json"), lambda file: file.write(text))

    def _resume(self, plan: dict[str, Any]) -> None:
        if plan.get("format") != FORMAT:
            raise ValueError(
                f"materialize: {self.folder} was begun by another version of seqkit. Delete it to begin"
                " again."
            )
        same = {name: plan[name] for name in self.about} == self.about
        if not same or self.chunk_size not in (None, plan["chunk_size"]):
            rows = f" in pieces of {plan['chunk_size']}" if plan["chunk_size"] else ""
            raise ValueError(
                f"materialize: {self.folder} holds a part of {plan['expression']}, {plan['items']} items"
                f"{rows}. Delete it to write {self.about['expression']}."
            )
        self.chunk_size, self.first = plan["chunk_size"], plan["first"]
        self.resume(plan["type"])
        with private_memory():
            found = self.source._get(self.first)
        if not _alike(self.stored(self.first), self.as_stored(found)):
            raise ValueError(
                f"materialize: item {self.first} differs from the item {self.first} in {self.folder}. The"
                " function or the data has changed, or items are random without a seed. Delete the folder to"
                " begin again."
            )

    def within(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def refuse(self, i: int, reason: str) -> NoReturn:
        fail(self.source, i, ValueError(reason), "to be written")

    def as_stored(self, item: Any) -> Any:
        return item

    def prepare(self) -> None:  # noqa: B027
        """Do what `complete` needs and takes time."""

    @abstractmethod
    def type(self) -> Any:
        """Return the type of items, as a value of JSON."""

    @abstractmethod
    def begin(self, first: Any) -> None:
        """Find the type of items by the first one."""

    @abstractmethod
    def resume(self, kind: Any) -> None:
        """Take the type of the items that were written."""

    @abstractmethod
    def stored(self, i: int) -> Any:
        """Return an item that was written."""

    @abstractmethod
    def put(self, i: int, item: Any) -> None:
        """Write an item, in any process. It survives if the process is killed afterwards."""

    @abstractmethod
    def done(self) -> npt.NDArray[np.bool_]:
        """Return which items are written."""

    @abstractmethod
    def complete(self, kept: npt.NDArray[np.intp], ahead: Ahead) -> None:
        """Move the result, with the items at some indices, to its place."""

    @abstractmethod
    def view(self) -> View[Any]:
        """Return a view of the result."""


def _alike(a: Any, b: Any) -> bool:
    """Return whether two results of a computation are equal. Sums of floats may be rounded otherwise."""
    if type(a) is not type(b) and not (isinstance(a, dict | list) and isinstance(b, dict | list)):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, np.ndarray | np.generic):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        if a.dtype.kind in "fc":
            return bool(np.allclose(a, b, rtol=1e-3, equal_nan=True))
        return bool(a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-3) or (a != a and b != b)
    return bool(a == b)


class NpyWriter(Target):
    """Writes arrays of one shape and dtype at their places in a file, and marks them in another one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._data = Handles(partial(open, self.within("data.npy"), "r+b", 0))
        self._marks = Handles(partial(open, self.within("done"), "r+b", 0))

    def type(self) -> None:
        return None

    def begin(self, first: Any) -> None:
        array = self._as_array(first)
        if array is None:
            kind = type(first).__name__
            raise TypeError(
                f"materialize: .npy needs numbers or arrays of numbers, got {kind}. Use .parquet for dicts,"
                " tuples and text."
            )
        self._dtype, self._shape = array.dtype, array.shape
        with open(self.within("data.npy"), "wb") as file:
            _write_header(file, self.n, array)
            self._start = file.tell()
            file.truncate(self._start + self.n * array.nbytes)
        with open(self.within("done"), "wb") as file:
            file.truncate(self.n)

    def resume(self, kind: Any) -> None:
        if os.path.getsize(self.within("done")) != self.n:
            raise ValueError(
                f"materialize: {self.within('done')} is damaged. Delete {self.folder} to begin again."
            )
        data = np.load(self.within("data.npy"), mmap_mode="r")  # raises ValueError if it is too short
        self._dtype, self._shape, self._start = data.dtype, data.shape[1:], data.offset

    @staticmethod
    def _as_array(item: Any) -> Any:
        """Return an item as an array, or None if the array would not say the same."""
        if not isinstance(
            item, int | float | complex | str | bytes | list | np.ndarray | np.generic
        ) and not (hasattr(item, "__array__")):
            return None
        if hasattr(item, "mask") or hasattr(item, "unit") or hasattr(item, "units"):
            return None
        try:
            array = np.asarray(item)
        except (TypeError, ValueError, RuntimeError):
            return None
        is_changed = lost_missing(item, array) or (
            isinstance(item, list) and int_changed(item, array) is not None
        )
        if array.dtype.kind in "SU" and isinstance(item, str | bytes | list):
            is_changed = array.tolist() != item  # numpy drops zero bytes at the end
        return None if is_changed or array.dtype.hasobject or not array.dtype.itemsize else array

    def as_stored(self, item: Any) -> Any:
        return self._as_array(item)

    def stored(self, i: int) -> Any:
        return np.asarray(np.load(self.within("data.npy"), mmap_mode="r")[i])

    def put(self, i: int, item: Any) -> None:
        value = self._as_array(item)
        if value is None or value.shape != self._shape or value.dtype != self._dtype:
            found = type(item).__name__ if value is None else f"{value.dtype} {value.shape}"
            self.refuse(
                i,
                f"items must have one shape and dtype. Item {self.first} is {self._dtype} {self._shape}, item"
                f" {i} is {found}",
            )
        if value.nbytes:
            raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            self._data.call(write_all, raw, self._start + i * value.nbytes)
        self._marks.call(write_all, b"\1", i)

    def done(self) -> npt.NDArray[np.bool_]:
        return np.fromfile(self.within("done"), np.uint8).astype(bool)

    def complete(self, kept: npt.NDArray[np.intp], ahead: Ahead) -> None:
        missing = kept[~self.done()[kept]]
        if len(missing):
            raise RuntimeError(f"materialize: items {missing.tolist()} of {self.path} are missing")
        name = self.within("data.npy") if len(kept) == self.n else self._without_failed(kept)
        np.load(name, mmap_mode="r")  # raises ValueError if the file is too short
        os.replace(name, self.path)

    def _without_failed(self, kept: npt.NDArray[np.intp]) -> str:
        name = self.within("kept.npy")
        data = np.load(self.within("data.npy"), mmap_mode="r")
        shape = (len(kept), *self._shape)
        left = np.lib.format.open_memmap(name, "w+", self._dtype, shape)
        rows = max(1, PART_BYTES // max(data[0].nbytes, 1))
        for start in range(0, len(kept), rows):
            left[start : start + rows] = data[kept[start : start + rows]]
        left.flush()
        return name

    def view(self) -> View[Any]:
        return npy(self.path)


def _write_header(file: Any, n: int, first: Any) -> None:
    described = np.lib.format.dtype_to_descr(first.dtype)
    header = {"descr": described, "fortran_order": False, "shape": (n, *first.shape)}
    np.lib.format.write_array_header_2_0(file, header)


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
        self._journal = Journal(self.folder)
        self._kind: Any = None
        self._kind = self._type_of(self.first, first)

    def resume(self, kind: Any) -> None:
        self._journal = Journal(self.folder)
        self._kind = kind

    def prepare(self) -> None:
        import pyarrow.parquet  # noqa: F401

    def stored(self, i: int) -> Any:
        return Records.of(self.folder, self.n).read([i])[0]

    def put(self, i: int, item: Any) -> None:
        self._type_of(i, item)
        self._journal.put(i, item)

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
                for _ in node:
                    pass
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


class Parts(View[int]):
    """The view whose items write the files of a Parquet folder, each in one row group."""

    def __init__(self, target: ParquetWriter, records: Records, pieces: list[list[int]], kind: Any) -> None:
        super().__init__((target.source,), len(pieces))
        self._target = target
        self._records = records
        self._pieces = pieces
        self._kind = kind
        self.folder = target.within("parts")

    def _path(self, k: int) -> str:
        return os.path.join(self.folder, f"part-{k:06}.parquet")

    def _get(self, k: int) -> int:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        indices = self._pieces[k]
        items = self._records.read(indices)
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
        write_table(table.replace_schema_metadata({KEY: about}), draft, row_group_size=len(items))
        os.replace(draft, self._path(k))
        return k

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

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[int]:
        return self


WRITERS: dict[str, Callable[[View[Any], str, str, int | None], Target]] = {
    ".npy": NpyWriter,
    ".parquet": ParquetWriter,
}
