"""Write all items of a view to a file or folder, in parallel, so that a crash costs only the parts in work.

Each process writes a part as soon as its items are computed. A part that is there is done: the same call
continues with the others.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, dropwhile
from os import PathLike, fspath
from typing import Any, TextIO, TypeAlias

import numpy as np

from ...core.errors import EvaluationError, brief, fail
from ...core.lengths import Unsized
from ...core.progress import Progress, reporting
from ...core.view import View
from ...core.worker import private_memory
from ...engine.prefetch import prefetch
from ...sources.parquet import PLAN
from ...views.bases.order_digest import order_digest
from ..add_cache.memory import size_of
from ..files import refuse_other
from .attempts import LeftOut, OnError, attempt, report_failed
from .npy_file import NpyFile
from .parquet_folder import ParquetFolder

__all__ = ["write"]

Plan: TypeAlias = dict[str, Any]
Target: TypeAlias = NpyFile | ParquetFolder
TARGETS: dict[str, type[Target]] = {".npy": NpyFile, ".parquet": ParquetFolder}
# A part has at most so many items, and so many bytes. A sequence has about so many parts, or more.
PART_ITEMS = 8192
PART_BYTES = 64 * 1024 * 1024
PARTS = 64
# So many items are computed before workers start: the part size follows from their bytes.
FIRST_ITEMS = 4


def write(
    source: View[Any],
    to: str | PathLike[str],
    nworkers: int | None,
    chunk_size: int | None,
    progress: Progress | None,
    method: Any,
    on_error: OnError,
    version: str | int | None,
) -> View[Any]:
    """Write the items of a view to a file, or continue to do so, and return a view of the file."""
    path, suffix = _checked_path(to)
    if on_error == "skip" and suffix == ".npy":
        raise ValueError(
            "materialize: on_error='skip' is for .parquet, got .npy, where each item has its place. Use"
            " fallback(function, sequence)."
        )
    if isinstance(source._n, Unsized):
        raise TypeError(f"materialize: writing needs a length, and there is none: {source._n.reason}")
    n = len(source)
    if not n:
        raise ValueError("materialize: there are no items, so the type of the file is unknown")
    ahead = partial(prefetch, nworkers=nworkers, method=method, in_order=False)
    try:
        ahead([])  # checks the arguments before anything is written
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("prefetch: ", "materialize: ", 1)) from None
    wanted: Plan = {
        "seqkit": 1,
        "n": n,
        "order": order_digest(source, items=True),
        "on_error": on_error,
        "version": version,
    }
    if chunk_size is not None:
        wanted["k"] = chunk_size
    target = TARGETS[suffix](path)
    if not target.is_finished(wanted):
        with locked(target.folder) as file:
            if not target.is_finished(wanted):  # by another process, since
                first: list[Any] = []
                begin = partial(_begin, source, target, wanted, on_error, first)
                plan = agreed(file, wanted, begin, target.folder)
                _write_missing(Parts(source, target, plan, on_error, first), ahead, progress)
                target.finish()
    return target.view()


def _checked_path(to: Any) -> tuple[str, str]:
    """Return an absolute path, and its suffix."""
    if not isinstance(to, str | PathLike) or not isinstance(fspath(to), str):
        raise TypeError(f"materialize: to must be a path that ends in .npy or .parquet, got {brief(to)}")
    path = os.path.abspath(os.path.expanduser(to))
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in TARGETS:
        raise ValueError(
            f"materialize: to must end in .npy or .parquet, got {fspath(to)!r}. Several processes can write"
            " parts of such files only."
        )
    return path, suffix


def _begin(source: View[Any], target: Target, wanted: Plan, on_error: OnError, first: list[Any]) -> Plan:
    """Compute the first items, and return the plan with the size of a part that follows from their bytes."""
    n, found = wanted["n"], dict[int, Any]()
    items = source._iter(range(n))
    with private_memory():
        for i in range(n):
            if i >= FIRST_ITEMS and found:
                break
            first.append(attempt(partial(next, items), on_error))
            if not isinstance(first[i], LeftOut):
                found[i] = first[i]
    if not found:
        report_failed({i: left_out.text for i, left_out in enumerate(first)}, n)
    i = min(found)
    try:
        target.begin(found[i], n)
    except Exception as error:
        fail(source, i, error, "to be written")
    by_bytes = PART_BYTES // max(map(size_of, found.values()))
    return {"k": max(1, min(PART_ITEMS, math.ceil(n / PARTS), by_bytes)), **wanted}


# -------------------------------------------------------------------- the plan

# Seconds. The workers of a program that was killed hold its lock until they end, which they do within 2.
PATIENCE = 3.0


@contextmanager
def locked(folder: str) -> Iterator[TextIO]:
    """Open the file of the plan in a folder, for this process and its workers only.

    If no plan was written, the folder is removed at the end, unless it holds other files.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, PLAN)
    with open(path, "a+", encoding="utf-8") as file:
        _lock(file, folder)
        try:
            yield file
        finally:
            if not os.fstat(file.fileno()).st_size:
                os.unlink(path)
                with suppress(OSError):
                    os.rmdir(folder)


def _lock(file: TextIO, folder: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"materialize: another process is writing to {folder}. Let one process write, or let each"
                    " write a part of its own, such as seqkit.shard(view, rank, world_size)."
                ) from None
            time.sleep(0.05)
        except (ImportError, OSError):  # a system, or a file system, without locks
            return


def agreed(file: TextIO, wanted: Plan, begin: Callable[[], Plan], folder: str) -> Plan:
    """Return the plan in a file, which must have the wanted fields. Begin one if the file is empty."""
    file.seek(0)
    if text := file.read():
        found: Plan = json.loads(text)
        refuse_other(found, wanted, f"materialize: {folder}")
        return found
    made = begin()
    file.write(json.dumps(made))
    file.flush()
    os.fsync(file.fileno())
    return made


# -------------------------------------------------------------------- computing


class Parts(View[Any]):
    """The view whose items write the parts of a target, in any process.

    An item is the number of its part.

    Parameters
    ----------
    source : View
    target : Target
    plan : dict
    on_error : "raise" or "skip"
    first : list
        The first items, as far as they were computed.
    """

    def __init__(
        self, source: View[Any], target: Target, plan: Plan, on_error: OnError, first: list[Any]
    ) -> None:
        super().__init__((source,), math.ceil(plan["n"] / plan["k"]))
        self.target = target
        self.plan = plan
        self._on_error = on_error
        self._first = first

    def positions(self, p: int) -> range:
        k: int = self.plan["k"]
        return range(p * k, min((p + 1) * k, self.plan["n"]))

    def _get(self, p: int) -> int:
        kind, rows, failed = self.target.kind, dict[int, Any](), dict[int, str]()

        def keep() -> LeftOut | None:
            nonlocal kind
            item = next(items)
            if isinstance(item, LeftOut):
                return item
            try:
                kind, rows[i] = self.target.keep(kind, item)
            except Exception as error:
                fail(self._sources[0], i, error, "to be written")
            return None

        positions = self.positions(p)
        known = self._first[positions.start : positions.stop]
        items = chain(known, self._sources[0]._iter(positions[len(known) :]))
        with private_memory():
            for i in positions:
                left_out = attempt(keep, self._on_error)
                if left_out is not None:
                    failed[i] = left_out.text
        self.target.write(p, kind, rows, failed)
        return p

    def _parts(self, p: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self.positions(p)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Parts(sources[0], self.target, self.plan, self._on_error, self._first)


def _write_missing(parts: Parts, ahead: Callable[[View[Any]], Any], progress: Progress | None) -> None:
    """Compute and write the missing parts."""
    target, n = parts.target, parts.plan["n"]
    missing = target.resume(parts.plan)
    done = n - sum(len(parts.positions(p)) for p in missing)
    with reporting(progress, "materialize") as report, ahead(parts._take(np.array(missing, np.intp))) as node:
        written = iter(node)
        for _ in missing:
            try:
                p = next(written)
            except EvaluationError as error:
                found = _of_user(error, parts, node, missing)
                raise found from found.__cause__
            try:
                target.check(p)
            except TypeError:  # another part of another type was written at the same time: name the item
                parts._get(p)
                target.check(p)
            done += len(parts.positions(p))
            report(done, n)


def _of_user(error: EvaluationError, parts: Parts, node: Any, missing: list[int]) -> Exception:
    """Return an error that names views of the user only, or the error of the files."""
    if error.view is not node:
        error.path = tuple(dropwhile(lambda step: step[0] is not parts._sources[0], error.path))
        return error
    if isinstance(error.__cause__, OSError):
        return error.__cause__
    positions = parts.positions(missing[error.index])  # a worker was killed
    text = f"materialize: one of the items {positions[0]} to {positions[-1]}:"
    return type(error)(f"{text} {error.message.partition(': ')[2]}", worker=error.worker)
