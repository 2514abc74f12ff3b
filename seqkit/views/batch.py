"""`batch` and `unbatch`: items in groups of k, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, overload

import numpy as np

from ..checks import as_bool, check_callable, optional_int, positive_int
from ..context import empty
from ..errors import EndOfSequence, EvaluationError, brief, fail
from ..indices import UNKNOWN, Endless, Expanded, Indices, Length, Plan, Unsized, as_list, each
from ..iteration import Progress, restarting, step_over, until_the_end
from ..source import as_view
from ..trace import locate
from ..view import Indexable, T, U, View, name_of
from .deferred import Deferred
from .grouped import Groups

__all__ = ["Batch", "Unbatch", "batch", "unbatch"]

Last = Literal["keep", "discard", "pad"]


@overload
def batch(
    sequence: Indexable[T],
    k: int,
    drop_last: bool = False,
    pad: Any = None,
    collate_fn: None = None,
    *,
    last: Last | None = None,
) -> View[list[T]]: ...
@overload
def batch(
    sequence: Indexable[T],
    k: int,
    drop_last: bool = False,
    pad: Any = None,
    collate_fn: Callable[[list[T]], U] = ...,
    *,
    last: Last | None = None,
) -> View[U]: ...
def batch(
    sequence: Any,
    k: int,
    drop_last: bool = False,
    pad: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    *,
    last: Last | None = None,
) -> View[Any]:
    """Return the view of lists of k successive items.

    Parameters
    ----------
    sequence : View or indexable
        May be unbounded.
    k : int
        Items per batch, at least 1.
    drop_last : bool
        Leave out a last batch of fewer than k items; the same as ``last="discard"``.
    pad : object
        Complete a short last batch with this; None (the default) leaves it short.
    collate_fn : callable, optional
        Turns the list of items into what the batch shall be. ``numpy.asarray``, ``numpy.array`` and
        ``numpy.stack`` read an array source with one fancy index, and stack arrays right into the slot of
        a process worker, see `seqkit.empty`.
    last : "keep", "discard" or "pad", optional
        What becomes of a short last batch; ``"pad"`` makes None a legal `pad`.

    Returns
    -------
    View
        Of length ``ceil(n / k)``, or ``n // k`` where the short batch is discarded.

    Raises
    ------
    TypeError
        If `k` is no int, `drop_last` no bool, `collate_fn` not callable, or `sequence` cannot be indexed.
    ValueError
        If `k` is below 1, `last` unknown, or `last` at odds with `drop_last` or `pad`.

    Notes
    -----
    k reads per access, in one batched read where the source offers it. After ``batch`` of SeqTools; known
    elsewhere as ``BatchView``, ``chunks``.

    Examples
    --------
    >>> list(batch("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    >>> list(batch([1, 2, 3], 2, pad=0))
    [[1, 2], [3, 0]]
    >>> batch(range(6), 3, collate_fn=sum)[1]
    12
    """
    k = positive_int(k, "batch: k")
    drop_last = as_bool(drop_last, "batch: drop_last")
    check_callable(collate_fn, "batch: collate_fn", optional=True)
    return Batch(as_view(sequence, "batch"), k, _last_policy(drop_last, pad, last), pad, collate_fn)


def _last_policy(drop_last: bool, pad: Any, last: Last | None) -> Last:
    if last is None:
        return "discard" if drop_last else "keep" if pad is None else "pad"
    if last not in ("keep", "discard", "pad"):
        raise ValueError(f"batch: last must be 'keep', 'discard' or 'pad', got {last!r}")
    if drop_last and last != "discard":
        raise ValueError(f"batch: drop_last=True means last='discard', got last={last!r}")
    if pad is not None and last != "pad":
        raise ValueError(f"batch: pad needs last='pad', got last={last!r}")
    return last


class Batch(View[Any]):
    """The view behind `batch`."""

    def __init__(
        self,
        source: View[Any],
        k: int,
        last: Last,
        pad: Any,
        collate_fn: Callable[[list[Any]], Any] | None,
    ) -> None:
        n = source._n
        if not isinstance(n, Unsized):
            n = n // k if last == "discard" else -(-n // k)
        super().__init__((source,), n)
        self._k = k
        self._last = last
        self._pad = pad
        self._given_fn = collate_fn
        self._collate_fn = _stacked if collate_fn in _ARRAY_COLLATES else collate_fn
        # A collate function that says so gets the items of an array source as one array.
        self._takes_arrays: bool = getattr(self._collate_fn, "takes_arrays", False)

    def _members(self, i: int) -> range:
        start = i * self._k
        return range(start, int(min(start + self._k, self._sources[0]._n)))

    def _takes(self, items: Any) -> bool:
        """Can the collate function have the items as they are?"""
        if isinstance(items, np.ndarray):
            # Single items of other arrays make another one: strings shrink, objects are looked into.
            return self._takes_arrays and items.dtype.kind in "biufcmMV" and items.dtype.isnative
        return isinstance(items, list)

    def _finish(self, i: int, items: Any) -> Any:
        """Make the batch of its items."""
        missing = self._k - len(items) if self._last == "pad" else 0
        if missing:
            items = [*items, *[self._pad] * missing]
        if self._collate_fn is None:
            return items if isinstance(items, list) else list(items)
        try:
            return self._collate_fn(items if self._takes(items) else list(items))
        except Exception as error:
            fail(self, i, error, "in collate_fn")

    def _get(self, i: int) -> Any:
        source, members = self._sources[0], self._members(i)
        if source._n is not UNKNOWN:
            return self._finish(i, source._getmany(members))
        items = until_the_end(source, members)
        if self._is_behind_the_end(items):
            raise EndOfSequence(f"the sequence ends before batch {i}")
        return self._finish(i, items)

    def _is_behind_the_end(self, items: list[Any]) -> bool:
        return not items or (len(items) < self._k and self._last == "discard")

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._reads_ahead:
            return super()._iter(plan)  # one batched read per batch
        items = self._sources[0]._iter(self._item_plan(plan))
        indices, owed = each(plan), 0

        def run(progress: Progress) -> Iterator[Any]:
            nonlocal owed
            for i in indices:
                left, count = owed, len(self._members(i))
                owed += count
                for _ in range(left):  # of batches that an error came from
                    owed -= 1
                    step_over(items)
                drawn: list[Any] = []
                try:
                    drawn.extend(islice(items, count))
                except BaseException as error:
                    owed -= len(drawn) + 1
                    if isinstance(error, EvaluationError):
                        locate(error, self, i)
                    raise
                owed = 0
                if self._is_behind_the_end(drawn):
                    break
                yield self._finish(i, drawn)
            progress.done = True

        return restarting(run)

    def _item_plan(self, plan: Plan) -> Plan:
        if isinstance(plan, Endless):
            return plan
        if isinstance(plan, range) and plan.step == 1:
            start = plan.start * self._k
            return range(start, max(start, int(min(plan.stop * self._k, self._sources[0]._n))))
        return Expanded(plan, self._members)

    def _check_settable(self, i: int) -> None:
        if self._collate_fn is not None and self._collate_fn is not _stacked:
            raise TypeError("batch does not support assignment through a collate_fn")
        super()._check_settable(i)

    def _set(self, i: int, value: Any) -> None:
        members, values = self._members(i), list(value)
        padded = self._last == "pad" and len(values) == self._k
        if len(values) != len(members) and not padded:
            raise ValueError(f"batch: assigned {len(values)} values to a batch of {len(members)} items")
        for j, item in zip(members, values, strict=False):
            self._sources[0]._set(j, item)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], self._members(i)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Batch(sources[0], self._k, self._last, self._pad, self._given_fn)

    def _arguments(self, sources: list[str]) -> list[str]:
        pad = "last='pad'" if self._pad is None else f"pad={brief(self._pad)}"
        last = {"keep": [], "discard": ["drop_last=True"], "pad": [pad]}[self._last]
        function = [] if self._given_fn is None else [f"collate_fn={name_of(self._given_fn)}"]
        return [*sources, str(self._k), *last, *function]


_ARRAY_COLLATES = (np.asarray, np.array, np.stack)


def _stacked(items: Any) -> Any:
    """Return the items as one array, in memory that is the batch's own and, in a worker, in its slot."""
    if isinstance(items, list) and not _alike(items):
        return np.asarray(items)
    if isinstance(items, np.ndarray):
        if items.base is None:
            return items
        out = empty(items.shape, items.dtype)
        out[...] = items
        return out
    out = empty((len(items), *items[0].shape), np.result_type(*items))
    return np.stack(items, out=out)


def _alike(items: list[Any]) -> bool:
    """Are they arrays of one shape?"""
    shape = getattr(items[0], "shape", ()) if items else ()
    return bool(shape) and all(type(item) is np.ndarray and item.shape == shape for item in items)


_stacked.takes_arrays = True  # type: ignore[attr-defined]


def unbatch(
    sequence: Indexable[Indexable[T]], batch_size: int, last_batch_size: int | None = None
) -> View[T]:
    """Return the view of the single items of a sequence of batches.

    Parameters
    ----------
    sequence : View or indexable
        Of sized, indexable batches, each of `batch_size` items but the last.
    batch_size : int
        Items per batch, at least 1.
    last_batch_size : int, optional
        Items of the last batch, in ``[0, batch_size]``; 0 means that it is full. None (the default) reads
        the last batch when the length is first needed.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If a size is no int or `sequence` cannot be indexed.
    ValueError
        If a size is out of range; and, when an item is read, if its batch has another size.

    Notes
    -----
    One batch read per item at random, one per batch in order. After ``unbatch`` of SeqTools.

    Examples
    --------
    >>> list(unbatch([[1, 2], [3, 4], [5]], 2))
    [1, 2, 3, 4, 5]
    """
    batch_size = positive_int(batch_size, "unbatch: batch_size")
    last_batch_size = optional_int(last_batch_size, "unbatch: last_batch_size", least=0)
    if last_batch_size is not None and last_batch_size > batch_size:
        raise ValueError(
            f"unbatch: last_batch_size must be at most batch_size {batch_size}, got {last_batch_size}"
        )
    return Unbatch(as_view(sequence, "unbatch"), batch_size, last_batch_size)


class Unbatch(View[Any]):
    """The view behind `unbatch`."""

    def __init__(self, source: View[Any], batch_size: int, last_batch_size: int | None) -> None:
        super().__init__((source,), None)
        self._batch_size = batch_size
        self._last_batch_size = last_batch_size
        self._length: Deferred[Length] = Deferred()

    @property
    def _n(self) -> Length:  # type: ignore[override]
        return self._length.get(self._measure)

    @property
    def _measured(self) -> bool:  # type: ignore[override]
        return self._length.known or self._last_batch_size is not None

    def _measure(self) -> Length:
        batches, last = self._sources[0]._n, self._last_batch_size
        if isinstance(batches, Unsized) or batches == 0:
            return batches
        if last is None:
            last = min(self._size_of_last(batches - 1), self._batch_size)  # too large fails when read
        elif last == 0:
            last = self._batch_size
        return (batches - 1) * self._batch_size + last

    def _size_of_last(self, which: int) -> int:
        batch = self._sources[0][which]
        try:
            return len(batch)
        except Exception as error:
            fail(self, which * self._batch_size, error, "counting the items of the last batch")

    def _size(self, which: int, items: Any) -> int:
        """Return how many items batch `which` must have; where the number of batches is unknown, only
        the last may have fewer."""
        if self._n is UNKNOWN and len(items) < self._batch_size and self._ends_after(which):
            return len(items)
        return int(min(self._batch_size, self._n - which * self._batch_size))

    def _ends_after(self, which: int) -> bool:
        try:
            self._sources[0]._get(which + 1)
        except EndOfSequence:
            return True
        return False

    def _pick(self, i: int, items: Any) -> Any:
        """Return item `i` out of its batch."""
        which, place = divmod(i, self._batch_size)
        try:
            size = self._size(which, items)
            if len(items) != size:
                raise ValueError(f"unbatch: batch {which} has {len(items)} items, expected {size}")
            if place < size:
                return items[place]
        except Exception as error:
            fail(self, i, error)
        raise EndOfSequence(f"the sequence ends before index {i}")

    def _get(self, i: int) -> Any:
        return self._pick(i, self._sources[0]._get(i // self._batch_size))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted = as_list(indices)
        batches = list(dict.fromkeys(i // self._batch_size for i in wanted))
        read = dict(zip(batches, self._sources[0]._getmany(batches), strict=True))
        return [self._pick(i, read[i // self._batch_size]) for i in wanted]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            return self._stream(plan, plan)
        if isinstance(plan, range) and plan.step == 1 and plan:
            first, last = plan[0] // self._batch_size, plan[-1] // self._batch_size
            return self._stream(plan, range(first, last + 1))
        return super()._iter(plan)

    def _stream(self, plan: Plan, batch_plan: Plan) -> Iterator[Any]:
        """Read every batch once; where reading fails, each of its items fails."""
        source, indices = self._sources[0], each(plan)
        batches = Groups(source, source._iter(batch_plan))

        def run(progress: Progress) -> Iterator[Any]:
            for i in indices:
                try:
                    item = self._pick(i, batches.read(i // self._batch_size))
                except EndOfSequence:
                    break
                yield item
            progress.done = True

        return restarting(run)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (i // self._batch_size,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Unbatch(sources[0], self._batch_size, self._last_batch_size)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, str(self._batch_size)]
