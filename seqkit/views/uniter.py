"""`uniter`: an iterable with an index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, NoReturn

from ..core.arguments import int_at_least, optional_int, positive_int, refuse_async, refuse_table
from ..core.epoch import DRAWS, EpochPair
from ..core.errors import EndOfSequence, brief, fail, summary
from ..core.expression import name_of
from ..core.indices import Endless, Indices, Plan, as_list
from ..core.iteration import Progress, restarting
from ..core.lengths import UNKNOWN, Length, Unsized
from ..core.set_epoch import listeners
from ..core.tracebacks import hide_frames
from ..core.view import T, View
from .bases.passes import Passes, Stopped

__all__ = ["Uniter", "uniter"]


def uniter(
    iterable: Iterable[T] | Callable[[], Iterable[T]],
    cache_size: int = 0,
    n_parallel: int = 1,
    size: int | None = None,
) -> View[T]:
    """Return the view of the items of an iterable. Reading item i iterates up to it.

    A larger index continues the iteration. A smaller one starts a new pass from the beginning.

    Parameters
    ----------
    iterable : iterable or callable
        An iterable that gives the same items each time, or a function that returns an iterator, such as a
        generator function. A one-shot iterator can only be read forwards.
    cache_size : int
        Number of most recent items to keep, 0 or more. Reading a kept item costs nothing.
    n_parallel : int
        Largest number of open passes, 1 or more. Use one for each position that is read in turn. A new pass
        replaces the least recently used one. A `prefetch` node above the view uses at most as many workers.
    size : int, optional
        Number of items, 0 or more. None (the default) uses ``len(iterable)``. If the iterable has no length,
        the length of the view is unknown, and it ends with the iterable.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `iterable` is neither iterable nor callable, or a number is not an int.
    ValueError
        If a number is too small.

    Notes
    -----
    A forward access draws the skipped items, and a backward access all items before the index. A batch of
    indices is read in ascending order. Each loop over all items is a pass of its own. Threads take turns.
    Finished iterators are closed. Batches and threads hold several items, so an iterable that fills one array
    again for each item must yield copies. After Ctrl-C, a new pass reads the interrupted item again. A
    one-shot iterator cannot give it again, so reading the item raises. After ``uniter`` of SeqTools.

    Examples
    --------
    >>> def squares():
    ...     for x in range(1000):
    ...         yield x * x
    >>> view = uniter(squares, size=1000)
    >>> view[30], view[31], view[-1], list(view[:3])
    (900, 961, 998001, [0, 1, 4])
    """
    if not isinstance(iterable, Iterable) and not callable(iterable):
        raise TypeError(
            "uniter: iterable must be iterable, or a function that returns an iterator, got"
            f" {brief(iterable)}"
        )
    refuse_table(iterable, "uniter: ")
    refuse_async(iterable, "uniter: iterable")
    cache_size = int_at_least(cache_size, "uniter: cache_size", 0)
    n_parallel = positive_int(n_parallel, "uniter: n_parallel")
    size = optional_int(size, "uniter: size", least=0)
    passes = Passes(iterable, cache_size, n_parallel)
    return Uniter(passes, _length(iterable) if size is None else size)


def _length(iterable: Any) -> Length:
    try:
        return len(iterable)
    except TypeError:
        return UNKNOWN


class Uniter(View[Any]):
    """The view that `uniter` returns."""

    def __init__(self, passes: Passes, n: Length) -> None:
        super().__init__((), n)
        self._passes = passes
        self._readers = passes.n_parallel
        self._varies = DRAWS if not passes.one_shot and listeners(passes.iterable) else 0

    def _get(self, i: int) -> Any:
        found = self._own().read(i)
        if isinstance(found, Stopped):
            self._refuse(i, found)
        return found

    def _own(self) -> Passes:
        """Return the passes of this process."""
        if self._passes.pid != os.getpid():
            self._passes = self._passes.after_fork()
        return self._passes

    def _refuse(self, i: int, stopped: Stopped) -> NoReturn:
        """Raise the reason why there is no item `i`."""
        at, error, again = stopped
        if error is not None and not (again and self._n is UNKNOWN):
            fail(self, i, error, f"at item {at}" if at < i else "")
        if self._n is UNKNOWN:
            why = f", for item {at} fails: {summary(error)}" if error is not None else ""
            raise EndOfSequence(f"the sequence ends before index {i}{why}") from error
        fail(self, i, IndexError(f"the iterable has ended after {at} items"))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted = as_list(indices)
        found = {i: self._get(i) for i in sorted(set(wanted))}  # forwards, whatever the order
        return [found[i] for i in wanted]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        stop = None if isinstance(self._n, Unsized) else self._n
        is_whole = isinstance(plan, range) and stop is not None and plan == range(stop)
        if self._passes.one_shot or not (is_whole or isinstance(plan, Endless)):
            return super()._iter(plan)
        return self._stream(stop)

    def _stream(self, stop: int | None) -> Iterator[Any]:
        """Iterate in a new pass, and after an error in another one, because the old position is unknown."""
        position, broken = 0, -1

        def run(progress: Progress) -> Iterator[Any]:
            nonlocal position, broken
            drawn, error = 0, None
            try:
                with closing(self._own().start()) as current:
                    for item in islice(current.items, stop):
                        drawn += 1
                        if drawn > position:
                            position = drawn
                            yield item
            except Exception as raised:
                error = raised
            # Without a length, an iterable that fails at the same item again has no items after it.
            progress.done = position == stop or (stop is None and (error is None or drawn == broken))
            if progress.done:
                return
            i, position, broken = position, position + 1, drawn
            try:
                self._refuse(i, Stopped(drawn, error))
            except Exception as refused:
                hide_frames(refused)
                raise

        return restarting(run)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        if epoch.draws in (None, self._passes.epoch):
            return self
        return Uniter(self._passes.at_epoch(epoch.draws), self._n)

    def _ordered(self, items: bool) -> tuple[Any, ...] | None:
        return None if self._passes.epoch is None else (self._n, self._passes.epoch)

    def _arguments(self, sources: list[str]) -> list[str]:
        iterable, passes = self._passes.iterable, self._passes
        name = f"<{type(iterable).__name__}>" if isinstance(iterable, Iterable) else None
        return [
            name or name_of(iterable),
            *[f"cache_size={passes.cache_size}"] * (passes.cache_size > 0),
            *[f"n_parallel={passes.n_parallel}"] * (passes.n_parallel > 1),
        ]
