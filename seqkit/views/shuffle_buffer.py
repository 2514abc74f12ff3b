"""`shuffle_buffer`: a random order within a buffer, for sequences that can only be iterated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.arguments import positive_int
from ..core.epoch import ORDER
from ..core.indices import Endless, IndexArray, Indices, Plan, as_list
from ..core.iteration import surviving
from ..core.lengths import Unsized
from ..core.once import cached
from ..core.randomness import as_seed
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.forwards import FailedItem, next_item, outcomes, read_forwards
from .bases.passes import Passes
from .bases.random import Random
from .bases.selection import Selection

__all__ = ["ShuffleBuffer", "shuffle_buffer"]


def shuffle_buffer(sequence: Indexable[T], size: int, seed: int | None = None) -> View[T]:
    """Return the view of the items of a sequence in a random order, within a buffer.

    The buffer is filled first. Then each new item takes the place of a random one, which comes out. An item
    comes at most `size` - 1 places early, and may come any number of places late. Memory holds `size` items.
    Each epoch has an order of its own, see `View.at_epoch`.

    Parameters
    ----------
    sequence : View or indexable
        It may have no length, such as ``uniter(lines)``.
    size : int
        Items in the buffer (1 or more).
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Returns
    -------
    View
        It has the length of `sequence`, if there is one.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, or is out of range.

    Notes
    -----
    For sequences without a length, which are iterated up to an index. With a length, an index takes a table
    of the order. The buffer holds several items, so a sequence that fills one array again for each item must
    give copies. For an order without a limit use `shuffle`, which needs a length. Modelled on the shuffle of
    ``tf.data``.

    Examples
    --------
    >>> order = list(shuffle_buffer(range(100), 10, seed=0))
    >>> sorted(order) == list(range(100)), max(item - place for place, item in enumerate(order)) <= 9
    (True, True)
    """
    source = as_view(sequence, "shuffle_buffer")
    size = positive_int(size, "shuffle_buffer: size")
    return ShuffleBuffer(source, size, as_seed(seed, "shuffle_buffer: seed"), 0)


class ShuffleBuffer(Selection, Random):
    """The view that `shuffle_buffer` returns."""

    _varies = ORDER
    _forwards: Passes | None = None  # see `read_forwards`

    def __init__(
        self, source: View[Any], size: int, seed: int, epoch: int, name: str | int | None = None
    ) -> None:
        Random.__init__(self, (source,), seed, epoch, name)
        self._size = size

    @cached
    def _order(self) -> IndexArray:
        return np.fromiter(self._buffered(range(len(self))), np.int64)

    def _buffered(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield items in random order, within a buffer."""
        rng = np.random.Generator(np.random.Philox(key=self._key))
        held: list[Any] = []
        for item in items:
            if len(held) < self._size:
                held.append(item)
                continue
            place = rng.integers(self._size)
            yield held[place]
            held[place] = item
        rng.shuffle(held)
        yield from reversed(held)

    def _where(self, i: int) -> int:
        return int(self._order[i])

    def _many(self, indices: Indices) -> Indices:
        return self._order[indices if isinstance(indices, np.ndarray) else as_list(indices)]

    def _get(self, i: int) -> Any:
        return read_forwards(self, i) if isinstance(self._n, Unsized) else super()._get(i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if isinstance(self._n, Unsized):
            return View._getmany(self, indices)
        return super()._getmany(indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        is_whole = isinstance(plan, range) and plan == range(plan.stop) and plan.stop == self._n
        if is_whole or isinstance(plan, Endless):  # so the source is read forwards
            return self._in_one_pass(plan)
        return View._iter(self, plan) if isinstance(self._n, Unsized) else super()._iter(plan)

    def _in_one_pass(self, plan: Plan) -> Iterator[Any]:
        items = self._buffered(outcomes(self._sources[0]))  # in which an item that failed has a place too

        def read(i: int) -> Any:
            item = next_item(items, i)
            if isinstance(item, FailedItem):
                raise item.error
            return item

        return surviving(self, plan, read)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return () if isinstance(self._n, Unsized) else super()._parts(i)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return *(super()._ordered(items) or ()), self._size

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return ShuffleBuffer(sources[0], self._size, self._seed, self._epoch, self._given_name)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [*sources, str(self._size), *self._key_arguments()]
