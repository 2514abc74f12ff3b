"""`interleave`: several sequences in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..core.arguments import as_sequences
from ..core.errors import EndOfSequence
from ..core.indices import Endless, Plan
from ..core.iteration import surviving
from ..core.lengths import UNBOUNDED, UNKNOWN, Length, Unsized, sized
from ..core.once import cached
from ..core.source import as_view
from ..core.view import Indexable, T, View
from .bases.one_of_several import OneOfSeveral

__all__ = ["Interleave", "interleave"]


def interleave(*sequences: Indexable[T]) -> View[T]:
    """Return the view of the items of several sequences in turn: all first items, then all second items, ….

    Parameters
    ----------
    *sequences : View or indexable
        One list of sequences may take their place, as in `concatenate`, `collate` and `mix`. A list of tuples
        is one sequence. If one has an unknown length, so has the view. Without sequences, the view is empty.

    Returns
    -------
    View
        Its length is the sum of all lengths. When one sequence ends, it continues with the others.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed.

    Notes
    -----
    One binary search among the lengths per access. After ``interleave`` of SeqTools; known elsewhere as
    ``roundrobin``, ``interleave_datasets``. See `mix` for given proportions.

    Examples
    --------
    >>> list(interleave("abcd", [1, 2]))
    ['a', 1, 'b', 2, 'c', 'd']
    """
    return sized(Interleave(tuple(as_view(s, "interleave") for s in as_sequences(sequences))))


class Interleave(OneOfSeveral):
    """The view that `interleave` returns."""

    def _length(self) -> Length:
        is_unknown = any(source._n is UNKNOWN for source in self._sources)
        return UNKNOWN if is_unknown else self._stretches.starts[-1]

    @cached
    def _stretches(self) -> Stretches:
        return Stretches([source._n for source in self._sources])

    def _place(self, i: int) -> tuple[int, int]:
        return self._stretches.place(i)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        is_whole = isinstance(plan, range) and plan == range(plan.stop) and plan.stop == self._n
        return self._in_rounds(plan) if is_whole or isinstance(plan, Endless) else super()._iter(plan)

    def _in_rounds(self, plan: Plan) -> Iterator[Any]:
        """Iterate all sources in turn, each from its first item to its end."""
        waiting = deque(source._iter(source._plan()) for source in self._sources)

        def read(i: int) -> Any:
            while waiting:
                items = waiting.popleft()
                try:
                    item = next(items)
                except StopIteration:
                    continue
                except Exception:
                    waiting.append(items)
                    raise
                waiting.append(items)
                return item
            raise EndOfSequence(f"the sequence ends before index {i}")

        return surviving(self, plan, read)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return ()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Interleave(sources)


class Stretches:
    """Several sequences in turn: in round r, each sequence of more than r items has a turn.

    A *stretch* is a run of rounds in which the same sequences take part. `firsts` holds the first round of
    each stretch, and `starts` the index of its first item, followed by the length of all.

    Parameters
    ----------
    lengths : sequence of Length

    Examples
    --------
    >>> stretches = Stretches([1, 3])
    >>> [stretches.place(i) for i in range(4)]
    [(0, 0), (1, 0), (1, 1), (1, 2)]
    """

    def __init__(self, lengths: Sequence[Length]) -> None:
        self._lengths = lengths
        self._last: tuple[int, list[int]] = (-1, [])
        ordered = sorted(self._lengths)
        ends = sorted({0, *ordered})
        self.firsts = [int(end) for end in ends[:-1]]
        self.starts: list[Length] = [0]
        for first, end in pairwise(ends):
            size = (len(lengths) - bisect_right(ordered, first)) * (end - first)
            self.starts.append(UNBOUNDED if isinstance(end, Unsized) else int(self.starts[-1] + size))

    def place(self, i: int) -> tuple[int, int]:
        """Return the sequence whose turn item `i` is, and the round."""
        stretch = bisect_right(self.starts, i) - 1
        number, members = self._last  # replaced as a whole, so threads may share it
        if number != stretch:
            members = [which for which, n in enumerate(self._lengths) if n > self.firsts[stretch]]
            self._last = stretch, members
        rounds, turn = divmod(i - int(self.starts[stretch]), len(members))
        return members[turn], self.firsts[stretch] + rounds
