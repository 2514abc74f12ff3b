"""`materialize`: compute all items now, into a list or a file."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, TypeAlias

from ...core.arguments import optional_int
from ...core.errors import brief
from ...core.lengths import UNBOUNDED, Unsized
from ...core.progress import Progress, Report, check_progress, reporting
from ...core.source import as_view
from ...core.tracebacks import hiding_frames
from ...core.view import Indexable, T, View, in_order
from ...core.worker import private_memory
from .attempts import OnError

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
    version: str | int | None = None,
) -> View[T]:
    """Compute all items of a sequence now, each once, and return a view of them.

    Parameters
    ----------
    sequence : View or indexable
        A sequence with an end. It needs a length only for a file.
    to : path-like, optional
        None (the default) keeps the items in a list. A path that ends in ``.npy`` writes them to this file:
        numbers or arrays of one shape and dtype. A path that ends in ``.parquet`` writes them to a folder of
        Parquet files: dicts with the same keys, whose values have the same types.
    nworkers : int, optional
        Number of workers that compute and write. None (the default): one per usable CPU. 0: none. Only with
        `to`.
    method : "process", "thread", "dask", "ray" or concurrent.futures.Executor
        Who computes and writes, as for `prefetch`. Workers on other machines need the path of `to`. Only
        with `to`.
    chunk_size : int, optional
        Items of a part (1 or more): a kill costs the parts in work. In Parquet it is also the number of rows
        that are decoded together. None (the default) follows from the bytes of the first items: a part has at
        most 8192 items and about 64 MiB, and a sequence has 64 parts or more. Only with `to`.
    progress : True or callable, optional
        True shows a bar of tqdm. A function is called with the number of items that are done and of
        all items, which is None if it is unknown.
    on_error : "raise" or "skip"
        What to do if an item fails. "raise" (the default) raises its error. "skip" leaves the item out, and
        warns at the end; only with a ``.parquet`` folder. See `fallback` for lists, and to put another item
        in its place.
    version : str or int, optional
        A name for the code and the data that the items are made with. It is written with the plan. Change it
        when they change: a folder of another version is refused. Only with `to`.

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
        If `to` has another suffix, or a folder was written with another plan: another number of items,
        `chunk_size`, order, `on_error` or `version`. If an argument that needs `to` is given without it, or
        "skip" without a ``.parquet`` folder. If all items fail.
    FileExistsError
        If there is something at `to` that is no finished folder of Parquet files by this function.
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

    Workers compute and write parts of consecutive items. After a crash the same call continues: a part that
    is there is done. A finished folder of Parquet files is not computed again. Functions are not compared,
    see `version`.

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
    if on_error not in ("raise", "skip"):
        raise ValueError(
            f"materialize: on_error must be 'raise' or 'skip', got {brief(on_error)}. For a function use"
            " fallback(function, sequence)."
        )
    if version is not None and not isinstance(version, str | int):
        raise TypeError(f"materialize: version must be a str or int, got {brief(version)}")
    if to is None:
        skip = None if on_error == "raise" else on_error
        for_files = {"nworkers": nworkers, "chunk_size": chunk_size, "version": version, "on_error": skip}
        for name in [name for name, value in for_files.items() if value is not None]:
            raise ValueError(
                f"materialize: {name} is for files, got to=None. Pass a path as to. For a list, use"
                " materialize(prefetch(sequence, nworkers)) or materialize(fallback('skip', sequence))."
            )
    with hiding_frames():
        if to is not None:
            from .writing import write

            return write(source, to, nworkers, chunk_size, progress, method, on_error, version)
    with hiding_frames(), private_memory(), reporting(progress, "materialize") as report:
        return as_view(_as_list(source, report), "materialize")


def _as_list(source: View[T], report: Report) -> list[T]:
    total, items = None if isinstance(source._n, Unsized) else source._n, list[T]()
    for item in in_order(source):
        items.append(item)
        report(len(items), total)
    return items
