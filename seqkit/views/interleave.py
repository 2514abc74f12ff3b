"""`interleave`: several sequences in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

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

Stop = Literal["longest", "shortest"]


def interleave(*sequences: Indexable[T], stop: Stop = "longest") -> View[T]:
    """Return the view of the items of several sequences in turn: all first items, then all second items, ….

    Parameters
    ----------
    *sequences : View or indexable
        One list of sequences may take their place, as in `concatenate`, `collate` and `mix`. A list of tuples
        is one sequence. If one has an unknown length, so has the view. Without sequences, the view is empty.
    stop : "longest" or "shortest"
        When one sequence ends, continue with the others (default), or end with the last complete round.

    Returns
    -------
    View
        The sum of all lengths, or with ``"shortest"`` the shortest length times the number of sequences.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed, or has an unknown length with ``"shortest"``.
    ValueError
        If `stop` is something else.

    Notes
    -----
    One binary search among the lengths per access. After ``interleave`` of SeqTools; known elsewhere as
    ``roundrobin``, ``interleave_datasets``. See `mix` for given proportions.

    Examples
    --------
    >>> list(interleave("abcd", [1, 2]))
    ['a', 1, 'b', 2, 'c', 'd']
    >>> list(interleave("abcd", [1, 2], stop="shortest"))
    ['a', 1, 'b', 2]
    """
    if stop not in ("longest", "shortest"):
        raise ValueError(f"interleave: stop must be 'longest' or 'shortest', got {stop!r}")
    sources = tuple(as_view(s, "interleave") for s in as_sequences(sequences))
    return sized(Interleave(sources, stop))


class Interleave(OneOfSeveral):
    """The view that `interleave` returns."""

    def __init__(self, sources: tuple[View[Any], ...], stop: Stop) -> None:
        super().__init__(sources)
        self._stop = stop

    def _length(self) -> Length:
        if all(source._n is not UNKNOWN for source in self._sources):
            return self._stretches.starts[-1]
        if self._stop == "shortest":
            raise TypeError(
                f"interleave: stop='shortest' needs sequences with a length, or unbounded: {UNKNOWN.reason}"
            )
        return UNKNOWN

    @cached
    def _stretches(self) -> Stretches:
        lengths = [source._n for source in self._sources]
        return Stretches(lengths, min(lengths, default=0) if self._stop == "shortest" else UNBOUNDED)

    def _place(self, i: int) -> tuple[int, int]:
        return self._stretches.place(i)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            return self._in_rounds(plan, [source._plan() for source in self._sources])
        if isinstance(plan, range) and plan == range(plan.stop) and plan.stop == self._n:
            return self._in_rounds(plan, self._stretches.shares())
        return super()._iter(plan)

    def _in_rounds(self, plan: Plan, shares: Sequence[Plan]) -> Iterator[Any]:
        """Iterate all sources in turn, each over its share of the plan."""
        waiting = deque(source._iter(share) for source, share in zip(self._sources, shares, strict=True))

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
        return (self._stop,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Interleave(sources, self._stop)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._stop == "longest" else [*sources, f"stop={self._stop!r}"]


class Stretches:
    """Several sequences in turn: in round r, each sequence of more than r items has a turn.

    A *stretch* is a run of rounds in which the same sequences take part. `firsts` holds the first round of
    each stretch, and `starts` the index of its first item, followed by the length of all.

    Parameters
    ----------
    lengths : sequence of Length
    most : Length
        Most rounds.

    Examples
    --------
    >>> stretches = Stretches([1, 3], 3)
    >>> [stretches.place(i) for i in range(4)], stretches.shares()
    ([(0, 0), (1, 0), (1, 1), (1, 2)], [range(0, 1), range(0, 3)])
    """

    def __init__(self, lengths: Sequence[Length], most: Length) -> None:
        self._lengths = [min(n, most) for n in lengths]
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

    def shares(self) -> list[range]:
        """Return the items of each sequence that have a turn, if all sequences end."""
        return [range(int(n)) for n in self._lengths]
