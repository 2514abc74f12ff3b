"""`interleave`: several sequences in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice, pairwise
from typing import Any, Literal

from ..core.arguments import as_sequences
from ..core.errors import EndOfSequence
from ..core.indices import UNBOUNDED, UNKNOWN, Endless, Indices, Length, Plan, Unsized
from ..core.iteration import read_forwards, surviving
from ..core.once import cached
from ..core.source import as_view
from ..core.view import Indexable, T, View, sized
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
    A few binary searches among the sequences per access. An index reads sequences of unknown
    length to find out whether they reach it. After ``interleave`` of SeqTools; known elsewhere as
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

    _decides = ("_stop",)

    def __init__(self, sources: tuple[View[Any], ...], stop: Stop) -> None:
        super().__init__(sources)
        self._stop = stop

    def _length(self) -> Length:
        lengths = [source._n for source in self._sources]
        if all(n is not UNKNOWN for n in lengths):
            return UNBOUNDED if isinstance(self._rounds.length, Unsized) else self._rounds.length
        if self._stop == "shortest":
            raise TypeError(
                f"interleave: stop='shortest' needs sequences with a length, or unbounded: {UNKNOWN.reason}"
            )
        return UNBOUNDED if any(n is UNBOUNDED for n in lengths) else UNKNOWN

    @cached
    def _rounds(self) -> Rounds:
        lengths = [source._n for source in self._sources]
        return Rounds(lengths, min(lengths, default=0) if self._stop == "shortest" else UNBOUNDED)

    @cached
    def _is_clear(self) -> bool:
        """Do all sources have a length, or none because they are unbounded?"""
        return all(source._n is not UNKNOWN for source in self._sources)

    def _place(self, i: int) -> tuple[int, int]:
        return self._rounds.place(i)

    def _get(self, i: int) -> Any:
        return super()._get(i) if self._is_clear else read_forwards(self, i)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        if not self._is_clear:
            raise TypeError(f"interleave: assignment needs sequences with a length: {UNKNOWN.reason}")
        return super()._set(i, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return super()._parts(i) if self._is_clear else ()

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return super()._getmany(indices) if self._is_clear else View._getmany(self, indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._is_clear:
            return self._in_rounds(plan) if isinstance(plan, Endless) else View._iter(self, plan)
        rounds = self._rounds
        if isinstance(plan, Endless):
            return self._in_turn(plan, rounds.turns(0, self._n), [s._plan() for s in self._sources])
        if isinstance(plan, range) and plan.step == 1 and plan:
            shares = [*map(range, rounds.before(plan.start), rounds.before(plan.stop))]
            return self._in_turn(plan, rounds.turns(plan.start, plan.stop), shares)
        return super()._iter(plan)

    def _in_rounds(self, plan: Plan) -> Iterator[Any]:
        """Iterate all sources in turn, each as far as it goes."""
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

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Interleave(sources, self._stop)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._stop == "longest" else [*sources, f"stop={self._stop!r}"]


class Rounds:
    """Several sequences in turn: in round r, each sequence of more than r items has a turn.

    A *stretch* is a run of rounds in which the same sequences take part. `_firsts` holds the first round of
    each stretch, and `_starts` the index of its first item, followed by the length of all.

    Parameters
    ----------
    lengths : sequence of Length
    most : Length
        Most rounds.

    Examples
    --------
    >>> rounds = Rounds([1, 3], 3)
    >>> [rounds.place(i) for i in range(4)]
    [(0, 0), (1, 0), (1, 1), (1, 2)]
    """

    def __init__(self, lengths: Sequence[Length], most: Length) -> None:
        self._lengths = lengths
        self._sorted = sorted(lengths)
        self._last: tuple[int, list[int]] = (-1, [])
        ends = sorted({0, *(min(n, most) for n in lengths)})
        self._firsts = [int(end) for end in ends[:-1]]
        self._starts: list[Length] = [0]
        for first, end in pairwise(ends):
            size = (len(lengths) - bisect_right(self._sorted, first)) * (end - first)
            self._starts.append(end if isinstance(end, Unsized) else int(self._starts[-1] + size))
        self.length = self._starts[-1]

    def _stretch(self, i: int) -> tuple[int, int, list[int]]:
        """Return the number of the stretch of item `i`, how many items come before, and its sequences."""
        stretch = bisect_right(self._starts, i) - 1
        number, members = self._last  # replaced as a whole, so threads may share it
        if number != stretch:
            members = [which for which, n in enumerate(self._lengths) if n > self._firsts[stretch]]
            self._last = stretch, members
        return stretch, i - int(self._starts[stretch]), members

    def place(self, i: int) -> tuple[int, int]:
        """Return the sequence whose turn item `i` is, and the round."""
        stretch, offset, members = self._stretch(i)
        rounds, turn = divmod(offset, len(members))
        return members[turn], self._firsts[stretch] + rounds

    def turns(self, start: int, stop: Length) -> Iterator[int]:
        """Yield the sequence whose turn it is, for each item from `start` to `stop`."""
        while start < stop:
            stretch, offset, members = self._stretch(start)
            end = min(stop, self._starts[stretch + 1])
            first = offset % len(members)
            last = None if isinstance(end, Unsized) else first + end - start
            yield from islice(cycle(members), first, last)
            start = int(end)

    def before(self, i: int) -> list[int]:
        """Return how many items of each sequence come before item `i`."""
        which, j = self.place(i - 1) if i else (-1, 0)
        return [int(min(n, j + (number <= which))) for number, n in enumerate(self._lengths)]
