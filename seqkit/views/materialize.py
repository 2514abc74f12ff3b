"""`materialize`: compute all items now, into a list or a file."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

from ..checks import check_callable, optional_int
from ..context import private_memory
from ..frames import hiding_frames
from ..indices import UNBOUNDED
from ..source import as_view
from ..view import Indexable, T, View, in_order

__all__ = ["materialize"]


def materialize(
    sequence: Indexable[T],
    to: str | PathLike[str] | None = None,
    *,
    nworkers: int | None = None,
    chunk_size: int | None = None,
    progress: Callable[[int, int | None], Any] | None = None,
) -> View[T]:
    """Compute all items of a sequence now, each once, and return a view of them.

    Parameters
    ----------
    sequence : View or indexable
        A sequence with an end. It needs a length only for a file.
    to : path-like, optional
        None (the default) keeps the items in a list. A path that ends in ``.npy`` writes them to this file:
        numbers or arrays of one shape and dtype. A path that ends in ``.parquet`` writes them to a folder of
        Parquet files: dicts with the same keys.
    nworkers : int, optional
        Number of processes that compute and write. None (the default): one per usable CPU. 0: none. Only
        with `to`.
    chunk_size : int, optional
        Items that are written together (1 or more). In Parquet they are a row group. None (the default): 8
        MiB for ``.npy``, 8192 rows for ``.parquet``. Only with `to`.
    progress : callable, optional
        Called with the number of items written so far and the number of items. Only with `to`.

    Returns
    -------
    View
        Of the list or the file. Assignment changes the list, not the sequence.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, never ends, or has no length and `to` needs one.
    ValueError
        If `to` has another suffix, or the folder ``<to>.partial`` belongs to another sequence.
    FileExistsError
        If there is something at `to`.
    EvaluationError
        If an item cannot be computed, or does not fit the items before it in the file.

    Notes
    -----
    About 0.1 µs per access to a list. Random items stay as they are: `View.at_epoch` has no effect.

    Files are written in the folder ``<to>.partial``, which is moved when it is complete and its sizes are
    right. After a crash the same call continues: complete pieces are not computed again. If the expression
    or item 0 has changed since, the call raises ValueError. Delete the folder to begin again.

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
    (<ndarray of 1000>, np.int64(998001))
    """
    source = as_view(sequence, "materialize")
    if source._n is UNBOUNDED:
        raise TypeError("materialize: the sequence must end, got an unbounded one. Use sequence[:n].")
    chunk_size = optional_int(chunk_size, "materialize: chunk_size")
    check_callable(progress, "materialize: progress", optional=True)
    with hiding_frames():
        if to is not None:
            from ..sources.writing import write

            return write(source, to, nworkers, chunk_size, progress)
    with hiding_frames(), private_memory():
        return as_view(list(in_order(source)), "materialize")
