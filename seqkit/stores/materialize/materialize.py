"""`materialize`: compute all items now, into a list or a file."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, TypeAlias

from ...core.arguments import optional_int
from ...core.errors import EvaluationError, as_given, summary
from ...core.lengths import UNBOUNDED, Unsized
from ...core.progress import Progress, Report, check_progress, reporting
from ...core.source import as_view
from ...core.tracebacks import hiding_frames
from ...core.view import Indexable, T, View, in_order
from ...core.worker import private_memory
from .failed_items import OnError, report_failed, tolerating

__all__ = ["materialize"]

Method: TypeAlias = Literal["process", "thread", "inline", "dask", "ray"] | Any  # or an executor


def materialize(
    sequence: Indexable[T],
    to: str | PathLike[str] | None = None,
    *,
    nworkers: int | None = None,
    method: Method = "process",
    chunk_size: int | None = None,
    progress: Progress | None = None,
    on_error: OnError = "raise",
) -> View[T]:
    """Compute all items of a sequence now, each once, and return a view of them.

    Parameters
    ----------
    sequence : View or indexable
        A sequence with an end. It needs a length only for a file.
    to : path-like, optional
        None (the default) keeps the items in a list. A path that ends in ``.npy`` writes them to this file:
        numbers or arrays of one shape and dtype. A path that ends in ``.parquet`` writes them to a folder of
        Parquet files: dicts with the same keys, or tuples of the same length. They come back with the types
        that they have: numpy scalars and arrays, also of different lengths, text, bytes, dates, None, and
        dicts, tuples and lists of them.
    nworkers : int, optional
        Number of workers that compute and write. None (the default): one per usable CPU. 0: none. Only with
        `to`.
    method : "process", "thread", "dask", "ray" or concurrent.futures.Executor
        Who computes and writes, as for `prefetch`. Workers on other machines need the path of `to`. Only
        with `to`.
    chunk_size : int, optional
        Rows of a Parquet file, in one row group (1 or more). None (the default): 8192, or fewer of more than
        64 MiB. Only with `to`.
    progress : True or callable, optional
        True shows a bar of tqdm. A function is called with the number of items that are done and of
        all items, which is None if it is unknown.
    on_error : "raise", "skip" or callable
        What to do if an item fails. "raise" (the default) raises its error. "skip" leaves the item out, and
        warns at the end. A callable gets the `EvaluationError` and returns an item to keep instead.

    Returns
    -------
    View
        Of the list or the file. Assignment changes the list, not the sequence.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, never ends, or has no length and `to` needs one. If an argument has
        the wrong type.
    ValueError
        If `to` has another suffix, or the folder ``<to>.partial`` belongs to another sequence. If an
        argument that needs `to` is given without it. If all items fail.
    FileExistsError
        If there is something at `to`.
    RuntimeError
        If another process is writing to `to`.
    OSError
        If the file cannot be written, such as on a full disk. `on_error` does not matter, and the same call
        continues.
    EvaluationError
        If an item cannot be computed, or does not fit the items before it in the file.

    Notes
    -----
    About 0.1 µs per access to a list. Random items stay as they are: `View.at_epoch` has no effect.

    Files are written in the folder ``<to>.partial``. Workers write each item as soon as it is computed. After
    a crash the same call continues. It computes item 0 and the last item that is written again, and no other
    written one. If one of the two or the expression has changed, the call raises ValueError. Delete the
    folder to begin again. Items for Parquet are pickled there first, and need space twice until they are in
    their files.

    See `add_cache` to compute items on demand, `pack` to share them between processes. Known elsewhere as
    ``list``, ``compute``, ``cache``.

    Examples
    --------
    >>> import seqkit as sk
    >>> squares = sk.smap(lambda x: x * x, range(1000))
    >>> materialize(squares), materialize(squares)[-1]
    (<list of 1000>, 998001)
    >>> stored = materialize(squares, getfixture("tmp_path") / "squares.npy", nworkers=0)
    >>> stored, stored[-1]
    (<ndarray of 1000 in squares.npy>, np.int64(998001))
    """
    source = as_view(sequence, "materialize")
    if source._n is UNBOUNDED:
        raise TypeError("materialize: the sequence must end, got an unbounded one. Use sequence[:n].")
    chunk_size = optional_int(chunk_size, "materialize: chunk_size")
    check_progress(progress, "materialize: progress")
    if not callable(on_error) and on_error not in ("raise", "skip"):
        raise ValueError(
            f"materialize: on_error must be 'raise', 'skip' or callable, got {as_given(on_error)}"
        )
    if to is None:
        for_files = {"nworkers": nworkers, "chunk_size": chunk_size}
        for name in [name for name, value in for_files.items() if value is not None]:
            raise ValueError(
                f"materialize: {name} is for files, got to=None. Pass a path as to, or use"
                " materialize(prefetch(sequence, nworkers)) for a list."
            )
    with hiding_frames():
        if to is not None:
            from .writing import write

            return write(source, to, nworkers, chunk_size, progress, method, on_error)
    with hiding_frames(), private_memory(), reporting(progress, "materialize") as report:
        return as_view(_as_list(source, report, on_error), "materialize")


def _as_list(source: View[T], report: Report, on_error: OnError) -> list[T]:
    total = None if isinstance(source._n, Unsized) else source._n
    items, failed, left, position = list[T](), dict[int, str](), in_order(source), 0
    with tolerating(on_error):
        while True:
            try:
                items.append(next(left))
            except StopIteration:
                break
            except EvaluationError as error:
                if on_error == "raise":
                    raise
                if callable(on_error):
                    items.append(on_error(error))
                else:
                    failed[position] = summary(error.__cause__ or error)
            position += 1
            report(position, total)
    report_failed(failed, position)
    return items
