"""`count_chunks`: how long streams are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

from ..core.arguments import check_callable, int_at_least
from ..engine.prefetch import prefetch
from ..views.smap import smap
from .chunks import Opener
from .order import as_streams

__all__ = ["count_chunks"]


def count_chunks(
    streams: Any,
    open_fn: Callable[..., Iterable[Any]],
    nworkers: int = 0,
    *,
    method: Literal["process", "thread"] = "process",
) -> list[int]:
    """Return the number of chunks of each stream, as `StreamLoader` takes them for `lengths`.

    Parameters
    ----------
    streams : View or sequence
        The streams, in the order in which the loader gets them.
    open_fn : callable
        ``open_fn(stream)`` returns an iterable of chunks.
    nworkers : int
        Number of workers that count, at least 0. 0 (the default) counts in the consumer's thread.
    method : "process" or "thread"
        Whether workers are processes or threads.

    Returns
    -------
    list of int

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, or is out of range.
    EvaluationError
        If a stream cannot be read to its end.

    Notes
    -----
    Reads every stream once, chunk by chunk. If your files hold the number, read it from them. Save the
    result with the data.

    Examples
    --------
    >>> count_chunks([3, 1], range)
    [3, 1]
    """
    check_callable(open_fn, "count_chunks: open_fn")
    source, _ = as_streams(streams, "count_chunks")
    nworkers = int_at_least(nworkers, "count_chunks: nworkers", 0)
    counts = smap(partial(_count, Opener(open_fn)), source)
    if not nworkers:
        return list(counts)
    with prefetch(counts, nworkers, method) as counted:
        return list(counted)


def _count(opener: Opener, stream: Any) -> int:
    chunks, _ = opener.open(stream)
    return sum(1 for _ in chunks)
