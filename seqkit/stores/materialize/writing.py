"""Write all items of a view to a file, in parallel, so that a crash loses only the items in work.

Each process writes an item as soon as it is computed, into the folder ``<path>.partial``. The folder becomes
the result when all items are there. Until then the same call continues where the last one ended.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import dropwhile
from os import PathLike, fspath
from typing import Any

import numpy as np

from ...core.errors import EndOfSequence, EvaluationError, as_given, fail, summary
from ...core.indices import Plan
from ...core.iteration import surviving
from ...core.lengths import Unsized
from ...core.progress import Progress, reporting
from ...core.view import View
from ...core.worker import private_memory
from ...engine.prefetch import prefetch
from ...views.smap import smap
from .failed_items import OnError, report_failed, tolerating
from .target import Ahead, Target

__all__ = ["write"]

_END: Any = object()
# Suffix, and the class of its module that writes such files.
WRITERS = {".npy": "npy_writer.NpyWriter", ".parquet": "parquet_writer.ParquetWriter"}


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
        module, writer = WRITERS[_suffix(path)].split(".")
        target: Target = getattr(import_module(f"{__package__}.{module}"), writer)(
            source, path, folder, chunk_size
        )
        written = Written(source, target)
        failed = target.start(on_error)
        failed |= _write_missing(written, ahead, on_error, progress)
        report_failed(failed, target.n)
        target.complete(np.delete(np.arange(target.n), list(failed)), ahead)
        shutil.rmtree(folder, ignore_errors=True)  # a worker of a killed call may still be writing
    return target.view()


def _suffix(path: str) -> str:
    return os.path.splitext(path.rstrip(os.sep))[1].lower()


def _checked_path(to: Any) -> str:
    if not isinstance(to, str | PathLike) or not isinstance(fspath(to), str):
        raise TypeError(f"materialize: to must be a path that ends in .npy or .parquet, got {as_given(to)}")
    path = os.path.abspath(os.path.expanduser(to))
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


class Written(View[OSError | None]):
    """The view whose items write the items of a view, in any process.

    An item is None, or the error of the files, such as of a full disk. It is returned and not raised, so it
    is never taken for the error of an item, which `on_error` may skip.
    """

    def __init__(self, source: View[Any], target: Target) -> None:
        super().__init__((source,), source._n)
        self.target = target

    def _get(self, i: int) -> OSError | None:
        with private_memory():
            return self.write(i, self._sources[0]._get(i))

    def write(self, i: int, item: Any) -> OSError | None:
        try:
            record = self.target.record(i, item)
        except Exception as error:  # such as one of `__array__` or of pickling
            fail(self._sources[0], i, error, "to be written")
        try:
            self.target.write(i, record)
        except OSError as error:
            return error.with_traceback(None)
        return None

    def _iter(self, plan: Plan) -> Iterator[OSError | None]:
        items = self._sources[0]._iter(plan)

        def read(i: int) -> OSError | None:
            with private_memory():
                item = next(items, _END)
                if item is _END:
                    raise EndOfSequence(f"the sequence ends before index {i}")
                return self.write(i, item)

        return surviving(self, plan, read)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (i,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[OSError | None]:
        return Written(sources[0], self.target)


def _write_missing(
    written: Written, ahead: Ahead, on_error: OnError, progress: Progress | None
) -> dict[int, str]:
    """Compute the missing items. Return the errors of items that failed, by index, if they are skipped."""
    target, failed = written.target, dict[int, str]()
    steps: list[Callable[[], object]] = [int, target.prepare]
    todo = np.flatnonzero(~target.done())
    done = target.n - len(todo)
    with (
        ahead(written._take(todo)) as node,
        prefetch(smap(lambda step: step(), steps), 1, "thread") as background,
        reporting(progress, "materialize") as report,
        tolerating(on_error),
    ):
        report(done, target.n)
        items, prepared = iter(node), iter(background)
        for k in range(len(todo)):
            if k == 1:  # all workers are forked, and a thread goes on from the first step to the second
                next(prepared)
            try:
                failure = next(items)
            except EvaluationError as error:
                i = _index(error, written, node, todo)
                if i is None:
                    raise
                error = _of_user(error, i, written, node)
                if on_error == "raise":
                    raise error from error.__cause__
                _recover(written, i, error, on_error, failed)
            else:
                target.check(failure)
            done += 1
            report(done, target.n)
        for _ in prepared:
            pass
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
    written: Written, i: int, error: EvaluationError, on_error: OnError, failed: dict[int, str]
) -> None:
    if callable(on_error):
        written.target.check(written.write(i, on_error(error)))
    else:
        failed[i] = summary(error.__cause__ or error)
